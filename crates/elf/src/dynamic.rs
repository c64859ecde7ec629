//! The dynamic linker's symbol table by way of `PT_DYNAMIC`: what is left of an object without section headers (gABI,
//! "Dynamic Section"). Nothing there tells how many symbols there are; the hash tables imply it.

use model::Svma;
use object::Endianness;
use object::elf::{
    DT_GNU_HASH, DT_HASH, DT_NULL, DT_STRSZ, DT_STRTAB, DT_SYMTAB, DynamicTag, FileHeader32, FileHeader64,
};
use object::read::elf::{Dyn as _, FileHeader, GnuHashTable, HashTable};

use crate::headers::Headers;
use crate::table::{MAX_ENTRIES, Table, entries};

/// Finds the bytes of the symbols and of their names.
pub(crate) fn symbol_table<'a>(data: &'a [u8], headers: &Headers) -> Option<Table<'a>> {
    if headers.is_64 {
        of_class::<FileHeader64<Endianness>>(data, headers)
    } else {
        of_class::<FileHeader32<Endianness>>(data, headers)
    }
}

fn of_class<'a, Elf: FileHeader<Endian = Endianness>>(
    data: &'a [u8],
    headers: &Headers,
) -> Option<Table<'a>> {
    let endian = headers.endian;
    // As far as the file goes.
    let bytes = |start: usize, size: usize| data.get(start..start.saturating_add(size).min(data.len()));
    let (start, size) = headers.dynamic?;
    let dynamic = bytes(usize::try_from(start.0).ok()?, usize::try_from(size).ok()?)?;
    let dynamic = entries::<Elf::Dyn>(dynamic).iter().take(MAX_ENTRIES);
    let value = |wanted: DynamicTag| {
        let mut before_end = dynamic.clone().take_while(|entry| entry.tag(endian) != DT_NULL);
        before_end.find(|entry| entry.tag(endian) == wanted).map(|entry| entry.val(endian))
    };
    let offset = |tag| {
        let address = Svma(value(tag)?);
        let offset = headers.segments.iter().find_map(|segment| segment.file_offset_of(address))?;
        usize::try_from(offset.0).ok()
    };
    let (symbols, strings) = (offset(DT_SYMTAB)?, offset(DT_STRTAB)?);
    let by_hash = || {
        let table = HashTable::<Elf>::parse(endian, data.get(offset(DT_HASH)?..)?).ok()?;
        Some(table.symbol_table_length() as usize)
    };
    let by_gnu_hash = || {
        let table = GnuHashTable::<Elf>::parse(endian, data.get(offset(DT_GNU_HASH)?..)?).ok()?;
        // A table without symbols has those before its first one.
        Some(table.symbol_table_length(endian).unwrap_or(table.symbol_base()) as usize)
    };
    // Linkers put the names right behind the symbols.
    let by_place = || Some(strings.checked_sub(symbols)? / size_of::<Elf::Sym>());
    let count = by_hash().or_else(by_gnu_hash).or_else(by_place)?;
    Some(Table {
        entries: bytes(symbols, count.saturating_mul(size_of::<Elf::Sym>()))?,
        strings: bytes(strings, usize::try_from(value(DT_STRSZ)?).ok()?)?,
    })
}
