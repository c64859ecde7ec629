//! The layers of a process's mappings: those that records announce, and above them the generated functions that a jitdump
//! announces. The upper layer changes with each compiled function, thousands of times as often. Functions that a recording names by
//! mappings lie at addresses of their own.

use model::{Avma, FUNCTION_CODE, SpaceId};

use crate::mapping::{Mapping, MappingKind};
use crate::mapping_tree::TreeId;
use crate::mappings::Mappings;

/// The layers.
#[derive(Default, Debug)]
pub(crate) struct ProcessMappings {
    /// Of records.
    pub(crate) recorded: Mappings,
    /// Generated functions. Mappings of other kinds mark where such functions gave way to them.
    generated: Mappings,
    /// At the addresses of [`FUNCTION_CODE`].
    functions: Mappings,
}

impl ProcessMappings {
    /// The mapping that covers `address`.
    pub(crate) fn get(&self, address: Avma) -> Option<Mapping> {
        if FUNCTION_CODE.contains(&address) {
            return self.functions.get(address);
        }
        self.generated_at(address).or_else(|| self.recorded.get(address))
    }

    /// The generated function at `address`.
    pub(crate) fn generated_at(&self, address: Avma) -> Option<Mapping> {
        self.generated.get(address).filter(|mapping| mapping.kind == MappingKind::Generated)
    }

    /// The space that `address` lies in, and its offset there.
    pub(crate) fn locate(&self, address: Avma) -> Option<(SpaceId, u64)> {
        match self.generated_at(address) {
            Some(mapping) => Some((mapping.space, mapping.offset_of(address))),
            None => self.recorded.locate(address),
        }
    }

    /// The function at `address`, which is of [`FUNCTION_CODE`].
    pub(crate) fn function_at(&self, address: Avma) -> Option<Mapping> {
        self.functions.get(address)
    }

    /// Adds a function at addresses of [`FUNCTION_CODE`].
    pub(crate) fn insert_function(&mut self, mapping: Mapping) {
        self.functions.insert(mapping);
    }

    /// Adds a generated function. What it overlaps of others gives way.
    pub(crate) fn insert_generated(&mut self, mapping: Mapping) {
        self.generated.insert(mapping);
    }

    /// Adds a mapping of a record. Generated functions stay where `keeps_generated`.
    pub(crate) fn insert(&mut self, mapping: Mapping, keeps_generated: bool) {
        if !keeps_generated && self.has_generated_in(&mapping) {
            self.generated.insert(mapping);
        }
        self.recorded.insert(mapping);
    }

    /// Returns true if a generated function lies in the range of `mapping`, or did once.
    pub(crate) fn has_generated_in(&self, mapping: &Mapping) -> bool {
        self.generated.first_from(mapping.start).is_some_and(|found| found.start <= mapping.last)
    }

    /// The mappings of a child of this process.
    pub(crate) fn fork(&mut self) -> Self {
        let (recorded, generated) = (self.recorded.fork(), self.generated.fork());
        Self { recorded, generated, functions: self.functions.fork() }
    }

    /// Calls `space` with the space of each mapping, also of those that are covered. Shared trees for which `is_new` is
    /// false are left out.
    pub(crate) fn each_space(
        &self,
        is_new: &mut impl FnMut(TreeId) -> bool,
        space: &mut impl FnMut(SpaceId),
    ) {
        self.recorded.each_space(&mut *is_new, &mut *space);
        self.generated.each_space(&mut *is_new, &mut *space);
        self.functions.each_space(is_new, space);
    }
}
