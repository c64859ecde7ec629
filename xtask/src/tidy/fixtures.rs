//! Every fixture is listed in fixtures/README.md, with the command that made it.

use std::path::Path;

use super::Breach;
use super::tree::Tree;

const LIST: &str = "fixtures/README.md";

pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<Breach>> {
    let list = tree.text(LIST);
    Ok(tree
        .files
        .iter()
        .filter_map(|file| {
            let name = file.strip_prefix("fixtures").ok()?;
            (name != Path::new("README.md") && !is_listed(list, name))
                .then(|| Breach::new(file, 0, format!("is not listed in {LIST}")))
        })
        .collect())
}

/// Listed by its own path in backquotes, or by that of a folder above it, which then ends with a slash.
fn is_listed(list: &str, name: &Path) -> bool {
    list.contains(&format!("`{}`", name.display()))
        || name
            .ancestors()
            .skip(1)
            .filter(|folder| folder.components().count() > 1)
            .any(|folder| list.contains(&format!("`{}/`", folder.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_listed_by_its_path_or_its_folder() {
        let list = "| `programs/spin.c` | gcc |\n| `records/old/` | perf |";
        assert!(is_listed(list, Path::new("programs/spin.c")));
        assert!(is_listed(list, Path::new("records/old/a.data")));
        assert!(!is_listed(list, Path::new("programs/spin")));
        assert!(!is_listed(list, Path::new("records/new.data")));
    }
}
