//! Tracepoints as tracefs shows them.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::sys::mount;

/// Finds the folder where tracefs is mounted: its own place, or below debugfs as on older systems.
///
/// # Errors
/// `EACCES` where this user may not look into it, `ENOENT` where it is not mounted.
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

/// As [`folder`], but mounts it where it is not mounted yet and this user may: not every system does so as it starts.
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

/// The names below `folder`, ascending: systems below `events`, tracepoints below a system.
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

/// The number of a tracepoint; `None` for what is none (`ftrace` functions, folders of filters).
pub fn id(folder: &Path, system: &str, name: &str) -> Option<u64> {
    fs::read_to_string(folder.join("events").join(system).join(name).join("id")).ok()?.trim().parse().ok()
}

/// The format of a tracepoint's raw data, as text.
///
/// # Errors
/// Where there is no such tracepoint or this user may not read it.
pub fn format(folder: &Path, system: &str, name: &str) -> io::Result<Vec<u8>> {
    fs::read(folder.join("events").join(system).join(name).join("format"))
}

/// The formats of a page of the trace ring and of an event in it (`header_page`, `header_event`).
///
/// # Errors
/// Where they cannot be read.
pub fn headers(folder: &Path) -> io::Result<[Vec<u8>; 2]> {
    let events = folder.join("events");
    Ok([read_in_one_call(&events.join("header_page"))?, read_in_one_call(&events.join("header_event"))?])
}

/// The formats of `trace_printk`, which name strings of the kernel by their addresses.
///
/// # Errors
/// Where they cannot be read.
pub fn printk_formats(folder: &Path) -> io::Result<Vec<u8>> {
    fs::read(folder.join("printk_formats"))
}

/// Reads a file that gives all of itself to the first read, and nothing to a second.
fn read_in_one_call(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = vec![0; 1 << 16];
    let length = fs::File::open(path)?.read(&mut text)?;
    text.truncate(length);
    Ok(text)
}
