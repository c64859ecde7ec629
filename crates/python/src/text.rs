//! Strings of Python (`PyUnicodeObject`).

use memory::Reader;

use crate::layout::Layout;

/// Reads a string of type `text_type` (Avma) at `address`. Returns `None` where there is none.
pub(crate) fn read(reader: &mut Reader<'_>, layout: &Layout, text_type: u64, address: u64) -> Option<String> {
    if reader.word(address.checked_add(layout.object_type)?)? != text_type {
        return None;
    }
    let length = reader.word(address.checked_add(layout.text.length)?)?.min(memory::MAX_CHARACTERS);
    let state = u32::from_le_bytes(reader.array(address.checked_add(layout.text.state)?)?);
    // `interned`, `kind`: 3 bits (bytes of a character), `compact`, `ascii`.
    let state = state.checked_shr(layout.text.kind_shift)?;
    let (kind, is_compact, is_ascii) = (state & 7, state >> 3 & 1 == 1, state >> 4 & 1 == 1);
    if !is_compact || ![1, 2, 4].contains(&kind) || (is_ascii && kind != 1) {
        return None;
    }
    let data = address.checked_add(if is_ascii { layout.text.ascii } else { layout.text.compact })?;
    let mut bytes = vec![0; length as usize * kind as usize];
    if !reader.read(data, &mut bytes) {
        return None;
    }
    let character = |bytes: &[u8]| {
        let number = bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte));
        char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER)
    };
    Some(bytes.chunks_exact(kind as usize).map(character).collect())
}
