//! What the file of a Go program says of its runtime.

use std::fmt;

use elf::{Machine, Object, SymbolSource};

use crate::layout::Layout;

/// The runtime of a Go program: addresses are those of the file (Svma).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GoProgram {
    pub(crate) machine: Machine,
    pub(crate) layout: Layout,
    /// `runtime.allgptr` and `runtime.allglen`: the list of all goroutines, and their number.
    pub(crate) list: u64,
    pub(crate) count: u64,
    /// `runtime.waitReasonStrings`; `None` where the file does not name it.
    pub(crate) reasons: Option<u64>,
}

/// Why the goroutines of a program cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotUnderstood {
    /// It was built by this version of Go, whose runtime is not known here.
    Version(String),
    /// The file, built by this version, does not say where the list of goroutines is.
    Stripped(String),
    /// It is for a machine whose goroutines are not read.
    Machine,
}

impl fmt::Display for NotUnderstood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(f, "{version} is not known"),
            Self::Stripped(version) => write!(f, "{version}, stripped"),
            Self::Machine => write!(f, "another machine"),
        }
    }
}

/// The beginning of `.go.buildinfo` (Go's `src/debug/buildinfo/buildinfo.go`), and where the version follows: its length, and its bytes.
const BUILD_INFO: &[u8] = b"\xff Go buildinf:";
const VERSION: usize = 32;

impl GoProgram {
    /// Reads the file of a program; `None` if it is not one of Go.
    ///
    /// # Errors
    /// Where goroutines cannot be found in its memory.
    pub fn from_object<D: AsRef<[u8]>>(object: &Object<D>) -> Option<Result<Self, NotUnderstood>> {
        let version = version(object)?;
        let machine = object.machine();
        if !object.is_64() || !matches!(machine, Machine::X86_64 | Machine::AARCH64) {
            return Some(Err(NotUnderstood::Machine));
        }
        let Some(layout) = minor(&version).and_then(Layout::of_version) else {
            return Some(Err(NotUnderstood::Version(version)));
        };
        let names: [&[u8]; 3] = [b"runtime.allgptr", b"runtime.allglen", b"runtime.waitReasonStrings"];
        let mut found = [None; 3];
        for symbol in object.symbols(SymbolSource::Full) {
            if let Some(at) = names.iter().position(|name| *name == symbol.name()) {
                found[at] = Some(symbol.address.0);
            }
        }
        let [Some(list), Some(count), reasons] = found else {
            return Some(Err(NotUnderstood::Stripped(version)));
        };
        Some(Ok(Self { machine, layout, list, count, reasons }))
    }
}

/// Returns the version of Go that built a program: `go1.26.8`, perhaps with more words.
fn version<D: AsRef<[u8]>>(object: &Object<D>) -> Option<String> {
    let bytes = object.section_bytes(object.section(".go.buildinfo")?).ok()?;
    let rest = bytes.strip_prefix(BUILD_INFO)?.get(VERSION - BUILD_INFO.len()..)?;
    // The length has more than one byte from 128 on, which no version has.
    let (length, rest) = rest.split_first()?;
    Some(String::from_utf8_lossy(rest.get(..usize::from(*length))?).into_owned())
}

/// Returns the minor number of a version `go1.26.8`, `go1.27rc1`, `go1.26-custom`.
fn minor(version: &str) -> Option<u32> {
    let rest = version.strip_prefix("go1.")?;
    let end = rest.find(|digit: char| !digit.is_ascii_digit()).unwrap_or(rest.len());
    rest.get(..end)?.parse().ok()
}
