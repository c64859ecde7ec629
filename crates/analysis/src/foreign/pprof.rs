//! Parses pprof's `profile.proto` (<https://github.com/google/pprof/blob/main/proto/profile.proto>), unpacked.
//!
//! Strings, functions and locations may follow the samples that refer to them, so that the bytes are read several times. A field of the
//! profile is decoded at a time, as a profile that has it alone: decoded whole, a message of two bytes would take a hundred in memory.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use export::exchange::SampleLabel;
use export::exchange::pprof::{
    FunctionMessage, LabelMessage, LineMessage, LocationMessage, MappingMessage, ProfileMessage,
    SampleMessage, ValueTypeMessage,
};
use model::{
    AddressKind, BuildId, Frame, Name, ObjectIdentity, Pid, Reason, Resolution, SourceLocation, Space,
    SpaceId, SpaceTable, StackEntry, Tid,
};
use profile::StackTable;
use prost::Message;
use prost::encoding::{DecodeContext, decode_key, skip_field};
use symbolizer::{NameStyle, Resolutions, display_name};

use super::{ForeignError, ForeignProfile, Format, MAX_DEPTH, Quantity, Samples, Thread, resolved};

/// The most quantities of a profile: a runtime has a dozen at most.
const MAX_QUANTITIES: usize = 32;
/// The frames that all stacks may have together, and for each byte of the profile. The real profile with most of them has 4 a byte.
const MAX_FRAMES: u64 = 1 << 20;
const MAX_FRAMES_PER_BYTE: u64 = 8;
/// The frames that one counts for which no other stack shares: it takes 50 bytes in trees of frames, and 4 in lists.
const NEW_FRAME_COST: u64 = 8;
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

/// The fields of a profile, as `profile.proto` calls them, from number 1 on.
const FIELDS: [&str; 15] = [
    "sample_type",
    SAMPLE,
    "mapping",
    LOCATION,
    "function",
    "string_table",
    "drop_frames",
    "keep_frames",
    "time_nanos",
    "duration_nanos",
    "period_type",
    "period",
    "comment",
    "default_sample_type",
    "doc_url",
];
const SAMPLE: &str = "sample";
const LOCATION: &str = "location";

/// A field of a profile.
struct Field<'b> {
    /// Its name; `None` for one that the format does not have.
    name: Option<&'static str>,
    offset: usize,
    bytes: &'b [u8],
}

impl Field<'_> {
    /// Returns a profile that has this field alone.
    fn decode(&self) -> Result<ProfileMessage, ForeignError> {
        let damaged = ForeignError::Damaged { part: self.name.unwrap_or("field"), offset: self.offset };
        ProfileMessage::decode(self.bytes).map_err(|_| damaged)
    }
}

/// Returns the fields of a profile, up to the first that ends behind it, which is an error.
fn fields(bytes: &[u8]) -> impl Iterator<Item = Result<Field<'_>, ForeignError>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (start, offset) = (rest, bytes.len() - rest.len());
        let number = decode_key(&mut rest).and_then(|(number, wire_type)| {
            skip_field(wire_type, number, &mut rest, DecodeContext::default()).map(|()| number)
        });
        let Ok(number) = number else {
            rest = &[];
            return Some(Err(ForeignError::Damaged { part: "field", offset }));
        };
        let name = FIELDS.get((number as usize).wrapping_sub(1)).copied();
        Some(Ok(Field { name, offset, bytes: &start[..start.len() - rest.len()] }))
    })
}

/// Returns true if bytes may be the start of a profile: one of its fields. Text may look so, too.
pub(super) fn begins_like_one(bytes: &[u8]) -> bool {
    // Its sample types, or whatever else a writer begins with: a string, message or number.
    matches!(bytes, [key, _, ..] if (1..=FIELDS.len()).contains(&usize::from(key >> 3)) && matches!(key & 7, 0 | 2))
        && !bytes.iter().take(64).all(|&byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace())
}

/// Returns true if all fields are those of a profile, there is a sample type, and the first string is empty, as the format wants.
pub(super) fn is_pprof(bytes: &[u8]) -> bool {
    if !begins_like_one(bytes) {
        return false;
    }
    let (mut has_type, mut first_string) = (false, None);
    for field in fields(bytes) {
        // A profile that was cut: what is whole of it tells what it is.
        let Ok(field) = field else { return has_type };
        match field.name {
            None => return false,
            Some("sample_type") => has_type = true,
            Some("string_table") if first_string.is_none() => first_string = Some(field.bytes),
            Some(_) => {}
        }
    }
    // A key and the length 0.
    has_type && matches!(first_string, Some([_, 0]))
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
struct Tables {
    quantities: Vec<ValueTypeMessage>,
    strings: Vec<Vec<u8>>,
    mappings: HashMap<u64, MappingMessage>,
    /// The id of the first mapping: the main program's.
    program: Option<u64>,
    functions: HashMap<u64, Function>,
    /// Names by the positions of their strings, each stored once: thousands of functions may share a long one.
    names: HashMap<(i64, NameStyle), Arc<str>>,
    started_unix_ns: i64,
    duration_ns: i64,
    default_quantity: i64,
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
    let named =
        |name| fields(bytes).filter(move |field| field.as_ref().is_ok_and(|of| of.name == Some(name)));
    for field in named(LOCATION) {
        field?.decode()?.location.into_iter().for_each(|location| builder.push_location(&location));
    }
    let mut number = 0;
    for field in named(SAMPLE) {
        let field = field?;
        number += 1;
        for sample in field.decode()?.sample {
            if builder.push_sample(&sample, field.bytes.len()) {
                return Err(ForeignError::Negative { sample: number });
            }
        }
    }
    if number == 0 {
        return Err(ForeignError::Without("sample"));
    }
    Ok(builder.finish())
}

impl Tables {
    fn read(bytes: &[u8]) -> Result<Self, ForeignError> {
        let mut tables = Self::default();
        let mut functions: Vec<FunctionMessage> = Vec::new();
        let mut mappings: Vec<MappingMessage> = Vec::new();
        for field in fields(bytes) {
            let field = field?;
            if matches!(field.name, None | Some(SAMPLE | LOCATION)) {
                continue;
            }
            let part = field.decode()?;
            tables.quantities.extend(part.sample_type);
            tables.quantities.truncate(MAX_QUANTITIES);
            mappings.extend(part.mapping);
            functions.extend(part.function);
            tables.strings.extend(part.string_table);
            let set = |known: &mut i64, number| *known = if number == 0 { *known } else { number };
            set(&mut tables.started_unix_ns, part.time_nanos);
            set(&mut tables.duration_ns, part.duration_nanos);
            set(&mut tables.default_quantity, part.default_sample_type);
        }
        for mapping in mappings {
            tables.program.get_or_insert(mapping.id);
            tables.mappings.entry(mapping.id).or_insert(mapping);
        }
        for FunctionMessage { id, name, system_name, filename, start_line } in functions {
            let name = if tables.string(name).is_empty() { system_name } else { name };
            let function = Function {
                name: tables.name(name, NameStyle::Demangled),
                file: tables.name(filename, NameStyle::Linkage),
                start_line: u32::try_from(start_line).unwrap_or(0),
            };
            tables.functions.entry(id).or_insert(function);
        }
        Ok(tables)
    }

    /// Returns the string at a position; an empty one if there is none.
    fn string(&self, position: i64) -> &[u8] {
        let string = usize::try_from(position).ok().and_then(|position| self.strings.get(position));
        string.map_or(&[], Vec::as_slice)
    }

    fn name(&mut self, position: i64, style: NameStyle) -> Arc<str> {
        if let Some(known) = self.names.get(&(position, style)) {
            return Arc::clone(known);
        }
        let name: Arc<str> = display_name(self.string(position), style).into();
        self.names.insert((position, style), Arc::clone(&name));
        name
    }

    fn text(&self, position: i64) -> String {
        String::from_utf8_lossy(self.string(position)).into_owned()
    }

    /// Returns the base name of the main program; `None` if the profile has no mapping with a name.
    fn program_name(&self) -> Option<Name> {
        let path = self.string(self.mappings.get(&self.program?)?.filename);
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
        (!name.is_empty()).then(|| Name::new(name))
    }
}

/// Builds the profile from its locations and samples.
#[derive(Default)]
struct Builder {
    tables: Tables,
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

impl Builder {
    fn push_location(&mut self, location: &LocationMessage) {
        let LocationMessage { id, mapping_id, address, ref line } = *location;
        let mut frames: Vec<Frame> =
            line.iter().take(MAX_DEPTH).filter_map(|line| self.frame(line)).collect();
        if let Some((_, inlined)) = frames.split_last_mut() {
            inlined.iter_mut().for_each(|frame| frame.inlined = true);
        }
        let mapping = self.tables.mappings.get(&mapping_id).copied();
        let file = mapping.map_or(&[][..], |mapping| self.tables.string(mapping.filename));
        // All ones stand for an unknown address.
        let address = if address == u64::MAX { 0 } else { address };
        let in_kernel = address >= FIRST_KERNEL_ADDRESS || file.starts_with(b"[kernel");
        // Go writes ids of its own, which are no build ids of ELF.
        let build_id = mapping.map_or(&[][..], |mapping| self.tables.string(mapping.build_id));
        let build_id = std::str::from_utf8(build_id).ok().and_then(BuildId::from_hex);
        let (space, offset) = space_of(mapping.as_ref(), file, build_id, address, in_kernel);
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
            return;
        }
        self.entries.insert(id, (entry, frames.len().max(1)));
        if !frames.is_empty() {
            self.resolutions.insert(entry, resolved(frames));
        } else if has_address && may_have_names {
            self.unresolved.push(entry);
        } else {
            self.resolutions.insert(entry, Resolution::Unresolved(Reason::NotInProfile));
        }
    }

    /// Returns the frame of a line, if its function has a name.
    fn frame(&self, line: &LineMessage) -> Option<Frame> {
        let function = self.tables.functions.get(&line.function_id).filter(|known| !known.name.is_empty())?;
        let number = |value| u32::try_from(value).unwrap_or(0);
        let location = (!function.file.is_empty()).then(|| SourceLocation {
            file: Arc::clone(&function.file),
            line: number(line.line),
            column: number(line.column),
            discriminator: 0,
            start_line: function.start_line,
        });
        Some(Frame { function: Arc::clone(&function.name), location, inlined: false })
    }

    /// Adds a sample that has `size` bytes in the profile. Returns true if one of its values is negative.
    fn push_sample(&mut self, sample: &SampleMessage, size: usize) -> bool {
        let quantities = self.tables.quantities.len();
        let (mut frames, mut is_cut) = (0, false);
        let most = if self.room > 0 { MAX_DEPTH } else { MAX_DEPTH.min(size) };
        self.chain.clear();
        for id in &sample.location_id {
            let known = self.entries.get(id).copied();
            let (entry, more) = known.unwrap_or_else(|| (unknown(&mut self.spaces), 1));
            is_cut |= frames + more > most;
            if !is_cut {
                frames += more;
                self.chain.push(entry);
            }
        }
        let (mut comm, mut pid, mut tid, mut labels) = (None, None, None, Vec::new());
        for &LabelMessage { key: key_at, text: text_at, number, unit: unit_at } in &sample.label {
            let (key, text) = (self.tables.string(key_at), self.tables.string(text_at));
            let id = || {
                let typed = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
                if text.is_empty() { i32::try_from(number).ok() } else { typed }
            };
            if COMM_KEYS.contains(&key) && !text.is_empty() {
                comm = Some(Name::new(text.get(..MAX_COMM_BYTES).unwrap_or(text)));
            } else if PID_KEYS.contains(&key) {
                pid = id().map(Pid);
            } else if TID_KEYS.contains(&key) {
                tid = id().map(Tid);
            } else {
                let [key, text, unit] =
                    [key_at, text_at, unit_at].map(|position| self.tables.name(position, NameStyle::Linkage));
                labels.push(SampleLabel { key, text, number, unit });
            }
        }
        let found = sample.value.len();
        let values = sample.value.iter().copied().chain(std::iter::repeat(0)).take(quantities);
        let values: Vec<i64> = values.collect();
        if values.iter().any(|&value| value < 0) {
            return true;
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
        false
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
            |of: &ValueTypeMessage| Quantity { name: tables.text(of.kind), unit: tables.text(of.unit) };
        let quantities: Vec<Quantity> = tables.quantities.iter().map(quantity).collect();
        let named = tables.quantities.iter().position(|of| {
            tables.default_quantity != 0 && tables.string(of.kind) == tables.string(tables.default_quantity)
        });
        let positive = |time: i64| u64::try_from(time).ok().filter(|&time| time > 0);
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
            started_unix_ns: positive(tables.started_unix_ns),
            duration_ns: positive(tables.duration_ns),
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
fn space_of(
    mapping: Option<&MappingMessage>,
    file: &[u8],
    build_id: Option<BuildId>,
    address: u64,
    in_kernel: bool,
) -> (Space, u64) {
    if in_kernel {
        let is_image = file.is_empty() || file.starts_with(b"[kernel");
        let space = match mapping {
            Some(mapping) if !is_image => {
                Space::KernelModule { name: Name::new(file), build_id, start: mapping.memory_start }
            }
            _ => Space::Kernel { build_id, text: None },
        };
        return (space, address);
    }
    match mapping {
        Some(mapping) if !file.is_empty() => {
            let offset = address.wrapping_sub(mapping.memory_start).wrapping_add(mapping.file_offset);
            (Space::Object(ObjectIdentity { path: Name::new(file), build_id, file: None }), offset)
        }
        _ => (Space::Unmapped { pid: Pid::NONE, generation: 0 }, address),
    }
}
