//! Samples as `perf script` prints them, byte for byte: the expected lines are perf's for the same values.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use decoder::values::{BranchStack, U64s};
use decoder::{Attr, CpuMode, Endian, Sample, SampleFormat};
use model::{
    AddressKind, CpuId, EventIndex, Frame, Name, ObjectIdentity, Pid, Reason, Resolution, SourceLocation,
    Space, SpaceId, SpaceTable, StackEntry, Symbolized, Tid, Timestamp, TruncationReason,
};
use prof_export::script::{
    ChainLineTable, ChainLineTexts, FieldSelection, GappedText, LocatedAddress, Printer, SampleStack,
    ScriptEvent, SymbolLookup, TracepointFormat,
};

/// Below 0x1000: no symbol. Above: `f` with two functions inlined into it.
struct Known {
    spaces: SpaceTable,
    named: Resolution,
    nameless: Resolution,
}

impl SymbolLookup for Known {
    fn resolution(&self, entry: &StackEntry) -> Option<&Resolution> {
        Some(if entry.offset < 0x1000 { &self.nameless } else { &self.named })
    }

    fn space(&self, id: SpaceId) -> &Space {
        self.spaces.get(id)
    }

    fn lists_module(&self, path: &Name) -> bool {
        path.as_bytes().ends_with(b"listed-too.ko")
    }
}

fn known() -> Known {
    let frame = |function: &str, line, inlined| Frame {
        function: Arc::from(function),
        location: Some(SourceLocation {
            file: Arc::from("/src/w.c"),
            line,
            column: 0,
            discriminator: 0,
            start_line: 0,
        }),
        inlined,
    };
    let frames = vec![frame("innermost", 4, true), frame("middle\n", 5, true), frame("f", 6, false)];
    let mut spaces = SpaceTable::default();
    let path = Name::from("/usr/bin/w");
    spaces.intern(Space::Object(ObjectIdentity { path, build_id: None, file: None }));
    spaces.intern(Space::Jit { pid: Pid(7), generation: 0, mapping: Name::from("//anon") });
    for name in ["only-mapped.ko.xz", "listed-too.ko"] {
        let name = Name::new(format!("/lib/modules/6.1/kernel/{name}").as_bytes());
        spaces.intern(Space::KernelModule { name, build_id: None, start: 0 });
    }
    Known {
        spaces,
        named: Resolution::Resolved(Symbolized { frames: frames.into(), symbol_offset: Some(0x1c) }),
        nameless: Resolution::Unresolved(Reason::NoSymbols),
    }
}

fn place(address: u64) -> LocatedAddress {
    let space = SpaceId(match address {
        0x900 => 1,
        0x7000 => 2,
        0x7100 => 3,
        _ => 0,
    });
    let kind = AddressKind::InstructionPointer;
    LocatedAddress {
        address,
        entry: StackEntry { offset: address, space, kind, in_kernel: address == 0x2000 },
    }
}

fn sample() -> Sample<'static> {
    let attr = Attr { sample_format: SampleFormat::empty(), ..Attr::default() };
    let layout = decoder::RecordLayout::new(&attr, Endian::Little);
    let raw = decoder::RawRecord { kind: 9, misc: 2, body: &[] };
    Sample {
        ip: Some(0x5559_fd0d_f145),
        thread: Some((Pid(799), Tid(7996))),
        time: Some(Timestamp(3_708_614_969_882)),
        period: Some(1_001_001),
        mode: CpuMode::User,
        ..layout.decode_sample(&raw).unwrap()
    }
}

const FORMAT: SampleFormat =
    SampleFormat::IP.union(SampleFormat::TID).union(SampleFormat::TIME).union(SampleFormat::PERIOD);

struct Case {
    attr: Attr,
    fields: &'static [&'static str],
    chain: Option<Vec<LocatedAddress>>,
    inlined: bool,
    comm: &'static str,
    /// The text of a tracepoint's format.
    format: String,
}

impl Case {
    fn new(kind: u32, format: SampleFormat) -> Self {
        let attr = Attr { kind, sample_format: format, ..Attr::default() };
        Self { attr, fields: &[], chain: None, inlined: false, comm: "w", format: FIELDS.to_owned() }
    }

    fn print(&self, sample: &Sample<'_>) -> String {
        let name = Name::from("cpu-clock");
        let mut selection = FieldSelection::default();
        self.fields.iter().for_each(|fields| selection.apply(fields).unwrap());
        let events = [
            ScriptEvent { attr: &self.attr, name: &name },
            ScriptEvent { attr: &Attr { kind: 4, ..Attr::default() }, name: &Name::from("a longer name") },
        ];
        let mut printer = Printer::new(&events[..1], &selection, self.inlined).unwrap();
        let (mut text, mut lines) = (GappedText::default(), ChainLineTable::default());
        let event = EventIndex(0);
        printer.set_format(event, TracepointFormat::new(self.format.as_bytes(), Endian::Little));
        let chain: Option<Vec<_>> = self.chain.as_ref().map(|places| {
            let style = printer.style(event).unwrap();
            places.iter().map(|&place| lines.intern(style, place)).collect()
        });
        let stack = match &chain {
            Some(chain) => SampleStack::Chain(chain),
            None => SampleStack::Instruction(place(sample.ip.unwrap_or(0))),
        };
        printer.sample(event, sample, &Name::from(self.comm), Some(stack), &mut place, &mut text);
        let mut output = Vec::new();
        let mut texts = ChainLineTexts::default();
        let new = lines.drain_new();
        texts.format(&new, &known());
        text.fill(&texts, &known(), &mut output).unwrap();
        assert!(text.is_empty());
        String::from_utf8(output).unwrap()
    }
}

#[test]
fn a_sample_without_a_call_chain_is_a_line() {
    let case = Case::new(1, FORMAT);
    let line =
        "               w  7996  3708.614969:    1001001 cpu-clock:      5559fd0df145 f+0x1c (/usr/bin/w)\n";
    assert_eq!(case.print(&sample()), line);
    let nameless = "               w  7996  3708.614969:    1001001 cpu-clock:               123 [unknown] (/usr/bin/w)\n";
    assert_eq!(case.print(&Sample { ip: Some(0x123), ..sample() }), nameless);
    let cpu = Case { comm: "migration/0 longer", ..Case::new(1, FORMAT | SampleFormat::CPU) };
    let line = cpu.print(&Sample { cpu: Some(CpuId(1)), ..sample() });
    assert!(line.starts_with("migration/0 longer  7996 [001]  3708.614969: "), "{line}");
}

/// As perf prints the files of quipper's tests: `[ath9k]` where there is no list of build ids, the path where there is one.
#[test]
fn modules_have_their_path_where_the_recording_lists_them() {
    let mut case = Case::new(1, FORMAT | SampleFormat::CALLCHAIN);
    case.fields = &["ip,dso"];
    case.chain = Some(vec![place(0x7000), place(0x7100)]);
    let expected =
        "\t            7000 ([only_mapped])\n\t            7100 (/lib/modules/6.1/kernel/listed-too.ko)\n\n";
    assert!(case.print(&sample()).ends_with(expected), "{}", case.print(&sample()));
}

#[test]
fn a_call_chain_is_a_block() {
    let mut case = Case::new(1, FORMAT | SampleFormat::CALLCHAIN);
    case.chain = Some(vec![place(0x5559_fd0d_f145), place(0x900)]);
    let head = "w  7996  3708.614969:    1001001 cpu-clock: \n";
    let last = "\t             900 [unknown] (/tmp/perf-7.map)\n\n";
    let expected = format!("{head}\t    5559fd0df145 f+0x1c (/usr/bin/w)\n{last}");
    assert_eq!(case.print(&sample()), expected);
    case.inlined = true;
    let inlined = "\t    5559fd0df145 innermost (inlined)\n\t    5559fd0df145 middle\u{fffd} (inlined)\n";
    assert_eq!(
        case.print(&sample()),
        format!("{head}{inlined}\t    5559fd0df145 f+0x1c (/usr/bin/w)\n{last}")
    );
    case.fields = &["ip,sym,srcline"];
    case.inlined = false;
    assert_eq!(case.print(&sample()), "\n\t    5559fd0df145 f\n  w.c:4\n\t             900 [unknown]\n\n");
}

#[test]
fn pids_times_and_levels() {
    let case = Case { fields: &["comm,pid,tid,misc,time"], ..Case::new(1, FORMAT) };
    assert_eq!(case.print(&sample()), "               w   799/7996  U      3708.614969: \n");
    let kernel = Sample { mode: CpuMode::Kernel, time: None, thread: None, ..sample() };
    let line = "               w    -1/-1    K     18446744073.709551: \n";
    assert_eq!(case.print(&kernel), line);
}

#[test]
fn hostile_names_stay_on_their_line() {
    let case = Case { comm: "a\n\x1b[2Jb", fields: &["comm,tid"], ..Case::new(1, FORMAT) };
    assert_eq!(case.print(&sample()).matches('\n').count(), 1);
    assert!(!case.print(&sample()).contains('\x1b'));
}

#[test]
fn data_addresses() {
    let mut case = Case::new(1, FORMAT | SampleFormat::ADDR);
    case.attr.config = 2;
    case.fields = &["addr,sym,symoff,dso"];
    let faulted = Sample { addr: Some(0x5633_1f15_4010), ..sample() };
    assert_eq!(case.print(&faulted), "    56331f154010 f+0x1c (/usr/bin/w)\n");
}

#[test]
fn branch_stacks() {
    let words = [0x2000_u64, 0x3000, 2 | 4 << 4, 0, 0x900, 1 | 4 << 20];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let stack = BranchStack::new(None, U64s::new(&bytes, Endian::Little), None);
    let sampled = Sample { branch_stack: Some(stack), ..sample() };
    let print = |fields: &'static [&'static str]| {
        Case { fields, ..Case::new(0, FORMAT | SampleFormat::BRANCH_STACK) }.print(&sampled)
    };
    assert_eq!(print(&["tid,brstack"]), " 7996  0x2000/0x3000/P/-/-/4/  0x0/0x900/M/-/-/0/CALL \n");
    let symbols = " 7996 f+0x1c(/usr/bin/w)/f+0x1c(/usr/bin/w)/P/-/-/4/ ";
    let unknown = "[unknown](/usr/bin/w)/[unknown](/tmp/perf-7.map)/M/-/-/0/CALL \n";
    assert_eq!(print(&["tid,brstacksym,dso"]), format!("{symbols}{unknown}"));
}

#[test]
fn truncated_stacks_say_why() {
    struct Cut(SpaceTable, Resolution);
    impl SymbolLookup for Cut {
        fn resolution(&self, _: &StackEntry) -> Option<&Resolution> {
            Some(&self.1)
        }
        fn space(&self, id: SpaceId) -> &Space {
            self.0.get(id)
        }
        fn lists_module(&self, _: &Name) -> bool {
            false
        }
    }
    let reason = TruncationReason::CopyTooSmall;
    let mut spaces = SpaceTable::default();
    spaces.intern(Space::Truncated(reason));
    let symbols = Cut(spaces, Resolution::Unresolved(Reason::Truncated(reason)));
    let case = Case::new(1, FORMAT | SampleFormat::CALLCHAIN);
    let name = Name::from("e");
    let event = ScriptEvent { attr: &case.attr, name: &name };
    let mut printer = Printer::new(&[event], &FieldSelection::default(), false).unwrap();
    let (mut text, mut lines, mut output) = (GappedText::default(), ChainLineTable::default(), Vec::new());
    let chain = [lines.intern(printer.style(EventIndex(0)).unwrap(), place(reason.marker()))];
    printer.sample(EventIndex(0), &sample(), &name, Some(SampleStack::Chain(&chain)), &mut place, &mut text);
    let mut texts = ChainLineTexts::default();
    let new = lines.drain_new();
    texts.format(&new, &symbols);
    text.fill(&texts, &symbols, &mut output).unwrap();
    let text = String::from_utf8(output).unwrap();
    assert!(text.ends_with("\t8000000000000001 [truncated: stack copy too small] ([unknown])\n\n"), "{text}");
}

/// The fields of all formats in these tests, and raw data to print.
const FIELDS: &str = "\
    \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
    \tfield:char comm[8];\toffset:8;\tsize:8;\tsigned:0;\n\
    \tfield:int pid;\toffset:16;\tsize:4;\tsigned:1;\n\
    \tfield:unsigned int bits;\toffset:20;\tsize:4;\tsigned:0;\n\
    \tfield:unsigned long args[2];\toffset:24;\tsize:16;\tsigned:0;\n\
    \tfield:__data_loc char[] name;\toffset:40;\tsize:4;\tsigned:0;\n\
    \tfield:void * ptr;\toffset:48;\tsize:8;\tsigned:0;\n";

#[test]
fn fields_of_tracepoints_have_their_names() {
    let mut raw = vec![7, 0, 0, 0, 1, 0, 0, 0];
    raw.extend_from_slice(b"perf\0xyz");
    raw.extend_from_slice(&(-5_i32).to_le_bytes());
    raw.extend_from_slice(&0b101_u32.to_le_bytes());
    raw.extend_from_slice(&0x11_u64.to_le_bytes());
    raw.extend_from_slice(&0x22_u64.to_le_bytes());
    raw.extend_from_slice(&(56_u32 | 4 << 16).to_le_bytes());
    raw.extend_from_slice(&[0; 4]);
    raw.extend_from_slice(&0x2000_u64.to_le_bytes());
    raw.extend_from_slice(b"eth0\0\0\0\0");
    let case = Case { fields: &["trace"], ..Case::new(2, SampleFormat::RAW) };
    let line = case.print(&Sample { raw: Some(&raw), ..sample() });
    assert_eq!(line, "comm=perf pid=-5 bits=5 args=17,34 name=eth0 ptr=0x2000\n");
    raw.truncate(18);
    let line = case.print(&Sample { raw: Some(&raw), ..sample() });
    assert_eq!(line, "comm=perf pid=-5 bits=0 args= name= ptr=0x0\n");
}

mod hostile {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn no_format_and_no_raw_data_harm(
            format in r#"(field:(__data_loc |__rel_loc )?(char|u8|unsigned long|void \*|[ -~]{0,9})[ \[\]0-9a-z]{0,9};\toffset:[0-9]{1,20};\tsize:[0-9]{1,20};\tsigned:[01];\n){0,4}"#,
            raw in proptest::collection::vec(any::<u8>(), 0..80),
        ) {
            for format in [format, FIELDS.to_owned()] {
                let case = Case { fields: &["trace"], format, ..Case::new(2, SampleFormat::RAW) };
                let text = case.print(&Sample { raw: Some(&raw), ..sample() });
                prop_assert_eq!(text.matches('\n').count(), 1);
                prop_assert!(text.chars().all(|c| c == '\n' || !Name::is_unsafe(c)), "{}", text);
            }
        }
    }
}
