//! Functions of scripts (`SharedFunctionInfo`): all closures of one have the same.

use std::sync::Arc;

use crate::heap::Heap;
use crate::lines::{Place, ScriptKey, Scripts};
use crate::scope::{self, Declaration};
use crate::text;

/// A function of a JavaScript program, run by the code of one compiler.
#[derive(PartialEq, Eq, Hash, Debug)]
pub struct JavaScriptFunction {
    /// V8's own name in perf maps: `JS:*handle /srv/app.js:4:16`.
    pub name: String,
    /// The first line of the function; 0 where it is not known.
    pub first_line: u32,
    /// The last line of the function; at least the first.
    pub last_line: u32,
}

/// The compiler of a function's code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tier {
    /// The interpreter Ignition.
    Interpreted,
    /// Sparkplug, which does not optimize.
    Baseline,
    /// Maglev, which optimizes a little.
    Mid,
    /// TurboFan, which optimizes.
    Optimized,
}

impl Tier {
    const COUNT: usize = 4;

    /// The sign that V8 writes before a name.
    fn sign(self) -> char {
        match self {
            Self::Interpreted => '~',
            Self::Baseline => '^',
            Self::Mid => '+',
            Self::Optimized => '*',
        }
    }
}

/// A reference to a `SharedFunctionInfo`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SharedFunction {
    pub(crate) object: u64,
    /// True if it was found in memory as it is now. What was found earlier may have been moved since, and another one lie in its place.
    pub(crate) is_new: bool,
}

/// The facts about a function that were read from its objects.
#[derive(Debug)]
pub(crate) struct Facts {
    identity: Identity,
    script: Option<ScriptKey>,
    declaration: Declaration,
    file: String,
    start: Option<Place>,
    last_line: u32,
    /// False if the source could not be read up to the function's end: its pages are not in memory, or there was no time.
    has_lines: bool,
    by_tier: [Option<Arc<JavaScriptFunction>>; Tier::COUNT],
}

/// The fields that tell a function from another one which lies at its address later.
#[derive(PartialEq, Eq, Debug)]
struct Identity {
    name: u64,
    script: u64,
}

impl Identity {
    fn read(heap: &mut Heap<'_, '_>, shared: u64) -> Option<Self> {
        let layout = &heap.layout.shared;
        if !heap.is(shared, heap.layout.types.shared) {
            return None;
        }
        Some(Self { name: heap.field(shared, layout.name)?, script: heap.field(shared, layout.script)? })
    }
}

impl Facts {
    /// Reads the function at `shared`; `None` where there is none.
    pub(crate) fn read(heap: &mut Heap<'_, '_>, scripts: &mut Scripts, shared: u64) -> Option<Self> {
        let identity = Identity::read(heap, shared)?;
        let kind = heap.kind(identity.name);
        let declaration = match kind {
            Some(kind) if kind == heap.layout.types.scope_info => scope::read(heap, identity.name)?,
            Some(kind) if text::is_string(kind) => {
                Declaration { name: text::read(heap, identity.name)?, start: None, end: None }
            }
            _ => Declaration { name: String::new(), start: None, end: None },
        };
        let script = scripts.key(heap, identity.script);
        let has_lines = match (script, declaration.end.max(declaration.start)) {
            (Some(script), Some(last)) => scripts.read_until(heap, script, last),
            _ => true,
        };
        let place = |offset: Option<u32>| scripts.place(script?, offset?);
        let start = place(declaration.start);
        let first_line = start.map_or(0, |start| start.line);
        let last_line = place(declaration.end).map_or(first_line, |end| end.line);
        Some(Self {
            identity,
            script,
            file: script.map_or("", |script| scripts.file(script)).to_owned(),
            declaration,
            start,
            last_line: last_line.clamp(first_line, first_line.saturating_add(memory::MAX_LINES)),
            has_lines,
            by_tier: [const { None }; Tier::COUNT],
        })
    }

    /// Returns false if something else is at the address of the function now, or its lines may be found by now. Of a process that has
    /// ended nobody knows.
    pub(crate) fn is_current(&self, heap: &mut Heap<'_, '_>, shared: u64) -> bool {
        let layout = &heap.layout.shared;
        let (name, script) = (heap.field(shared, layout.name), heap.field(shared, layout.script));
        match (heap.is_still(shared, heap.layout.types.shared), name, script) {
            (Some(is_function), Some(name), Some(script)) => {
                self.has_lines && is_function && Identity { name, script } == self.identity
            }
            _ => true,
        }
    }

    /// Returns the function as the code of a compiler runs it.
    pub(crate) fn of_tier(&mut self, tier: Tier) -> Arc<JavaScriptFunction> {
        let first_line = self.start.map_or(0, |start| start.line);
        let named = || {
            let name = match (&*self.declaration.name, self.start) {
                // Without its line, nothing tells it from the script itself.
                ("", None) => "(anonymous)",
                (name, _) => name,
            };
            let mut name = format!("JS:{}{name} {}", tier.sign(), self.file);
            if let Some(Place { line, column }) = self.start {
                name.push_str(&format!(":{line}:{column}"));
            }
            Arc::new(JavaScriptFunction { name, first_line, last_line: self.last_line })
        };
        match self.by_tier.get_mut(tier as usize) {
            Some(known) => Arc::clone(known.get_or_insert_with(named)),
            None => named(),
        }
    }

    /// Returns the line of an offset in the function's script, or the function's first one.
    pub(crate) fn line(&self, scripts: &Scripts, offset: Option<u32>) -> u32 {
        let first_line = self.start.map_or(0, |start| start.line);
        let place = self.script.zip(offset).and_then(|(script, offset)| scripts.place(script, offset));
        place.map_or(first_line, |place| place.line).clamp(first_line, self.last_line)
    }

    /// Returns the number of bytes that it takes in memory, about.
    pub(crate) fn size_in_memory(&self) -> usize {
        size_of::<Self>() + Tier::COUNT * (self.declaration.name.len() + self.file.len() + 32)
    }
}
