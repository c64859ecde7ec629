//! The pipe shape: nothing but records; what a file has in sections comes as records of their own.

use std::io::{self, BufWriter, Write};

use decoder::{Attr, Endian};

use super::{MAGIC, RecordWriter, attr_size, section_records, tool_records};
use crate::features::{EventDescription, Features, bit};
use crate::tool::kind;

/// Writes a recording as a stream (`perf script -i -`, `prof flame -i -`).
#[derive(Debug)]
pub struct PipeWriter<W: Write> {
    stream: BufWriter<W>,
    written: u64,
}

impl<W: Write> PipeWriter<W> {
    /// Begins a recording: the events, and what is known of the machine already.
    ///
    /// # Errors
    /// Those of `stream`.
    pub fn create(stream: W, events: &[EventDescription], features: &Features) -> io::Result<Self> {
        let mut writer = Self { stream: BufWriter::with_capacity(1 << 16, stream), written: 0 };
        writer.append(&Endian::NATIVE.u64_bytes(MAGIC))?;
        writer.append(&Endian::NATIVE.u64_bytes(16))?;
        for event in events {
            let attr = Attr { size: attr_size(&event.attr), ..event.attr.clone() };
            writer.append_if_fits(tool_records::header_attr(&attr, &event.ids))?;
        }
        writer.features(features)?;
        writer.build_ids(features)?;
        for event in events {
            if let Some(&id) = event.ids.first() {
                writer.append_if_fits(tool_records::event_name(id, event.name.as_bytes()))?;
            }
        }
        Ok(writer)
    }

    fn append_if_fits(&mut self, record: Option<Vec<u8>>) -> io::Result<()> {
        record.map_or(Ok(()), |record| self.append(&record))
    }

    fn features(&mut self, features: &Features) -> io::Result<()> {
        for (bit, body) in features.to_sections(Endian::NATIVE) {
            match bit {
                // These have records of their own.
                bit::TRACING_DATA => self.tracing_data(&body)?,
                bit::BUILD_ID => {}
                _ => {
                    let mut feature = Endian::NATIVE.u64_bytes(u64::from(bit)).to_vec();
                    feature.extend_from_slice(&body);
                    self.append_if_fits(tool_records::record(kind::HEADER_FEATURE, &feature))?;
                }
            }
        }
        Ok(())
    }

    fn build_ids(&mut self, features: &Features) -> io::Result<()> {
        let ids = Features { build_ids: features.build_ids.clone(), ..Features::default() };
        for (_, body) in ids.to_sections(Endian::NATIVE) {
            // The section is a sequence of records already, but for their type.
            let mut rest = body.as_slice();
            while let Some((header, _)) = rest.split_first_chunk::<8>() {
                let size = usize::from(Endian::NATIVE.u16([header[6], header[7]]));
                let (Some(body), Some(after)) = (rest.get(8..size), rest.get(size..)) else { break };
                let misc = Endian::NATIVE.u16([header[4], header[5]]);
                self.append_if_fits(tool_records::record_with_misc(kind::HEADER_BUILD_ID, misc, body))?;
                rest = after;
            }
        }
        Ok(())
    }

    /// The one record of ours whose bytes lie behind it, outside the size that its header states.
    fn tracing_data(&mut self, body: &[u8]) -> io::Result<()> {
        // perf wants the padding to be counted.
        let padded = body.len().next_multiple_of(8);
        let Ok(size) = u32::try_from(padded) else { return Ok(()) };
        let head = Endian::NATIVE.u32_bytes(size);
        self.append_if_fits(tool_records::record(kind::HEADER_TRACING_DATA, &head))?;
        self.append(body)?;
        self.append([0; 8].get(..padded - body.len()).unwrap_or_default())
    }
}

impl<W: Write> RecordWriter for PipeWriter<W> {
    fn append(&mut self, records: &[u8]) -> io::Result<()> {
        self.stream.write_all(records)?;
        self.written += records.len() as u64;
        Ok(())
    }

    fn finished_init(&mut self) -> io::Result<()> {
        self.append_if_fits(tool_records::record(kind::FINISHED_INIT, &[]))
    }

    fn finished_round(&mut self) -> io::Result<()> {
        self.append_if_fits(tool_records::record(kind::FINISHED_ROUND, &[]))
    }

    fn checkpoint(&mut self) -> io::Result<()> {
        self.stream.flush()
    }

    fn finish(&mut self, features: &Features) -> io::Result<u64> {
        self.build_ids(features)?;
        for (id, section) in &features.sections {
            self.append(&section_records(*id, section))?;
        }
        self.stream.flush()?;
        Ok(self.written)
    }
}
