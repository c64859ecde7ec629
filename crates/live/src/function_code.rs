//! The instructions of a function, each with the samples of a snapshot.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use analysis::annotate::{
    Chosen, CodeReader, Lookup, SampledFunction, Syntax, Whole, functions_of_samples, name_of_whole, wholes,
};
use analysis::symbols::{SourceOwners, SymbolSettings};
use export::annotate::AnnotatedFunction;
use export::safe_label;
use host::objects::SearchPaths;
use model::{Pid, Space, SpaceTable, StackEntry};
use profile::FrameKind;
use profile::code::CodeRange;
use profile::runtime_names;

use crate::snapshot::{Function, Snapshot};
use crate::views::Scope;

/// Maximum number of processes, per address, through which its file is looked for.
const MAX_PIDS: usize = 8;

/// A query for the code of a function, with the samples taken in it. Plain data, which another thread answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CodeQuery {
    /// The function.
    pub function: Function,
    /// The weight of all stacks in the scope.
    pub total: u64,
    addresses: HashMap<StackEntry, SampledAddress>,
}

/// An address with samples.
#[derive(Clone, PartialEq, Eq, Debug)]
struct SampledAddress {
    space: Arc<Space>,
    pids: Vec<Pid>,
    weight: u64,
}

impl CodeQuery {
    /// Collects the samples whose innermost address lies in a function, in a call inlined into it, or in a part of it that the
    /// compiler has moved away (`.cold`).
    pub fn new(snapshot: &Snapshot, scope: &Scope, function: &Function) -> Self {
        let mut query = Self { function: function.clone(), total: 0, addresses: HashMap::new() };
        let wanted: HashSet<u32> = (0..)
            .zip(snapshot.functions.iter())
            .filter(|(_, other)| {
                other.module == function.module && name_of_whole(&other.name) == name_of_whole(&function.name)
            })
            .map(|(number, _)| number)
            .collect();
        for stack in scope.stacks(snapshot) {
            query.total = query.total.saturating_add(stack.weight);
            // The frames of the innermost address: inlined calls, and the function that they were inlined into.
            let mut ended = false;
            let mut at_innermost = stack.frames().take_while(|frame| {
                let is_at_innermost = !ended;
                ended = frame.kind != FrameKind::Inlined;
                is_at_innermost
            });
            if !at_innermost.any(|frame| wanted.contains(&frame.function)) {
                continue;
            }
            let Some(place) = stack.addresses().next() else { continue };
            let sampled = query.addresses.entry(place.entry).or_insert_with(|| SampledAddress {
                space: Arc::clone(&place.space),
                pids: Vec::new(),
                weight: 0,
            });
            sampled.weight = sampled.weight.saturating_add(stack.weight);
            let pid = Pid(stack.task.pid);
            if sampled.pids.len() < MAX_PIDS && !sampled.pids.contains(&pid) {
                sampled.pids.push(pid);
            }
        }
        query
    }

    /// Returns true if no sample was taken in the function itself.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }
}

/// The key of a piece of a function: its space, offset and name. Space ids would not do, as they differ from query to query.
type PieceKey = (Space, u64, Arc<str>);

/// Answers queries for code. Keeps the disassembly of the last answer: while the same function is shown, only weights change.
pub struct LiveCode {
    reader: CodeReader,
    known: HashMap<PieceKey, CodeRange>,
}

impl Default for LiveCode {
    fn default() -> Self {
        let paths = SearchPaths::from_environment(None, Vec::new(), true);
        let settings = SymbolSettings { paths, options: symbolizer::Options::default(), reads_sources: true };
        Self { reader: CodeReader::new(&settings, Syntax::default()), known: HashMap::new() }
    }
}

impl LiveCode {
    /// Returns who answers for the source files of all lines so far.
    pub fn source_owners(&self) -> SourceOwners {
        self.reader.source_owners()
    }

    /// Annotates the function of a query. Reads files. Returns `None` where no function of that name has code at the samples.
    pub fn annotate(&mut self, query: &CodeQuery) -> Option<AnnotatedFunction> {
        let mut spaces = SpaceTable::default();
        let mut pids: HashMap<_, Vec<Pid>> = HashMap::new();
        let samples: Vec<(StackEntry, u64)> = query
            .addresses
            .iter()
            .map(|(entry, sampled)| {
                let space = spaces.intern((*sampled.space).clone());
                pids.entry(space).or_default().extend(&sampled.pids);
                (StackEntry { space, ..*entry }, sampled.weight)
            })
            .collect();
        let lookup =
            Lookup { spaces: &spaces, pids: Box::new(|space| pids.get(&space).cloned().unwrap_or_default()) };
        let symbols = self.reader.resolve(samples.iter().map(|(entry, _)| *entry), &lookup);
        let pieces = functions_of_samples(samples.into_iter(), |entry| symbols.resolutions.get(entry));
        let chosen = choose(wholes(pieces), &query.function)?;
        let known = std::mem::take(&mut self.known);
        let mut kept = HashMap::new();
        let annotated = chosen.annotated(|piece| {
            let key = (spaces.get(piece.space).clone(), piece.start, Arc::clone(&piece.name));
            let range = match known.get(&key) {
                Some(range) => {
                    let mut range = range.clone();
                    piece.weigh(&mut range);
                    range
                }
                None => self.reader.annotate(piece, &lookup),
            };
            kept.insert(key, range.clone());
            range
        });
        self.known = kept;
        Some(annotated)
    }
}

/// Finds the function with the name that the screen shows.
fn choose(functions: Vec<Whole>, wanted: &Function) -> Option<Chosen> {
    let is_whole = |(name, _): &&Whole| {
        let spoken = runtime_names::parse(name, true).map(|name| name.function);
        safe_label(spoken.as_deref().unwrap_or(name)) == name_of_whole(&wanted.name)
    };
    if let Some(whole) = functions.iter().find(is_whole) {
        return Some(Chosen::Whole(whole.clone()));
    }
    let is_inlined = |name: &&Arc<str>| *safe_label(name) == *wanted.name;
    let pieces = || functions.iter().flat_map(|(_, pieces)| pieces);
    let name = Arc::clone(pieces().flat_map(|piece| &piece.inlined).find(is_inlined)?);
    let callers: Vec<SampledFunction> =
        pieces().filter(|piece| piece.inlined.contains(&name)).cloned().collect();
    Some(Chosen::Inlined(name, callers))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::SnapshotBuilder;

    fn function(name: &str) -> Function {
        Function { name: name.into(), module: "app".into() }
    }

    fn weight(query: &CodeQuery) -> u64 {
        query.addresses.values().map(|place| place.weight).sum()
    }

    #[test]
    fn samples_of_a_function_are_those_in_its_own_code() {
        let mut build = SnapshotBuilder::default();
        build
            .stack(1, 1, "a", "main;work", 5)
            .stack(1, 1, "a", "main;work;_i_hash", 7)
            .stack(1, 1, "a", "main;work;read", 11)
            .stack(2, 2, "b", "main;work;_k_sys", 13)
            .stack(2, 2, "b", "main;work.cold", 17);
        let snapshot = build.snapshot();
        let of = |name: &str, scope: &Scope| CodeQuery::new(&snapshot, scope, &function(name));
        let all = Scope::default();
        let work = of("work", &all);
        assert_eq!((weight(&work), work.total), (5 + 7 + 17, 53));
        assert_eq!(weight(&of("work.cold", &all)), 29, "a piece stands for the whole");
        assert_eq!(weight(&of("hash", &all)), 7);
        assert!(of("main", &all).is_empty() && of("wor", &all).is_empty());
        let user = Scope { kernel: false, ..Scope::default() };
        assert_eq!(weight(&of("work", &user)), 29 + 13, "what is hidden counts for its caller");
    }
}
