//! Hints: the largest causes of missing names and cut stacks in a profile, and the command that would help. Standard error and the
//! picture show the same hints.

use std::collections::HashMap;

use model::{Harm, Name, Reason, Resolution, Space, SpaceId, SpaceTable, StackEntry, TruncationReason};
use profile::{Census, MOST_CLASSES, PlaceId, Presence, Profile};
use rustc_hash::FxBuildHasher;

use crate::Notices;
use crate::generated_code::runtimes::{INTERPRETED, Runtime, Runtimes};
use crate::notices::MAX_LISTED;
use crate::report::advice::{Advisor, higher_limit};

/// Minimum share of all samples, or stacks, for a cause to be shown, of 1: the rows of a report are mostly larger.
pub const MIN_SHARE: f64 = 0.01;
/// Minimum share of all samples for a cause that nothing helps against to be said by a reader, of 1: who looks for so many must learn why
/// they have no name.
const MIN_SHARE_WITHOUT_ADVICE: f64 = 0.1;
/// Maximum number of causes that the picture's subtitle has room for.
const MAX_IN_PICTURE: usize = 2;

/// Maximum number of causes that are weighed: those with the most frames.
const MAX_WEIGHED_CAUSES: usize = 16;
/// The class of the ends of stacks that were cut at their limit of addresses, behind those of causes and of interpreters.
const CUT_STACKS_CLASS: usize = MAX_WEIGHED_CAUSES + INTERPRETED.len();
const _: () = assert!(CUT_STACKS_CLASS < MOST_CLASSES);

/// One cause.
#[derive(Clone, PartialEq, Debug)]
struct Hint {
    /// Samples with at least one such frame.
    samples: u64,
    /// Those that were taken in one.
    innermost: u64,
    /// Of all samples.
    share: f64,
    /// The modules, the heaviest first.
    modules: Vec<String>,
    kind: HintKind,
    advice: Option<String>,
}

#[derive(Clone, PartialEq, Debug)]
enum HintKind {
    /// Frames without a name, and why.
    Nameless(Reason),
    /// Stacks that end early, for want of unwind data.
    CutStacks,
    /// Stacks that end at this maximum number of addresses.
    CutAtLimit(u16),
    /// Samples of functions that an interpreter runs, all of which are one frame: its own.
    Interpreted(Runtime),
}

/// The causes, the largest first.
pub struct Hints {
    causes: Vec<Hint>,
    /// Samples.
    all: f64,
}

impl Hints {
    /// Weighs the causes. `resolve` tells the names of entries.
    pub fn new<'r>(
        profile: &Profile,
        resolve: impl Fn(PlaceId, &StackEntry) -> Option<&'r Resolution>,
        census: &Census,
        spaces: &SpaceTable,
        runtimes: &Runtimes,
        advisor: &Advisor,
    ) -> Self {
        let all = profile.total().samples.max(1) as f64;
        let mut hints: Vec<Hint> = Vec::new();
        let mut causes: HashMap<(Option<&Name>, &Reason), usize> = HashMap::new();
        // The most frequent causes come first; so do the modules of each.
        for nameless in &census.reasons {
            let space = spaces.get(nameless.space);
            let advice = advisor.advice(nameless, spaces, runtimes.runtime_of(space));
            let module = nameless.module.as_ref().map_or_else(|| "no module".to_owned(), Name::to_string);
            let same = |hint: &Hint| match (&hint.advice, &advice) {
                (Some(one), Some(other)) => one == other,
                (None, None) => hint.kind == HintKind::Nameless(nameless.reason.clone()),
                _ => false,
            };
            let cause = match hints.iter().position(same) {
                Some(cause) => cause,
                None if hints.len() >= MAX_WEIGHED_CAUSES => continue,
                None => {
                    let what = HintKind::Nameless(nameless.reason.clone());
                    hints.push(Hint::new(what, advice));
                    hints.len() - 1
                }
            };
            causes.insert((nameless.module.as_ref(), &nameless.reason), cause);
            hints[cause].modules.push(module);
        }
        // Each address is looked up once, so it belongs to one class: with a name or without.
        let mut known: HashMap<SpaceId, SpaceFacts, FxBuildHasher> = HashMap::default();
        let mut interpreted = InterpreterUse::default();
        // Where limits differ between events, it is the lowest.
        let mut limit: Option<u16> = None;
        let samples = profile.samples_by(|place, entry| {
            let facts = known
                .entry(entry.space)
                .or_insert_with(|| SpaceFacts::new(spaces.get(entry.space), runtimes));
            if let Some(cut_at) = facts.limit {
                limit = Some(limit.map_or(cut_at, |limit| limit.min(cut_at)));
                return Some(CUT_STACKS_CLASS);
            }
            let found = resolve(place, entry);
            if let Some(function) = function_of(found) {
                interpreted.see_name(facts.generated_by);
                return interpreted
                    .see_interpreter(facts, function)
                    .map(|number| MAX_WEIGHED_CAUSES + number);
            }
            let reason = found.map_or(Some(&Reason::NoSymbols), Resolution::reason)?;
            let cause = causes.get(&(facts.module.as_ref(), reason));
            cause.copied().filter(|_| !facts.is_no_code)
        });
        let (of_causes, of_interpreters) = samples.split_at(MAX_WEIGHED_CAUSES);
        for (hint, found) in hints.iter_mut().zip(of_causes) {
            (hint.samples, hint.innermost) = (found.anywhere, found.innermost);
        }
        hints.extend(cut_in_generated_code(profile, spaces, runtimes, advisor));
        hints.extend(limit.map(|limit| cut_at_limit(limit, samples[CUT_STACKS_CLASS])));
        for hint in interpreted.hints(of_interpreters, advisor) {
            // One hint for a runtime, that of the larger share.
            match hints.iter_mut().find(|known| known.advice == hint.advice) {
                Some(known) if known.samples < hint.samples => *known = hint,
                Some(_) => {}
                None => hints.push(hint),
            }
        }
        for hint in &mut hints {
            hint.share = hint.samples as f64 / all;
        }
        hints.retain(|hint| hint.share >= MIN_SHARE);
        hints.sort_by(|one, other| other.share.total_cmp(&one.share));
        Self { causes: hints, all }
    }

    /// Removes what `others` say of one of the same modules.
    pub(super) fn leave_out(&mut self, others: &Self) {
        let is_said = |hint: &Hint| {
            let of_kind = others.causes.iter().filter(|other| other.kind == hint.kind);
            of_kind.flat_map(|other| &other.modules).any(|module| hint.modules.contains(module))
        };
        self.causes.retain(|hint| !is_said(hint));
    }

    /// A sentence for each of the largest, for a page.
    pub fn sentences(&self) -> impl Iterator<Item = String> {
        self.all_sentences().take(MAX_LISTED)
    }

    /// A sentence for each.
    pub fn all_sentences(&self) -> impl Iterator<Item = String> {
        self.causes.iter().map(|hint| hint.sentence(self.all))
    }

    /// Says what a reader lacks: names, and unless the recorder has said so (`stacks_are_told`) the outer ends of stacks. Figures stand in
    /// the result; a sentence is for what can be helped, or is large.
    pub fn warn(&self, stacks_are_told: bool, notices: &dyn Notices) {
        let is_told = |hint: &&Hint| hint.advice.is_some() || hint.share >= MIN_SHARE_WITHOUT_ADVICE;
        for hint in self.causes.iter().filter(is_told) {
            let harm = match hint.kind {
                HintKind::Nameless(_) | HintKind::Interpreted(_) => Harm::Names,
                HintKind::CutStacks | HintKind::CutAtLimit(_) if stacks_are_told => continue,
                HintKind::CutStacks | HintKind::CutAtLimit(_) => Harm::Stacks,
            };
            notices.warn(harm, &hint.sentence(self.all));
        }
    }

    /// In a few words those that something can be done about.
    pub fn in_picture(&self) -> Vec<String> {
        let helped = self.causes.iter().filter_map(|hint| Some((hint, hint.advice.as_ref()?)));
        helped
            .take(MAX_IN_PICTURE)
            .map(|(hint, advice)| format!("{}: {advice}", hint.modules_in_words()))
            .collect()
    }
}

impl Hint {
    /// Not weighed yet.
    fn new(kind: HintKind, advice: Option<String>) -> Self {
        Self { samples: 0, innermost: 0, share: 0.0, modules: Vec::new(), kind, advice }
    }

    /// The sentence on a problem, with the share of `all` samples that it takes and the command to type.
    fn sentence(&self, all: f64) -> String {
        let share = self.share * 100.0;
        let what = match &self.kind {
            HintKind::Nameless(reason) => {
                let innermost = self.innermost as f64 / all * 100.0;
                format!(
                    "{share:.1} % of the samples have frames without a name ({innermost:.1} % self): {reason}"
                )
            }
            HintKind::CutStacks => {
                format!("{share:.1} % of the stacks end in generated code without frame pointers")
            }
            HintKind::CutAtLimit(limit) => {
                format!("{share:.1} % of the stacks are cut at {limit} addresses, their limit")
            }
            HintKind::Interpreted(runtime) => {
                let language = runtime.language();
                format!("{share:.1} % of the samples run {language} code, whose functions have no names")
            }
        };
        let advice = self.advice.as_ref().map_or_else(String::new, |advice| format!("; try {advice}"));
        format!("{}: {what}{advice}", self.modules_in_words())
    }

    fn modules_in_words(&self) -> String {
        match self.modules.as_slice() {
            [module, rest @ ..] if !rest.is_empty() => format!("{module} and {} more", rest.len()),
            modules => modules.concat(),
        }
    }
}

/// Facts of a space that decide of which class its places are.
struct SpaceFacts {
    module: Option<Name>,
    /// The runtime that it is an object of.
    runtime: Option<Runtime>,
    /// The runtime whose generated code it is.
    generated_by: Option<Runtime>,
    /// True for the end of a stack, and for a state of a thread.
    is_no_code: bool,
    /// The limit of addresses that ended the stack.
    limit: Option<u16>,
}

impl SpaceFacts {
    fn new(space: &Space, runtimes: &Runtimes) -> Self {
        Self {
            module: profile::module_of(space),
            runtime: Runtimes::of_object(space),
            generated_by: runtimes.runtime_of(space),
            is_no_code: matches!(space, Space::State(_) | Space::Truncated(_)),
            limit: match space {
                Space::Truncated(TruncationReason::AddressLimit(limit)) => Some(*limit),
                _ => None,
            },
        }
    }
}

/// The outermost function of a place that has a name.
fn function_of(found: Option<&Resolution>) -> Option<&str> {
    match found {
        Some(Resolution::Resolved(found)) => found.frames.last().map(|frame| &*frame.function),
        _ => None,
    }
}

/// Programs whose interpreter may be all that is seen of them, by the place of their runtime in [`INTERPRETED`].
#[derive(Default)]
struct InterpreterUse {
    /// Where one of a runtime's functions has a name, it was asked for them.
    has_names: [bool; INTERPRETED.len()],
    /// The modules of the interpreters.
    modules: [Option<Name>; INTERPRETED.len()],
}

impl InterpreterUse {
    /// A function of this runtime has a name.
    fn see_name(&mut self, runtime: Option<Runtime>) {
        let number = runtime.and_then(number_of);
        if let Some(has_names) = number.and_then(|number| self.has_names.get_mut(number)) {
            *has_names = true;
        }
    }

    /// A function has this name; returns the runtime's number if it is an interpreter of one.
    fn see_interpreter(&mut self, space: &SpaceFacts, function: &str) -> Option<usize> {
        let runtime = space.runtime?;
        // Compilers put rare parts of it elsewhere: `_PyEval_EvalFrameDefault.cold`.
        let function = function.split_once('.').map_or(function, |(start, _)| start);
        let number = number_of(runtime)
            .filter(|_| runtime.interpreter().is_some_and(|interpreter| interpreter.contains(&function)))?;
        let module = self.modules.get_mut(number)?;
        if module.is_none() {
            module.clone_from(&space.module);
        }
        Some(number)
    }

    /// The causes, of these samples by number.
    fn hints<'s>(&'s self, samples: &'s [Presence], advisor: &'s Advisor) -> impl Iterator<Item = Hint> {
        let runtimes = INTERPRETED.into_iter().zip(self.has_names).zip(&self.modules).zip(samples);
        runtimes.filter_map(|(((runtime, has_names), module), found)| {
            let module = module.as_ref().filter(|_| found.anywhere > 0 && !has_names)?;
            let module = module.to_string();
            let advice = Some(advisor.names_of_generated_code(runtime, &module));
            Some(Hint {
                samples: found.anywhere,
                innermost: found.innermost,
                modules: vec![module],
                ..Hint::new(HintKind::Interpreted(runtime), advice)
            })
        })
    }
}

fn number_of(runtime: Runtime) -> Option<usize> {
    INTERPRETED.iter().position(|known| *known == runtime)
}

/// Stacks that end in the code of a runtime which could keep frame pointers, and does not.
fn cut_in_generated_code(
    profile: &Profile,
    spaces: &SpaceTable,
    runtimes: &Runtimes,
    advisor: &Advisor,
) -> Option<Hint> {
    let is_end = |space: &Space| {
        matches!(space, Space::Truncated(TruncationReason::NoUnwindData | TruncationReason::RuleFailed))
    };
    let ends: Vec<SpaceId> = spaces.iter().filter(|(_, space)| is_end(space)).map(|(id, _)| id).collect();
    let advice_for = |space| runtimes.runtime_of(space).and_then(|runtime| advisor.frame_pointers(runtime));
    let advised = spaces.iter().filter_map(|(id, space)| Some((id, advice_for(space)?)));
    let advised: HashMap<SpaceId, String, FxBuildHasher> = advised.collect();
    // In most recordings there is no such code, and nothing to count.
    if ends.is_empty() || advised.is_empty() {
        return None;
    }
    let is_cut = |entry: Option<&StackEntry>| entry.is_some_and(|entry| ends.contains(&entry.space));
    let mut hint: Option<Hint> = None;
    for (_, entry, samples) in profile.places_called_by(is_cut).filter(|(.., samples)| *samples > 0) {
        let Some(advice) = advised.get(&entry.space) else { continue };
        let known = hint.get_or_insert_with(|| Hint {
            modules: vec!["java".to_owned()],
            ..Hint::new(HintKind::CutStacks, Some(advice.clone()))
        });
        known.samples = known.samples.saturating_add(samples);
    }
    hint
}

/// Stacks that end at their limit of addresses: `found` is where the ends are.
fn cut_at_limit(limit: u16, found: Presence) -> Hint {
    let advice = higher_limit(limit).map(|flag| format!("`prof record --call-graph auto {flag}`"));
    Hint {
        // Of an end alone there was no stack.
        samples: found.anywhere.saturating_sub(found.innermost),
        modules: vec!["call chains".to_owned()],
        ..Hint::new(HintKind::CutAtLimit(limit), advice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::advice::tests::debian;
    use model::{AddressKind, ObjectIdentity, Pid, SpaceId, Tid};
    use profile::Nameless;
    use stacks::MAX_CHAIN_ADDRESSES;

    fn object(path: &str) -> Space {
        Space::Object(ObjectIdentity { path: Name::from(path), build_id: None, file: None })
    }

    #[test]
    fn causes_go_by_weight_and_small_ones_are_left_out() {
        let mut spaces = SpaceTable::default();
        let mut nameless = |path: &str, reason, frames| Nameless {
            module: Some(Name::from(path.rsplit('/').next().unwrap())),
            reason,
            space: spaces.intern(object(path)),
            frames,
        };
        let reasons = vec![
            nameless("/opt/deep", Reason::FileMissing, 900),
            nameless("/opt/a", Reason::NoSymbols, 300),
            nameless("/lib/libc.so.6", Reason::NoSymbols, 200),
            nameless("/lib/libm.so.6", Reason::Stripped, 150),
            nameless("/opt/b", Reason::NoSegmentCovers, 40),
            nameless("/opt/c", Reason::FileChanged, 9),
        ];
        let census = Census { reasons: reasons.clone(), frames: 2000, nameless: 1599, truncated: 0 };
        let mut profile = Profile::default();
        let entry = |at: usize| StackEntry {
            offset: 1,
            space: reasons[at].space,
            kind: AddressKind::InstructionPointer,
            in_kernel: false,
        };
        let unresolved: Vec<_> = reasons.iter().map(|of| Resolution::Unresolved(of.reason.clone())).collect();
        // Few stacks of many frames weigh as what they are: few samples.
        let stacks: [(&[usize], u64); 7] =
            [(&[0; 100], 9), (&[1], 300), (&[2, 1], 50), (&[2, 3], 150), (&[3], 150), (&[4], 40), (&[5], 8)];
        for (stack, samples) in stacks {
            let stack: Vec<StackEntry> = stack.iter().map(|&at| entry(at)).collect();
            let stack = profile.stacks.intern(&stack);
            for _ in 0..samples {
                profile.add(&Name::from("x"), Pid(1), Tid(1), stack, 1);
            }
        }
        let stack = profile.stacks.intern(&[]);
        for _ in profile.total().samples..1000 {
            profile.add(&Name::from("x"), Pid(1), Tid(1), stack, 1);
        }
        let resolve = |_: PlaceId, entry: &StackEntry| {
            reasons.iter().position(|of| of.space == entry.space).map(|at| &unresolved[at])
        };
        let hints = Hints::new(&profile, resolve, &census, &spaces, &Runtimes::default(), &debian());
        let said: Vec<String> = hints.sentences().collect();
        assert_eq!(said.len(), 3, "{said:?}");
        let without = "of the samples have frames without a name";
        assert!(said[0].starts_with(&format!("a: 35.0 % {without} (30.0 % self)")), "{}", said[0]);
        assert!(
            said[1].starts_with(&format!("libc.so.6 and 1 more: 35.0 % {without} (35.0 % self)")),
            "{}",
            said[1]
        );
        assert!(said[1].ends_with("; try `apt-get install libc6-dbg`"), "{}", said[1]);
        assert_eq!(
            said[2],
            "b: 4.0 % of the samples have frames without a name (4.0 % self): no program header covers the offset"
        );
        let picture = hints.in_picture();
        assert_eq!(picture[1], "libc.so.6 and 1 more: `apt-get install libc6-dbg`");
        assert!(picture.len() == 2 && picture[0].starts_with("a: building it with"), "{picture:?}");
    }

    #[test]
    fn java_that_cannot_be_unwound_is_told_what_keeps_frame_pointers() {
        let mut spaces = SpaceTable::default();
        let code = spaces.intern(Space::Jit { pid: Pid(1), generation: 0, mapping: Name::from("//anon") });
        let end = spaces.intern(Space::Truncated(TruncationReason::NoUnwindData));
        let jvm = spaces.intern(object("/usr/lib/jvm/lib/server/libjvm.so"));
        let entry = |space: SpaceId| StackEntry {
            offset: 1,
            space,
            kind: AddressKind::InstructionPointer,
            in_kernel: false,
        };
        let mut profile = Profile::default();
        for stack in [[entry(jvm), entry(code), entry(end)], [entry(code), entry(jvm), entry(end)]] {
            let stack = profile.stacks.intern(&stack);
            profile.add(&Name::from("java"), Pid(1), Tid(1), stack, 1);
        }
        let mut seen_in = crate::aggregate::SeenIn::default();
        seen_in.see(Pid(1), &[entry(jvm)]);
        let runtimes = Runtimes::new(&spaces, &seen_in);
        let hints = Hints::new(&profile, |_, _| None, &Census::default(), &spaces, &runtimes, &debian());
        assert_eq!(
            hints.sentences().collect::<Vec<_>>(),
            ["java: 50.0 % of the stacks end in generated code without frame pointers; try \
              `java -XX:+PreserveFramePointer`"]
        );
    }

    #[test]
    fn stacks_that_end_at_their_limit_are_told_where_it_is_and_how_to_raise_it() {
        let mut spaces = SpaceTable::default();
        let program = spaces.intern(object("/usr/bin/program"));
        let mut hint_of = |limit| {
            let end = spaces.intern(Space::Truncated(TruncationReason::AddressLimit(limit)));
            let entry = |space: SpaceId| StackEntry {
                offset: 1,
                space,
                kind: AddressKind::InstructionPointer,
                in_kernel: false,
            };
            let mut profile = Profile::default();
            for stack in [&[entry(program), entry(program), entry(end)][..], &[entry(program)]] {
                let stack = profile.stacks.intern(stack);
                profile.add(&Name::from("program"), Pid(1), Tid(1), stack, 1);
            }
            let (census, runtimes) = (Census::default(), Runtimes::default());
            Hints::new(&profile, |_, _| None, &census, &spaces, &runtimes, &debian()).sentences().next()
        };
        let kernels = "call chains: 50.0 % of the stacks are cut at 127 addresses, their limit; \
                       try `prof record --call-graph auto --max-stack 7000`";
        assert_eq!(hint_of(127).as_deref(), Some(kernels));
        let ours = "call chains: 50.0 % of the stacks are cut at 7000 addresses, their limit";
        assert_eq!(hint_of(MAX_CHAIN_ADDRESSES).as_deref(), Some(ours));
    }

    #[test]
    fn a_problem_of_two_events_is_said_once() {
        let of = |kind, modules: &[&str]| Hint {
            modules: modules.iter().map(|&module| module.to_owned()).collect(),
            ..Hint::new(kind, None)
        };
        let stripped = || HintKind::Nameless(Reason::NoSymbols);
        let first = Hints { causes: vec![of(stripped(), &["sh", "libc"])], all: 1.0 };
        let mut second = Hints {
            causes: vec![
                of(stripped(), &["libc", "cat"]),
                of(stripped(), &["cat"]),
                of(HintKind::CutStacks, &["libc"]),
            ],
            all: 1.0,
        };
        let kept = second.causes[1..].to_vec();
        second.leave_out(&first);
        assert_eq!(second.causes, kept);
    }

    #[test]
    fn an_interpreter_is_reason_enough_unless_its_functions_have_names() {
        let mut spaces = SpaceTable::default();
        let python = spaces.intern(object("/usr/bin/python3.12"));
        let code = spaces.intern(Space::Jit { pid: Pid(1), generation: 0, mapping: Name::from("//anon") });
        let entry = |space: SpaceId, offset| StackEntry {
            offset,
            space,
            kind: AddressKind::InstructionPointer,
            in_kernel: false,
        };
        let (interpreter, main) = (entry(python, 1), entry(python, 2));
        let named = |name: &str| {
            let frame = model::Frame { function: name.into(), location: None, inlined: false };
            Resolution::Resolved(model::Symbolized { frames: [frame].into(), symbol_offset: None })
        };
        let names = [named("_PyEval_EvalFrameDefault.cold"), named("main"), named("py::f:/x.py")];
        let mut profile = Profile::default();
        let add = |profile: &mut Profile, stack: &[StackEntry], samples| {
            let stack = profile.stacks.intern(stack);
            for _ in 0..samples {
                profile.add(&Name::from("python3"), Pid(1), Tid(1), stack, 1);
            }
        };
        add(&mut profile, &[interpreter, interpreter, main], 2);
        add(&mut profile, &[main], 2);
        let mut seen_in = crate::aggregate::SeenIn::default();
        seen_in.see(Pid(1), &[main]);
        let runtimes = Runtimes::new(&spaces, &seen_in);
        let resolve = |_: PlaceId, entry: &StackEntry| match (entry.space == python, entry.offset) {
            (true, 1) => Some(&names[0]),
            (true, _) => Some(&names[1]),
            (false, _) => Some(&names[2]),
        };
        let said = |profile: &Profile| {
            let hints = Hints::new(profile, resolve, &Census::default(), &spaces, &runtimes, &debian());
            hints.sentences().collect::<Vec<_>>()
        };
        assert_eq!(
            said(&profile),
            ["python3.12: 50.0 % of the samples run Python code, whose functions have no names; try \
              `python3 -X perf` (3.12 or newer)"]
        );
        add(&mut profile, &[interpreter, entry(code, 3), interpreter, main], 1);
        assert_eq!(said(&profile), Vec::<String>::new());
    }
}
