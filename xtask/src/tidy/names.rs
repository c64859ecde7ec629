//! Names that say nothing are no names; and every crate says what it is for.

use syn::{Attribute, Expr, ExprLit, Lit, Meta};

use super::Breach;
use super::tree::Tree;

const EMPTY: &[&str] =
    &["utils", "util", "common", "shared", "helpers", "helper", "manager", "misc", "stuff"];

pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<Breach>> {
    let mut breaches = Vec::new();
    for source in &tree.sources {
        let named = source.path.iter().filter_map(|part| part.to_str());
        if let Some(name) =
            named.map(|part| part.strip_suffix(".rs").unwrap_or(part)).find(|n| EMPTY.contains(n))
        {
            breaches.push(Breach::new(&source.path, 0, format!("the name {name} says nothing")));
        }
        for item in &source.syntax.items {
            if let syn::Item::Mod(module) = item
                && EMPTY.contains(&module.ident.to_string().as_str())
                && !is_kernel_word(&source.krate, module)
            {
                let line = module.ident.span().start().line;
                breaches.push(Breach::new(
                    &source.path,
                    line,
                    format!("the name {} says nothing", module.ident),
                ));
            }
        }
        let root = source.path.ends_with("src/lib.rs") || source.path.ends_with("src/main.rs");
        if root && !source.syntax.attrs.iter().any(is_doc) {
            breaches.push(Breach::new(&source.path, 1, "the crate has no documentation"));
        }
    }
    Ok(breaches)
}

/// `perf_event_header.misc` is a field, and decoder's inline module of that name holds its bits.
fn is_kernel_word(krate: &str, module: &syn::ItemMod) -> bool {
    krate == "decoder" && module.ident == "misc" && module.content.is_some()
}

fn is_doc(attribute: &Attribute) -> bool {
    let Meta::NameValue(meta) = &attribute.meta else { return false };
    let is_said = match &meta.value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => !text.value().trim().is_empty(),
        // `include_str!("../README.md")`
        Expr::Macro(included) => included.mac.path.is_ident("include_str"),
        _ => false,
    };
    meta.path.is_ident("doc") && is_said
}
