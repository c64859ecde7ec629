//! Views: the frames that a reader asked for, and how much each stack of them weighs.

use hashbrown::HashMap;
use model::{Frame, Name, Reason, Resolution, SpaceId, SpaceTable, StackEntry};
use rustc_hash::FxBuildHasher;

use crate::async_rust::Fold;
use crate::frame::{FrameId, FrameKind, FrameTable, Label, ViewFrame, module_of};
use crate::frame_chain::{ChainId, Chains};
use crate::shape::{Filters, Shape, StackRules};
use crate::shown_frames::{Show, frames_of};
use crate::{PlaceId, Profile, StackId, ThreadId, Weight, folded_starts, pools};

/// A number of frames without a name, with the reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Nameless {
    /// The module, where it is known.
    pub module: Option<Name>,
    /// The reason.
    pub reason: Reason,
    /// The space of the module; one of them, where several have its name.
    pub space: SpaceId,
    /// In how many frames of samples.
    pub frames: u64,
}

/// A census of the frames of a profile with and without names.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Census {
    /// Stack entries of all samples, counted with their samples.
    pub frames: u64,
    /// The number of them that have no name.
    pub nameless: u64,
    /// Samples whose stack ends early.
    pub truncated: u64,
    /// The nameless by module and reason, most frequent first.
    pub reasons: Vec<Nameless>,
}

/// A profile with the names of its places: what views are made of.
pub struct View<'a> {
    profile: &'a Profile,
    weight: Weight,
    frames: FrameTable,
    /// The chain of frames that each place shows.
    shown: Vec<ChainId>,
    chains: Chains,
    /// The first frame of each thread's stacks, and the one that is the process or CPU below it, if these are shown.
    roots: Vec<(Option<FrameId>, FrameId)>,
    /// The frame that stands for CPU time without samples.
    pub(crate) not_sampled: FrameId,
    /// The frame that stands for the start of a program or thread, where that is folded in trees.
    pub(crate) start: Option<FrameId>,
    pub(crate) rules: StackRules,
}

impl<'a> View<'a> {
    /// Names the places of `profile` by `resolve`, and picks what to show.
    pub fn new<'r>(
        profile: &'a Profile,
        spaces: &SpaceTable,
        resolve: impl Fn(PlaceId, &StackEntry) -> Option<&'r Resolution>,
        show: Show,
        weight: Weight,
    ) -> Self {
        Self::shaped(profile, spaces, resolve, show, weight, &Shape::default())
    }

    /// As [`Self::new`], with filters on stacks.
    pub fn shaped<'r>(
        profile: &'a Profile,
        spaces: &SpaceTable,
        resolve: impl Fn(PlaceId, &StackEntry) -> Option<&'r Resolution>,
        show: Show,
        weight: Weight,
        shape: &Shape,
    ) -> Self {
        let places = || profile.stacks.numbered_places();
        let filters = Filters::new(shape, places().filter_map(|(place, entry)| resolve(place, entry)));
        let mut frames = FrameTable::default();
        let mut chains = Chains::default();
        let mut chain = Vec::new();
        // Thousands of addresses are of one function, and share its frames.
        let mut known: HashMap<(SpaceId, bool, *const Frame), ChainId, FxBuildHasher> = HashMap::default();
        let shown = places().map(|(place, entry)| {
            let resolution = resolve(place, entry);
            let mut intern = || {
                chain.clear();
                frames_of(entry, spaces.get(entry.space), resolution, show, &filters, |new| {
                    chain.push((frames.intern_marked(new.frame, new.marks, new.tiers), new.fold));
                });
                chains.intern(&chain)
            };
            let frames = match resolution {
                Some(Resolution::Resolved(symbolized)) => symbolized.frames.as_ptr(),
                Some(Resolution::Unresolved(_)) | None if !show.addresses => std::ptr::null(),
                _ => return intern(),
            };
            *known.entry((entry.space, entry.in_kernel, frames)).or_insert_with(intern)
        });
        let shown = shown.collect();
        let names = pools::names(profile.threads());
        let roots = profile.threads().iter().zip(names).map(|(thread, name)| {
            let process = thread.process.clone();
            let process = process.map(|(pid, comm)| Label::Process(comm, pid));
            let below = process
                .or(thread.cpu.map(Label::Cpu))
                .or(thread.container.clone().map(Label::Container))
                .or(thread.cgroup.clone().map(Label::Cgroup))
                .map(|label| frames.intern(root(label)));
            let label = match thread.ids {
                Some((pid, tid)) => Label::Thread(thread.comm.clone(), pid, tid),
                None => Label::Comm(name),
            };
            (below, frames.intern(root(label)))
        });
        let roots = roots.collect();
        let not_sampled = frames.intern(root(Label::NotSampled));
        let start = show.fold_starts.then(|| frames.intern(folded_starts::frame()));
        let rules = StackRules::from(shape);
        Self { profile, weight, frames, shown, chains, roots, not_sampled, start, rules }
    }

    /// The frames that occur.
    pub fn frames(&self) -> &FrameTable {
        &self.frames
    }

    /// Returns the profile that the view is of.
    pub fn profile(&self) -> &'a Profile {
        self.profile
    }

    /// Returns the quantity that makes its stacks heavy.
    pub fn weight(&self) -> Weight {
        self.weight
    }

    /// The weight of all samples, also of those that filters on stacks leave out.
    pub fn total(&self) -> u64 {
        self.profile.total().weight(self.weight)
    }

    /// Returns true if filters change stacks or leave some out.
    pub fn changes_stacks(&self) -> bool {
        !self.rules.is_empty()
    }

    /// The weight of CPU time that has no samples.
    pub fn unsampled_total(&self) -> u64 {
        let due = self.profile.unsampled().iter().map(|(_, due)| due.weight(self.weight));
        due.fold(0, u64::saturating_add)
    }

    /// The frames of one stack of a thread, outermost first, appended to `frames`; nothing where filters leave its samples
    /// out.
    pub fn stack(&self, thread: ThreadId, stack: StackId, frames: &mut Vec<FrameId>) {
        if self.rules.is_empty() {
            return self.plain_stack(thread, stack, frames);
        }
        let mut located = Vec::new();
        self.located_stack(thread, stack, &mut located);
        frames.extend(located.iter().map(|&(frame, _)| frame));
    }

    /// Gives each of some stacks of a thread the node that it ends in of a tree, which the caller keeps: `child` returns the node of a
    /// frame on top of another node. What stacks share is asked for once. Calls `end` with each stack, its node and its innermost
    /// frame; frames of the thread are left out. Filters are not asked: only where no filter changes stacks
    /// ([`Self::changes_stacks`]) are these the frames of [`Self::stack`].
    pub fn grow<N: Copy>(
        &self,
        root: N,
        stacks: impl Iterator<Item = StackId>,
        memory: &mut StackNodes<N>,
        mut child: impl FnMut(N, FrameId) -> N,
        mut end: impl FnMut(StackId, N, Option<FrameId>),
    ) {
        memory.begin(self.profile.stacks.len());
        let mut ahead: Vec<(StackId, PlaceId)> = Vec::new();
        for stack in stacks {
            let mut at = stack;
            let (mut node, mut last) = loop {
                if let Some(known) = memory.get(at) {
                    break known;
                }
                let Some((place, caller)) = self.profile.stacks.split(at) else { break (root, None) };
                ahead.push((at, place));
                at = caller;
            };
            while let Some((at, place)) = ahead.pop() {
                for &(frame, fold) in self.shown(place) {
                    match (fold, last) {
                        (Fold::Pass, _) => continue,
                        (Fold::Merge, Some(caller)) if self.frames.same_function(caller, frame) => continue,
                        _ => (node, last) = (child(node, frame), Some(frame)),
                    }
                }
                memory.put(at, node, last);
            }
            match self.passing_last(stack) {
                Some(frame) => end(stack, child(node, frame), Some(frame)),
                None => end(stack, node, last),
            }
        }
    }

    /// As [`Self::stack`], where no filter has a say.
    fn plain_stack(&self, thread: ThreadId, stack: StackId, frames: &mut Vec<FrameId>) {
        let (process, root) = self.roots(thread);
        frames.extend(process.into_iter().chain([root]));
        let mut places: Vec<PlaceId> = self.profile.stacks.entries(stack).collect();
        places.reverse();
        for place in places {
            for &(frame, fold) in self.shown(place) {
                match (fold, frames.last()) {
                    (Fold::Pass, _) => {}
                    (Fold::Merge, Some(&caller)) if self.frames.same_function(caller, frame) => {}
                    _ => frames.push(frame),
                }
            }
        }
        frames.extend(self.passing_last(stack));
    }

    /// As [`Self::stack`], each frame with its place and the number of its entry in the stack, the outermost being 0; those
    /// of threads and processes have none.
    pub fn located_stack(
        &self,
        thread: ThreadId,
        stack: StackId,
        located: &mut Vec<(FrameId, Option<(PlaceId, u32)>)>,
    ) {
        let (process, root) = self.roots(thread);
        let mut frames = Vec::new();
        frames.extend(process.into_iter().chain([root]).map(|frame| (frame, None)));
        let threads = frames.len();
        let mut places: Vec<_> = self.profile.stacks.entries(stack).collect();
        places.reverse();
        for (&place, number) in places.iter().zip(0..) {
            for &(frame, fold) in self.shown(place) {
                match (fold, frames.last()) {
                    (Fold::Pass, _) => {}
                    (Fold::Merge, Some(&(caller, _))) if self.frames.same_function(caller, frame) => {}
                    _ => frames.push((frame, Some((place, number)))),
                }
            }
        }
        let innermost = places.last().map(|&place| (place, places.len() as u32 - 1));
        frames.extend(self.passing_last(stack).map(|frame| (frame, innermost)));
        if self.rules.apply(&mut frames, threads, &self.frames, |&(frame, _)| frame) {
            located.append(&mut frames);
        }
    }

    /// Returns the place of the innermost frame of a stack; `None` if it has no frame but those of its thread, or filters leave it out.
    pub fn innermost_place(&self, thread: ThreadId, stack: StackId) -> Option<PlaceId> {
        self.innermost(thread, stack).and_then(|(_, place)| place)
    }

    /// Returns the innermost frame of a stack and its place, which frames of threads do not have; `None` if filters leave the stack out.
    pub(crate) fn innermost(&self, thread: ThreadId, stack: StackId) -> Option<(FrameId, Option<PlaceId>)> {
        if self.rules.is_empty() {
            for (depth, place) in self.profile.stacks.entries(stack).enumerate() {
                match self.shown(place).iter().rev().find(|(_, fold)| *fold != Fold::Pass || depth == 0) {
                    None => {}
                    Some((_, Fold::Merge)) => break,
                    Some(&(frame, _)) => return Some((frame, Some(place))),
                }
            }
        }
        let mut frames = Vec::new();
        self.located_stack(thread, stack, &mut frames);
        frames.last().map(|&(frame, place)| (frame, place.map(|(place, _)| place)))
    }

    /// The first frames of a thread's stacks: its process or CPU, where these are shown, and itself.
    pub fn roots(&self, thread: ThreadId) -> (Option<FrameId>, FrameId) {
        self.roots[thread.index()]
    }

    /// The innermost frame of a stack, where it would be left out if it called something.
    pub(crate) fn passing_last(&self, stack: StackId) -> Option<FrameId> {
        let (place, _) = self.profile.stacks.split(stack)?;
        self.shown(place).last().filter(|(_, fold)| *fold == Fold::Pass).map(|&(frame, _)| frame)
    }

    /// Counts what has no name. (The same for all views of a profile: what a view does not show is counted, too.)
    pub fn census<'r>(
        profile: &Profile,
        spaces: &SpaceTable,
        resolve: impl Fn(PlaceId, &StackEntry) -> Option<&'r Resolution>,
    ) -> Census {
        let mut census = Census::default();
        let mut reasons: HashMap<(Option<Name>, Reason), (SpaceId, u64)> = HashMap::default();
        for (place, entry, count) in profile.places() {
            let space = spaces.get(entry.space);
            let reason = match (space, resolve(place, entry)) {
                (model::Space::State(_), _) => continue,
                (model::Space::Truncated(_), _) => {
                    census.truncated = census.truncated.saturating_add(count);
                    continue;
                }
                (_, Some(resolution)) => resolution.reason().cloned(),
                (_, None) => Some(Reason::NoSymbols),
            };
            census.frames = census.frames.saturating_add(count);
            if let Some(reason) = reason {
                census.nameless = census.nameless.saturating_add(count);
                let (_, sum) = reasons.entry((module_of(space), reason)).or_insert((entry.space, 0));
                *sum = sum.saturating_add(count);
            }
        }
        census.reasons = reasons
            .into_iter()
            .map(|((module, reason), (space, frames))| Nameless { module, reason, space, frames })
            .collect();
        census.reasons.sort_by(|a, b| {
            b.frames.cmp(&a.frames).then_with(|| (&a.module, &a.reason).cmp(&(&b.module, &b.reason)))
        });
        census
    }

    /// Returns the frame of the function that the code at a place belongs to, into which its other frames were inlined.
    pub fn outermost_frame(&self, place: PlaceId) -> Option<FrameId> {
        self.shown(place).first().map(|&(frame, _)| frame)
    }

    /// The frames of a place, outermost first.
    pub(crate) fn shown(&self, place: PlaceId) -> &[(FrameId, Fold)] {
        self.chains.get(self.shown[place.index()])
    }
}

/// Nodes of stacks that [`View::grow`] knows already, of one thread at a time.
#[derive(Debug)]
pub struct StackNodes<N> {
    /// By stack: of which thread, counted from 1, with its node and innermost frame.
    nodes: Vec<Option<(u32, N, Option<FrameId>)>>,
    thread: u32,
}

impl<N> Default for StackNodes<N> {
    fn default() -> Self {
        Self { nodes: Vec::new(), thread: 0 }
    }
}

impl<N: Copy> StackNodes<N> {
    fn begin(&mut self, stacks: usize) {
        self.thread += 1;
        self.nodes.resize(stacks.max(self.nodes.len()), None);
    }

    fn get(&self, stack: StackId) -> Option<(N, Option<FrameId>)> {
        let (thread, node, last) = (*self.nodes.get(stack.index())?)?;
        (thread == self.thread).then_some((node, last))
    }

    fn put(&mut self, stack: StackId, node: N, last: Option<FrameId>) {
        if let Some(known) = self.nodes.get_mut(stack.index()) {
            *known = Some((self.thread, node, last));
        }
    }
}

fn root(label: Label) -> ViewFrame {
    ViewFrame { label, kind: FrameKind::User, line: None }
}
