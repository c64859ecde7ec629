//! The name and the place of a function, of its `ScopeInfo` (`src/objects/scope-info.tq`).

use crate::heap::{Heap, small_integer};
use crate::text;

/// What a function's `ScopeInfo` says of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Declaration {
    /// The function's name, or the one that V8 infers; empty for those that have none.
    pub(crate) name: String,
    /// The place of its source in the script, in characters.
    pub(crate) start: Option<u32>,
    pub(crate) end: Option<u32>,
}

const FLAGS: u64 = 8;
const LOCAL_COUNT: u64 = 24;
const FIRST_OPTIONAL: u64 = 32;

/// More names than these are in a table of their own.
const MAX_INLINE_NAMES: u64 = 75;

/// `ScopeFlags`: fields of the flags.
const TYPE_MASK: u32 = 15;
const HAS_SAVED_CLASS_VARIABLE: u32 = 1 << 10;
const FUNCTION_VARIABLE: u32 = 3 << 12;
const HAS_INFERRED_NAME: u32 = 1 << 14;

/// `MODULE_SCOPE` of the enumeration `ScopeType`, as it was until Node.js 22 and is since.
const MODULE: u32 = 3;
const MODULE_SINCE_24: u32 = 5;

/// Reads a `ScopeInfo`.
pub(crate) fn read(heap: &mut Heap<'_, '_>, scope: u64) -> Option<Declaration> {
    let flags = heap.field(scope, FLAGS)?;
    // Since Node.js 24 the flags are no small integer, and the place comes first.
    let (flags, is_new) = match small_integer(flags) {
        Some(flags) => (flags as u32, false),
        None => (flags as u32, true),
    };
    let mut at = FIRST_OPTIONAL;
    let mut next = |heap: &mut Heap<'_, '_>, words: u64| {
        let word = heap.field(scope, at);
        at = at.saturating_add(8 * words);
        word
    };
    let offset = |word: Option<u64>| u32::try_from(small_integer(word?)?).ok();
    let mut place = (None, None);
    if is_new {
        place = (offset(next(heap, 1)), offset(next(heap, 1)));
    }
    let is_module = flags & TYPE_MASK == if is_new { MODULE_SINCE_24 } else { MODULE };
    let locals = u64::try_from(small_integer(heap.field(scope, LOCAL_COUNT)?)?).ok()?;
    // Until Node.js 18, the number of a module's variables stood behind all others.
    let has_module_count = is_module && {
        let word = next(heap, 0)?;
        small_integer(word).is_some()
    };
    let names = if locals < MAX_INLINE_NAMES { locals } else { 1 };
    let before = u64::from(has_module_count)
        .saturating_add(names)
        .saturating_add(locals)
        .saturating_add(u64::from(flags & HAS_SAVED_CLASS_VARIABLE != 0));
    next(heap, before);
    let has_name = flags & FUNCTION_VARIABLE != 0;
    let name = if has_name { next(heap, 2) } else { None };
    let inferred = if flags & HAS_INFERRED_NAME != 0 { next(heap, 1) } else { None };
    if !is_new {
        place = (offset(next(heap, 1)), offset(next(heap, 1)));
    }
    let mut name_of =
        |word: Option<u64>| word.and_then(|word| text::read(heap, word)).filter(|name| !name.is_empty());
    let name = name_of(name).or_else(|| name_of(inferred)).unwrap_or_default();
    Some(Declaration { name, start: place.0, end: place.1 })
}
