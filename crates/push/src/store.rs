//! Messages that wait to be sent, the oldest first: in bounded memory, or in a bounded folder that survives a restart.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use host::files::{DestinationError, NewFile, make_folders};
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
    place: Place,
    bytes: u64,
    limit: u64,
    /// Number of messages that were dropped because there was no more room.
    dropped: u64,
    /// Number of messages that were removed: the number of the oldest that is left.
    removed: u64,
}

#[derive(Debug)]
enum Place {
    Memory(VecDeque<Message>),
    Folder { path: PathBuf, files: VecDeque<(String, u64)>, next: u64 },
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
    /// Others may write into the folder.
    #[error("{} belongs to somebody else, or others may write into it; try: mkdir -m 700 another folder", .0.display())]
    Foreign(PathBuf),
}

impl Store {
    /// Keeps messages in memory, 16 MiB at most.
    pub fn in_memory() -> Self {
        Self {
            place: Place::Memory(VecDeque::new()),
            bytes: 0,
            limit: MAX_MEMORY_BYTES,
            dropped: 0,
            removed: 0,
        }
    }

    /// Keeps messages in a folder, which is made if it does not exist. Those that are there already are sent first.
    ///
    /// # Errors
    /// The folder cannot be made or read, or is not ours alone.
    pub fn in_folder(path: &Path, limit: u64) -> Result<Self, StoreError> {
        let failed = |error| StoreError::Folder { path: path.to_owned(), error };
        let unfound = |error: DestinationError| failed(io::Error::new(error.kind(), error.to_string()));
        make_folders(path).map_err(unfound)?;
        let metadata = fs::metadata(path).map_err(failed)?;
        if metadata.uid() != effective_user() || metadata.mode() & 0o022 != 0 {
            return Err(StoreError::Foreign(path.to_owned()));
        }
        let mut files = Vec::new();
        for entry in fs::read_dir(path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            if let (true, Ok(name)) = (is_file, entry.file_name().into_string())
                && name.ends_with(SUFFIX)
            {
                files.push((name, entry.metadata().map_or(0, |metadata| metadata.len())));
            }
        }
        files.sort();
        let bytes = files.iter().map(|(_, bytes)| bytes).sum();
        let place = Place::Folder { path: path.to_owned(), files: files.into(), next: 0 };
        let mut store = Self { place, bytes, limit, dropped: 0, removed: 0 };
        store.make_room(0);
        Ok(store)
    }

    /// Adds a message, and drops the oldest ones if there is no room.
    ///
    /// # Errors
    /// The file cannot be written. The message is dropped and counted.
    pub fn push(&mut self, message: Message) -> io::Result<()> {
        let size = message.size();
        self.make_room(size);
        if size > self.limit {
            self.dropped += 1;
            return Ok(());
        }
        match &mut self.place {
            Place::Memory(messages) => messages.push_back(message),
            Place::Folder { path, files, next } => {
                let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                *next += 1;
                let name = format!("{:020}-{:08}{SUFFIX}", since_1970.as_nanos(), *next);
                let written = write(&path.join(&name), &message);
                if written.is_err() {
                    self.dropped += 1;
                    return written;
                }
                files.push_back((name, size));
            }
        }
        self.bytes += size;
        Ok(())
    }

    /// Returns the oldest message, which stays until [`Self::remove_oldest`]; `None` if none waits. Files that cannot be read are removed.
    pub fn oldest(&mut self) -> Option<Message> {
        loop {
            match &self.place {
                Place::Memory(messages) => return messages.front().cloned(),
                Place::Folder { path, files, .. } => {
                    let (name, _) = files.front()?;
                    let read = File::open(path.join(name)).and_then(|file| {
                        read_messages(file).next().unwrap_or_else(|| Err(io::ErrorKind::UnexpectedEof.into()))
                    });
                    match read {
                        Ok(message) => return Some(message),
                        Err(_) => {
                            self.dropped += 1;
                            self.remove_oldest();
                        }
                    }
                }
            }
        }
    }

    /// Returns the number of the oldest message, counted from 0 in the order in which they came. It is another one once that was removed.
    pub fn number_of_oldest(&self) -> u64 {
        self.removed
    }

    /// Removes the oldest message.
    pub fn remove_oldest(&mut self) {
        self.removed += u64::from(!self.is_empty());
        let size = match &mut self.place {
            Place::Memory(messages) => messages.pop_front().map(|message| message.size()),
            Place::Folder { path, files, .. } => files.pop_front().map(|(name, size)| {
                // Somebody else may have removed it.
                let _ = fs::remove_file(path.join(name));
                size
            }),
        };
        self.bytes = self.bytes.saturating_sub(size.unwrap_or(0));
    }

    /// Returns how many messages wait.
    pub fn len(&self) -> usize {
        match &self.place {
            Place::Memory(messages) => messages.len(),
            Place::Folder { files, .. } => files.len(),
        }
    }

    /// Returns true if no message waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of the messages that wait.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of messages that were dropped since the last call, because there was no room, or because they could not be kept.
    pub fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    fn make_room(&mut self, size: u64) {
        while self.bytes.saturating_add(size) > self.limit && !self.is_empty() {
            self.remove_oldest();
            self.dropped += 1;
        }
    }
}

fn write(path: &Path, message: &Message) -> io::Result<()> {
    let mut file =
        NewFile::create_at(path, MODE).map_err(|error| io::Error::new(error.kind(), error.to_string()))?;
    file.write_all(&message.to_bytes())?;
    file.persist()
}

#[cfg(test)]
mod tests {
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
        assert_eq!(Store::in_folder(&path, 10).unwrap().take_dropped(), 1, "a smaller limit");
    }

    #[test]
    fn folders_of_others_are_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(Store::in_folder(folder.path(), 10), Err(StoreError::Foreign(_))));
    }
}
