//! Any attr, any record, either byte order: encoded and decoded it is itself; cut or damaged it is an error or a
//! record, never a panic.

#![allow(clippy::unwrap_used)]

use model::{BuildId, CpuId, FileIdentity, Pid, Tid, Timestamp};
use prof_decoder::record::*;
use prof_decoder::values::{BranchStack, CounterValues, Registers, U64s};
use prof_decoder::{
    Attr, AttrFlags, BranchSampleFormat, CpuMode, DecodeError, Endian, RawRecord, ReadFormat, Record,
    RecordLayout, Sample, SampleFormat, SampleId,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

fn attr() -> impl Strategy<Value = Attr> {
    (
        0..SampleFormat::all().bits() + 1,
        0..ReadFormat::all().bits() + 1,
        0..BranchSampleFormat::all().bits() + 1,
        any::<(u64, u64, u64, u32, u32, i32)>(),
        any::<(u64, u64, u64, u8, u16, u32)>(),
        select(vec![64_u32, 72, 80, 96, 104, 112, 120, 128, 136, 144, 152]),
    )
        .prop_map(|(sample, read, branch, a, b, size)| {
            Attr {
                kind: a.3,
                size: 144,
                config: a.0,
                sample_period: a.1,
                sample_format: SampleFormat::from_bits_retain(sample),
                read_format: ReadFormat::from_bits_retain(read),
                flags: AttrFlags::from_bits_retain(a.2 & !(3 << 15)),
                precise_ip: b.3 & 3,
                wakeup: a.4,
                bp_type: b.5,
                config1: b.0,
                config2: b.1,
                branch_sample_format: BranchSampleFormat::from_bits_retain(branch),
                sample_regs_user: b.0 & b.1,
                sample_stack_user: a.4,
                clockid: a.5,
                sample_regs_intr: b.1 & b.2,
                aux_watermark: a.3,
                sample_max_stack: b.4,
                aux_sample_size: b.5,
                aux_action: b.5,
                sig_data: b.2,
                config3: a.0,
                config4: a.1,
                unknown_tail: Box::new([]),
            }
            .resized(size)
        })
}

trait Resized {
    fn resized(self, size: u32) -> Self;
}

impl Resized for Attr {
    /// As an older or newer version has it. Sizes below that of the register masks keep the attr whole, since the
    /// layout needs them.
    fn resized(mut self, size: u32) -> Self {
        self.size = size;
        self.unknown_tail = vec![0xa5; (size as usize).saturating_sub(144)].into();
        let bytes = self.to_bytes(Endian::Little);
        Attr::parse(&bytes, Endian::Little).unwrap()
    }
}

fn mode() -> impl Strategy<Value = CpuMode> {
    select(vec![
        CpuMode::Unknown,
        CpuMode::Kernel,
        CpuMode::User,
        CpuMode::Hypervisor,
        CpuMode::GuestKernel,
        CpuMode::GuestUser,
    ])
}

/// Bytes that records borrow from: random words in either byte order, and names without a NUL.
#[derive(Debug, Clone)]
struct Pool {
    words: Vec<u8>,
    name: Vec<u8>,
    counts: [usize; 4],
    numbers: [u64; 8],
    flags: [bool; 4],
    mode: CpuMode,
}

fn pool() -> impl Strategy<Value = Pool> {
    (
        vec(any::<u8>(), 0..800),
        vec(1..=255_u8, 0..70),
        any::<[u8; 4]>(),
        any::<[u64; 8]>(),
        any::<[bool; 4]>(),
        mode(),
    )
        .prop_map(|(words, name, counts, numbers, flags, mode)| Pool {
            words,
            name,
            counts: counts.map(|count| usize::from(count) % 12),
            numbers,
            flags,
            mode,
        })
}

impl Pool {
    fn bytes(&self, len: usize) -> &[u8] {
        &self.words[..len.min(self.words.len())]
    }

    fn list(&self, words: usize, endian: Endian) -> U64s<'_> {
        U64s::new(self.bytes(words * 8), endian)
    }

    fn sample_id(&self, attr: &Attr) -> SampleId {
        let has = |part| attr.flags.contains(AttrFlags::SAMPLE_ID_ALL) && attr.sample_format.contains(part);
        let n = self.numbers;
        SampleId {
            thread: has(SampleFormat::TID).then_some((Pid(n[0] as i32), Tid(n[1] as i32))),
            time: has(SampleFormat::TIME).then_some(Timestamp(n[2])),
            id: has(SampleFormat::ID).then_some(n[3]),
            stream_id: has(SampleFormat::STREAM_ID).then_some(n[4]),
            cpu: has(SampleFormat::CPU).then_some(CpuId(n[5] as u32)),
            identifier: has(SampleFormat::IDENTIFIER).then_some(n[6]),
        }
    }

    fn counters(&self, attr: &Attr, endian: Endian) -> CounterValues<'_> {
        let format = attr.read_format;
        let extra =
            usize::from(format.contains(ReadFormat::ID)) + usize::from(format.contains(ReadFormat::LOST));
        let words = if format.contains(ReadFormat::GROUP) {
            let most = self.words.len() / 8 / (1 + extra);
            self.counts[0].min(most) * (1 + extra)
        } else {
            extra
        };
        let values = self.list(words, endian);
        CounterValues::new(format, (self.numbers[0], self.numbers[1]), Some(self.numbers[2]), values)
    }

    fn sample(&self, attr: &Attr, endian: Endian) -> Sample<'_> {
        let n = self.numbers;
        let has = |part| attr.sample_format.intersects(part);
        let registers = |mask: u64, narrow: bool| {
            let (abi, count) = if narrow { (0, 0) } else { (2, mask.count_ones() as usize) };
            Registers::new(abi, mask, self.list(count, endian))
        };
        let branches = self.counts[1].min(self.words.len() / 24);
        Sample {
            mode: self.mode,
            exact_ip: self.flags[0],
            identifier: has(SampleFormat::IDENTIFIER).then_some(n[0]),
            ip: has(SampleFormat::IP).then_some(n[1]),
            thread: has(SampleFormat::TID).then_some((Pid(n[2] as i32), Tid(n[3] as i32))),
            time: has(SampleFormat::TIME).then_some(Timestamp(n[4])),
            addr: has(SampleFormat::ADDR).then_some(n[5]),
            id: has(SampleFormat::ID).then_some(n[6]),
            stream_id: has(SampleFormat::STREAM_ID).then_some(n[7]),
            cpu: has(SampleFormat::CPU).then_some(CpuId(n[0] as u32)),
            period: has(SampleFormat::PERIOD).then_some(n[1]),
            read: has(SampleFormat::READ).then(|| self.counters(attr, endian)),
            callchain: has(SampleFormat::CALLCHAIN).then(|| self.list(self.counts[2], endian)),
            raw: has(SampleFormat::RAW).then(|| self.bytes(self.counts[3])),
            branch_stack: has(SampleFormat::BRANCH_STACK).then(|| {
                let format = attr.branch_sample_format;
                BranchStack::new(
                    format.contains(BranchSampleFormat::HW_INDEX).then_some(n[2]),
                    self.list(branches * 3, endian),
                    format.contains(BranchSampleFormat::COUNTERS).then(|| self.list(branches, endian)),
                )
            }),
            user_registers: has(SampleFormat::REGS_USER)
                .then(|| registers(attr.sample_regs_user, self.flags[1])),
            user_stack: has(SampleFormat::STACK_USER).then(|| self.bytes(self.counts[0] * 5)),
            weight: has(SampleFormat::WEIGHT | SampleFormat::WEIGHT_STRUCT).then_some(n[3]),
            data_source: has(SampleFormat::DATA_SRC).then_some(n[4]),
            transaction: has(SampleFormat::TRANSACTION).then_some(n[5]),
            interrupt_registers: has(SampleFormat::REGS_INTR)
                .then(|| registers(attr.sample_regs_intr, self.flags[2])),
            physical_address: has(SampleFormat::PHYS_ADDR).then_some(n[6]),
            cgroup: has(SampleFormat::CGROUP).then_some(n[7]),
            data_page_size: has(SampleFormat::DATA_PAGE_SIZE).then_some(n[0]),
            code_page_size: has(SampleFormat::CODE_PAGE_SIZE).then_some(n[1]),
            aux: has(SampleFormat::AUX).then(|| self.bytes(self.counts[1] * 8)),
        }
    }

    /// One record of every type, with and without its options.
    fn records(&self, attr: &Attr, endian: Endian) -> Vec<Record<'_>> {
        let sample_id = self.sample_id(attr);
        let n = self.numbers;
        let (pid, tid) = (Pid(n[0] as i32), Tid(n[1] as i32));
        let file = FileIdentity { major: 8, minor: n[5] as u32, inode: n[6], generation: n[7] };
        // Only an attr that asks for build ids has records with one.
        let identity = match attr.flags.contains(AttrFlags::BUILD_ID) {
            true => MmapIdentity::BuildId(BuildId::from_bytes(self.bytes(self.counts[2] + 1))),
            false => MmapIdentity::File(file),
        };
        let mmap = |identity: Option<MmapIdentity>| {
            Record::Mmap(Mmap {
                pid,
                tid,
                start: n[2],
                len: n[3],
                page_offset: n[4],
                path: &self.name,
                extended: identity.map(|identity| MmapExtended {
                    identity,
                    protection: 5,
                    flags: n[5] as u32,
                }),
                data: self.flags[0],
                mode: self.mode,
                scan_cut_short: self.flags[1],
                sample_id,
            })
        };
        let task = Task {
            pid,
            parent_pid: Pid(n[2] as i32),
            tid,
            parent_tid: Tid(n[3] as i32),
            time: Timestamp(n[4]),
            sample_id,
        };
        let throttle = Throttle { time: Timestamp(n[0]), id: n[1], stream_id: n[2], sample_id };
        let switch =
            |other| Record::Switch(Switch { out: self.flags[0], preempted: self.flags[1], other, sample_id });
        vec![
            mmap(None),
            mmap(Some(MmapIdentity::File(file))),
            mmap(Some(identity)),
            Record::Lost(Lost { id: n[0], lost: n[1], sample_id }),
            Record::Comm(Comm { pid, tid, comm: &self.name, exec: self.flags[2], sample_id }),
            Record::Exit(task),
            Record::Fork(task),
            Record::Throttle(throttle),
            Record::Unthrottle(throttle),
            Record::Read(Read { pid, tid, values: self.counters(attr, endian), sample_id }),
            Record::Sample(self.sample(attr, endian)),
            Record::Aux(Aux { offset: n[0], size: n[1], flags: n[2], sample_id }),
            Record::ItraceStart(ItraceStart { pid, tid, sample_id }),
            Record::LostSamples(LostSamples { lost: n[0], filtered_by_bpf: self.flags[3], sample_id }),
            switch(None),
            switch(Some((pid, tid))),
            Record::Namespaces(Namespaces {
                pid,
                tid,
                links: self.list(self.counts[0] & !1, endian),
                sample_id,
            })
            .even_links(),
            Record::Ksymbol(Ksymbol {
                start: n[0],
                len: n[1] as u32,
                kind: n[2] as u16,
                unregister: self.flags[0],
                name: &self.name,
                sample_id,
            }),
            Record::BpfEvent(BpfEvent {
                kind: n[0] as u16,
                flags: n[1] as u16,
                id: n[2] as u32,
                tag: n[3].to_ne_bytes(),
                sample_id,
            }),
            Record::Cgroup(Cgroup { id: n[0], path: &self.name, sample_id }),
            Record::TextPoke(TextPoke { address: n[0], old: &self.name, new: self.bytes(9), sample_id }),
            Record::AuxOutputHwId(AuxOutputHwId { hw_id: n[0], sample_id }),
            Record::CallchainDeferred(CallchainDeferred {
                cookie: n[0],
                ips: self.list(self.counts[3], endian),
                sample_id,
            }),
        ]
    }
}

trait EvenLinks {
    fn even_links(self) -> Self;
}

impl EvenLinks for Record<'_> {
    /// The pool may hold an odd number of words; links come in pairs.
    fn even_links(self) -> Self {
        match self {
            Record::Namespaces(mut record) => {
                let bytes = record.links.as_bytes();
                record.links = U64s::new(&bytes[..bytes.len() & !15], Endian::Little);
                Record::Namespaces(record)
            }
            other => other,
        }
    }
}

fn layout_of(attr: &Attr, endian: Endian) -> RecordLayout {
    let bytes = attr.to_bytes(endian);
    let parsed = Attr::parse(&bytes, endian).unwrap();
    assert_eq!(&parsed, attr);
    RecordLayout::new(&parsed, endian)
}

/// Registers of the kernel's mask that a short pool could not fill.
fn enough_words(attr: &Attr, pool: &Pool) -> bool {
    let words = attr.sample_regs_user.count_ones().max(attr.sample_regs_intr.count_ones()).max(2);
    pool.words.len() >= words as usize * 8
}

proptest! {
    #[test]
    fn every_record_comes_back(attr in attr(), pool in pool(), source in any::<bool>()) {
        prop_assume!(enough_words(&attr, &pool));
        // What a record borrows may lie in either order, whatever the order that is written.
        let source = if source { Endian::Little } else { Endian::Big };
        for endian in [Endian::Little, Endian::Big] {
            let layout = layout_of(&attr, endian);
            for record in pool.records(&attr, source) {
                let mut bytes = Vec::new();
                layout.encode(&record, &mut bytes).unwrap();
                let (raw, size) = RawRecord::parse(&bytes, endian).unwrap();
                prop_assert_eq!(size, bytes.len());
                let decoded = layout.decode(&raw).unwrap();
                prop_assert_eq!(&decoded, &record);
                let mut again = Vec::new();
                layout.encode(&decoded, &mut again).unwrap();
                prop_assert_eq!(again, bytes.clone());
                if let Record::Sample(sample) = &record {
                    prop_assert_eq!(layout.time_of(&raw), sample.time);
                    prop_assert_eq!(layout.id_of(&raw), sample.identifier.or(sample.id));
                } else {
                    let id = pool.sample_id(&attr);
                    prop_assert_eq!(layout.time_of(&raw), id.time);
                    prop_assert_eq!(layout.id_of(&raw), id.identifier.or(id.id));
                }
            }
        }
    }

    #[test]
    fn a_cut_sample_is_an_error(attr in attr(), pool in pool()) {
        prop_assume!(enough_words(&attr, &pool));
        let layout = layout_of(&attr, Endian::Little);
        let mut bytes = Vec::new();
        layout.encode(&Record::Sample(pool.sample(&attr, Endian::Little)), &mut bytes).unwrap();
        for len in 0..bytes.len() {
            prop_assert!(RawRecord::parse(&bytes[..len], Endian::Little).is_err());
            if let Some(body) = bytes[..len].get(8..) {
                let raw = RawRecord { kind: 9, misc: 0, body };
                prop_assert!(layout.decode(&raw).is_err());
            }
        }
    }

    #[test]
    fn damaged_bytes_never_panic(
        attr in attr(),
        kind in 0..90_u32,
        misc in any::<u16>(),
        body in vec(any::<u8>(), 0..300),
        words in vec((0..40_usize, select(vec![u64::MAX, 1 << 61, 1 << 63, 0, 7, 1 << 32])), 0..4),
    ) {
        let mut body = body;
        for (word, value) in words {
            if let Some(bytes) = body.get_mut(word * 8..word * 8 + 8) {
                bytes.copy_from_slice(&value.to_le_bytes());
            }
        }
        for endian in [Endian::Little, Endian::Big] {
            let layout = RecordLayout::new(&attr, endian);
            let raw = RawRecord { kind, misc, body: &body };
            let _ = layout.time_of(&raw);
            let _ = layout.id_of(&raw);
            if let Ok(record) = layout.decode(&raw) {
                let mut out = Vec::new();
                let _ = layout.encode(&record, &mut out);
            }
            let _ = Attr::parse(&body, endian);
            let _ = RawRecord::parse(&body, endian);
        }
    }
}

#[test]
fn a_hostile_count_names_its_field() {
    let attr = Attr { sample_format: SampleFormat::IP | SampleFormat::CALLCHAIN, ..Attr::default() };
    let layout = RecordLayout::new(&attr, Endian::Little);
    let mut body = [0_u8; 24];
    body[8..16].copy_from_slice(&(1_u64 << 61).to_le_bytes());
    let error = layout.decode(&RawRecord { kind: 9, misc: 0, body: &body }).unwrap_err();
    assert_eq!(
        error,
        DecodeError::Count { kind: 9, field: "callchain nr", offset: 16, count: 1 << 61, available: 8 }
    );
    assert_eq!(
        error.to_string(),
        "SAMPLE record: callchain nr at offset 16 is 2305843009213693952, which the 8 bytes left cannot hold"
    );
}

#[test]
fn unknown_sample_bits_refuse_samples_and_keep_sideband() {
    let attr = Attr {
        sample_format: SampleFormat::from_bits_retain(1 << 25 | 1),
        flags: AttrFlags::SAMPLE_ID_ALL,
        ..Attr::default()
    };
    let layout = RecordLayout::new(&attr, Endian::Little);
    let refused = DecodeError::UnknownFormat { field: "sample_type", bits: 1 << 25 };
    assert_eq!(layout.refusal(), Some(refused));
    assert_eq!(layout.decode(&RawRecord { kind: 9, misc: 0, body: &[0; 64] }), Err(refused));
    let comm = RawRecord { kind: 3, misc: 0, body: b"\x01\0\0\0\x02\0\0\0name\0\0\0\0" };
    assert!(matches!(layout.decode(&comm), Ok(Record::Comm(comm)) if comm.comm == b"name"));
}

#[test]
fn a_mark_of_a_build_id_is_believed_where_the_attr_asks() {
    let mmap = |identity| {
        Record::Mmap(Mmap {
            pid: Pid(1),
            tid: Tid(1),
            start: 0x1000,
            len: 0x1000,
            page_offset: 0,
            path: b"/a",
            extended: Some(MmapExtended { identity, protection: 5, flags: 2 }),
            data: false,
            mode: CpuMode::User,
            scan_cut_short: false,
            sample_id: SampleId::default(),
        })
    };
    let file = |major, inode| MmapIdentity::File(FileIdentity { major, minor: 0, inode, generation: 0 });
    let build_id = MmapIdentity::BuildId(BuildId::from_bytes(&[1; 8]));
    let silent = RecordLayout::new(&Attr::default(), Endian::Little);
    let asking = RecordLayout::new(&Attr { flags: AttrFlags::BUILD_ID, ..Attr::default() }, Endian::Little);
    let marked = |layout: &RecordLayout, identity| {
        let mut bytes = Vec::new();
        layout.encode(&mmap(identity), &mut bytes).unwrap();
        // `PERF_RECORD_MISC_MMAP_BUILD_ID`, in the header's `misc`: another event asks for build ids.
        bytes[5] |= 0x40;
        bytes
    };
    let read = |layout: &RecordLayout, bytes: &[u8]| {
        let Ok(Record::Mmap(mmap)) = layout.decode(&RawRecord::parse(bytes, Endian::Little).unwrap().0)
        else {
            panic!("no mapping")
        };
        mmap.extended.unwrap().identity
    };
    // Device 254:0; and device 8:0 with an inode that fits: its bytes are those of a build id of 8 bytes.
    for identity in [file(254, 2), file(8, 2)] {
        assert_eq!(read(&silent, &marked(&silent, identity)), identity);
    }
    assert_eq!(read(&asking, &marked(&asking, build_id)), build_id);
    // Device 254:0 is no length.
    assert_eq!(read(&asking, &marked(&asking, file(254, 2))), file(254, 2));
    // What the attr has no bit for is written without the mark, and says nothing of the file.
    let mut bytes = Vec::new();
    silent.encode(&mmap(build_id), &mut bytes).unwrap();
    assert_eq!((bytes[5] & 0x40, read(&silent, &bytes)), (0, file(0, 0)));
}
