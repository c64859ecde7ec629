//! Removes duplicate samples of threads on which an event is open twice.
//!
//! A thread that begins while its creator is being attached to inherits some of the events, and is given its own as well. Of each
//! thread, CPU and event, the id that comes first is kept, and samples with another id are removed: they are duplicates, not
//! losses. Threads that it creates inherit both, so that all threads have to be checked.

use std::collections::HashMap;

use decoder::{SampleFormat, kind, offsets};

use crate::consumer::Chunk;
use crate::records::{is_sample, u32_at, u64_at};

/// The fields that all samples have before their thread.
const FORMAT: SampleFormat = SampleFormat::IDENTIFIER.union(SampleFormat::IP);
const IDENTIFIER: usize = offsets::in_sample(FORMAT, SampleFormat::IDENTIFIER);
const TID: usize = offsets::thread_in_sample(FORMAT);

/// Removes duplicate samples.
#[derive(Debug, Default)]
pub(crate) struct DuplicateFilter {
    /// The event of each id.
    events: HashMap<u64, usize>,
    /// The offset of the CPU in a sample.
    cpu: usize,
    /// The id that is kept, per thread, for each CPU and event.
    kept_ids: HashMap<u32, HashMap<(u32, usize), u64>>,
}

impl DuplicateFilter {
    /// Makes a filter for events with these `ids`, whose samples have `format`.
    pub(crate) fn new<'a>(ids: impl Iterator<Item = &'a [u64]>, format: SampleFormat) -> Self {
        let events =
            ids.enumerate().flat_map(|(event, ids)| ids.iter().map(move |&id| (id, event))).collect();
        let all = FORMAT | SampleFormat::TID | SampleFormat::TIME;
        let cpu = offsets::in_sample(format | all, SampleFormat::CPU);
        Self { events, cpu, kept_ids: HashMap::new() }
    }

    /// Removes the duplicates from a chunk; returns how many.
    pub(crate) fn remove(&mut self, chunk: &mut Chunk) -> u64 {
        chunk.retain(|record| !self.is_duplicate(record))
    }

    fn is_duplicate(&mut self, record: &[u8]) -> bool {
        if u32_at(record, offsets::KIND) == Some(kind::EXIT) {
            // A later thread may get the same number, and have samples of the other id.
            u32_at(record, offsets::TASK_THREAD).map(|tid| self.kept_ids.remove(&tid));
        }
        if !is_sample(record) {
            return false;
        }
        let Some(id) = u64_at(record, IDENTIFIER) else { return false };
        let (Some(tid), Some(cpu)) = (u32_at(record, TID), u32_at(record, self.cpu)) else { return false };
        let Some(&event) = self.events.get(&id) else { return false };
        *self.kept_ids.entry(tid).or_default().entry((cpu, event)).or_insert(id) != id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consumer::RingKind;
    use crate::options::{CallChain, Options, Target};
    use decoder::{Endian, RawRecord, Record, RecordLayout};
    use model::{CpuId, Pid, Tid, Timestamp};

    fn layout() -> RecordLayout {
        let options =
            Options { call_chain: CallChain::FramePointers, ..Options::new(Target::Processes(vec![])) };
        let attr = crate::attr::sampler(&crate::event::default_events(&[])[0], &options, 0, 4096);
        RecordLayout::new(&attr, Endian::NATIVE)
    }

    fn sample(layout: &RecordLayout, id: u64, tid: i32, cpu: u32, out: &mut Vec<u8>) {
        // A sample by way of the decoder, so that the offsets here are held against the real layout.
        let mut bytes = Vec::new();
        let words: [u64; 5] = [id, 0xdead, (tid as u32 as u64) << 32 | 7, 99, u64::from(cpu)];
        let size = 8 + 8 * (words.len() + 2);
        bytes.extend(kind::SAMPLE.to_ne_bytes());
        bytes.extend(2_u16.to_ne_bytes());
        bytes.extend((size as u16).to_ne_bytes());
        words.iter().chain(&[1, 0]).for_each(|word| bytes.extend(word.to_ne_bytes()));
        let (raw, _) = RawRecord::parse(&bytes, Endian::NATIVE).unwrap();
        let Record::Sample(decoded) = layout.decode(&raw).unwrap() else { panic!("a sample") };
        assert_eq!(decoded.identifier, Some(id));
        assert_eq!(decoded.thread, Some((Pid(7), Tid(tid))));
        assert_eq!((decoded.time, decoded.cpu), (Some(Timestamp(99)), Some(CpuId(cpu))));
        out.extend(bytes);
    }

    fn chunk() -> Chunk {
        Chunk::new(RingKind::Samples, Vec::new())
    }

    #[test]
    fn the_first_id_of_a_thread_and_cpu_is_kept() {
        let layout = layout();
        let mut duplicates =
            DuplicateFilter::new([&[10, 11, 20, 21][..], &[30][..]].into_iter(), SampleFormat::IP);
        let mut records = chunk();
        sample(&layout, 10, 5, 0, &mut records.bytes);
        sample(&layout, 20, 5, 0, &mut records.bytes); // the same thread and CPU, by another copy
        sample(&layout, 11, 5, 1, &mut records.bytes);
        sample(&layout, 30, 5, 0, &mut records.bytes); // another event
        sample(&layout, 20, 6, 0, &mut records.bytes); // another thread
        sample(&layout, 99, 5, 0, &mut records.bytes); // not ours
        let length = records.bytes.len();
        assert_eq!(duplicates.remove(&mut records), 1);
        assert_eq!(records.bytes.len(), length / 6 * 5);
        let mut more = chunk();
        sample(&layout, 10, 6, 0, &mut more.bytes);
        assert_eq!(duplicates.remove(&mut more), 1);
        assert!(more.bytes.is_empty());
    }

    #[test]
    fn a_number_that_is_given_again_is_another_thread() {
        let layout = layout();
        let mut duplicates = DuplicateFilter::new([&[10, 20][..]].into_iter(), SampleFormat::IP);
        let (mut first, mut second) = (chunk(), chunk());
        sample(&layout, 10, 5, 0, &mut first.bytes);
        assert_eq!(duplicates.remove(&mut first), 0);
        let (pid, tid) = ((Pid(7), Pid(7)), (Tid(5), Tid(5)));
        let exit = Record::Exit(decoder::record::Task {
            pid: pid.0,
            parent_pid: pid.1,
            tid: tid.0,
            parent_tid: tid.1,
            time: Timestamp(100),
            sample_id: decoder::SampleId::default(),
        });
        layout.encode(&exit, &mut second.bytes).unwrap();
        sample(&layout, 20, 5, 0, &mut second.bytes);
        assert_eq!(duplicates.remove(&mut second), 0);
    }
}
