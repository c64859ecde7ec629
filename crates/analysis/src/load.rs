//! Reads a recording whole: counted, with names, and with what keeps it from being whole. Every view of a recording starts here.

use std::sync::Arc;
use std::time::SystemTime;

use decoder::{AttrFlags, SampleFormat};
use export::exchange::Resource;
use export::summary::{Summary, subtitle, subtitle_of_time};
use host::debuginfod;
use host::objects::{RecordedFiles, RetainedFiles};
use model::{
    EventIndex, Gap, Harm, Loss, Name, Pid, Resolution, Space, SpaceId, SpaceTable, StackEntry, Tid,
    Timestamp,
};
use perfdata::features::Features;
use perfdata::{Description, Event, sections};
use profile::waiting::{self, WaitInput, Waiting};
use profile::{Columns, Detail, PlaceId, Profile, SampleFilter, Shape, Show, TimeRange, View, Weight};
use symbolizer::NameStyle;

use crate::aggregate::{Aggregate, Aggregated, SeenIn};
use crate::foreign::ForeignFacts;
use crate::generated_code::runtimes::Runtime;
use crate::input::{Input, is_of_this_host};
use crate::replay::{Replayed, replay};
use crate::report::user_modules::UserModules;
use crate::report::{caption, missing};
use crate::request::{Measure, Request, Servers};
use crate::resources::Resources;
use crate::samples::TeeSink;
use crate::samples::events::is_named;
use crate::samples::explained_filter::{ExplainedFilter, start_of};
use crate::symbols::{Symbolizing, Symbols, downloads};
use crate::waits::{self, Estimate, Switches, ThreadTimes, Times, WaitSpans, describes_waits};
use crate::{Error, Notices, TimeWeight};

/// The samples of one event.
pub struct EventProfile {
    /// The event's position in [`Description::events`].
    pub index: usize,
    /// The event.
    pub event: Event,
    /// The samples, or the time of threads.
    pub profile: Profile,
    /// True if the profile's periods are nanoseconds of threads' time.
    pub is_time: bool,
    /// The unit of the profile's periods, where the event does not say.
    pub(crate) unit: Option<String>,
    /// Estimates that the time rests on.
    pub(crate) estimates: Vec<Estimate>,
    /// The times of the recording's first and last record, of whatever kind, if the profile has all samples of the event and they
    /// were taken all the time.
    pub(crate) recorded: Option<(Timestamp, Timestamp)>,
}

/// Returns true if an event has the time of parked tasks: it adds up to no time of threads.
pub(crate) fn is_of_tasks(event: &Event) -> bool {
    event.attr.is_dummy() && event.name.as_bytes() == sections::TASKS.as_bytes()
}

impl EventProfile {
    /// Returns true if the profile's periods are nanoseconds of time on a CPU or of threads.
    pub fn is_clock(&self) -> bool {
        let is_cpu_time = || self.unit.as_deref() == Some("ns") && self.event.name.as_bytes() == b"cpu";
        self.is_time || self.event.attr.is_cpu_clock() || is_cpu_time()
    }

    /// Returns the unit of a quantity of another tool, as pprof names units.
    pub fn unit_of_quantity(&self) -> Option<String> {
        let unit = self.unit.as_deref()?;
        Some(
            if unit == "ns" {
                "nanoseconds"
            } else if unit == self.event.name.to_string() {
                "count"
            } else {
                unit
            }
            .to_owned(),
        )
    }

    /// Returns between which times the profile was recorded: all of the recording, or from the first to the last sample where only
    /// some of its time or of its samples count.
    pub fn span(&self) -> Option<(Timestamp, Timestamp)> {
        self.recorded.or(self.profile.span)
    }

    /// Sentences on what is estimated.
    pub fn estimates(&self) -> impl Iterator<Item = String> {
        self.estimates.iter().map(|estimate| estimate.sentence.clone())
    }
}

/// A recording that has been read: counted, with names.
pub struct Analysis {
    /// The name of the recording in messages.
    pub name: String,
    /// Its events and features.
    pub recording: Description,
    /// The events that have samples, at least one.
    pub events: Vec<EventProfile>,
    /// The spaces that the entries of stacks are in.
    pub spaces: SpaceTable,
    /// Names.
    pub symbols: Symbols,
    /// The loss of all events together.
    pub loss: Loss,
    /// The spans in which samples are missing; known where single samples are kept with their times and CPUs.
    pub gaps: Vec<Gap>,
    /// The spans in which threads were off the CPU; known with [`Measure::SamplesAndWaits`].
    pub waits: WaitSpans,
    /// The spans in which switches were not recorded, so that `waits` has none, as start and end in nanoseconds of the recording's clock;
    /// in order, and known where `waits` are.
    pub switch_gaps: Vec<(u64, u64)>,
    /// The time of threads beside the samples, with [`Measure::SamplesAndTime`] and [`Measure::SamplesAndWaits`]. Without any sample it is the event.
    pub thread_time: Option<EventProfile>,
    /// The time of threads, each by itself, in pieces, with [`Request::waiting`].
    pub(crate) pieces: Option<Profile>,
    pub(crate) seen_in: SeenIn,
    /// The recorded target, in words.
    pub(crate) target: String,
    /// The time at which the file was last written.
    pub(crate) written: Option<SystemTime>,
    pub(crate) this_host: bool,
    pub(crate) asked_servers: bool,
    /// True if views show names as the linker and language runtimes have them.
    pub(crate) raw_names: bool,
    pub(crate) held: Arc<RetainedFiles>,
    pub(crate) files: Arc<RecordedFiles>,
    /// The user who answers for lines in the recording.
    pub(crate) recording_author: u32,
    /// The facts about the profile, if another tool made it.
    pub(crate) foreign: Option<ForeignFacts>,
    /// The programs and services of processes.
    pub(crate) resources: Resources,
    /// The bounds of the filter on the recording's clock.
    pub(crate) bounds: TimeRange,
}

impl Analysis {
    /// Reads a recording, and finds names for every address that was sampled.
    ///
    /// Starts threads, opens the recorded objects and their debug files, and asks debuginfod servers where that is wanted.
    ///
    /// # Errors
    /// Those of [`replay`], or of a profile of another tool, and where no sample is left: [`Error::NothingAdmitted`], [`Error::NoSuchEvent`],
    /// [`Error::SeveralEvents`], [`Error::NoSamples`]. Where time is asked of a recording without switches:
    /// [`Error::NoSwitches`].
    pub fn read(mut input: Input, request: &Request<'_>, notices: &dyn Notices) -> Result<Self, Error> {
        if let Some(foreign) = input.foreign.take() {
            return Self::of_foreign(*foreign, input, request, notices);
        }
        let this_host = is_of_this_host(input.reader.features());
        let paths = &request.symbols.paths;
        let symbolizing = Symbolizing::new(request.symbols)
            .with_names_of(&input, notices)
            .with_writing_time(input.written)
            .with_lifetimes(&input.lifetimes)
            .with_dumps(&input.dumps)
            .with_files(&input.held, &input.files);
        let (held, files) = (Arc::clone(&input.held), Arc::clone(&input.files));
        let recording_author = input.author;
        let sees_kernel = |event: &Event| !event.attr.flags.contains(AttrFlags::EXCLUDE_KERNEL);
        if this_host && request.kernel && input.reader.events().iter().any(sees_kernel) {
            symbolizing.read_kernel_ahead();
        }
        let (name, written) = (input.name.clone(), input.written);
        let shows_waits = matches!(request.measure, Measure::Time(TimeWeight::OffCpu | TimeWeight::Wall));
        if request.wakers && !shows_waits {
            return Err(Error::WakersWithoutWaits);
        }
        let is_of_cpu = matches!(request.measure, Measure::Time(TimeWeight::Cpu | TimeWeight::Latency));
        if !request.filter.parallelism.is_empty() && !is_of_cpu {
            return Err(Error::ParallelismOfOthers);
        }
        let counted = match request.measure {
            Measure::Samples | Measure::SamplesAndWaits | Measure::SamplesAndTime(_) => {
                count_samples(input, request, &symbolizing, notices)?
            }
            Measure::Time(weight) => count_time(input, request, weight, notices)?,
        };
        let Counted {
            replayed,
            mut events,
            mut thread_time,
            seen_in,
            mut times,
            mut waiting,
            gaps,
            waits,
            switch_gaps,
        } = counted;
        let (recording, mut tracker, loss) = (replayed.recording, replayed.tracker, replayed.loss);
        for event in &mut events {
            event.profile.loss = loss;
        }
        let resources = Resources::from_recording(recording.features(), recording.endian());
        let bounds = on_clock(&request.filter, recording.features()).time;
        let target = caption::target(recording.features(), |pid| {
            let comm = tracker.comm(pid, Tid(pid.0)).clone();
            (!comm.as_bytes().starts_with(b":")).then_some(comm)
        });
        let mut spaces = tracker.into_spaces();
        let pids = |space| seen_in.pids(space);
        let servers = match request.servers {
            Servers::None => None,
            servers => debuginfod::Settings::from_environment(paths, servers == Servers::Any),
        };
        let asked_servers = servers.is_some();
        if let Some(servers) = servers {
            let profiles = profiles(&events, &times, &waiting);
            downloads::fetch(&profiles, &spaces, pids, paths, servers, notices);
        }
        let all = profiles(&events, &times, &waiting);
        let places = all.into_iter().flat_map(|profile| profile.stacks.places().iter().copied());
        let mut symbols = Symbols::default();
        symbolizing.resolve(places, &spaces, pids, &mut symbols);
        for times in times.iter_mut().chain(&mut waiting) {
            times.name_variables(|space, wanted| {
                symbolizing.variables(spaces.get(space), &pids(space), wanted)
            });
        }
        if let (Some(times), Some(event)) = (times, thread_time.as_mut().or(events.first_mut())) {
            let resolve = |entry: &_| symbols.resolutions.get(entry);
            event.profile = times.with_states(&mut spaces, resolve);
            event.profile.loss = loss;
        }
        let pieces = waiting
            .map(|waiting| waiting.with_states(&mut spaces, |entry: &_| symbols.resolutions.get(entry)));
        for remark in symbols.remarks() {
            notices.warn(Harm::Names, &remark);
        }
        Ok(Self {
            name,
            recording,
            events,
            spaces,
            symbols,
            loss,
            gaps,
            waits,
            switch_gaps,
            thread_time,
            pieces,
            seen_in,
            target,
            written,
            this_host,
            asked_servers,
            raw_names: request.symbols.options.names == NameStyle::Linkage,
            held,
            files,
            recording_author,
            foreign: None,
            resources,
            bounds,
        })
    }

    /// Processes that a space was seen in, newest first: while one of them lives, its files can be opened as it sees them.
    pub fn pids(&self, space: SpaceId) -> Vec<Pid> {
        self.seen_in.pids(space)
    }

    /// Returns the resolution of an entry.
    pub fn resolve(&self, entry: &StackEntry) -> Option<&Resolution> {
        self.symbols.resolutions.get(entry)
    }

    /// Names the frames of a profile, and leaves out what `shape` says.
    pub fn view<'a>(&'a self, profile: &'a Profile, show: Show, weight: Weight, shape: &Shape) -> View<'a> {
        self.view_with(profile, |_, entry| self.resolve(entry), show, weight, shape)
    }

    /// As [`Self::view`], with the resolutions that `resolve` knows.
    pub(crate) fn view_with<'a, 'r>(
        &'a self,
        profile: &'a Profile,
        resolve: impl Fn(PlaceId, &StackEntry) -> Option<&'r Resolution>,
        show: Show,
        weight: Weight,
        shape: &Shape,
    ) -> View<'a> {
        let show = Show { raw_names: self.raw_names, ..show };
        View::shaped(profile, &self.spaces, resolve, show, weight, shape)
    }

    /// Describes a profile in one line: its size, what is missing in it, and what is estimated.
    pub fn subtitle(&self, event: &EventProfile, summary: &Summary<'_>) -> String {
        match event.is_time {
            true => subtitle_of_time(summary, &waits::activity(&event.profile, &self.spaces)),
            false => subtitle(summary),
        }
    }

    /// Returns the view of the time of threads that [`Self::waiting`] is found from; `None` if switches were not recorded, or it was not
    /// asked for.
    pub fn view_of_waiting(&self) -> Option<View<'_>> {
        let of_thread_time = || self.thread_time.as_ref().map(|time| &time.profile);
        let pieces = self.pieces.as_ref().or_else(of_thread_time)?;
        let show = Show { modules: true, ..Show::default() };
        (!pieces.samples().is_empty()).then(|| self.view(pieces, show, Weight::Period, &Shape::default()))
    }

    /// Finds who made threads wait, and what decided when the command ended. The frames are those of `view`.
    pub fn waiting(&self, view: &View<'_>) -> Waiting {
        let users = UserModules::new(&self.spaces);
        waiting::find(&WaitInput {
            view,
            spans: &self.waits.spans,
            wakers: &self.waits.waking_threads(),
            has_wakings: self.waits.has_wakings,
            gaps: &self.switch_gaps,
            command: self.waits.command,
            cpus: self.recording.features().cpus.map(|cpus| u64::from(cpus.online)),
            // The functions of an interpreter and of what compiles code are not those of the program that it runs.
            is_users: &|module| users.contains(module) && Runtime::of_object(module.as_bytes()).is_none(),
        })
    }

    /// Returns the resource of a process with this name: its service, host, container and program.
    pub fn resource(&self, pid: Pid, name: &Name) -> Resource {
        self.resources.resource(pid, name)
    }

    /// Returns when the first sample of any event was taken, in nanoseconds since 1970 where the recording says so, and how many
    /// nanoseconds after it the last one. Bounds that were asked for are the time instead, as far as the recording goes.
    pub fn time(&self) -> (Option<u64>, u64) {
        if let Some(facts) = &self.foreign {
            return facts.time();
        }
        let spans = || self.events.iter().filter_map(|event| event.profile.span);
        let (first, last) = (spans().map(|(first, _)| first).min(), spans().map(|(_, last)| last).max());
        let recorded =
            self.recording.features().sample_time.map(|(first, last)| (Timestamp(first), Timestamp(last)));
        let bounds = Some(self.bounds).filter(|bounds| !bounds.from_start);
        let (start, end) = (bounds.and_then(|bounds| bounds.start), bounds.and_then(|bounds| bounds.end));
        let first = start.map(|start| recorded.map_or(start, |(first, _)| start.max(first))).or(first);
        let last = end.map(|end| recorded.map_or(end, |(_, last)| end.min(last))).or(last);
        let started = first.and_then(|first| caption::wall_clock(self.recording.features(), first));
        (started, first.zip(last).map_or(0, |(first, last)| last.0.saturating_sub(first.0)))
    }

    /// Says in a line what was recorded, where, when, for how long, how often. `filters` says which samples are shown, in
    /// words; empty for all.
    pub fn title(&self, profile: &EventProfile, filters: &str) -> String {
        self.title_parts(profile, filters).join(" · ")
    }

    /// The parts of [`Self::title`]; the first says what was recorded.
    pub fn title_parts(&self, profile: &EventProfile, filters: &str) -> Vec<String> {
        let caption = caption::Caption {
            features: self.recording.features(),
            target: if self.target.is_empty() { &self.name } else { &self.target },
            event: &profile.event,
            span: profile.span(),
            written: self.written,
            filters,
            foreign: self.foreign.as_ref(),
        };
        caption.parts()
    }
}

/// A recording that was played, and what came of it.
struct Counted {
    replayed: Replayed,
    events: Vec<EventProfile>,
    /// Time that is asked for beside samples, whose profile is still to come.
    thread_time: Option<EventProfile>,
    seen_in: SeenIn,
    /// The time of threads, which becomes the profile of `thread_time`, or else of the only event.
    times: Option<Times>,
    /// The time of threads in pieces, with [`Request::waiting`].
    waiting: Option<Times>,
    gaps: Vec<Gap>,
    waits: WaitSpans,
    switch_gaps: Vec<(u64, u64)>,
}

/// Returns the profiles that a recording was counted into.
fn profiles<'p>(
    events: &'p [EventProfile],
    times: &'p Option<Times>,
    waiting: &'p Option<Times>,
) -> Vec<&'p Profile> {
    let times = times.iter().chain(waiting).map(|times| &times.profile);
    events.iter().map(|event| &event.profile).chain(times).collect()
}

fn count_samples(
    input: Input,
    request: &Request<'_>,
    symbolizing: &Symbolizing,
    notices: &dyn Notices,
) -> Result<Counted, Error> {
    let reader = &input.reader;
    // Waits have no cgroups.
    let tells_waits = request.filter.cgroups.is_empty();
    let switches = || {
        Switches::from_recording(reader.events(), reader.features(), reader.endian(), request.event)
            .filter(|_| tells_waits)
    };
    let without_samples = Detail { samples: None, ..request.detail };
    let filter = on_clock(&request.filter, reader.features());
    let sums = |weight, switches, detail| ThreadTimes::new(weight, switches, &filter, detail);
    let estimates = |switches: &Switches, weight, detail| {
        switches.estimates(ThreadTimes::counts_held(weight, &filter, detail))
    };
    let (mut asked, mut switch_gaps) = (None, Vec::new());
    let times = match request.measure {
        Measure::SamplesAndWaits => switches().map(|switches| {
            switch_gaps.clone_from(&switches.sampling.gaps);
            asked = Some((
                TimeWeight::Wall,
                switches.time,
                estimates(&switches, TimeWeight::Wall, request.detail),
            ));
            sums(TimeWeight::Wall, switches, request.detail).with_spans()
        }),
        Measure::SamplesAndTime(weight) => switches().map(|switches| {
            asked = Some((weight, switches.time, estimates(&switches, weight, without_samples)));
            sums(weight, switches, without_samples)
        }),
        Measure::Samples | Measure::Time(_) => None,
    };
    let waiting = request.waiting.then(switches).flatten().map(|switches| {
        switch_gaps.clone_from(&switches.sampling.gaps);
        let samples = Some(Columns { times: true, cpus: false });
        let detail = Detail { threads: true, pools: true, samples, ..Detail::default() };
        sums(TimeWeight::Wall, switches, detail).with_spans()
    });
    let keeps_address = |space: &Space| request.unmapped_addresses || symbolizing.may_name_unmapped(space);
    let admission = ExplainedFilter::new(request.filter.clone()).with_start_of(reader.features());
    let samples = Aggregate::new(admission, request.detail, &keeps_address)?;
    let mut sinks = TeeSink { first: TeeSink { first: samples, second: times }, second: waiting };
    let mut replayed = replay::<Error>(input, &request.symbols.paths, notices, &mut sinks)?;
    let TeeSink { first: TeeSink { first: aggregate, second }, second: waiting } = sinks;
    let times = second.map(|times| times.finish(&mut replayed.tracker));
    let waiting = waiting.map(|waiting| waiting.finish(&mut replayed.tracker));
    if let Some(why) = aggregate.why_none() {
        return Err(Error::NothingAdmitted { why });
    }
    let Aggregated { profiles, mut seen_in, gaps } = aggregate.finish(replayed.recording.events());
    let chosen = choose(profiles, &replayed, request);
    let (mut waits, mut thread_time, mut of_threads) = (WaitSpans::default(), None, None);
    if let Some((times, seen_waiting, spans)) = times {
        waits = spans;
        if let Some((weight, index, estimates)) = asked.filter(|_| !times.is_empty()) {
            seen_in.extend(seen_waiting);
            thread_time = Some(of_time(weight, index, estimates, &replayed)?);
            of_threads = Some(times);
        }
    }
    let waiting = waiting.filter(|(times, ..)| !times.is_empty()).map(|(times, seen, spans)| {
        waits = spans;
        seen_in.extend(seen);
        times
    });
    let events = match chosen {
        // Threads did nothing but wait.
        Err(Error::NoSamples) => vec![thread_time.take().ok_or(Error::NoSamples)?],
        chosen => chosen?,
    };
    let times = of_threads;
    Ok(Counted { replayed, events, thread_time, seen_in, times, waiting, gaps, waits, switch_gaps })
}

/// Returns the filter with times on the recording's clock, if its header says when it starts.
fn on_clock(filter: &SampleFilter, features: &Features) -> SampleFilter {
    let time = start_of(features).map_or(filter.time, |start| filter.time.on_clock(start));
    SampleFilter { time, ..filter.clone() }
}

/// Returns the event that stands for the time of threads, without its profile.
fn of_time(
    weight: TimeWeight,
    index: EventIndex,
    estimates: Vec<Estimate>,
    replayed: &Replayed,
) -> Result<EventProfile, Error> {
    let sampled = replayed.recording.event(index).cloned().ok_or(Error::NoSamples)?;
    let event = Event { name: Name::from(weight.in_words()), ..sampled };
    Ok(EventProfile {
        index: index.0 as usize,
        event,
        profile: Profile::default(),
        is_time: true,
        unit: None,
        estimates,
        recorded: None,
    })
}

fn count_time(
    input: Input,
    request: &Request<'_>,
    weight: TimeWeight,
    notices: &dyn Notices,
) -> Result<Counted, Error> {
    if !request.filter.cgroups.is_empty() {
        return Err(Error::WaitsWithoutCgroups { weight: weight.name() });
    }
    let reader = &input.reader;
    let switches =
        Switches::from_recording(reader.events(), reader.features(), reader.endian(), request.event);
    let switches = switches.ok_or(Error::NoSwitches { weight: weight.name() })?;
    let index = switches.time;
    if request.wakers && !switches.has_wakers() {
        return Err(Error::NoWakings);
    }
    let shows_spans =
        request.detail.samples.is_some() && matches!(weight, TimeWeight::Cpu | TimeWeight::Latency);
    let switch_gaps = if shows_spans { switches.sampling.gaps.clone() } else { Vec::new() };
    let filter = on_clock(&request.filter, reader.features());
    let estimates = switches.estimates(ThreadTimes::counts_held(weight, &filter, request.detail));
    let mut sums = ThreadTimes::new(weight, switches, &filter, request.detail);
    if request.wakers {
        sums = sums.with_wakers();
    }
    if shows_spans {
        sums = sums.with_spans();
    }
    let mut replayed = replay::<Error>(input, &request.symbols.paths, notices, &mut sums)?;
    let why_none = sums.why_none();
    let (times, seen_in, waits) = sums.finish(&mut replayed.tracker);
    if times.is_empty() {
        return Err(why_none.map_or(Error::NoSamples, |why| Error::NothingAdmitted { why }));
    }
    let events = vec![of_time(weight, index, estimates, &replayed)?];
    let times = Some(times);
    let (gaps, thread_time, waiting) = (Vec::new(), None, None);
    Ok(Counted { replayed, events, thread_time, seen_in, times, waiting, gaps, waits, switch_gaps })
}

/// Returns true if an event's stacks are the callers that unwinding found, then or now, and not frame pointers.
pub(crate) fn is_unwound(event: &Event, recording: &Description) -> bool {
    let then = recording.features().section(sections::id::STACK_TOTALS).is_some();
    then || event.attr.sample_format.contains(SampleFormat::STACK_USER)
}

/// Keeps the profiles that have samples and are wanted.
fn choose(
    profiles: Vec<Profile>,
    replayed: &Replayed,
    request: &Request<'_>,
) -> Result<Vec<EventProfile>, Error> {
    let Replayed { recording, loss, .. } = replayed;
    let profiles = recording.events().iter().cloned().zip(profiles).enumerate();
    let is_whole = SampleFilter { event: None, ..request.filter.clone() }.admits_all();
    let samples_throughout = caption::samples_throughout(recording.features());
    let profiles = profiles.map(|(index, (event, profile))| {
        let missing = missing::of_event(recording, index, &event, &profile, is_whole, loss.samples);
        EventProfile {
            index,
            event,
            profile,
            is_time: false,
            unit: None,
            estimates: missing.into_iter().collect(),
            recorded: replayed.span.filter(|_| is_whole && samples_throughout),
        }
    });
    let mut sampled: Vec<EventProfile> = profiles.filter(|event| event.profile.total().samples > 0).collect();
    // Events of waits that were recorded beside other events are shown as time, or if they are named; tasks beside others have columns and
    // pages of their own, or are named. Where nothing used a CPU, they are all that there is.
    let tells = |event: &Event| describes_waits(event, recording.features());
    let is_beside = recording.events().iter().any(|event| !tells(event) && !event.attr.is_dummy());
    if request.event.is_none() && is_beside {
        sampled.retain(|event| !tells(&event.event));
        let has_others = sampled.iter().any(|event| !is_of_tasks(&event.event));
        sampled.retain(|event| request.several_events || !has_others || !is_of_tasks(&event.event));
    }
    if sampled.is_empty() {
        return Err(Error::NoSamples);
    }
    let counts = sampled.iter().map(|event| (event.event.name.clone(), event.profile.total().samples));
    let counts: Vec<(Name, u64)> = counts.collect();
    let is_wanted = |event: &EventProfile| request.event.is_none_or(|name| is_named(&event.event, name));
    let chosen: Vec<EventProfile> = sampled.into_iter().filter(is_wanted).collect();
    match (chosen.len(), request.event) {
        (0, Some(wanted)) => Err(Error::NoSuchEvent { wanted: wanted.to_owned(), events: counts }),
        (2.., _) if !request.several_events => Err(Error::SeveralEvents { events: counts }),
        _ => Ok(chosen),
    }
}
