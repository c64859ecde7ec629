//! An event as a reader sees it: its stacks with names, and what there is to know about them.

use decoder::Attr;
use export::summary::{Summary, nameless};
use model::{Harm, Resolution, Space, SpaceTable, StackEntry, TruncationReason};
use perfdata::sections;
use profile::{Census, Nameless, PlaceId, Shape, Show, View, Weight};

use crate::Notices;
use crate::generated_code::runtimes::Runtimes;
use crate::load::{Analysis, EventProfile, is_unwound};
use crate::report::advice::{Advisor, StackFacts, cut_stacks_in_words};
use crate::report::caption;
use crate::report::hints::Hints;
use crate::report::interrupts;

/// The view of an event's profile, with the line of truth about it.
pub struct EventView<'a> {
    /// The event and its profile.
    pub event: &'a EventProfile,
    /// The event's name.
    pub name: String,
    /// The stacks with names.
    pub view: View<'a>,
    /// The number of frames without a name, by reason.
    pub census: Census,
    /// The causes that keep the profile from being whole, and what to type.
    hints: Hints,
    remedies: Vec<String>,
    /// Estimates that the profile rests on, each in a few words.
    estimates: Vec<String>,
    /// A sentence on code that a clock could not see.
    blind_spot: Option<String>,
    /// True if the recorder has said which stacks end early.
    stacks_are_told: bool,
}

impl<'a> EventView<'a> {
    /// Makes the view of each event of a recording ([`Self::new`]), with the weight that `weight` finds for its attributes.
    pub fn of_all(
        analysis: &'a Analysis,
        show: Show,
        weight: impl Fn(&Attr) -> Weight,
        shape: &Shape,
        notices: &dyn Notices,
    ) -> Vec<Self> {
        let view = |event| Self::new(analysis, event, show, weight(&event.event.attr), shape, notices);
        analysis.events.iter().map(view).collect()
    }

    /// Names the frames of an event, leaves out what `shape` says, and weighs what keeps the profile from being whole. What is
    /// too little for a hint is a detail of `notices`.
    pub fn new(
        analysis: &'a Analysis,
        event: &'a EventProfile,
        show: Show,
        weight: Weight,
        shape: &Shape,
        notices: &dyn Notices,
    ) -> Self {
        Self::new_with(analysis, event, show, weight, shape, notices, |_| ()).0
    }

    /// As [`Self::new`], with what `make` makes of the view while another thread weighs.
    pub fn new_with<T>(
        analysis: &'a Analysis,
        event: &'a EventProfile,
        show: Show,
        weight: Weight,
        shape: &Shape,
        notices: &dyn Notices,
        make: impl FnOnce(&View<'a>) -> T,
    ) -> (Self, T) {
        let places = event.profile.stacks.places();
        let names: Vec<Option<&Resolution>> = places.iter().map(|entry| analysis.resolve(entry)).collect();
        let resolve = |place: PlaceId, _: &StackEntry| names.get(place.index()).copied().flatten();
        let (view, made, (census, hints, details, blind_spot)) = std::thread::scope(|scope| {
            let weighed = scope.spawn(|| {
                let census = View::census(&event.profile, &analysis.spaces, resolve);
                let (hints, details) = weigh(analysis, event, &census, resolve);
                let is_clock = !event.is_time && event.event.attr.is_cpu_clock();
                let blind_spot =
                    is_clock.then(|| interrupts::charged_elsewhere(&event.profile, resolve)).flatten();
                (census, hints, details, blind_spot)
            });
            let view = analysis.view_with(&event.profile, resolve, show, weight, shape);
            let made = make(&view);
            (view, made, weighed.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        details.iter().chain(&blind_spot).for_each(|line| notices.detail(line));
        let (name, remedies) = (event.event.name.to_string(), hints.in_picture());
        let estimates = event.estimates.iter().map(|estimate| estimate.brief.clone());
        let estimates = estimates.filter(|brief| !brief.is_empty()).collect();
        let stacks_are_told = analysis.recording.features().section(sections::id::STACK_TOTALS).is_some();
        (Self { event, name, view, remedies, estimates, census, hints, blind_spot, stacks_are_told }, made)
    }
}

impl EventView<'_> {
    /// The figures of the line of truth.
    pub fn summary(&self) -> Summary<'_> {
        Summary {
            event: &self.name,
            total: self.event.profile.total(),
            unsampled: self.view.unsampled_total(),
            weight: self.view.weight(),
            loss: &self.event.profile.loss,
            census: &self.census,
            remedies: &self.remedies,
            estimates: &self.estimates,
            foreign_unit: self.event.unit.as_deref(),
        }
    }

    /// Sentences on what is estimated, and on what keeps the profile from being whole, with what to type: for the result itself.
    pub fn remarks(&self) -> impl Iterator<Item = String> {
        self.event.estimates().chain(self.hints.sentences())
    }

    /// Returns the sentences of [`Self::remarks`], with causes of any size.
    pub fn all_remarks(&self) -> impl Iterator<Item = String> {
        self.event.estimates().chain(self.hints.all_sentences())
    }

    /// Tells what this reading lacks and what to type against it. What the recorder saw, it has said; figures stand in the result.
    pub fn warn(&self, notices: &dyn Notices) {
        if self.event.unit.is_some() {
            self.event.estimates().for_each(|estimate| notices.warn(Harm::Samples, &estimate));
        }
        self.hints.warn(self.stacks_are_told, notices);
    }

    /// Leaves out what those of another event of the recording already say.
    pub fn leave_out_hints_of(&mut self, other: &Self) {
        self.hints.leave_out(&other.hints);
    }

    /// Returns a sentence on samples of a clock that stand for other code than they name, if these are many.
    pub fn blind_spot(&self) -> Option<&str> {
        self.blind_spot.as_deref()
    }

    /// Says for each reason why stacks end early how many do, and what helps whoever records them again.
    pub fn cut_stacks(&self, spaces: &SpaceTable) -> Vec<String> {
        let profile = &self.event.profile;
        let mut reasons = TruncationReason::ALL;
        let samples = profile.samples_by(|_, entry| match spaces.get(entry.space) {
            Space::Truncated(reason) => {
                reasons[reason.index()] = *reason;
                Some(reason.index())
            }
            _ => None,
        });
        let cut = reasons.into_iter().zip(&samples).filter(|(_, found)| found.anywhere > 0);
        // Who may not sample the kernel is not root.
        let as_root = !self.event.event.attr.flags.contains(decoder::AttrFlags::EXCLUDE_KERNEL);
        let (all, facts) = (profile.total().samples, StackFacts { as_root, ..StackFacts::default() });
        cut.map(|(reason, found)| cut_stacks_in_words(reason, found.anywhere, all, facts)).collect()
    }

    /// The unit of the view's weights: `samples`, `ns`, or the event's name.
    pub fn unit(&self) -> &str {
        match self.view.weight() {
            Weight::Samples => "samples",
            Weight::Period if self.event.is_clock() => "ns",
            Weight::Period if self.event.unit.is_some() => self.event.unit.as_deref().unwrap_or_default(),
            Weight::Period => &self.name,
        }
    }
}

/// Returns the hints, and a line for each of what has no name.
fn weigh<'r>(
    analysis: &Analysis,
    event: &EventProfile,
    census: &Census,
    resolve: impl Fn(PlaceId, &StackEntry) -> Option<&'r Resolution>,
) -> (Hints, Vec<String>) {
    let unwound = is_unwound(&event.event, &analysis.recording);
    let read_functions = analysis.recording.features().section(sections::id::STACK_TOTALS).is_some();
    let could_ask_runtimes = caption::could_ask_runtimes(analysis.recording.features());
    let advisor =
        Advisor::new(analysis.this_host, analysis.asked_servers, unwound, read_functions, could_ask_runtimes);
    let runtimes = Runtimes::new(&analysis.spaces, &analysis.seen_in);
    let advice = |nameless: &Nameless| {
        advisor.advice(nameless, &analysis.spaces, runtimes.runtime_of(analysis.spaces.get(nameless.space)))
    };
    let details = nameless(census, advice);
    (Hints::new(&event.profile, resolve, census, &analysis.spaces, &runtimes, &advisor), details)
}
