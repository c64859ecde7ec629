//! Samples as `perf script` prints them, byte for byte: the expected lines are perf's for the same values.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use decoder::registers::Architecture;
use decoder::values::{BranchStack, Registers, U64s};
use decoder::{Attr, CpuMode, Endian, Sample, SampleFormat};
use model::{
    AddressKind, CpuId, EventIndex, Frame, Name, ObjectIdentity, Pid, Reason, Resolution, SourceLocation,
    Space, SpaceId, SpaceTable, StackEntry, Symbolized, Tid, Timestamp, TruncationReason,
};
use prof_export::script::tracepoint::TracepointFormats;
use prof_export::script::{
    ChainLineTable, ChainLineTexts, FieldSelection, GappedText, LocatedAddress, Printer, SampleStack,
    ScriptEvent, SymbolLookup,
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
}

impl Case {
    fn new(kind: u32, format: SampleFormat) -> Self {
        let attr = Attr { kind, sample_format: format, ..Attr::default() };
        Self { attr, fields: &[], chain: None, inlined: false, comm: "w" }
    }

    fn print(&self, sample: &Sample<'_>) -> String {
        let name = Name::from("cpu-clock");
        let mut selection = FieldSelection::default();
        self.fields.iter().for_each(|fields| selection.apply(fields).unwrap());
        let events = [
            ScriptEvent { attr: &self.attr, name: &name },
            ScriptEvent { attr: &Attr { kind: 4, ..Attr::default() }, name: &Name::from("a longer name") },
        ];
        let mut printer = Printer::new(&events[..1], &selection, Architecture::X86, self.inlined).unwrap();
        let (mut text, mut lines) = (GappedText::default(), ChainLineTable::default());
        let event = EventIndex(0);
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
        let plan = texts.plan(&new);
        texts.format(&new, plan, &known());
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
fn memory_and_registers() {
    let format = FORMAT
        | SampleFormat::ADDR
        | SampleFormat::PHYS_ADDR
        | SampleFormat::DATA_SRC
        | SampleFormat::WEIGHT_STRUCT
        | SampleFormat::CODE_PAGE_SIZE;
    let mut case = Case::new(1, format);
    case.attr.config = 2;
    case.fields = &["addr,sym,symoff,dso,data_src,weight,ins_lat,phys_addr,code_page_size"];
    let faulted = Sample {
        addr: Some(0x5633_1f15_4010),
        data_source: Some(0x1e_0508_0021),
        weight: Some(5 << 32 | 9),
        physical_address: Some(0xabc),
        code_page_size: Some(2 << 20),
        ..sample()
    };
    let source = "      1e05080021 |OP N/A|LVL N/A or N/A|SNP N/A|TLB N/A|LCK N/A|BLK  N/A";
    let expected = format!(
        "    56331f154010 f+0x1c (/usr/bin/w){source}               9               5             abc 2M\n"
    );
    assert_eq!(case.print(&faulted), expected);

    let bytes: Vec<u8> =
        [0x4000121_u64, 0x7ffe, 0x7ff2].iter().flat_map(|value| value.to_le_bytes()).collect();
    let values = Registers::new(2, 1 | 1 << 7 | 1 << 8, U64s::new(&bytes, Endian::Little));
    let case = Case { fields: &["tid,uregs"], ..Case::new(1, FORMAT | SampleFormat::REGS_USER) };
    let line = case.print(&Sample { user_registers: Some(values), ..sample() });
    assert_eq!(line, " 7996  ABI:2    AX:0x4000121    SP:0x7ffe    IP:0x7ff2 \n");
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
    let mut printer = Printer::new(&[event], &FieldSelection::default(), Architecture::X86, false).unwrap();
    let (mut text, mut lines, mut output) = (GappedText::default(), ChainLineTable::default(), Vec::new());
    let chain = [lines.intern(printer.style(EventIndex(0)).unwrap(), place(reason.marker()))];
    printer.sample(EventIndex(0), &sample(), &name, Some(SampleStack::Chain(&chain)), &mut place, &mut text);
    let mut texts = ChainLineTexts::default();
    let new = lines.drain_new();
    let plan = texts.plan(&new);
    texts.format(&new, plan, &symbols);
    text.fill(&texts, &symbols, &mut output).unwrap();
    let text = String::from_utf8(output).unwrap();
    assert!(text.ends_with("\t8000000000000001 [truncated: stack copy too small] ([unknown])\n\n"), "{text}");
}

fn tracing_data(formats: &[&str]) -> Vec<u8> {
    let mut bytes = b"\x17\x08\x44tracing0.6\0\0\x08\0\x10\0\0".to_vec();
    for name in ["header_page\0", "header_event\0"] {
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(&0_u64.to_le_bytes());
    }
    bytes.extend_from_slice(&0_u32.to_le_bytes());
    bytes.extend_from_slice(&1_u32.to_le_bytes());
    bytes.extend_from_slice(b"system\0");
    bytes.extend_from_slice(&(formats.len() as u32).to_le_bytes());
    for format in formats {
        bytes.extend_from_slice(&(format.len() as u64).to_le_bytes());
        bytes.extend_from_slice(format.as_bytes());
    }
    let strings = b"0x2000 : \"at 2000\"\n";
    bytes.extend_from_slice(&0_u32.to_le_bytes());
    bytes.extend_from_slice(&(strings.len() as u32).to_le_bytes());
    bytes.extend_from_slice(strings);
    bytes
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

fn trace(print: &str) -> String {
    let format = format!("name: x\nID: 7\nformat:\n{FIELDS}\nprint fmt: {print}\n");
    let (data, error) = TracepointFormats::parse(&tracing_data(&[&format]));
    assert!(error.is_none(), "{error:?}");
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
    let name = Name::from("e");
    let events = [ScriptEvent { attr: &case.attr, name: &name }];
    let mut selection = FieldSelection::default();
    selection.apply("trace").unwrap();
    let mut printer = Printer::new(&events, &selection, Architecture::X86, false).unwrap();
    printer.set_format(EventIndex(0), data.get(7).unwrap().clone());
    let (mut text, mut output) = (GappedText::default(), Vec::new());
    let sample = Sample { raw: Some(&raw), ..sample() };
    printer.sample(EventIndex(0), &sample, &name, None, &mut place, &mut text);
    text.fill(&ChainLineTexts::default(), &known(), &mut output).unwrap();
    let text = String::from_utf8(output).unwrap();
    text.strip_suffix('\n').unwrap().to_owned()
}

#[test]
fn tracepoints_are_printed_by_their_own_line_of_c() {
    assert_eq!(trace(r#""comm=%s pid=%d", REC->comm, REC->pid"#), "comm=perf pid=-5");
    assert_eq!(trace(r#""%-6s|%6s|%.2s", REC->comm, REC->comm, REC->comm"#), "perf  |  perf|pe");
    assert_eq!(trace(r#""%lx %#lx 100%%", REC->args[0], REC->args[1]"#), "11 0x22 100%");
    assert_eq!(trace(r#""dev=%s len=%d", __get_str(name), __get_dynamic_array_len(name)"#), "dev=eth0 len=4");
    let flags = r#"(REC->bits) ? __print_flags(REC->bits, "|", { (1UL << 0), "A" }, { 2, "B" }) : "none""#;
    assert_eq!(trace(&format!(r#""%s", {flags}"#)), "A|0x4");
    let ended = r#""%s", __print_flags(REC->bits, "|", { 4, "C" }, { 1, "A" }, { 0, ((void *)0) } )"#;
    assert_eq!(trace(ended), "C|A");
    let symbolic = r#""%s %s", __print_symbolic(REC->bits & 1, { 0, "OFF" }, { 1, "ON" }), __print_symbolic(REC->bits, { UNKNOWN, "x" })"#;
    assert_eq!(trace(symbolic), "ON 0x5");
    // Names without a value are 0, as perf has it.
    assert_eq!(
        trace(r#""%s", __print_flags(REC->bits, "|", {(1 << FIRST_OF_ENUM), "FIRST"}, { UNKNOWN, "x" })"#),
        "FIRST|0x4"
    );
    assert_eq!(trace(r#""age=%lu", (jiffies - (unsigned long)REC->ptr) / 250"#), "age=73786976294838173");
    assert_eq!(trace(r#""%u", ((unsigned int) ((REC->bits) >> 1)) * 3 - 1 == 5"#), "1");
    assert_eq!(trace(r#""%u %d", (unsigned char)REC->pid, (int)sizeof(u64)"#), "251 8");
    assert_eq!(
        trace(r#""ptr=%p at %pS %ps", REC->ptr, (void *)REC->ptr, REC->ptr"#),
        "ptr=0x2000 at f+0x1c f"
    );
    assert_eq!(trace(r#""%p %pS", 0, (void *)REC->pid"#), "(nil) 0xfffffffffffffffb");
    assert_eq!(
        trace(r#""%s %s", __print_hex(__get_str(name), 3), __print_array(REC->args, 2, 8)"#),
        "65 74 68 17 34"
    );
    let compared = r#""%d %d", (unsigned long)REC->pid > 5, REC->pid > 5"#;
    assert_eq!(trace(compared), "1 0");
    assert_eq!(trace(r#""%d", (unsigned long)REC->ptr >= (unsigned long)-4095"#), "0");
    assert_eq!(trace(r#""%s", REC->ptr"#), "at 2000");
    assert_eq!(trace(r#""a" " b\n" "%c", 'z'"#), "a b z");
    assert_eq!(trace(r#""%pI4 %pM", REC->comm, REC->comm"#), "112.101.114.102 70:65:72:66:00:78");
}

#[test]
fn what_c_cannot_tell_is_printed_field_by_field() {
    let text = trace(r#""%d", kernel_function(REC->pid)"#);
    let expected = "[FAILED TO PARSE] comm=perf pid=-5 bits=5 args=ARRAY[11, 00,";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.ends_with(" name=eth0 ptr=0x2000"), "{text}");
}

mod hostile {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn no_line_of_c_and_no_raw_data_harm(
            c in r#"[ -~]{0,60}|("%[-+0-9*.lhz]{0,4}[a-zA-Z]{1,3}", ?){1,2}(REC->(comm|pid|args|name|nope)|__get_str\(name\)|\(+|[0-9]+|\?|:|<<|%|/|0|\[|\]){0,8}"#,
            raw in proptest::collection::vec(any::<u8>(), 0..80),
        ) {
            let format = format!("ID: 7\n{FIELDS}print fmt: {c}");
            let (data, _) = TracepointFormats::parse(&tracing_data(&[&format]));
            let attr = Attr { kind: 2, sample_format: SampleFormat::RAW, ..Attr::default() };
            let name = Name::from("e");
            let mut printer =
                Printer::new(&[ScriptEvent { attr: &attr, name: &name }], &FieldSelection::default(), Architecture::X86, false)
                    .unwrap();
            printer.set_format(EventIndex(0), data.get(7).unwrap().clone());
            let mut text = GappedText::default();
            let sample = Sample { raw: Some(&raw), ..sample() };
            printer.sample(EventIndex(0), &sample, &name, None, &mut place, &mut text);
            let mut output = Vec::new();
            text.fill(&ChainLineTexts::default(), &known(), &mut output).unwrap();
            prop_assert_eq!(output.iter().filter(|&&byte| byte == b'\n').count(), 1);
            prop_assert!(String::from_utf8(output).unwrap().chars().all(|c| c == '\n' || !Name::is_unsafe(c)));
        }

        #[test]
        fn no_tracing_data_harm(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), keep in 0_usize..80) {
            let good = tracing_data(&["ID: 7\nprint fmt: \"x\""]);
            let keep = keep.min(good.len());
            bytes.splice(..0, good[..keep].iter().copied());
            let _ = TracepointFormats::parse(&bytes);
        }
    }
}
