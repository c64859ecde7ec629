//! Tracks: the samples of a thread in the order of time, with markers for the CPUs that it ran on.

use std::collections::HashMap;
use std::io::{self, Write};

use model::Gap;
use profile::Weight;
use rustc_hash::FxBuildHasher;
use serde_json::{Value, json};

use super::super::dictionary::Dictionary;
use super::super::json_stream::{Object, column, repeated, table};
use super::super::timeline::Timeline;
use super::super::{ExportedEvent, ExportedRecording};
use super::milliseconds;
use super::tables::Tables;

/// A stretch on a CPU ends where samples are further apart than this many sampling intervals.
const MAX_STRETCH_INTERVALS: u64 = 3;
/// The phase of a marker with a start and an end.
const INTERVAL: u32 = 1;
/// The resolution of times, in nanoseconds.
const RESOLUTION_NS: u64 = 1000;
/// Stands for an unknown CPU.
const NO_CPU: u32 = u32::MAX;

/// The samples of one event of one thread, whatever its names were.
pub(super) struct Track {
    event: usize,
    /// The thread under the name that it had for most samples.
    thread: u32,
    /// The number of samples under each name.
    names: Vec<(u32, u64)>,
    /// The stack of each sample, as an index of the stack table.
    stacks: Vec<Option<u32>>,
    /// The time of each sample, in nanoseconds since the first sample of the recording.
    times: Vec<u64>,
    cpus: Vec<u32>,
    periods: Vec<u64>,
    /// True for the main track of its process.
    is_main: bool,
}

/// An event and a thread: by its pid and tid, or by its name where threads of a name are one.
type TrackKey = (usize, Result<(i32, i32), u32>);

/// The tracks of all threads with samples.
pub(super) struct Tracks {
    pub(super) list: Vec<Track>,
    pub(super) timeline: Timeline,
}

/// Consecutive samples on one CPU. Times are in nanoseconds.
struct Stretch {
    cpu: u32,
    start: u64,
    end: u64,
    samples: u64,
}

impl Tracks {
    pub(super) fn new(
        recording: &ExportedRecording<'_>,
        dictionary: &Dictionary,
        tables: &mut Tables,
    ) -> Self {
        let timeline = Timeline::new(recording, dictionary);
        let mut list: Vec<Track> = Vec::new();
        let mut numbers: HashMap<TrackKey, usize, FxBuildHasher> = HashMap::default();
        for event in 0..recording.events.len() {
            for (sample, index) in dictionary.timed(recording, event).zip(0_u64..) {
                let ids = dictionary.threads.values.get(sample.thread as usize).and_then(|thread| thread.ids);
                let number = *numbers.entry((event, ids.ok_or(sample.thread))).or_insert_with(|| {
                    list.push(Track::new(event, sample.thread));
                    list.len() - 1
                });
                let Some(track) = list.get_mut(number) else { continue };
                track.count_name(sample.thread);
                track.stacks.push(tables.stack(dictionary, sample.stack));
                track.times.push(timeline.since_start(&sample, index));
                track.cpus.push(sample.cpu.unwrap_or(NO_CPU));
                track.periods.push(sample.count.period);
            }
        }
        mark_main(&mut list, dictionary);
        Self { list, timeline }
    }

    /// Returns the index of the track of the first event with most samples.
    pub(super) fn heaviest(&self) -> Option<[usize; 1]> {
        let tracks = self.list.iter().enumerate().filter(|(_, track)| track.event == 0);
        tracks.max_by_key(|(at, track)| (track.times.len(), std::cmp::Reverse(*at))).map(|(at, _)| [at])
    }

    pub(super) fn write(
        &self,
        number: usize,
        recording: &ExportedRecording<'_>,
        dictionary: &Dictionary,
        tables: &mut Tables,
        output: &mut dyn Write,
    ) -> io::Result<()> {
        let (Some(track), mut thread) = (self.list.get(number), Object::begin(output)?) else {
            return Ok(());
        };
        let (Some(event), Some(of)) =
            (recording.events.get(track.event), dictionary.threads.values.get(track.thread as usize))
        else {
            return thread.end();
        };
        let (pid, tid) = match of.ids {
            Some((pid, tid)) if track.event == 0 => (pid.to_string(), tid.into()),
            Some((pid, tid)) => (pid.to_string(), format!("{tid} {}", event.name).into()),
            // All threads of one name together.
            None => ("0".to_owned(), Value::from(format!("{} {}", of.comm, event.name))),
        };
        let name = match track.event {
            0 => of.comm.clone(),
            _ => format!("{} ({})", of.comm, event.name),
        };
        let start = track.times.first().copied().unwrap_or(0);
        header(
            &mut thread,
            &pid,
            &tid,
            &name,
            of.process.as_deref().unwrap_or(&of.comm),
            start,
            track.is_main,
        )?;
        let length = track.times.len();
        let deltas = track.times.iter().scan(0, |before, time| {
            // Times are rounded before the subtraction, so that the deltas add up to the rounded time.
            let now = time / RESOLUTION_NS;
            let delta = now.saturating_sub(*before);
            *before = now;
            Some(delta as f64 / RESOLUTION_NS as f64)
        });
        let mut columns = vec![("stack", column(&track.stacks)), ("timeDeltas", column(deltas))];
        let weight_type = match (event.view.weight(), event.is_clock) {
            (Weight::Samples, _) => "samples",
            (Weight::Period, true) => {
                columns.push(("weight", column(track.periods.iter().copied().map(milliseconds))));
                "tracing-ms"
            }
            (Weight::Period, false) => {
                columns.push(("weight", column(&track.periods)));
                "samples"
            }
        };
        if measures_load(recording, track.event, event) {
            columns.push(("threadCPUDelta", column(&track.periods)));
        }
        let mut samples = Object::begin(thread.key("samples")?)?;
        for (name, column) in columns {
            column(samples.key(name)?)?;
        }
        if event.view.weight() == Weight::Samples {
            samples.value("weight", &Value::Null)?;
        }
        samples.value("weightType", &weight_type.into())?;
        samples.value("length", &length.into())?;
        samples.end()?;
        let stretches = if track.event == 0 { self.stretches(track) } else { Vec::new() };
        markers(thread.key("markers")?, &stretches, tables)?;
        thread.end()
    }

    fn stretches(&self, track: &Track) -> Vec<Stretch> {
        let longest = self.timeline.interval.saturating_mul(MAX_STRETCH_INTERVALS);
        let mut stretches: Vec<Stretch> = Vec::new();
        for (&time, &cpu) in track.times.iter().zip(&track.cpus).filter(|(_, cpu)| **cpu != NO_CPU) {
            match stretches.last_mut() {
                Some(last) if last.cpu == cpu && time.saturating_sub(last.end) <= longest => {
                    (last.end, last.samples) = (time, last.samples + 1);
                }
                _ => stretches.push(Stretch { cpu, start: time, end: time, samples: 1 }),
            }
        }
        stretches
    }

    /// Returns a track with a marker for each gap; `None` if there is none.
    pub(super) fn losses(&self, recording: &ExportedRecording<'_>, tables: &mut Tables) -> Option<Value> {
        let gaps = self.timeline.gaps(recording);
        if gaps.is_empty() {
            return None;
        }
        let names = [tables.string("Lost"), tables.string("Throttled")];
        let kind = |gap: &Gap| if gap.lost > 0 { names[0] } else { names[1] };
        let data = |gap: &Gap| match gap.lost {
            0 => json!({"type": "throttle"}),
            lost => json!({"type": "loss", "records": lost}),
        };
        let each = |value: u32| vec![value; gaps.len()];
        Some(json!({
            "processType": "default",
            "processStartupTime": 0,
            "processShutdownTime": null,
            "registerTime": 0,
            "unregisterTime": null,
            "pausedRanges": [],
            "showMarkersInTimeline": true,
            "name": "Missing samples",
            "processName": "prof",
            "isMainThread": true,
            "pid": "prof",
            "tid": "prof",
            "samples": {"stack": [], "timeDeltas": [], "weight": null, "weightType": "samples", "length": 0},
            "markers": {
                "data": gaps.iter().map(data).collect::<Vec<_>>(),
                "name": gaps.iter().map(kind).collect::<Vec<_>>(),
                "startTime": gaps.iter().map(|gap| milliseconds(gap.start.0)).collect::<Vec<_>>(),
                "endTime": gaps.iter().map(|gap| milliseconds(gap.end.0)).collect::<Vec<_>>(),
                "phase": each(INTERVAL),
                "category": each(0),
                "length": gaps.len(),
            },
        }))
    }
}

impl Track {
    fn new(event: usize, thread: u32) -> Self {
        let (stacks, times) = Default::default();
        let (names, cpus, periods) = Default::default();
        Self { event, thread, names, stacks, times, cpus, periods, is_main: false }
    }

    /// Counts a sample under one of the thread's names.
    fn count_name(&mut self, thread: u32) {
        match self.names.iter_mut().find(|(known, _)| *known == thread) {
            Some((_, count)) => *count += 1,
            None => self.names.push((thread, 1)),
        }
        if let Some((thread, _)) = self.names.iter().max_by_key(|(_, count)| *count) {
            self.thread = *thread;
        }
    }
}

/// Returns true if the periods of an event measure how long a thread ran, in the unit of the file.
fn measures_load(recording: &ExportedRecording<'_>, number: usize, event: &ExportedEvent<'_>) -> bool {
    let first_is_clock = recording.events.first().is_some_and(|event| event.is_clock);
    if first_is_clock { event.is_clock } else { number == 0 && event.name.contains("cycles") }
}

/// Marks the main track of each process: that of its main thread.
fn mark_main(tracks: &mut [Track], dictionary: &Dictionary) {
    for track in tracks.iter_mut().filter(|track| track.event == 0) {
        let thread = dictionary.threads.values.get(track.thread as usize);
        track.is_main = thread.and_then(|thread| thread.ids).is_some_and(|(pid, tid)| pid == tid);
    }
}

fn header(
    thread: &mut Object<'_>,
    pid: &str,
    tid: &Value,
    name: &str,
    process: &str,
    start: u64,
    is_main: bool,
) -> io::Result<()> {
    let start = Value::from(milliseconds(start));
    for (key, value) in [
        ("processType", "default".into()),
        ("processStartupTime", start.clone()),
        ("processShutdownTime", Value::Null),
        ("registerTime", start),
        ("unregisterTime", Value::Null),
        ("pausedRanges", json!([])),
        ("name", name.into()),
        ("processName", process.into()),
        ("isMainThread", is_main.into()),
        ("pid", pid.into()),
        ("tid", tid.clone()),
    ] {
        thread.value(key, &value)?;
    }
    Ok(())
}

fn markers(output: &mut dyn Write, stretches: &[Stretch], tables: &mut Tables) -> io::Result<()> {
    let length = stretches.len();
    let data = |stretch: &Stretch| json!({"type": "cpu", "cpu": stretch.cpu, "samples": stretch.samples});
    let names = stretches.iter().map(|stretch| tables.string(&format!("CPU {}", stretch.cpu)));
    let times =
        |time: fn(&Stretch) -> u64| column(stretches.iter().map(move |stretch| milliseconds(time(stretch))));
    let columns = [
        ("data", column(stretches.iter().map(data))),
        ("name", column(names)),
        ("startTime", times(|stretch| stretch.start)),
        ("endTime", times(|stretch| stretch.end)),
        ("phase", repeated(INTERVAL, length)),
        ("category", repeated(0, length)),
    ];
    table(output, length, columns)
}
