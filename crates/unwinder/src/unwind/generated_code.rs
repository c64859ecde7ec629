//! Code that a runtime generates, where somebody describes it.

use model::FrameAddress;

use super::{Objects, Position, Unwinder};
use crate::rule::Rule;
use crate::rule_cache::CodeLocation;

impl Unwinder {
    /// The rule for a position in no object. Tables that make no sense count as none: a runtime's code can be walked without.
    pub(super) fn rule_of_generated<O: Objects>(&mut self, objects: &mut O, position: Position<'_>) -> Rule {
        let is_code = position.mapping.is_some_and(|mapping| mapping.executable);
        let found = if is_code { objects.generated(position.lookup) } else { None };
        let Some((object, offset)) = found else { return Rule::FramePointer };
        let is_call = matches!(position.address, FrameAddress::ReturnAddress(_));
        match self.rule_at(objects, CodeLocation { object, offset, is_call }) {
            Rule::Malformed => Rule::FramePointer,
            rule => rule,
        }
    }
}
