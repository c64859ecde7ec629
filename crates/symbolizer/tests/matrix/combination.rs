//! The dimensions of the matrix, and small sets of combinations that cover every pair.

use std::fmt;

macro_rules! dimension {
    ($(#[$doc:meta])* $name:ident { $($value:ident => $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum $name { $($value),* }

        impl $name {
            pub(crate) const ALL: &[Self] = &[$(Self::$value),*];

            pub(crate) fn text(self) -> &'static str {
                match self { $(Self::$value => $text),* }
            }
        }
    };
}

dimension! {
    Compiler { Gcc => "gcc", Clang => "clang", Rustc => "rustc" }
}
dimension! {
    Dwarf { Four => "dwarf4", Five => "dwarf5" }
}
dimension! {
    Kind { Pie => "pie", NoPie => "no-pie", Static => "static", StaticPie => "static-pie", Shared => "shared" }
}
dimension! {
    Linker { Bfd => "bfd", Gold => "gold", Lld => "lld", Mold => "mold" }
}
dimension! {
    /// Where the debug information ends up.
    Form {
        Plain => "plain", DebugLink => "debuglink", BuildIdDir => "build-id-dir", Dwz => "dwz",
        MiniDebug => "minidebug", Dwo => "dwo", Dwp => "dwp", Zlib => "zlib", Zstd => "zstd",
    }
}

/// One program of the matrix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Combination {
    pub compiler: Compiler,
    pub dwarf: Dwarf,
    pub kind: Kind,
    pub linker: Linker,
    pub form: Form,
}

impl Combination {
    /// Every combination, in a fixed order.
    pub(crate) fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for &compiler in Compiler::ALL {
            for &dwarf in Dwarf::ALL {
                for &kind in Kind::ALL {
                    for &linker in Linker::ALL {
                        for &form in Form::ALL {
                            all.push(Self { compiler, dwarf, kind, linker, form });
                        }
                    }
                }
            }
        }
        all
    }

    /// Combinations in which every two values of different dimensions meet at least once, and each form meets each
    /// compiler with each version of DWARF: greedily, the one that brings most that is new first.
    pub(crate) fn pairwise() -> Vec<Self> {
        let all = Self::all();
        let mut missing: Vec<[usize; 4]> = all.iter().flat_map(Self::meetings).collect();
        missing.sort_unstable();
        missing.dedup();
        let mut chosen = Vec::new();
        while !missing.is_empty() {
            let new_pairs = |combination: &&Self| {
                combination.meetings().iter().filter(|pair| missing.binary_search(pair).is_ok()).count()
            };
            let Some(best) = all.iter().rev().max_by_key(new_pairs) else { break };
            let covered = best.meetings();
            missing.retain(|pair| !covered.contains(pair));
            chosen.push(*best);
        }
        chosen
    }

    fn meetings(&self) -> Vec<[usize; 4]> {
        let values = [
            self.compiler as usize,
            self.dwarf as usize,
            self.kind as usize,
            self.linker as usize,
            self.form as usize,
        ];
        let mut pairs = Vec::new();
        for (first, &one) in values.iter().enumerate() {
            for (second, &other) in values.iter().enumerate().skip(first + 1) {
                pairs.push([first, one, second, other]);
            }
        }
        // A number beyond the dimensions' marks the triple.
        pairs.push([values.len(), self.compiler as usize, self.dwarf as usize, self.form as usize]);
        pairs
    }
}

impl fmt::Display for Combination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { compiler, dwarf, kind, linker, form } = self;
        write!(f, "{}-{}-{}-{}-{}", compiler.text(), dwarf.text(), kind.text(), linker.text(), form.text())
    }
}
