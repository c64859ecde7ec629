//! The process that opens and reads files, and memory of processes, for another.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use model::Pid;

use super::protocol::{FileFacts, MAX_READ_BYTES, Request, encode_answer, encode_range};
use crate::in_root::{self, open_path};
use crate::sources::Readers;
use crate::sys::perf_event::own_pid;
use crate::sys::process_memory;

/// Answers requests on a socket until its other end is closed. Must be called while there is one thread.
///
/// # Errors
/// Those of the socket.
pub fn serve(socket: &File) -> io::Result<()> {
    let (mut input, mut output) = (BufReader::new(socket), socket);
    let (mut files, mut readers) = (HashMap::new(), Readers::default());
    loop {
        let request = match Request::read(&mut input) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            request => request?,
        };
        let answer = match request {
            Request::Open { root, path, follow } => {
                open(&root, &path, follow).and_then(|file| facts_of(file, &mut files))
            }
            Request::Source { users, path } => {
                readers.open(&users, &path).and_then(|file| facts_of(file, &mut files))
            }
            Request::Link { path } => open_path(&path).map(|file| {
                let numbers = [u64::from(own_pid().0.unsigned_abs()), keep(file, &mut files)];
                numbers.into_iter().flat_map(u64::to_ne_bytes).collect()
            }),
            Request::Read { handle, offset, length } => match files.get(&handle) {
                Some(file) => read(file, offset, length),
                None => Err(io::Error::from_raw_os_error(libc::EBADF)),
            },
            Request::Look { handle } => match files.get(&handle) {
                Some(file) => file.metadata().map(|metadata| FileFacts::from(&metadata).encode()),
                None => Err(io::Error::from_raw_os_error(libc::EBADF)),
            },
            Request::Memory { pid, ranges } => memory(pid, &ranges),
            Request::Close { handle } => {
                files.remove(&handle);
                continue;
            }
        };
        output.write_all(&encode_answer(answer))?;
    }
}

/// Keeps a file until the client closes it. Returns its handle: the number of its descriptor.
fn keep(file: File, files: &mut HashMap<u64, File>) -> u64 {
    let handle = u64::from(file.as_raw_fd().unsigned_abs());
    files.insert(handle, file);
    handle
}

/// Keeps a file, and returns its facts with its handle.
fn facts_of(file: File, files: &mut HashMap<u64, File>) -> io::Result<Vec<u8>> {
    let facts = FileFacts::from(&file.metadata()?);
    Ok(FileFacts { handle: keep(file, files), ..facts }.encode())
}

fn open(root: &Path, path: &Path, follow: bool) -> io::Result<File> {
    let root = open_path(root)?;
    let found = match (path.as_os_str().is_empty(), follow) {
        (true, _) => root,
        (false, true) => in_root::open_target(&root, path, &|_, _| true)?,
        (false, false) => in_root::open(&root, path, &|_, _| true)?,
    };
    match found.metadata()? {
        // One of `/proc`, or it has nothing to read.
        empty if path.as_os_str().is_empty() && empty.is_file() => in_root::reopen(&found),
        _ => in_root::open_regular(&found),
    }
}

fn read(file: &File, offset: u64, length: u64) -> io::Result<Vec<u8>> {
    let length = usize::try_from(length).unwrap_or(usize::MAX).min(MAX_READ_BYTES);
    let mut bytes = vec![0; length];
    let mut done = 0;
    // A file of `/proc` is read a page at a time.
    while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset.saturating_add(done as u64)) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if done == 0 => return Err(error),
            Err(_) => break,
        }
    }
    bytes.truncate(done);
    Ok(bytes)
}

/// Reads ranges of the memory of a process. The error is that of the first.
fn memory(pid: Pid, ranges: &[(u64, u64)]) -> io::Result<Vec<u8>> {
    let mut answer = Vec::new();
    for (index, &(address, length)) in ranges.iter().enumerate() {
        let left = MAX_READ_BYTES.saturating_sub(answer.len() + 8 * ranges.len());
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(left).min(left)];
        let read = process_memory::read(pid, address, &mut bytes, &mut |_| true);
        let read = if index == 0 { read? } else { read.unwrap_or(0) };
        encode_range(bytes.get(..read).unwrap_or_default(), &mut answer);
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::super::connection::Connection;
    use super::super::patience::{Patience, WaitingTime};
    use crate::helper_process::sockets;
    use std::fs;
    use std::io;
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::path::Path;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    fn connection(socket: std::fs::File) -> Arc<Connection> {
        connection_for(socket, Duration::from_secs(60))
    }

    fn connection_for(socket: std::fs::File, answer: Duration) -> Arc<Connection> {
        let patience = Patience { answer, total: Duration::from_secs(600) };
        Arc::new(Connection::new(socket, Arc::new(WaitingTime::new(patience))))
    }

    #[test]
    fn files_are_opened_read_and_looked_at_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "contents").unwrap();
        symlink("file", folder.path().join("link")).unwrap();
        let (ours, theirs) = sockets().unwrap();
        let server = std::thread::spawn(move || super::serve(&theirs));
        let connection = connection(ours);
        let open = |name: &str, follow| connection.open(folder.path(), Path::new(name), follow);
        let file = open("file", true).unwrap();
        let metadata = fs::metadata(&path).unwrap();
        let facts = file.facts();
        assert_eq!(
            (facts.size, facts.inode, facts.device, facts.mode),
            (8, metadata.ino(), metadata.dev(), metadata.mode())
        );
        let mut bytes = [0; 10];
        assert_eq!((file.read_at(&mut bytes, 3).unwrap(), &bytes[..5]), (5, &b"tents"[..]));
        assert_eq!(file.read_at(&mut bytes, 8).unwrap(), 0);
        fs::write(&path, "more contents").unwrap();
        assert_eq!((file.facts().size, file.current_size().unwrap()), (8, 13));
        assert_eq!(connection.open(&path, Path::new(""), true).unwrap().facts().inode, facts.inode);
        assert_eq!(open("link", true).unwrap().facts().inode, facts.inode);
        assert!(open("link", false).is_err(), "a link is no file");
        assert_eq!(open("none", true).unwrap_err().kind(), io::ErrorKind::NotFound);
        drop((file, connection));
        server.join().unwrap().unwrap();
    }

    #[test]
    fn what_a_link_leads_to_is_opened_and_closed_there() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&path, "contents").unwrap();
        symlink("file", &link).unwrap();
        let (ours, theirs) = sockets().unwrap();
        let server = std::thread::spawn(move || super::serve(&theirs));
        let connection = connection(ours);
        let file = connection.open_link(&link).unwrap();
        assert_eq!(file.metadata().unwrap().ino(), fs::metadata(&path).unwrap().ino());
        let missing = connection.open_link(&folder.path().join("none"));
        assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound);
        drop(connection);
        server.join().unwrap().unwrap();
    }

    #[test]
    fn who_is_late_is_asked_again_once_it_has_answered() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "contents").unwrap();
        let (ours, theirs) = sockets().unwrap();
        let connection = connection_for(ours, Duration::from_millis(20));
        let open = |name: &str| connection.open(folder.path(), Path::new(name), true);
        assert_eq!(open("file").unwrap_err().kind(), io::ErrorKind::TimedOut);
        let begin = Instant::now();
        for _ in 0..100 {
            assert_eq!(open("file").unwrap_err().kind(), io::ErrorKind::TimedOut);
        }
        assert!(begin.elapsed() < Duration::from_secs(1), "only the first is waited for");
        let server = std::thread::spawn(move || super::serve(&theirs));
        let file = std::iter::repeat_with(|| open("file")).find_map(Result::ok).unwrap();
        assert_eq!(file.facts().inode, fs::metadata(&path).unwrap().ino());
        let mut bytes = [0; 10];
        assert_eq!(std::iter::repeat_with(|| file.read_at(&mut bytes, 3)).find_map(Result::ok), Some(5));
        drop((file, connection));
        server.join().unwrap().unwrap();
    }

    #[test]
    fn who_has_gone_is_not_asked_again() {
        let (ours, theirs) = sockets().unwrap();
        drop(theirs);
        let connection = connection(ours);
        for _ in 0..2 {
            let error = connection.open(Path::new("/"), Path::new("etc/passwd"), true).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        }
    }
}
