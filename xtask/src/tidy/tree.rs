//! The tree that the rules look at: text files, parsed sources, manifests.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::workspace;

/// A text file of the project.
pub(crate) struct TextFile {
    /// Relative to the root.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// A Rust source below `crates/CRATE/src` or `xtask/src`.
pub(crate) struct Source {
    /// The folder's name: `decoder`, `xtask`.
    pub(crate) krate: String,
    /// Relative to the root.
    pub(crate) path: PathBuf,
    pub(crate) syntax: syn::File,
}

/// The files of the project, as the rules look at them.
pub(crate) struct Tree {
    /// Every file, text or not, relative to the root.
    pub(crate) files: Vec<PathBuf>,
    pub(crate) texts: Vec<TextFile>,
    pub(crate) sources: Vec<Source>,
    pub(crate) manifest: toml::Table,
    pub(crate) metadata: serde_json::Value,
}

impl Tree {
    pub(crate) fn read(root: &Path) -> anyhow::Result<Self> {
        let files = workspace::files(root)?;
        let mut texts = Vec::new();
        let mut sources = Vec::new();
        for path in &files {
            let bytes = std::fs::read(root.join(path)).with_context(|| path.display().to_string())?;
            // Files that are not UTF-8 are recordings or objects, to which no rule applies.
            let Ok(text) = String::from_utf8(bytes) else { continue };
            if let Some(krate) = crate_of(path) {
                let syntax = syn::parse_file(&text).with_context(|| path.display().to_string())?;
                sources.push(Source { krate, path: path.clone(), syntax });
            }
            texts.push(TextFile { path: path.clone(), text });
        }
        let manifest = std::fs::read_to_string(root.join("Cargo.toml"))?.parse().context("Cargo.toml")?;
        Ok(Self { files, texts, sources, manifest, metadata: workspace::metadata(root)? })
    }

    /// The text of the file at `path`, empty where there is none.
    pub(crate) fn text(&self, path: &str) -> &str {
        self.texts.iter().find(|file| file.path == Path::new(path)).map_or("", |file| &file.text)
    }
}

/// The crate that a file is a source of: `crates/CRATE/src/….rs`, `xtask/src/….rs`.
fn crate_of(path: &Path) -> Option<String> {
    let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
    match parts.as_slice() {
        ["crates", krate, "src", .., file] if file.ends_with(".rs") => Some((*krate).to_owned()),
        ["xtask", "src", .., file] if file.ends_with(".rs") => Some("xtask".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_below_src_are_sources() {
        assert_eq!(crate_of(Path::new("crates/elf/src/a/b.rs")).as_deref(), Some("elf"));
        assert_eq!(crate_of(Path::new("xtask/src/main.rs")).as_deref(), Some("xtask"));
        assert_eq!(crate_of(Path::new("crates/elf/tests/a.rs")), None);
        assert_eq!(crate_of(Path::new("crates/elf/src/a.txt")), None);
    }
}
