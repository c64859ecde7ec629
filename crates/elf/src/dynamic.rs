//! The dynamic linker's symbol table by way of `PT_DYNAMIC`: what is left of an object without section headers (gABI,
//! "Dynamic Section"). Nothing there tells how many symbols there are; the hash tables imply it.

use model::Svma;
use object::{Endian as _, Endianness};

use crate::headers::Headers;

const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_STRSZ: u64 = 10;
const DT_GNU_HASH: u64 = 0x6fff_fef5;

/// The maximum number of symbols. A hash table of a hostile file may be as large as the file.
const MAX_SYMBOLS: usize = 1 << 22;

/// The bytes of the symbols and of their names.
pub(crate) fn symbol_table<'a>(
    data: &'a [u8],
    headers: &Headers,
    entry_size: usize,
) -> Option<(&'a [u8], &'a [u8])> {
    let image = Image { data, headers };
    let symbols = image.place(image.tag(DT_SYMTAB)?)?;
    let strings = image.place(image.tag(DT_STRTAB)?)?;
    let names = usize::try_from(image.tag(DT_STRSZ)?).ok()?;
    let by_hash = || image.count_by_hash(image.place(image.tag(DT_HASH)?)?);
    let by_gnu_hash = || image.count_by_gnu_hash(image.place(image.tag(DT_GNU_HASH)?)?);
    // Linkers put the names right behind the symbols.
    let by_place = || Some(strings.checked_sub(symbols)? / entry_size);
    let count = by_hash().or_else(by_gnu_hash).or_else(by_place)?;
    let end = symbols.saturating_add(count.saturating_mul(entry_size)).min(data.len());
    let names_end = strings.saturating_add(names).min(data.len());
    Some((data.get(symbols..end)?, data.get(strings..names_end)?))
}

struct Image<'a, 'h> {
    data: &'a [u8],
    headers: &'h Headers,
}

impl Image<'_, '_> {
    fn endian(&self) -> Endianness {
        self.headers.endian
    }

    fn word(&self, at: usize) -> Option<usize> {
        let bytes = self.data.get(at..)?.first_chunk()?;
        usize::try_from(self.endian().read_u32(*bytes)).ok()
    }

    /// A number of the object's class.
    fn address(&self, at: usize) -> Option<u64> {
        let bytes = self.data.get(at..)?;
        if self.headers.is_64 {
            Some(self.endian().read_u64(*bytes.first_chunk()?))
        } else {
            Some(self.endian().read_u32(*bytes.first_chunk()?).into())
        }
    }

    fn width(&self) -> usize {
        if self.headers.is_64 { 8 } else { 4 }
    }

    /// The value of the first entry with this tag.
    fn tag(&self, wanted: u64) -> Option<u64> {
        let (offset, size) = self.headers.dynamic?;
        let start = usize::try_from(offset.0).ok()?;
        let end = start.saturating_add(usize::try_from(size).ok()?).min(self.data.len());
        (start..end)
            .step_by(2 * self.width())
            .map_while(|at| Some((self.address(at)?, self.address(at.checked_add(self.width())?)?)))
            .take(1 << 12)
            .take_while(|&(tag, _)| tag != 0)
            .find_map(|(tag, value)| (tag == wanted).then_some(value))
    }

    /// The offset in the file of an address.
    fn place(&self, address: u64) -> Option<usize> {
        let offset =
            self.headers.segments.iter().find_map(|segment| segment.file_offset_of(Svma(address)))?;
        usize::try_from(offset.0).ok()
    }

    /// `nbucket`, `nchain`, …: there is a chain entry for each symbol.
    fn count_by_hash(&self, table: usize) -> Option<usize> {
        self.word(table.checked_add(4)?)
    }

    /// The last symbol is the end of the chain of the bucket that starts last.
    fn count_by_gnu_hash(&self, table: usize) -> Option<usize> {
        let field = |index: usize| self.word(table.checked_add(index * 4)?);
        let (buckets, first, filter) = (field(0)?.min(MAX_SYMBOLS), field(1)?, field(2)?);
        let at = table.checked_add(16)?.checked_add(filter.checked_mul(self.width())?)?;
        let chains = at.checked_add(buckets.checked_mul(4)?)?;
        let list = self.data.get(at..chains)?.chunks_exact(4);
        let starts = list.filter_map(|bytes| Some(self.endian().read_u32(*bytes.first_chunk()?)));
        let mut last = usize::try_from(starts.max()?).ok()?;
        if last < first {
            return Some(first);
        }
        // The lowest bit ends a chain; the file's end does in any case.
        let limit = last.saturating_add(MAX_SYMBOLS);
        while last < limit && self.word(chains.checked_add((last - first).checked_mul(4)?)?)? & 1 == 0 {
            last += 1;
        }
        last.checked_add(1)
    }
}
