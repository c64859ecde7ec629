use super::*;
use alloc::vec;
use decoder::record::{CallchainDeferred, Comm, Lost, Mmap, Task};
use decoder::values::CounterValues;
use decoder::{CpuMode, ReadFormat, SampleFormat, SampleId};
use model::Timestamp;

/// A group of two events with the ids 7 and 8, whose leader reads both; and a sideband event with the id 9.
struct Group {
    attrs: Vec<Attr>,
    layouts: Vec<RecordLayout>,
    sideband_rings: bool,
}

impl Group {
    fn new(is_inherited: bool) -> Self {
        let flags = AttrFlags::SAMPLE_ID_ALL;
        let common = SampleFormat::IDENTIFIER | SampleFormat::TID | SampleFormat::TIME;
        let leader = Attr {
            sample_format: common | SampleFormat::READ | SampleFormat::CALLCHAIN,
            read_format: ReadFormat::GROUP | ReadFormat::ID | ReadFormat::LOST,
            flags: if is_inherited { flags | AttrFlags::INHERIT } else { flags },
            sample_period: 1000,
            ..Attr::default()
        };
        let sideband = Attr { kind: 1, config: 9, sample_format: common, flags, ..Attr::default() };
        let attrs = vec![leader.clone(), leader, sideband];
        let layouts = attrs.iter().map(|attr| RecordLayout::new(attr, Endian::NATIVE)).collect();
        Self { attrs, layouts, sideband_rings: true }
    }

    fn record(&self, event: u32, record: &Record<'_>) -> (EventIndex, Vec<u8>) {
        let mut bytes = Vec::new();
        self.layouts[event as usize].encode(record, &mut bytes).unwrap();
        (EventIndex(event), bytes)
    }

    fn sample(&self, tid: i32, counts: [u64; 2]) -> (EventIndex, Vec<u8>) {
        self.sample_with_chain(tid, counts, &[])
    }

    fn sample_with_chain(&self, tid: i32, counts: [u64; 2], chain: &[u64]) -> (EventIndex, Vec<u8>) {
        let words = [counts[0], 7, 0, counts[1], 8, 0].map(u64::to_ne_bytes).concat();
        let format = self.attrs[0].read_format;
        let read = CounterValues::new(format, (0, 0), None, U64s::new(&words, Endian::NATIVE));
        let chain: Vec<u8> = chain.iter().flat_map(|address| address.to_ne_bytes()).collect();
        let chain = U64s::new(&chain, Endian::NATIVE);
        let sample = Sample {
            mode: CpuMode::User,
            identifier: Some(7),
            thread: Some((Pid(1), Tid(tid))),
            time: Some(Timestamp(1)),
            read: Some(read),
            callchain: Some(chain),
            ..Sample::default()
        };
        self.record(0, &Record::Sample(sample))
    }

    fn exit(&self, tid: i32) -> (EventIndex, Vec<u8>) {
        let (pid, tid, time) = (Pid(1), Tid(tid), Timestamp(1));
        let sample_id = SampleId {
            thread: Some((pid, tid)),
            identifier: Some(9),
            time: Some(time),
            ..SampleId::default()
        };
        let task = Task { pid, parent_pid: pid, tid, parent_tid: tid, time, sample_id };
        self.record(2, &Record::Exit(task))
    }

    fn exec(&self) -> (EventIndex, Vec<u8>) {
        let sample_id = SampleId { time: Some(Timestamp(1)), identifier: Some(9), ..SampleId::default() };
        self.record(2, &Record::Comm(Comm { pid: Pid(1), tid: Tid(1), comm: b"sudo", exec: true, sample_id }))
    }

    fn map(&self) -> (EventIndex, Vec<u8>) {
        let map = Mmap {
            pid: Pid(1),
            tid: Tid(1),
            start: 0x1000,
            len: 0x1000,
            page_offset: 0,
            path: b"/usr/bin/sudo",
            extended: None,
            data: false,
            mode: CpuMode::User,
            scan_cut_short: false,
            sample_id: SampleId { time: Some(Timestamp(1)), identifier: Some(9), ..SampleId::default() },
        };
        self.record(2, &Record::Mmap(map))
    }

    fn user_part(&self, tid: i32, cookie: u64, ips: &[u64]) -> (EventIndex, Vec<u8>) {
        let ips: Vec<u8> = ips.iter().flat_map(|address| address.to_ne_bytes()).collect();
        let thread = Some((Pid(1), Tid(tid)));
        let sample_id =
            SampleId { thread, identifier: Some(9), time: Some(Timestamp(1)), ..SampleId::default() };
        let ips = U64s::new(&ips, Endian::NATIVE);
        self.record(2, &Record::CallchainDeferred(CallchainDeferred { cookie, ips, sample_id }))
    }

    fn lost(&self, event: u32, lost: u64) -> (EventIndex, Vec<u8>) {
        let sample_id = SampleId { identifier: Some(7 + u64::from(event)), ..SampleId::default() };
        self.record(event, &Record::Lost(Lost { id: 0, lost, sample_id }))
    }
}

impl Events for Group {
    fn attr(&self, event: EventIndex) -> Option<&Attr> {
        self.attrs.get(event.0 as usize)
    }

    fn layout(&self, event: Option<EventIndex>) -> Option<&RecordLayout> {
        self.layouts.get(event.map_or(0, |event| event.0 as usize))
    }

    fn event_of_id(&self, id: u64) -> Option<EventIndex> {
        (7..9).contains(&id).then(|| EventIndex(id as u32 - 7))
    }

    fn is_sideband(&self, event: EventIndex) -> bool {
        event == EventIndex(2)
    }

    fn have_sideband_rings(&self) -> bool {
        self.sideband_rings
    }
}

/// What came, as (event, thread, period).
#[derive(Default)]
struct Came {
    samples: Vec<(u32, i32, u64)>,
    /// The user parts of those that had to wait for one.
    user_parts: Vec<Vec<u64>>,
    undecodable: usize,
}

impl SampleSink for Came {
    type Error = core::convert::Infallible;

    fn sample(&mut self, sample: TrackedSample<'_>) -> Result<(), Self::Error> {
        let tid = sample.sample.thread.map_or(0, |(_, tid)| tid.0);
        self.samples.push((sample.event.0, tid, sample.period));
        self.user_parts.extend(sample.deferred.map(|part| part.iter().collect()));
        Ok(())
    }

    fn undecodable(&mut self, _: &OrderedRecord<'_>, _: DecodeError) {
        self.undecodable += 1;
    }
}

fn read(events: &Group, records: &[(EventIndex, Vec<u8>)]) -> (Came, Loss) {
    let (mut reader, mut came) = (SampleReader::default(), Came::default());
    for (event, bytes) in records {
        let (raw, _) = RawRecord::parse(bytes, Endian::NATIVE).unwrap();
        let record = OrderedRecord { raw, event: Some(*event), offset: None };
        let Ok(()) = reader.read(events, record, None, &mut came);
    }
    let Ok(()) = reader.finish(events, &mut came);
    (came, reader.loss())
}

#[test]
fn counters_of_threads_that_inherited_the_group_are_kept_apart() {
    let group = Group::new(true);
    let records = [
        group.sample(10, [1000, 50]),
        group.sample(11, [1000, 3]),
        group.sample(10, [2000, 60]),
        group.exit(11),
        group.sample(11, [1000, 9]),
    ];
    let (came, loss) = read(&group, &records);
    let expected = [
        [(0, 10, 1000), (1, 10, 50)],
        [(0, 11, 1000), (1, 11, 3)],
        [(0, 10, 1000), (1, 10, 10)],
        [(0, 11, 1000), (1, 11, 9)],
    ];
    assert_eq!(came.samples, expected.concat());
    assert!(loss.is_none());
}

#[test]
fn a_process_whose_events_end_at_an_exec_is_a_loss_unless_it_is_seen_again() {
    let group = Group::new(true);
    let unfollowed = |records: &[(EventIndex, Vec<u8>)]| read(&group, records).1.unfollowed;
    assert_eq!(unfollowed(&[group.exec(), group.map(), group.exit(1)]), 0, "a program that ends");
    assert_eq!(unfollowed(&[group.exec(), group.exit(1)]), 1);
    assert_eq!(
        unfollowed(&[group.map(), group.exec(), group.exit(1)]),
        1,
        "the mapping was the former program's"
    );
    assert_eq!(unfollowed(&[group.exec(), group.exit(1), group.map()]), 0, "events of whole CPUs go on");
}

#[test]
fn counters_of_a_cpu_count_all_its_threads() {
    let group = Group::new(false);
    let records = [group.sample(10, [1000, 50]), group.sample(11, [2000, 50]), group.sample(10, [3000, 61])];
    let (came, _) = read(&group, &records);
    assert_eq!(came.samples, [(0, 10, 1000), (1, 10, 50), (0, 11, 1000), (0, 10, 1000), (1, 10, 11)]);
}

#[test]
fn what_cannot_be_decoded_is_counted() {
    let group = Group::new(true);
    let (event, mut bytes) = group.sample(10, [1000, 50]);
    let chain = bytes.len() - 8;
    bytes[chain..].copy_from_slice(&(1_u64 << 40).to_ne_bytes());
    let (came, loss) = read(&group, &[(event, bytes), group.sample(10, [2000, 50])]);
    assert_eq!((came.samples.len(), came.undecodable, loss.undecodable), (2, 1, 1));
}

#[test]
fn a_loss_is_told_from_the_ring_it_happened_in() {
    let group = Group::new(true);
    let records = [group.lost(0, 30), group.lost(2, 4)];
    let (_, loss) = read(&group, &records);
    assert_eq!((loss.samples, loss.sideband), (30, 4));
    // Where all events share a ring, whose record it is says nothing.
    let (_, loss) = read(&Group { sideband_rings: false, ..Group::new(true) }, &records);
    assert_eq!((loss.samples, loss.sideband), (34, 0));
}

#[test]
fn what_was_lost_is_taken_once() {
    let group = Group::new(true);
    let (mut reader, mut came) = (SampleReader::default(), Came::default());
    let (event, bytes) = group.lost(0, 30);
    let (raw, _) = RawRecord::parse(&bytes, Endian::NATIVE).unwrap();
    let Ok(()) =
        reader.read(&group, OrderedRecord { raw, event: Some(event), offset: None }, None, &mut came);
    assert_eq!((reader.take_loss().samples, reader.take_loss().samples), (30, 0));
}

#[test]
fn a_sample_waits_for_its_own_user_part() {
    let group = Group::new(true);
    let kernel = [context::KERNEL, 0x10];
    let chain = |cookie| [&kernel[..], &[context::USER_DEFERRED, cookie]].concat();
    let records = [
        group.sample_with_chain(10, [1000, 0], &chain(42)),
        group.sample_with_chain(11, [1000, 0], &chain(42)),
        group.sample_with_chain(12, [1000, 0], &kernel),
        group.user_part(11, 41, &[context::USER, 0x1]),
        group.user_part(11, 42, &[context::USER, 0x2]),
        group.user_part(10, 42, &[context::USER, 0x3]),
        group.sample_with_chain(10, [2000, 0], &chain(43)),
    ];
    let (came, loss) = read(&group, &records);
    // One that needs nothing does not wait; one whose part never comes is handed on at the end, without it.
    assert_eq!(came.samples, [(0, 12, 1000), (0, 11, 1000), (0, 10, 1000), (0, 10, 1000)]);
    assert_eq!(came.user_parts, [vec![context::USER, 0x2], vec![context::USER, 0x3], vec![]]);
    assert!(loss.is_none());
}
