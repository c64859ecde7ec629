//! The header of a file: 104 bytes that say where everything lies.

use decoder::{Attr, Endian};

use super::notice::Notice;
use super::source::{ReadAt, read_full};
use crate::bytes::Bytes;
use crate::error::Error;
use crate::events::{EventTable, MOST_EVENTS};
use crate::features::{Features, bit};
use crate::sections::{self, Block};

/// Bytes of the header of a file.
const FILE_HEADER: u64 = 104;
/// Bytes of the header of a pipe.
pub(super) const PIPE_HEADER: u64 = 16;

/// The first 16 bytes of a file: its format and byte order.
pub(super) struct Magic {
    pub(super) endian: Endian,
    pub(super) pipe: bool,
}

impl Magic {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.is_empty() {
            return Err(Error::Empty);
        }
        let magic = bytes.get(..8).unwrap_or(bytes);
        let endian = match magic {
            b"PERFILE2" => Endian::Little,
            b"2ELIFREP" => Endian::Big,
            b"PERFFILE" | b"ELIFFREP" => return Err(Error::Version1),
            other => return Err(Error::Magic { found: other.to_vec() }),
        };
        let mut header = Bytes::new(bytes, "header", endian);
        header.u64("magic")?;
        let pipe = match header.u64("size")? {
            FILE_HEADER => false,
            PIPE_HEADER => true,
            other => return Err(header.wrong("size", 8, other, "expected 104 (a file) or 16 (a pipe)")),
        };
        Ok(Self { endian, pipe })
    }
}

/// The header of a file: the position of its records, and its other parts.
pub(super) struct FileHeader {
    pub(super) data: (u64, u64),
    pub(super) events: EventTable,
    pub(super) features: Features,
}

fn read(file: &dyn ReadAt, offset: u64, len: u64) -> Result<Vec<u8>, Error> {
    // The caller has held `len` against the size of the file.
    let mut buffer = vec![0; usize::try_from(len).unwrap_or(0)];
    let filled = read_full(file, &mut buffer, offset).map_err(|source| Error::Io { offset, len, source })?;
    buffer.truncate(filled);
    Ok(buffer)
}

impl FileHeader {
    pub(super) fn parse(
        file: &dyn ReadAt,
        len: u64,
        endian: Endian,
        notices: &mut Vec<Notice>,
    ) -> Result<Self, Error> {
        let bytes = read(file, 0, FILE_HEADER)?;
        let mut header = Bytes::new(&bytes, "header", endian);
        header.bytes("magic and size", 16)?;
        let attr_size = header.u64("attr_size")?;
        let attrs = (header.u64("attrs.offset")?, header.u64("attrs.size")?);
        let data = (header.u64("data.offset")?, header.u64("data.size")?);
        header.bytes("event_types", 16)?;
        let mut flags = [0_u64; 4];
        for word in &mut flags {
            *word = header.u64("flags")?;
        }
        let flags = feature_bits(flags, endian);
        let events = events(file, len, endian, attr_size, attrs, notices)?;
        let (data_offset, data_size) = data;
        if data_offset > len || data_offset < FILE_HEADER {
            return Err(Error::Field {
                section: "header",
                field: "data.offset",
                offset: 40,
                value: data_offset,
                expected: "not between the header and the end of the file",
            });
        }
        let stated_end = data_offset.saturating_add(data_size);
        let mut features = Features::default();
        // A recorder that was killed leaves a size of 0, or one that covers less than was written, and no features.
        let unfinished = flags == [0; 4] && stated_end < len;
        let end = if data_size == 0 || unfinished {
            notices.push(Notice::NeverFinished);
            len
        } else if stated_end > len {
            notices.push(Notice::DataCut { stated: stated_end, actual: len });
            len
        } else {
            feature_sections(file, len, endian, stated_end, flags, &mut features, notices)?;
            own_sections(file, len, endian, &mut features, notices)?;
            stated_end
        };
        Ok(Self { data: (data_offset, end), events, features })
    }
}

/// The bitmap of features, bit `n` of it in word `n / 64`. It is an array of the recorder's `unsigned long`s: where these
/// have 32 bits and start with the highest byte, what was read as 64 bits has its halves the other way round. Nothing
/// in the file says so, but perf writes `HOSTNAME` always (`perf_file_header__read` in `tools/perf/util/header.c`).
fn feature_bits(read: [u64; 4], endian: Endian) -> [u64; 4] {
    let has_hostname = |words: [u64; 4]| words[0] & (1 << bit::HOSTNAME) != 0;
    let by_halves = read.map(|word| word.rotate_left(32));
    match endian {
        Endian::Big if !has_hostname(read) && has_hostname(by_halves) => by_halves,
        _ => read,
    }
}

fn events(
    file: &dyn ReadAt,
    len: u64,
    endian: Endian,
    entry_size: u64,
    (offset, size): (u64, u64),
    notices: &mut Vec<Notice>,
) -> Result<EventTable, Error> {
    let wrong =
        |field, at, value, expected| Error::Field { section: "header", field, offset: at, value, expected };
    if !(64 + 16..=4096 + 16).contains(&entry_size) {
        return Err(wrong("attr_size", 16, entry_size, "not the size of an attr and a section"));
    }
    if size == 0 {
        return Err(Error::NoEvents);
    }
    if offset > len {
        return Err(wrong("attrs.offset", 24, offset, "behind the end of the file"));
    }
    if offset.checked_add(size).is_none_or(|end| end > len) {
        return Err(wrong("attrs.size", 32, size, "which reaches past the end of the file"));
    }
    if size % entry_size != 0 || size / entry_size > MOST_EVENTS as u64 {
        return Err(wrong("attrs.size", 32, size, "not a whole number of attrs"));
    }
    let section = read(file, offset, size)?;
    let mut bytes = Bytes::new(&section, "attrs", endian);
    let mut table = EventTable::default();
    // Sections of ids do not overlap, so together they are smaller than the file.
    let mut id_bytes = 0_u64;
    for index in 0..(size / entry_size) as usize {
        let attr = bytes.bytes("attr", entry_size - 16)?;
        let attr =
            Attr::parse(attr, endian).map_err(|source| Error::Attr { section: "attrs", index, source })?;
        let (ids_offset, ids_size) = (bytes.u64("ids.offset")?, bytes.u64("ids.size")?);
        let fits =
            ids_offset.checked_add(ids_size).is_some_and(|end| end <= len) && ids_size <= len - id_bytes;
        let ids = if fits {
            id_bytes += ids_size;
            let ids = read(file, ids_offset, ids_size)?;
            ids.chunks_exact(8).filter_map(|id| Some(endian.u64(*id.first_chunk()?))).collect()
        } else {
            let expected = "which reaches past the end of the file";
            let (field, back, value) = match ids_offset > len {
                true => ("ids.offset", 16, ids_offset),
                false => ("ids.size", 8, ids_size),
            };
            notices.push(Notice::Skipped(bytes.wrong(field, back, value, expected)));
            Vec::new()
        };
        table.push(attr, ids, endian);
    }
    Ok(table)
}

fn feature_sections(
    file: &dyn ReadAt,
    len: u64,
    endian: Endian,
    table_offset: u64,
    flags: [u64; 4],
    features: &mut Features,
    notices: &mut Vec<Notice>,
) -> Result<(), Error> {
    let word = |bit: u32| flags.get(bit as usize / 64).copied().unwrap_or(0);
    let bits: Vec<u32> = (0..bit::COUNT).filter(|&bit| word(bit) >> (bit % 64) & 1 == 1).collect();
    let table = read(file, table_offset, bits.len() as u64 * 16)?;
    let mut table = Bytes::new(&table, "feature table", endian);
    // Sections do not overlap either.
    let mut total = 0_u64;
    for feature in bits {
        let section = table.u64("offset").and_then(|offset| Ok((offset, table.u64("size")?)));
        let (offset, size) = match section {
            Ok(section) => section,
            Err(error) => {
                notices.push(Notice::Skipped(error));
                break;
            }
        };
        let wrong = if offset > len {
            Some(("offset", 16, offset, "behind the end of the file"))
        } else if size > len - offset {
            Some(("size", 8, size, "which reaches past the end of the file"))
        } else if size > len - total {
            Some(("size", 8, size, "more than the file has beside the sections before it"))
        } else if size > sections::MOST_BYTES {
            // Only the index of the AUX data is of interest to their decoders, and none is here.
            Some(("size", 8, size, "more than 64 MiB"))
        } else {
            None
        };
        if let Some((field, back, value, expected)) = wrong {
            let feature = bit::name(feature).map_or_else(|| feature.to_string(), str::to_owned);
            // The table follows the records.
            let offset = table_offset + table.offset().saturating_sub(back);
            let error = Error::FeatureTable { feature, field, offset, value, expected };
            notices.push(Notice::Skipped(error));
            continue;
        }
        total += size;
        let body = read(file, offset, size)?;
        if let Err(error) = features.parse_section(feature, &body, endian) {
            notices.push(Notice::Skipped(error));
        }
    }
    Ok(())
}

/// Reads the sections that the [`Block`] behind the header points to, and those of an appendix.
fn own_sections(
    file: &dyn ReadAt,
    len: u64,
    endian: Endian,
    features: &mut Features,
    notices: &mut Vec<Notice>,
) -> Result<(), Error> {
    let mut read_block =
        |at: u64, end: u64, most: u64, features: &mut Features| -> Result<Option<u64>, Error> {
            let block = match Block::parse(&read(file, at, Block::SIZE)?, endian) {
                Ok(Some(block)) => block,
                Ok(None) => return Ok(None),
                Err(error) => {
                    notices.push(Notice::Skipped(error));
                    return Ok(None);
                }
            };
            let wrong = |field, offset, value, expected| Error::Field {
                section: "sections",
                field,
                offset,
                value,
                expected,
            };
            let error = if block.offset > end {
                Some(wrong("offset", 16, block.offset, "behind the end of the file"))
            } else if block.size > end - block.offset {
                Some(wrong("size", 24, block.size, "which reaches past the end of the file"))
            } else if block.size > most {
                Some(wrong("size", 24, block.size, "more than a file may have"))
            } else {
                let (found, error) = sections::parse(&read(file, block.offset, block.size)?, endian);
                features.sections.extend(found);
                error
            };
            notices.extend(error.map(Notice::Skipped));
            Ok(Some(block.offset))
        };
    read_block(FILE_HEADER, len, sections::MOST_BYTES, features)?;
    let Some(last) = len.checked_sub(Block::SIZE).filter(|&last| last >= FILE_HEADER + Block::SIZE) else {
        return Ok(());
    };
    features.appendix = read_block(last, last, sections::MOST_APPENDED_BYTES, features)?;
    Ok(())
}
