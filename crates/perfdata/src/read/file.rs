//! Files that the caller has opened.

use std::fs::File;
use std::io;
#[cfg(unix)]
use std::os::unix::fs::FileExt;

use super::source::ReadAt;

/// Reads at offsets. The file's own position stays where it is.
#[cfg(unix)]
impl ReadAt for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, buffer, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_is_read_at_any_place() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"recording").unwrap();
        let mut bytes = [0; 6];
        assert_eq!(ReadAt::len(&file).unwrap(), 9);
        assert_eq!(ReadAt::read_at(&file, &mut bytes, 2).unwrap(), 6);
        assert_eq!(&bytes, b"cordin");
        assert_eq!(ReadAt::read_at(&file, &mut bytes, 100).unwrap(), 0);
    }
}
