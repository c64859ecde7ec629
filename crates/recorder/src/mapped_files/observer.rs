//! Finds the mappings of files among records.

use decoder::{Endian, RawRecord, Record, RecordLayout, kind, misc};

use super::{MappedFiles, mapped_file};
use crate::records::each_mut;

/// Offset of `misc` in a record.
const MISC: usize = 4;

/// Has the files read that records of mappings name.
#[derive(Clone, Debug)]
pub(crate) struct MappingObserver {
    files: MappedFiles,
    /// The layout of sideband records.
    layout: RecordLayout,
}

impl MappingObserver {
    pub(crate) fn new(files: MappedFiles, layout: RecordLayout) -> Self {
        Self { files, layout }
    }

    /// Has the file of a record read, and returns true, if it is not known. For ring readers: waits for nothing.
    pub(crate) fn observe(&self, raw: &RawRecord<'_>) -> bool {
        raw.kind == kind::MMAP2
            && matches!(self.layout.decode(raw), Ok(Record::Mmap(map)) if self.files.request(&map))
    }

    /// Has the files of all records read that are not known, and takes back the mark by which the kernel says that a record has a build
    /// id: our records have none, whatever other events on the machine ask for.
    pub(crate) fn observe_all(&self, records: &mut [u8]) {
        for record in each_mut(records) {
            let Ok((raw, _)) = RawRecord::parse(record, Endian::NATIVE) else { return };
            if raw.kind != kind::MMAP2 {
                continue;
            }
            if let Ok(Record::Mmap(map)) = self.layout.decode(&raw)
                && let Some(file) = mapped_file(&map)
            {
                self.files.note_use(file, &map);
                self.files.request(&map);
            }
            let misc = (raw.misc & !misc::MMAP_BUILD_ID).to_ne_bytes();
            if let Some(field) = record.get_mut(MISC..MISC + misc.len()) {
                field.copy_from_slice(&misc);
            }
        }
    }
}
