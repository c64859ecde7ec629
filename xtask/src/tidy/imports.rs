//! Which crate may import which: the table of ARCHITECTURE.md, held against the manifests.

use serde_json::Value;

use super::Breach;
use super::tree::Tree;

/// Each crate with the crates of the workspace that it may import. A crate imports none below it.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("decoder", &["model"]),
    ("tracker", &["model", "decoder"]),
    ("perfdata", &["model", "decoder"]),
    ("generated", &["model"]),
    ("elf", &["model"]),
    ("unwinder", &["model", "elf"]),
    ("memory", &["model"]),
    ("python", &["model", "elf", "memory"]),
    ("javascript", &["model", "elf", "memory"]),
    ("symbolizer", &["model", "elf"]),
    ("tasks", &["model", "elf", "symbolizer"]),
    ("profile", &["model"]),
    ("export", &["model", "decoder", "perfdata", "profile"]),
    ("stacks", &["model", "decoder", "tracker", "generated", "elf", "unwinder", "python", "javascript"]),
    ("host", &["model", "generated", "elf"]),
    ("push", &["model", "host"]),
    (
        "recorder",
        &[
            "model",
            "decoder",
            "perfdata",
            "tracker",
            "elf",
            "unwinder",
            "python",
            "javascript",
            "tasks",
            "generated",
            "host",
            "stacks",
        ],
    ),
    (
        "analysis",
        &[
            "model",
            "decoder",
            "perfdata",
            "generated",
            "tracker",
            "elf",
            "unwinder",
            "symbolizer",
            "profile",
            "export",
            "host",
            "stacks",
        ],
    ),
    (
        "live",
        &["model", "decoder", "tracker", "symbolizer", "profile", "export", "host", "recorder", "analysis"],
    ),
];

/// Crates above the table (`fuzz` lies in `tests`), which may import everything in it.
const TOP: &[&str] = &["cargo-prof", "cli", "fuzz", "xtask"];

/// Untyped errors are for the outermost crates: a library's error is an enum.
const TOP_ONLY: &[&str] = &["anyhow", "clap", "indicatif"];

pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<Breach>> {
    let mut breaches = Vec::new();
    for package in tree.metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let krate = folder(name);
        let manifest = if krate == "xtask" {
            "xtask/Cargo.toml".to_owned()
        } else {
            format!("crates/{krate}/Cargo.toml")
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            // What only tests import does not shape the crate.
            if dependency["kind"] != Value::Null {
                continue;
            }
            let imported = dependency["name"].as_str().unwrap_or_default();
            if !allowed(krate, imported) {
                breaches.push(Breach::new(&manifest, 0, format!("{krate} may not import {imported}")));
            }
        }
        if !TOP.contains(&krate) && !MAY_IMPORT.iter().any(|(known, _)| *known == krate) {
            breaches.push(Breach::new(&manifest, 0, format!("{krate} is not in the table of imports")));
        }
    }
    Ok(breaches)
}

fn allowed(krate: &str, imported: &str) -> bool {
    if TOP.contains(&krate) {
        return true;
    }
    if !imported.starts_with("prof-") {
        return !TOP_ONLY.contains(&imported);
    }
    MAY_IMPORT
        .iter()
        .find(|(known, _)| *known == krate)
        .is_some_and(|(_, list)| list.contains(&folder(imported)))
}

/// The folder of a package: `prof-elf` lies in `crates/elf`.
fn folder(package: &str) -> &str {
    package.strip_prefix("prof-").unwrap_or(package)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_go_down_the_table_only() {
        assert!(allowed("tracker", "prof-decoder"));
        assert!(!allowed("tracker", "prof-elf"));
        assert!(!allowed("model", "prof-decoder"));
        assert!(!allowed("symbolizer", "anyhow"));
        assert!(allowed("cli", "anyhow"));
        for (index, (_, list)) in MAY_IMPORT.iter().enumerate() {
            for imported in *list {
                assert!(MAY_IMPORT[..index].iter().any(|(above, _)| above == imported));
            }
        }
    }
}
