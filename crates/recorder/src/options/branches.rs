//! Parses perf's names of the branches to record with each sample (`perf-record(1)`, `-j`).

use decoder::BranchSampleFormat;

/// Name and bit; the first two names of a bit mean the same.
const NAMES: [(&str, BranchSampleFormat); 23] = [
    ("any", BranchSampleFormat::ANY),
    ("any_call", BranchSampleFormat::ANY_CALL),
    ("any_ret", BranchSampleFormat::ANY_RETURN),
    ("ind_call", BranchSampleFormat::IND_CALL),
    ("ind_jmp", BranchSampleFormat::IND_JUMP),
    ("call", BranchSampleFormat::CALL),
    ("cond", BranchSampleFormat::COND),
    ("in_tx", BranchSampleFormat::IN_TX),
    ("abort_tx", BranchSampleFormat::ABORT_TX),
    ("no_tx", BranchSampleFormat::NO_TX),
    ("stack", BranchSampleFormat::CALL_STACK),
    ("call_stack", BranchSampleFormat::CALL_STACK),
    ("u", BranchSampleFormat::USER),
    ("k", BranchSampleFormat::KERNEL),
    ("hv", BranchSampleFormat::HV),
    ("no_flags", BranchSampleFormat::NO_FLAGS),
    ("no_cycles", BranchSampleFormat::NO_CYCLES),
    ("type", BranchSampleFormat::TYPE_SAVE),
    ("save_type", BranchSampleFormat::TYPE_SAVE),
    ("hw_index", BranchSampleFormat::HW_INDEX),
    ("priv", BranchSampleFormat::PRIV_SAVE),
    ("counter", BranchSampleFormat::COUNTERS),
    ("counters", BranchSampleFormat::COUNTERS),
];

/// Bits that do not choose branches, but sides, or what is told of each.
const NO_CHOICE: BranchSampleFormat = BranchSampleFormat::USER
    .union(BranchSampleFormat::KERNEL)
    .union(BranchSampleFormat::HV)
    .union(BranchSampleFormat::NO_FLAGS)
    .union(BranchSampleFormat::NO_CYCLES)
    .union(BranchSampleFormat::TYPE_SAVE)
    .union(BranchSampleFormat::HW_INDEX)
    .union(BranchSampleFormat::PRIV_SAVE)
    .union(BranchSampleFormat::COUNTERS);

/// Reads a list such as `any_call,u`; where it chooses no branches, it means any.
///
/// # Errors
/// A sentence that names the word and those that there are.
pub fn parse_branches(list: &str) -> Result<BranchSampleFormat, String> {
    let mut chosen = BranchSampleFormat::empty();
    for word in list.split(',') {
        let known = NAMES.iter().find(|(name, _)| *name == word.trim());
        chosen |= known.map(|(_, bit)| *bit).ok_or_else(|| {
            let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
            format!("{word:?} is none of {}", names.join(", "))
        })?;
    }
    if NO_CHOICE.contains(chosen) {
        chosen |= BranchSampleFormat::ANY;
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::clock_event;
    use crate::options::{CallChain, Options, Target};
    use decoder::{Endian, SampleFormat};

    #[test]
    fn names_are_perfs() {
        assert_eq!(parse_branches("any").unwrap().bits(), 0x8);
        assert_eq!(parse_branches("any_call,u").unwrap().bits(), 0x11);
        assert_eq!(parse_branches("ind_call, any_ret,k,hv").unwrap().bits(), 0x66);
        assert_eq!(parse_branches("u,save_type").unwrap().bits(), 0x1_0009, "any, where none is chosen");
        assert!(
            parse_branches("any,nonsense").unwrap_err().contains("\"nonsense\" is none of any, any_call")
        );
        assert!(parse_branches("").is_err());
    }

    /// The words of `struct perf_event_attr` that `perf record -j any_call,u` sets, too.
    #[test]
    fn the_attr_asks_for_branches() {
        let mut options = Options::new(Target::System);
        options.call_chain = CallChain::None;
        options.extras.branches = parse_branches("any_call,u").unwrap();
        let attr = crate::attr::sampler(&clock_event(), &options, 0, 4096);
        let bytes = attr.to_bytes(Endian::Little);
        assert_eq!(bytes[72..80], 0x11_u64.to_le_bytes());
        assert!(attr.sample_format.contains(SampleFormat::BRANCH_STACK));
        assert_eq!(bytes[25] & 0x08, 0x08, "PERF_SAMPLE_BRANCH_STACK is bit 11");
    }
}
