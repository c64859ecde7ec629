//! What unwinding reads of an object file.

use alloc::sync::Arc;
use alloc::vec::Vec;

use elf::{ElfError, Endianness, Object, ReadAt, SectionReader, Segment};
use model::Svma;

use super::Section;
use super::search_table::SearchTable;
use crate::Architecture;

/// The parts of an object file that unwinding reads, from whatever reads object files. `S` holds bytes: a `Vec<u8>`, or what copies
/// them when they are needed ([`ReadAt`]).
#[derive(Debug)]
#[non_exhaustive]
pub struct ObjectSections<S> {
    /// The architecture of the code.
    pub architecture: Architecture,
    /// The whole file: code is looked at where the tables do not say enough.
    pub file: S,
    /// The `PT_LOAD` program headers, which say what addresses the bytes of the file have.
    pub segments: Vec<Segment>,
    /// `.eh_frame`, unpacked.
    pub eh_frame: Option<Section<S>>,
    /// `.eh_frame_hdr`: the linker's table of the entries in `.eh_frame`. Without it all of `.eh_frame` is read to make one.
    pub eh_frame_hdr: Option<Section<S>>,
    /// `.debug_frame`, unpacked, of this file or of its separate debug file.
    pub debug_frame: Option<Section<S>>,
    /// The address of `.text`, which entries may be relative to.
    pub text: Option<Svma>,
    /// The address of `.got`, which entries may be relative to.
    pub got: Option<Svma>,
    /// `e_entry`, where the program starts; 0 where it has no such place.
    pub entry: Svma,
    /// True if the object has code of Go.
    pub is_go: bool,
    /// Errors of sections that exist and could not be read.
    pub refused: Vec<ElfError>,
}

impl<S> ObjectSections<S> {
    /// Describes an object without tables; what it has is set after.
    pub fn new(architecture: Architecture, file: S, segments: Vec<Segment>) -> Self {
        Self {
            architecture,
            file,
            segments,
            eh_frame: None,
            eh_frame_hdr: None,
            debug_frame: None,
            text: None,
            got: None,
            entry: Svma(0),
            is_go: false,
            refused: Vec::new(),
        }
    }

    /// Converts the holders of all bytes, to unwind with objects from different sources.
    pub fn map_bytes<T>(self, mut convert: impl FnMut(S) -> T) -> ObjectSections<T> {
        let file = convert(self.file);
        let mut section = |section: Option<Section<S>>| {
            section.map(|Section { address, bytes }| Section { address, bytes: convert(bytes) })
        };
        ObjectSections {
            architecture: self.architecture,
            file,
            segments: self.segments,
            eh_frame: section(self.eh_frame),
            eh_frame_hdr: section(self.eh_frame_hdr),
            debug_frame: section(self.debug_frame),
            text: self.text,
            got: self.got,
            entry: self.entry,
            is_go: self.is_go,
            refused: self.refused,
        }
    }
}

impl<D: ReadAt> ObjectSections<SectionReader<D>> {
    /// Finds the parts of an ELF file. `None` where its architecture is not one that can be unwound: 64-bit, little-endian,
    /// known to [`Architecture`].
    pub fn from_object(object: &Arc<Object<D>>) -> Option<Self> {
        let architecture = Architecture::of_machine(object.machine())?;
        if !object.is_64() || object.endian() != Endianness::Little {
            return None;
        }
        let address = |name| object.section(name).map(|section| section.address);
        let mut sections = Self {
            text: address(".text"),
            got: address(".got"),
            entry: object.entry(),
            is_go: object.has_go_code(),
            ..Self::new(architecture, SectionReader::from_file(object), object.segments().to_vec())
        };
        sections.eh_frame_hdr = sections.section(object, ".eh_frame_hdr").or_else(|| {
            let (address, start, size) = object.eh_frame_header()?;
            Some(Section { address, bytes: SectionReader::from_range(object, start, size)? })
        });
        sections.eh_frame = sections.section(object, ".eh_frame").or_else(|| {
            let table = SearchTable::parse(sections.eh_frame_hdr.as_ref()?)?;
            let address = Svma(table.eh_frame_address());
            let (start, size) = object.file_range_at(address)?;
            Some(Section { address, bytes: SectionReader::from_range(object, start, size)? })
        });
        sections.debug_frame = sections.section(object, ".debug_frame");
        Some(sections)
    }

    /// Adds the `.debug_frame` of the object's separate debug file, where the object has none itself.
    pub fn add_debug_file(&mut self, debug_file: &Arc<Object<D>>) {
        if self.debug_frame.is_none() {
            self.debug_frame = self.section(debug_file, ".debug_frame");
        }
    }

    fn section(&mut self, object: &Arc<Object<D>>, name: &str) -> Option<Section<SectionReader<D>>> {
        let address = object.contents_section(name)?.address;
        let bytes =
            SectionReader::from_section(object, name).map_err(|error| self.refused.push(error)).ok()??;
        Some(Section { address, bytes })
    }
}
