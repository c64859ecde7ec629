//! Playing a recording in the order of time.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::thread;

use decoder::record::{Comm, Read};
use decoder::{Attr, DecodeError, Endian, Record, RecordLayout, kind};
use host::objects::SearchPaths;
use model::{EventIndex, Harm, Loss, Pid, Timestamp};
use perfdata::features::Features;
use perfdata::sections::containers::{self, ContainerChange};
use perfdata::{Description, sections};
use tracker::{Events, OrderedRecord, SampleReader, SampleSink, TrackedSample, Tracker};

use crate::batch::Batch;
use crate::generated_code::jit_dumps::{DumpPlayer, has_clock_of_dumps, is_dump};
use crate::input::Input;
use crate::input::listed_build_ids::ListedBuildIds;
use crate::input::process_lifetimes::ProcessLifetimes;
use crate::input::undecodable_records::UndecodableRecords;
use crate::notices::Progress;
use crate::ordered::Batches;
use crate::{Error, Notices};

/// A receiver of the samples of a recording.
pub type Sink<'s, E> = dyn SampleSink<Error = E> + 's;

/// A recording that has been played.
pub struct Replayed {
    /// The machine at the end, and all spaces that were met.
    pub tracker: Tracker,
    /// The loss of the recording.
    pub loss: Loss,
    /// Its events and features.
    pub recording: Description,
    /// The times of its first and last record that has one.
    pub span: Option<(Timestamp, Timestamp)>,
}

/// Plays `input` into `sink`. Files that stacks are unwound by are looked for in `paths`.
///
/// # Errors
/// Where the recording cannot be read on, and those of the sink.
pub fn replay<E: From<Error>>(
    input: Input,
    paths: &SearchPaths,
    notices: &dyn Notices,
    sink: &mut Sink<'_, E>,
) -> Result<Replayed, E> {
    let Input { reader, name, lifetimes, dumps, files, .. } = input;
    let progress = notices.progress(&format!("reading {name}"), reader.total_size());
    let containers = container_changes(reader.features(), reader.endian());
    let mut replay = Replay {
        containers,
        samples: SampleReader::default(),
        build_ids: ListedBuildIds::new(&files),
        lifetimes,
        dumps: DumpPlayer::new(Arc::clone(&dumps)),
        span: None,
    };
    let mut sink = Listening { sink, undecodable: UndecodableRecords::default(), task: None, dump: None };
    let outcome = thread::scope(|scope| {
        let batches = Batches::of(reader, &name, paths, &dumps, scope)?;
        let played = replay.play(&batches, &*progress, &mut sink);
        let outcome = batches.finish();
        // If the sink failed, that also ended the reading: its error comes first.
        played.and(outcome.map_err(E::from))
    })?;
    for notice in &outcome.notices {
        notices.warn(Harm::Samples, &format!("{name}: {notice}"));
    }
    if let Some(notice) = sink.undecodable.notice() {
        notices.warn(Harm::Samples, &format!("{name}: {notice}"));
    }
    if let Some(notice) = cut_short(replay.samples.tracker.scans_cut_short()) {
        notices.warn(Harm::Names, &format!("{name}: {notice}"));
    }
    replay.lifetimes.add_recorded(outcome.recording.features(), outcome.recording.endian());
    let mut loss = replay.samples.loss();
    loss += outcome.loss;
    loss.unread = unread_lost_counts(&outcome.recording);
    let (tracker, span) = (replay.samples.tracker, replay.span);
    Ok(Replayed { tracker, loss, recording: outcome.recording, span })
}

/// Returns a remark about scans of `/proc` that ran out of time; `None` if none did.
fn cut_short(scans: u64) -> Option<String> {
    let processes = match scans {
        0 => return None,
        1 => "the mappings of 1 process are".to_owned(),
        _ => format!("the mappings of {scans} processes are"),
    };
    Some(format!(
        "{processes} recorded in part: reading them from /proc took too long, so frames in the others have no name"
    ))
}

/// The number of counts of lost samples that the recorder could not read.
fn unread_lost_counts(recording: &Description) -> u64 {
    let section = recording.features().section(sections::id::UNREAD_LOST_COUNTS);
    let count = section.and_then(|bytes| bytes.first_chunk());
    count.map_or(0, |bytes| recording.endian().u64(*bytes))
}

struct Replay {
    samples: SampleReader,
    build_ids: ListedBuildIds,
    lifetimes: Arc<ProcessLifetimes>,
    dumps: DumpPlayer,
    /// Changes of processes' containers, in the order of time, the last first.
    containers: Vec<ContainerChange>,
    /// The times of the first and last record so far.
    span: Option<(Timestamp, Timestamp)>,
}

/// Changes of containers that a recording tells, the last first.
fn container_changes(features: &Features, endian: Endian) -> Vec<ContainerChange> {
    let section = features.section(sections::id::CONTAINERS);
    let mut changes = section.map_or_else(Vec::new, |section| containers::from_section(section, endian));
    changes.reverse();
    changes
}

impl Replay {
    /// Puts processes into the containers in which they were from `time` on.
    fn change_containers<E>(&mut self, time: Timestamp, sink: &mut Listening<'_, '_, E>) {
        while let Some(change) = self.containers.pop_if(|change| change.since <= time) {
            sink.settle(&mut self.samples.tracker);
            self.samples.tracker.set_container(change.pid, change.container);
        }
    }

    fn play_dumps<E>(&mut self, time: Timestamp, sink: &mut Listening<'_, '_, E>) {
        sink.settle(&mut self.samples.tracker);
        self.dumps.play(time, &mut self.samples.tracker);
    }

    fn play<E>(
        &mut self,
        batches: &Batches<'_>,
        progress: &dyn Progress,
        sink: &mut Listening<'_, '_, E>,
    ) -> Result<(), E> {
        let mut latest = None;
        while let Some(batch) = batches.next() {
            progress.set(batch.position);
            for index in 0..batch.len() {
                self.read(&batch, index, sink)?;
            }
            latest = Some(batch.recording.clone());
            batches.give_back(batch);
        }
        if let Some(recording) = latest {
            self.samples.finish(&RecordedEvents(&recording), sink)?;
        }
        Ok(())
    }

    fn read<E>(&mut self, batch: &Batch, index: usize, sink: &mut Listening<'_, '_, E>) -> Result<(), E> {
        let Some(record) = batch.get(index) else { return Ok(()) };
        if record.raw.kind != kind::SAMPLE {
            self.build_ids.add_new_to(&batch.recording, &mut self.samples.tracker);
        }
        let time = batch.time(index);
        if time.0 > 0 {
            time.extend(&mut self.span);
        }
        self.change_containers(time, sink);
        if self.dumps.is_due(time) {
            self.play_dumps(time, sink);
        }
        self.samples.read(&RecordedEvents(&batch.recording), record, batch.chains.get(index), sink)?;
        let has_clock = || batch.recording.events().iter().all(|event| has_clock_of_dumps(&event.attr));
        if let Some((pid, path)) = sink.dump.take()
            && self.dumps.start(pid, &path, has_clock(), &mut self.samples.tracker)
        {
            self.play_dumps(time, sink);
        }
        if let Some(task) = sink.task.take() {
            self.lifetimes.record(&task, &self.samples.tracker, batch.recording.features().clock);
        }
        Ok(())
    }
}

/// The events of a recording, as far as it describes them.
struct RecordedEvents<'d>(&'d Description);

impl Events for RecordedEvents<'_> {
    fn attr(&self, event: EventIndex) -> Option<&Attr> {
        self.0.event(event).map(|event| &event.attr)
    }

    fn layout(&self, event: Option<EventIndex>) -> Option<&RecordLayout> {
        self.0.layout_of(event)
    }

    fn event_of_id(&self, id: u64) -> Option<EventIndex> {
        self.0.event_of_id(id)
    }

    fn is_sideband(&self, event: EventIndex) -> bool {
        self.attr(event).is_some_and(Attr::is_dummy)
    }

    fn have_sideband_rings(&self) -> bool {
        false
    }
}

/// A sink, and what is wrong with records that it never gets.
struct Listening<'l, 's, E> {
    sink: &'l mut Sink<'s, E>,
    undecodable: UndecodableRecords,
    /// The last record, if it was the start or end of a task or the execution of another program.
    task: Option<Record<'static>>,
    /// The process and the path, where the last record mapped a jitdump.
    dump: Option<(Pid, Vec<u8>)>,
}

impl<E> SampleSink for Listening<'_, '_, E> {
    type Error = E;

    fn sample(&mut self, sample: TrackedSample<'_>) -> Result<(), E> {
        self.sink.sample(sample)
    }

    fn before(&mut self, record: &Record<'_>) {
        self.sink.before(record);
    }

    fn settle(&mut self, tracker: &mut Tracker) {
        self.sink.settle(tracker);
    }

    fn record(&mut self, record: &Record<'_>) {
        self.task = match record {
            Record::Fork(task) => Some(Record::Fork(*task)),
            Record::Exit(task) => Some(Record::Exit(*task)),
            Record::Comm(Comm { pid, tid, exec: true, sample_id, .. }) => Some(Record::Comm(Comm {
                pid: *pid,
                tid: *tid,
                comm: b"",
                exec: true,
                sample_id: *sample_id,
            })),
            _ => None,
        };
        self.dump = match record {
            Record::Mmap(mmap) if is_dump(mmap.path) => Some((mmap.pid, mmap.path.to_vec())),
            _ => None,
        };
        self.sink.record(record);
    }

    fn task_time(&mut self, read: &Read<'_>) {
        self.sink.task_time(read);
    }

    fn undecodable(&mut self, record: &OrderedRecord<'_>, error: DecodeError) {
        self.undecodable.count(record.offset.map(NonZeroU64::get), record.raw.kind, error);
    }
}
