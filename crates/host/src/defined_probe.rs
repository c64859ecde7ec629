//! Probes that are defined in tracefs, and then are tracepoints like others: what a thread starts takes them over, as it cannot
//! those of the PMUs `uprobe` and `kprobe`.

use std::ffi::{CStr, OsStr};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::tracefs;

/// The code that a probe is set on.
#[derive(Clone, Copy, Debug)]
pub enum ProbePlace<'a> {
    /// At an offset of a file.
    Program(&'a CStr, u64),
    /// At an offset of a function of the kernel.
    Kernel(&'a CStr, u64),
}

/// A probe, defined until this is dropped. What counts it has to be closed before: the kernel keeps what is in use.
#[derive(Debug)]
pub struct DefinedProbe {
    definitions: PathBuf,
    system: String,
    name: String,
    /// The number of its tracepoint.
    pub id: u64,
}

impl DefinedProbe {
    /// Defines a probe at a place, or where the function there returns.
    ///
    /// # Errors
    /// Where the program cannot be opened, or tracefs cannot be written.
    pub fn new(place: ProbePlace<'_>, on_return: bool) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let folder = tracefs::mounted()?;
        let own = process::id();
        let (definitions, place, _program) = match place {
            ProbePlace::Program(path, offset) => {
                let file = File::open(Path::new(OsStr::from_bytes(path.to_bytes())))?;
                // By its descriptor: blanks and colons of a path would end it.
                let place = format!("/proc/{own}/fd/{}:{offset:#x}", file.as_raw_fd());
                ("uprobe_events", place, Some(file))
            }
            ProbePlace::Kernel(function, offset) => {
                ("kprobe_events", format!("{}+{offset}", function.to_string_lossy()), None)
            }
        };
        let definitions = folder.join(definitions);
        let system = format!("prof_{own}");
        let name = format!("probe_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let letter = if on_return { 'r' } else { 'p' };
        append(&definitions, &format!("{letter}:{system}/{name} {place}\n"))?;
        let mut defined = Self { definitions, system, name, id: 0 };
        defined.id =
            tracefs::id(&folder, &defined.system, &defined.name).ok_or(io::ErrorKind::PermissionDenied)?;
        Ok(defined)
    }
}

impl Drop for DefinedProbe {
    fn drop(&mut self) {
        // Nothing more can be done where it stays: it is not enabled, and costs nothing.
        let _ = append(&self.definitions, &format!("-:{}/{}\n", self.system, self.name));
    }
}

/// Adds one line in one `write(2)`, as tracefs wants it. Opened to append: to truncate would remove the probes of others.
fn append(definitions: &Path, line: &str) -> io::Result<()> {
    OpenOptions::new().append(true).open(definitions)?.write_all(line.as_bytes())
}
