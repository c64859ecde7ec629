//! Reading recordings: files, pipes, folders, compressed or not, of either byte order.
//!
//! A [`Reader`] hands out records in the order of the file, as small handles with their times ([`Entry`]), so that
//! putting them into order moves no bytes. The bytes of a record come from [`Reader::record`]: out of a bounded set of
//! windows over the file, or out of blocks that are kept until the records in them are released.

mod blocks;
mod description;
mod entry;
mod file;
mod header;
mod inflate;
mod notice;
pub(crate) mod other_formats;
mod part;
mod source;
mod stream;
mod time_order;
mod windows;

use std::collections::VecDeque;
use std::sync::Arc;

use decoder::attr::TYPE_TRACEPOINT;
use decoder::{Attr, DecodeError, Endian, RawRecord, RecordLayout, kind as kernel_kind};
use model::{Loss, Name};

use crate::error::Error;
use crate::events::{Event, EventTable};
use crate::features::{Features, bit};
use crate::sections::MOST_BYTES;
use crate::sections::Pieces;
use crate::tool::{ToolRecord, kind};
use crate::tracing_data::TracingData;

use blocks::Blocks;
use entry::{BLOCKS, raw};
use header::{FileHeader, Magic, PIPE_HEADER};
use inflate::Inflate;
use part::{Found, Input, Part};
use stream::Stream;
use windows::Windows;

pub use description::Description;
pub use entry::{Entry, EntryKind, RecordRef};
pub use notice::Notice;
pub use source::{ReadAt, Source};
pub use time_order::{TimeOrder, TimedRecord};

/// Records that a pipe may have before the first of the kernel's; they are read at once, to know the events.
const MOST_PREAMBLE: usize = 100_000;
/// So many of a file's first bytes tell what it is, where it is no recording.
const TELLING: usize = 4096;
/// Maximum number of reports of one kind of damage.
const MOST_NOTICES: usize = 20;

/// A recording that is being read.
pub struct Reader {
    known: Description,
    /// The id and the event of the latest record that has an id.
    latest: (u64, u16),
    windows: Windows,
    blocks: Blocks,
    parts: VecDeque<Part>,
    /// Rounds are promised for the whole recording.
    rounds: bool,
    /// Events come as records, not in the header.
    pipe: bool,
    /// Read already, to know the events.
    preamble: VecDeque<Entry>,
    /// Parts of sections of our own.
    pieces: Pieces,
    notices: Vec<Notice>,
    loss: Loss,
    position: u64,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader")
            .field("endian", &self.known.endian)
            .field("events", &self.known.events().len())
            .finish()
    }
}

impl Reader {
    /// Reads the header, the events and the feature sections; of a pipe, all records up to the first of the kernel's.
    ///
    /// # Errors
    /// Where nothing can be read: not a recording, no events, a failing source. Lesser damage is left out and told
    /// by [`Self::notices`].
    pub fn open(source: Source) -> Result<Self, Error> {
        let (files, stream) = match source {
            Source::File(file) => (vec![file], None),
            Source::Directory { data, parts } => {
                let mut files = vec![data];
                files.extend(parts);
                // Numbers of files have 16 bits, and the last is taken.
                files.truncate(usize::from(BLOCKS));
                (files, None)
            }
            Source::Stream(stream) => (Vec::new(), Some(stream)),
        };
        match stream {
            Some(stream) => Self::open_stream(stream),
            None => Self::open_files(files),
        }
    }

    /// Stands for a recording that has these events and no records: a profile that was never one.
    pub fn without_records(events: impl IntoIterator<Item = (Attr, Name)>) -> Self {
        let mut reader = Self::empty(Endian::Little, Windows::new(Vec::new()), false);
        let mut table = EventTable::default();
        for (index, (attr, name)) in events.into_iter().enumerate() {
            table.push(attr, Vec::new(), Endian::Little);
            table.rename_at(index, name.as_bytes());
        }
        reader.known.events = Arc::new(table);
        reader
    }

    fn empty(endian: Endian, windows: Windows, pipe: bool) -> Self {
        Self {
            known: Description { endian, events: Arc::default(), features: Arc::default() },
            latest: (0, 0),
            windows,
            blocks: Blocks::default(),
            parts: VecDeque::new(),
            rounds: true,
            pipe,
            preamble: VecDeque::new(),
            pieces: Pieces::default(),
            notices: Vec::new(),
            loss: Loss::default(),
            position: 0,
        }
    }

    fn open_stream(stream: Box<dyn std::io::Read + Send>) -> Result<Self, Error> {
        let mut stream = Stream::new(stream);
        let mut blocks = Blocks::default();
        let mut head = Vec::new();
        stream.drain(&mut blocks, PIPE_HEADER, |bytes| head.extend_from_slice(bytes))?;
        let magic = match Magic::parse(&head) {
            Err(Error::Magic { .. }) => {
                // Adds the bytes that have already arrived, to describe the stream better, without waiting for more.
                head.extend_from_slice(stream.peek(&mut blocks, 0)?);
                head.truncate(TELLING);
                return Err(Error::Magic { found: head });
            }
            parsed => parsed?,
        };
        if !magic.pipe {
            return Err(Error::Field {
                section: "header",
                field: "size",
                offset: 8,
                value: 104,
                expected: "the shape of a file, which cannot be read from a pipe: name the file instead",
            });
        }
        let mut reader = Self::empty(magic.endian, Windows::new(Vec::new()), true);
        reader.blocks = blocks;
        reader.parts.push_back(Part::new(Input::Stream(stream)));
        reader.read_preamble()?;
        Ok(reader)
    }

    fn open_files(files: Vec<Box<dyn ReadAt>>) -> Result<Self, Error> {
        let length = |file: &dyn ReadAt| file.len().map_err(|source| Error::Io { offset: 0, len: 0, source });
        let mut windows = Windows::new(files);
        let bytes = windows.at(0, 0)?;
        let magic = Magic::parse(bytes.get(..16).unwrap_or(bytes)).map_err(|error| match error {
            Error::Magic { .. } => Error::Magic { found: bytes.get(..TELLING).unwrap_or(bytes).to_vec() },
            error => error,
        })?;
        let Some(len) = windows.file(0).map(length) else { return Err(Error::Empty) };
        let len = len?;
        let mut reader = Self::empty(magic.endian, windows, magic.pipe);
        if magic.pipe {
            reader.parts.push_back(Part::new(Input::File { file: 0, at: PIPE_HEADER, end: len }));
            reader.read_preamble()?;
            return Ok(reader);
        }
        if let Some(file) = reader.windows.file(0) {
            let header = FileHeader::parse(file, len, magic.endian, &mut reader.notices)?;
            let (at, end) = header.data;
            reader.parts.push_back(Part::new(Input::File { file: 0, at, end }));
            reader.known.events = Arc::new(header.events);
            reader.known.features = Arc::new(header.features);
        }
        let mut number = 1;
        while let Some(file) = reader.windows.file(number) {
            reader.parts.push_back(Part::new(Input::File { file: number, at: 0, end: length(file)? }));
            // The files of a folder know nothing of each other's rounds.
            reader.rounds = false;
            number += 1;
        }
        reader.name_events();
        reader.name_tracepoints();
        reader.read_preamble()?;
        Ok(reader)
    }

    fn read_preamble(&mut self) -> Result<(), Error> {
        while self.preamble.len() < MOST_PREAMBLE {
            let Some(entry) = self.read_entry()? else { break };
            let kind = entry.record.kind();
            self.preamble.push_back(entry);
            if kind < kernel_kind::FIRST_OF_TOOLS
                || matches!(kind, kind::FINISHED_ROUND | kind::COMPRESSED | kind::COMPRESSED2)
            {
                break;
            }
        }
        if self.events().is_empty() {
            return Err(Error::NoEvents);
        }
        Ok(())
    }

    /// Returns the description of the recording, as known so far. In a pipe, more may come with later records.
    pub fn description(&self) -> &Description {
        &self.known
    }

    /// The byte order of the recording.
    pub fn endian(&self) -> Endian {
        self.known.endian
    }

    /// Returns the events of the recording. In a pipe, more may come with later records.
    pub fn events(&self) -> &[Event] {
        self.known.events()
    }

    /// The feature sections. In a pipe, more may come with later records.
    pub fn features(&self) -> &Features {
        self.known.features()
    }

    /// Returns true if [`EntryKind::RoundEnd`] can be relied on for order; if not, all records are to be sorted.
    pub fn has_rounds(&self) -> bool {
        self.rounds
    }

    /// Returns true if it has the shape of a pipe.
    pub fn is_pipe(&self) -> bool {
        self.pipe
    }

    /// Returns the notices for a reader, so far.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// Takes the notices that were not taken before.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Returns the loss so far: what could not be read: unknown types, records of unknown events, bytes at the end.
    pub fn loss(&self) -> Loss {
        self.loss
    }

    /// Bytes of all records that a file has; `None` for a pipe. For a progress bar.
    pub fn total_size(&self) -> Option<u64> {
        self.parts
            .iter()
            .map(|part| match &part.input {
                Input::File { at, end, .. } => Some(end.saturating_sub(*at)),
                Input::Stream(_) => None,
            })
            .sum::<Option<u64>>()
            .map(|left| left.saturating_add(self.position))
    }

    /// Bytes of records read so far.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The next record in the order of the file; `None` at the end. Each is to be given back with
    /// [`Self::release`] when its bytes are not needed any more.
    ///
    /// # Errors
    /// Those of the source. Damaged bytes end the recording early, with a [`Notice`] and a count in
    /// [`Self::loss`].
    #[inline]
    pub fn next_entry(&mut self) -> Result<Option<Entry>, Error> {
        match self.preamble.pop_front() {
            Some(entry) => Ok(Some(entry)),
            None => match self.read_kernel_entry()? {
                Some(entry) => Ok(Some(entry)),
                None => self.read_entry(),
            },
        }
    }

    /// The bytes of a record.
    ///
    /// # Errors
    /// Those of the source; [`Error::Cut`] where the file has become shorter, or the record was released.
    #[inline]
    pub fn record(&mut self, record: RecordRef) -> Result<RawRecord<'_>, Error> {
        raw(&mut self.windows, &self.blocks, record, self.known.endian)
    }

    /// The bytes of a record with the layout of its event (of the first event, if it has none).
    ///
    /// # Errors
    /// As [`Self::record`].
    #[inline]
    pub fn record_and_layout(&mut self, record: RecordRef) -> Result<(RawRecord<'_>, &RecordLayout), Error> {
        let layout = self.known.layout_of(record.event()).ok_or(Error::NoEvents)?;
        Ok((raw(&mut self.windows, &self.blocks, record, self.known.endian)?, layout))
    }

    /// The bytes of a record are not needed any more.
    #[inline]
    pub fn release(&mut self, record: RecordRef) {
        if record.store() == BLOCKS {
            self.blocks.release(record.place());
        }
    }

    fn notice(&mut self, notice: Notice) {
        if self.notices.len() < MOST_NOTICES {
            self.notices.push(notice);
        }
    }

    /// A record of the kernel's types that lies in a file, on the shortest way: nearly all are.
    #[inline]
    fn read_kernel_entry(&mut self) -> Result<Option<Entry>, Error> {
        let Some(Part { input: Input::File { file, at, end }, inflate: None }) = self.parts.front_mut()
        else {
            return Ok(None);
        };
        let left = usize::try_from(end.saturating_sub(*at)).unwrap_or(usize::MAX);
        if left == 0 {
            return Ok(None);
        }
        let bytes = self.windows.at(*file, *at)?;
        let bytes = bytes.get(..left).unwrap_or(bytes);
        let Ok((raw, size)) = RawRecord::parse(bytes, self.known.endian) else { return Ok(None) };
        if raw.kind >= kernel_kind::FIRST_OF_TOOLS {
            return Ok(None);
        }
        let entry = kernel_entry(&self.known.events, &mut self.latest, &mut self.loss, &raw, *file, *at);
        *at += size as u64;
        self.position += size as u64;
        Ok(Some(entry))
    }

    fn read_entry(&mut self) -> Result<Option<Entry>, Error> {
        loop {
            let Some(part) = self.parts.front_mut() else { return Ok(None) };
            if let Some(inflate) = &mut part.inflate {
                match inflate.next(&mut self.blocks, self.known.endian) {
                    Ok(Some((place, _))) => return self.classify(BLOCKS, place, Origin::Piece).map(Some),
                    Ok(None) => {}
                    Err(error) => {
                        let offset = inflate.piece_offset();
                        self.notice(Notice::Record { offset, error });
                    }
                }
            }
            let Some(part) = self.parts.front_mut() else { return Ok(None) };
            let start = part.offset();
            match part.next(&mut self.windows, &mut self.blocks, self.known.endian)? {
                Found::Record { store, place } => {
                    let end = part.offset();
                    self.position += end - start;
                    return self.classify(store, place, Origin::Input).map(Some);
                }
                Found::End => self.end_part(),
                Found::Rest { bytes, why } => {
                    self.loss.cut_bytes = self.loss.cut_bytes.saturating_add(bytes);
                    // A record that the end of the file cuts is what a killed recorder leaves; its bytes are counted.
                    let at_end = matches!(why, DecodeError::RecordCut { .. });
                    if !at_end || !self.notices.iter().any(|notice| matches!(notice, Notice::NeverFinished)) {
                        self.notice(Notice::Stopped { offset: start, why: why.to_string() });
                    }
                    self.end_part();
                }
            }
        }
    }

    fn end_part(&mut self) {
        if let Some(mut part) = self.parts.pop_front() {
            if let Some(inflate) = &part.inflate {
                self.loss.cut_bytes = self.loss.cut_bytes.saturating_add(inflate.left_over(&self.blocks));
            }
            part.close(&mut self.blocks);
        }
    }

    fn classify(&mut self, store: u16, place: u64, origin: Origin) -> Result<Entry, Error> {
        let record = RecordRef::new(store, place, 0, None);
        let raw = raw(&mut self.windows, &self.blocks, record, self.known.endian)?;
        if raw.kind >= kernel_kind::FIRST_OF_TOOLS {
            let kind = raw.kind;
            return self.tool_record(store, place, kind, origin);
        }
        Ok(kernel_entry(&self.known.events, &mut self.latest, &mut self.loss, &raw, store, place))
    }

    #[cold]
    fn tool_record(&mut self, store: u16, place: u64, kind: u32, origin: Origin) -> Result<Entry, Error> {
        let record = RecordRef::new(store, place, kind, None);
        let raw = raw(&mut self.windows, &self.blocks, record, self.known.endian)?;
        // Copied out: what it says changes the reader. Tool records are few, but for pieces and rounds.
        let (misc, mut body) = (raw.misc, raw.body.to_vec());
        if kind >= kind::FIRST_OF_SIMPLEPERF && origin == Origin::Input {
            // The size has 32 bits there: what was cut out so far is what the low half says.
            let keep = if kind == kind::SIMPLEPERF_TRACING_DATA { MOST_BYTES as usize } else { 0 };
            body.extend(self.skip(u64::from(misc) << 16, keep)?);
        }
        let entry = |kind| Entry { record, time: None, kind };
        if kind == kind::FINISHED_ROUND {
            return Ok(entry(if self.rounds { EntryKind::RoundEnd } else { EntryKind::Tool }));
        }
        match ToolRecord::parse(&RawRecord { kind, misc, body: &body }, self.known.endian) {
            Ok(Some(tool)) => {
                self.take_in(tool, origin, record.file_offset())?;
                Ok(entry(EntryKind::Tool))
            }
            Ok(None) => {
                self.loss.unknown_records = self.loss.unknown_records.saturating_add(1);
                Ok(entry(EntryKind::Unknown))
            }
            Err(error) => {
                self.loss.undecodable = self.loss.undecodable.saturating_add(1);
                self.notice(Notice::Record { offset: record.file_offset(), error });
                Ok(entry(EntryKind::Tool))
            }
        }
    }

    /// Takes in what a tool record says of the recording itself.
    fn take_in(&mut self, tool: ToolRecord<'_>, origin: Origin, offset: Option<u64>) -> Result<(), Error> {
        match tool {
            // Compressed records within one could nest without end, and data behind a record is not part of the piece. No tool writes either.
            ToolRecord::Compressed(_)
            | ToolRecord::HeaderTracingData { .. }
            | ToolRecord::Auxtrace { .. }
                if origin == Origin::Piece =>
            {
                let what = "a record that only stands outside of compressed ones".to_owned();
                self.notice(Notice::Record { offset, error: Error::Compressed { what } });
            }
            ToolRecord::Compressed(piece) => {
                let Some(part) = self.parts.front_mut() else { return Ok(()) };
                let inflate = match &mut part.inflate {
                    Some(inflate) => inflate,
                    None => part.inflate.insert(Inflate::new()?),
                };
                inflate.feed(piece, offset);
            }
            ToolRecord::HeaderAttr { attr, ids } if self.pipe => {
                Arc::make_mut(&mut self.known.events).push(*attr, ids, self.known.endian);
            }
            ToolRecord::Section(piece) => {
                let section = self.pieces.push(piece);
                if section.is_some() {
                    self.features_mut().sections.extend(section);
                }
            }
            ToolRecord::HeaderEventType { id, name } => {
                let named = |event: &Event| event.attr.kind == TYPE_TRACEPOINT && event.attr.config == id;
                let events = self.events().iter().enumerate();
                let positions: Vec<usize> = events.filter(|(_, e)| named(e)).map(|(at, _)| at).collect();
                let events = Arc::make_mut(&mut self.known.events);
                positions.into_iter().for_each(|at| events.rename_at(at, name));
            }
            ToolRecord::HeaderTracingData { size, inside } => {
                let mut section = inside.to_vec();
                if section.is_empty() {
                    section = self.skip(u64::from(size).next_multiple_of(8), MOST_BYTES as usize)?;
                    section.truncate(size as usize);
                }
                self.features_mut().tracing_data = Some(section);
                self.name_tracepoints();
            }
            ToolRecord::Auxtrace { size } => {
                self.skip(size, 0)?;
            }
            ToolRecord::HeaderBuildId(entry) => self.features_mut().build_ids.extend(entry),
            ToolRecord::HeaderFeature { feature, body } => {
                let Ok(feature) = u32::try_from(feature) else { return Ok(()) };
                // The record without a body ends the list.
                if body.is_empty() && !matches!(feature, bit::BRANCH_STACK | bit::STAT) {
                    return Ok(());
                }
                let endian = self.known.endian;
                if let Err(error) = self.features_mut().parse_section(feature, body, endian) {
                    self.notice(Notice::Record { offset, error });
                }
                if feature == bit::EVENT_DESC {
                    self.name_events();
                }
            }
            ToolRecord::EventName { id, name } => {
                Arc::make_mut(&mut self.known.events).rename(id, name);
            }
            ToolRecord::HeaderAttr { .. } | ToolRecord::Other => {}
        }
        Ok(())
    }

    /// Leaves out bytes that lie behind a record, outside its size.
    fn skip(&mut self, len: u64, keep: usize) -> Result<Vec<u8>, Error> {
        let Some(part) = self.parts.front_mut() else { return Ok(Vec::new()) };
        let offset = part.offset();
        let (skipped, kept) = part.skip(&mut self.windows, &mut self.blocks, len, keep)?;
        self.position += skipped;
        if skipped < len {
            self.loss.cut_bytes = self.loss.cut_bytes.saturating_add(skipped);
            self.notice(Notice::Stopped { offset, why: format!("{len} bytes should follow, {skipped} do") });
        }
        Ok(kept)
    }

    /// Takes names out of EVENT_DESC: by position, as perf does, where ids do not say otherwise.
    fn name_events(&mut self) {
        let features = Arc::clone(&self.known.features);
        let events = Arc::make_mut(&mut self.known.events);
        for (index, event) in features.events.iter().enumerate() {
            let by_id = event.ids.first().and_then(|&id| events.by_id(id));
            events.rename_at(by_id.map_or(index, |index| index.0 as usize), event.name.as_bytes());
        }
    }

    /// Takes names out of TRACING_DATA, for events that have none.
    fn name_tracepoints(&mut self) {
        if let Some(section) = &self.known.features.tracing_data
            && self.known.events.has_nameless_tracepoints()
        {
            let (data, _) = TracingData::parse(section);
            Arc::make_mut(&mut self.known.events).name_tracepoints(&data.tracepoints);
        }
    }

    fn features_mut(&mut self) -> &mut Features {
        Arc::make_mut(&mut self.known.features)
    }
}

/// The place in which a record was found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    Input,
    /// Unpacked from a compressed piece.
    Piece,
}

#[inline]
fn kernel_entry(
    events: &EventTable,
    latest: &mut (u64, u16),
    loss: &mut Loss,
    raw: &RawRecord<'_>,
    store: u16,
    place: u64,
) -> Entry {
    let event = events.of(raw, latest);
    let layout = events.events.get(usize::from(event.unwrap_or(0))).map(|event| &event.layout);
    let time = layout.and_then(|layout| layout.time_of(raw));
    let record = RecordRef::new(store, place, raw.kind, event);
    if raw.kind == kernel_kind::SAMPLE {
        if event.is_none() {
            loss.unattributed = loss.unattributed.saturating_add(1);
        }
    } else if kernel_kind::name(raw.kind).is_none() {
        loss.unknown_records = loss.unknown_records.saturating_add(1);
        return Entry { record, time: None, kind: EntryKind::Unknown };
    }
    Entry { record, time, kind: EntryKind::Kernel }
}
