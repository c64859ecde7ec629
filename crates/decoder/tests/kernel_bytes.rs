//! Samples as a real kernel (Linux 6.18, x86-64) wrote them, against what `perf script -D` says of them.
//!
//! A sample that is decoded and encoded again has the same bytes: so nothing between the fields, and nothing behind
//! the last one, was taken for something else.

#![allow(clippy::unwrap_used)]

use model::{CpuId, Pid, Tid, Timestamp};
use prof_decoder::{Attr, Endian, RawRecord, Record, RecordLayout, Sample, context};

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn check(attr: &str, body: &str, look: impl Fn(&Sample<'_>)) {
    let attr = Attr::parse(&bytes(attr), Endian::Little).unwrap();
    let layout = RecordLayout::new(&attr, Endian::Little);
    let body = bytes(body);
    let sample = layout.decode_sample(&RawRecord { kind: 9, misc: 2, body: &body }).unwrap();
    look(&sample);
    let mut written = Vec::new();
    layout.encode(&Record::Sample(sample), &mut written).unwrap();
    assert_eq!(written[8..], body);
}

/// `perf record -e page-faults -c 1 -d -W --phys-data --intr-regs --user-regs=ax,ip,sp -g --data-page-size
/// --code-page-size --all-cgroups --sample-cpu`
const FAULT_ATTR: &str = "\
    010000008000000002000000000000000100000000000000af91ec010000000014000000000000000333966101000000\
    000000000000000000000000000000000000000000000000000000000000000081010000000000000000000000000000\
    ff0fff0000000000000000000000000000000000000000000000000000000000\
";
const FAULT: &str = "\
    709b20ef8e7f0000052500000525000072236b47ef050000709b20ef8e7f000000000000000000000100000000000000\
    020000000000000000feffffffffffff709b20ef8e7f00000200000000000000000000000000000030ee2228fc7f0000\
    709b20ef8e7f00000000000000000000210008051e000000020000000000000000000000000000000000000000000000\
    0000000000000000000000000000000000000000000000000000000000000000000000000000000030ee2228fc7f0000\
    709b20ef8e7f0000020201000000000033000000000000002b0000000000000000000000000000000000000000000000\
    000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
    0000000000000000010000000000000000000000000000000000000000000000\
";

#[test]
fn a_page_fault_with_nearly_everything() {
    check(FAULT_ATTR, FAULT, |sample| {
        assert_eq!(sample.ip, Some(0x7f8e_ef20_9b70));
        assert_eq!(sample.thread, Some((Pid(9477), Tid(9477))));
        assert_eq!(sample.time, Some(Timestamp(6_525_253_526_386)));
        assert_eq!(sample.addr, Some(0x7f8e_ef20_9b70));
        assert_eq!(sample.cpu, Some(CpuId(0)));
        assert_eq!(sample.period, Some(1));
        let chain: Vec<u64> = sample.callchain.unwrap().iter().collect();
        assert_eq!(chain, [context::USER, 0x7f8e_ef20_9b70]);
        let user = sample.user_registers.unwrap();
        let user: Vec<_> = user.iter().collect();
        assert_eq!(user, [(0, 0), (7, 0x7ffc_2822_ee30), (8, 0x7f8e_ef20_9b70)]);
        assert_eq!(sample.weight, Some(0));
        assert_eq!(sample.data_source, Some(0x1e_0508_0021));
        let interrupt = sample.interrupt_registers.unwrap();
        assert_eq!(interrupt.iter().count(), 20);
        // SP, IP, FLAGS, CS, SS, R15
        let values = [7, 8, 9, 10, 11, 23].map(|number| interrupt.get(number));
        let expected = [0x7ffc_2822_ee30, 0x7f8e_ef20_9b70, 0x1_0202, 0x33, 0x2b, 0];
        assert_eq!(values, expected.map(Some));
        assert_eq!(sample.physical_address, Some(0));
        assert_eq!(sample.cgroup, Some(1));
        assert_eq!((sample.data_page_size, sample.code_page_size), (Some(0), Some(0)));
    });
}

/// `perf record -e '{cpu-clock,page-faults}:S' -g`
const GROUP_ATTR: &str = "\
    01000000800000000000000000000000a00f00000000000077010000000000001c000000000000000137946100000000\
    000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
    0000000000000000000000000000000000000000000000000000000000000000\
";
const GROUP: &str = "\
    9aea6f098c7f00001525000015250000a51b3393ef050000eeac00000000000090d00300000000000200000000000000\
    99ba1a0000000000eeac0000000000000000000000000000c300000000000000f0ac0000000000000000000000000000\
    020000000000000000feffffffffffff9aea6f098c7f0000\
";

#[test]
fn a_group_that_is_read_with_each_sample() {
    check(GROUP_ATTR, GROUP, |sample| {
        assert_eq!(sample.time, Some(Timestamp(6_526_524_922_789)));
        assert_eq!((sample.id, sample.period), (Some(0xacee), Some(250_000)));
        let values: Vec<_> =
            sample.read.unwrap().iter().map(|counter| (counter.id, counter.value, counter.lost)).collect();
        let leader = (Some(0xacee), 0x1a_ba99, Some(0));
        assert_eq!(values, [leader, (Some(0xacf0), 0xc3, Some(0))]);
        assert_eq!(sample.callchain.unwrap().len(), 2);
    });
}
