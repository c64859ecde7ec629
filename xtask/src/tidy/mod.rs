//! `cargo xtask tidy`: the rules that the compiler does not hold, most of them absences.
//!
//! Rules are for what a program can judge; wording is for review. That public items are documented is checked by the compiler.
//! One file per rule; a rule looks at the whole tree and returns what breaks it.

mod circles;
mod dependencies;
mod fixtures;
mod import_graph;
mod imports;
mod licences;
mod manual;
mod paths;
mod purity;
mod top;
mod tree;
mod type_names;

use std::fmt;
use std::path::PathBuf;

use anyhow::bail;

use crate::workspace;
pub(crate) use purity::NO_STD;
use tree::Tree;

/// The sources of the project, as other chores look at them.
pub(crate) mod sources {
    pub(crate) use super::circles::count_by_crate as circles_by_crate;
    pub(crate) use super::purity::{is_test, of_programs};
    pub(crate) use super::tree::{Source, Tree};
}

/// One breach of a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Breach {
    /// The file, relative to the root.
    file: PathBuf,
    /// The line, counted from 1; 0 where the file as a whole is meant.
    line: usize,
    what: String,
}

impl Breach {
    fn new(file: impl Into<PathBuf>, line: usize, what: impl Into<String>) -> Self {
        Self { file: file.into(), line, what: what.into() }
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file.display(), self.what),
            line => write!(f, "{}:{line}: {}", self.file.display(), self.what),
        }
    }
}

type Rule = fn(&Tree) -> anyhow::Result<Vec<Breach>>;

const RULES: &[Rule] = &[
    imports::check,
    circles::check,
    purity::check,
    top::check,
    type_names::check,
    dependencies::check,
    fixtures::check,
    licences::check,
    manual::check,
    paths::check,
];

/// Applies every rule and fails when one is broken. Takes no arguments.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    if !args.is_empty() {
        bail!("takes no arguments");
    }
    let tree = Tree::read(&workspace::root())?;
    let mut breaches = Vec::new();
    for rule in RULES {
        breaches.extend(rule(&tree)?);
    }
    breaches.sort();
    for breach in &breaches {
        eprintln!("{breach}");
    }
    match breaches.len() {
        0 => Ok(()),
        count => bail!("{count} breaches of the house rules"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let tree = Tree::read(&workspace::root()).unwrap();
        let breaches: Vec<String> =
            RULES.iter().flat_map(|rule| rule(&tree).unwrap()).map(|breach| breach.to_string()).collect();
        assert!(breaches.is_empty(), "{}", breaches.join("\n"));
    }
}
