//! Messages that wait to be sent, the oldest first: in bounded memory, or in a bounded folder that survives a restart.

use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use host::files::{NameInFolder, NewFile, make_folders};
use host::sys::directory::Directory;
use host::sys::system::effective_user;

use super::message::{Message, read_messages};

/// The usual limit of a spool folder, in bytes.
pub const DEFAULT_SPOOL_BYTES: u64 = 64 << 20;
/// Bytes of memory that messages may take without a folder: hours of what a machine sends, and less than a fifth of what `prof watch` may use.
const MAX_MEMORY_BYTES: u64 = 16 << 20;
/// The ending of the names of spooled files.
const SUFFIX: &str = ".profile";
/// The mode of spooled files, which are as private as a recording.
const MODE: u32 = 0o600;

/// Messages that wait.
#[derive(Debug)]
pub struct Store {
    /// Holds all but the newest.
    folder: Option<Folder>,
    /// All messages without a folder; with one those that cannot be written to it.
    memory: VecDeque<Message>,
    memory_bytes: u64,
    limit: u64,
    /// Number of messages that were dropped because there was no more room.
    dropped: u64,
    /// Number of messages that were removed: the number of the oldest that is left.
    removed: u64,
}

/// A spool folder, held open: what happens to its path later has no effect.
#[derive(Debug)]
struct Folder {
    directory: Directory,
    /// Nobody else uses the folder while this is open (`flock(2)`).
    _lock: File,
    /// The files, the oldest first, with their sizes.
    files: VecDeque<(CString, u64)>,
    bytes: u64,
    next: u64,
}

/// The reason why a folder cannot be a spool.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder cannot be made or read.
    #[error("cannot use {} as a spool: {error}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Another process uses the folder: both would send what is in it.
    #[error("another prof watch uses the spool {}; try: --spool with another folder", .0.display())]
    InUse(PathBuf),
    /// Others may write into the folder.
    #[error("{} belongs to somebody else, or others may write into it; try: mkdir -m 700 another folder", .0.display())]
    Foreign(PathBuf),
}

impl Store {
    /// Keeps messages in memory, 16 MiB at most.
    pub fn in_memory() -> Self {
        let limit = MAX_MEMORY_BYTES;
        Self { folder: None, memory: VecDeque::new(), memory_bytes: 0, limit, dropped: 0, removed: 0 }
    }

    /// Keeps messages in a folder, which is made if it does not exist. Those that are there already are sent first.
    ///
    /// # Errors
    /// The folder cannot be made or read, is in use, or is not ours alone.
    pub fn in_folder(path: &Path, limit: u64) -> Result<Self, StoreError> {
        let failed = |error| StoreError::Folder { path: path.to_owned(), error };
        let directory =
            make_folders(path).map_err(|error| failed(io::Error::new(error.kind(), error.to_string())))?;
        let metadata = directory.metadata().map_err(failed)?;
        if metadata.uid() != effective_user() || metadata.mode() & 0o022 != 0 {
            return Err(StoreError::Foreign(path.to_owned()));
        }
        let lock = directory.open().map_err(failed)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => StoreError::InUse(path.to_owned()),
            TryLockError::Error(error) => failed(error),
        })?;
        let names = directory.names(|name| name.ends_with(SUFFIX.as_bytes())).map_err(failed)?;
        let size = |name: &CStr| directory.look_at(name)?.metadata();
        let mut files: Vec<(CString, u64)> = names
            .into_iter()
            .filter_map(|name| {
                let metadata = size(&name).ok().filter(std::fs::Metadata::is_file)?;
                Some((name, metadata.len()))
            })
            .collect();
        files.sort();
        let bytes = files.iter().map(|(_, bytes)| bytes).sum();
        let folder = Folder { directory, _lock: lock, files: files.into(), bytes, next: 0 };
        let mut store = Self { folder: Some(folder), limit, ..Self::in_memory() };
        store.make_room(0);
        Ok(store)
    }

    /// Adds a message, and drops the oldest ones if there is no room.
    ///
    /// # Errors
    /// The folder cannot be written, not even in place of the oldest messages. The message is kept in memory.
    pub fn push(&mut self, message: Message) -> io::Result<()> {
        let size = message.size();
        self.make_room(size);
        if size > self.limit {
            self.dropped += 1;
            return Ok(());
        }
        self.memory_bytes += size;
        self.memory.push_back(message);
        let written = self.write_memory();
        // Without a folder it has less already.
        while self.memory_bytes > MAX_MEMORY_BYTES
            && let Some(message) = self.memory.pop_front()
        {
            self.memory_bytes -= message.size();
            self.dropped += 1;
        }
        written
    }

    /// Writes what is in memory to the folder, if there is one. If the disk is full, the oldest messages there make room for as much.
    fn write_memory(&mut self) -> io::Result<()> {
        let mut freed = 0;
        while let (Some(folder), Some(message)) = (&mut self.folder, self.memory.front()) {
            let size = message.size();
            match folder.write(message) {
                Ok(()) => {
                    self.memory.pop_front();
                    (self.memory_bytes, freed) = (self.memory_bytes - size, 0);
                }
                Err(error) => {
                    let is_full =
                        matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
                    if !is_full || freed > size || folder.files.is_empty() {
                        return Err(error);
                    }
                    freed += folder.files.front().map_or(0, |(_, bytes)| *bytes);
                    self.remove_oldest();
                    self.dropped += 1;
                }
            }
        }
        Ok(())
    }

    /// Returns the oldest message, which stays until [`Self::remove_oldest`]; `None` if none waits. Files that cannot be read are removed.
    pub fn oldest(&mut self) -> Option<Message> {
        while let Some(folder) = &self.folder
            && let Some((name, _)) = folder.files.front()
        {
            match folder.read(name) {
                Ok(message) => return Some(message),
                Err(_) => {
                    self.dropped += 1;
                    self.remove_oldest();
                }
            }
        }
        self.memory.front().cloned()
    }

    /// Returns the number of the oldest message, counted from 0 in the order in which they came. It is another one once that was removed.
    pub fn number_of_oldest(&self) -> u64 {
        self.removed
    }

    /// Removes the oldest message.
    pub fn remove_oldest(&mut self) {
        self.removed += u64::from(!self.is_empty());
        if let Some(folder) = &mut self.folder
            && let Some((name, size)) = folder.files.pop_front()
        {
            // Somebody else may have removed it.
            let _ = folder.directory.remove(&name);
            folder.bytes = folder.bytes.saturating_sub(size);
        } else if let Some(message) = self.memory.pop_front() {
            self.memory_bytes -= message.size();
        }
    }

    /// Returns how many messages wait.
    pub fn len(&self) -> usize {
        self.memory.len() + self.folder.as_ref().map_or(0, |folder| folder.files.len())
    }

    /// Returns true if no message waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of the messages that wait.
    pub fn bytes(&self) -> u64 {
        self.memory_bytes + self.folder.as_ref().map_or(0, |folder| folder.bytes)
    }

    /// Returns the number of messages that were dropped since the last call, because there was no room, or because they could not be kept.
    pub fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    fn make_room(&mut self, size: u64) {
        while self.bytes().saturating_add(size) > self.limit && !self.is_empty() {
            self.remove_oldest();
            self.dropped += 1;
        }
    }
}

impl Folder {
    fn write(&mut self, message: &Message) -> io::Result<()> {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.next += 1;
        let name = CString::new(format!("{:020}-{:08}{SUFFIX}", since_1970.as_nanos(), self.next))?;
        let mut file = NewFile::create(NameInFolder::new(&self.directory, &name)?, MODE)?;
        file.write_all(&message.to_bytes())?;
        file.persist()?;
        self.bytes += message.size();
        self.files.push_back((name, message.size()));
        Ok(())
    }

    fn read(&self, name: &CStr) -> io::Result<Message> {
        let entry = self.directory.look_at(name)?;
        if !entry.metadata()?.is_file() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let file = File::open(entry.proc_path())?;
        read_messages(file).next().unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::{Mutex, PoisonError};

    use super::*;

    fn message(number: u8, size: usize) -> Message {
        Message { query: String::new(), body: vec![number; size] }
    }

    fn numbers(store: &mut Store) -> Vec<u8> {
        let mut numbers = Vec::new();
        while let Some(message) = store.oldest() {
            numbers.push(message.body[0]);
            store.remove_oldest();
        }
        assert_eq!((store.len(), store.bytes()), (0, 0));
        numbers
    }

    /// Held by tests that start processes, and by those that an open file of the others would disturb: until it runs its program, a process
    /// has all of them.
    static PROCESSES: Mutex<()> = Mutex::new(());

    #[test]
    fn the_oldest_are_dropped_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool");
        for mut store in [Store::in_memory(), Store::in_folder(&path, 100).unwrap()] {
            store.limit = 100;
            (0..5).for_each(|number| store.push(message(number, 20)).unwrap());
            assert_eq!((store.len(), store.take_dropped(), store.bytes()), (2, 3, 72));
            assert_eq!(numbers(&mut store), [3, 4]);
            store.push(message(9, 200)).unwrap();
            assert_eq!((store.len(), store.take_dropped()), (0, 1), "too large at all");
        }
    }

    #[test]
    fn a_folder_survives_and_damaged_files_do_not_stop_it() {
        let _alone = PROCESSES.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool");
        let mut store = Store::in_folder(&path, 1000).unwrap();
        (0..3).for_each(|number| store.push(message(number, 20)).unwrap());
        drop(store);
        let first = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).min().unwrap();
        fs::write(first, b"cut").unwrap();
        fs::write(path.join("other"), b"not ours").unwrap();
        let mut store = Store::in_folder(&path, 1000).unwrap();
        assert_eq!(store.len(), 3);
        assert_eq!(numbers(&mut store), [1, 2]);
        assert_eq!(store.take_dropped(), 1);
        assert!(path.join("other").exists());
        store.push(message(7, 20)).unwrap();
        assert!(matches!(Store::in_folder(&path, 1000), Err(StoreError::InUse(_))), "both would send it");
        drop(store);
        assert_eq!(Store::in_folder(&path, 10).unwrap().take_dropped(), 1, "a smaller limit");
    }

    #[test]
    fn folders_of_others_are_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(Store::in_folder(folder.path(), 10), Err(StoreError::Foreign(_))));
    }

    #[test]
    fn a_spool_is_the_open_folder_and_no_link_or_pipe_in_it_is_opened() {
        let _alone = PROCESSES.lock().unwrap_or_else(PoisonError::into_inner);
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("spool");
        let mut store = Store::in_folder(&path, 1000).unwrap();
        store.push(message(1, 20)).unwrap();
        let moved = parent.path().join("moved");
        fs::rename(&path, &moved).unwrap();
        fs::create_dir(&path).unwrap();
        store.push(message(2, 20)).unwrap();
        assert_eq!((fs::read_dir(&moved).unwrap().count(), fs::read_dir(&path).unwrap().count()), (2, 0));
        let first = fs::read_dir(&moved).unwrap().map(|entry| entry.unwrap().path()).min().unwrap();
        let other = parent.path().join("other");
        fs::write(&other, message(9, 20).to_bytes()).unwrap();
        fs::remove_file(&first).unwrap();
        std::os::unix::fs::symlink(&other, &first).unwrap();
        store.push(message(3, 20)).unwrap();
        let last = fs::read_dir(&moved).unwrap().map(|entry| entry.unwrap().path()).max().unwrap();
        fs::remove_file(&last).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&last).status().unwrap().success());
        assert_eq!(numbers(&mut store), [2]);
        assert!(other.exists());
    }

    /// On a disk of 64 KiB, if this user may mount one.
    #[test]
    fn a_full_disk_costs_the_oldest_and_then_memory_holds_the_rest() {
        let _alone = PROCESSES.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap();
        let mount = |arguments: &[&str]| {
            let mut command = std::process::Command::new(arguments[0]);
            command.args(&arguments[1..]).arg(folder.path()).status().is_ok_and(|status| status.success())
        };
        if !mount(&["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "none"]) {
            return;
        }
        let mut store = Store::in_folder(folder.path(), 1 << 20).unwrap();
        (0..3).for_each(|number| store.push(message(number, 20_000)).unwrap());
        store.push(message(3, 20_000)).unwrap();
        let dropped = store.take_dropped();
        assert!((1..=2).contains(&dropped), "{dropped}");
        fs::write(folder.path().join("others"), [0; 4096]).ok();
        while !store.is_empty() && !store.memory.is_empty() || store.folder.as_ref().unwrap().files.len() > 1
        {
            store.remove_oldest();
        }
        fs::write(folder.path().join("more"), vec![0; 1 << 20]).unwrap_err();
        store.remove_oldest();
        fs::write(folder.path().join("still more"), vec![0; 1 << 20]).unwrap_err();
        let error = store.push(message(4, 20_000)).unwrap_err();
        assert!(error.to_string().contains("os error 28"), "{error}");
        store.push(message(5, 20_000)).unwrap_err();
        assert_eq!((store.len(), store.take_dropped()), (2, 0), "in memory");
        for name in ["others", "more", "still more"] {
            fs::remove_file(folder.path().join(name)).unwrap();
        }
        store.push(message(6, 10_000)).unwrap();
        assert_eq!((store.memory.len(), store.memory_bytes), (0, 0), "they are in the folder again");
        assert_eq!(numbers(&mut store), [4, 5, 6]);
        drop(store);
        assert!(mount(&["umount"]));
    }
}
