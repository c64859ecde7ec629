//! Mappings of a process: `/proc/PID/maps` (proc(5)).

use std::io::{self, BufRead, BufReader};
use std::time::{Duration, Instant};

use model::Pid;

/// Bytes that are read at once, where another process reads: some 600 lines.
const READ_BYTES: usize = 64 << 10;

/// Longest time to read the mappings of a process. Large processes have several thousand.
const READ_TIME: Duration = Duration::from_millis(500);

/// A mapping of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MapEntry {
    /// First address (Avma).
    pub start: u64,
    /// The address after the last byte (Avma).
    pub end: u64,
    /// `PROT_*` of `mmap(2)`.
    pub protection: u32,
    /// Shared with other processes (`MAP_SHARED`) rather than private.
    pub shared: bool,
    /// Offset in the file, in bytes.
    pub page_offset: u64,
    /// The device of the file: major and minor number.
    pub device: (u32, u32),
    /// The file's inode.
    pub inode: u64,
    /// The path, `[vdso]`, `[heap]`, …; empty for anonymous memory.
    pub path: Vec<u8>,
}

/// Reads the executable mappings of a process, or with `data` all mappings, ascending by address. The second value is true if
/// reading took longer than half a second and the list is incomplete.
///
/// # Errors
/// The process has ended, or we may not read it.
pub fn executable_maps(pid: Pid, data: bool) -> io::Result<(Vec<MapEntry>, bool)> {
    let begin = Instant::now();
    let file = BufReader::with_capacity(READ_BYTES, super::open(pid, "maps")?);
    let mut entries = Vec::new();
    for (count, line) in file.split(b'\n').enumerate() {
        // The clock is read every 256 lines: most processes have a few hundred.
        if count % 256 == 255 && begin.elapsed() > READ_TIME {
            return Ok((entries, true));
        }
        let line = match line {
            Ok(line) => line,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok((entries, true)),
            // The kernel ends the file with ESRCH when the process ends meanwhile: keep what was read.
            Err(_) => break,
        };
        if let Some(entry) = parse(&line)
            && (data || entry.protection & PROT_EXEC != 0)
        {
            entries.push(entry);
        }
    }
    Ok((entries, false))
}

const PROT_READ: u32 = 1;
const PROT_WRITE: u32 = 2;
const PROT_EXEC: u32 = 4;

impl MapEntry {
    /// Parses a line of `/proc/PID/maps` without its line feed; `None` if it is malformed.
    pub fn parse(line: &[u8]) -> Option<Self> {
        parse(line)
    }
}

/// Parses `7f3f774f4000-7f3f7764a000 r-xp 00026000 fe:00 326279      /usr/lib/x86_64-linux-gnu/libc.so.6`
fn parse(line: &[u8]) -> Option<MapEntry> {
    let mut fields = line.splitn(6, |&byte| byte == b' ');
    let mut text = || str::from_utf8(fields.next()?).ok();
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = text()?.split_once('-')?;
    let permissions = text()?.as_bytes();
    let page_offset = hex(text()?)?;
    let (major, minor) = text()?.split_once(':')?;
    let inode = text()?.parse().ok()?;
    let path = fields.next().map(|path| path.trim_ascii_start().to_vec()).unwrap_or_default();
    let bit = |index, letter, bit| if permissions.get(index) == Some(&letter) { bit } else { 0 };
    Some(MapEntry {
        start: hex(start)?,
        end: hex(end)?,
        protection: bit(0, b'r', PROT_READ) | bit(1, b'w', PROT_WRITE) | bit(2, b'x', PROT_EXEC),
        shared: permissions.get(3) == Some(&b's'),
        page_offset,
        device: (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?),
        inode,
        path,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_all_kinds_of_paths() {
        let entry =
            parse(b"7f3f774f4000-7f3f7764a000 r-xp 00026000 fe:00 326279                     /usr/lib/a b.so (deleted)")
                .unwrap();
        assert_eq!(
            (entry.start, entry.end, entry.page_offset),
            (0x7f3f_774f_4000, 0x7f3f_7764_a000, 0x26000)
        );
        assert_eq!((entry.device, entry.inode, entry.shared), ((0xfe, 0), 326_279, false));
        assert_eq!(entry.protection, PROT_READ | PROT_EXEC);
        assert_eq!(entry.path, b"/usr/lib/a b.so (deleted)");
        let anonymous = parse(b"7f3f774f4000-7f3f7764a000 rw-s 00000000 00:00 0 ").unwrap();
        assert_eq!((anonymous.path.as_slice(), anonymous.shared), (b"".as_slice(), true));
        assert_eq!(parse(b"nonsense"), None);
    }

    #[test]
    fn our_own_code_is_mapped_executable() {
        let address = our_own_code_is_mapped_executable as *const () as u64;
        let (maps, cut) = executable_maps(crate::sys::perf_event::own_pid(), false).unwrap();
        assert!(!cut && maps.iter().any(|map| (map.start..map.end).contains(&address)));
        assert!(maps.iter().all(|map| map.protection & PROT_EXEC != 0));
    }
}
