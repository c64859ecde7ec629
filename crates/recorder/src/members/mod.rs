//! The samples of some processes out of those of whole CPUs: for a command whose programs end too soon to have a sample of
//! their own clock, and for `-p` where the threads are more than there may be file descriptors.

mod lives;

use std::sync::Arc;
use std::time::Instant;
use std::{io, mem};

use decoder::{ReadFormat, SampleFormat, kind, offsets};
use host::procfs;
use model::Pid;

use crate::consumer::{
    Chunk, Consumer, Destination, Ending, Recording, RingKind, forward_calls, forward_upkeep,
};
use crate::records::{UNWOUND_SAMPLE, each, is_sample, retain, u32_at, u64_at};
use crate::ring::Strangers;
use crate::summary::Tally;
use lives::Lives;

/// The fields that all samples have, and that trail every other record.
const FORMAT: SampleFormat = SampleFormat::IDENTIFIER
    .union(SampleFormat::IP)
    .union(SampleFormat::TID)
    .union(SampleFormat::TIME)
    .union(SampleFormat::CPU);
const PID: usize = offsets::in_sample(FORMAT, SampleFormat::TID);
const TIME: usize = offsets::in_sample(FORMAT, SampleFormat::TIME);
const PID_FROM_END: usize = offsets::from_end(FORMAT, SampleFormat::TID);
const TIME_FROM_END: usize = offsets::from_end(FORMAT, SampleFormat::TIME);

/// A consumer that hands on what is of some processes, and of those that they start.
///
/// A sample of a new process may come before the FORK that says whose child it is, but no more than a round before. So
/// everything waits for a round. Samples of processes that are known not to be meant do not: they are left in their rings, so
/// that their stacks, which may be large, are not copied.
pub(crate) struct Members<'c> {
    consumer: &'c mut dyn Consumer,
    lives: Lives,
    /// Processes that began in the round before.
    fresh: Vec<(u32, u64)>,
    /// True if the children of members are members.
    inherit: bool,
    /// Samples of others that came out of the rings.
    pub(crate) removed: u64,
    /// Samples of members.
    kept: u64,
    pub(crate) tally: Tally,
    /// True if the kernel says at the end how many samples were lost (`PERF_FORMAT_LOST`), and that is of use: in a part of a
    /// recording LOST records say it.
    counts_lost: bool,
    running: bool,
    /// The chunks that came in the round before, and those that came since.
    held: Vec<Chunk>,
    coming: Vec<Chunk>,
    /// Memory to be given back.
    spare: Vec<Vec<u8>>,
}

impl<'c> Members<'c> {
    /// Hands on to `consumer` what is of `pids`, or of the `child` from its exec on; of their children, too, where these are
    /// inherited. `in_parts` as [`crate::Options::in_parts`].
    pub(crate) fn new(
        consumer: &'c mut dyn Consumer,
        pids: &[Pid],
        child: Option<Pid>,
        (inherit, in_parts): (bool, bool),
    ) -> Self {
        let all = procfs::processes().unwrap_or_default();
        Self {
            consumer,
            lives: Lives::new(&all, pids, child),
            fresh: Vec::new(),
            inherit,
            removed: 0,
            kept: 0,
            tally: Tally::default(),
            counts_lost: !in_parts,
            running: false,
            held: Vec::new(),
            coming: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// The processes that are known not to be meant: their samples are left in the rings.
    pub(crate) fn strangers(&self) -> Arc<Strangers> {
        Arc::clone(&self.lives.strangers)
    }

    /// The part of `lost` samples that is likely the members': whose they were, the kernel does not say. They have the share of
    /// the lost that they have of the others.
    pub(crate) fn share_of(&self, lost: u64) -> u64 {
        let all =
            u128::from(self.kept) + u128::from(self.removed) + u128::from(self.lives.strangers.dropped());
        let share = (u128::from(lost) * u128::from(self.kept)).div_ceil(all.max(1));
        u64::try_from(share).unwrap_or(u64::MAX)
    }

    fn hand_on(&mut self, chunks: Vec<Chunk>) -> io::Result<()> {
        for mut chunk in chunks {
            let lives = &mut self.lives;
            let is_samples = chunk.ring == RingKind::Samples;
            let mut removed = 0;
            retain(&mut chunk.bytes, |record| {
                // What a ring lost is of all; the part of the members is known at the end.
                let kind = u32_at(record, 0);
                let is_kept = !(is_samples && self.counts_lost && kind == Some(kind::LOST))
                    && is_of_member(record, lives);
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
            self.spare.extend(self.consumer.records(chunk)?);
        }
        Ok(())
    }
}

/// Returns true if a record is about a member, or about no process.
fn is_of_member(record: &[u8], lives: &mut Lives) -> bool {
    let from_end = |offset: usize| record.len().checked_sub(offset);
    let time = || from_end(TIME_FROM_END).and_then(|at| u64_at(record, at));
    let (pid, time) = match u32_at(record, 0) {
        Some(kind::SAMPLE | UNWOUND_SAMPLE) => (u32_at(record, PID), u64_at(record, TIME)),
        Some(kind::FORK | kind::EXIT) => {
            (u32_at(record, offsets::PROCESS), u64_at(record, offsets::TASK_TIME))
        }
        Some(kind::MMAP | kind::MMAP2 | kind::COMM | kind::NAMESPACES) => {
            (u32_at(record, offsets::PROCESS), time())
        }
        Some(kind::SWITCH | kind::SWITCH_CPU_WIDE) => {
            (from_end(PID_FROM_END).and_then(|at| u32_at(record, at)), time())
        }
        _ => return true,
    };
    pid.zip(time).is_some_and(|(pid, time)| lives.is_member(pid, time))
}

impl Destination for Members<'_> {
    fn begin(&mut self, recording: &Recording) -> io::Result<()> {
        self.tally = Tally::new(&recording.events);
        let samplers = recording.events.iter().filter(|event| !event.sideband);
        self.counts_lost &=
            samplers.map(|event| event.attr.read_format).all(|format| format.contains(ReadFormat::LOST));
        self.consumer.begin(recording)
    }

    fn started(&mut self) -> io::Result<()> {
        self.running = true;
        self.consumer.started()
    }

    fn finished_round(&mut self) -> io::Result<()> {
        let ready = mem::replace(&mut self.held, mem::take(&mut self.coming));
        self.hand_on(ready)?;
        self.fresh = self.lives.finish_round(mem::take(&mut self.fresh));
        self.consumer.finished_round()
    }

    fn end(&mut self, ending: &Ending) -> io::Result<()> {
        for chunks in [mem::take(&mut self.held), mem::take(&mut self.coming)] {
            self.hand_on(chunks)?;
        }
        let mut ending = ending.clone();
        // The sideband event's own losses come last, and are of no process.
        let lost = ending.lost.as_deref_mut().and_then(|lost| lost.split_last_mut());
        if let Some((_, samplers)) = lost {
            samplers.iter_mut().for_each(|lost| lost.samples = self.share_of(lost.samples));
        }
        self.consumer.end(&ending)
    }

    forward_calls!(this => this.consumer);
    forward_upkeep!(this => this.consumer);
}

impl Consumer for Members<'_> {
    fn records(&mut self, chunk: Chunk) -> io::Result<Option<Vec<u8>>> {
        if !self.running {
            return self.consumer.records(chunk);
        }
        if chunk.ring == RingKind::Sideband {
            each(&chunk.bytes).for_each(|record| self.lives.learn(record, self.inherit));
        }
        self.coming.push(chunk);
        Ok(self.spare.pop())
    }

    fn shrink(&mut self, sample: &[u8], until: Instant, into: &mut Vec<u8>) -> bool {
        let is_known = u32_at(sample, PID).is_some_and(|pid| self.lives.is_known_member(pid));
        is_known && self.consumer.shrink(sample, until, into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consumer::Drained;
    use crate::consumer::LostCount;

    /// Notes the pids of samples, and `0` for each round.
    #[derive(Default)]
    struct Notes(Vec<u32>, Option<Vec<LostCount>>);

    impl Destination for Notes {
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

        fn end(&mut self, ending: &Ending) -> io::Result<()> {
            self.1.clone_from(&ending.lost);
            Ok(())
        }
    }

    impl Consumer for Notes {
        fn records(&mut self, chunk: Chunk) -> io::Result<Option<Vec<u8>>> {
            let samples = each(&chunk.bytes).filter(|record| u32_at(record, 0) == Some(kind::SAMPLE));
            self.0.extend(samples.map(|record| u32_at(record, PID).unwrap()));
            Ok(Some(chunk.bytes))
        }

        fn shrink(&mut self, sample: &[u8], _: Instant, into: &mut Vec<u8>) -> bool {
            into.extend_from_slice(sample);
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
        let drained = Drained { samples: pids.len() as u64, ..Drained::default() };
        Chunk { ring: RingKind::Samples, bytes, drained }
    }

    fn fork(pid: u32, parent: u32, time: u32) -> Chunk {
        // With TID, TIME, CPU and IDENTIFIER behind it.
        let trailer = [parent, parent, time - 1, 0, 0, 0, 9, 0];
        let words = [&[pid, parent, pid, parent, time, 0], &trailer[..]].concat();
        let bytes = record(kind::FORK, &words);
        Chunk { ring: RingKind::Sideband, bytes, drained: Drained::default() }
    }

    #[test]
    fn children_are_members_even_where_their_samples_come_first() {
        for (inherit, expected) in [(true, vec![0, 7, 8, 0, 8, 9, 0, 9]), (false, vec![0, 7, 0, 0])] {
            let mut notes = Notes::default();
            let mut members = Members::new(&mut notes, &[Pid(7)], None, (inherit, false));
            members.started().unwrap();
            members.records(samples(&[7, 8, 66], 20)).unwrap();
            members.finished_round().unwrap();
            members.records(samples(&[8, 9], 40)).unwrap();
            members.records(fork(8, 7, 10)).unwrap();
            members.records(fork(67, 66, 10)).unwrap();
            members.finished_round().unwrap();
            members.records(fork(9, 8, 30)).unwrap();
            members.finished_round().unwrap();
            members.records(samples(&[9, 67], 50)).unwrap();
            members.end(&Ending::default()).unwrap();
            let removed = members.removed;
            assert_eq!(notes.0, expected);
            let kept = expected.iter().filter(|pid| **pid != 0).count() as u64;
            assert_eq!(removed + kept, 7);
        }
    }

    #[test]
    fn samples_of_strangers_stay_in_their_rings_and_their_losses_are_told_apart() {
        let mut notes = Notes::default();
        let mut members = Members::new(&mut notes, &[Pid(7)], None, (true, false));
        members.started().unwrap();
        members.records(fork(67, 1, 10)).unwrap();
        let strangers = members.strangers();
        assert!(!strangers.has(67), "whose child it is may be told later");
        (0..3).for_each(|_| members.finished_round().unwrap());
        assert!(strangers.has(67) && strangers.has(1) && !strangers.has(7));
        for pid in [67, 67, 1] {
            let into = &mut Vec::new();
            let is_shrunk = members.shrink(&samples(&[pid], 30).bytes, Instant::now(), into);
            assert!(!is_shrunk && into.is_empty(), "a stranger's stack is not unwound");
        }
        assert!(members.shrink(&samples(&[7], 30).bytes, Instant::now(), &mut Vec::new()));
        members.records(samples(&[67, 67, 67], 30)).unwrap();
        members.records(samples(&[7, 7], 40)).unwrap();
        (0..2).for_each(|_| members.finished_round().unwrap());
        // Two samples of five were a member's.
        assert_eq!((members.share_of(10), members.share_of(0), members.share_of(1)), (4, 0, 1));
        let lost = [10, 5].map(|samples| LostCount { samples, unread: 0 }).to_vec();
        members.end(&Ending { lost: Some(lost), ..Ending::default() }).unwrap();
        assert_eq!(notes.1.unwrap().iter().map(|lost| lost.samples).collect::<Vec<_>>(), [4, 5]);
    }

    #[test]
    fn records_of_strangers_are_left_out_and_those_of_nobody_are_not() {
        let mut lives = Lives::new(&[Pid(66)], &[Pid(7)], None);
        assert!(!is_of_member(&fork(66, 1, 5).bytes, &mut lives));
        assert!(is_of_member(&fork(7, 1, 5).bytes, &mut lives));
        let child = fork(8, 7, 5);
        lives.learn(&child.bytes, true);
        assert!(is_of_member(&child.bytes, &mut lives), "its own FORK names a child");
        for (kind, is_kept) in [(kind::KSYMBOL, true), (kind::MMAP2, false), (kind::SWITCH, true)] {
            let mut of_stranger = fork(66, 7, 5);
            of_stranger.bytes[..4].copy_from_slice(&kind.to_ne_bytes());
            // A switch is of whom its trailer names.
            assert_eq!(is_of_member(&of_stranger.bytes, &mut lives), is_kept, "{kind}");
        }
    }
}
