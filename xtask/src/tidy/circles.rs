//! Imports between the files of a crate lead in one direction, so that each file can be read, tested and changed without those
//! above it. Two rules: no chain of imports leads from a file through another folder back to the file, and no files of one folder
//! import each other in a circle. `mod` and `pub use` are no imports, but to use a name that a module passes on is to import the module;
//! a file may use what its own module defines.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use super::Breach;
use super::import_graph::{self, Imports};
use super::tree::Tree;

pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<Breach>> {
    Ok(import_graph::of_crates(tree).values().flat_map(breaches_of).collect())
}

/// Returns the number of circles in each crate.
pub(crate) fn count_by_crate(tree: &Tree) -> BTreeMap<&str, usize> {
    let crates = import_graph::of_crates(tree).into_iter();
    crates.map(|(krate, imports)| (krate, breaches_of(&imports).len())).collect()
}

fn breaches_of(imports: &Imports) -> Vec<Breach> {
    let breach = |kind: &str, circle: Vec<PathBuf>| {
        let files: Vec<String> = circle.iter().map(|file| file.display().to_string()).collect();
        Breach::new(&circle[0], 0, format!("imports in a circle of {kind}: {}", files.join(" → ")))
    };
    let of_folders = circles_of_folders(imports).into_iter().map(|circle| breach("folders", circle));
    let of_siblings = circles_of_siblings(imports).into_iter().map(|circle| breach("files", circle));
    of_folders.chain(of_siblings).collect()
}

/// Returns the shortest circle through each import that leads into another folder, each circle once.
fn circles_of_folders(imports: &Imports) -> Vec<Vec<PathBuf>> {
    let mut found: BTreeMap<BTreeSet<PathBuf>, Vec<PathBuf>> = BTreeMap::new();
    for (importer, files) in imports {
        for imported in files.iter().filter(|imported| imported.parent() != importer.parent()) {
            let Some(circle) = circle_through(imports, importer, imported) else { continue };
            found.entry(circle.iter().cloned().collect()).or_insert(circle);
        }
    }
    found.into_values().collect()
}

/// Returns a circle for each group of files of one folder that all import each other, directly or through each other.
fn circles_of_siblings(imports: &Imports) -> Vec<Vec<PathBuf>> {
    let is_counted =
        |importer: &Path, imported: &Path| imported.parent() == importer.parent() && !is_root(imported);
    let siblings: Imports = imports
        .iter()
        .map(|(importer, files)| {
            (importer.clone(), files.iter().filter(|file| is_counted(importer, file)).cloned().collect())
        })
        .collect();
    let mut grouped: BTreeSet<&Path> = BTreeSet::new();
    let mut found = Vec::new();
    for (importer, files) in &siblings {
        let circles = files.iter().filter_map(|imported| circle_through(&siblings, importer, imported));
        let Some(circle) = circles.min_by_key(Vec::len) else { continue };
        if grouped.contains(&**importer) {
            continue;
        }
        let leads_back = |file: &Path| {
            path_between(&siblings, importer, file).is_some()
                && path_between(&siblings, file, importer).is_some()
        };
        grouped.extend(siblings.keys().map(PathBuf::as_path).filter(|file| leads_back(file)));
        found.push(circle);
    }
    found
}

/// Returns true for the file of a folder's module, which the other files of the folder belong to.
fn is_root(file: &Path) -> bool {
    ["mod.rs", "lib.rs", "main.rs"].iter().any(|name| file.ends_with(name))
}

/// Returns the shortest circle that begins with an import.
fn circle_through(imports: &Imports, importer: &Path, imported: &Path) -> Option<Vec<PathBuf>> {
    let mut circle = path_between(imports, imported, importer)?;
    circle.insert(0, importer.to_owned());
    Some(circle)
}

/// Returns the shortest chain of imports from one file to another, both included.
fn path_between(imports: &Imports, from: &Path, to: &Path) -> Option<Vec<PathBuf>> {
    let mut reached_from: HashMap<&Path, &Path> = HashMap::new();
    let mut reached = vec![from];
    while !reached.is_empty() {
        let mut next = Vec::new();
        for file in reached {
            if file == to {
                let mut chain = vec![file.to_owned()];
                let mut at = file;
                while let Some(before) = reached_from.get(at).filter(|_| at != from) {
                    at = before;
                    chain.insert(0, at.to_owned());
                }
                return Some(chain);
            }
            for imported in imports.get(file).into_iter().flatten() {
                if imported != from && !reached_from.contains_key(&**imported) {
                    reached_from.insert(imported, file);
                    next.push(&**imported);
                }
            }
        }
        reached = next;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports(files: &[(&str, &str)]) -> Imports {
        let parsed: Vec<(PathBuf, syn::File)> = files
            .iter()
            .map(|(path, text)| {
                (Path::new("crates/x/src").join(path), syn::parse_file(text).expect("Rust source"))
            })
            .collect();
        import_graph::of_files(parsed.iter().map(|(path, syntax)| (&**path, syntax)))
    }

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        breaches_of(&imports(files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_circle_through_two_folders_is_a_breach() {
        let one = ("one/a.rs", "use crate::two::B;");
        let two = ("two/mod.rs", "pub use b::B; mod b;");
        let circle = found(&[one, two, ("two/b.rs", "use crate::one::a::A; pub struct B(A);")]);
        let expected = "crates/x/src/one/a.rs: imports in a circle of folders: crates/x/src/one/a.rs → \
                        crates/x/src/two/b.rs → crates/x/src/one/a.rs";
        assert_eq!(circle, [expected]);
        assert_eq!(found(&[one, two, ("two/b.rs", "pub struct B;")]), [""; 0]);
        let in_tests = "pub struct B; #[cfg(test)] mod tests { use crate::one::a::A; }";
        assert_eq!(found(&[one, two, ("two/b.rs", in_tests)]), [""; 0]);
        let by_path = "pub struct B(crate::one::a::A);";
        assert_eq!(found(&[one, two, ("two/b.rs", by_path)]), [expected]);
    }

    #[test]
    fn a_circle_within_a_folder_is_a_breach_once() {
        let files = [
            ("one/a.rs", "use super::b::B;"),
            ("one/b.rs", "use super::c::C; use super::a::A;"),
            ("one/c.rs", "use super::a::A;"),
        ];
        let expected = "crates/x/src/one/a.rs: imports in a circle of files: crates/x/src/one/a.rs → \
                        crates/x/src/one/b.rs → crates/x/src/one/a.rs";
        assert_eq!(found(&files), [expected]);
        assert_eq!(found(&files[..1]), [""; 0]);
    }

    #[test]
    fn a_file_uses_what_its_own_module_defines() {
        let module = ("one/mod.rs", "mod a; pub use a::A; use a::B; pub struct C;");
        let files = [module, ("one/a.rs", "use super::C; pub struct A(C); pub struct B;")];
        assert_eq!(found(&files), [""; 0]);
    }
}
