//! The symbol of a function, as a table of 300,000 keeps it.

use bitflags::bitflags;

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

bitflags! {
    /// Properties of a function in its symbol, beside address and name. Those that perf prefers are the highest, the first of them highest.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) struct Traits: u8 {
        /// The table states the size. Otherwise the end is where the next symbol starts, or the section ends, or where its code does if the
        /// tables leave functions out.
        const SIZED = 1 << 5;
        /// Its type is that of a function.
        const TYPED = 1 << 4;
        /// It is not weak.
        const STRONG = 1 << 3;
        /// Other objects may use it.
        const GLOBAL = 1 << 2;
        /// `STT_GNU_IFUNC`: the function returns the address of the implementation to call.
        const RESOLVER = 1 << 1;
        /// A stub that jumps to the function of this name.
        const PLT = 1 << 0;
    }
}

impl Traits {
    /// Returns a number that is greater for what perf prefers: first a size, then a type, a strong, a global symbol.
    pub(crate) fn rank(self) -> u8 {
        (self & (Self::SIZED | Self::TYPED | Self::STRONG | Self::GLOBAL)).bits()
    }

    /// Returns the set if `holds`, and otherwise none of it.
    pub(crate) fn when(self, holds: bool) -> Self {
        if holds { self } else { Self::empty() }
    }
}

impl Function {
    pub(crate) fn new(start: u64, end: u64, name: FunctionName, traits: Traits) -> Self {
        let FunctionName { strings, offset, is_plt } = name;
        Self { start, end, name: offset, strings, traits: traits | Traits::PLT.when(is_plt) }
    }

    /// Returns where its name is.
    pub(crate) fn name(&self) -> FunctionName {
        FunctionName { strings: self.strings, offset: self.name, is_plt: self.traits.contains(Traits::PLT) }
    }

    /// Returns true if only its own object uses it, by a table that strip(1) would remove.
    pub(crate) fn is_local(&self) -> bool {
        !matches!(self.strings, StringTable::Dynamic | StringTable::Go)
            && !self.traits.contains(Traits::GLOBAL)
            && self.traits.contains(Traits::STRONG)
    }

    /// Returns true if the table states its size.
    pub(crate) fn is_sized(&self) -> bool {
        self.traits.contains(Traits::SIZED)
    }
}
