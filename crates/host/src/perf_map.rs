//! Finds the files in which runtimes describe generated code: `/tmp/perf-PID.map`, and jitdumps (`jit-PID.dump`).
//!
//! Anybody can write to `/tmp`, and the profiler often runs as root. So a file is used only if nobody but the process or root
//! can have written it.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use generated::{DumpFile, DumpReader};
use model::{MapRefusal, Pid};

use crate::in_root;
use crate::mounts::{FileSystem, Mounts};
use crate::objects::file_author;
use crate::procfs;
use crate::slow_files::{self, FileFacts, OpenFile};
use crate::sys::identity::NOBODY;
use crate::sys::system;
use model::ProcessLifetime;

/// Maximum number of bytes read of a map, from its end, where the newest code is. 256 MiB are three million functions, read in
/// less than a second. The maps of node servers that run for weeks have a hundred MiB.
pub const MAX_MAP_BYTES: u64 = 256 << 20;
/// Maximum length of a line; the rest is cut off. Names are cut at 4 KiB anyway.
const MAX_LINE_BYTES: usize = 8 << 10;
/// Size of one read.
const BLOCK_BYTES: usize = 256 << 10;
/// Tolerance when comparing file times with process times: file systems take times from the last tick, and those of other
/// machines have their own clocks.
const CLOCK_TOLERANCE_NS: u64 = 2_000_000_000;

/// A perf map or jitdump that may be used.
#[derive(Debug)]
pub struct MapFile {
    file: OpenFile,
    facts: FileFacts,
    /// Its path in our mount namespace.
    pub path: String,
    /// Its size when it was found, in bytes.
    pub size: u64,
    /// True if the start time of its process is unknown: the file may be from an earlier process with the same pid.
    pub start_unknown: bool,
}

/// A file that exists but is not used, with the reason.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RefusedMap {
    /// Its path in our mount namespace.
    pub path: String,
    /// The reason for refusing it.
    pub why: MapRefusal,
}

/// Finds the perf map of a process. `life` is what the recording says about the process; if the process still lives, `/proc`
/// completes it. Returns `Ok(None)` if there is no map. Blocks as long as the file system of the map does.
///
/// # Errors
/// There is a map, but it is refused.
pub fn find(pid: Pid, life: ProcessLifetime) -> Result<Option<MapFile>, RefusedMap> {
    find_named(pid, life, |number| PathBuf::from(format!("tmp/perf-{number}.map")))
}

/// Finds the jitdump that a process has mapped at `path`. Otherwise like [`find`].
///
/// # Errors
/// As [`find`].
pub fn find_dump(pid: Pid, path: &[u8], life: ProcessLifetime) -> Result<Option<MapFile>, RefusedMap> {
    let Some(path) = path.strip_prefix(b"/") else { return Ok(None) };
    find_named(pid, life, |_| PathBuf::from(OsStr::from_bytes(path)))
}

/// Finds a file by the name that `name` makes of the pid in the process's own namespace.
fn find_named(
    pid: Pid,
    life: ProcessLifetime,
    name: impl Fn(Pid) -> PathBuf,
) -> Result<Option<MapFile>, RefusedMap> {
    let (life, lives) = current_life(pid, life);
    let mut refused = None;
    let mut look = |root: &Path, number: Pid| {
        let name = name(number);
        let path = root.join(&name).display().to_string();
        let (mounts, met) = (Mounts::of_process(pid), RefCell::new(None));
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(root);
        let found = opened.and_then(|root| {
            in_root::open(&root, &name, &|folder, name| {
                let system = mounts.slow_on_the_way(folder, name);
                let may_enter = system.is_none();
                met.replace(system);
                may_enter
            })
        });
        let found = match found {
            Err(error) if is_missing(&error) => return None,
            Err(error) if error.kind() == io::ErrorKind::Unsupported => match met.into_inner() {
                // A program of any user may say who owns its files.
                Some(system) if !system.is_fuse() => open_there(&system, root, &name, &life),
                _ => Err(MapRefusal::Fuse),
            },
            Err(_) => Err(MapRefusal::Unreadable),
            Ok(file) => open(&file, &life),
        };
        match found {
            Ok((file, facts)) => {
                Some(MapFile { file, facts, path, size: facts.size, start_unknown: life.start.is_none() })
            }
            Err(why) => {
                refused.get_or_insert(RefusedMap { path, why });
                None
            }
        }
    };
    // In a container the process has its own /tmp, and uses the pid of its own namespace.
    let below_its_root = || {
        let root = procfs::shared_path(pid, "root").ok().filter(|_| lives)?;
        look(&root, life.own_number.unwrap_or(pid))
    };
    match { below_its_root }().or_else(|| look(Path::new("/"), pid)) {
        Some(map) => Ok(Some(map)),
        None => refused.map_or(Ok(None), Err),
    }
}

/// Merges the known life of a process with what `/proc` says. The second value is true if the process still lives.
fn current_life(pid: Pid, known: ProcessLifetime) -> (ProcessLifetime, bool) {
    match procfs::life(pid) {
        Ok(now) if known.end.is_none() && known.may_be(&now) => (now, true),
        // Another process has this pid now, so the known one ended before that one started.
        Ok(now) if !known.may_be(&now) => {
            (ProcessLifetime { end: known.end.min(now.start).or(now.start), ..known }, false)
        }
        _ => (known, false),
    }
}

fn is_missing(error: &io::Error) -> bool {
    // PermissionDenied: we may not look into the root of another user's process.
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | NotADirectory | PermissionDenied)
        || matches!(error.raw_os_error(), Some(libc::ELOOP | libc::ESRCH))
}

/// Checks a file that was opened with `O_PATH`, then opens it for reading. Opening a pipe or device has side effects, so the check
/// comes first.
fn open(found: &File, life: &ProcessLifetime) -> Result<(OpenFile, FileFacts), MapRefusal> {
    let facts = FileFacts::from(&found.metadata().map_err(|_| MapRefusal::Unreadable)?);
    check_owner_and_time(&facts, life, is_ours)?;
    let file = in_root::reopen(found).map_err(|_| MapRefusal::Unreadable)?;
    Ok((OpenFile::Here(file), facts))
}

/// Has another process open a file, and checks it.
fn open_there(
    system: &FileSystem,
    root: &Path,
    name: &Path,
    life: &ProcessLifetime,
) -> Result<(OpenFile, FileFacts), MapRefusal> {
    let file = slow_files::ask_for(system, root, name, false).map_err(|_| MapRefusal::Unreadable)?;
    let facts = file.facts().map_err(|_| MapRefusal::Unreadable)?;
    check_owner_and_time(&facts, life, is_ours)?;
    Ok((file, facts))
}

fn is_ours(user: u32) -> bool {
    user == system::effective_user() || is_sudo_user(user)
}

fn is_sudo_user(user: u32) -> bool {
    system::effective_user() == 0
        && std::env::var("SUDO_UID").is_ok_and(|text| text.parse::<u32>() == Ok(user))
}

const ROOT: u32 = 0;
const READABLE_BY_ALL: u32 = 0o004;

/// Checks that a file can be the map of a process: it belongs to the user of the process or to root, and its last change was while
/// the process lived. If the user of the process is unknown, our own files are accepted, as in perf.
fn check_owner_and_time(
    facts: &FileFacts,
    life: &ProcessLifetime,
    is_ours: impl Fn(u32) -> bool,
) -> Result<(), MapRefusal> {
    if facts.mode & libc::S_IFMT != libc::S_IFREG {
        return Err(MapRefusal::NotAFile);
    }
    // A second hard link: another user may have linked a file of the owner here.
    if facts.links != 1 {
        return Err(MapRefusal::SeveralNames);
    }
    match life.user {
        Some(user) if facts.owner == user => {}
        // In a mount namespace of its own, a process can place files of root here that it may not read itself.
        Some(_) if facts.owner == ROOT && facts.mode & READABLE_BY_ALL == 0 => {
            return Err(MapRefusal::Foreign);
        }
        _ if facts.owner == ROOT => {}
        None if is_ours(facts.owner) => {}
        _ => return Err(MapRefusal::Foreign),
    }
    let changed = changed(facts);
    if life.start.is_some_and(|start| changed.saturating_add(CLOCK_TOLERANCE_NS) < start) {
        return Err(MapRefusal::Older);
    }
    if life.end.is_some_and(|end| changed > end.saturating_add(CLOCK_TOLERANCE_NS)) {
        return Err(MapRefusal::Newer);
    }
    Ok(())
}

/// Returns when a file changed last, in nanoseconds since 1970.
fn changed(facts: &FileFacts) -> u64 {
    u64::try_from(facts.changed).unwrap_or(0)
}

impl MapFile {
    /// Returns when the file changed last, in nanoseconds since 1970.
    pub fn changed(&self) -> u64 {
        changed(&self.facts)
    }

    /// Checks the map again with a more complete `life`, and returns the reason if it is refused now.
    pub fn refusal(&self, life: &ProcessLifetime) -> Option<MapRefusal> {
        check_owner_and_time(&self.facts, life, is_ours).err()
    }

    /// Returns a reader that starts at offset 0.
    pub fn reader(&self) -> DumpReader<'_> {
        DumpReader::new(self)
    }

    /// Calls `each` with the lines, the last one first, until it breaks or [`MAX_MAP_BYTES`] are read. The ends of too long lines
    /// are cut off. Returns the number of bytes read.
    ///
    /// # Errors
    /// Those of `pread(2)`.
    pub fn lines_from_the_end(&self, mut each: impl FnMut(&[u8]) -> ControlFlow<()>) -> io::Result<u64> {
        let first = self.size.saturating_sub(MAX_MAP_BYTES);
        let mut end = self.size;
        let mut block = vec![0; BLOCK_BYTES];
        // The rest of the line whose beginning is not read yet.
        let mut line_rest: Vec<u8> = Vec::new();
        while end > first {
            let size = usize::try_from(end - first).unwrap_or(BLOCK_BYTES).min(BLOCK_BYTES);
            let start = end - size as u64;
            let Some(bytes) = block.get_mut(..size) else { break };
            // If the file shrinks meanwhile, the missing bytes are zeros.
            let read = read_at_most(&self.file, bytes, start)?;
            bytes[read..].fill(0);
            let mut line = &*bytes;
            // Blocks without a line feed (a hole, a line of any length) are skipped at the speed of memory.
            if bytes.contains(&b'\n') {
                let mut lines = bytes.rsplit(|&byte| byte == b'\n');
                line = lines.next().unwrap_or_default();
                for before in lines {
                    let whole =
                        if line_rest.is_empty() { cut_line(line) } else { prepend_cut(line, &mut line_rest) };
                    if !whole.is_empty() && each(whole).is_break() {
                        return Ok(self.size - start);
                    }
                    line_rest.clear();
                    line = before;
                }
            }
            let length = prepend_cut(line, &mut line_rest).len();
            line_rest.truncate(length);
            end = start;
        }
        // If the map is longer than what is read, its first line is incomplete.
        if first == 0 && !line_rest.is_empty() {
            let _ = each(&line_rest);
        }
        Ok(self.size - end)
    }
}

impl MapFile {
    /// Returns the user who answers for its contents.
    pub fn author(&self) -> u32 {
        match &self.file {
            OpenFile::Here(file) => file_author(file),
            OpenFile::There(_) => NOBODY,
        }
    }
}

impl DumpFile for MapFile {
    fn length(&self) -> io::Result<u64> {
        self.file.current_size()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(into, offset)
    }
}

/// Prepends `front` to `rest`, and cuts off what exceeds [`MAX_LINE_BYTES`].
fn prepend_cut<'a>(front: &[u8], rest: &'a mut Vec<u8>) -> &'a [u8] {
    let front = cut_line(front);
    rest.truncate(MAX_LINE_BYTES - front.len());
    rest.splice(..0, front.iter().copied());
    rest
}

fn cut_line(line: &[u8]) -> &[u8] {
    line.get(..MAX_LINE_BYTES).unwrap_or(line)
}

fn read_at_most(file: &OpenFile, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
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
    use std::os::unix::fs::{FileExt, symlink};

    const SECOND: u64 = 1_000_000_000;

    fn facts() -> FileFacts {
        let (links, owner, mode) = (1, 1000, libc::S_IFREG | 0o600);
        FileFacts { links, owner, mode, changed: 100 * SECOND.cast_signed(), ..FileFacts::default() }
    }

    fn life() -> ProcessLifetime {
        ProcessLifetime {
            start: Some(100 * SECOND),
            end: Some(100 * SECOND),
            user: Some(1000),
            own_number: None,
        }
    }

    fn judged(facts: FileFacts, life: ProcessLifetime) -> Result<(), MapRefusal> {
        check_owner_and_time(&facts, &life, |user| user == 7)
    }

    #[test]
    fn a_map_is_the_processs_own_or_roots() {
        assert_eq!(judged(facts(), life()), Ok(()));
        assert_eq!(judged(FileFacts { owner: 1001, ..facts() }, life()), Err(MapRefusal::Foreign));
        assert_eq!(judged(FileFacts { owner: 7, ..facts() }, life()), Err(MapRefusal::Foreign), "not ours");
        assert_eq!(judged(FileFacts { owner: 0, mode: libc::S_IFREG | 0o644, ..facts() }, life()), Ok(()));
        let hidden = FileFacts { owner: 0, mode: libc::S_IFREG | 0o640, ..facts() };
        assert_eq!(judged(hidden, life()), Err(MapRefusal::Foreign), "it may not read that itself");
        assert_eq!(judged(hidden, ProcessLifetime { user: Some(0), ..life() }), Ok(()));
        let unknown = ProcessLifetime { user: None, ..life() };
        assert_eq!(judged(facts(), unknown), Err(MapRefusal::Foreign));
        assert_eq!(judged(FileFacts { owner: 7, ..facts() }, unknown), Ok(()));
        assert_eq!(judged(hidden, unknown), Ok(()));
    }

    #[test]
    fn a_map_changed_last_while_its_process_lived() {
        let at = |changed: u64| judged(FileFacts { changed: changed.cast_signed(), ..facts() }, life());
        assert_eq!(at(98 * SECOND), Ok(()));
        assert_eq!(at(98 * SECOND - 1), Err(MapRefusal::Older));
        assert_eq!(at(102 * SECOND), Ok(()));
        assert_eq!(at(102 * SECOND + 1), Err(MapRefusal::Newer));
        for changed in [0, i64::MAX] {
            assert_eq!(
                judged(
                    FileFacts { changed, ..facts() },
                    ProcessLifetime { user: Some(1000), ..ProcessLifetime::default() }
                ),
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
            let found = in_root::open(&root, Path::new(name), &|_, _| true).unwrap();
            open(&found, &ProcessLifetime::default()).map(drop)
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
            file: OpenFile::Here(file),
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
        let map = MapFile {
            file: OpenFile::Here(file),
            facts: facts(),
            path: String::new(),
            size: 1 << 40,
            start_unknown: false,
        };
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
