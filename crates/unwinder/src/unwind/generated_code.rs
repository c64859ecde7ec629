//! Rules of generated code that a runtime describes.

use model::FrameAddress;

use super::{Objects, Position, Unwinder};
use crate::rule::Rule;
use crate::rule_cache::CodeLocation;

impl Unwinder {
    /// Returns the rule for a position outside all objects. Malformed tables count as none, as the code may keep frame pointers.
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
