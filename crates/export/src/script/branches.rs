//! Branch stacks as text, the newest branch first: ` 0xfrom/0xto/P/-/-/4/COND `.

use decoder::values::{Branch, BranchFlags};

use super::address::{LocatedAddress, display};
use super::gapped_text::{GappedText, SymbolGap};

/// The format of the two ends of a branch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ends {
    /// Addresses.
    Addresses,
    /// Functions with offsets.
    Symbols,
    /// Offsets in the objects.
    Offsets,
}

/// Appends one branch. `locate` maps an address.
pub(super) fn branch(
    text: &mut GappedText,
    branch: &Branch,
    ends: Ends,
    with_objects: bool,
    locate: &mut dyn FnMut(u64) -> LocatedAddress,
) {
    if ends != Ends::Symbols {
        text.bytes.push(b' ');
    }
    for (separator, address) in [(false, branch.from), (true, branch.to)] {
        if separator {
            text.bytes.push(b'/');
        }
        let located = locate(address);
        match ends {
            Ends::Addresses => hexadecimal(text, address),
            Ends::Offsets => hexadecimal(text, located.entry.offset),
            Ends::Symbols => text.push_gap(SymbolGap::Symbol(located, true)),
        }
        if with_objects {
            text.bytes.push(b'(');
            text.push_gap(SymbolGap::Object(located));
            text.bytes.push(b')');
        }
    }
    flags(&mut text.bytes, branch.flags);
}

fn hexadecimal(text: &mut GappedText, value: u64) {
    display(&mut text.bytes, format_args!("{value:#x}"));
}

fn flags(out: &mut Vec<u8>, flags: BranchFlags) {
    let prediction = match (flags.predicted(), flags.mispredicted()) {
        (true, _) => b'P',
        (false, true) => b'M',
        (false, false) => b'-',
    };
    let transaction = if flags.in_transaction() { b'X' } else { b'-' };
    let abort = if flags.abort() { b'A' } else { b'-' };
    out.extend_from_slice(&[b'/', prediction, b'/', transaction, b'/', abort, b'/']);
    display(out, format_args!("{}/{} ", flags.cycles(), kind(flags)));
}

/// Returns the name in `tools/perf/util/branch.c` of a branch type: `PERF_BR_*`, or with `PERF_BR_EXTEND_ABI`
/// `PERF_BR_NEW_*`.
fn kind(flags: BranchFlags) -> &'static str {
    const KINDS: [&str; 15] = [
        "",
        "COND",
        "UNCOND",
        "IND",
        "CALL",
        "IND_CALL",
        "RET",
        "SYSCALL",
        "SYSRET",
        "COND_CALL",
        "COND_RET",
        "ERET",
        "IRQ",
        "SERROR",
        "NO_TX",
    ];
    const NEW_KINDS: [&str; 8] =
        ["FAULT_ALGN", "FAULT_DATA", "FAULT_INST", "ARCH_1", "ARCH_2", "ARCH_3", "ARCH_4", "ARCH_5"];
    match flags.kind() {
        15 => NEW_KINDS.get(usize::from(flags.new_kind())).copied().unwrap_or_default(),
        kind => KINDS.get(usize::from(kind)).copied().unwrap_or_default(),
    }
}
