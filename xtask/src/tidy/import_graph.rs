//! The imports between the files of a crate, read from its sources: `use` and paths in code, through modules that pass names on.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Item, ItemUse, UseTree};

use super::purity::{is_test, is_test_file};
use super::tree::{Source, Tree};

/// Modules of re-exports may lead to modules of re-exports, but not for ever.
const MAX_REEXPORT_STEPS: usize = 8;

/// The files that each file of a crate imports, tests apart.
pub(super) type Imports = BTreeMap<PathBuf, BTreeSet<PathBuf>>;

/// Returns the imports within each crate.
pub(super) fn of_crates(tree: &Tree) -> BTreeMap<&str, Imports> {
    let mut crates: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in tree.sources.iter().filter(|source| !is_test_file(&source.path)) {
        crates.entry(&source.krate).or_default().push(source);
    }
    let imports =
        |sources: &Vec<&Source>| of_files(sources.iter().map(|source| (&*source.path, &source.syntax)));
    crates.iter().map(|(krate, sources)| (*krate, imports(sources))).collect()
}

/// The modules of one crate.
#[derive(Default)]
struct Modules<'a> {
    /// The file of each module that has one.
    files: HashMap<Vec<String>, &'a Path>,
    /// What each module imports under which name, as a path from the root of the crate.
    names: HashMap<Vec<String>, HashMap<String, Vec<String>>>,
}

/// Returns the imports between the files of one crate.
pub(super) fn of_files<'a>(sources: impl Iterator<Item = (&'a Path, &'a syn::File)> + Clone) -> Imports {
    let mut modules = Modules::default();
    for (path, _) in sources.clone() {
        modules.files.insert(module_of(path), path);
    }
    let mut uses = Vec::new();
    for (path, syntax) in sources {
        let module = module_of(path);
        let mut visitor = Paths { module: module.clone(), modules: &modules, paths: Vec::new() };
        visitor.visit_file(syntax);
        uses.push((path, module, visitor.paths));
    }
    for (_, module, paths) in &uses {
        let names = modules.names.entry(module.clone()).or_default();
        for UsedPath { path, name, .. } in paths {
            names.extend(name.clone().map(|name| (name, path.clone())));
        }
    }
    let mut imports = Imports::new();
    for (path, module, paths) in &uses {
        // To pass a name on is not to depend on it.
        let used = paths.iter().filter(|used| !used.is_passed_on);
        let files = used.flat_map(|used| [modules.file(&used.path), modules.named(&used.path, module)]);
        let files = files.flatten().filter(|file| file != path).map(Path::to_owned).collect();
        imports.insert((*path).to_owned(), files);
    }
    imports
}

impl Modules<'_> {
    /// Returns the file of the module by which code of the module `from` names a path from the root of the crate: it may pass the
    /// name on. The modules around `from` do not count: what they pass on is its own folder's.
    fn named(&self, path: &[String], from: &[String]) -> Option<&Path> {
        let length = (0..=path.len()).rev().find(|&length| self.files.contains_key(&path[..length]))?;
        let module = &path[..length];
        if from.starts_with(module) { None } else { self.files.get(module).copied() }
    }

    /// Returns the file that defines what a path from the root of the crate names.
    fn file(&self, path: &[String]) -> Option<&Path> {
        let mut path = path.to_vec();
        for _ in 0..MAX_REEXPORT_STEPS {
            let length = (0..=path.len()).rev().find(|&length| self.files.contains_key(&path[..length]))?;
            let (module, rest) = path.split_at(length);
            let imported = rest.first().and_then(|name| self.names.get(module)?.get(name));
            match imported {
                Some(imported) => path = [imported.as_slice(), &rest[1..]].concat(),
                None => return self.files.get(module).copied(),
            }
        }
        None
    }
}

/// The path of a file's module from the root of its crate: `["waits", "state"]`.
fn module_of(path: &Path) -> Vec<String> {
    let parts = path.iter().filter_map(|part| part.to_str()).skip_while(|part| *part != "src").skip(1);
    let mut module: Vec<String> = parts.map(|part| part.trim_end_matches(".rs").to_owned()).collect();
    module.pop_if(|last| ["mod", "lib", "main"].contains(&last.as_str()));
    module
}

/// A path that code of a file uses, from the root of the crate.
struct UsedPath {
    path: Vec<String>,
    /// The name that the file imports it under.
    name: Option<String>,
    /// True if the file only passes it on (`pub use`).
    is_passed_on: bool,
}

/// Finds the paths that a file uses, but for those of its tests.
struct Paths<'a> {
    module: Vec<String>,
    modules: &'a Modules<'a>,
    paths: Vec<UsedPath>,
}

impl Paths<'_> {
    /// Makes a path begin at the root of the crate; `None` for one of another crate.
    fn rooted(&self, path: &[String]) -> Option<Vec<String>> {
        let mut module = self.module.clone();
        let mut path = path;
        match path.first()?.as_str() {
            "crate" => return Some(path[1..].to_vec()),
            "self" => path = &path[1..],
            "super" => {}
            name => {
                module.push(name.to_owned());
                let is_child = self.modules.files.contains_key(&module);
                return is_child.then(|| [&self.module, path].concat());
            }
        }
        while let Some(("super", rest)) = path.split_first().map(|(first, rest)| (first.as_str(), rest)) {
            module.pop()?;
            path = rest;
        }
        Some([&module, path].concat())
    }

    fn add_tree(&mut self, tree: &UseTree, before: &mut Vec<String>, is_passed_on: bool) {
        let (segment, name) = match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.add_tree(&path.tree, before, is_passed_on);
                before.pop();
                return;
            }
            UseTree::Group(group) => {
                group.items.iter().for_each(|item| self.add_tree(item, before, is_passed_on));
                return;
            }
            UseTree::Name(name) => (name.ident.to_string(), Some(name.ident.to_string())),
            UseTree::Rename(rename) => (rename.ident.to_string(), Some(rename.rename.to_string())),
            UseTree::Glob(_) => ("*".to_owned(), None),
        };
        let mut path = before.clone();
        let mut name = name;
        match segment.as_str() {
            "self" => name = name.filter(|name| name != "self").or_else(|| path.last().cloned()),
            "*" => {}
            _ => path.push(segment),
        }
        if let Some(path) = self.rooted(&path) {
            self.paths.push(UsedPath { path, name, is_passed_on });
        }
    }
}

impl<'ast> Visit<'ast> for Paths<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !is_test(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let is_passed_on = !matches!(item.vis, syn::Visibility::Inherited);
        self.add_tree(&item.tree, &mut Vec::new(), is_passed_on);
    }

    /// `pub(super)` imports nothing.
    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if ["crate", "super"].contains(&segments[0].as_str())
            && let Some(path) = self.rooted(&segments)
        {
            self.paths.push(UsedPath { path, name: None, is_passed_on: false });
        }
        visit::visit_path(self, path);
    }
}
