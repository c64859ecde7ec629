//! What the project and its parts may weigh at most: `xtask/ceilings`, which a commit may only lower.
//!
//! A part is the hall (the way of a sample from the ring to the picture, and what must be known to change anything) or a room that
//! hangs on it. What belongs to no room belongs to the hall.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::Sizes;
use crate::workspace;

const FILE: &str = "xtask/ceilings";

/// The sizes of one file.
pub(super) struct FileSizes {
    pub(super) path: PathBuf,
    pub(super) sizes: Sizes,
}

/// The sizes of the project.
pub(super) struct Measured {
    pub(super) files: Vec<FileSizes>,
    pub(super) circles: usize,
}

/// One line of the file of ceilings.
struct Ceiling {
    /// `all`, `constants`, `circles`, `hall`, or the name of a room.
    name: String,
    most: usize,
    /// The files and folders of a room.
    paths: Vec<PathBuf>,
}

impl Ceiling {
    fn parse(line: &str) -> anyhow::Result<Self> {
        let mut words = line.split_whitespace();
        let (Some(name), Some(most)) = (words.next(), words.next()) else {
            bail!("{FILE}: {line}: a name and a number are wanted")
        };
        let most = most.parse().with_context(|| format!("{FILE}: {line}"))?;
        Ok(Self { name: name.to_owned(), most, paths: words.map(PathBuf::from).collect() })
    }

    fn contains(&self, file: &Path) -> bool {
        self.paths.iter().any(|path| file.starts_with(path))
    }

    /// Returns what is there of what the ceiling is for.
    fn measure(&self, measured: &Measured, ceilings: &[Self]) -> usize {
        let lines = |is_meant: &dyn Fn(&Path) -> bool| -> usize {
            let files = measured.files.iter().filter(|file| is_meant(&file.path));
            files.map(|file| file.sizes.lines).sum()
        };
        match self.name.as_str() {
            "all" => lines(&|_| true),
            "constants" => measured.files.iter().map(|file| file.sizes.constants).sum(),
            "circles" => measured.circles,
            "hall" => lines(&|file| !ceilings.iter().any(|room| room.contains(file))),
            _ => lines(&|file| self.contains(file)),
        }
    }
}

/// Prints each figure beside its ceiling, and fails where one is above it, or where a room names files that are not there.
pub(super) fn check(measured: &Measured) -> anyhow::Result<()> {
    let text = fs::read_to_string(workspace::root().join(FILE)).context(FILE)?;
    let ceilings = parse(&text)?;
    let mut broken = Vec::new();
    for ceiling in &ceilings {
        let there = ceiling.measure(measured, &ceilings);
        println!("{:<12} {there:>6} of {:>6}", ceiling.name, ceiling.most);
        if there > ceiling.most {
            broken.push(format!("{}: {there}, and at most {} are allowed", ceiling.name, ceiling.most));
        }
        let missing = ceiling
            .paths
            .iter()
            .filter(|path| !measured.files.iter().any(|file| file.path.starts_with(path)));
        broken.extend(missing.map(|path| format!("{}: {} has no code", ceiling.name, path.display())));
    }
    match broken.len() {
        0 => Ok(()),
        _ => bail!("above {FILE}; take something away: {}", broken.join("; ")),
    }
}

/// Lowers each ceiling to what is there.
pub(super) fn lower(measured: &Measured) -> anyhow::Result<()> {
    let path = workspace::root().join(FILE);
    let text = fs::read_to_string(&path).context(FILE)?;
    fs::write(&path, lowered(&text, measured)?).context(FILE)
}

fn lowered(text: &str, measured: &Measured) -> anyhow::Result<String> {
    let ceilings = parse(text)?;
    let mut next = ceilings.iter();
    let mut lowered = String::new();
    for line in text.lines() {
        let Some(ceiling) = is_ceiling(line).then(|| next.next()).flatten() else {
            writeln!(lowered, "{line}")?;
            continue;
        };
        let most = ceiling.most.min(ceiling.measure(measured, &ceilings));
        let paths: String = ceiling.paths.iter().map(|path| format!(" {}", path.display())).collect();
        writeln!(lowered, "{:<12}{most:>6}{paths}", ceiling.name)?;
    }
    Ok(lowered)
}

fn parse(text: &str) -> anyhow::Result<Vec<Ceiling>> {
    text.lines().filter(|line| is_ceiling(line)).map(Ceiling::parse).collect()
}

fn is_ceiling(line: &str) -> bool {
    !line.trim().is_empty() && !line.starts_with('#')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(files: &[(&str, usize)]) -> Measured {
        let sizes = |lines| Sizes { lines, ..Sizes::default() };
        let files = files.iter().map(|(path, lines)| FileSizes { path: path.into(), sizes: sizes(*lines) });
        Measured { files: files.collect(), circles: 0 }
    }

    #[test]
    fn ceilings_are_lowered_and_never_raised() {
        let text = "# Why.\nall 100\nhall 50\nstat 9 crates/stat crates/cli/src/stat.rs\n";
        let there = measured(&[
            ("crates/stat/src/lib.rs", 10),
            ("crates/cli/src/stat.rs", 5),
            ("crates/cli/src/main.rs", 20),
        ]);
        let expected = "# Why.\nall             35\nhall            20\nstat             9 crates/stat crates/cli/src/stat.rs\n";
        assert_eq!(lowered(text, &there).expect("a file of ceilings"), expected);
    }
}
