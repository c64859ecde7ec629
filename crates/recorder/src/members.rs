//! The samples of some processes out of those of whole CPUs: what `-p` falls back to where the threads are more than there
//! may be file descriptors.

use std::collections::HashSet;
use std::{io, mem};

use decoder::kind;
use model::{Loss, Pid};

use crate::consumer::{Chunk, Consumer, Ending, Recording, RingKind};
use crate::records::{each, retain, u32_at};

/// Offset in a sample with IDENTIFIER, IP and TID, in the kernel's order (checklist row L).
const PID: usize = 24;
/// Offsets in FORK (`perf_event_open(2)`, `PERF_RECORD_FORK`).
const FORK_PID: usize = 8;
const FORK_PARENT: usize = 12;

/// A consumer that hands on what is of some processes, and of those that they start.
///
/// A sample of a new process may come before the FORK that says whose child it is, but no more than a round before. So
/// everything waits for a round.
pub(crate) struct Members<'c> {
    consumer: &'c mut dyn Consumer,
    pids: HashSet<u32>,
    /// Whether the children of members are members.
    inherit: bool,
    /// Samples of others.
    pub(crate) removed: u64,
    running: bool,
    /// What came in the round before, and what came since.
    held: Vec<Chunk>,
    coming: Vec<Chunk>,
    /// Memory to be given back.
    spare: Vec<Vec<u8>>,
}

impl<'c> Members<'c> {
    pub(crate) fn new(consumer: &'c mut dyn Consumer, pids: &[Pid], inherit: bool) -> Self {
        Self {
            consumer,
            pids: pids.iter().map(|pid| pid.0.cast_unsigned()).collect(),
            inherit,
            removed: 0,
            running: false,
            held: Vec::new(),
            coming: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Learns of the processes that members start.
    fn learn(&mut self, sideband: &[u8]) {
        for record in each(sideband).filter(|record| u32_at(record, 0) == Some(kind::FORK)) {
            if let (Some(pid), Some(parent)) = (u32_at(record, FORK_PID), u32_at(record, FORK_PARENT))
                && self.pids.contains(&parent)
            {
                self.pids.insert(pid);
            }
        }
    }

    fn hand_on(&mut self, chunks: Vec<Chunk>) -> io::Result<()> {
        for mut chunk in chunks {
            if chunk.ring == RingKind::Samples {
                let is_members = |record: &[u8]| {
                    u32_at(record, 0) != Some(kind::SAMPLE)
                        || u32_at(record, PID).is_some_and(|pid| self.pids.contains(&pid))
                };
                let removed = retain(&mut chunk.bytes, is_members);
                chunk.drained.samples = chunk.drained.samples.saturating_sub(removed);
                self.removed += removed;
            }
            self.spare.extend(self.consumer.records(chunk)?);
        }
        Ok(())
    }
}

impl Consumer for Members<'_> {
    fn begin(&mut self, recording: &Recording) -> io::Result<()> {
        self.consumer.begin(recording)
    }

    fn started(&mut self) -> io::Result<()> {
        self.running = true;
        self.consumer.started()
    }

    fn records(&mut self, chunk: Chunk) -> io::Result<Option<Vec<u8>>> {
        if !self.running {
            return self.consumer.records(chunk);
        }
        if chunk.ring == RingKind::Sideband && self.inherit {
            self.learn(&chunk.bytes);
        }
        self.coming.push(chunk);
        Ok(self.spare.pop())
    }

    fn note_loss(&mut self, loss: Loss) {
        self.consumer.note_loss(loss);
    }

    fn finished_round(&mut self) -> io::Result<()> {
        let ready = mem::replace(&mut self.held, mem::take(&mut self.coming));
        self.hand_on(ready)?;
        self.consumer.finished_round()
    }

    fn wanted_copy_size(&self) -> Option<u32> {
        self.consumer.wanted_copy_size()
    }

    fn is_in_haste(&self) -> bool {
        self.consumer.is_in_haste()
    }

    fn checkpoint(&mut self) -> io::Result<()> {
        self.consumer.checkpoint()
    }

    fn end(&mut self, ending: &Ending) -> io::Result<()> {
        for chunks in [mem::take(&mut self.held), mem::take(&mut self.coming)] {
            self.hand_on(chunks)?;
        }
        self.consumer.end(ending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::Drained;

    /// Notes the pids of samples, and `0` for each round.
    #[derive(Default)]
    struct Notes(Vec<u32>);

    impl Consumer for Notes {
        fn begin(&mut self, _: &Recording) -> io::Result<()> {
            Ok(())
        }

        fn started(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn records(&mut self, chunk: Chunk) -> io::Result<Option<Vec<u8>>> {
            let samples = each(&chunk.bytes).filter(|record| u32_at(record, 0) == Some(kind::SAMPLE));
            self.0.extend(samples.map(|record| u32_at(record, PID).unwrap()));
            Ok(Some(chunk.bytes))
        }

        fn finished_round(&mut self) -> io::Result<()> {
            self.0.push(0);
            Ok(())
        }

        fn checkpoint(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn end(&mut self, _: &Ending) -> io::Result<()> {
            Ok(())
        }
    }

    fn record(kind: u32, words: &[u32]) -> Vec<u8> {
        let size = (8 + 4 * words.len()) as u32;
        [kind, size << 16].iter().chain(words).flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn samples(pids: &[u32]) -> Chunk {
        let sample = |pid: &u32| record(kind::SAMPLE, &[1, 0, 2, 0, *pid, *pid]);
        let bytes: Vec<u8> = pids.iter().flat_map(sample).collect();
        Chunk { ring: RingKind::Samples, bytes, drained: Drained::default() }
    }

    fn fork(pid: u32, parent: u32) -> Chunk {
        let bytes = record(kind::FORK, &[pid, parent, pid, parent, 0, 0]);
        Chunk { ring: RingKind::Sideband, bytes, drained: Drained::default() }
    }

    #[test]
    fn children_are_members_even_where_their_samples_come_first() {
        for (inherit, expected) in [(true, vec![0, 7, 8, 0, 8, 9, 0, 9]), (false, vec![0, 7, 0, 0])] {
            let mut notes = Notes::default();
            let mut members = Members::new(&mut notes, &[Pid(7)], inherit);
            members.started().unwrap();
            members.records(samples(&[7, 8, 66])).unwrap();
            members.finished_round().unwrap();
            members.records(samples(&[8, 9])).unwrap();
            members.records(fork(8, 7)).unwrap();
            members.records(fork(67, 66)).unwrap();
            members.finished_round().unwrap();
            members.records(fork(9, 8)).unwrap();
            members.finished_round().unwrap();
            members.records(samples(&[9, 67])).unwrap();
            members.end(&Ending::default()).unwrap();
            let removed = members.removed;
            assert_eq!(notes.0, expected);
            let kept = expected.iter().filter(|pid| **pid != 0).count() as u64;
            assert_eq!(removed + kept, 7);
        }
    }
}
