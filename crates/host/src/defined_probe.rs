//! Probes that are defined in tracefs and become tracepoints. Threads started later inherit tracepoints, but not the events of the
//! PMUs `uprobe` and `kprobe`.

use std::ffi::{CStr, OsStr};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::tracefs;

/// The address at which a probe is set.
#[derive(Clone, Copy, Debug)]
pub enum ProbePlace<'a> {
    /// An offset in a program or library, in bytes of the file.
    Program(&'a CStr, u64),
    /// An offset from a function of the kernel, in bytes.
    Kernel(&'a CStr, u64),
}

/// A probe that stays defined until this is dropped. Close its events first: the kernel does not remove a probe in use.
#[derive(Debug)]
pub struct DefinedProbe {
    definitions: PathBuf,
    system: String,
    name: String,
    /// The id of its tracepoint, for `attr.config`.
    pub id: u64,
}

impl DefinedProbe {
    /// Defines a probe at an address, or at the return of the function there.
    ///
    /// # Errors
    /// The program cannot be opened, or tracefs cannot be written.
    pub fn new(place: ProbePlace<'_>, on_return: bool) -> io::Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let folder = tracefs::mounted()?;
        let own = process::id();
        let (definitions, place, _program) = match place {
            ProbePlace::Program(path, offset) => {
                let file = File::open(Path::new(OsStr::from_bytes(path.to_bytes())))?;
                // By its descriptor, because a blank or colon would end a path.
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
        // A probe that cannot be removed is disabled and costs nothing.
        let _ = append(&self.definitions, &format!("-:{}/{}\n", self.system, self.name));
    }
}

/// Adds one line with one `write(2)`, as tracefs requires. Opens the file for appending, because truncating removes the probes
/// of other processes.
fn append(definitions: &Path, line: &str) -> io::Result<()> {
    OpenOptions::new().append(true).open(definitions)?.write_all(line.as_bytes())
}
