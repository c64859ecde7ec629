//! Parses pprof's `profile.proto` (<https://github.com/google/pprof/blob/main/proto/profile.proto>), unpacked.
//!
//! Strings, functions and locations may follow the samples that refer to them, so that the bytes are read twice.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use export::exchange::SampleLabel;
use model::{
    AddressKind, BuildId, Frame, Name, ObjectIdentity, Pid, Reason, Resolution, SourceLocation, Space,
    SpaceId, SpaceTable, StackEntry, Tid,
};
use profile::StackTable;
use symbolizer::{NameStyle, Resolutions, display_name};

use super::wire::{BadField, Fields, Value};
use super::{ForeignError, ForeignProfile, Format, MAX_DEPTH, Quantity, Samples, Thread, resolved};

/// The most quantities of a profile: a runtime has a dozen at most.
const MAX_QUANTITIES: usize = 32;
/// The frames that all stacks may have together, and for each byte of the profile. The real profile with most of them has 4 a byte.
const MAX_FRAMES: u64 = 1 << 20;
const MAX_FRAMES_PER_BYTE: u64 = 8;
/// The frames that one counts for which no other stack shares: it takes 50 bytes in trees of frames, and 4 in lists.
const NEW_FRAME_COST: u64 = 8;
/// The most functions at one location: the deepest inlining known is some tens.
const MAX_INLINED: usize = 256;
/// The longest name of a thread, in bytes: thousands of threads may have one, and runtimes whose threads have the longest use some tens.
const MAX_COMM_BYTES: usize = 256;
/// The name of the thread where a profile names neither threads nor a program.
const NO_THREAD: &str = "all";
/// The first address of the upper half of the address space, which is the kernel's.
const FIRST_KERNEL_ADDRESS: u64 = 1 << 63;
/// Offsets of locations that have no address, or share one with another location, begin here. No file is that long.
const FIRST_NUMBERED_OFFSET: u64 = 1 << 56;

/// Keys of labels that name a thread, in the order of preference; writers differ.
const COMM_KEYS: [&[u8]; 4] = [b"comm", b"thread_name", b"thread name", b"thread"];
const PID_KEYS: [&[u8]; 3] = [b"pid", b"process_id", b"process id"];
const TID_KEYS: [&[u8]; 3] = [b"tid", b"thread_id", b"thread id"];

/// The numbers of fields of a message `Profile`.
mod field {
    pub(super) const SAMPLE_TYPE: u32 = 1;
    pub(super) const SAMPLE: u32 = 2;
    pub(super) const MAPPING: u32 = 3;
    pub(super) const LOCATION: u32 = 4;
    pub(super) const FUNCTION: u32 = 5;
    pub(super) const STRING_TABLE: u32 = 6;
    pub(super) const TIME_NANOS: u32 = 9;
    pub(super) const DURATION_NANOS: u32 = 10;
    pub(super) const DEFAULT_SAMPLE_TYPE: u32 = 14;
    /// The last field that the format has (`doc_url`).
    pub(super) const LAST: u32 = 15;
}

/// Returns true if bytes may be the start of a profile: a field of a message `Profile`. Text may look so, too.
pub(super) fn begins_like_one(bytes: &[u8]) -> bool {
    // Its sample types, or whatever else a writer begins with: a string, message or number.
    matches!(bytes, [key, _, ..] if (1..=field::LAST).contains(&u32::from(key >> 3)) && matches!(key & 7, 0 | 2))
        && !bytes.iter().take(64).all(|&byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace())
}

/// Returns true if all fields are those of a message `Profile`, there is a sample type, and the first string is empty, as the format wants.
pub(super) fn is_pprof(bytes: &[u8]) -> bool {
    if !begins_like_one(bytes) {
        return false;
    }
    let (mut has_type, mut first_string) = (false, None);
    for field in Fields::of(bytes) {
        match field {
            Ok((field::SAMPLE_TYPE, Value::Bytes(_))) => has_type = true,
            Ok((field::STRING_TABLE, Value::Bytes(text))) if first_string.is_none() => {
                first_string = Some(text);
            }
            Ok((1..=field::LAST, _)) => {}
            Ok(_) => return false,
            // A profile that was cut: what is whole of it tells what it is.
            Err(BadField) => return has_type,
        }
    }
    has_type && first_string.is_some_and(<[u8]>::is_empty)
}

/// A mapping as the profile has it.
#[derive(Clone, Copy, Default, Debug)]
struct Mapping<'b> {
    start: u64,
    file_offset: u64,
    file: &'b [u8],
    build_id: &'b [u8],
}

/// A function as the profile has it.
#[derive(Clone, Debug)]
struct Function {
    name: Arc<str>,
    file: Arc<str>,
    /// The line at which it starts; 0 if unknown.
    start_line: u32,
}

/// Everything but the samples. References are by id, which writers choose.
#[derive(Default)]
struct Tables<'b> {
    /// Positions of the strings of type and unit.
    quantities: Vec<(u64, u64)>,
    strings: Vec<&'b [u8]>,
    mappings: HashMap<u64, Mapping<'b>>,
    /// The id of the first mapping: the main program's.
    program: Option<u64>,
    functions: HashMap<u64, Function>,
    /// Names by the positions of their strings, each stored once: thousands of functions may share a long one.
    names: HashMap<(u64, NameStyle), Arc<str>>,
    started_unix_ns: u64,
    duration_ns: u64,
    default_quantity: u64,
}

/// Parses a profile.
///
/// # Errors
/// [`ForeignError`] if it is damaged, has no sample type or no sample, or negative values.
pub(super) fn parse(bytes: &[u8]) -> Result<ForeignProfile, ForeignError> {
    let tables = Tables::read(bytes)?;
    if tables.quantities.is_empty() {
        return Err(ForeignError::Without("sample type"));
    }
    let room = MAX_FRAMES + MAX_FRAMES_PER_BYTE * bytes.len() as u64;
    let mut builder = Builder { tables, room, ..Builder::default() };
    for_each(bytes, field::LOCATION, |message| builder.push_location(message))?;
    let mut number = 0;
    for_each(bytes, field::SAMPLE, |message| {
        number += 1;
        let has_negative = builder.push_sample(message)?;
        Some(if has_negative { Err(ForeignError::Negative { sample: number }) } else { Ok(()) })
    })?;
    if number == 0 {
        return Err(ForeignError::Without("sample"));
    }
    Ok(builder.finish())
}

/// The result of one message: `None` if it is damaged.
trait Outcome {
    fn result(self, damaged: ForeignError) -> Result<(), ForeignError>;
}

impl Outcome for Option<()> {
    fn result(self, damaged: ForeignError) -> Result<(), ForeignError> {
        self.ok_or(damaged)
    }
}

impl Outcome for Option<Result<(), ForeignError>> {
    fn result(self, damaged: ForeignError) -> Result<(), ForeignError> {
        self.unwrap_or(Err(damaged))
    }
}

/// Calls `each` with each message of a field of the profile.
fn for_each<'b, O: Outcome>(
    bytes: &'b [u8],
    wanted: u32,
    mut each: impl FnMut(&'b [u8]) -> O,
) -> Result<(), ForeignError> {
    let mut fields = Fields::of(bytes);
    loop {
        let offset = fields.offset();
        let part = match wanted {
            field::SAMPLE => "sample",
            _ => "location",
        };
        match fields.next() {
            None => return Ok(()),
            Some(Err(BadField)) => return Err(ForeignError::Damaged { part: "field", offset }),
            Some(Ok((number, value))) if number == wanted => {
                each(value.bytes()).result(ForeignError::Damaged { part, offset })?;
            }
            Some(Ok(_)) => {}
        }
    }
}

impl<'b> Tables<'b> {
    fn read(bytes: &'b [u8]) -> Result<Self, ForeignError> {
        let mut tables = Self::default();
        let mut functions: Vec<(usize, &[u8])> = Vec::new();
        let mut mappings: Vec<(usize, &[u8])> = Vec::new();
        let mut fields = Fields::of(bytes);
        loop {
            let offset = fields.offset();
            let Some(field) = fields.next() else { break };
            let Ok((number, value)) = field else {
                return Err(ForeignError::Damaged { part: "field", offset });
            };
            match number {
                field::SAMPLE_TYPE if tables.quantities.len() < MAX_QUANTITIES => {
                    let [kind, unit] = numbers(value.bytes(), [1, 2])
                        .ok_or(ForeignError::Damaged { part: "sample_type", offset })?;
                    tables.quantities.push((kind, unit));
                }
                field::MAPPING => mappings.push((offset, value.bytes())),
                field::FUNCTION => functions.push((offset, value.bytes())),
                field::STRING_TABLE => tables.strings.push(value.bytes()),
                field::TIME_NANOS => tables.started_unix_ns = value.number(),
                field::DURATION_NANOS => tables.duration_ns = value.number(),
                field::DEFAULT_SAMPLE_TYPE => tables.default_quantity = value.number(),
                _ => {}
            }
        }
        for (offset, message) in mappings {
            let [id, start, file_offset, file, build_id] =
                numbers(message, [1, 2, 4, 5, 6]).ok_or(ForeignError::Damaged { part: "mapping", offset })?;
            let (file, build_id) = (tables.string(file), tables.string(build_id));
            tables.program.get_or_insert(id);
            tables.mappings.entry(id).or_insert(Mapping { start, file_offset, file, build_id });
        }
        for (offset, message) in functions {
            let [id, name, linkage_name, file, start_line] = numbers(message, [1, 2, 3, 4, 5])
                .ok_or(ForeignError::Damaged { part: "function", offset })?;
            let name = if tables.string(name).is_empty() { linkage_name } else { name };
            let function = Function {
                name: tables.name(name, NameStyle::Demangled),
                file: tables.name(file, NameStyle::Linkage),
                start_line: u32::try_from(start_line).unwrap_or(0),
            };
            tables.functions.entry(id).or_insert(function);
        }
        Ok(tables)
    }

    /// Returns the string at a position; an empty one if there is none.
    fn string(&self, position: u64) -> &'b [u8] {
        usize::try_from(position)
            .ok()
            .and_then(|position| self.strings.get(position))
            .copied()
            .unwrap_or_default()
    }

    fn name(&mut self, position: u64, style: NameStyle) -> Arc<str> {
        let text = self.string(position);
        Arc::clone(self.names.entry((position, style)).or_insert_with(|| display_name(text, style).into()))
    }

    fn text(&self, position: u64) -> String {
        String::from_utf8_lossy(self.string(position)).into_owned()
    }

    /// Returns the base name of the main program; `None` if the profile has no mapping with a name.
    fn program_name(&self) -> Option<Name> {
        let path = self.mappings.get(&self.program?)?.file;
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
        (!name.is_empty()).then(|| Name::new(name))
    }
}

/// Returns numbers of a message by their fields; 0 for those that are missing. `None` if the message is damaged.
fn numbers<const N: usize>(message: &[u8], wanted: [u32; N]) -> Option<[u64; N]> {
    let mut found = [0; N];
    for field in Fields::of(message) {
        let (number, value) = field.ok()?;
        if let Some(index) = wanted.iter().position(|&wanted| wanted == number) {
            found[index] = value.number();
        }
    }
    Some(found)
}

/// Builds the profile from its locations and samples.
#[derive(Default)]
struct Builder<'b> {
    tables: Tables<'b>,
    spaces: SpaceTable,
    stacks: StackTable,
    resolutions: Resolutions,
    unresolved: Vec<StackEntry>,
    /// The entries of locations by id, each with the number of its frames.
    entries: HashMap<u64, (StackEntry, usize)>,
    /// Entries that are taken: two locations may have one address, and different names.
    taken: HashSet<(SpaceId, u64)>,
    threads: Vec<Thread>,
    thread_numbers: HashMap<Thread, u32>,
    tells_threads: bool,
    samples: Vec<Samples>,
    values: Vec<u64>,
    incomplete: u64,
    cut: u64,
    /// The number of frames that stacks may still have.
    room: u64,
    chain: Vec<StackEntry>,
}

impl<'b> Builder<'b> {
    fn push_location(&mut self, message: &'b [u8]) -> Option<()> {
        let (mut id, mut mapping, mut address) = (0, 0, 0);
        let mut frames = Vec::new();
        for field in Fields::of(message) {
            match field.ok()? {
                (1, value) => id = value.number(),
                (2, value) => mapping = value.number(),
                (3, value) => address = value.number(),
                (4, value) if frames.len() < MAX_INLINED => frames.extend(self.frame(value.bytes())?),
                _ => {}
            }
        }
        if let Some((_, inlined)) = frames.split_last_mut() {
            inlined.iter_mut().for_each(|frame: &mut Frame| frame.inlined = true);
        }
        let mapping = self.tables.mappings.get(&mapping).copied();
        // All ones stand for an unknown address.
        let address = if address == u64::MAX { 0 } else { address };
        let in_kernel = address >= FIRST_KERNEL_ADDRESS
            || mapping.is_some_and(|mapping| mapping.file.starts_with(b"[kernel"));
        let (space, offset) = space_of(mapping.as_ref(), address, in_kernel);
        let may_have_names =
            matches!(&space, Space::Object(object) if !object.path.as_bytes().starts_with(b"["));
        let space = self.spaces.intern(space);
        let numbered = FIRST_NUMBERED_OFFSET.wrapping_add(self.entries.len() as u64);
        let has_address = address != 0 && self.taken.insert((space, offset));
        let entry = StackEntry {
            offset: if has_address { offset } else { numbered },
            space,
            // Addresses of callers lie within the call already.
            kind: AddressKind::InstructionPointer,
            in_kernel,
        };
        if self.entries.contains_key(&id) {
            return Some(());
        }
        self.entries.insert(id, (entry, frames.len().max(1)));
        if !frames.is_empty() {
            self.resolutions.insert(entry, resolved(frames));
        } else if has_address && may_have_names {
            self.unresolved.push(entry);
        } else {
            self.resolutions.insert(entry, Resolution::Unresolved(Reason::NotInProfile));
        }
        Some(())
    }

    /// Returns the frame of a line, if its function has a name.
    fn frame(&self, message: &[u8]) -> Option<Option<Frame>> {
        let [function, line, column] = numbers(message, [1, 2, 3])?;
        let Some(function) = self.tables.functions.get(&function).filter(|known| !known.name.is_empty())
        else {
            return Some(None);
        };
        let number = |value| u32::try_from(value).unwrap_or(0);
        let location = (!function.file.is_empty()).then(|| SourceLocation {
            file: Arc::clone(&function.file),
            line: number(line),
            column: number(column),
            discriminator: 0,
            start_line: function.start_line,
        });
        Some(Some(Frame { function: Arc::clone(&function.name), location, inlined: false }))
    }

    /// Adds a sample. Returns true if one of its values is negative, and nothing if it is damaged.
    fn push_sample(&mut self, message: &'b [u8]) -> Option<bool> {
        let quantities = self.tables.quantities.len();
        let mut values = [0_i64; MAX_QUANTITIES];
        let (mut found, mut frames, mut is_cut) = (0, 0, false);
        let most = if self.room > 0 { MAX_DEPTH } else { MAX_DEPTH.min(message.len()) };
        let (mut comm, mut pid, mut tid, mut labels) = (None, None, None, Vec::new());
        self.chain.clear();
        for field in Fields::of(message) {
            match field.ok()? {
                (1, value) => {
                    let (chain, entries, spaces) = (&mut self.chain, &self.entries, &mut self.spaces);
                    value.numbers(|id| {
                        let (entry, more) = entries.get(&id).copied().unwrap_or_else(|| (unknown(spaces), 1));
                        is_cut |= frames + more > most;
                        if !is_cut {
                            frames += more;
                            chain.push(entry);
                        }
                    })?;
                }
                (2, value) => value.numbers(|value| {
                    if let Some(slot) = values.get_mut(found) {
                        *slot = value as i64;
                    }
                    found += 1;
                })?,
                (3, value) => {
                    let [key_at, text_at, number, unit_at] = numbers(value.bytes(), [1, 2, 3, 4])?;
                    let (key, text) = (self.tables.string(key_at), self.tables.string(text_at));
                    let id = || {
                        let typed = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
                        if text.is_empty() { i32::try_from(number as i64).ok() } else { typed }
                    };
                    if COMM_KEYS.contains(&key) && !text.is_empty() {
                        comm = Some(Name::new(text.get(..MAX_COMM_BYTES).unwrap_or(text)));
                    } else if PID_KEYS.contains(&key) {
                        pid = id().map(Pid);
                    } else if TID_KEYS.contains(&key) {
                        tid = id().map(Tid);
                    } else {
                        let [key, text, unit] = [key_at, text_at, unit_at]
                            .map(|position| self.tables.name(position, NameStyle::Linkage));
                        labels.push(SampleLabel { key, text, number: number as i64, unit });
                    }
                }
                _ => {}
            }
        }
        let values = values.get(..quantities).unwrap_or_default();
        if values.iter().any(|&value| value < 0) {
            return Some(true);
        }
        self.incomplete += u64::from(found != quantities);
        self.cut += u64::from(is_cut);
        if values.iter().any(|&value| value > 0) {
            let thread = self.thread(comm, pid, tid, labels);
            let known = self.stacks.len();
            let stack = self.stacks.intern(&self.chain);
            let new = (self.stacks.len() - known) * frames / self.chain.len().max(1);
            self.room = self.room.saturating_sub(frames as u64 + NEW_FRAME_COST * new as u64);
            self.samples.push(Samples { thread, stack });
            self.values.extend(values.iter().map(|&value| value as u64));
        }
        Some(false)
    }

    fn thread(
        &mut self,
        comm: Option<Name>,
        pid: Option<Pid>,
        tid: Option<Tid>,
        labels: Vec<SampleLabel>,
    ) -> u32 {
        self.tells_threads |= comm.is_some();
        let comm = comm.or_else(|| self.tables.program_name()).unwrap_or_else(|| Name::from(NO_THREAD));
        let thread = Thread { comm, pid, tid, labels };
        if let Some(&known) = self.thread_numbers.get(&thread) {
            return known;
        }
        let number = self.threads.len() as u32;
        self.threads.push(thread.clone());
        self.thread_numbers.insert(thread, number);
        number
    }

    fn finish(self) -> ForeignProfile {
        let tables = &self.tables;
        let quantity =
            |&(kind, unit): &(u64, u64)| Quantity { name: tables.text(kind), unit: tables.text(unit) };
        let quantities: Vec<Quantity> = tables.quantities.iter().map(quantity).collect();
        let named = tables.quantities.iter().position(|&(kind, _)| {
            tables.default_quantity != 0 && tables.string(kind) == tables.string(tables.default_quantity)
        });
        let mut remarks = Vec::new();
        if self.incomplete > 0 {
            remarks.push(format!(
                "{} not as many values as there are sample types: those that are missing count as 0",
                export::summary::counted(self.incomplete, "sample has", "samples have")
            ));
        }
        if self.cut > 0 {
            remarks.push(format!(
                "{} outermost frames left out: more than {MAX_DEPTH} with the inlined ones{} are not read",
                export::summary::counted(self.cut, "stack has its", "stacks have their"),
                if self.room == 0 { ", or more than its bytes where others have many," } else { "" }
            ));
        }
        ForeignProfile {
            format: Format::Pprof,
            // As pprof chooses: the last one, if the profile names none.
            default_quantity: named.unwrap_or(quantities.len() - 1),
            quantities,
            started_unix_ns: Some(tables.started_unix_ns).filter(|&time| time > 0 && time < 1 << 63),
            duration_ns: Some(tables.duration_ns).filter(|&time| time > 0 && time < 1 << 63),
            spaces: self.spaces,
            stacks: self.stacks,
            resolutions: self.resolutions,
            unresolved: self.unresolved,
            threads: self.threads,
            tells_threads: self.tells_threads,
            samples: self.samples,
            values: self.values,
            remarks,
        }
    }
}

/// The entry of a location that the profile refers to and does not have.
fn unknown(spaces: &mut SpaceTable) -> StackEntry {
    let space = spaces.intern(Space::Foreign(Reason::NotInProfile));
    StackEntry { offset: 0, space, kind: AddressKind::InstructionPointer, in_kernel: false }
}

/// Returns the space of an address, and its offset there.
fn space_of(mapping: Option<&Mapping<'_>>, address: u64, in_kernel: bool) -> (Space, u64) {
    let file = mapping.map_or(&[] as &[u8], |mapping| mapping.file);
    // Go writes ids of its own, which are no build ids of ELF.
    let build_id =
        mapping.and_then(|mapping| std::str::from_utf8(mapping.build_id).ok()).and_then(BuildId::from_hex);
    if in_kernel {
        let is_image = file.is_empty() || file.starts_with(b"[kernel");
        let space = match mapping {
            Some(mapping) if !is_image => {
                Space::KernelModule { name: Name::new(file), build_id, start: mapping.start }
            }
            _ => Space::Kernel { build_id, text: None },
        };
        return (space, address);
    }
    match mapping {
        Some(mapping) if !file.is_empty() => {
            let offset = address.wrapping_sub(mapping.start).wrapping_add(mapping.file_offset);
            (Space::Object(ObjectIdentity { path: Name::new(file), build_id, file: None }), offset)
        }
        _ => (Space::Unmapped { pid: Pid::NONE, generation: 0 }, address),
    }
}
