//! What single values mean, by `perf_event_open(2)` and `include/uapi/linux/perf_event.h`.

#![allow(clippy::unwrap_used)]

use model::Timestamp;
use prof_decoder::attr::{TYPE_HARDWARE, TYPE_SOFTWARE, TYPE_TRACEPOINT};
use prof_decoder::context::{self, Context};
use prof_decoder::values::{BranchFlags, BranchStack, U64s};
use prof_decoder::{
    Attr, AttrFlags, DecodeError, Endian, HEADER_SIZE, RawRecord, ReadFormat, RecordLayout, SampleFormat,
    kind,
};

#[test]
fn the_bits_of_a_branch() {
    // Flags as 0 and 1, then the numbers.
    let read = |flags: BranchFlags| -> [u16; 9] {
        let numbers = [flags.kind(), flags.speculation(), flags.new_kind(), flags.privilege()].map(u16::from);
        let [kind, speculation, new_kind, privilege] = numbers;
        let flag = u16::from;
        let (missed, hit) = (flag(flags.mispredicted()), flag(flags.predicted()));
        let (inside, abort) = (flag(flags.in_transaction()), flag(flags.abort()));
        [missed, hit, inside, abort, flags.cycles(), kind, speculation, new_kind, privilege]
    };
    // Where each begins, and what it has when all of its bits are set.
    let fields = [(0, 1), (1, 1), (2, 1), (3, 1), (4, 0xffff), (20, 15), (24, 3), (26, 15), (30, 7)];
    for (index, (shift, all)) in fields.into_iter().enumerate() {
        let mut expected = [0; 9];
        expected[index] = all;
        assert_eq!(read(BranchFlags(u64::from(all) << shift)), expected);
    }
    assert_eq!(read(BranchFlags(u64::MAX << 33)), [0; 9]);
}

#[test]
fn sequences_are_equal_by_their_values() {
    let (one, other) = ([1_u8, 0, 0, 0, 0, 0, 0, 0], [0_u8, 0, 0, 0, 0, 0, 0, 1]);
    let little = |bytes| U64s::new(bytes, Endian::Little);
    assert_eq!(little(&one), U64s::new(&other, Endian::Big));
    assert_ne!(little(&one), little(&other));
    assert_ne!(little(&one), little(&[]));
    let branches = |hw_index, entries, counters| BranchStack::new(hw_index, little(entries), counters);
    let (words, others) = ([1_u8; 24], [2_u8; 24]);
    let stack = branches(Some(1), &words, None);
    assert_eq!(stack, branches(Some(1), &words, None));
    assert_ne!(stack, branches(Some(2), &words, None));
    assert_ne!(stack, branches(Some(1), &others, None));
    assert_ne!(stack, branches(Some(1), &words, Some(little(&one))));
}

#[test]
fn every_mark_of_a_call_chain_is_known_and_no_address_is_one() {
    let marks = [
        (context::HYPERVISOR, Context::Hypervisor),
        (context::KERNEL, Context::Kernel),
        (context::USER, Context::User),
        (context::USER_DEFERRED, Context::UserDeferred),
        (context::GUEST, Context::Guest),
        (context::GUEST_KERNEL, Context::GuestKernel),
        (context::GUEST_USER, Context::GuestUser),
        (context::MAX, Context::Unknown),
    ];
    for (value, mark) in marks {
        assert_eq!(Context::from_value(value), Some(mark), "{value:#x}");
    }
    assert_eq!(Context::from_value(context::MAX - 1), None);
    assert_eq!(Context::from_value(0), None);
}

#[test]
fn all_types_of_records_have_the_names_of_the_kernel() {
    let names: Vec<_> = (1..=22).map(|kind| kind::name(kind).unwrap()).collect();
    let expected = "MMAP LOST COMM EXIT THROTTLE UNTHROTTLE FORK READ SAMPLE MMAP2 AUX ITRACE_START LOST_SAMPLES SWITCH \
                    SWITCH_CPU_WIDE NAMESPACES KSYMBOL BPF_EVENT CGROUP TEXT_POKE AUX_OUTPUT_HW_ID CALLCHAIN_DEFERRED";
    assert_eq!(names.join(" "), expected);
    assert_eq!((kind::name(0), kind::name(kind::FIRST_OF_TOOLS)), (None, None));
}

#[test]
fn what_an_event_counts_says_whether_it_runs_with_time() {
    let event = |kind, config| Attr { kind, config, ..Attr::default() };
    // An event, whether it is a clock, and whether it counts as long as a program runs.
    let events = [
        (TYPE_SOFTWARE, 0, true, true),              // cpu-clock
        (TYPE_SOFTWARE, 1, true, true),              // task-clock
        (TYPE_SOFTWARE, 2, false, false),            // page-faults
        (TYPE_HARDWARE, 0, false, true),             // cycles
        (TYPE_HARDWARE, 9, false, true),             // ref-cycles
        (TYPE_HARDWARE, 0x8_0000_0000, false, true), // cycles of one kind of core
        (TYPE_HARDWARE, 1, false, false),            // instructions
        (TYPE_TRACEPOINT, 0, false, false),
        (TYPE_TRACEPOINT, 9, false, false),
    ];
    for (kind, config, is_clock, runs) in events {
        let attr = event(kind, config);
        assert_eq!((attr.is_cpu_clock(), attr.runs_with_time()), (is_clock, runs), "{kind} {config}");
    }
    assert!(Attr { flags: AttrFlags::FREQ, ..Attr::default() }.is_frequency());
    assert!(!Attr { flags: !AttrFlags::FREQ, ..Attr::default() }.is_frequency());
}

#[test]
fn ids_and_times_lie_where_the_attr_puts_them() {
    let attr = |sample_format, flags| Attr { sample_format, flags, ..Attr::default() };
    let format =
        SampleFormat::IP | SampleFormat::TID | SampleFormat::TIME | SampleFormat::ID | SampleFormat::CPU;
    let all = RecordLayout::new(&attr(format, AttrFlags::SAMPLE_ID_ALL), Endian::NATIVE);
    assert_eq!(all.id_places(), (Some(24), Some(16)));
    let samples = RecordLayout::new(&attr(format, AttrFlags::empty()), Endian::NATIVE);
    assert_eq!(samples.id_places(), (Some(24), None));
    let identified = format | SampleFormat::IDENTIFIER;
    let identified = RecordLayout::new(&attr(identified, AttrFlags::SAMPLE_ID_ALL), Endian::NATIVE);
    assert_eq!(identified.id_places(), (Some(0), Some(8)));
    let read_format = ReadFormat::GROUP | ReadFormat::LOST;
    let reading = RecordLayout::new(&Attr { read_format, ..Attr::default() }, Endian::NATIVE);
    assert_eq!(reading.read_format(), read_format);

    // pid, tid; then the trailer: pid, tid, time, id, cpu.
    let comm: Vec<u8> = [1_u64, 2, 3, 4, 5].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let record = |body| RawRecord { kind: kind::COMM, misc: 0, body };
    assert_eq!(record(&comm[..]).size(), HEADER_SIZE + 40);
    assert_eq!((all.time_of(&record(&comm)), all.id_of(&record(&comm))), (Some(Timestamp(3)), Some(4)));
    assert_eq!(samples.time_of(&record(&comm)), None);
    let cut = &comm[8..];
    assert_eq!(
        (all.time_of(&record(cut)), all.id_of(&record(cut))),
        (None, None),
        "its first fields are missing"
    );
}

#[test]
fn a_cut_field_is_named_with_its_offset_and_what_it_needs() {
    let format = SampleFormat::IP | SampleFormat::TIME;
    let layout = RecordLayout::new(&Attr { sample_format: format, ..Attr::default() }, Endian::NATIVE);
    let cut = RawRecord { kind: kind::SAMPLE, misc: 0, body: &[0; 12] };
    let error = layout.decode_sample(&cut).unwrap_err();
    let DecodeError::FieldCut { kind, offset, needed, available, .. } = error else { panic!("{error:?}") };
    assert_eq!((kind, offset, needed, available), (kind::SAMPLE, HEADER_SIZE + 8, 8, 4));
}
