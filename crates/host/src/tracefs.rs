//! Reads tracepoints and their formats from tracefs.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::sys::mount;

/// Returns the mount point of tracefs: `/sys/kernel/tracing`, or below debugfs as on older systems.
///
/// # Errors
/// `EACCES` if this user may not read it, `ENOENT` if it is not mounted.
pub fn folder() -> io::Result<PathBuf> {
    let mut first = None;
    for path in ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"] {
        match fs::read_dir(Path::new(path).join("events")) {
            Ok(_) => return Ok(path.into()),
            Err(error) => _ = first.get_or_insert(error),
        }
    }
    Err(first.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
}

/// Returns the same as [`folder`], but first mounts tracefs if it is not mounted and this user may mount it. Not every system
/// mounts it at boot.
///
/// # Errors
/// As [`folder`].
pub fn mounted() -> io::Result<PathBuf> {
    folder().or_else(|error| {
        if error.kind() == io::ErrorKind::NotFound && mount::tracefs(c"/sys/kernel/tracing").is_ok() {
            return folder();
        }
        Err(error)
    })
}

/// Lists the folders in `folder`, ascending: systems in `events`, tracepoints in a system.
///
/// # Errors
/// Those of `readdir(3)`.
pub fn names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(folder)?.flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut names: Vec<String> = folders.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    Ok(names)
}

/// Returns the id of a tracepoint, for `attr.config`; `None` for anything else (`ftrace` functions, folders of filters).
pub fn id(folder: &Path, system: &str, name: &str) -> Option<u64> {
    fs::read_to_string(folder.join("events").join(system).join(name).join("id")).ok()?.trim().parse().ok()
}

/// Reads the format of a tracepoint's raw data, as text.
///
/// # Errors
/// There is no such tracepoint, or this user may not read it.
pub fn format(folder: &Path, system: &str, name: &str) -> io::Result<Vec<u8>> {
    fs::read(folder.join("events").join(system).join(name).join("format"))
}

/// Reads the formats of a page of the trace ring and of an event in it (`header_page`, `header_event`).
///
/// # Errors
/// The files cannot be read.
pub fn headers(folder: &Path) -> io::Result<[Vec<u8>; 2]> {
    let events = folder.join("events");
    Ok([read_in_one_call(&events.join("header_page"))?, read_in_one_call(&events.join("header_event"))?])
}

/// Reads the format strings of `trace_printk`, by their kernel addresses.
///
/// # Errors
/// The file cannot be read.
pub fn printk_formats(folder: &Path) -> io::Result<Vec<u8>> {
    fs::read(folder.join("printk_formats"))
}

/// Reads a file of tracefs that returns its whole content to the first `read(2)` and nothing to a second.
fn read_in_one_call(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = vec![0; 1 << 16];
    let length = fs::File::open(path)?.read(&mut text)?;
    text.truncate(length);
    Ok(text)
}
