//! `cargo xtask count [FOLDER]`: sizes of the project, or of another checkout of it, by crate. `--check` holds the project to its
//! [`ceilings`].
//!
//! Counts code that becomes part of a program: without tests, what serves them, comments, blank lines and generated files. Circles
//! are files that import each other, directly or through others.

mod ceilings;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use anyhow::bail;
use ceilings::{FileSizes, Measured};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, Type};

use crate::tidy::sources::{self, Source, Tree};
use crate::workspace;

/// Files with fewer lines of code count as small.
const SMALL_FILE_LINES: usize = 40;

/// Words by which a number names itself a choice, and not a number of the kernel or of a format.
const WORDS_OF_CHOICES: &[&str] = &[
    "BACKOFF", "BATCH", "BATCHES", "BUDGET", "CAPACITY", "DEFAULT", "FACTOR", "FEWEST", "INITIAL",
    "INTERVAL", "LARGEST", "LEAST", "LIMIT", "LONGEST", "MANY", "MAX", "MIN", "MOST", "SHORTEST", "SMALLEST",
    "TIMEOUT", "TRIES",
];

/// Sizes of a file or a crate.
#[derive(Default, Clone, Copy)]
struct Sizes {
    files: usize,
    small_files: usize,
    lines: usize,
    /// Constants that somebody chose: times, fractions, and numbers with a word of [`WORDS_OF_CHOICES`]; and times that stand in
    /// code without a name.
    constants: usize,
    circles: usize,
}

/// The project is sized, or held to its ceilings (`--check`), which `--lower` takes down to what there is.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    match args {
        [] => print_sizes(&workspace::root()),
        [check] if check == "--check" => ceilings::check(&measured()?),
        [lower] if lower == "--lower" => ceilings::lower(&measured()?),
        [folder] => print_sizes(Path::new(folder)),
        _ => bail!("usage: cargo xtask count [--check | --lower | FOLDER]"),
    }
}

/// Prints the sizes of each crate of a checkout.
fn print_sizes(root: &Path) -> anyhow::Result<()> {
    let tree = Tree::read(root)?;
    let circles = sources::circles_by_crate(&tree);
    let mut crates: BTreeMap<&str, Sizes> = BTreeMap::new();
    for (krate, file) in sizes_of_files(&tree) {
        crates.entry(krate).or_default().add(file.sizes);
    }
    println!("{:<12} {:>6} {:>6} {:>6} {:>8} {:>8}", "", "lines", "files", "small", "circles", "choices");
    let mut total = Sizes::default();
    for (krate, mut sizes) in crates {
        sizes.circles = circles[krate];
        print(krate, sizes);
        if krate != "xtask" {
            total.add(sizes);
        }
    }
    print("but xtask", total);
    let page: usize =
        tree.texts.iter().filter(|file| is_page(&file.path)).map(|file| page_lines(&file.text)).sum();
    println!("{:<12} {page:>6} of scripts and style sheets", "pages");
    Ok(())
}

/// Measures the project, the chores apart.
fn measured() -> anyhow::Result<Measured> {
    let tree = Tree::read(&workspace::root())?;
    let files = sizes_of_files(&tree).filter(|(krate, _)| *krate != "xtask").map(|(_, file)| file).collect();
    let circles = sources::circles_by_crate(&tree).values().sum();
    Ok(Measured { files, circles })
}

fn sizes_of_files(tree: &Tree) -> impl Iterator<Item = (&str, FileSizes)> {
    sources::of_programs(tree).map(|source| {
        let counter = Counter::of(source);
        let lines = code_lines(tree.text(&source.path.to_string_lossy()), &counter.tests);
        let small_files = usize::from(lines < SMALL_FILE_LINES);
        let sizes = Sizes { files: 1, small_files, lines, constants: counter.constants, circles: 0 };
        (&*source.krate, FileSizes { path: source.path.clone(), sizes })
    })
}

impl Sizes {
    fn add(&mut self, other: Self) {
        let Self { files, small_files, lines, constants, circles } = other;
        self.files += files;
        self.small_files += small_files;
        self.lines += lines;
        self.constants += constants;
        self.circles += circles;
    }
}

fn print(name: &str, sizes: Sizes) {
    let Sizes { files, small_files, lines, constants, circles } = sizes;
    println!("{name:<12} {lines:>6} {files:>6} {small_files:>6} {circles:>8} {constants:>8}");
}

/// A script or style sheet of a page that a program writes.
fn is_page(path: &Path) -> bool {
    let is_of_page = path.extension().is_some_and(|extension| extension == "js" || extension == "css");
    path.starts_with("crates") && path.iter().any(|part| part == "src") && is_of_page
}

/// Counts the lines of a script or style sheet, without comments and blank lines.
fn page_lines(text: &str) -> usize {
    code_lines(text, &[])
}

/// Counts the lines with code outside of the ranges of lines of tests (counted from 1).
fn code_lines(text: &str, tests: &[Range<usize>]) -> usize {
    let mut in_comment = false;
    let mut count = 0;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        let begins = !in_comment && line.starts_with("/*");
        let is_comment = in_comment || begins || line.starts_with("//");
        in_comment = (in_comment || begins) && !line.contains("*/");
        let is_test = tests.iter().any(|range| range.contains(&(index + 1)));
        count += usize::from(!line.is_empty() && !is_comment && !is_test);
    }
    count
}

/// Finds the tests and the chosen constants of a file.
#[derive(Default)]
struct Counter {
    tests: Vec<Range<usize>>,
    constants: usize,
}

impl Counter {
    fn of(source: &Source) -> Self {
        let mut counter = Self::default();
        counter.visit_file(&source.syntax);
        counter
    }

    fn constant(&mut self, name: &syn::Ident, of_type: &Type) {
        self.constants += usize::from(is_choice(&name.to_string(), of_type));
    }
}

fn is_choice(name: &str, of_type: &Type) -> bool {
    let Type::Path(path) = of_type else { return false };
    let of_type = path.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
    match of_type.as_str() {
        "Duration" | "f32" | "f64" | "Ratio" => true,
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" | "i32" | "i64" | "NonZeroUsize" | "NonZeroU64" => {
            name.split('_').any(|word| WORDS_OF_CHOICES.contains(&word))
        }
        _ => false,
    }
}

/// Returns true for `Duration::from_millis(50)`: a choice in the middle of code.
fn is_chosen_time(call: &syn::ExprCall) -> bool {
    let syn::Expr::Path(function) = &*call.func else { return false };
    let names: Vec<String> = function.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
    let is_duration = names.iter().rev().nth(1).is_some_and(|name| name == "Duration");
    is_duration
        && call.args.iter().all(|argument| matches!(argument, syn::Expr::Lit(_)))
        && names.last().is_some_and(|name| name.starts_with("from_"))
}

fn attributes_of(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

impl<'ast> Visit<'ast> for Counter {
    fn visit_item(&mut self, item: &'ast Item) {
        if sources::is_test(attributes_of(item)) {
            let span = item.span();
            self.tests.push(span.start().line..span.end().line + 1);
            return;
        }
        match item {
            Item::Const(item) => self.constant(&item.ident, &item.ty),
            Item::Static(item) => self.constant(&item.ident, &item.ty),
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        self.constants += usize::from(is_chosen_time(call));
        visit::visit_expr_call(self, call);
    }

    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}

    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        if let syn::ImplItem::Const(item) = item {
            self.constant(&item.ident, &item.ty);
            return;
        }
        visit::visit_impl_item(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(text: &str) -> (usize, usize) {
        let mut counter = Counter::default();
        counter.visit_file(&syn::parse_file(text).expect("Rust source"));
        (code_lines(text, &counter.tests), counter.constants)
    }

    #[test]
    fn comments_blank_lines_and_tests_are_no_code() {
        assert_eq!(counted("//! A.\n\n/// B.\nfn b() {\n    // C.\n    c();\n}\n/* D\nE */\n").0, 3);
        assert_eq!(counted("fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n").0, 1);
    }

    #[test]
    fn choices_are_told_from_numbers_of_formats() {
        assert_eq!(counted("const MAX_ROWS: usize = 5; const COMM: u32 = 3; const ROWS: &str = \"\";").1, 1);
        assert_eq!(counted("fn f() { const PAUSE: std::time::Duration = Duration::ZERO; }").1, 1);
        assert_eq!(counted("struct A; impl A { const SHARE: f64 = 0.5; }").1, 1);
        assert_eq!(
            counted("fn f() { sleep(Duration::from_millis(5)); sleep(Duration::from_nanos(wait)); }").1,
            1
        );
    }
}
