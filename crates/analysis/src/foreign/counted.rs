//! Counts a profile of another tool as a recording is counted, so that every view of recordings shows it.

use std::sync::Arc;

use decoder::{Attr, AttrFlags};
use export::exchange::SampleLabel;
use model::{EventIndex, Harm, Loss, Name, Pid, Tid};
use perfdata::Event;
use profile::{Count, Detail, Profile, Sample, SampleFacts, StackId, ThreadId, TimeRange, Where};
use symbolizer::NameStyle;

use super::facts::ForeignFacts;
use super::{ForeignProfile, Format, Quantity, Samples, Thread};
use crate::aggregate::SeenIn;
use crate::input::Input;
use crate::load::{Analysis, EventProfile};
use crate::request::{Measure, Request};
use crate::resources::Resources;
use crate::samples::explained_filter::ExplainedFilter;
use crate::symbols::{Symbolizing, Symbols};
use crate::waits::{Estimate, WaitSpans};
use crate::{Error, Notices, TimeWeight};

impl Quantity {
    /// Returns true if this is what was typed after `--event`: `cpu`, or `cpu/nanoseconds`.
    fn is_named(&self, typed: &str) -> bool {
        self.name == typed || typed.split_once('/') == Some((&self.name, &self.unit))
    }

    /// Returns an event that stands for it. Values of samples differ, as periods do where the kernel adjusts them: they are what weighs.
    fn event(&self, like: &Event) -> Event {
        let name = Name::from(self.name.as_str());
        Event { attr: attr(), ids: Vec::new(), name, layout: like.layout.clone() }
    }

    /// Returns the unit of its values as outputs write it.
    fn unit_in_words(&self) -> String {
        match self.unit.as_str() {
            "nanoseconds" => "ns".to_owned(),
            "" | "count" => self.name.clone(),
            unit => unit.to_owned(),
        }
    }
}

/// Returns what stands for the events of a profile that has no records.
pub(crate) fn events(foreign: &ForeignProfile) -> Vec<(Attr, Name)> {
    foreign.quantities.iter().map(|quantity| (attr(), Name::from(quantity.name.as_str()))).collect()
}

/// An event of no kind that a kernel knows, whose samples have different weights.
fn attr() -> Attr {
    Attr { kind: u32::MAX, flags: AttrFlags::FREQ, ..Attr::default() }
}

impl ForeignProfile {
    /// Returns the index of the quantity that `wanted` names, or that is shown where nothing is asked for.
    fn choose(&self, wanted: Option<&str>) -> Result<usize, Error> {
        let Some(wanted) = wanted else { return Ok(self.default_quantity) };
        let found = self.quantities.iter().position(|quantity| quantity.is_named(wanted));
        found.ok_or_else(|| Error::NoSuchQuantity {
            wanted: wanted.to_owned(),
            quantities: self.quantities.iter().map(|quantity| quantity.name.clone()).collect(),
        })
    }

    /// Returns true if what `wanted` names, or what is shown where nothing is asked for, is the number of samples.
    pub(crate) fn counts_samples(&self, wanted: Option<&str>) -> bool {
        self.choose(wanted).is_ok_and(|chosen| Some(chosen) == self.sample_count())
    }

    /// Returns the index of the quantity that counts samples, if there is one.
    fn sample_count(&self) -> Option<usize> {
        let is_count = |quantity: &Quantity| matches!(quantity.unit.as_str(), "" | "count");
        self.quantities.iter().position(|quantity| quantity.name == "samples" && is_count(quantity))
    }

    /// Returns an error if the request asks for something that the profile does not say.
    fn check(&self, request: &Request<'_>) -> Result<(), Error> {
        let filter = &request.filter;
        let lacks = |what, flag| Err(Error::Lacks { format: self.format, what, flag });
        let weight = match request.measure {
            Measure::Time(TimeWeight::OffCpu) => Some("--weight offcpu"),
            Measure::Time(_) => Some("--weight wall"),
            _ => None,
        };
        match () {
            () if filter.time != Default::default() => lacks("when a sample was taken", "--time"),
            () if !filter.cpus.is_empty() => lacks("where a sample was taken", "--cpu"),
            () if request.detail.cpus => lacks("where a sample was taken", "--sort cpu"),
            () if !filter.containers.is_empty() => {
                lacks("in which container a sample was taken", "--container")
            }
            () if request.detail.containers => {
                lacks("in which container a sample was taken", "--by-container")
            }
            () if !filter.cgroups.is_empty() => lacks("in which cgroup a sample was taken", "--cgroup"),
            () if request.detail.cgroups => lacks("in which cgroup a sample was taken", "--sort cgroup"),
            () if !filter.comms.is_empty() && !self.tells_threads => {
                lacks("which threads there were", "--comm")
            }
            () if !filter.pids.is_empty() && !self.has_pids() => lacks("which processes there were", "--pid"),
            () if !filter.tids.is_empty() && !self.has_tids() => lacks("which threads there were", "--tid"),
            () => weight.map_or(Ok(()), |flag| lacks("when threads ran and waited", flag)),
        }
    }

    fn has_pids(&self) -> bool {
        self.threads.iter().any(|thread| thread.pid.is_some())
    }

    fn has_tids(&self) -> bool {
        self.threads.iter().any(|thread| thread.tid.is_some())
    }

    /// Counts the samples that a filter admits by one of their values.
    fn count(&self, quantity: usize, request: &Request<'_>) -> Result<Profile, Error> {
        let has_ids = self.has_tids();
        let detail = Detail {
            threads: request.detail.threads && has_ids,
            pools: request.detail.pools && has_ids,
            processes: request.detail.processes && self.has_pids(),
            ..request.detail
        };
        let mut profile = Profile::new(detail);
        profile.stacks = self.stacks.clone();
        let mut filter = ExplainedFilter::new(request.filter.clone());
        let number = |profile: &mut Profile, thread: &Thread, labels: u32| {
            let Thread { comm, pid, tid, labels: known } = thread;
            let labels = (request.all_quantities && !known.is_empty()).then_some(labels);
            let place = Where { labels, ..Where::default() };
            let pid = pid.unwrap_or(Pid::NONE);
            let tid = tid.unwrap_or(Tid(pid.0));
            let facts = SampleFacts {
                comm,
                pid,
                tid,
                cpu: None,
                event: EventIndex(0),
                time: None,
                container: None,
                cgroup: None,
            };
            filter.admits(&facts).then(|| profile.thread_on(comm, pid, tid, &place, || comm.clone()))
        };
        let threads: Vec<Option<ThreadId>> = {
            let mut number = number;
            self.threads
                .iter()
                .zip(0..)
                .map(|(thread, labels)| number(&mut profile, thread, labels))
                .collect()
        };
        if threads.iter().all(Option::is_none)
            && let Some(why) = filter.why_none()
        {
            return Err(Error::NothingAdmitted { why });
        }
        let counter = self.sample_count();
        let sample_counts = self.values.iter().skip(counter.unwrap_or(0)).step_by(self.quantities.len());
        let all = sample_counts.fold(0_u64, |sum, &count| sum.saturating_add(count));
        let keeps_single = counter.is_some() && all <= MAX_SINGLE_SAMPLES;
        let values = self.values.chunks_exact(self.quantities.len());
        for (&Samples { thread, stack }, values) in self.samples.iter().zip(values) {
            let Some(Some(thread)) = threads.get(thread as usize).copied() else { continue };
            let period = values.get(quantity).copied().unwrap_or(0);
            if period == 0 {
                continue;
            }
            let samples = counter.and_then(|counter| values.get(counter)).copied().unwrap_or(1);
            add(&mut profile, thread, stack, Count { samples, period }, keeps_single);
        }
        Ok(profile)
    }
}

/// The most samples that are kept singly where single samples are asked for: more of them take more memory than they tell. Beyond, all of a
/// stack are one.
const MAX_SINGLE_SAMPLES: u64 = 1 << 20;

fn add(profile: &mut Profile, thread: ThreadId, stack: StackId, count: Count, keeps_single: bool) {
    if profile.detail().samples.is_none() {
        return profile.add_counts(thread, stack, count);
    }
    // Nobody knows how they followed each other, nor how the weight is distributed among them.
    let single = if keeps_single { count.samples.clamp(1, count.period) } else { 1 };
    let (share, rest) = (count.period / single, count.period % single);
    for number in 0..single {
        let period = share + u64::from(number < rest);
        profile.count(Sample { thread, stack, period, time: None, cpu: None, is_continued: false });
    }
}

impl Analysis {
    /// Reads a profile of another tool. Frames that have no name in it get one from the object they lie in, if that is here.
    ///
    /// # Errors
    /// [`Error::Lacks`] if something is asked for that it does not say; [`Error::NoSuchQuantity`], [`Error::NothingAdmitted`] and
    /// [`Error::NoSamples`] if nothing is left.
    pub(crate) fn of_foreign(
        mut foreign: ForeignProfile,
        input: Input,
        request: &Request<'_>,
        notices: &dyn Notices,
    ) -> Result<Self, Error> {
        foreign.check(request)?;
        let chosen = foreign.choose(request.event)?;
        for remark in &foreign.remarks {
            notices.warn(Harm::Samples, &format!("{}: {remark}", input.name));
        }
        let others: Vec<&str> = foreign.quantities.iter().map(|quantity| quantity.name.as_str()).collect();
        if request.event.is_none() && !request.all_quantities && others.len() > 1 {
            notices.say(&format!(
                "{} has {}; `{}` is shown, --event NAME chooses",
                input.name,
                others.join(", "),
                foreign.default_quantity().name
            ));
        }
        let recording = input.reader.description().clone();
        let like = recording.event(EventIndex(0)).ok_or(Error::NoSamples)?;
        let shows_all = request.all_quantities && request.event.is_none();
        let others_too = (0..foreign.quantities.len()).filter(|&other| shows_all && other != chosen);
        let mut events = Vec::new();
        for index in std::iter::once(chosen).chain(others_too) {
            let profile = foreign.count(index, request)?;
            if profile.total().samples == 0 {
                continue;
            }
            let quantity = &foreign.quantities[index];
            events.push(EventProfile {
                index,
                event: quantity.event(like),
                profile,
                is_time: false,
                unit: Some(quantity.unit_in_words()),
                estimates: foreign.estimates(request),
                recorded: None,
            });
        }
        let Some(event) = events.first() else { return Err(Error::NoSamples) };
        let mut symbols = Symbols::default();
        symbols.resolutions = std::mem::take(&mut foreign.resolutions);
        if request.symbols.reads_sources {
            let named =
                event.profile.stacks.places().iter().filter_map(|entry| symbols.resolutions.get(entry));
            named.for_each(|found| symbols.source_owners.add(found, &[input.author]));
        }
        let unresolved = std::mem::take(&mut foreign.unresolved);
        Symbolizing::new(request.symbols).with_writing_time(input.written).resolve(
            unresolved,
            &foreign.spaces,
            |_| Vec::new(),
            &mut symbols,
        );
        for remark in symbols.remarks() {
            notices.warn(Harm::Names, &remark);
        }
        let facts = ForeignFacts {
            format: foreign.format,
            started_unix_ns: foreign.started_unix_ns,
            duration_ns: foreign.duration_ns,
            labels: foreign.threads.into_iter().map(|thread| thread.labels).collect(),
        };
        Ok(Self {
            target: input.name.clone(),
            name: input.name,
            recording,
            events,
            spaces: foreign.spaces,
            symbols,
            loss: Loss::default(),
            gaps: Vec::new(),
            waits: WaitSpans::default(),
            switch_gaps: Vec::new(),
            thread_time: None,
            pieces: None,
            seen_in: SeenIn::default(),
            written: input.written,
            this_host: false,
            asked_servers: false,
            raw_names: request.symbols.options.names == NameStyle::Linkage,
            held: Arc::clone(&input.held),
            files: Arc::clone(&input.files),
            recording_author: input.author,
            foreign: Some(facts),
            resources: Resources::default(),
            bounds: TimeRange::default(),
        })
    }

    /// Returns the labels of samples by the numbers that threads have of them, if the profile is one of another tool.
    pub fn foreign_labels(&self) -> &[Vec<SampleLabel>] {
        self.foreign.as_ref().map_or(&[], |facts| &facts.labels)
    }

    /// Returns the format of the profile, if it is one of another tool.
    pub fn foreign_format(&self) -> Option<Format> {
        self.foreign.as_ref().map(|facts| facts.format)
    }
}

impl ForeignProfile {
    /// Says what a view that was asked for cannot show.
    fn estimates(&self, request: &Request<'_>) -> Vec<Estimate> {
        let sentence = |what: &str| Estimate {
            brief: String::new(),
            sentence: format!("{what}: this is {}", self.format),
        };
        let asks_for_threads = request.detail.threads && !self.has_tids();
        let threads = asks_for_threads.then(|| {
            sentence(match self.tells_threads {
                true => "samples have names of threads, and no numbers",
                false => "samples do not say of which thread they are",
            })
        });
        threads.into_iter().collect()
    }
}
