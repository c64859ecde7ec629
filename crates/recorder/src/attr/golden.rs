//! The attrs of events on machines that we do not have: sysfs trees of `fixtures/event-sources`.

use std::path::Path;

use decoder::{Attr, AttrFlags, BranchSampleFormat, SampleFormat};
use host::sysfs;
use model::CpuId;

use super::sampler;
use crate::event::{Event, Pmu, default_events, select};
use crate::options::{CallChain, Options, Target};

/// Lays the tree of a fixture out in a folder and reads it as we read `/sys`.
fn machine(tree: &str) -> Vec<Pmu> {
    let folder = tempfile::tempdir().unwrap();
    for line in tree.lines() {
        let (path, content) = line.split_once(": ").unwrap();
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("{content}\n")).unwrap();
    }
    let core: Vec<String> = sysfs::core_pmus(folder.path()).into_iter().map(|pmu| pmu.name).collect();
    let pmus: Vec<Pmu> = read(folder.path());
    assert_eq!(core, pmus.iter().filter(|pmu| pmu.core).map(|pmu| pmu.name.clone()).collect::<Vec<_>>());
    pmus
}

fn read(folder: &Path) -> Vec<Pmu> {
    sysfs::pmus(folder).unwrap().into_iter().map(crate::event::pmu).collect()
}

macro_rules! machine {
    ($name:literal) => {
        machine(include_str!(concat!("../../../../fixtures/event-sources/", $name, ".txt")))
    };
}

fn options() -> Options {
    Options { call_chain: CallChain::FramePointers, ..Options::new(Target::System) }
}

fn attrs(text: &str, machine: &Vec<Pmu>) -> Vec<Attr> {
    let events = select(text, machine).unwrap_or_else(|error| panic!("{text}: {error}"));
    events.iter().map(|event| sampler(event, &options(), 0, 4096)).collect()
}

/// Type, config, config1, config2 and precision.
type Selector = (u32, u64, u64, u64, u8);

fn selector(attr: &Attr) -> Selector {
    (attr.kind, attr.config, attr.config1, attr.config2, attr.precise_ip)
}

/// Holds each event against the selectors of its attrs.
fn golden(machine: &Vec<Pmu>, events: &[(&str, &[Selector])]) {
    for (text, expected) in events {
        let found: Vec<Selector> = attrs(text, machine).iter().map(selector).collect();
        assert_eq!(&found, expected, "{text}: {found:#x?}");
    }
}

fn cpus(event: &Event) -> Vec<u32> {
    event.cpus.iter().flatten().map(|cpu: &CpuId| cpu.0).collect()
}

#[test]
fn intel() {
    let machine = machine!("intel");
    golden(
        &machine,
        &[
            ("cycles", &[(0, 0, 0, 0, 0)]),
            ("instructions:p", &[(0, 1, 0, 0, 1)]),
            ("branch-misses:pp", &[(0, 5, 0, 0, 2)]),
            ("cycles:ppp", &[(0, 0, 0, 0, 3)]),
            ("cycles:P", &[(0, 0, 0, 0, 3)]),
            ("L1-dcache-load-misses", &[(3, 0x1_0000, 0, 0, 0)]),
            ("LLC-store-misses:u", &[(3, 0x1_0102, 0, 0, 0)]),
            ("r1a8", &[(4, 0x1a8, 0, 0, 0)]),
            ("cpu/event=0xc0,umask=1,inv,cmask=10/", &[(4, 0x0a80_01c0, 0, 0, 0)]),
            ("cpu/event=0x3c,in_tx,in_tx_cp/", &[(4, 0x3_0000_003c, 0, 0, 0)]),
            ("cpu/cycles-ct/", &[(4, 0x3_0000_003c, 0, 0, 0)]),
            ("cpu/mem-loads/P", &[(4, 0x1cd, 3, 0, 3)]),
            ("cpu/mem-loads,ldlat=30/pp", &[(4, 0x1cd, 30, 0, 2)]),
            ("mem-stores", &[(4, 0x82d0, 0, 0, 0)]),
            ("cpu/event=0xb7,umask=1,offcore_rsp=0x3fffc00001/", &[(4, 0x1b7, 0x3f_ffc0_0001, 0, 0)]),
            ("cpu/config=0x123,config1=2,config2=3/", &[(4, 0x123, 2, 3, 0)]),
            ("cpu/topdown-recovery-bubbles/", &[(4, 0x20_010d, 0, 0, 0)]),
            ("intel_pt/psb_period=3,cyc/", &[(8, 0x300_0002, 0, 0, 0)]),
            ("power/energy-pkg/", &[(10, 2, 0, 0, 0)]),
            ("uncore_imc/data_reads/", &[(11, 1, 0, 0, 0)]),
            ("uncore_cbox/event=0x22,umask=0x41/", &[(12, 0x4122, 0, 0, 0), (13, 0x4122, 0, 0, 0)]),
            ("cbox/event=0x22/", &[(12, 0x22, 0, 0, 0), (13, 0x22, 0, 0, 0)]),
        ],
    );
    let bandwidth = &select("uncore_imc/data_reads/", &machine).unwrap()[0];
    assert_eq!((cpus(bandwidth), bandwidth.core), (vec![0], false));
    for (bad, wanted) in [
        ("cpu/umask=0x100/", "umask=0x100"),
        ("cpu/umsk=1/", "did you mean umask?"),
        ("cpu/mem-load/", "did you mean mem-loads?"),
        ("uncore_cbox_0/cmask=32/", "cmask=32"),
        ("cpuu/event=1/", "did you mean cpu?"),
        ("mem-laods", "did you mean mem-loads?"),
    ] {
        let error = select(bad, &machine).unwrap_err().to_string();
        assert!(error.contains(wanted), "{bad}: {error}");
    }
}

#[test]
fn intel_with_two_kinds_of_cores() {
    let machine = machine!("intel-hybrid");
    let both =
        |config: u64, precise| [(0, 4 << 32 | config, 0, 0, precise), (0, 10 << 32 | config, 0, 0, precise)];
    golden(
        &machine,
        &[
            ("cycles:P", &both(0, 3)),
            ("instructions:u", &both(1, 0)),
            ("LLC-load-misses", &[(3, 4 << 32 | 0x1_0002, 0, 0, 0), (3, 10 << 32 | 0x1_0002, 0, 0, 0)]),
            ("r3c", &[(4, 0x3c, 0, 0, 0), (10, 0x3c, 0, 0, 0)]),
            ("cpu_atom/event=0x3c/pp", &[(10, 0x3c, 0, 0, 2)]),
            ("cpu_core/topdown-retiring/", &[(4, 0x8000, 0, 0, 0)]),
            ("topdown-retiring", &[(4, 0x8000, 0, 0, 0), (10, 0xc2, 0, 0, 0)]),
            ("cpu/mem-loads/P", &[(4, 0x1cd, 3, 0, 3), (10, 0x5d0, 3, 0, 3)]),
            ("uncore_imc_free_running/data_read/", &[(20, 0x20ff, 0, 0, 0), (21, 0x20ff, 0, 0, 0)]),
            ("cs", &[(1, 3, 0, 0, 0)]),
        ],
    );
    let cores: Vec<Pmu> = machine.iter().filter(|pmu| pmu.core).cloned().collect();
    let default = default_events(&cores);
    let shown: Vec<(&str, usize)> =
        default.iter().map(|event| (event.name.as_str(), cpus(event).len())).collect();
    assert_eq!(shown, [("cycles:P", 16), ("cycles:P", 8)], "one name, each on the CPUs of its kind");
}

#[test]
fn amd() {
    let machine = machine!("amd");
    golden(
        &machine,
        &[
            ("cycles:P", &[(0, 0, 0, 0, 3)]),
            ("stalled-cycles-frontend", &[(0, 7, 0, 0, 0)]),
            ("cpu/cache-misses/", &[(4, 0x964, 0, 0, 0)]),
            ("cpu/event=0x1c0,umask=0xff/", &[(4, 0x1_0000_ffc0, 0, 0, 0)]),
            ("ibs_op/cnt_ctl/", &[(11, 1 << 19, 0, 0, 0)]),
            ("ibs_op//p", &[(11, 0, 0, 0, 1)]),
            ("ibs_fetch/rand_en/", &[(10, 1 << 57, 0, 0, 0)]),
            (
                "amd_l3/event=0x4,umask=0xff,enallslices,enallcores,threadmask=3/",
                &[(12, 0x0300_c000_0000_ff04, 0, 0, 0)],
            ),
            ("amd_df/event=0x1f07,umask=0x38/", &[(13, 0x0800_000f_0000_3807, 0, 0, 0)]),
        ],
    );
    assert_eq!(cpus(&select("amd_l3/event=1/", &machine).unwrap()[0]), [0, 8]);
}

#[test]
fn arm() {
    let server = machine!("arm-server");
    golden(
        &server,
        &[
            ("cycles", &[(0, 0, 0, 0, 0)]),
            ("r11", &[(4, 0x11, 0, 0, 0)]),
            ("armv8_pmuv3_0/cpu_cycles,long/", &[(8, 0x11, 1, 0, 0)]),
            ("armv8_pmuv3/cpu_cycles/", &[(8, 0x11, 0, 0, 0)]),
            ("cpu/inst_retired/", &[(8, 8, 0, 0, 0)]),
            ("l1d_cache_refill", &[(8, 3, 0, 0, 0)]),
            ("arm_spe_0/ts_enable,load_filter,min_latency=10/", &[(9, 0x2_0000_0001, 0, 10, 0)]),
            ("arm_cmn_0/hnf_cache_miss,bynodeid,nodeid=0x68/", &[(10, 0x68_8001_0005, 0, 0, 0)]),
        ],
    );
    let two = machine!("arm-big-little");
    golden(
        &two,
        &[
            ("cycles:u", &[(0, 8 << 32, 0, 0, 0), (0, 9 << 32, 0, 0, 0)]),
            ("r11", &[(8, 0x11, 0, 0, 0), (9, 0x11, 0, 0, 0)]),
            ("armv8_cortex_a72/mem_access/", &[(9, 0x13, 0, 0, 0)]),
            ("br_mis_pred", &[(8, 0x10, 0, 0, 0), (9, 0x10, 0, 0, 0)]),
        ],
    );
    assert_eq!(cpus(&select("armv8_cortex_a72/event=0/", &two).unwrap()[0]), [4, 5]);
}

#[test]
fn modifiers_are_flags() {
    use AttrFlags as F;
    let machine = machine!("intel");
    let always = F::DISABLED | F::SAMPLE_ID_ALL | F::WATERMARK | F::FREQ | F::USE_CLOCKID;
    for (text, flags) in [
        ("cycles", F::EXCLUDE_GUEST),
        ("cycles:u", F::EXCLUDE_GUEST | F::EXCLUDE_KERNEL | F::EXCLUDE_HV),
        ("cycles:k", F::EXCLUDE_GUEST | F::EXCLUDE_USER | F::EXCLUDE_HV),
        ("cycles:h", F::EXCLUDE_GUEST | F::EXCLUDE_USER | F::EXCLUDE_KERNEL),
        ("cycles:uk", F::EXCLUDE_GUEST | F::EXCLUDE_HV),
        ("cycles:G", F::EXCLUDE_HOST),
        ("cycles:GH", F::empty()),
        ("cycles:H", F::EXCLUDE_GUEST),
        ("cycles:I", F::EXCLUDE_GUEST | F::EXCLUDE_IDLE),
        ("cycles:D", F::EXCLUDE_GUEST | F::PINNED),
        ("cycles:e", F::EXCLUDE_GUEST | F::EXCLUSIVE),
        ("cpu/event=1/ukppD", F::EXCLUDE_GUEST | F::EXCLUDE_HV | F::PINNED),
    ] {
        let attr = &attrs(text, &machine)[0];
        assert_eq!(attr.flags, flags | always, "{text}");
    }
}

#[test]
fn a_sample_carries_what_is_asked_for() {
    use SampleFormat as S;
    let machine = machine!("intel");
    let common = S::IDENTIFIER | S::IP | S::TID | S::TIME | S::CPU | S::CALLCHAIN;
    for (text, format) in [
        ("cycles", common | S::PERIOD),
        ("cycles/period=100000/", common),
        ("cycles/call-graph=no/", (common - S::CALLCHAIN) | S::PERIOD),
        ("cycles/call-graph=dwarf/", common | S::PERIOD | S::REGS_USER | S::STACK_USER),
        ("cycles/call-graph=lbr/", common | S::PERIOD | S::BRANCH_STACK),
        ("{cycles,instructions}:S", common | S::PERIOD | S::READ),
    ] {
        assert_eq!(attrs(text, &machine)[0].sample_format, format, "{text}");
    }
    let attr = &attrs("cycles/freq=99,max-stack=5/", &machine)[0];
    assert_eq!((attr.sample_period, attr.is_frequency(), attr.sample_max_stack), (99, true, 5));
    let attr = &attrs("cycles/period=100,name=slow/", &machine)[0];
    assert_eq!((attr.sample_period, attr.is_frequency()), (100, false));
}

#[test]
fn last_branches_are_asked_for_as_a_call_stack_of_user_space() {
    use BranchSampleFormat as B;
    let machine = machine!("intel");
    let event = &select("cycles:P", &machine).unwrap()[0];
    let attr = sampler(event, &Options { call_chain: CallChain::LastBranches, ..options() }, 0, 4096);
    assert!(attr.sample_format.contains(SampleFormat::BRANCH_STACK | SampleFormat::CALLCHAIN));
    let wanted = B::USER | B::CALL_STACK | B::NO_CYCLES | B::NO_FLAGS | B::HW_INDEX;
    assert_eq!(attr.branch_sample_format, wanted);
    assert_eq!(attr.precise_ip, 3);
    // The other ways leave the branches alone.
    assert_eq!(sampler(event, &options(), 0, 4096).branch_sample_format, B::empty());
}
