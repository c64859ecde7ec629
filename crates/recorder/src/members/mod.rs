//! Keeps the records of the target's processes where whole CPUs are recorded in their place: for a command whose programs end too
//! soon to be sampled by a clock of their own, and for `-p` with more threads than there may be file descriptors.
//!
//! [`MemberFilter`] stands between the rings and the consumer. [`Memberships`] decides by FORK, EXIT and exec records which
//! processes are members: the target's own, and those that members start.

mod memberships;

use std::sync::Arc;
use std::time::Instant;
use std::{io, mem};

use decoder::{ReadFormat, SampleFormat, kind, offsets};
use host::procfs;
use model::Pid;

use crate::consumer::{
    Chunk, Consumer, Ending, EventCoverage, LostCount, Recording, RecordingSink, RingKind,
};
use crate::records::{each, is_sample, u32_at, u64_at};
use crate::ring::ExcludedProcesses;
use crate::summary::Tally;
use memberships::Memberships;

/// The fields that all samples begin with, and that trail every other record.
const FORMAT: SampleFormat = SampleFormat::IDENTIFIER
    .union(SampleFormat::IP)
    .union(SampleFormat::TID)
    .union(SampleFormat::TIME)
    .union(SampleFormat::CPU);
const PID: usize = offsets::in_sample(FORMAT, SampleFormat::TID);
const TIME: usize = offsets::in_sample(FORMAT, SampleFormat::TIME);
const PID_FROM_END: usize = offsets::from_end(FORMAT, SampleFormat::TID);
const TIME_FROM_END: usize = offsets::from_end(FORMAT, SampleFormat::TIME);

/// The process number of the idle tasks.
const IDLE_PROCESS: u32 = 0;

/// A consumer that forwards the records of member processes, and those that are about no process.
///
/// All chunks wait for a round, because a sample of a new process may come up to a round before the FORK that says whose child it is.
/// Samples of processes that are certainly no members are dropped in the rings ([`MemberFilter::excluded`]), so that their
/// stack copies are never copied.
pub(crate) struct MemberFilter<'c> {
    consumer: &'c mut dyn Consumer,
    memberships: Memberships,
    /// The processes that began in the previous round, with their times.
    new_processes: Vec<(u32, u64)>,
    /// True if the children of members are members.
    inherit: bool,
    /// Samples of other processes that came out of the rings.
    pub(crate) removed: u64,
    /// Samples of members.
    kept: u64,
    pub(crate) tally: Tally,
    /// True if the kernel tells at the end how many samples were lost (`PERF_FORMAT_LOST`). False for a window or a part of a
    /// recording, whose losses only LOST records tell.
    counts_lost: bool,
    running: bool,
    previous_round: Vec<Chunk>,
    current_round: Vec<Chunk>,
    /// Memory of forwarded chunks, for [`Consumer::records`] to return.
    spare: Vec<Vec<u8>>,
    /// The lost samples of members, when the recording has ended and each event's count is known.
    lost: Option<u64>,
}

impl<'c> MemberFilter<'c> {
    /// Makes a filter whose members are `pids`, `child` from its exec on, and with `inherit` all that they start. Samples of the
    /// events with `kept_ids` pass, whatever process they are of. `in_parts` is [`crate::Options::in_parts`].
    pub(crate) fn new(
        consumer: &'c mut dyn Consumer,
        pids: &[Pid],
        child: Option<Pid>,
        kept_ids: Vec<u64>,
        (inherit, in_parts): (bool, bool),
    ) -> Self {
        let all = procfs::processes().unwrap_or_default();
        Self {
            consumer,
            memberships: Memberships::new(&all, pids, child, kept_ids),
            new_processes: Vec::new(),
            inherit,
            removed: 0,
            kept: 0,
            tally: Tally::default(),
            counts_lost: !in_parts,
            running: false,
            previous_round: Vec::new(),
            current_round: Vec::new(),
            spare: Vec::new(),
            lost: None,
        }
    }

    /// Makes the filter count the samples of the events of `recording`.
    pub(crate) fn with_recording(mut self, recording: &Recording) -> Self {
        self.tally = Tally::new(&recording.events);
        let samplers = recording.events.iter().filter(|event| !event.sideband);
        self.counts_lost &=
            samplers.map(|event| event.attr.read_format).all(|format| format.contains(ReadFormat::LOST));
        self
    }

    /// Returns the processes that are certainly no members, for the readers of the rings; this filter keeps them up to date.
    pub(crate) fn excluded(&self) -> Arc<ExcludedProcesses> {
        Arc::clone(&self.memberships.excluded)
    }

    /// Estimates how many of `lost` samples were of members. The kernel does not tell whose they were: members are taken to have the
    /// share of the lost samples that they have of all others.
    pub(crate) fn share_of(&self, lost: u64) -> u64 {
        let dropped = self.memberships.excluded.dropped_samples();
        let all = u128::from(self.kept) + u128::from(self.removed) + u128::from(dropped);
        let share = (u128::from(lost) * u128::from(self.kept)).div_ceil(all.max(1));
        u64::try_from(share).unwrap_or(u64::MAX)
    }

    /// Returns the number of lost samples of members in a recording that has ended, given that of all processes.
    pub(crate) fn lost_at_end(&self, lost: u64) -> u64 {
        self.lost.unwrap_or_else(|| self.share_of(lost))
    }

    /// Leaves of the lost samples of each event the share of the members.
    fn leave_share(&self, lost: &mut [LostCount]) {
        // The last count is that of the sideband event, which is shared by all processes.
        let Some((_, samplers)) = lost.split_last_mut() else { return };
        samplers.iter_mut().for_each(|lost| lost.samples = self.share_of(lost.samples));
    }

    /// Forwards the records of members in these chunks.
    fn forward(&mut self, chunks: Vec<Chunk>) -> io::Result<()> {
        for mut chunk in chunks {
            let memberships = &mut self.memberships;
            let is_samples = chunk.ring == RingKind::Samples;
            let mut removed = 0;
            chunk.retain(|record| {
                // A LOST record counts samples of all processes; the share of the members is told at the end instead.
                let is_lost = u32_at(record, offsets::KIND) == Some(kind::LOST);
                let is_kept =
                    !(is_samples && self.counts_lost && is_lost) && is_of_member(record, memberships);
                removed += u64::from(!is_kept && is_sample(record));
                is_kept
            });
            if is_samples {
                self.tally.add(&chunk.bytes);
                chunk.drained.samples = chunk.drained.samples.saturating_sub(removed);
                self.removed += removed;
                self.kept += chunk.drained.samples;
            }
            if chunk.bytes.is_empty() {
                self.spare.push(chunk.bytes);
                continue;
            }
            self.spare.extend(self.consumer.consume(chunk)?);
        }
        Ok(())
    }
}

/// Returns true if a record is about a member, or about no process.
fn is_of_member(record: &[u8], memberships: &mut Memberships) -> bool {
    let from_end = |offset: usize| record.len().checked_sub(offset);
    let time = || from_end(TIME_FROM_END).and_then(|at| u64_at(record, at));
    let (pid, time) = match u32_at(record, offsets::KIND) {
        Some(kind::SAMPLE) if memberships.excluded.keeps_event_of(record) => return true,
        Some(kind::SAMPLE) => (u32_at(record, PID), u64_at(record, TIME)),
        Some(kind::FORK | kind::EXIT) => {
            (u32_at(record, offsets::PROCESS), u64_at(record, offsets::TASK_TIME))
        }
        Some(kind::MMAP | kind::MMAP2 | kind::COMM | kind::NAMESPACES) => {
            (u32_at(record, offsets::PROCESS), time())
        }
        Some(kind @ (kind::SWITCH | kind::SWITCH_CPU_WIDE)) => {
            let pid = from_end(PID_FROM_END).and_then(|at| u32_at(record, at));
            // When a CPU leaves its idle task, that record has the time from which the kernel counts the next thread's time. The
            // thread's own record is written when the switch is done.
            let is_idle = kind == kind::SWITCH_CPU_WIDE && pid == Some(IDLE_PROCESS);
            (if is_idle { u32_at(record, offsets::OTHER_PROCESS) } else { pid }, time())
        }
        _ => return true,
    };
    pid.zip(time).is_some_and(|(pid, time)| memberships.is_member(pid, time))
}

impl RecordingSink for MemberFilter<'_> {
    fn next(&mut self) -> Option<&mut dyn RecordingSink> {
        Some(self.consumer)
    }

    fn started(&mut self) -> io::Result<()> {
        self.running = true;
        self.consumer.started()
    }

    fn finished_round(&mut self) -> io::Result<()> {
        let ready = mem::replace(&mut self.previous_round, mem::take(&mut self.current_round));
        self.forward(ready)?;
        self.new_processes = self.memberships.finish_round(mem::take(&mut self.new_processes));
        self.consumer.finished_round()
    }

    fn set_lost(&mut self, lost: &[LostCount]) {
        let mut lost = lost.to_vec();
        self.leave_share(&mut lost);
        self.consumer.set_lost(&lost);
    }

    fn end(&mut self, ending: &Ending) -> io::Result<()> {
        for chunks in [mem::take(&mut self.previous_round), mem::take(&mut self.current_round)] {
            self.forward(chunks)?;
        }
        let mut ending = ending.clone();
        for (place, coverage) in ending.coverage.events.iter_mut().enumerate() {
            (coverage.samples, coverage.sampled) = self.tally.of(place);
        }
        if let Some(lost) = &mut ending.lost {
            self.leave_share(lost);
            bound_by_time(lost, &ending.coverage);
            let samplers = lost.split_last().map_or(&[][..], |(_, samplers)| samplers);
            self.lost = Some(samplers.iter().map(|lost| lost.samples).fold(0, u64::saturating_add));
        }
        self.consumer.end(&ending)
    }
}

/// Bounds the lost samples of each clock by the CPU time of the members that has no samples: shared out by what was seen, losses of others
/// may be far more.
fn bound_by_time(lost: &mut [LostCount], coverage: &EventCoverage) {
    let events = coverage.events.iter().zip(&coverage.are_clocks);
    for (lost, (event, _)) in lost.iter_mut().zip(events).filter(|(_, (_, is_clock))| **is_clock) {
        let Some(counted) = event.counted.filter(|_| event.sampled > 0) else { continue };
        let missing = u128::from(counted.saturating_sub(event.sampled));
        let samples = missing * u128::from(event.samples) / u128::from(event.sampled);
        lost.samples = lost.samples.min(u64::try_from(samples).unwrap_or(u64::MAX));
    }
}

impl Consumer for MemberFilter<'_> {
    fn consume(&mut self, chunk: Chunk) -> io::Result<Option<Vec<u8>>> {
        if !self.running {
            return self.consumer.consume(chunk);
        }
        if chunk.ring == RingKind::Sideband {
            each(&chunk.bytes).for_each(|record| self.memberships.apply(record, self.inherit));
        }
        self.current_round.push(chunk);
        Ok(self.spare.pop())
    }

    fn shorten_sample(&mut self, sample: &[u8], until: Instant, into: &mut Chunk) -> bool {
        let is_member = u32_at(sample, PID).is_some_and(|pid| self.memberships.is_known_member(pid));
        is_member && self.consumer.shorten_sample(sample, until, into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consumer::DrainStats;
    use model::Coverage;

    /// Keeps the pids of samples, with a `0` for each round, and the losses that are told.
    #[derive(Default)]
    struct SampledPids(Vec<u32>, Vec<Vec<LostCount>>);

    impl RecordingSink for SampledPids {
        fn begin(&mut self, _: &Recording) -> io::Result<()> {
            Ok(())
        }

        fn started(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn finished_round(&mut self) -> io::Result<()> {
            self.0.push(0);
            Ok(())
        }

        fn checkpoint(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn set_lost(&mut self, lost: &[LostCount]) {
            self.1.push(lost.to_vec());
        }

        fn end(&mut self, ending: &Ending) -> io::Result<()> {
            self.1.extend(ending.lost.clone());
            Ok(())
        }
    }

    impl Consumer for SampledPids {
        fn consume(&mut self, chunk: Chunk) -> io::Result<Option<Vec<u8>>> {
            let samples = each(&chunk.bytes).filter(|record| u32_at(record, 0) == Some(kind::SAMPLE));
            self.0.extend(samples.map(|record| u32_at(record, PID).unwrap()));
            Ok(Some(chunk.bytes))
        }

        fn shorten_sample(&mut self, sample: &[u8], _: Instant, into: &mut Chunk) -> bool {
            into.bytes.extend_from_slice(sample);
            true
        }
    }

    fn record(kind: u32, words: &[u32]) -> Vec<u8> {
        let size = (8 + 4 * words.len()) as u32;
        [kind, size << 16].iter().chain(words).flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn samples(pids: &[u32], time: u32) -> Chunk {
        let sample = |pid: &u32| record(kind::SAMPLE, &[1, 0, 2, 0, *pid, *pid, time, 0]);
        let bytes: Vec<u8> = pids.iter().flat_map(sample).collect();
        let drained = DrainStats { samples: pids.len() as u64, ..DrainStats::default() };
        Chunk { drained, ..Chunk::new(RingKind::Samples, bytes) }
    }

    fn fork(pid: u32, parent: u32, time: u32) -> Chunk {
        // With TID, TIME, CPU and IDENTIFIER behind it.
        let trailer = [parent, parent, time - 1, 0, 0, 0, 9, 0];
        let words = [&[pid, parent, pid, parent, time, 0], &trailer[..]].concat();
        let bytes = record(kind::FORK, &words);
        Chunk::new(RingKind::Sideband, bytes)
    }

    #[test]
    fn children_are_members_even_where_their_samples_come_first() {
        for (inherit, expected) in [(true, vec![0, 7, 8, 0, 8, 9, 0, 9]), (false, vec![0, 7, 0, 0])] {
            let mut notes = SampledPids::default();
            let mut members = MemberFilter::new(&mut notes, &[Pid(7)], None, Vec::new(), (inherit, false));
            members.started().unwrap();
            members.consume(samples(&[7, 8, 66], 20)).unwrap();
            members.finished_round().unwrap();
            members.consume(samples(&[8, 9], 40)).unwrap();
            members.consume(fork(8, 7, 10)).unwrap();
            members.consume(fork(67, 66, 10)).unwrap();
            members.finished_round().unwrap();
            members.consume(fork(9, 8, 30)).unwrap();
            members.finished_round().unwrap();
            members.consume(samples(&[9, 67], 50)).unwrap();
            members.end(&Ending::default()).unwrap();
            let removed = members.removed;
            assert_eq!(notes.0, expected);
            let kept = expected.iter().filter(|pid| **pid != 0).count() as u64;
            assert_eq!(removed + kept, 7);
        }
    }

    #[test]
    fn what_the_samples_of_members_stand_for_is_added_up() {
        let attr = decoder::Attr { sample_period: 500, ..decoder::Attr::default() };
        let event = crate::consumer::RecordedEvent {
            name: "cpu-clock".to_owned(),
            attr,
            ids: vec![1],
            sideband: false,
            leader: None,
            tracepoint: None,
        };
        let recording = Recording {
            events: vec![event],
            cpus: Vec::new(),
            ring_size: 0,
            files: Default::default(),
            kernel: Default::default(),
            resources: Default::default(),
        };
        let mut notes = SampledPids::default();
        let members = MemberFilter::new(&mut notes, &[Pid(7)], None, Vec::new(), (true, false));
        let mut members = members.with_recording(&recording);
        members.started().unwrap();
        members.consume(samples(&[7, 66, 7], 20)).unwrap();
        // Two of three samples were a member's, whose CPU time has no more than one sample less than it should.
        let lost = [30, 0].map(|samples| LostCount { samples, unread: 0 }).to_vec();
        let event = Coverage { event: "cpu-clock".into(), samples: 0, sampled: 0, counted: Some(1_900) };
        let coverage = EventCoverage {
            events: vec![event],
            are_clocks: vec![true],
            circumstances: crate::consumer::Circumstances::default(),
        };
        members.end(&Ending { lost: Some(lost), coverage, ..Ending::default() }).unwrap();
        assert_eq!(members.tally.of(0), (2, 1_000));
        assert_eq!(members.lost_at_end(30), 1, "not 20");
        assert_eq!(notes.1.last().map(|lost| lost[0].samples), Some(1));
    }

    #[test]
    fn samples_of_others_stay_in_their_rings_and_their_losses_are_told_apart() {
        let mut notes = SampledPids::default();
        let mut members = MemberFilter::new(&mut notes, &[Pid(7)], None, Vec::new(), (true, false));
        members.started().unwrap();
        members.consume(fork(67, 1, 10)).unwrap();
        let excluded = members.excluded();
        assert!(!excluded.contains(67), "the FORK of its parent may come later");
        (0..3).for_each(|_| members.finished_round().unwrap());
        assert!(excluded.contains(67) && excluded.contains(1) && !excluded.contains(7));
        for pid in [67, 67, 1] {
            let into = &mut samples(&[], 30);
            let is_shrunk = members.shorten_sample(&samples(&[pid], 30).bytes, Instant::now(), into);
            assert!(!is_shrunk && into.bytes.is_empty(), "stacks of others are not unwound");
        }
        assert!(members.shorten_sample(&samples(&[7], 30).bytes, Instant::now(), &mut samples(&[], 30)));
        members.consume(samples(&[67, 67, 67], 30)).unwrap();
        members.consume(samples(&[7, 7], 40)).unwrap();
        (0..2).for_each(|_| members.finished_round().unwrap());
        // Two samples of five were a member's.
        assert_eq!((members.share_of(10), members.share_of(0), members.share_of(1)), (4, 0, 1));
        let lost = [10, 5].map(|samples| LostCount { samples, unread: 0 }).to_vec();
        members.set_lost(&lost);
        members.end(&Ending { lost: Some(lost), ..Ending::default() }).unwrap();
        let of_members = |lost: &Vec<LostCount>| lost.iter().map(|lost| lost.samples).collect::<Vec<_>>();
        assert_eq!(
            notes.1.iter().map(of_members).collect::<Vec<_>>(),
            [[4, 5], [4, 5]],
            "running, at the end"
        );
    }

    #[test]
    fn records_of_others_are_left_out_and_those_of_no_process_are_not() {
        let mut memberships = Memberships::new(&[Pid(66)], &[Pid(7)], None, Vec::new());
        assert!(!is_of_member(&fork(66, 1, 5).bytes, &mut memberships));
        assert!(is_of_member(&fork(7, 1, 5).bytes, &mut memberships));
        let child = fork(8, 7, 5);
        memberships.apply(&child.bytes, true);
        assert!(is_of_member(&child.bytes, &mut memberships), "its own FORK names a child");
        for (kind, is_kept) in [(kind::KSYMBOL, true), (kind::MMAP2, false), (kind::SWITCH, true)] {
            let mut of_other = fork(66, 7, 5);
            of_other.bytes[..4].copy_from_slice(&kind.to_ne_bytes());
            // The process of a switch is that of its trailer.
            assert_eq!(is_of_member(&of_other.bytes, &mut memberships), is_kept, "{kind}");
        }
        for (next, is_kept) in [(7, true), (66, false)] {
            let idle_to = record(kind::SWITCH_CPU_WIDE, &[next, next, 0, 0, 5, 0, 0, 0, 9, 0]);
            assert_eq!(is_of_member(&idle_to, &mut memberships), is_kept, "from idle to {next}");
        }
    }
}
