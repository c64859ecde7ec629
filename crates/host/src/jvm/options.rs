//! Detects whether attaching to a virtual machine is disabled, from its command line, its environment, and the option files that
//! these name.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use model::Pid;

use crate::process_memory::MAX_ENVIRONMENT_BYTES;
use crate::{in_root, process_memory};

/// The option that disables attaching. Any word that contains it counts.
const DISABLE_OPTION: &[u8] = b"+DisableAttachMechanism";
/// Environment variables with options.
const VARIABLES: [&[u8]; 3] = [b"JAVA_TOOL_OPTIONS=", b"_JAVA_OPTIONS=", b"JDK_JAVA_OPTIONS="];
/// Prefixes of words that name a file with options.
const FILE_PREFIXES: [&[u8]; 3] = [b"-XX:Flags=", b"-XX:VMOptionsFile=", b"@"];
/// Maximum number of option files read.
const MAX_FILES: usize = 16;

/// The option words of a process.
pub(super) struct JavaOptions {
    words: Vec<Vec<u8>>,
}

impl JavaOptions {
    /// Reads the command line and the environment of a process.
    ///
    /// # Errors
    /// The process has ended, or we may not read it.
    pub(super) fn of_process(pid: Pid) -> io::Result<Self> {
        let read = |name: &str| -> io::Result<Vec<u8>> {
            let mut bytes = Vec::new();
            process_memory::open(pid, name)?.take(MAX_ENVIRONMENT_BYTES).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        Ok(Self::new(&read("cmdline")?, &read("environ")?))
    }

    fn new(command_line: &[u8], environment: &[u8]) -> Self {
        let mut words: Vec<Vec<u8>> = command_line.split(|&byte| byte == 0).map(<[u8]>::to_vec).collect();
        for variable in environment.split(|&byte| byte == 0) {
            if let Some(value) = VARIABLES.iter().find_map(|name| variable.strip_prefix(*name)) {
                words.extend(value.split(u8::is_ascii_whitespace).map(<[u8]>::to_vec));
            }
        }
        Self { words }
    }

    /// Returns true if a word, or an option file that a word names, disables attaching. `open` opens these files (`O_PATH`).
    pub(super) fn disable_attaching(&self, open: impl Fn(&Path) -> io::Result<File>) -> bool {
        let says = |text: &[u8]| text.windows(DISABLE_OPTION.len()).any(|part| part == DISABLE_OPTION);
        if self.words.iter().any(|word| says(word)) {
            return true;
        }
        let file = |word: &Vec<u8>| {
            let name = FILE_PREFIXES.iter().find_map(|before| word.strip_prefix(*before))?;
            Some(PathBuf::from(OsStr::from_bytes(name)))
        };
        let mut files = self.words.iter().filter_map(file).take(MAX_FILES);
        files.any(|path| open(&path).and_then(|found| text_of(&found)).is_ok_and(|text| says(&text)))
    }
}

/// Reads the first [`MAX_ENVIRONMENT_BYTES`] of a file opened with `O_PATH`, if it is a regular file.
fn text_of(found: &File) -> io::Result<Vec<u8>> {
    if !found.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut text = Vec::new();
    in_root::reopen(found)?.take(MAX_ENVIRONMENT_BYTES).read_to_end(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_is_found_wherever_it_may_stand() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("yes"), "-Xmx1g\n-XX:+DisableAttachMechanism\n").unwrap();
        std::fs::write(folder.path().join("no"), "-XX:-DisableAttachMechanism\n").unwrap();
        let disabled = |command: &[u8], environment: &[u8]| {
            let open = |path: &Path| File::open(folder.path().join(path));
            JavaOptions::new(command, environment).disable_attaching(open)
        };
        assert!(disabled(b"java\0-XX:+DisableAttachMechanism\0Main\0", b""));
        assert!(disabled(b"java\0Main\0", b"A=b\0JAVA_TOOL_OPTIONS=-Xint -XX:+DisableAttachMechanism\0"));
        assert!(disabled(b"java\0@yes\0Main\0", b""));
        assert!(disabled(b"java\0Main\0", b"JDK_JAVA_OPTIONS=-XX:VMOptionsFile=yes\0"));
        assert!(!disabled(b"java\0@no\0@none\0-XX:-DisableAttachMechanism\0", b""));
        assert!(!disabled(b"java\0Main\0", b"OTHER=-XX:+DisableAttachMechanism\0"));
        assert!(!disabled(b"", b""));
    }
}
