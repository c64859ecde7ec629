//! Folded stacks: `comm;outermost;…;innermost COUNT`.

use std::collections::BTreeMap;

/// Counted stacks.
#[derive(Debug, Default)]
pub(crate) struct Folded {
    pub(crate) stacks: BTreeMap<Vec<String>, u64>,
}

impl Folded {
    pub(crate) fn parse(text: &str) -> Self {
        let mut folded = Self::default();
        for line in text.lines() {
            let (stack, count) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no count: {line:?}"));
            let count = count.parse().unwrap_or_else(|_| panic!("no count: {line:?}"));
            folded.add(stack.split(';').map(str::to_owned).collect(), count);
        }
        folded
    }

    pub(crate) fn add(&mut self, stack: Vec<String>, count: u64) {
        *self.stacks.entry(stack).or_default() += count;
    }

    pub(crate) fn total(&self) -> u64 {
        self.stacks.values().sum()
    }

    /// Samples whose stack satisfies the condition.
    pub(crate) fn count(&self, condition: impl Fn(&[String]) -> bool) -> u64 {
        self.stacks.iter().filter(|(stack, _)| condition(stack)).map(|(_, count)| count).sum()
    }

    /// Samples with a function of this name anywhere in the stack, inlined or not.
    pub(crate) fn with(&self, function: &str) -> u64 {
        self.count(|stack| stack.iter().any(|frame| plain(frame) == function))
    }

    /// The same stacks with every frame changed.
    pub(crate) fn map(&self, change: impl Fn(&str) -> String) -> Self {
        let mut mapped = Self::default();
        for (stack, count) in &self.stacks {
            mapped.add(stack.iter().map(|frame| change(frame)).collect(), *count);
        }
        mapped
    }

    /// The same stacks without the frames that satisfy the condition.
    pub(crate) fn without(&self, condition: impl Fn(&str) -> bool) -> Self {
        let mut rest = Self::default();
        for (stack, count) in &self.stacks {
            rest.add(stack.iter().filter(|frame| !condition(frame)).cloned().collect(), *count);
        }
        rest
    }

    /// The stacks that satisfy the condition.
    pub(crate) fn only(mut self, condition: impl Fn(&[String]) -> bool) -> Self {
        self.stacks.retain(|stack, _| condition(stack));
        self
    }

    /// Samples whose stacks are in both.
    pub(crate) fn in_common(&self, other: &Self) -> u64 {
        self.stacks.iter().map(|(stack, count)| *count.min(other.stacks.get(stack).unwrap_or(&0))).sum()
    }

    /// The stacks of which `self` has more than `other`, the most frequent ones first.
    pub(crate) fn excess(&self, other: &Self) -> Vec<(u64, String)> {
        let mut excess: Vec<(u64, String)> = self
            .stacks
            .iter()
            .map(|(stack, count)| {
                (count.saturating_sub(*other.stacks.get(stack).unwrap_or(&0)), stack.join(";"))
            })
            .filter(|(count, _)| *count > 0)
            .collect();
        excess.sort_by(|a, b| b.cmp(a));
        excess
    }
}

/// A frame without the mark of its kind.
pub(crate) fn plain(frame: &str) -> &str {
    ["_[k]", "_[i]", "_[j]"].iter().find_map(|mark| frame.strip_suffix(mark)).unwrap_or(frame)
}
