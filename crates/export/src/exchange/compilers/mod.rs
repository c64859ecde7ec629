//! Profiles of one program that compilers and linkers read, to arrange its code by how it was used.
//!
//! A compiler finds code by names and lines, not by addresses: by linkage names, by lines relative to the start of their function, and
//! by the inlined calls of the build that was recorded. All formats get the same [`ProgramSamples`].

mod autofdo;
mod bolt;
mod go_pgo;

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::str::FromStr;
use std::sync::Arc;

use model::{Frame, SourceLocation};
use profile::{Count, StackId, StackTable, Weight};

/// A format that a compiler reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CompilerFormat {
    /// pprof's format, as `go build -pgo` takes it.
    GoPgo,
    /// LLVM's sample profile, as text.
    AutoFdo,
    /// BOLT's `.fdata`, without branch records.
    Bolt,
}

impl CompilerFormat {
    /// The names of all formats.
    pub const NAMES: [&'static str; 3] = ["go-pgo", "autofdo", "bolt"];

    /// Returns true if the format is binary and must not be written to a terminal.
    pub fn is_binary(self) -> bool {
        self == Self::GoPgo
    }
}

impl FromStr for CompilerFormat {
    type Err = super::UnknownFormat;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "go-pgo" => Self::GoPgo,
            "autofdo" => Self::AutoFdo,
            "bolt" => Self::Bolt,
            _ => return Err(super::UnknownFormat(text.to_owned())),
        })
    }
}

/// The samples of one build of a program, of one or several recordings.
pub struct ProgramSamples {
    /// The path of the program.
    pub path: String,
    /// Its build id in hexadecimal; empty if unknown.
    pub build_id: String,
    /// The name of the sampled event.
    pub event: String,
    /// The stacks. All code outside of the program is one place.
    pub stacks: StackTable,
    /// The samples of each stack.
    pub counts: Vec<(StackId, Count)>,
    /// The weight of a stack.
    pub weight: Weight,
    /// The code at each place of `stacks`, by [`profile::PlaceId::index`]; `None` outside of the program, and where the code has no
    /// name.
    pub places: Vec<Option<ProgramPlace>>,
    /// The source location of the first instruction of functions, by the names that frames have.
    pub entries: HashMap<Arc<str>, SourceLocation>,
    /// The functions in the symbol table, by ascending address. Only [`CompilerFormat::Bolt`] needs them.
    pub symbols: Vec<LinkedFunction>,
    /// The time of the first sample, in nanoseconds since 1970; `None` if unknown.
    pub started_unix_ns: Option<u64>,
    /// The sum of the recordings' durations, in nanoseconds.
    pub duration_ns: u64,
}

/// A place in the code of a program.
#[derive(Clone, Debug)]
pub struct ProgramPlace {
    /// Its address in the program's file (Svma); of a return address that of the byte before it.
    pub address: u64,
    /// Its functions by their linkage names, the innermost first; none if it has no name, or is a wrapper that Go's compiler generated.
    pub frames: Arc<[Frame]>,
}

/// A function of a symbol table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkedFunction {
    /// The address of its first byte (Svma).
    pub start: u64,
    /// The address behind its last byte.
    pub end: u64,
    /// The name that BOLT gives it: see [`bolt_name`].
    pub name: String,
}

/// Returns BOLT's name of the `number`th symbol of this name that only its own object file sees, counted from 1 by ascending address
/// (`NameResolver` in `bolt/include/bolt/Utils/NameResolver.h`).
pub fn bolt_name(symbol: &str, number: usize) -> String {
    format!("{symbol}/{number}")
}

/// The samples and functions that a format has taken.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Written {
    /// The number of samples in the output.
    pub samples: u64,
    /// The sum of their weights.
    pub weight: u64,
    /// The number of samples that are left out because the debug information does not say where their function starts.
    pub without_start: u64,
    /// The number of functions in the output.
    pub functions: usize,
}

/// Adds a count to a sum, saturating.
fn add(sum: &mut u64, count: u64) {
    *sum = sum.saturating_add(count);
}

impl ProgramSamples {
    /// Replaces what would break a line of the format in the names of functions by `?`, as BOLT's profile has it.
    pub fn escape_names(&mut self, format: CompilerFormat) {
        let breaks = |letter: char| {
            letter.is_control()
                || format == CompilerFormat::AutoFdo && (letter.is_whitespace() || letter == ':')
        };
        let begins = |letter: char| letter.is_ascii_digit() || letter == '!';
        let escaped = |name: &str| {
            let begins_badly =
                format == CompilerFormat::AutoFdo && (name.is_empty() || name.starts_with(begins));
            let escaped = name.replace(breaks, "?");
            let rest = if begins_badly { escaped.get(1..).unwrap_or_default() } else { &escaped };
            Arc::from([if begins_badly { "?" } else { "" }, rest].concat())
        };
        for place in self.places.iter_mut().flatten() {
            let frames = place.frames.iter().cloned();
            place.frames =
                frames.map(|frame| Frame { function: escaped(&frame.function), ..frame }).collect();
        }
        let entries = std::mem::take(&mut self.entries).into_iter();
        self.entries = entries.map(|(name, location)| (escaped(&name), location)).collect();
    }

    /// Returns the number of names that several functions of the program have, each with code of its own in the source.
    pub fn ambiguous_names(&self) -> usize {
        let mut places: HashMap<&str, HashSet<(&str, u32)>> = HashMap::new();
        for frame in self.places.iter().flatten().filter_map(|place| place.frames.last()) {
            if let Some(at) = frame.location.as_ref().filter(|at| at.start_line > 0) {
                places.entry(&frame.function).or_default().insert((&at.file, at.start_line));
            }
        }
        places.values().filter(|places| places.len() > 1).count()
    }

    /// Returns the functions at the innermost place of a stack, if that lies in the program and has a name.
    fn innermost(&self, stack: StackId) -> Option<&ProgramPlace> {
        let (place, _) = self.stacks.split(stack)?;
        self.places.get(place.index())?.as_ref()
    }
}

/// Writes the samples of a program for a compiler.
///
/// # Errors
/// Those of `output`.
pub fn write(
    samples: &ProgramSamples,
    format: CompilerFormat,
    output: &mut dyn Write,
) -> io::Result<Written> {
    match format {
        CompilerFormat::GoPgo => go_pgo::write(samples, output),
        CompilerFormat::AutoFdo => autofdo::write(samples, output),
        CompilerFormat::Bolt => bolt::write(samples, output),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(functions: &[(&str, &str)]) -> ProgramSamples {
        let frame = |&(name, file): &(&str, &str)| Frame {
            function: name.into(),
            location: Some(SourceLocation {
                file: file.into(),
                line: 7,
                column: 0,
                discriminator: 0,
                start_line: 3,
            }),
            inlined: false,
        };
        let place = |function| Some(ProgramPlace { address: 0, frames: Arc::from([frame(function)]) });
        ProgramSamples {
            path: String::new(),
            build_id: String::new(),
            event: String::new(),
            stacks: StackTable::default(),
            counts: Vec::new(),
            weight: Weight::Samples,
            places: functions.iter().map(place).collect(),
            entries: HashMap::new(),
            symbols: Vec::new(),
            started_unix_ns: None,
            duration_ns: 0,
        }
    }

    #[test]
    fn names_that_would_break_a_line_are_escaped() {
        let names = |format, name: &str| {
            let mut samples = samples(&[(name, "f.c")]);
            samples.escape_names(format);
            let place = samples.places[0].clone().unwrap();
            place.frames[0].function.to_string()
        };
        for (name, auto_fdo, go) in [
            ("_Z3foov.cold", "_Z3foov.cold", "_Z3foov.cold"),
            ("a\nb:1:1", "a?b?1?1", "a?b:1:1"),
            ("a b\tc", "a?b?c", "a b?c"),
            ("1f", "?f", "1f"),
            ("!CFG", "?CFG", "!CFG"),
        ] {
            assert_eq!(names(CompilerFormat::AutoFdo, name), auto_fdo);
            assert_eq!(names(CompilerFormat::GoPgo, name), go);
        }
    }

    #[test]
    fn static_functions_of_one_name_are_counted() {
        assert_eq!(samples(&[("f", "a.c"), ("f", "a.c"), ("g", "a.c")]).ambiguous_names(), 0);
        assert_eq!(samples(&[("f", "a.c"), ("f", "b.c"), ("g", "a.c")]).ambiguous_names(), 1);
    }
}
