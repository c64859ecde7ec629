//! Archived names: the resolutions of all sampled addresses, stored in the recording by the machine that has the files.
//!
//! The format is a sequence of numbers (LEB128) and strings: the version; the strings, each with its length; the spaces; for
//! each space its addresses with their frames, which refer to strings by index. Names are linkage names, so that the reader
//! chooses their style.

mod code;
mod held;
mod writer;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use hashbrown::DefaultHashBuilder;
use model::{
    AddressKind, BuildId, FileIdentity, Frame, KernelText, Name, Pid, Reason, Resolution, SourceLocation,
    Space, StackEntry, Svma, Symbolized, TextSymbol,
};

use crate::names::{NameStyle, display_name};
use writer::{StringTableBuilder, write_frames, write_number, write_space};

pub use code::{ArchivedCode, encode_code, parse_code};
pub use held::{HeldBytes, TooMuch};

/// The version that is written. Versions 1, which has no functions without a name, and 2, which has no start lines, are still read.
const VERSION: u64 = 3;

/// The resolutions of addresses, by their spaces.
#[derive(Default)]
pub struct ArchivedNames {
    // Hashed with a random key, because the profiled program chooses the spaces.
    spaces: HashMap<Space, SpaceNames, DefaultHashBuilder>,
}

/// The resolutions of a space, by offset and kind of address.
type SpaceNames = HashMap<(u64, u8), Resolution, DefaultHashBuilder>;

/// The error that ends the reading of an archive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ArchiveError {
    /// The offset in the unpacked archive, in bytes.
    pub offset: usize,
    /// The field at that offset.
    pub field: &'static str,
    /// The fault of the field.
    pub wrong: &'static str,
}

impl fmt::Display for ArchiveError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} at offset {:#x} is {}", self.field, self.offset, self.wrong)
    }
}

impl std::error::Error for ArchiveError {}

/// A space of an archive, with the number of its addresses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArchivedSpace<'a> {
    /// The space.
    pub space: &'a Space,
    /// The number of addresses with a function, which nearly always has a name.
    pub addresses: usize,
}

impl ArchivedNames {
    /// Returns the named resolution of an entry in `space`; `None` if the archive has no name for it.
    pub fn resolve(&self, space: &Space, entry: &StackEntry) -> Option<Resolution> {
        self.find(space, entry).filter(|found| found.reason().is_none()).cloned()
    }

    /// Replaces unresolved resolutions by archived ones that delimit a function without a name.
    pub fn complete(&self, space: &Space, entries: &[StackEntry], resolutions: &mut [Resolution]) {
        for (entry, resolution) in entries.iter().zip(resolutions) {
            if let Resolution::Unresolved(_) = resolution
                && let Some(found) = self.find(space, entry)
            {
                *resolution = found.clone();
            }
        }
    }

    fn find(&self, space: &Space, entry: &StackEntry) -> Option<&Resolution> {
        self.spaces.get(space)?.get(&(entry.offset, kind(entry)))
    }

    /// Returns true if the archive has an address of `space`.
    pub fn names_space(&self, space: &Space) -> bool {
        self.spaces.contains_key(space)
    }

    /// Returns true if the archive has no address.
    pub fn is_empty(&self) -> bool {
        self.spaces.is_empty()
    }

    /// Lists the spaces, those with most addresses first.
    pub fn contents(&self) -> Vec<ArchivedSpace<'_>> {
        let spaces = self.spaces.iter();
        let mut contents: Vec<_> =
            spaces.map(|(space, names)| ArchivedSpace { space, addresses: names.len() }).collect();
        contents
            .sort_by_key(|archived| (std::cmp::Reverse(archived.addresses), format!("{:?}", archived.space)));
        contents
    }

    /// Returns the names of all functions and of all source files, sorted and unique.
    pub fn names(&self) -> (Vec<Arc<str>>, Vec<Arc<str>>) {
        let frames = || {
            let found = self.spaces.values().flat_map(HashMap::values);
            found.flat_map(|found| match found {
                Resolution::Resolved(found) => &found.frames[..],
                _ => &[],
            })
        };
        let mut functions: Vec<Arc<str>> = frames().map(|frame| Arc::clone(&frame.function)).collect();
        let located = frames().filter_map(|frame| frame.location.as_ref());
        let mut files: Vec<Arc<str>> = located.map(|location| Arc::clone(&location.file)).collect();
        for names in [&mut functions, &mut files] {
            names.sort_unstable();
            names.dedup();
        }
        (functions, files)
    }

    /// Parses the output of [`encode`]. Returns the names before the first error, and that error. That they would take more memory
    /// than `held` is such an error.
    pub fn parse(bytes: &[u8], style: NameStyle, held: HeldBytes) -> (Self, Option<ArchiveError>) {
        let mut names = Self::default();
        let error = Reader::new(bytes, held).read(style, &mut names).err();
        (names, error)
    }
}

/// Returns the number of an entry's kind of address, which is part of the key: the lookup address of a return address
/// differs from that of an instruction pointer.
fn kind(entry: &StackEntry) -> u8 {
    u8::from(entry.kind == AddressKind::ReturnAddress) | u8::from(entry.in_kernel) << 1
}

/// Encodes resolutions in their order. Entries of one space should follow each other, ascending. Skips unresolved ones.
pub fn encode<'a>(entries: impl IntoIterator<Item = (&'a Space, &'a StackEntry, &'a Resolution)>) -> Vec<u8> {
    let mut strings = StringTableBuilder::default();
    let mut spaces: Vec<(&Space, Vec<u8>, u64)> = Vec::new();
    let mut last = 0;
    for (space, entry, found) in entries {
        if let Resolution::Unresolved(_) = found {
            continue;
        }
        if spaces.last().is_none_or(|(open, ..)| *open != space) {
            spaces.push((space, Vec::new(), 0));
            last = 0;
        }
        let Some((_, out, count)) = spaces.last_mut() else { continue };
        *count += 1;
        write_number(out, entry.offset.wrapping_sub(last));
        last = entry.offset;
        out.push(kind(entry));
        let found = match found {
            Resolution::Resolved(found) => found,
            Resolution::Delimited { reason, start, offset } => {
                write_number(out, offset.saturating_add(1));
                write_number(out, 0);
                write_number(out, start.0);
                out.push(reason_number(reason));
                continue;
            }
            Resolution::Unresolved(_) => continue,
        };
        write_number(out, found.symbol_offset.map_or(0, |offset| offset.saturating_add(1)));
        write_frames(out, &found.frames, &mut strings);
    }
    let mut bytes = strings.header();
    write_number(&mut bytes, spaces.len() as u64);
    for (space, entries, count) in spaces {
        write_space(&mut bytes, space);
        write_number(&mut bytes, count);
        bytes.extend(entries);
    }
    bytes
}

/// Returns the number of a reason why a function of a readable object has no name.
fn reason_number(reason: &Reason) -> u8 {
    match reason {
        Reason::NoSymbols => 0,
        Reason::Stripped => 1,
        _ => 2,
    }
}

fn reason_of(number: u8) -> Reason {
    match number {
        0 => Reason::NoSymbols,
        1 => Reason::Stripped,
        _ => Reason::NoSymbolCovers,
    }
}

/// Reads an archive. Every method checks bounds.
struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
    /// What is not taken yet of the memory for the result.
    held: HeldBytes,
    version: u64,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8], held: HeldBytes) -> Self {
        Self { bytes, position: 0, held, version: VERSION }
    }

    fn error<T>(&self, field: &'static str, wrong: &'static str) -> Result<T, ArchiveError> {
        Err(ArchiveError { offset: self.position, field, wrong })
    }

    /// Takes memory for the result, as `take` says.
    fn hold(
        &mut self,
        field: &'static str,
        take: impl FnOnce(&mut HeldBytes) -> Result<(), TooMuch>,
    ) -> Result<(), ArchiveError> {
        take(&mut self.held)
            .or_else(|TooMuch| self.error(field, "more than is read of a section of its size"))
    }

    fn byte(&mut self, field: &'static str) -> Result<u8, ArchiveError> {
        match self.bytes.get(self.position) {
            Some(&byte) => {
                self.position += 1;
                Ok(byte)
            }
            None => self.error(field, "cut off"),
        }
    }

    fn number(&mut self, field: &'static str) -> Result<u64, ArchiveError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte(field)?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        self.error(field, "longer than a number")
    }

    fn small(&mut self, field: &'static str) -> Result<u32, ArchiveError> {
        let number = self.number(field)?;
        u32::try_from(number).or_else(|_| self.error(field, "too large"))
    }

    /// Reads the number of items that follow. Each takes at least a byte, which bounds the number.
    fn count(&mut self, field: &'static str) -> Result<usize, ArchiveError> {
        let count = self.number(field)?;
        let left = self.bytes.len() - self.position;
        match usize::try_from(count) {
            Ok(count) if count <= left => Ok(count),
            _ => self.error(field, "more than there are bytes"),
        }
    }

    fn text(&mut self, field: &'static str) -> Result<&'a [u8], ArchiveError> {
        let length = self.count(field)?;
        let end = self.position + length;
        let text = self.bytes.get(self.position..end).unwrap_or_default();
        self.position = end;
        Ok(text)
    }

    fn build_id(&mut self) -> Result<Option<BuildId>, ArchiveError> {
        let bytes = self.text("a build id")?;
        match BuildId::from_bytes(bytes) {
            None if !bytes.is_empty() => self.error("a build id", "of no length that there is"),
            build_id => Ok(build_id),
        }
    }

    fn pid(&mut self) -> Result<Pid, ArchiveError> {
        Ok(Pid(self.small("a process")?.cast_signed()))
    }

    fn space(&mut self) -> Result<Option<Space>, ArchiveError> {
        let name = |reader: &mut Self| {
            let name = reader.text("a name")?;
            reader.hold("a name", |held| held.take(name.len()))?;
            Ok(Name::new(name))
        };
        Ok(Some(match self.byte("a kind of space")? {
            0 => return Ok(None),
            1 => {
                let (path, build_id) = (name(self)?, self.build_id()?);
                let file = match self.byte("a file's identity")? {
                    0 => None,
                    _ => Some(FileIdentity {
                        major: self.small("a device")?,
                        minor: self.small("a device")?,
                        inode: self.number("an inode")?,
                        generation: self.number("an inode's generation")?,
                    }),
                };
                Space::Object(model::ObjectIdentity { path, build_id, file })
            }
            2 => Space::Vdso { build_id: self.build_id()? },
            kind @ (3 | 9) => {
                let build_id = self.build_id()?;
                let symbol = if kind == 3 { TextSymbol::Text } else { TextSymbol::Stext };
                let address = self.number("the start of the kernel's text")?.checked_sub(1);
                Space::Kernel { build_id, text: address.map(|address| KernelText { symbol, address }) }
            }
            4 => Space::KernelModule {
                name: name(self)?,
                build_id: self.build_id()?,
                start: self.number("the start of a module")?,
            },
            5 => Space::KernelSymbol { name: name(self)? },
            6 => {
                Space::Jit { pid: self.pid()?, generation: self.small("a generation")?, mapping: name(self)? }
            }
            7 => Space::JitDump {
                pid: self.pid()?,
                generation: self.small("a generation")?,
                path: name(self)?,
            },
            8 => Space::Unmapped { pid: self.pid()?, generation: self.small("a generation")? },
            10 => Space::Python { file: name(self)?, function: name(self)? },
            11 => Space::JavaScript { name: name(self)? },
            12 => Space::TaskLabel { name: name(self)? },
            _ => return self.error("a kind of space", "not known: a newer prof wrote it"),
        }))
    }

    fn read(&mut self, style: NameStyle, names: &mut ArchivedNames) -> Result<(), ArchiveError> {
        self.version = self.number("the version")?;
        if !(1..=VERSION).contains(&self.version) {
            return self.error("the version", "not known: a newer prof wrote it");
        }
        let mut texts = self.strings(style)?;
        for _ in 0..self.count("the number of spaces")? {
            let space = self.space()?;
            let count = self.count("the number of addresses")?;
            let mut offset = 0_u64;
            for _ in 0..count {
                offset = offset.wrapping_add(self.number("an address")?);
                let kind = self.byte("a kind of address")?;
                let found = self.resolution(&mut texts)?;
                if let Some(space) = &space {
                    self.hold("an address", HeldBytes::take_entry::<((u64, u8), Resolution)>)?;
                    let of_space = match names.spaces.get_mut(space) {
                        Some(known) => known,
                        None => {
                            // The smallest table has four places.
                            let smallest = 4 * size_of::<((u64, u8), Resolution)>();
                            self.hold("a space", HeldBytes::take_entry::<(Space, SpaceNames)>)?;
                            self.hold("a space", |held| held.take(smallest))?;
                            names.spaces.entry(space.clone()).or_default()
                        }
                    };
                    of_space.insert((offset, kind), found);
                }
            }
        }
        Ok(())
    }

    fn strings(&mut self, style: NameStyle) -> Result<StringCache<'a>, ArchiveError> {
        let count = self.count("the number of strings")?;
        let of_string = size_of::<&[u8]>() + 2 * size_of::<Option<Arc<str>>>();
        self.hold("the number of strings", |held| held.take(count.saturating_mul(of_string)))?;
        let mut strings: Vec<&'a [u8]> = Vec::with_capacity(count);
        for _ in 0..count {
            strings.push(self.text("a string")?);
        }
        let (functions, files) = (vec![None; strings.len()], vec![None; strings.len()]);
        Ok(StringCache { strings, functions, files, style })
    }

    fn resolution(&mut self, texts: &mut StringCache<'_>) -> Result<Resolution, ArchiveError> {
        let symbol_offset = self.number("an offset")?.checked_sub(1);
        let count = self.count("the number of frames")?;
        if count == 0 {
            let start = Svma(self.number("the start of a function")?);
            let reason = reason_of(self.byte("a reason")?);
            return Ok(Resolution::Delimited { reason, start, offset: symbol_offset.unwrap_or(0) });
        }
        Ok(Resolution::Resolved(Symbolized { frames: self.frames(count, texts)?, symbol_offset }))
    }

    /// Reads the frames of an address, innermost first.
    fn frames(&mut self, count: usize, texts: &mut StringCache<'_>) -> Result<Arc<[Frame]>, ArchiveError> {
        self.hold("the number of frames", |held| held.take(count.saturating_mul(size_of::<Frame>())))?;
        let mut frames = Vec::new();
        for _ in 0..count {
            let function = self.number("a function")?;
            let function = self.function("a function", function, texts)?;
            let inlined = self.number("a frame's kind")? != 0;
            let location = match self.number("a file")?.checked_sub(1) {
                None => None,
                Some(file) => {
                    let file = self.interned("a file", |held| texts.file(file, held))?;
                    Some(SourceLocation {
                        file,
                        line: self.small("a line")?,
                        column: self.small("a column")?,
                        discriminator: 0,
                        start_line: if self.version < 3 { 0 } else { self.small("a start line")? },
                    })
                }
            };
            frames.push(Frame { function, location, inlined });
        }
        Ok(frames.into())
    }
}

impl Reader<'_> {
    fn function(
        &mut self,
        field: &'static str,
        number: u64,
        texts: &mut StringCache<'_>,
    ) -> Result<Arc<str>, ArchiveError> {
        self.interned(field, |held| texts.function(number, held))
    }

    fn interned(
        &mut self,
        field: &'static str,
        find: impl FnOnce(&mut HeldBytes) -> Result<Option<Arc<str>>, TooMuch>,
    ) -> Result<Arc<str>, ArchiveError> {
        let mut found = None;
        self.hold(field, |held| find(held).map(|text| found = text))?;
        found.map_or_else(|| self.error(field, "no string"), Ok)
    }
}

/// The strings of an archive, with the names made of them on their first use.
struct StringCache<'a> {
    strings: Vec<&'a [u8]>,
    functions: Vec<Option<Arc<str>>>,
    files: Vec<Option<Arc<str>>>,
    style: NameStyle,
}

impl StringCache<'_> {
    /// Returns the name of a function; `None` if there is no string with this number.
    fn function(&mut self, number: u64, held: &mut HeldBytes) -> Result<Option<Arc<str>>, TooMuch> {
        let style = self.style;
        Self::named(&self.strings, &mut self.functions, number, held, |text| display_name(text, style).into())
    }

    /// Returns the path of a source file, as [`StringCache::function`].
    fn file(&mut self, number: u64, held: &mut HeldBytes) -> Result<Option<Arc<str>>, TooMuch> {
        let path = |text: &[u8]| Name::cut(&String::from_utf8_lossy(text)).into();
        Self::named(&self.strings, &mut self.files, number, held, path)
    }

    fn named(
        strings: &[&[u8]],
        known: &mut [Option<Arc<str>>],
        number: u64,
        held: &mut HeldBytes,
        make: impl FnOnce(&[u8]) -> Arc<str>,
    ) -> Result<Option<Arc<str>>, TooMuch> {
        let index = usize::try_from(number).unwrap_or(usize::MAX);
        let (Some(text), Some(known)) = (strings.get(index), known.get_mut(index)) else { return Ok(None) };
        if known.is_none() {
            let name = make(text);
            held.take(name.len())?;
            *known = Some(name);
        }
        Ok(known.clone())
    }
}

#[cfg(test)]
mod tests;
