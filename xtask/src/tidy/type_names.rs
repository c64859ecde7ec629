//! One name, one thing: a name that many crates give to types of their own says nothing where it stands alone.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{Ident, Item, Visibility};

use super::Breach;
use super::purity::{is_test, is_test_file};
use super::tree::Tree;

/// More crates than this may not define a public type of the same name.
const MAX_CRATES: usize = 2;

/// Names that more crates may define, each with its reason.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("Error", "each library has one error type, called so as in std"),
    ("Options", "the options of a crate's or module's one entry point, written with its path"),
];

pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<Breach>> {
    let mut visitor = PublicTypes::default();
    for source in tree.sources.iter().filter(|source| !is_test_file(&source.path)) {
        visitor.krate.clone_from(&source.krate);
        visitor.visit_file(&source.syntax);
    }
    Ok(breaches_of(&visitor.crates))
}

fn breaches_of(crates: &BTreeMap<String, BTreeSet<String>>) -> Vec<Breach> {
    let is_excepted = |name: &str| EXCEPTIONS.iter().any(|(known, _)| *known == name);
    let many = crates.iter().filter(|(name, crates)| crates.len() > MAX_CRATES && !is_excepted(name));
    let many = many.map(|(name, crates)| {
        let crates: Vec<&str> = crates.iter().map(String::as_str).collect();
        let what = format!("public types of {} are called {name}: qualify the name", crates.join(", "));
        Breach::new(format!("crates/{}", crates[0]), 0, what)
    });
    let unused = EXCEPTIONS
        .iter()
        .filter(|(name, _)| crates.get(*name).is_none_or(|crates| crates.len() <= MAX_CRATES));
    let unused = unused.map(|(name, _)| {
        let what = format!("{name} is defined in few crates: remove the exception");
        Breach::new("xtask/src/tidy/type_names.rs", 0, what)
    });
    many.chain(unused).collect()
}

/// Finds the crates that define a public type of each name.
#[derive(Default)]
struct PublicTypes {
    krate: String,
    crates: BTreeMap<String, BTreeSet<String>>,
}

impl<'ast> Visit<'ast> for PublicTypes {
    fn visit_item(&mut self, item: &'ast Item) {
        let (visibility, name, attributes): (&Visibility, &Ident, _) = match item {
            Item::Enum(item) => (&item.vis, &item.ident, &item.attrs),
            Item::Struct(item) => (&item.vis, &item.ident, &item.attrs),
            Item::Trait(item) => (&item.vis, &item.ident, &item.attrs),
            Item::Type(item) => (&item.vis, &item.ident, &item.attrs),
            Item::Union(item) => (&item.vis, &item.ident, &item.attrs),
            Item::Mod(item) if !is_test(&item.attrs) => return visit::visit_item_mod(self, item),
            _ => return,
        };
        if matches!(visibility, Visibility::Public(_)) && !is_test(attributes) {
            self.crates.entry(name.to_string()).or_default().insert(self.krate.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(crates: &[(&str, &str)]) -> Vec<String> {
        let mut visitor = PublicTypes::default();
        let excepted = "pub enum Error {} pub struct Options;";
        for (krate, text) in crates.iter().copied().chain(["p", "q", "r"].map(|krate| (krate, excepted))) {
            visitor.krate = krate.to_owned();
            visitor.visit_file(&syn::parse_file(text).expect("Rust source"));
        }
        breaches_of(&visitor.crates).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_public_name_is_of_two_crates_at_most() {
        let (a, b) = (("a", "pub struct Row;"), ("b", "pub mod m { pub type Row = u8; }"));
        assert_eq!(found(&[a, b, ("c", "struct Row; pub(crate) enum Row {}")]), [""; 0]);
        assert_eq!(found(&[a, b, ("c", "#[cfg(test)] mod tests { pub struct Row; }")]), [""; 0]);
        let expected = "crates/a: public types of a, b, c are called Row: qualify the name";
        assert_eq!(found(&[a, b, ("c", "pub trait Row {}")]), [expected]);
    }
}
