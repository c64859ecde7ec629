//! speedscope's own JSON (<https://www.speedscope.app/file-format-schema.json>).
//!
//! Each thread has a profile whose axis is the time from the first sample of the recording. Where its waits were recorded, it is evented:
//! calls and waits begin and end when they did. Else it is sampled: each sample stands for the time before it, and the time between is
//! empty. Of events that do not run with time, samples have their weights and follow each other in order of time.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use model::WaitSpan;
use serde_json::json;

use super::dictionary::{Dictionary, TimedSample};
use super::json_stream::Object;
use super::timeline::Timeline;
use super::{ExportedEvent, ExportedRecording};

/// The frames of a thread whose function is not known: it waits, or runs and has no sample there. They follow the functions.
const STATES: [&str; 3] = ["[blocked]", "[runnable]", "[running]"];
const BLOCKED: usize = 0;
const RUNNABLE: usize = 1;
const RUNNING: usize = 2;

/// Frames as indices, the outermost first.
type Frames = Vec<usize>;

/// An interval with one stack. Times are in the profile's unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Interval {
    start: u64,
    end: u64,
    stack: Stack,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stack {
    /// A stack of the dictionary.
    Sampled(u32),
    /// The number of a state.
    State(usize),
}

/// Writes a profile for each thread of each event.
pub(super) fn write(
    recording: &ExportedRecording<'_>,
    dictionary: &Dictionary,
    output: &mut dyn Write,
) -> io::Result<()> {
    let timeline = Timeline::new(recording, dictionary);
    let functions = dictionary.functions.values.iter().map(|function| match &*function.file {
        "" => json!({ "name": function.name }),
        file => json!({ "name": function.name, "file": file }),
    });
    let frames: Vec<_> = functions.chain(STATES.map(|state| json!({ "name": state }))).collect();
    let mut waits: HashMap<(i32, i32), Vec<WaitSpan>> = HashMap::new();
    for wait in recording.waits {
        waits.entry((wait.pid.0, wait.tid.0)).or_default().push(*wait);
    }
    let heaviest = dictionary.samples_by_thread();
    let mut profiles: Vec<(usize, u32, Vec<TimedSample>)> = Vec::new();
    for event in 0..recording.events.len() {
        let mut threads: BTreeMap<u32, Vec<TimedSample>> = BTreeMap::new();
        dictionary
            .timed(recording, event)
            .for_each(|sample| threads.entry(sample.thread).or_default().push(sample));
        if threads.is_empty() {
            dictionary
                .samples_of(event)
                .for_each(|counted| threads.entry(counted.thread).or_default().push(counted.untimed()));
        }
        profiles.extend(threads.into_iter().map(|(thread, samples)| (event, thread, samples)));
    }
    let samples_of = |thread: u32| heaviest.get(thread as usize).copied().unwrap_or(0);
    let active = profiles.iter().enumerate().filter(|(_, (event, ..))| *event == 0);
    let active =
        active.max_by_key(|(number, (_, thread, _))| (samples_of(*thread), std::cmp::Reverse(*number)));
    let mut whole = Object::begin(output)?;
    whole.value("$schema", &"https://www.speedscope.app/file-format-schema.json".into())?;
    whole.value("exporter", &"prof".into())?;
    whole.value("name", &recording.title.into())?;
    whole.value("activeProfileIndex", &active.map_or(0, |(number, _)| number).into())?;
    whole.value("shared", &json!({ "frames": frames }))?;
    whole.key("profiles")?.write_all(b"[")?;
    for (number, (event, thread, samples)) in profiles.iter().enumerate() {
        if number > 0 {
            whole.output().write_all(b",\n")?;
        }
        let Some(of_event) = recording.events.get(*event) else { continue };
        let name = name(dictionary, *thread, recording.events.len() > 1, of_event);
        let ids = dictionary.threads.values.get(*thread as usize).and_then(|thread| thread.ids);
        let waits = ids.filter(|_| *event == 0 && runs_with_time(of_event)).and_then(|ids| waits.get(&ids));
        let writer = ProfileWriter { dictionary, first_state: dictionary.functions.values.len() };
        match waits {
            Some(waits) => writer.evented(&name, &with_waits(samples, waits, timeline), whole.output())?,
            None => {
                let unit = if runs_with_time(of_event) || is_time(of_event) { "nanoseconds" } else { "none" };
                writer.sampled(&name, unit, &in_order(of_event, samples, timeline), whole.output())?;
            }
        }
    }
    whole.output().write_all(b"]")?;
    whole.end()?;
    output.write_all(b"\n")
}

/// Returns the name of a profile: the thread, and the event if there are several.
fn name(dictionary: &Dictionary, thread: u32, several: bool, event: &ExportedEvent<'_>) -> String {
    let thread = dictionary.threads.values.get(thread as usize);
    let name = thread.map_or_else(String::new, |thread| match thread.ids {
        Some((pid, tid)) => format!("{} {pid}/{tid}", thread.comm),
        None => thread.comm.clone(),
    });
    if several { format!("{name} {}", event.name) } else { name }
}

/// Returns true if an event's samples are taken as time goes by, so that they can be laid out on its axis.
fn runs_with_time(event: &ExportedEvent<'_>) -> bool {
    event.time.is_none() && (event.is_clock || event.frequency.is_some() && event.name.contains("cycles"))
}

fn is_time(event: &ExportedEvent<'_>) -> bool {
    matches!(event.weight_type(), (_, "nanoseconds"))
}

/// Returns the samples of a thread side by side: in time, each at the end of what it stands for, or else by weight alone.
fn in_order(event: &ExportedEvent<'_>, samples: &[TimedSample], timeline: Timeline) -> Vec<Interval> {
    let (runs, mut cursor) = (runs_with_time(event), 0_u64);
    let intervals = samples.iter().map(|sample| {
        let length = match (event.is_clock, runs) {
            (true, _) => sample.count.period,
            (false, true) => timeline.interval,
            (false, false) => sample.count.weight(event.view.weight()),
        };
        let at = sample.time.filter(|_| runs).map_or(0, |_| timeline.since_start(sample, 0));
        let start = cursor.max(at.saturating_sub(length));
        cursor = start.saturating_add(length);
        Interval { start, end: cursor, stack: Stack::Sampled(sample.stack) }
    });
    intervals.collect()
}

/// Returns the waits of a thread, and what it ran between them: up to each sample its stack, after the last one that of the last.
fn with_waits(samples: &[TimedSample], waits: &[WaitSpan], timeline: Timeline) -> Vec<Interval> {
    let since = |time: u64| time.saturating_sub(timeline.origin);
    let mut samples = samples.iter().map(|sample| (timeline.since_start(sample, 0), sample.stack)).peekable();
    let first = samples
        .peek()
        .map_or(0, |(time, _)| *time)
        .min(waits.first().map_or(u64::MAX, |wait| since(wait.start.0)));
    let (mut intervals, mut cursor) = (Vec::new(), first);
    let mut run = |intervals: &mut Vec<Interval>, cursor: &mut u64, end: u64| {
        let mut stack = Stack::State(RUNNING);
        while let Some((time, sampled)) = samples.next_if(|(time, _)| *time <= end) {
            stack = Stack::Sampled(sampled);
            push(intervals, cursor, time, stack);
        }
        push(intervals, cursor, end, stack);
    };
    for wait in waits {
        run(&mut intervals, &mut cursor, since(wait.start.0));
        let state = if wait.is_runnable { RUNNABLE } else { BLOCKED };
        push(&mut intervals, &mut cursor, since(wait.end.0), Stack::State(state));
    }
    for (time, stack) in samples {
        push(&mut intervals, &mut cursor, time, Stack::Sampled(stack));
    }
    intervals
}

/// Appends an interval up to `end`; the one before grows if its stack is the same.
fn push(intervals: &mut Vec<Interval>, cursor: &mut u64, end: u64, stack: Stack) {
    if end <= *cursor {
        return;
    }
    match intervals.last_mut() {
        Some(last) if last.stack == stack && last.end == *cursor => last.end = end,
        _ => intervals.push(Interval { start: *cursor, end, stack }),
    }
    *cursor = end;
}

struct ProfileWriter<'d> {
    dictionary: &'d Dictionary,
    /// The index of the first of [`STATES`].
    first_state: usize,
}

impl ProfileWriter<'_> {
    fn frames(&self, stack: Stack) -> Frames {
        match stack {
            Stack::Sampled(stack) => {
                self.dictionary.lines_of(stack).map(|(_, line)| line.function as usize).collect()
            }
            Stack::State(state) => vec![self.first_state + state],
        }
    }

    /// Writes a profile of samples that follow each other, with empty ones between those that do not.
    fn sampled(
        &self,
        name: &str,
        unit: &str,
        intervals: &[Interval],
        output: &mut dyn Write,
    ) -> io::Result<()> {
        let end = intervals.last().map_or(0, |last| last.end);
        let mut profile = begin("sampled", name, unit, end, output)?;
        let (mut weights, mut cursor) = (Vec::new(), 0);
        let samples = profile.key("samples")?;
        samples.write_all(b"[")?;
        for interval in intervals {
            if interval.start > cursor {
                samples.write_all(if weights.is_empty() { b"[]" } else { b",[]" })?;
                weights.push(interval.start - cursor);
            }
            if !weights.is_empty() {
                samples.write_all(b",")?;
            }
            serde_json::to_writer(&mut *samples, &self.frames(interval.stack))?;
            weights.push(interval.end - interval.start);
            cursor = interval.end;
        }
        samples.write_all(b"]")?;
        serde_json::to_writer(profile.key("weights")?, &weights)?;
        profile.end()
    }

    /// Writes a profile of frames that open and close.
    fn evented(&self, name: &str, intervals: &[Interval], output: &mut dyn Write) -> io::Result<()> {
        let end = intervals.last().map_or(0, |last| last.end);
        let mut profile = begin("evented", name, "nanoseconds", end, output)?;
        let events = profile.key("events")?;
        events.write_all(b"[")?;
        let (mut open, mut cursor, mut is_first) = (Frames::new(), 0, true);
        let mut event = |kind: char, frame: usize, at: u64| {
            let comma = if std::mem::take(&mut is_first) { "" } else { "," };
            write!(events, "{comma}{{\"type\":\"{kind}\",\"frame\":{frame},\"at\":{at}}}")
        };
        for interval in intervals {
            let frames = self.frames(interval.stack);
            let touches = interval.start == cursor;
            let same = open.iter().zip(&frames).take_while(|(one, other)| one == other).count();
            let kept = if touches { same } else { 0 };
            while open.len() > kept
                && let Some(frame) = open.pop()
            {
                event('C', frame, cursor)?;
            }
            for &frame in frames.get(kept..).unwrap_or_default() {
                event('O', frame, interval.start)?;
            }
            (open, cursor) = (frames, interval.end);
        }
        while let Some(frame) = open.pop() {
            event('C', frame, cursor)?;
        }
        events.write_all(b"]")?;
        profile.end()
    }
}

/// Begins a profile of the whole time.
fn begin<'o>(
    kind: &str,
    name: &str,
    unit: &str,
    end: u64,
    output: &'o mut dyn Write,
) -> io::Result<Object<'o>> {
    let mut profile = Object::begin(output)?;
    profile.value("type", &kind.into())?;
    profile.value("name", &name.into())?;
    profile.value("unit", &unit.into())?;
    profile.value("startValue", &0.into())?;
    profile.value("endValue", &end.into())?;
    Ok(profile)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Pid, Tid, Timestamp};
    use profile::Count;

    fn timeline() -> Timeline {
        Timeline::at(1_000, 10)
    }

    fn sample(time: u64, stack: u32) -> TimedSample {
        TimedSample { thread: 0, stack, time: Some(time), cpu: None, count: Count { samples: 1, period: 10 } }
    }

    #[test]
    fn between_waits_each_sample_stands_for_the_time_before_it() {
        let wait = |start, end, is_runnable| WaitSpan {
            pid: Pid(1),
            tid: Tid(1),
            start: Timestamp(start),
            end: Timestamp(end),
            is_runnable,
            waker: None,
        };
        let samples = [sample(1_010, 7), sample(1_020, 8), sample(1_060, 9)];
        let waits = [wait(1_025, 1_045, false), wait(1_045, 1_050, true)];
        let intervals = with_waits(&samples, &waits, timeline());
        let parts: Vec<_> = intervals.iter().map(|part| (part.start, part.end, part.stack)).collect();
        assert_eq!(
            parts,
            [
                (10, 25, Stack::Sampled(8)),
                (25, 45, Stack::State(BLOCKED)),
                (45, 50, Stack::State(RUNNABLE)),
                (50, 60, Stack::Sampled(9)),
            ]
        );
    }
}
