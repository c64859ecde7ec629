//! How the engine receives a recording: records in the order of time, the ends of rounds, the end.

use std::collections::HashSet;
use std::time::{Duration, Instant};
use std::{io, mem};

use analysis::jit_dumps::has_clock_of_dumps;
use crossbeam_channel::TryRecvError;
use decoder::{AttrFlags, Sample, kind};
use model::{EventIndex, Loss, SpaceId, Timestamp};
use recorder::unwind::{MIN_SPACES_TO_FORGET, OrderedConsumer};
use recorder::{Ending, LostCount, RecordedEvent, Recording, RecordingSink, SwitchUpdate};
use rustc_hash::FxBuildHasher;
use tracker::{Events, OrderedRecord, Tracker};

use super::engine::{CountedLost, Engine, EngineEvent, EngineSettings, Interval, NewestSample, OwnCpu};
use super::events::LiveEvents;
use super::thread_time::ThreadTime;
use crate::snapshot::Span;

/// The time without samples after which the window moves on by our own clock.
const MAX_SAMPLE_GAP: Duration = Duration::from_secs(1);

impl<F: FnMut(EngineEvent)> OrderedConsumer for Engine<F> {
    fn tracker(&mut self) -> &mut Tracker {
        &mut self.samples.tracker
    }

    fn record(&mut self, time: Timestamp, record: OrderedRecord<'_>) -> io::Result<()> {
        // Records that the recorder has synthesized belong to no event. They have the layout of the sideband event.
        let event =
            record.event.or_else(|| self.events.sideband().filter(|_| record.raw.kind != kind::SAMPLE));
        let Some(event) = event else {
            self.add_loss(Loss { unattributed: 1, ..Loss::default() });
            return Ok(());
        };
        self.advance_to(time);
        let Self { samples, dumps, events, counter, files, .. } = self;
        if record.raw.kind == kind::MMAP2
            && let Some(layout) = events.layout(Some(event))
            && let Ok(mapping) = layout.decode(&record.raw)
        {
            files.add_to(&mut samples.tracker, &mapping);
        }
        let record = OrderedRecord { event: Some(event), ..record };
        let Ok(()) = samples.read(&*events, record, None, counter);
        if let Some((pid, path)) = counter.mapped_dump.take() {
            let has_clock = events.attr(event).is_some_and(has_clock_of_dumps);
            if dumps.start(pid, &path, has_clock, &mut samples.tracker) {
                dumps.play(time, &mut samples.tracker);
            }
        }
        Ok(())
    }

    fn sample(&mut self, time: Timestamp, event: EventIndex, sample: Sample<'_>) -> io::Result<()> {
        self.advance_to(time);
        let Ok(()) = self.samples.read_decoded(&self.events, event, sample, &mut self.counter);
        Ok(())
    }

    /// Lets the tracker forget spaces that no stack of the window lies in, and no stack of a thread that is blocked.
    fn forget_spaces(&mut self, is_known: &dyn Fn(SpaceId) -> bool) {
        if !self.has_unused_spaces && self.samples.tracker.spaces().len() <= self.max_spaces {
            return;
        }
        self.has_unused_spaces = false;
        let blocked = self.counter.time.iter().flat_map(|time| time.times().stacks().places());
        let entries = self.counter.window.stacks.places().iter().chain(blocked);
        let used: HashSet<SpaceId, FxBuildHasher> = entries.map(|entry| entry.space).collect();
        let is_used = |space| used.contains(&space) || self.dumps.plays(space) || is_known(space);
        self.samples.tracker.forget_spaces(is_used);
        let spaces = self.samples.tracker.spaces();
        self.counter.mapper.seen_in.retain(|space| spaces.find(space).is_some());
        if let Some(time) = &mut self.counter.time {
            time.retain_seen_in(|space| spaces.find(space).is_some());
        }
        self.dumps.retain(|space| spaces.find(space).is_some());
        self.max_spaces = MIN_SPACES_TO_FORGET.max(2 * spaces.len());
    }
}

impl<F: FnMut(EngineEvent)> RecordingSink for Engine<F> {
    fn begin(&mut self, recording: &Recording) -> io::Result<()> {
        self.cpus = recording.cpus.len() as u32;
        self.files = recording.files.clone();
        if self.settings.reads_resources {
            self.counter.resources = recording.resources.clone();
        }
        for (path, build_id) in recording.kernel.build_ids() {
            self.samples.tracker.add_build_id(path.as_bytes(), build_id);
        }
        let samples_kernel =
            |event: &RecordedEvent| !event.sideband && !event.attr.flags.contains(AttrFlags::EXCLUDE_KERNEL);
        if recording.events.iter().any(samples_kernel) {
            self.symbol_worker.expect_kernel();
        }
        self.events = LiveEvents::from_recording(recording);
        if let Some(weight) = self.settings.time {
            let EngineSettings { interval, intervals_apart, .. } = self.settings;
            let time = ThreadTime::new(weight, recording, &self.counter.window, interval, intervals_apart);
            let time = time.ok_or_else(|| io::Error::other("the recording does not watch switches"))?;
            self.events.count_time(weight.in_words(), time.times().event());
            self.counter.time = Some(time);
        }
        Ok(())
    }

    fn started(&mut self) -> io::Result<()> {
        self.started_at = Instant::now();
        self.last_snapshot_at = self.started_at;
        self.own_cpu = OwnCpu::now();
        (self.send)(EngineEvent::Started);
        Ok(())
    }

    fn add_loss(&mut self, loss: Loss) {
        self.samples.add_loss(loss);
    }

    fn finished_round(&mut self) -> io::Result<()> {
        self.has_polled_dumps = false;
        if let Some(time) = &mut self.counter.time {
            time.finish_round(&mut self.samples.tracker, &mut self.counter.window);
        }
        if let Some(newest) = self.counter.window.newest().filter(|&newest| newest > self.newest_sample.time)
        {
            self.newest_sample = NewestSample { time: newest, seen_at: Instant::now() };
        }
        self.run_due_work();
        Ok(())
    }

    fn checkpoint(&mut self) -> io::Result<()> {
        // While nothing runs, no sample brings a newer time, and the samples' clock may be one that cannot be read here.
        let since = self.newest_sample.seen_at.elapsed();
        if since > MAX_SAMPLE_GAP && self.counter.time.is_none() {
            let since = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
            self.counter.window.expire(self.newest_sample.time.saturating_add(since));
        }
        Ok(())
    }

    fn wants_round_soon(&mut self) -> bool {
        // While an interval waits for its functions, the next one cannot be sent either.
        self.unsent.is_none() && self.counter.time.as_ref().is_some_and(ThreadTime::wants_round_soon)
    }

    fn set_lost(&mut self, lost: &[LostCount]) {
        let total = |sideband: bool| {
            let events =
                (0..).zip(lost).filter(|(event, _)| self.events.is_sideband(EventIndex(*event)) == sideband);
            events.fold(LostCount::default(), |sum, (_, lost)| sum + *lost)
        };
        self.counted_lost = CountedLost { samplers: total(false), sideband: total(true) };
    }

    fn update_switches(&mut self, news: &[SwitchUpdate]) {
        if let Some(time) = &mut self.counter.time {
            time.learn(news);
        }
    }

    fn end(&mut self, ending: &Ending) -> io::Result<()> {
        let length = self.counter.time.as_mut().and_then(|time| {
            let end = ending.watched.map(|watched| watched.end);
            time.finish(end, &mut self.samples.tracker, &mut self.counter.window);
            time.end_interval(true)
        });
        if self.commands.try_recv() == Err(TryRecvError::Disconnected) {
            // The screen has been left: nobody receives snapshots.
            return Ok(());
        }
        if let Some(Interval { counted, loss, .. }) = self.unsent.take() {
            self.send_named_snapshot(&counted, loss);
        }
        self.has_ended = true;
        let is_interval = self.settings.intervals_apart;
        let mut counted = self.counter.window.counted(if is_interval { Span::Start } else { self.span });
        if is_interval {
            counted.covered = length.unwrap_or_else(|| self.last_snapshot_at.elapsed());
        }
        match &ending.lost {
            Some(lost) => self.set_lost(lost),
            None => self.counted_lost.samplers.unread = ending.full_rings,
        }
        let loss = self.loss();
        self.send_named_snapshot(&counted, loss);
        Ok(())
    }
}

impl<F: FnMut(EngineEvent)> Engine<F> {
    /// Does what happened before the time of the next record beside the records: cuts the time of threads, and maps generated
    /// functions of jitdumps.
    fn advance_to(&mut self, time: Timestamp) {
        // Once per round is enough: all records of a round were written before the dumps are read here.
        if !mem::replace(&mut self.has_polled_dumps, true) {
            self.dumps.check_growth();
        }
        if let Some(threads) = &mut self.counter.time {
            threads.advance(time.0, &mut self.samples.tracker, &mut self.counter.window);
        }
        if self.dumps.is_due(time) {
            self.dumps.play(time, &mut self.samples.tracker);
        }
    }
}
