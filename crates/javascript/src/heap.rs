//! Objects of V8 in the memory of a process: a word with tag 1 is one's address, and its first word leads to its map, which has the number
//! of its type.

use memory::Reader;

use crate::layout::{ARRAY_DATA, ARRAY_LENGTH, Layout};

/// The end of the addresses that programs have, on all processors: those with five levels of page tables included.
const USER_END: u64 = 1 << 56;
/// No program maps memory below (`vm.mmap_min_addr`).
const USER_START: u64 = 1 << 16;

/// Returns true for a word that can be a reference to an object.
pub(crate) fn is_reference(word: u64) -> bool {
    word & 3 == 1 && (USER_START..USER_END).contains(&word)
}

/// Returns the value of a word that is a small integer.
pub(crate) fn small_integer(word: u64) -> Option<i32> {
    (word & 0xffff_ffff == 0).then_some((word >> 32) as i32)
}

/// A reader of objects in the heap of V8.
pub(crate) struct Heap<'h, 'r> {
    pub(crate) reader: &'h mut Reader<'r>,
    pub(crate) layout: &'h Layout,
}

impl Heap<'_, '_> {
    fn address(object: u64, offset: u64) -> Option<u64> {
        if is_reference(object) { (object - 1).checked_add(offset) } else { None }
    }

    /// Returns the word of a field.
    pub(crate) fn field(&mut self, object: u64, offset: u64) -> Option<u64> {
        self.reader.word(Self::address(object, offset)?)
    }

    /// Returns a field of 4 bytes.
    pub(crate) fn half(&mut self, object: u64, offset: u64) -> Option<u32> {
        self.reader.array(Self::address(object, offset)?).map(u32::from_le_bytes)
    }

    /// Returns the address of a field.
    pub(crate) fn address_of(&self, object: u64, offset: u64) -> Option<u64> {
        Self::address(object, offset)
    }

    /// Returns a field that is an object of this type.
    pub(crate) fn field_of(&mut self, object: u64, offset: u64, kind: u16) -> Option<u64> {
        let field = self.field(object, offset)?;
        self.is(field, kind).then_some(field)
    }

    /// Returns the number of the type of an object; `None` where there is none: its map is no map then.
    pub(crate) fn kind(&mut self, object: u64) -> Option<u16> {
        let map = self.field(object, 0)?;
        let kind = self.type_by_map(map)?;
        let own = self.field(map, 0)?;
        (self.type_by_map(own)? == self.layout.types.map).then_some(kind)
    }

    fn type_by_map(&mut self, map: u64) -> Option<u16> {
        self.reader.array(Self::address(map, self.layout.map_instance_type)?).map(u16::from_le_bytes)
    }

    /// Returns true for an object of this type by its map alone; `None` where that cannot be read, as of a process that is about to end.
    pub(crate) fn is_still(&mut self, object: u64, kind: u16) -> Option<bool> {
        let map = self.field(object, 0)?;
        Some(self.type_by_map(map)? == kind)
    }

    /// Returns true for an object of this type.
    pub(crate) fn is(&mut self, object: u64, kind: u16) -> bool {
        self.kind(object) == Some(kind)
    }

    /// Returns the number of elements of an array, or bytes of a byte array.
    pub(crate) fn length(&mut self, array: u64) -> Option<u32> {
        u32::try_from(small_integer(self.field(array, ARRAY_LENGTH)?)?).ok()
    }

    /// Returns an element of an array; `None` behind its end.
    pub(crate) fn element(&mut self, array: u64, index: u64) -> Option<u64> {
        if index >= self.length(array)?.into() {
            return None;
        }
        self.field(array, ARRAY_DATA.checked_add(index.checked_mul(8)?)?)
    }

    /// Returns the bytes of a byte array, at most so many of them.
    pub(crate) fn bytes(&mut self, array: u64, most: usize) -> Option<Vec<u8>> {
        let length = usize::try_from(self.length(array)?).ok()?.min(most);
        let mut bytes = vec![0; length];
        let start = Self::address(array, ARRAY_DATA)?;
        self.reader.read(start, &mut bytes).then_some(bytes)
    }
}
