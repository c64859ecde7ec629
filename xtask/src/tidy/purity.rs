//! Pure crates do no I/O, and `unsafe` lives in one module.
//!
//! The sources are parsed, not searched: a path counts as written in code, in `use` and inside macros; comments,
//! strings and test modules do not.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree};

use super::Breach;
use super::tree::{Source, Tree};

/// Crates that see bytes and values only.
const PURE: &[&str] = &[
    "model",
    "decoder",
    "perfdata",
    "generated",
    "tracker",
    "elf",
    "unwinder",
    "memory",
    "python",
    "javascript",
    "stacks",
    "symbolizer",
    "tasks",
    "profile",
    "export",
];

/// Pure crates that also build for a target without an operating system.
pub(crate) const NO_STD: &[&str] = &["model", "decoder", "tracker", "elf", "unwinder"];

/// Paths by which a crate would reach the machine, the clock or the process.
const IMPURE: &[&str] = &[
    "std::env",
    "std::fs",
    "std::net",
    "std::os",
    "std::process",
    "std::thread",
    "std::io::stdin",
    "std::io::stdout",
    "std::io::stderr",
    "std::time::Instant",
    "std::time::SystemTime",
    "libc",
];

/// Reads files that its caller has opened: it names their type, and opens none.
const OPEN_FILES: &str = "crates/perfdata/src/read/file.rs";

/// Only `cli` ends the process.
const EXITS: &[&str] = &["std::process::exit", "std::process::abort", "libc::exit", "libc::abort"];

const PRINTS: &[&str] = &["print", "println", "eprint", "eprintln", "dbg"];

/// Calls that make or rename files. Which links are followed on the way is decided in one place, `host::files`.
const MAKES_FILES: &[&str] = &[
    "File::create",
    "File::create_new",
    "fs::write",
    "fs::copy",
    "fs::rename",
    "fs::hard_link",
    "fs::symlink",
    "fs::create_dir",
    "fs::create_dir_all",
    "fs::DirBuilder",
    "tempfile",
];

/// Code of the product, apart from the one module that makes files: `host::files`.
fn makes_no_files(path: &Path) -> bool {
    path.starts_with("crates")
        && path.iter().any(|part| part == "src")
        && !path.starts_with("crates/host/src/files")
        // cargo-prof creates a folder below cargo's target folder; the files in it are created by `prof`.
        && !path.starts_with("crates/cargo-prof")
}

/// The one module with `unsafe`: `host::sys`.
fn may_be_unsafe(path: &Path) -> bool {
    path.starts_with("crates/host/src/sys") || path == Path::new("crates/host/src/sys.rs")
}

pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<Breach>> {
    Ok(of_programs(tree).flat_map(check_source).collect())
}

/// Returns the sources that become part of a program: all but those of tests.
pub(crate) fn of_programs(tree: &Tree) -> impl Iterator<Item = &Source> {
    let tests: HashSet<PathBuf> = tree.sources.iter().flat_map(test_modules).collect();
    tree.sources.iter().filter(move |source| !tests.contains(&source.path) && !is_test_file(&source.path))
}

/// The files of modules that a source declares for tests only.
fn test_modules(source: &Source) -> Vec<PathBuf> {
    let is_root = ["mod.rs", "lib.rs", "main.rs"].iter().any(|name| source.path.ends_with(name));
    let folder = if is_root { source.path.with_file_name("") } else { source.path.with_extension("") };
    let declared = source.syntax.items.iter().filter_map(|item| match item {
        Item::Mod(module) if module.content.is_none() && is_test(&module.attrs) => Some(module),
        _ => None,
    });
    declared.map(|module| folder.join(format!("{}.rs", module.ident))).collect()
}

fn check_source(source: &Source) -> Vec<Breach> {
    let krate = source.krate.as_str();
    let forbidden: Vec<&str> = match krate {
        "cargo-prof" | "cli" | "xtask" => Vec::new(),
        _ if source.path == Path::new(OPEN_FILES) => EXITS.to_vec(),
        pure if PURE.contains(&pure) => IMPURE.to_vec(),
        _ => EXITS.to_vec(),
    };
    let mut visitor = Visitor {
        path: &source.path,
        forbidden,
        prints: !matches!(krate, "cargo-prof" | "cli" | "xtask"),
        std_allowed: !NO_STD.contains(&krate),
        unsafe_allowed: may_be_unsafe(&source.path),
        makes_no_files: makes_no_files(&source.path),
        breaches: Vec::new(),
    };
    visitor.visit_file(&source.syntax);
    let mut breaches = visitor.breaches;
    if NO_STD.contains(&krate) && source.path.ends_with("src/lib.rs") && !is_no_std(&source.syntax.attrs) {
        breaches.push(Breach::new(&source.path, 1, "the crate builds without std: #![no_std] is missing"));
    }
    breaches
}

/// A file that is a test module by its name.
pub(super) fn is_test_file(path: &Path) -> bool {
    path.ends_with("tests.rs") || path.iter().any(|part| part == "tests")
}

fn is_no_std(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("no_std")
            || attribute.path().is_ident("cfg_attr")
                && matches!(&attribute.meta, syn::Meta::List(list)
                    if text(&list.tokens).replace(' ', "") == "not(test),no_std")
    })
}

/// Returns true if an item is compiled for tests only.
/// Conditions under which only tests are compiled: the feature `testing` is switched on by dev-dependencies alone.
const TEST_CONDITIONS: &[&str] = &["test", "feature=\"testing\"", "any(test,feature=\"testing\")"];

pub(crate) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || matches!(&attribute.meta, syn::Meta::List(list)
                if list.path.is_ident("cfg") && TEST_CONDITIONS.contains(&text(&list.tokens).replace(' ', "").as_str()))
    })
}

fn text(tokens: &TokenStream) -> String {
    tokens.to_string()
}

struct Visitor<'a> {
    path: &'a Path,
    forbidden: Vec<&'a str>,
    prints: bool,
    std_allowed: bool,
    unsafe_allowed: bool,
    makes_no_files: bool,
    breaches: Vec<Breach>,
}

impl Visitor<'_> {
    fn breach(&mut self, span: Span, what: String) {
        self.breaches.push(Breach::new(self.path, span.start().line, what));
    }

    fn path_seen(&mut self, span: Span, path: &str) {
        let hit = self.forbidden.iter().find(|forbidden| {
            path == **forbidden || path.strip_prefix(**forbidden).is_some_and(|rest| rest.starts_with("::"))
        });
        if hit.is_some() {
            self.breach(span, format!("{path} has no place in this crate"));
        }
        let within = format!("::{path}::");
        if self.makes_no_files && MAKES_FILES.iter().any(|call| within.contains(&format!("::{call}::"))) {
            self.breach(span, format!("{path}: files are made by host::files"));
        }
    }

    fn use_tree(&mut self, prefix: &str, tree: &UseTree) {
        let joined = |name: String| if prefix.is_empty() { name } else { format!("{prefix}::{name}") };
        match tree {
            UseTree::Path(path) => self.use_tree(&joined(path.ident.to_string()), &path.tree),
            UseTree::Name(name) => self.path_seen(name.ident.span(), &joined(name.ident.to_string())),
            UseTree::Rename(name) => self.path_seen(name.ident.span(), &joined(name.ident.to_string())),
            UseTree::Glob(glob) => {
                self.path_seen(glob.star_token.spans[0], prefix);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.use_tree(prefix, tree);
                }
            }
        }
    }

    fn not_safe(&mut self, span: Span) {
        if !self.unsafe_allowed {
            self.breach(span, "unsafe outside host::sys".to_owned());
        }
    }

    /// Macro bodies are not parsed; paths in them are joined from the tokens.
    fn tokens(&mut self, tokens: &TokenStream) {
        let mut path = String::new();
        let mut start = Span::call_site();
        let mut colons = 0;
        for token in tokens.clone() {
            match &token {
                TokenTree::Ident(ident) => {
                    if colons == 2 && !path.is_empty() {
                        path.push_str("::");
                    } else {
                        self.path_seen(start, &path);
                        path.clear();
                        start = ident.span();
                    }
                    if ident == "unsafe" {
                        self.not_safe(ident.span());
                    }
                    path.push_str(&ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    self.path_seen(start, &path);
                    path.clear();
                    colons = 0;
                    self.tokens(&group.stream());
                }
                _ => {
                    self.path_seen(start, &path);
                    path.clear();
                    colons = 0;
                }
            }
        }
        self.path_seen(start, &path);
    }
}

impl<'ast> Visit<'ast> for Visitor<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes: &[Attribute] = match item {
            Item::Mod(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::ExternCrate(item) => &item.attrs,
            _ => &[],
        };
        if !is_test(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_extern_crate(&mut self, item: &'ast syn::ItemExternCrate) {
        if item.ident == "std" && !self.std_allowed {
            self.breach(item.ident.span(), "the crate builds without std, tests apart".to_owned());
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.use_tree("", &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if let Some(first) = path.segments.first() {
            self.path_seen(first.ident.span(), &names.join("::"));
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        if let Some(name) = item.path.segments.last()
            && self.prints
            && PRINTS.contains(&name.ident.to_string().as_str())
        {
            self.breach(name.ident.span(), format!("{}! has no place in this crate", name.ident));
        }
        self.tokens(&item.tokens);
        visit::visit_macro(self, item);
    }

    fn visit_expr_unsafe(&mut self, block: &'ast syn::ExprUnsafe) {
        self.not_safe(block.unsafe_token.span);
        visit::visit_expr_unsafe(self, block);
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        if let Some(token) = &signature.unsafety {
            self.not_safe(token.span);
        }
        visit::visit_signature(self, signature);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if let Some(token) = &item.unsafety {
            self.not_safe(token.span);
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_item_foreign_mod(&mut self, item: &'ast syn::ItemForeignMod) {
        if let Some(token) = &item.unsafety {
            self.not_safe(token.span);
        }
        visit::visit_item_foreign_mod(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaches(krate: &str, path: &str, text: &str) -> Vec<(usize, String)> {
        let source =
            Source { krate: krate.into(), path: path.into(), syntax: syn::parse_file(text).unwrap() };
        check_source(&source).into_iter().map(|breach| (breach.line, breach.what)).collect()
    }

    fn lines(krate: &str, text: &str) -> Vec<usize> {
        breaches(krate, "crates/x/src/a.rs", text).into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn a_pure_crate_names_no_io_however_it_is_written() {
        assert_eq!(lines("profile", "use std::fs;"), [1]);
        assert_eq!(lines("profile", "use std::{io::Read, fs::File};"), [1]);
        assert_eq!(lines("profile", "use std::fs::*;"), [1]);
        assert_eq!(lines("profile", "fn f() {\n std::env::var(\"A\");\n}"), [2]);
        assert_eq!(lines("profile", "fn f() { assert!(std::process::id() > 0, \"{}\", 1); }"), [1]);
        assert_eq!(lines("profile", "fn f(t: std::time::Instant) {}"), [1]);
        assert_eq!(lines("profile", "fn f() { println!(\"a\"); }"), [1]);
        assert_eq!(lines("profile", "use std::io::{Read, stdout};"), [1]);
    }

    #[test]
    fn what_a_pure_crate_may_name_is_left_alone() {
        assert!(lines("profile", "use std::io::Read; use std::time::Duration;").is_empty());
        assert!(lines("profile", "// std::fs\nconst A: &str = \"std::fs\";").is_empty());
        assert!(lines("profile", "#[cfg(test)] mod tests { use std::fs; }").is_empty());
        assert!(lines("profile", "#[test] fn t() { std::fs::read(\"a\"); }").is_empty());
        assert!(lines("host", "use std::fs; fn f() { std::env::var(\"A\"); }").is_empty());
    }

    #[test]
    fn modules_for_tests_are_found() {
        let of = |path: &str| {
            let syntax = syn::parse_file("#[cfg(test)]\nmod a;\nmod b;\n#[cfg(test)]\nmod c {}").unwrap();
            test_modules(&Source { krate: "host".into(), path: path.into(), syntax })
        };
        assert_eq!(of("crates/x/src/f.rs"), [PathBuf::from("crates/x/src/f/a.rs")]);
        assert_eq!(of("crates/x/src/f/mod.rs"), [PathBuf::from("crates/x/src/f/a.rs")]);
    }

    #[test]
    fn files_are_made_in_one_module() {
        for text in [
            "use std::fs::File; fn f() { File::create(\"a\"); }",
            "fn f() { std::fs::write(\"a\", \"b\"); }",
            "use std::fs; fn f() { fs::rename(\"a\", \"b\"); }",
            "fn f() { tempfile::tempdir(); }",
        ] {
            assert_eq!(lines("cli", text), [1], "{text}");
            assert!(breaches("host", "crates/host/src/files/new_file.rs", text).is_empty(), "{text}");
            assert!(lines("cli", &format!("#[cfg(test)] mod tests {{ {text} }}")).is_empty(), "{text}");
        }
        assert!(lines("cli", "use std::fs::File; fn f() { File::open(\"a\"); }").is_empty());
    }

    #[test]
    fn only_the_command_exits() {
        assert_eq!(lines("recorder", "fn f() { std::process::exit(1) }"), [1]);
        assert_eq!(lines("host", "use std::process::exit;"), [1]);
        assert!(lines("cli", "fn f() { std::process::exit(1) }").is_empty());
    }

    #[test]
    fn unsafe_lives_in_one_module() {
        let text =
            "fn f() { unsafe { g() } }\nunsafe fn g() {}\nunsafe impl Send for A {}\nunsafe extern \"C\" {}";
        assert_eq!(lines("host", text), [1, 2, 3, 4]);
        assert!(breaches("host", "crates/host/src/sys/ring.rs", text).is_empty());
    }

    #[test]
    fn crates_below_the_unwinder_declare_no_std() {
        assert_eq!(breaches("elf", "crates/elf/src/lib.rs", "//! Objects.").len(), 1);
        assert!(breaches("elf", "crates/elf/src/lib.rs", "#![no_std]").is_empty());
        assert!(breaches("elf", "crates/elf/src/lib.rs", "#![cfg_attr(not(test), no_std)]").is_empty());
        assert!(breaches("profile", "crates/profile/src/lib.rs", "//! Profiles.").is_empty());
        assert_eq!(lines("tracker", "extern crate std;"), [1]);
        assert!(lines("tracker", "#[cfg(test)] extern crate std;").is_empty());
    }
}
