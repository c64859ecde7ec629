//! Makes the rule for a location from the unwind tables and the code there.

use alloc::sync::Arc;
use core::ops::Range;

use elf::ReadAt;
use gimli::UnwindContext;
use model::{FileOffset, Svma};

use crate::rule::{CompactRule, Rule};
use crate::rule_cache::{CodeLocation, FoundRule};
use crate::tables::{Extent, Lookup, UnwindTables};

/// Makes the rule for a location from the tables, in the form that is cached.
pub(super) fn rule_from_tables<D: ReadAt>(
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
