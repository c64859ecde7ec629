//! Strings of V8 (`src/objects/string.h`): flat ones, and those that are made of others.

use crate::heap::{Heap, is_reference, small_integer};

/// The maximum number of strings that one is made of. Those of others lie in a circle, or are not read.
const MAX_PARTS: usize = 64;

/// Types of strings are below.
const FIRST_NON_STRING: u16 = 0x80;
const ENCODING_ONE_BYTE: u16 = 8;
/// An external string without a pointer to its characters.
const UNCACHED: u16 = 16;
/// The representations.
const REPRESENTATION: u16 = 7;
const SEQUENTIAL: u16 = 0;
const CONS: u16 = 1;
const EXTERNAL: u16 = 2;
const SLICED: u16 = 3;
const THIN: u16 = 5;

const LENGTH: u64 = 12;
/// The characters of a sequential string; the first part of a cons, the parent of a slice, the actual string of a thin one.
const CONTENT: u64 = 16;
/// The second part of a cons, the offset of a slice, the characters of an external string.
const SECOND: u64 = 24;

/// Returns true for the type of a string.
pub(crate) fn is_string(kind: u16) -> bool {
    kind < FIRST_NON_STRING
}

/// A string whose characters lie in one piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Flat {
    /// The address of its first character (Avma).
    pub(crate) data: u64,
    /// In characters.
    pub(crate) length: u32,
    /// 1 for Latin-1, 2 for UTF-16.
    pub(crate) width: u64,
}

/// Where a string's characters are.
enum Step {
    Flat(Flat),
    /// `skipped` characters behind the start of another string.
    Of(u64, u32),
    Parts(u64, u64),
}

fn step(heap: &mut Heap<'_, '_>, string: u64) -> Option<(Step, u32)> {
    let kind = heap.kind(string).filter(|kind| is_string(*kind))?;
    let length = heap.half(string, LENGTH).filter(|length| *length <= i32::MAX as u32)?;
    let width = if kind & ENCODING_ONE_BYTE != 0 { 1 } else { 2 };
    let flat = |data| Step::Flat(Flat { data, length, width });
    let step = match kind & REPRESENTATION {
        SEQUENTIAL => flat(heap.address_of(string, CONTENT)?),
        EXTERNAL if kind & UNCACHED == 0 => flat(heap.field(string, SECOND)?),
        CONS => Step::Parts(heap.field(string, CONTENT)?, heap.field(string, SECOND)?),
        SLICED => Step::Of(
            heap.field(string, CONTENT)?,
            u32::try_from(small_integer(heap.field(string, SECOND)?)?).ok()?,
        ),
        THIN => Step::Of(heap.field(string, CONTENT)?, 0),
        _ => return None,
    };
    Some((step, length))
}

/// Returns where the characters of a large string lie, if they are in one piece.
pub(crate) fn flat(heap: &mut Heap<'_, '_>, mut string: u64) -> Option<Flat> {
    let (mut skipped, mut length) = (0_u32, None);
    for _ in 0..MAX_PARTS {
        let (step, own_length) = step(heap, string)?;
        let length = *length.get_or_insert(own_length);
        match step {
            Step::Flat(found) => {
                let rest = found.length.checked_sub(skipped)?;
                let data = found.data.checked_add(u64::from(skipped) * found.width)?;
                return Some(Flat { data, length: length.min(rest), width: found.width });
            }
            Step::Of(other, more) => {
                skipped = skipped.checked_add(more)?;
                string = other;
            }
            // One that was flattened has all in its first part.
            Step::Parts(first, second) => {
                let (_, rest) = self::step(heap, second)?;
                if rest != 0 {
                    return None;
                }
                string = first;
            }
        }
    }
    None
}

/// Reads a name; `None` where there is no string.
pub(crate) fn read(heap: &mut Heap<'_, '_>, string: u64) -> Option<String> {
    let mut units: Vec<u16> = Vec::new();
    // The parts still to come, the next one last: string, characters to skip, characters to take.
    let mut parts = vec![(string, 0_u32, u32::MAX)];
    for _ in 0..MAX_PARTS {
        let Some((string, skipped, most)) = parts.pop() else { break };
        if units.len() >= memory::MAX_CHARACTERS as usize {
            break;
        }
        let (step, length) = step(heap, string)?;
        let taken = length.saturating_sub(skipped).min(most);
        match step {
            Step::Flat(found) => {
                let count = (taken as usize).min(memory::MAX_CHARACTERS as usize - units.len());
                let mut bytes = vec![0; count * found.width as usize];
                let data = found.data.checked_add(u64::from(skipped) * found.width)?;
                if !heap.reader.read(data, &mut bytes) {
                    return None;
                }
                match found.width {
                    1 => units.extend(bytes.into_iter().map(u16::from)),
                    _ => units.extend(bytes.as_chunks().0.iter().map(|pair| u16::from_le_bytes(*pair))),
                }
            }
            Step::Of(other, more) => parts.push((other, skipped.checked_add(more)?, taken)),
            Step::Parts(first, second) => {
                let (_, first_length) = self::step(heap, first)?;
                let of_first = taken.min(first_length.saturating_sub(skipped));
                if is_reference(second) && taken > of_first {
                    parts.push((second, skipped.saturating_sub(first_length), taken - of_first));
                }
                if of_first > 0 {
                    parts.push((first, skipped, of_first));
                }
            }
        }
    }
    if !parts.is_empty() && units.len() < memory::MAX_CHARACTERS as usize {
        return None;
    }
    Some(String::from_utf16_lossy(&units))
}
