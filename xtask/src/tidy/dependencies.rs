//! Every third-party crate has its line in CONTRIBUTING.md, and every line its crate. Our own crates have versions.

use std::collections::BTreeSet;

use super::Breach;
use super::tree::Tree;

const LIST: &str = "CONTRIBUTING.md";

/// A line of the list: ``- `name`: what for; what was rejected``.
fn listed(line: &str) -> Option<&str> {
    let (name, rest) = line.strip_prefix("- `")?.split_once('`')?;
    let said = rest.strip_prefix(": ")?;
    (said.len() > 10).then_some(name)
}

pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<Breach>> {
    let mut breaches = Vec::new();
    let declared: BTreeSet<&str> = tree
        .manifest
        .get("workspace")
        .and_then(|workspace| workspace.get("dependencies"))
        .and_then(|dependencies| dependencies.as_table())
        .into_iter()
        .flatten()
        .filter(|(_, value)| value.get("path").is_none())
        .map(|(name, _)| name.as_str())
        .collect();
    for (name, value) in tree.manifest["workspace"]["dependencies"].as_table().into_iter().flatten() {
        if value.get("path").is_some() && value.get("version").is_none() {
            breaches.push(Breach::new(
                "Cargo.toml",
                0,
                format!("{name} has a path and no version: cargo package refuses it"),
            ));
        }
    }
    let section = tree.text(LIST).split("## Dependencies").nth(1).unwrap_or_default();
    let listed: BTreeSet<&str> = section.lines().filter_map(listed).collect();
    for missing in declared.difference(&listed) {
        breaches.push(Breach::new(
            LIST,
            0,
            format!("no line below Dependencies says what {missing} is for and what was rejected"),
        ));
    }
    for stale in listed.difference(&declared) {
        breaches.push(Breach::new(LIST, 0, format!("{stale} is listed but no dependency")));
    }
    for package in tree.metadata["packages"].as_array().into_iter().flatten() {
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let name = dependency["name"].as_str().unwrap_or_default();
            if dependency["path"].is_null() && !declared.contains(name) {
                breaches.push(Breach::new(
                    "Cargo.toml",
                    0,
                    format!("{} takes {name} past [workspace.dependencies]", package["name"]),
                ));
            }
        }
    }
    Ok(breaches)
}

#[cfg(test)]
mod tests {
    use super::listed;

    #[test]
    fn a_line_needs_a_name_and_a_reason() {
        assert_eq!(listed("- `libc`: system calls; rustix"), Some("libc"));
        assert_eq!(listed("- `libc`"), None);
        assert_eq!(listed("- libc: system calls; rustix"), None);
        assert_eq!(listed("- `libc`: x"), None);
    }
}
