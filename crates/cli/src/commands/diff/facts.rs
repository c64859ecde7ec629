//! Facts about recordings that may explain why they differ: machine, kernel, rate, builds of modules.

use std::collections::{BTreeMap, BTreeSet};

use analysis::{Analysis, EventProfile};
use export::difference::Library;
use model::{BuildId, Name, Space};
use profile::comparison::Comparison;
use profile::{Label, module_of};

/// Facts about the recordings of a side.
#[derive(Default)]
pub struct Facts {
    pub hosts: BTreeSet<String>,
    pub cpus: BTreeSet<String>,
    pub kernels: BTreeSet<String>,
    pub rates: BTreeSet<String>,
    pub lost: u64,
    /// The build ids of each module that has samples.
    builds: BTreeMap<Name, BTreeSet<BuildId>>,
}

impl Facts {
    /// Adds those of a recording.
    pub fn add(&mut self, analysis: &Analysis, event: &EventProfile) {
        let features = analysis.recording.features();
        let text = |name: &Option<Name>| name.as_ref().map(Name::to_string);
        self.hosts.extend(text(&features.hostname));
        self.cpus.extend(text(&features.cpu_description));
        self.kernels.extend(text(&features.os_release));
        let attr = &event.event.attr;
        self.rates.insert(match attr.is_frequency() {
            true => format!("-F {}", attr.sample_period),
            false => format!("-c {}", attr.sample_period),
        });
        self.lost = self.lost.saturating_add(analysis.loss.samples);
        for entry in event.profile.stacks.places() {
            if let Space::Object(object) = analysis.spaces.get(entry.space)
                && let (Some(build_id), Some(module)) =
                    (object.build_id, module_of(analysis.spaces.get(entry.space)))
            {
                self.builds.entry(module).or_default().insert(build_id);
            }
        }
    }

    /// Returns true if a module has another build id on the other side.
    pub fn is_rebuilt(&self, other: &Self, module: &Name) -> bool {
        match (self.builds.get(module), other.builds.get(module)) {
            (Some(one), Some(other)) => one != other,
            _ => false,
        }
    }

    /// Returns true if a program or library with samples differs, or one side alone has it: its code lies elsewhere.
    pub fn lies_elsewhere(&self, other: &Self) -> bool {
        let programs = |facts: &Self| {
            let programs = facts.builds.iter().filter(|(module, _)| !is_library(module));
            programs.flat_map(|(_, ids)| ids.iter().copied()).collect::<BTreeSet<BuildId>>()
        };
        programs(self) != programs(other) || self.builds.keys().any(|module| self.is_rebuilt(other, module))
    }

    /// Sentences on what differs between the sides beside the program.
    pub fn notes(&self, after: &Self) -> Vec<String> {
        let differs = |what: &str, before: &BTreeSet<String>, after: &BTreeSet<String>| {
            let list = |values: &BTreeSet<String>| match values.is_empty() {
                true => "unknown".to_owned(),
                false => values.iter().cloned().collect::<Vec<_>>().join(", "),
            };
            (before != after)
                .then(|| format!("{what} differ: {} before, {} after", list(before), list(after)))
        };
        let mut notes: Vec<String> = [
            differs("the machines", &self.hosts, &after.hosts),
            differs("the CPUs", &self.cpus, &after.cpus),
            differs("the kernels", &self.kernels, &after.kernels),
            differs("the rates", &self.rates, &after.rates)
                .map(|note| format!("{note}; weights are sums of periods and compare, but a sample takes time: totals have no mark")),
        ]
        .into_iter()
        .flatten()
        .collect();
        for (side, facts) in [("before", self), ("after", after)] {
            if facts.lost > 0 {
                notes.push(format!("{} samples were lost {side}", export::summary::grouped(facts.lost)));
            }
        }
        notes
    }

    /// The libraries that are other builds, by weight.
    pub fn libraries(&self, after: &Self, comparison: &Comparison) -> Vec<Library> {
        let rebuilt =
            self.builds.keys().filter(|module| is_library(module) && self.is_rebuilt(after, module));
        let short = |facts: &Self, module: &Name| {
            let ids = facts.builds.get(module).into_iter().flatten();
            ids.map(|id| id.to_string().chars().take(12).collect::<String>()).collect::<Vec<_>>().join(", ")
        };
        let mut libraries: Vec<Library> = rebuilt
            .map(|module| Library {
                module: module.to_string(),
                build_ids: [short(self, module), short(after, module)],
                means: means(comparison, module),
            })
            .collect();
        libraries.sort_by_key(|library| std::cmp::Reverse(library.means[0].max(library.means[1])));
        libraries
    }
}

fn is_library(module: &Name) -> bool {
    module.to_string().contains(".so")
}

/// The self weights of a module before and after, as means over runs.
fn means(comparison: &Comparison, module: &Name) -> [u64; 2] {
    let frames = comparison.tree().frames();
    let mut sums = [0_u64; 2];
    for function in comparison.functions() {
        let label = frames.get(function.frame.index()).map(|frame| &frame.label);
        let Some(Label::Function(_, Some(of)) | Label::Module(of, _)) = label else { continue };
        if of == module {
            for (sum, runs) in sums.iter_mut().zip(&function.runs) {
                *sum = runs.iter().map(|run| run.self_weight).fold(*sum, u64::saturating_add);
            }
        }
    }
    let runs = |side: usize| comparison.runs(side).len().max(1) as u64;
    [sums[0] / runs(0), sums[1] / runs(1)]
}
