//! The namespaces, classes and functions that an entry lies in: GCC states no linkage name for functions that only their
//! own unit uses, so the scope in their names is that of the entries around them.

use gimli::{AttributeValue, UnitOffset, UnitRef};
use rustc_hash::FxHashMap;

use super::Reader;
use super::walk::read_sibling;
use crate::MAX_TABLE_ENTRIES;

/// The entry around another one, as far as it is a part of names in C++.
pub(crate) enum Scope {
    /// `DW_TAG_namespace`.
    Namespace(UnitOffset),
    /// `DW_TAG_class_type`, `DW_TAG_structure_type`, `DW_TAG_union_type`.
    Class(UnitOffset),
    /// `DW_TAG_subprogram`.
    Function(UnitOffset),
}

/// Finds the scopes of entries. Remembers the children of entries that were looked into, by unit and entry.
#[derive(Default)]
pub(crate) struct Scopes {
    children: FxHashMap<(bool, u32, usize), Vec<UnitOffset>>,
    /// The number of entries that were read.
    read: usize,
}

/// The greatest depth of entries that is searched; no program nests scopes deeper.
const MAX_DEPTH: usize = 64;

impl Scopes {
    /// Returns the scopes of the entry at `offset` in a unit (`key` names it), outermost first; `None` where it is not
    /// found.
    pub(crate) fn of(
        &mut self,
        key: (bool, u32),
        unit: UnitRef<'_, Reader<'_>>,
        offset: UnitOffset,
    ) -> Option<Vec<Scope>> {
        let mut scopes = Vec::new();
        let mut scope = unit.header.root_offset();
        for _ in 0..MAX_DEPTH {
            let children = match self.children.get(&(key.0, key.1, scope.0)) {
                Some(known) => known,
                None => {
                    let children = self.read_children(unit, scope).unwrap_or_default();
                    self.children.entry((key.0, key.1, scope.0)).or_insert(children)
                }
            };
            let before = children.partition_point(|&child| child <= offset).checked_sub(1)?;
            let child = *children.get(before)?;
            if child == offset {
                return Some(scopes);
            }
            scope = child;
            match unit.entry(scope).ok()?.tag() {
                gimli::DW_TAG_namespace => scopes.push(Scope::Namespace(scope)),
                gimli::DW_TAG_class_type | gimli::DW_TAG_structure_type | gimli::DW_TAG_union_type => {
                    scopes.push(Scope::Class(scope));
                }
                gimli::DW_TAG_subprogram => scopes.push(Scope::Function(scope)),
                _ => {}
            }
        }
        None
    }

    /// Returns the offsets of an entry's children.
    fn read_children(
        &mut self,
        unit: UnitRef<'_, Reader<'_>>,
        parent: UnitOffset,
    ) -> gimli::Result<Vec<UnitOffset>> {
        let mut children = Vec::new();
        let mut entries = unit.entries_raw(Some(parent))?;
        // Depths count from the entry that `entries` started at.
        let mut base = 0;
        while !entries.is_empty() && self.read < MAX_TABLE_ENTRIES {
            self.read += 1;
            let (offset, depth) = (entries.next_offset(), base + entries.next_depth());
            if depth <= 0 && offset != parent {
                break;
            }
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            if depth == 1 {
                children.push(offset);
            }
            let sibling = read_sibling(&mut entries, abbreviation)?;
            if depth >= 1
                && let Some(AttributeValue::UnitRef(behind)) = sibling
                && behind > entries.next_offset()
            {
                entries = unit.entries_raw(Some(behind))?;
                base = depth;
            }
        }
        Ok(children)
    }
}
