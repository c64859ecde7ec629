//! Profiles of one program that compilers and linkers read, to arrange its code by how it was used.
//!
//! A compiler finds code by names and lines, not by addresses: by linkage names, by lines relative to the start of their function, and
//! by the inlined calls of the build that was recorded. All formats get the same [`ProgramSamples`].

mod agreement;
mod autofdo;
mod bolt;
mod go_pgo;

use std::collections::HashMap;
use std::io::{self, Write};
use std::str::FromStr;
use std::sync::Arc;

use model::{Frame, SourceLocation};
use profile::{Count, StackId, StackTable, Weight};

pub use self::agreement::Agreement;

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
    /// The agreement with other recordings of the same work that chance allows.
    pub agreement: Agreement,
}

/// Adds a count to a sum, saturating.
fn add(sum: &mut u64, count: u64) {
    *sum = sum.saturating_add(count);
}

impl ProgramSamples {
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
