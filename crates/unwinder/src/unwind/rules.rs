//! Finds the rule for a position: in the cache, or in the unwind tables and the code there.

use alloc::sync::Arc;
use core::ops::Range;

use elf::ReadAt;
use gimli::UnwindContext;
use model::{Avma, FileOffset, FrameAddress, Svma};

use crate::address_space::Mapping;
use crate::objects::Objects;
use crate::prologue::bytes_below_frame_pointer;
use crate::row::{CfaRule, Row};
use crate::rule::{CompactRule, Rule};
use crate::rule_cache::{CodeLocation, FoundRule, RuleCache};
use crate::tables::{Extent, Lookup, UnwindTables};

/// The rules for all code locations that were met, for all processes.
#[derive(Debug)]
pub(super) struct Rules {
    cache: RuleCache,
    context: UnwindContext<usize>,
}

impl Default for Rules {
    fn default() -> Self {
        Self { cache: RuleCache::default(), context: UnwindContext::new() }
    }
}

impl Rules {
    /// Returns the number of code locations and ranges whose rules are cached.
    pub(super) fn len(&self) -> usize {
        self.cache.len()
    }

    /// Replaces the rule for a location.
    pub(super) fn replace(&mut self, location: CodeLocation, rule: Rule) {
        self.cache.replace(location, rule);
    }

    /// Returns the rule for a position, from the cache or the tables.
    pub(super) fn find<O: Objects>(&mut self, objects: &mut O, position: Position<'_>) -> Rule {
        let Some(location) = position.location() else { return self.of_generated(objects, position) };
        self.at(objects, location)
    }

    fn at<O: Objects>(&mut self, objects: &mut O, location: CodeLocation) -> Rule {
        let context = &mut self.context;
        let find = || Some(rule_from_tables(&*objects.tables(location.object)?, location, context));
        self.cache.get_or_find(location, find).unwrap_or(Rule::Unreadable)
    }

    /// Returns how many bytes the stack pointer lies below the frame pointer at a location in a function that sets one up, if its
    /// instructions tell.
    pub(super) fn bytes_below_frame_pointer<O: Objects>(
        &mut self,
        objects: &mut O,
        location: CodeLocation,
    ) -> Option<u64> {
        let tables = objects.tables(location.object)?;
        let (architecture, address) = (tables.architecture(), tables.address_of(location.offset)?);
        let mut row_at = |address| match tables.lookup(Svma(address), &mut self.context) {
            Lookup::Row(row, extent) => Some((row, extent)),
            _ => None,
        };
        let (_, Extent { function, .. }) = row_at(address.0)?;
        let mut start = function.start;
        let by_frame_pointer = |row: &Row| matches!(row.cfa, CfaRule::RegisterOffset { register, .. } if register == architecture.frame_pointer());
        loop {
            let (row, extent) = row_at(start).filter(|_| start <= address.0)?;
            if by_frame_pointer(&row) {
                break;
            }
            start = extent.row.end.max(start + 1);
        }
        let start = location.offset.0.checked_sub(address.0 - start)?;
        let code = tables.code_in(start..resume_offset(location)?.0);
        bytes_below_frame_pointer(architecture, &tables.code_before(FileOffset(start)), &code)
    }

    /// Returns the rule for a position outside all objects. Malformed tables count as none, as the code may keep frame pointers.
    fn of_generated<O: Objects>(&mut self, objects: &mut O, position: Position<'_>) -> Rule {
        let is_code = position.mapping.is_some_and(|mapping| mapping.executable);
        let found = if is_code { objects.generated(position.lookup) } else { None };
        let Some((object, offset)) = found else { return Rule::FramePointer };
        let is_call = matches!(position.address, FrameAddress::ReturnAddress(_));
        match self.at(objects, CodeLocation { object, offset, is_call }) {
            Rule::Malformed => Rule::FramePointer,
            rule => rule,
        }
    }
}

/// The address of a frame, and its mapping.
#[derive(Clone, Copy)]
pub(super) struct Position<'s> {
    pub(super) address: FrameAddress<Avma>,
    /// The byte to look up.
    pub(super) lookup: Avma,
    pub(super) mapping: Option<&'s Mapping>,
}

impl Position<'_> {
    /// Returns the location in the mapped file; `None` in generated code.
    pub(super) fn location(self) -> Option<CodeLocation> {
        let mapping = self.mapping?;
        let (object, offset) = (mapping.object?, mapping.file_offset_of(self.lookup.0)?);
        Some(CodeLocation { object, offset, is_call: matches!(self.address, FrameAddress::ReturnAddress(_)) })
    }
}

/// Returns the position of a return address, given the mapping of the byte before it, if code can run there.
pub(super) fn return_address_in(mapping: Option<&Mapping>, address: Avma) -> Option<Position<'_>> {
    let mapping = mapping.filter(|mapping| mapping.executable)?;
    let lookup = Avma(address.0.checked_sub(1)?);
    Some(Position { address: FrameAddress::ReturnAddress(address), lookup, mapping: Some(mapping) })
}

/// Makes the rule for a location from the tables, in the form that is cached.
fn rule_from_tables<D: ReadAt>(
    tables: &UnwindTables<D>,
    location: CodeLocation,
    context: &mut UnwindContext<usize>,
) -> FoundRule {
    let address = tables.address_of(location.offset);
    let lookup = address.map_or(Lookup::NoFde, |address| tables.lookup(address, context));
    let holds_in = match (&lookup, address) {
        (Lookup::Row(row, extent), Some(address)) if !row.signal_frame && !is_go(tables, &lookup) => {
            ordinary_code(extent, address, location)
        }
        _ => None,
    };
    // Reading the code mostly costs a page fault.
    let may_be_trampoline = holds_in.is_none();
    FoundRule { rule: rule_from_lookup(tables, location, lookup, may_be_trampoline), holds_in }
}

/// Returns the bytes around a location for which a row holds whatever their instructions are. Returns `None` for a function that is short
/// enough to be a signal trampoline.
fn ordinary_code(extent: &Extent, address: Svma, location: CodeLocation) -> Option<Range<FileOffset>> {
    /// The maximum size of an FDE of a signal trampoline. C libraries begin it a byte early.
    const MAX_TRAMPOLINE_BYTES: u64 = 32;
    let last = extent.function.end.checked_sub(1)?;
    let end = extent.row.end.min(last);
    let is_long = last.checked_sub(extent.function.start)? > MAX_TRAMPOLINE_BYTES;
    if !is_long || !(extent.row.start..end).contains(&address.0) {
        return None;
    }
    let start = location.offset.0.checked_sub(address.0 - extent.row.start)?;
    Some(FileOffset(start)..location.offset.checked_add(end - address.0)?)
}

/// Returns true if Go's compiler or assembler made the code. In a program with C code (cgo), this has its tables in `.eh_frame`, where Go
/// writes none.
fn is_go<D: ReadAt>(tables: &UnwindTables<D>, lookup: &Lookup) -> bool {
    tables.is_go() && !matches!(lookup, Lookup::Row(_, Extent { in_eh_frame: true, .. }))
}

fn rule_from_lookup<D: ReadAt>(
    tables: &UnwindTables<D>,
    location: CodeLocation,
    lookup: Lookup,
    may_be_trampoline: bool,
) -> Rule {
    if let Lookup::Row(row, _) = &lookup
        && row.signal_frame
    {
        return Rule::Row(Arc::new(row.clone()));
    }
    if may_be_trampoline && is_signal_trampoline(tables, location) {
        return Rule::SignalTrampoline;
    }
    if may_be_trampoline && begins_made_stack(tables, location) {
        return Rule::Outermost;
    }
    let is_go = is_go(tables, &lookup);
    match lookup {
        Lookup::NoFde if is_outermost(tables, location) => Rule::Outermost,
        Lookup::NoFde | Lookup::Row(..) if begins_goroutine(tables, location) => Rule::Outermost,
        Lookup::NoFde => match epilogue(tables, location) {
            Some(rule) => Rule::Epilogue(rule),
            None if is_go => Rule::Go(None),
            None => Rule::FramePointer,
        },
        Lookup::Malformed => Rule::Malformed,
        Lookup::Row(row, _) => match CompactRule::from_row(tables.architecture(), &row) {
            _ if row.is_outermost() || (is_go && is_outermost(tables, location)) => Rule::Outermost,
            Some(_) if is_go && let Some(rule) = epilogue(tables, location) => Rule::Compact(rule),
            Some(rule) if is_go => Rule::Go(Some(rule.with_saved_frame_pointer())),
            Some(rule) => Rule::Compact(rule),
            None => Rule::Row(Arc::new(row)),
        },
    }
}

/// Returns true if a return address is in the first function of a thread though no table says so: it lies right behind the program's entry
/// point, or the code behind the call ends the thread.
fn is_outermost<D: ReadAt>(tables: &UnwindTables<D>, location: CodeLocation) -> bool {
    let Some(return_address) = location.offset.checked_add(1).filter(|_| location.is_call) else {
        return false;
    };
    tables.address_of(location.offset).and_then(|address| address.checked_add(1)).is_some_and(|address| {
        tables.returns_to_entry(address) || tables.architecture().exits(&tables.code_from(return_address))
    })
}

/// Returns true if a return address begins a stack that a program has made itself, for a coroutine or fiber: no call left it there, and
/// the code does not return either (glibc's `__start_context`, Boost's `make_fcontext`).
fn begins_made_stack<D: ReadAt>(tables: &UnwindTables<D>, location: CodeLocation) -> bool {
    let Some(return_address) = location.offset.checked_add(1).filter(|_| location.is_call) else {
        return false;
    };
    let architecture = tables.architecture();
    architecture.ends_without_return(&tables.code_from(return_address))
        && !architecture.ends_in_call(&tables.code_before(return_address))
}

/// Returns the rule of code that is about to return.
fn epilogue<D: ReadAt>(tables: &UnwindTables<D>, location: CodeLocation) -> Option<CompactRule> {
    CompactRule::from_epilogue(tables.architecture(), &tables.code_from(resume_offset(location)?))
}

/// Returns the offset at which a frame will resume.
pub(super) fn resume_offset(location: CodeLocation) -> Option<FileOffset> {
    if location.is_call { location.offset.checked_add(1) } else { Some(location.offset) }
}

/// Returns true if Go's runtime has put this return address above the first function of a goroutine. The tables of some versions of Go
/// do not mark it.
fn begins_goroutine<D: ReadAt>(tables: &UnwindTables<D>, location: CodeLocation) -> bool {
    let Some(return_address) = location.offset.checked_add(1).filter(|_| location.is_call && tables.is_go())
    else {
        return false;
    };
    let (before, from) = (&tables.code_before(return_address), &tables.code_from(return_address));
    tables.architecture().is_goexit(before, from)
}

fn is_signal_trampoline<D: ReadAt>(tables: &UnwindTables<D>, location: CodeLocation) -> bool {
    let architecture = tables.architecture();
    let (_, second) = architecture.signal_trampoline_length();
    let begins_at = |offset: Option<FileOffset>| {
        offset.is_some_and(|offset| architecture.is_signal_trampoline(&tables.code_from(offset)))
    };
    if location.is_call {
        begins_at(location.offset.checked_add(1))
    } else {
        begins_at(Some(location.offset)) || begins_at(location.offset.0.checked_sub(second).map(FileOffset))
    }
}
