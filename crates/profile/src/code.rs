//! The code of a function with the samples that were taken in it.

use std::sync::Arc;

use model::{Frame, Name, Svma};

/// An instruction of a function.
#[derive(Clone, PartialEq, Debug)]
pub struct Instruction {
    /// Its address as the object states it.
    pub address: Svma,
    /// Bytes of code.
    pub bytes: Vec<u8>,
    /// Mnemonic and operands; `(bad)` where the bytes are no instruction.
    pub text: String,
    /// The address in its object that it may jump to.
    pub target: Option<Svma>,
    /// The function that it calls or jumps to, where that is another one.
    pub callee: Option<Arc<str>>,
    /// Weight of the samples taken at it.
    pub weight: u64,
    /// The function and those inlined into it here, innermost first, with their lines; empty where nothing is known.
    pub frames: Arc<[Frame]>,
}

/// A piece of a function's code. What compilers put elsewhere (`.cold`) is another piece.
#[derive(Clone, PartialEq, Debug)]
pub struct CodeRange {
    /// The name of its symbol.
    pub name: Arc<str>,
    /// Its module.
    pub module: Name,
    /// Weight of its samples.
    pub weight: u64,
    /// Weight of samples that are at no instruction of it: the code has changed, or was cut.
    pub elsewhere: u64,
    /// Its instructions in the order of their addresses; empty where the code is not to be had.
    pub instructions: Vec<Instruction>,
    /// The reason why the code is not to be had, or not whole.
    pub missing: Option<String>,
    /// The function whose instructions are kept of it, where that one was inlined into this one.
    pub inlined: Option<Arc<str>>,
}

/// A loop that much of a function's time is spent in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HotLoop {
    /// Position of its first instruction in [`CodeRange::instructions`].
    pub first: usize,
    /// Position of its last instruction: the jump back.
    pub last: usize,
    /// Weight of the samples within it.
    pub weight: u64,
}

/// A loop is hot with this share of its function.
const HOT: f64 = 0.2;
/// A loop within another one says more if it has this share of it.
const TIGHTER: f64 = 0.8;

impl CodeRange {
    /// Keeps the instructions of a function that was inlined into this one; the weight is theirs from then on.
    pub fn retain_inlined(&mut self, function: &Arc<str>) {
        let is_of = |frame: &Frame| frame.inlined && frame.function == *function;
        self.instructions.retain(|instruction| instruction.frames.iter().any(is_of));
        self.weight =
            self.instructions.iter().map(|instruction| instruction.weight).fold(0, u64::saturating_add);
        self.elsewhere = 0;
        self.inlined = Some(Arc::clone(function));
    }

    /// Sets the weight of samples that are at no instruction, from all that the range and its instructions have.
    pub fn find_elsewhere(&mut self) {
        let placed =
            self.instructions.iter().map(|instruction| instruction.weight).fold(0, u64::saturating_add);
        self.elsewhere = self.weight.saturating_sub(placed);
    }

    /// Returns the position of the instruction at an address.
    pub fn position(&self, address: Svma) -> Option<usize> {
        self.instructions.binary_search_by_key(&address, |instruction| instruction.address).ok()
    }

    /// Returns the jumps within the range: positions of jump and target. Calls of the function itself are none.
    pub fn jumps(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.instructions.iter().enumerate().filter_map(|(index, instruction)| {
            let target = instruction.target.filter(|_| instruction.callee.is_none())?;
            Some((index, self.position(target)?))
        })
    }

    /// Finds the loops, that is, jumps back, in which much of the time is spent: the innermost ones that say so, hottest first.
    pub fn hot_loops(&self) -> Vec<HotLoop> {
        let mut sums = vec![0_u64];
        for instruction in &self.instructions {
            sums.push(sums.last().copied().unwrap_or(0).saturating_add(instruction.weight));
        }
        let back = self.jumps().filter(|(jump, target)| target <= jump);
        let mut loops: Vec<HotLoop> = back
            .map(|(last, first)| HotLoop { first, last, weight: sums[last + 1].saturating_sub(sums[first]) })
            .filter(|hot| hot.weight as f64 >= HOT * self.weight.max(1) as f64)
            .collect();
        // The shortest loop first: a loop around it is listed only if it adds something.
        loops.sort_unstable_by_key(|hot| (hot.last - hot.first, hot.first));
        let mut told: Vec<HotLoop> = Vec::new();
        for hot in loops {
            let says_less = |inner: &HotLoop| {
                hot.first <= inner.first
                    && inner.last <= hot.last
                    && inner.weight as f64 >= TIGHTER * hot.weight as f64
            };
            if !told.iter().any(says_less) {
                told.push(hot);
            }
        }
        told.sort_by_key(|hot| (core::cmp::Reverse(hot.weight), hot.first));
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(instructions: &[(u64, Option<u64>)]) -> CodeRange {
        let instructions = instructions.iter().zip(0..).map(|(&(weight, target), address)| Instruction {
            address: Svma(address),
            bytes: vec![0],
            text: "nop".to_owned(),
            target: target.map(Svma),
            callee: None,
            weight,
            frames: Arc::from([]),
        });
        let instructions: Vec<_> = instructions.collect();
        let weight = instructions.iter().map(|instruction| instruction.weight).sum();
        let (name, module) = (Arc::from("f"), Name::from("m"));
        CodeRange { name, module, weight, elsewhere: 0, instructions, missing: None, inlined: None }
    }

    #[test]
    fn what_is_inlined_is_told_from_what_it_is_in() {
        let mut range = range(&[(2, None), (40, None), (50, None)]);
        let frame =
            |function: &str, inlined| Frame { function: Arc::from(function), location: None, inlined };
        range.instructions[1].frames = Arc::from([frame("g", true), frame("f", false)]);
        range.retain_inlined(&Arc::from("g"));
        assert_eq!((range.weight, range.instructions.len()), (40, 1));
        range.retain_inlined(&Arc::from("f"));
        assert_eq!((range.weight, range.instructions.len()), (0, 0), "code of its own is not inlined");
    }

    #[test]
    fn hot_loops_are_the_innermost_that_have_the_time() {
        // 1..=3 within 0..=4; and a cold one at the end.
        let nested =
            range(&[(2, None), (40, None), (50, None), (5, Some(1)), (1, Some(0)), (1, None), (1, Some(5))]);
        assert_eq!(nested.hot_loops(), [HotLoop { first: 1, last: 3, weight: 95 }]);
        let outer = range(&[(50, None), (30, None), (0, Some(1)), (20, Some(0))]);
        let found = outer.hot_loops();
        assert_eq!(found.iter().map(|hot| (hot.first, hot.last)).collect::<Vec<_>>(), [(0, 3), (1, 2)]);
        assert_eq!(range(&[(9, Some(7)), (1, None)]).hot_loops(), [], "a jump to elsewhere");
    }
}
