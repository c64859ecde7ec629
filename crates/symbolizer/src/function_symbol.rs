//! The symbol of a function, as a table of 300,000 keeps it.

use crate::string_tables::{FunctionName, StringTable};

/// A function's symbol. It takes 24 bytes: the two libraries of rustc have 313,000 of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function {
    pub(crate) start: u64,
    /// One behind its last byte.
    pub(crate) end: u64,
    /// The offset of its name in the strings.
    pub(crate) name: u32,
    pub(crate) strings: StringTable,
    pub(crate) traits: Traits,
}

/// What a symbol says of its function, beside address and name: a set of bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Traits(pub(crate) u8);

impl Traits {
    /// The table states the size. Otherwise the end is where the next symbol starts, or the section ends, or where its code does if the
    /// tables leave functions out.
    pub(crate) const SIZED: Self = Self(1 << 5);
    pub(crate) const TYPED: Self = Self(1 << 4);
    pub(crate) const STRONG: Self = Self(1 << 3);
    pub(crate) const GLOBAL: Self = Self(1 << 2);
    /// `STT_GNU_IFUNC`: the function returns the address of the implementation to call.
    pub(crate) const RESOLVER: Self = Self(1 << 1);
    /// A stub that jumps to the function of this name.
    pub(crate) const PLT: Self = Self(1 << 0);

    /// Returns the union of the sets with `true` beside them.
    pub(crate) fn of<const N: usize>(sets: [(Self, bool); N]) -> Self {
        Self(sets.iter().filter(|(_, holds)| *holds).fold(0, |bits, (set, _)| bits | set.0))
    }

    pub(crate) fn has(self, set: Self) -> bool {
        self.0 & set.0 != 0
    }

    /// Returns a number that is greater for what perf prefers: first a size, then a type, a strong, a global symbol.
    pub(crate) fn rank(self) -> u8 {
        self.0 & (Self::SIZED.0 | Self::TYPED.0 | Self::STRONG.0 | Self::GLOBAL.0)
    }
}

impl Function {
    pub(crate) fn new(start: u64, end: u64, name: FunctionName, traits: Traits) -> Self {
        let FunctionName { strings, offset, is_plt } = name;
        Self {
            start,
            end,
            name: offset,
            strings,
            traits: Traits::of([(traits, true), (Traits::PLT, is_plt)]),
        }
    }

    /// Returns where its name is.
    pub(crate) fn name(&self) -> FunctionName {
        FunctionName { strings: self.strings, offset: self.name, is_plt: self.traits.has(Traits::PLT) }
    }

    /// Returns true if only its own object uses it, by a table that strip(1) would remove.
    pub(crate) fn is_local(&self) -> bool {
        !matches!(self.strings, StringTable::Dynamic | StringTable::Go)
            && !self.traits.has(Traits::GLOBAL)
            && self.traits.has(Traits::STRONG)
    }

    /// Returns true if the table states its size.
    pub(crate) fn is_sized(&self) -> bool {
        self.traits.has(Traits::SIZED)
    }
}
