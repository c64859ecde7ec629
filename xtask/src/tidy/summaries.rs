//! The first line of a public item's documentation stands alone in an index: it says what the item is or does. That of a public
//! field or variant stands beside its name: it may be short, but is no question.

use std::path::Path;

use syn::visit::{self, Visit};
use syn::{Attribute, Expr, ExprLit, Fields, ImplItem, Item, ItemEnum, Lit, Meta, Visibility};

use super::Breach;
use super::purity::{is_test, is_test_file};
use super::tree::Tree;

/// First words that make a summary a question or the end of another sentence.
const UNFINISHED: &[&str] = &["What", "Whether", "How", "Where", "When", "Which", "Who", "Whose", "Why"];

/// With fewer words a summary says no more than the name.
const FEWEST_WORDS: usize = 3;

pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<Breach>> {
    let sources = tree.sources.iter().filter(|source| !is_test_file(&source.path));
    Ok(sources.flat_map(|source| check_file(&source.path, &source.syntax)).collect())
}

fn check_file(path: &Path, syntax: &syn::File) -> Vec<Breach> {
    let mut visitor = Visitor { path, breaches: Vec::new() };
    visitor.visit_file(syntax);
    visitor.breaches
}

struct Visitor<'a> {
    path: &'a Path,
    breaches: Vec<Breach>,
}

impl Visitor<'_> {
    fn look_at(&mut self, visibility: &Visibility, attributes: &[Attribute]) {
        if matches!(visibility, Visibility::Inherited) || is_for_clap(attributes) {
            return;
        }
        self.refuse_questions(attributes);
        let Some((line, summary)) = attributes.iter().find_map(doc_line) else { return };
        // The summary of a constant of the kernel or of ELF is its name there, in backquotes.
        if summary.split_whitespace().count() < FEWEST_WORDS && !summary.trim_start().starts_with('`') {
            let what = "the summary has fewer than three words: say what the item is or does";
            self.breaches.push(Breach::new(self.path, line, what));
        }
    }
}

impl Visitor<'_> {
    fn refuse_questions(&mut self, attributes: &[Attribute]) {
        let Some((line, summary)) = attributes.iter().find_map(doc_line) else { return };
        let first = summary.split_whitespace().next().unwrap_or_default();
        if first.starts_with('…') || UNFINISHED.contains(&first.trim_end_matches([',', '.'])) {
            let what = format!("the summary begins with {first}: say what the item is or does");
            self.breaches.push(Breach::new(self.path, line, what));
        }
    }

    fn look_at_fields(&mut self, visibility: &Visibility, fields: &Fields) {
        for field in fields.iter().filter(|field| is_public(visibility) && is_public(&field.vis)) {
            self.refuse_questions(&field.attrs);
        }
    }

    fn look_at_variants(&mut self, item: &ItemEnum) {
        for variant in item.variants.iter().filter(|_| is_public(&item.vis)) {
            self.refuse_questions(&variant.attrs);
            variant.fields.iter().for_each(|field| self.refuse_questions(&field.attrs));
        }
    }
}

fn is_public(visibility: &Visibility) -> bool {
    !matches!(visibility, Visibility::Inherited)
}

/// Returns true if clap reads the documentation of a type.
fn is_for_clap(attributes: &[Attribute]) -> bool {
    let mut found = false;
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("derive")) {
        // A derive that is no list of paths is the compiler's to refuse.
        let _ = attribute.parse_nested_meta(|meta| {
            let name = meta.path.segments.last().map(|segment| segment.ident.to_string());
            found |= matches!(name.as_deref(), Some("Args" | "Parser" | "Subcommand" | "ValueEnum"));
            Ok(())
        });
    }
    found
}

fn doc_line(attribute: &Attribute) -> Option<(usize, String)> {
    let Meta::NameValue(meta) = &attribute.meta else { return None };
    let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = &meta.value else { return None };
    meta.path.is_ident("doc").then(|| (text.span().start().line, text.value()))
}

impl<'ast> Visit<'ast> for Visitor<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let (visibility, attributes) = match item {
            Item::Const(item) => (&item.vis, &item.attrs),
            Item::Enum(item) => (&item.vis, &item.attrs),
            Item::Fn(item) => (&item.vis, &item.attrs),
            Item::Mod(item) => (&item.vis, &item.attrs),
            Item::Static(item) => (&item.vis, &item.attrs),
            Item::Struct(item) => (&item.vis, &item.attrs),
            Item::Trait(item) => (&item.vis, &item.attrs),
            Item::Type(item) => (&item.vis, &item.attrs),
            Item::Union(item) => (&item.vis, &item.attrs),
            _ => return visit::visit_item(self, item),
        };
        if !is_test(attributes) {
            self.look_at(visibility, attributes);
            match item {
                Item::Struct(item) if !is_for_clap(attributes) => {
                    self.look_at_fields(visibility, &item.fields)
                }
                Item::Enum(item) if !is_for_clap(attributes) => self.look_at_variants(item),
                _ => {}
            }
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        match item {
            ImplItem::Const(item) => self.look_at(&item.vis, &item.attrs),
            ImplItem::Fn(item) => self.look_at(&item.vis, &item.attrs),
            _ => {}
        }
        visit::visit_impl_item(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        let syntax = syn::parse_file(text).unwrap();
        check_file(Path::new("a.rs"), &syntax).into_iter().map(|breach| breach.line).collect()
    }

    #[test]
    fn a_public_summary_is_no_question() {
        assert_eq!(lines("/// What it is.\npub struct A;\n/// Whether it is.\npub(crate) fn f() {}"), [1, 3]);
        assert_eq!(lines("struct A;\nimpl A {\n/// How many there are.\npub fn f(&self) {}\n}"), [3]);
        assert_eq!(lines("pub mod a {\n/// … and the rest.\npub const B: u8 = 0;\n}"), [2]);
    }

    #[test]
    fn a_public_summary_is_a_phrase() {
        assert_eq!(lines("/// The rows.\npub struct A;"), [1]);
        assert!(lines("/// `EM_386`.\npub const A: u16 = 3;").is_empty());
    }

    #[test]
    fn a_public_field_or_variant_says_no_question() {
        assert_eq!(lines("pub struct A {\n/// How many.\npub a: u8,\n/// How.\nb: u8 }"), [2]);
        assert_eq!(lines("pub enum A {\n/// What it is, …\nB {\n/// Which.\nc: u8 } }"), [2, 4]);
        assert!(lines("struct A {\n/// How many.\npub a: u8 }\nenum B {\n/// When.\nC }").is_empty());
        assert!(lines("pub struct A {\n/// Bytes.\npub a: u8 }").is_empty());
        assert!(lines("#[derive(Args)]\npub struct A {\n/// How to count.\npub a: u8 }").is_empty());
    }

    #[test]
    fn other_summaries_pass() {
        assert!(lines("/// The number of bytes.\n/// What is more.\npub struct A;").is_empty());
        assert!(lines("/// What it is.\nstruct A;").is_empty());
        assert!(lines("/// Which samples.\n#[derive(Debug, clap::Args)]\npub struct A;").is_empty());
        assert!(lines("#[cfg(test)]\npub mod tests {\n/// What is tested.\npub fn f() {}\n}").is_empty());
    }
}
