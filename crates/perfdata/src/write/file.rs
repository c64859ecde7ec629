//! The file shape: a header that is filled in at the end, and sections found by their offsets.

use std::io::{self, Seek, SeekFrom, Write};

use decoder::attr::SIZE_VER7;
use decoder::{Attr, Endian};

use super::{MAGIC, RecordWriter, attr_size, tool_records};
use crate::features::{EventDescription, Features};
use crate::sections::{self, Block};
use crate::tool::kind;

/// Bytes of `struct perf_file_header`.
const HEADER_SIZE: u64 = 104;
/// The offset of `data.size` in the header.
const DATA_SIZE_AT: u64 = 48;
/// Rounds are a few KB on a quiet machine; a write for each would cost more than the copy.
const BUFFER: usize = 1 << 16;

/// Writes a recording to a file (or anything that can seek).
///
/// Layout: header, where our own sections lie ([`sections`]), ids of each event, attrs, records, feature table, feature
/// sections, our own sections. Until [`RecordWriter::finish`] the header states as many bytes of records as the last
/// checkpoint saw, and no features: perf and `prof` read such a file up to that point. Where a write fails, the header
/// states the whole records that were written; nothing is to be appended then.
#[derive(Debug)]
pub struct FileWriter<W: Write + Seek> {
    file: W,
    attrs: (u64, u64),
    attr_entry: u64,
    data_offset: u64,
    /// Bytes of records in the file.
    written: u64,
    /// Whole records that are not there yet.
    pending: Vec<u8>,
}

impl<W: Write + Seek> FileWriter<W> {
    /// Begins a recording of `events` at the start of `file`.
    ///
    /// # Errors
    /// Those of `file`.
    pub fn create(file: W, events: &[EventDescription]) -> io::Result<Self> {
        let attr_size = events.iter().map(|event| attr_size(&event.attr)).max().unwrap_or(SIZE_VER7);
        let attr_entry = u64::from(attr_size) + 16;
        let mut offset = HEADER_SIZE + Block::SIZE;
        let mut ids = Vec::new();
        let mut attrs = Vec::new();
        for event in events {
            let size = event.ids.len() as u64 * 8;
            event.ids.iter().for_each(|&id| ids.extend_from_slice(&Endian::NATIVE.u64_bytes(id)));
            let attr = Attr { size: attr_size, ..event.attr.clone() };
            attrs.extend_from_slice(&attr.to_bytes(Endian::NATIVE));
            attrs.extend_from_slice(&Endian::NATIVE.u64_bytes(offset));
            attrs.extend_from_slice(&Endian::NATIVE.u64_bytes(size));
            offset += size;
        }
        let attrs_section = (offset, attrs.len() as u64);
        let mut writer = Self {
            file,
            attrs: attrs_section,
            attr_entry,
            data_offset: offset + attrs.len() as u64,
            written: 0,
            pending: Vec::with_capacity(BUFFER),
        };
        let nowhere = Block { offset: 0, size: 0 };
        let start = [writer.header(&[]), nowhere.to_bytes(Endian::NATIVE), ids, attrs].concat();
        writer.file.seek(SeekFrom::Start(0))?;
        writer.file.write_all(&start)?;
        Ok(writer)
    }

    /// The file itself; what has been appended may not have reached it yet.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.file
    }

    fn write_pending(&mut self) -> io::Result<()> {
        let mut pending = std::mem::take(&mut self.pending);
        let result = self.write_records(&pending);
        pending.clear();
        self.pending = pending;
        result
    }

    fn write_records(&mut self, records: &[u8]) -> io::Result<()> {
        let mut rest = records;
        while !rest.is_empty() {
            match self.file.write(rest) {
                Ok(length @ 1..) => rest = rest.get(length..).unwrap_or(&[]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => {
                    let (came, _) = records.split_at(records.len() - rest.len());
                    self.written += whole_records(came);
                    // Tries to correct the size in the header, which needs no more room on a full disk. The first error is returned.
                    let _ = self.state_size();
                    return Err(result.err().unwrap_or_else(|| io::ErrorKind::WriteZero.into()));
                }
            }
        }
        self.written += records.len() as u64;
        Ok(())
    }

    /// Lets the header say how much is written.
    fn state_size(&mut self) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(DATA_SIZE_AT))?;
        self.file.write_all(&Endian::NATIVE.u64_bytes(self.written))?;
        self.file.seek(SeekFrom::Start(self.data_offset + self.written)).map(drop)
    }

    fn header(&self, feature_bits: &[u32]) -> Vec<u8> {
        let mut flags = [0_u64; 4];
        for &bit in feature_bits {
            if let Some(word) = flags.get_mut(bit as usize / 64) {
                *word |= 1 << (bit % 64);
            }
        }
        let (attrs_offset, attrs_size) = self.attrs;
        let fixed = [
            MAGIC,
            HEADER_SIZE,
            self.attr_entry,
            attrs_offset,
            attrs_size,
            self.data_offset,
            self.written,
            0,
            0,
        ];
        fixed.iter().chain(&flags).flat_map(|&word| Endian::NATIVE.u64_bytes(word)).collect()
    }
}

impl<W: Write + Seek> RecordWriter for FileWriter<W> {
    fn append(&mut self, records: &[u8]) -> io::Result<()> {
        if self.pending.len() + records.len() > BUFFER {
            self.write_pending()?;
        }
        if records.len() > BUFFER {
            return self.write_records(records);
        }
        self.pending.extend_from_slice(records);
        Ok(())
    }

    fn finished_init(&mut self) -> io::Result<()> {
        tool_records::record(kind::FINISHED_INIT, &[]).map_or(Ok(()), |record| self.append(&record))
    }

    fn finished_round(&mut self) -> io::Result<()> {
        tool_records::record(kind::FINISHED_ROUND, &[]).map_or(Ok(()), |record| self.append(&record))
    }

    fn checkpoint(&mut self) -> io::Result<()> {
        // The bytes first, then the size that covers them.
        self.write_pending()?;
        self.state_size()
    }

    fn finish(&mut self, features: &Features) -> io::Result<u64> {
        // Should there be no room for the features, the records are there.
        self.checkpoint()?;
        let bodies = features.to_sections(Endian::NATIVE);
        let mut offset = self.data_offset + self.written + bodies.len() as u64 * 16;
        let mut end = Vec::new();
        for (_, body) in &bodies {
            let size = body.len() as u64;
            end.extend_from_slice(&Endian::NATIVE.u64_bytes(offset));
            end.extend_from_slice(&Endian::NATIVE.u64_bytes(size));
            offset += size;
        }
        bodies.iter().for_each(|(_, body)| end.extend_from_slice(body));
        let own = sections::encode(&features.sections, Endian::NATIVE);
        let block = Block { offset, size: own.len() as u64 };
        end.extend_from_slice(&own);
        self.file.write_all(&end)?;
        let bits: Vec<u32> = bodies.iter().map(|&(bit, _)| bit).collect();
        let start = [self.header(&bits), block.to_bytes(Endian::NATIVE)].concat();
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&start)?;
        self.file.flush()?;
        Ok(block.offset + block.size)
    }
}

/// Bytes of the whole records at the start of `bytes`.
fn whole_records(bytes: &[u8]) -> u64 {
    let mut end = 0;
    while let Some(header) = bytes.get(end..).and_then(|rest| rest.first_chunk::<8>()) {
        let size = usize::from(Endian::NATIVE.u16([header[6], header[7]]));
        if size < 8 || end + size > bytes.len() {
            break;
        }
        end += size;
    }
    end as u64
}
