//! `--call-graph`: how call chains are recorded.

use recorder::CallChain;

/// The value of `--call-graph`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallGraph {
    /// Complete stacks from stack copies whose size is adapted.
    Auto,
    /// Complete stacks from stack copies of this size, in bytes.
    Dwarf(u32),
    /// The kernel's walk over frame pointers.
    Fp,
    /// The last branch records of the processor.
    Lbr,
    /// No call chains: only the sampled addresses.
    No,
}

/// Parses the value of `--call-graph`.
///
/// # Errors
/// The values that are allowed.
pub fn parse(text: &str) -> Result<CallGraph, String> {
    match text.split_once(',') {
        Some(("dwarf", size)) => match size.parse::<u32>() {
            // The kernel takes multiples of 8 below 65,536.
            Ok(size) if (8..=65_528).contains(&size) && size % 8 == 0 => Ok(CallGraph::Dwarf(size)),
            _ => Err("the size of a stack copy is a multiple of 8 from 8 to 65528".to_owned()),
        },
        None if text == "auto" => Ok(CallGraph::Auto),
        None if text == "dwarf" => Ok(CallGraph::Dwarf(recorder::DEFAULT_STACK_COPY)),
        None if text == "fp" => Ok(CallGraph::Fp),
        None if text == "lbr" => Ok(CallGraph::Lbr),
        None if text == "no" => Ok(CallGraph::No),
        _ => Err("one of auto, dwarf[,SIZE], fp, lbr, no".to_owned()),
    }
}

impl CallGraph {
    /// Returns the call chains to record; `None` if `keep` (`--keep-stacks`) is given without stack copies.
    pub fn chain(self, keep: bool) -> Option<CallChain> {
        Some(match self {
            Self::Auto => CallChain::Stacks { size: None, keep },
            Self::Dwarf(size) => CallChain::Stacks { size: Some(size), keep },
            _ if keep => return None,
            Self::Fp => CallChain::FramePointers,
            Self::Lbr => CallChain::LastBranches,
            Self::No => CallChain::None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_what_the_kernel_takes() {
        assert_eq!(parse("dwarf,8192"), Ok(CallGraph::Dwarf(8192)));
        assert_eq!(parse("auto"), Ok(CallGraph::Auto));
        assert_eq!(CallGraph::Auto.chain(false), Some(CallChain::default()));
        for bad in ["dwarf,65536", "dwarf,12", "dwarf,", "lbr,1", "fp,8192", "auto,1", ""] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert_eq!(CallGraph::Fp.chain(true), None);
    }
}
