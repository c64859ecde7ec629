//! Two sides joined: one table of frames, one tree with both weights, functions run by run.

use std::collections::{BTreeMap, HashMap, HashSet};

use model::Name;

use super::names::{compared_frame, module_stem};
use super::side::{RunTotal, Side};
use crate::queries::{CallTree, CallTreeBuilder, NodeId, Place, Weights};
use crate::{FrameId, FrameTable, Label, ViewFrame};

/// The weights of one function in each run of both sides, in the order of the runs.
#[derive(Clone, Debug)]
pub struct FunctionRuns {
    /// The frame, in the table of the comparison's tree.
    pub frame: FrameId,
    /// The weights before and after, run by run.
    pub runs: [Vec<Weights>; 2],
}

/// Two sides with one table of frames. An index of [`BEFORE`](super::BEFORE) or [`AFTER`](super::AFTER) says which side.
pub struct Comparison {
    tree: CallTree,
    functions: Vec<FunctionRuns>,
    runs: [Vec<RunTotal>; 2],
    modules: JoinedModules,
}

/// The modules that are the same on both sides, though they look different.
struct JoinedModules {
    /// The modules before, each with its name after.
    renamed: HashMap<Name, Name>,
    /// The modules whose addresses differ between the sides.
    rebuilt: HashSet<Name>,
}

impl Comparison {
    /// Joins two sides. Functions are the same if their names and modules are; a module that only one side has may stand for one
    /// that only the other has (`rg-13` and `rg-14`). `is_rebuilt` says of a module whether it differs between the sides, so that
    /// the addresses of its functions without a name say nothing.
    pub fn new(before: Side, after: Side, is_rebuilt: impl Fn(&Name) -> bool) -> Self {
        let nameless = [&before, &after].into_iter().flat_map(|side| side.frames.frames());
        let nameless = nameless.filter_map(|frame| match &frame.label {
            Label::Module(module, _) => Some(module),
            _ => None,
        });
        let rebuilt = nameless.filter(|&module| is_rebuilt(module)).cloned().collect();
        let modules = JoinedModules { renamed: renamed_modules(&before, &after), rebuilt };
        let mut frames = FrameTable::default();
        let shared = [&before, &after].map(|side| -> Vec<FrameId> {
            let joined = |frame: &ViewFrame| frames.intern(modules.join(frame));
            side.frames.frames().iter().map(joined).collect()
        });
        let frames = frames.frames().to_vec();
        let mut builder = CallTreeBuilder::new(2);
        let counts = [&before, &after].map(|side| vec![Weights::default(); side.runs.len()]);
        let mut functions = vec![counts; frames.len()];
        let mut runs = [Vec::new(), Vec::new()];
        for ((index, side), shared) in [before, after].into_iter().enumerate().zip(&shared) {
            let tree = side.tree.finish(side.frames.frames());
            let mut frameless = [0; 2];
            frameless[index] = tree.self_weights(NodeId::ROOT).iter().sum();
            builder.add(NodeId::ROOT, &frameless);
            builder.graft(&tree, index, |_, frame| Place::Child(shared[frame.index()]));
            for (number, run) in side.runs.iter().enumerate() {
                for (weights, frame) in run.functions.iter().zip(shared) {
                    // Frames that were two within a side may be one in both.
                    let sum = &mut functions[frame.index()][index][number];
                    sum.self_weight = sum.self_weight.saturating_add(weights.self_weight);
                    sum.total = sum.total.saturating_add(weights.total);
                }
            }
            runs[index] = side.runs.iter().map(|run| run.total).collect();
        }
        let functions = functions.into_iter().enumerate().filter(|(index, runs)| {
            !frames[*index].label.is_thread() && runs.iter().flatten().any(|run| run.total > 0)
        });
        let functions =
            functions.map(|(index, runs)| FunctionRuns { frame: FrameId::from_index(index), runs });
        let functions = functions.collect();
        Self { tree: builder.finish(frames), functions, runs, modules }
    }

    /// Returns the frame that stands for a frame of either side's views in the table of [`Self::tree`].
    pub fn joined_frame(&self, frame: &ViewFrame) -> ViewFrame {
        self.modules.join(&compared_frame(frame))
    }

    /// The calls of both sides, with the weights before in the column [`BEFORE`](super::BEFORE) and those after in the other; several runs are
    /// added up. A function that was inlined is not told from one that was called. Without threads, unless both sides kept them.
    pub fn tree(&self) -> &CallTree {
        &self.tree
    }

    /// The functions of both sides, each with its weights in every run, in no order.
    pub fn functions(&self) -> &[FunctionRuns] {
        &self.functions
    }

    /// The totals of the runs of a side.
    pub fn runs(&self, side: usize) -> &[RunTotal] {
        self.runs.get(side).map_or(&[], Vec::as_slice)
    }

    /// The weight of a sample of each side, on average.
    pub fn mean_weights(&self) -> [f64; 2] {
        self.runs.each_ref().map(|runs| {
            let weight: f64 = runs.iter().map(|run| run.weight as f64).sum();
            let samples: f64 = runs.iter().map(|run| run.samples as f64).sum();
            if weight > 0.0 { weight / samples.max(1.0) } else { 1.0 }
        })
    }
}

impl JoinedModules {
    fn join(&self, frame: &ViewFrame) -> ViewFrame {
        let rename = |module: &Name| self.renamed.get(module).unwrap_or(module).clone();
        let label = match &frame.label {
            Label::Function(name, Some(module)) => Label::Function(name.clone(), Some(rename(module))),
            Label::Module(module, at) => {
                let is_rebuilt = self.renamed.contains_key(module) || self.rebuilt.contains(module);
                Label::Module(rename(module), at.filter(|_| !is_rebuilt))
            }
            other => other.clone(),
        };
        ViewFrame { label, ..frame.clone() }
    }
}

/// The modules that are called otherwise on the other side: those before, each with its name after. Versions of one file are
/// found by what their names have in common; of the rest, the heaviest programs stand for each other.
fn renamed_modules(before: &Side, after: &Side) -> HashMap<Name, Name> {
    let [mut old, mut new] = [before, after].map(module_weights);
    let both: HashSet<Name> = old.keys().filter(|module| new.contains_key(*module)).cloned().collect();
    let mut renamed = HashMap::new();
    for modules in [&mut old, &mut new] {
        modules.retain(|module, _| !both.contains(module));
    }
    let mut stems: HashMap<String, Option<Name>> = HashMap::new();
    for module in new.keys() {
        // Where several have one stem, none is meant.
        stems.entry(module_stem(module)).and_modify(|known| *known = None).or_insert(Some(module.clone()));
    }
    let mut pairs: Vec<(Name, Name)> = Vec::new();
    for module in old.keys() {
        if let Some(Some(other)) = stems.remove(&module_stem(module)) {
            pairs.push((module.clone(), other));
        }
    }
    for (module, other) in pairs {
        old.remove(&module);
        new.remove(&other);
        renamed.insert(module, other);
    }
    let heaviest = |modules: &BTreeMap<Name, u64>| {
        let programs = modules.iter().filter(|(module, _)| !module.to_string().contains(".so"));
        programs.max_by_key(|&(_, &weight)| weight).map(|(module, _)| module.clone())
    };
    if let (Some(module), Some(other)) = (heaviest(&old), heaviest(&new)) {
        renamed.insert(module, other);
    }
    renamed
}

/// The self weight of each module of a side.
fn module_weights(side: &Side) -> BTreeMap<Name, u64> {
    let mut modules: BTreeMap<Name, u64> = BTreeMap::new();
    for (index, frame) in side.frames.frames().iter().enumerate() {
        let (Label::Function(_, Some(module)) | Label::Module(module, _)) = &frame.label else { continue };
        let weights = side.runs.iter().filter_map(|run| run.functions.get(index));
        let weight = weights.map(|weights| weights.self_weight).fold(0, u64::saturating_add);
        let sum = modules.entry(module.clone()).or_default();
        *sum = sum.saturating_add(weight);
    }
    modules
}
