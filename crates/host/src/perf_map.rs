//! Files that runtimes write about the code that they generate: `/tmp/perf-PID.map`, and jitdump (`jit-PID.dump`).
//!
//! Their folder mostly belongs to everybody, and whoever profiles is often root: a file is used only where it can only be the
//! process's own.

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use model::{MapRefusal, Pid};

use crate::in_root;
use crate::mounts::Mounts;
use crate::procfs;
use crate::sys::system;
use model::Life;

/// Of a longer map the end is read, which has the newest code: 256 MiB are three million functions, and less than a
/// second of reading. The maps of node servers that run for weeks have a hundred.
pub const MAX_MAP_BYTES: u64 = 256 << 20;
/// Longer lines are cut: nothing behind is looked at in names that are cut at 4 KiB.
const MAX_LINE_BYTES: usize = 8 << 10;
/// Bytes that are read at once.
const BLOCK_BYTES: usize = 256 << 10;
/// The clocks of file systems lag behind by a tick, those of other machines by more; nanoseconds.
const CLOCK_TOLERANCE_NS: u64 = 2_000_000_000;

/// A map that may be used.
#[derive(Debug)]
pub struct MapFile {
    file: File,
    facts: FileFacts,
    /// Its path, as one would look at it from here.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// Nobody knows when its process began, so it may be of one before that had the same number.
    pub start_unknown: bool,
}

/// A map that there is, and why it is not used.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RefusedMap {
    /// Its path, as one would look at it from here.
    pub path: String,
    /// The reason.
    pub why: MapRefusal,
}

/// Finds the map of a process. `life` is what is known of the process from elsewhere: where it still lives, `/proc` is asked,
/// too. `Ok(None)` where there is no map. May wait for as long as the file system of the map does.
///
/// # Errors
/// The map that there is, and why it is not used.
pub fn find(pid: Pid, life: Life) -> Result<Option<MapFile>, RefusedMap> {
    find_named(pid, life, |number| PathBuf::from(format!("tmp/perf-{number}.map")))
}

/// Finds the jitdump that a process has mapped under this path. As [`find`].
///
/// # Errors
/// As [`find`].
pub fn find_dump(pid: Pid, path: &[u8], life: Life) -> Result<Option<MapFile>, RefusedMap> {
    let Some(path) = path.strip_prefix(b"/") else { return Ok(None) };
    find_named(pid, life, |_| PathBuf::from(OsStr::from_bytes(path)))
}

/// Finds a file that is called so by a process which knows itself by a number.
fn find_named(pid: Pid, life: Life, name: impl Fn(Pid) -> PathBuf) -> Result<Option<MapFile>, RefusedMap> {
    let (life, lives) = current_life(pid, life);
    let mut refused = None;
    let mut look = |root: &Path, number: Pid| {
        let name = name(number);
        let path = root.join(&name).display().to_string();
        let root = OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(root);
        let found = root.and_then(|root| {
            let mounts = OnceCell::new();
            let may_enter = |folder: &File| !mounts.get_or_init(|| Mounts::of_process(pid)).is_fuse(folder);
            in_root::open(&root, &name, &may_enter)
        });
        let found = match found {
            Err(error) if is_missing(&error) => return None,
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Err(MapRefusal::Fuse),
            Err(_) => Err(MapRefusal::Unreadable),
            Ok(file) => open(&file, &life),
        };
        match found {
            Ok((file, facts, size)) => {
                Some(MapFile { file, facts, path, size, start_unknown: life.start.is_none() })
            }
            Err(why) => {
                refused.get_or_insert(RefusedMap { path, why });
                None
            }
        }
    };
    // In a container the process has its own /tmp, and writes the number by which it knows itself.
    let below_its_root = || {
        let root = format!("/proc/{pid}/root");
        lives.then(|| look(Path::new(&root), life.own_number.unwrap_or(pid)))?
    };
    match { below_its_root }().or_else(|| look(Path::new("/"), pid)) {
        Some(map) => Ok(Some(map)),
        None => refused.map_or(Ok(None), Err),
    }
}

/// The life of a process, by what is known and what `/proc` says, and true if it lives.
fn current_life(pid: Pid, known: Life) -> (Life, bool) {
    match procfs::life(pid) {
        Ok(now) if known.end.is_none() && known.may_be(&now) => (now, true),
        // Another process has its number: it ended before that one began.
        Ok(now) if !known.may_be(&now) => {
            (Life { end: known.end.min(now.start).or(now.start), ..known }, false)
        }
        _ => (known, false),
    }
}

fn is_missing(error: &io::Error) -> bool {
    // Of another user's process we may not see the root.
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | NotADirectory | PermissionDenied)
        || matches!(error.raw_os_error(), Some(libc::ELOOP | libc::ESRCH))
}

/// Judges what was found, and only then opens it to be read: a pipe or a device does something when it is opened.
fn open(found: &File, life: &Life) -> Result<(File, FileFacts, u64), MapRefusal> {
    let metadata = found.metadata().map_err(|_| MapRefusal::Unreadable)?;
    let facts = FileFacts::from_metadata(&metadata);
    check_owner_and_time(&facts, life, is_ours)?;
    let again = format!("/proc/self/fd/{}", found.as_raw_fd());
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(again);
    Ok((file.map_err(|_| MapRefusal::Unreadable)?, facts, metadata.len()))
}

fn is_ours(user: u32) -> bool {
    user == system::effective_user() || is_sudo_user(user)
}

fn is_sudo_user(user: u32) -> bool {
    system::effective_user() == 0
        && std::env::var("SUDO_UID").is_ok_and(|text| text.parse::<u32>() == Ok(user))
}

/// The properties of a file that decide whether it is used as a map.
#[derive(Clone, Copy, Debug)]
struct FileFacts {
    is_file: bool,
    links: u64,
    owner: u32,
    mode: u32,
    /// Nanoseconds since 1970.
    changed: u64,
}

impl FileFacts {
    fn from_metadata(metadata: &Metadata) -> Self {
        let seconds = u64::try_from(metadata.ctime()).unwrap_or(0);
        let rest = u64::try_from(metadata.ctime_nsec()).unwrap_or(0);
        Self {
            is_file: metadata.is_file(),
            links: metadata.nlink(),
            owner: metadata.uid(),
            mode: metadata.mode(),
            changed: seconds.saturating_mul(1_000_000_000).saturating_add(rest),
        }
    }
}

const ROOT: u32 = 0;
const READABLE_BY_ALL: u32 = 0o004;

/// Returns true if a file can be the map of a process: its own or root's, and changed last while the process lived. Where it is not
/// known whose the process was, ours will do, as in perf.
fn check_owner_and_time(
    facts: &FileFacts,
    life: &Life,
    is_ours: impl Fn(u32) -> bool,
) -> Result<(), MapRefusal> {
    if !facts.is_file {
        return Err(MapRefusal::NotAFile);
    }
    // Another name of a file that its owner knows nothing of.
    if facts.links != 1 {
        return Err(MapRefusal::SeveralNames);
    }
    match life.user {
        Some(user) if facts.owner == user => {}
        // A process can show us, in a mount namespace of its own, files of root's that it may not read itself.
        Some(_) if facts.owner == ROOT && facts.mode & READABLE_BY_ALL == 0 => {
            return Err(MapRefusal::Foreign);
        }
        _ if facts.owner == ROOT => {}
        None if is_ours(facts.owner) => {}
        _ => return Err(MapRefusal::Foreign),
    }
    if life.start.is_some_and(|start| facts.changed.saturating_add(CLOCK_TOLERANCE_NS) < start) {
        return Err(MapRefusal::Older);
    }
    if life.end.is_some_and(|end| facts.changed > end.saturating_add(CLOCK_TOLERANCE_NS)) {
        return Err(MapRefusal::Newer);
    }
    Ok(())
}

impl MapFile {
    /// Returns the reason for refusing the map, where more is known of its process than when it was found.
    pub fn refusal(&self, life: &Life) -> Option<MapRefusal> {
        check_owner_and_time(&self.facts, life, is_ours).err()
    }

    /// Returns the number of bytes that it has now.
    ///
    /// # Errors
    /// Those of `fstat(2)`.
    pub fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Reads it from its beginning.
    pub fn reader(&self) -> MapReader<'_> {
        MapReader { file: &self.file, position: 0 }
    }

    /// Hands over the lines, the last one first, until there is none or `each` has enough. Lines that are too long are cut at
    /// their ends. Returns how many bytes were read.
    ///
    /// # Errors
    /// Those of `pread(2)`.
    pub fn lines_from_the_end(&self, mut each: impl FnMut(&[u8]) -> ControlFlow<()>) -> io::Result<u64> {
        let first = self.size.saturating_sub(MAX_MAP_BYTES);
        let mut end = self.size;
        let mut block = vec![0; BLOCK_BYTES];
        // The front of the line that begins before what has been read.
        let mut begun: Vec<u8> = Vec::new();
        while end > first {
            let size = usize::try_from(end - first).unwrap_or(BLOCK_BYTES).min(BLOCK_BYTES);
            let start = end - size as u64;
            let Some(bytes) = block.get_mut(..size) else { break };
            // One that shrinks meanwhile is not worth more care: what is missing is zeroes.
            let read = read_at_most(&self.file, bytes, start)?;
            bytes[read..].fill(0);
            let mut line = &*bytes;
            // Blocks of a line without end, or of a hole, are passed over as fast as memory.
            if bytes.contains(&b'\n') {
                let mut lines = bytes.rsplit(|&byte| byte == b'\n');
                line = lines.next().unwrap_or_default();
                for before in lines {
                    let whole = if begun.is_empty() { cut_line(line) } else { prepend_cut(line, &mut begun) };
                    if !whole.is_empty() && each(whole).is_break() {
                        return Ok(self.size - start);
                    }
                    begun.clear();
                    line = before;
                }
            }
            let length = prepend_cut(line, &mut begun).len();
            begun.truncate(length);
            end = start;
        }
        // Of a map that is cut, the first line is not whole.
        if first == 0 && !begun.is_empty() {
            let _ = each(&begun);
        }
        Ok(self.size - end)
    }
}

/// A place in a file. Others of the same file do not move it.
#[derive(Debug)]
pub struct MapReader<'f> {
    file: &'f File,
    position: u64,
}

impl Read for MapReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.position)?;
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for MapReader<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (from, by) = match to {
            SeekFrom::Start(position) => (position, 0),
            SeekFrom::Current(by) => (self.position, by),
            SeekFrom::End(by) => (self.file.metadata()?.len(), by),
        };
        self.position = from.checked_add_signed(by).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

/// Puts `front` before `rest`, and cuts what is too long at its end.
fn joined<'a>(front: &[u8], rest: &'a mut Vec<u8>) -> &'a [u8] {
    let front = cut_line(front);
    rest.truncate(MAX_LINE_BYTES - front.len());
    rest.splice(..0, front.iter().copied());
    rest
}

fn cut_line(line: &[u8]) -> &[u8] {
    line.get(..MAX_LINE_BYTES).unwrap_or(line)
}

fn read_at_most(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut read = 0;
    while let Some(rest) = bytes.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset + read as u64) {
            Ok(0) => break,
            Ok(count) => read += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    const SECOND: u64 = 1_000_000_000;

    fn facts() -> FileFacts {
        FileFacts { is_file: true, links: 1, owner: 1000, mode: 0o600, changed: 100 * SECOND }
    }

    fn life() -> Life {
        Life { start: Some(100 * SECOND), end: Some(100 * SECOND), user: Some(1000), own_number: None }
    }

    fn judged(facts: FileFacts, life: Life) -> Result<(), MapRefusal> {
        check_owner_and_time(&facts, &life, |user| user == 7)
    }

    #[test]
    fn a_map_is_the_processs_own_or_roots() {
        assert_eq!(judged(facts(), life()), Ok(()));
        assert_eq!(judged(FileFacts { owner: 1001, ..facts() }, life()), Err(MapRefusal::Foreign));
        assert_eq!(judged(FileFacts { owner: 7, ..facts() }, life()), Err(MapRefusal::Foreign), "not ours");
        assert_eq!(judged(FileFacts { owner: 0, mode: 0o644, ..facts() }, life()), Ok(()));
        let hidden = FileFacts { owner: 0, mode: 0o640, ..facts() };
        assert_eq!(judged(hidden, life()), Err(MapRefusal::Foreign), "it may not read that itself");
        assert_eq!(judged(hidden, Life { user: Some(0), ..life() }), Ok(()));
        let unknown = Life { user: None, ..life() };
        assert_eq!(judged(facts(), unknown), Err(MapRefusal::Foreign));
        assert_eq!(judged(FileFacts { owner: 7, ..facts() }, unknown), Ok(()));
        assert_eq!(judged(hidden, unknown), Ok(()));
    }

    #[test]
    fn a_map_changed_last_while_its_process_lived() {
        let at = |changed| judged(FileFacts { changed, ..facts() }, life());
        assert_eq!(at(98 * SECOND), Ok(()));
        assert_eq!(at(98 * SECOND - 1), Err(MapRefusal::Older));
        assert_eq!(at(102 * SECOND), Ok(()));
        assert_eq!(at(102 * SECOND + 1), Err(MapRefusal::Newer));
        for changed in [0, u64::MAX] {
            assert_eq!(
                judged(FileFacts { changed, ..facts() }, Life { user: Some(1000), ..Life::default() }),
                Ok(())
            );
        }
    }

    #[test]
    fn other_names_and_other_things_are_no_maps() {
        assert_eq!(judged(FileFacts { links: 2, ..facts() }, life()), Err(MapRefusal::SeveralNames));
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        symlink("/etc/passwd", &link).unwrap();
        let root = File::open(folder.path()).unwrap();
        let refused = |name: &str| {
            let found = in_root::open(&root, Path::new(name), &|_| true).unwrap();
            open(&found, &Life::default()).map(drop)
        };
        assert_eq!(refused("link"), Err(MapRefusal::NotAFile));
        let pipe = folder.path().join("pipe");
        let status = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(status.success());
        assert_eq!(refused("pipe"), Err(MapRefusal::NotAFile));
        fs::write(folder.path().join("map"), "1 1 a\n").unwrap();
        assert_eq!(refused("map"), Ok(()));
    }

    fn lines(text: &[u8]) -> Vec<Vec<u8>> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("map"), text).unwrap();
        let file = File::open(folder.path().join("map")).unwrap();
        let map = MapFile {
            file,
            facts: facts(),
            path: String::new(),
            size: text.len() as u64,
            start_unknown: false,
        };
        let mut lines = Vec::new();
        map.lines_from_the_end(|line| {
            lines.push(line.to_vec());
            ControlFlow::Continue(())
        })
        .unwrap();
        lines
    }

    #[test]
    fn lines_come_whole_and_the_last_first() {
        assert_eq!(lines(b""), [b""; 0]);
        assert_eq!(lines(b"\n\n"), [b""; 0]);
        assert_eq!(lines(b"one"), [b"one"]);
        assert_eq!(lines(b"one\ntwo\n"), [b"two", b"one"]);
        assert_eq!(lines(b"\none\n\ntwo"), [b"two", b"one"]);
        // Lines of all lengths over the bounds of many blocks.
        let mut text = Vec::new();
        let all: Vec<Vec<u8>> = (0..3000_usize)
            .map(|number| format!("{number} {}", "x".repeat(number * 7 % 1013)).into_bytes())
            .collect();
        all.iter().for_each(|line| text.extend([line.as_slice(), b"\n"].concat()));
        assert!(text.len() > 4 * BLOCK_BYTES);
        assert!(lines(&text).iter().eq(all.iter().rev()));
    }

    #[test]
    fn a_line_without_end_takes_no_memory() {
        let long = [b"5000 10 ".as_slice(), &vec![b'a'; 5 * BLOCK_BYTES]].concat();
        let text = [b"1000 10 first\n".as_slice(), &long, b"\n2000 10 last\n"].concat();
        let lines = lines(&text);
        assert_eq!(lines[0], b"2000 10 last");
        assert_eq!(lines[1], long[..MAX_LINE_BYTES]);
        assert_eq!(lines[2], b"1000 10 first");
        assert_eq!(self::lines(&text[14..])[1], long[..MAX_LINE_BYTES], "at the front of the file, too");
    }

    #[test]
    fn reading_ends_when_enough_is_known() {
        let folder = tempfile::tempdir().unwrap();
        // Sparse, and far too long.
        let file = fs::File::create_new(folder.path().join("map")).unwrap();
        file.set_len(1 << 40).unwrap();
        file.write_all_at(b"\n1000 10 last\n", (1 << 40) - 14).unwrap();
        let file = File::open(folder.path().join("map")).unwrap();
        let map = MapFile { file, facts: facts(), path: String::new(), size: 1 << 40, start_unknown: false };
        let mut count = 0;
        map.lines_from_the_end(|line| {
            assert_eq!(line, b"1000 10 last");
            count += 1;
            ControlFlow::Break(())
        })
        .unwrap();
        assert_eq!(count, 1);
    }
}
