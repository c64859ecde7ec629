//! The source lines of the page: those that stacks end on, with lines around them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use model::Name;
use profile::View;
use serde_json::{Map, Value, json};

use crate::SourceReader;

/// The number of lines shown before and after a sampled one.
const CONTEXT_LINES: usize = 3;
/// Maximum number of source lines of a page. Files with most samples come first.
const MAX_LINES: usize = 60_000;
/// Maximum number of bytes of source text. Packed it takes a third of that, and source may add 2 MB to a page.
const MAX_TEXT_BYTES: usize = 4 << 20;
/// Maximum number of characters of a line.
const MAX_LINE_CHARACTERS: usize = 300;
/// The extensions of source files. Only such files are read: debug information may name any file of the machine, and users
/// share the page.
const SOURCE_EXTENSIONS: [&str; 38] = [
    "rs", "c", "h", "cc", "cpp", "cxx", "hh", "hpp", "hxx", "inl", "ipp", "tcc", "s", "asm", "go", "java",
    "kt", "scala", "py", "pyx", "js", "mjs", "ts", "rb", "php", "pl", "swift", "m", "mm", "zig", "d", "f",
    "f90", "hs", "ml", "nim", "cs", "jl",
];

/// The lines that stacks end on, numbered from 1.
#[derive(Default, Debug)]
pub(crate) struct Lines {
    files: Vec<Arc<str>>,
    file_numbers: HashMap<Arc<str>, u32>,
    /// The file number and line of each.
    lines: Vec<(u32, u32)>,
    line_numbers: HashMap<(u32, u32), u32>,
}

impl Lines {
    /// Returns the number of each frame's line, 0 if it has none.
    pub(crate) fn of_frames(&mut self, view: &View<'_>) -> Vec<u32> {
        let line = |frame: &profile::ViewFrame| {
            let location = frame.line.as_ref().filter(|location| location.line > 0)?;
            let next = self.files.len() as u32;
            let file = *self.file_numbers.entry(location.file.clone()).or_insert_with_key(|file| {
                self.files.push(file.clone());
                next
            });
            let line = (file, location.line);
            Some(*self.line_numbers.entry(line).or_insert_with(|| {
                self.lines.push(line);
                self.lines.len() as u32
            }))
        };
        view.frames().frames().iter().map(line).map(Option::unwrap_or_default).collect()
    }

    /// Returns the members of `meta` for source, with the text of sampled lines and of those around them. `samples` has the
    /// samples of each line, by its number.
    pub(crate) fn with_text(&self, samples: &[u64], read: &SourceReader<'_>) -> Map<String, Value> {
        // The sampled lines of each file.
        let mut sampled: BTreeMap<u32, (u64, Vec<usize>)> = BTreeMap::new();
        for (&(file, line), &samples) in self.lines.iter().zip(samples.iter().skip(1)) {
            if samples > 0 {
                let (sum, lines) = sampled.entry(file).or_default();
                *sum = sum.saturating_add(samples);
                lines.push(line as usize);
            }
        }
        let mut order: Vec<(u32, (u64, Vec<usize>))> = sampled.into_iter().collect();
        order.sort_by_key(|(file, (samples, _))| (std::cmp::Reverse(*samples), *file));
        let (mut left, mut bytes_left) = (MAX_LINES, MAX_TEXT_BYTES);
        let mut texts: Vec<Value> = Vec::new();
        for (file, (_, mut lines)) in order {
            let path = &self.files[file as usize];
            let Some(source) = is_source(path).then(|| read(path)).flatten() else { continue };
            lines.sort_unstable();
            for (first, end) in line_ranges(&lines, source.lines()) {
                if end - first > left {
                    break;
                }
                left -= end - first;
                let numbers = first as u32 + 1..=end as u32;
                let text: Vec<String> =
                    numbers.filter_map(|number| Some(shown(&source.line(number)?))).collect();
                let bytes = text.iter().map(String::len).sum();
                let Some(rest) = bytes_left.checked_sub(bytes) else { break };
                bytes_left = rest;
                texts.push(json!([file, first + 1, text]));
            }
        }
        let files: Vec<String> = self.files.iter().map(|file| Name::from(&**file).to_string()).collect();
        let (file, line): (Vec<u32>, Vec<u32>) = self.lines.iter().copied().unzip();
        let mut fields = Map::new();
        fields.insert("sources".to_owned(), json!(files));
        fields.insert("lines".to_owned(), json!({ "file": file, "line": line }));
        fields.insert("texts".to_owned(), json!(texts));
        fields
    }
}

pub(super) fn is_source(path: &str) -> bool {
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
    SOURCE_EXTENSIONS.iter().any(|known| known.eq_ignore_ascii_case(ending))
}

/// Returns the ranges of lines around sampled ones: start and exclusive end, counted from 0. `lines` ascend and count
/// from 1.
fn line_ranges(lines: &[usize], count: usize) -> Vec<(usize, usize)> {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &line in lines.iter().filter(|&&line| line <= count) {
        let (first, end) = (line.saturating_sub(CONTEXT_LINES + 1), (line + CONTEXT_LINES).min(count));
        match ranges.last_mut() {
            Some(last) if last.1 >= first => last.1 = end,
            _ => ranges.push((first, end)),
        }
    }
    ranges
}

/// Returns a line with tabs as spaces and unsafe characters replaced, cut to [`MAX_LINE_CHARACTERS`].
pub(super) fn shown(line: &str) -> String {
    let line: String = line.replace('\t', "    ").chars().take(MAX_LINE_CHARACTERS).collect();
    Name::from(line.as_str()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_lie_close_share_a_stretch() {
        assert_eq!(line_ranges(&[3, 5, 40], 100), [(0, 8), (36, 43)]);
        assert_eq!(line_ranges(&[1, 17, 99, 101], 100), [(0, 4), (13, 20), (95, 100)]);
        assert_eq!(line_ranges(&[7], 0), []);
    }

    #[test]
    fn only_sources_are_read() {
        assert!(is_source("/build/src/main.rs") && is_source("/a/b.CPP") && is_source("x.h"));
        assert!(
            !is_source("/etc/shadow") && !is_source("/home/x/.ssh/id_rsa") && !is_source("/home/x/.netrc")
        );
    }

    #[test]
    fn text_of_files_is_harmless() {
        assert_eq!(shown("\tif (a)"), "    if (a)");
        assert!(!shown("a\u{202e}b\u{1b}[2J").contains(['\u{202e}', '\u{1b}']));
        assert_eq!(shown(&"x".repeat(9_000)).len(), MAX_LINE_CHARACTERS);
    }
}
