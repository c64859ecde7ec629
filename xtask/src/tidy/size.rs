//! Files stay small enough to read in one sitting.

use super::Breach;
use super::tree::Tree;

/// Lines, tests included.
const MOST: usize = 600;

pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<Breach>> {
    Ok(tree
        .sources
        .iter()
        .filter(|source| source.lines > MOST)
        .map(|source| Breach::new(&source.path, 0, format!("{} lines, at most {MOST}", source.lines)))
        .collect())
}
