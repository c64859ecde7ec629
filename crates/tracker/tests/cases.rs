//! Stories of a machine, told in text: each file of `tests/cases` is one, and a new case is a new file.
//!
//! A line is a record: its time, its kind, `key=value` fields, and the rest of the line for a path or a name.
//! The lines below a sample, indented, are what the tracker makes of it: the thread's name, then the stack, innermost
//! entry first. `BLESS=1 cargo test -p prof-tracker` writes them anew; read the difference.
//!
//! ```text
//! t=10 fork pid=2 ppid=1                     tid= and ptid= where they differ from the process
//! t=10 exit pid=2
//! t=10 comm pid=2 name                       comm-exec where the process executed another program
//! t=10 mmap pid=2 0x1000+0x2000 /bin/a       mmap2 with prot=, build-id= or ino=; kernel, data or shared as flags; pgoff=
//! t=10 ksymbol 0xffffffffc0000000+0x100 bpf_prog_x      ksymbol-gone
//! t=10 build-id=abcd /bin/a                  the recording's BUILD_ID section
//! t=10 file ino=7 since=10 build-id=abcd     what the recorder read of a file; no build-id= where it has none; foreign=1
//! t=10 sample pid=2 mode=user ip=0x1000      and chain=kernel,0x1,user,0x2,deferred,7
//! t=10 deferred pid=2 cookie=7 chain=0x1,0x2
//! round                                      every ring has been emptied
//! ```
#![allow(clippy::unwrap_used, reason = "functions of a test file are not seen as tests by clippy")]

use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;

use decoder::context;
use decoder::record::{Comm, Ksymbol, Mmap, MmapExtended, MmapIdentity, Record, Task};
use decoder::{CpuMode, SampleId};
use model::{AddressKind, BuildId, FileIdentity, Pid, Space, StackEntry, Tid, Timestamp};
use prof_tracker::{Deferred, FileContents, Orderer, RawStack, Tracker};

#[test]
fn every_case_reads_as_blessed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let bless = std::env::var_os("BLESS").is_some();
    let mut wrong = Vec::new();
    let mut cases = 0;
    for file in std::fs::read_dir(&folder).unwrap() {
        let path = file.unwrap().path();
        let blessed = std::fs::read_to_string(&path).unwrap();
        let told = tell(&blessed);
        cases += 1;
        if bless {
            std::fs::write(&path, told).unwrap();
        } else if told != blessed {
            wrong.push(format!("{}:\n{told}", path.display()));
        }
    }
    assert!(cases >= 10, "the cases lie in {}", folder.display());
    assert!(wrong.is_empty(), "not as blessed:\n{}", wrong.join("\n"));
}

/// A line of a case with its fields.
struct Line<'a> {
    number: usize,
    time: u64,
    kind: &'a str,
    fields: HashMap<&'a str, &'a str>,
    flags: Vec<&'a str>,
    range: (u64, u64),
    rest: &'a str,
}

impl<'a> Line<'a> {
    fn parse(number: usize, text: &'a str) -> Self {
        let mut line = Self {
            number,
            time: 0,
            kind: "",
            fields: HashMap::new(),
            flags: Vec::new(),
            range: (0, 0),
            rest: "",
        };
        let mut rest = text.trim();
        while !rest.is_empty() {
            let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
            if let Some((key, value)) = word.split_once('=') {
                line.fields.insert(key, value);
            } else if let Some((start, len)) = word.split_once('+').filter(|_| word.starts_with("0x")) {
                line.range = (hex(start), hex(len));
            } else if line.kind.is_empty() && !line.fields.contains_key("build-id") {
                line.kind = word;
            } else if ["kernel", "data", "shared"].contains(&word) {
                line.flags.push(word);
            } else {
                line.rest = rest;
                break;
            }
            rest = after.trim_start();
        }
        line.time = line.number_of("t").unwrap_or(0);
        line
    }

    fn number_of(&self, key: &str) -> Option<u64> {
        self.fields.get(key).map(|value| hex(value))
    }

    fn id(&self, key: &str) -> Option<i32> {
        self.fields.get(key).map(|value| value.parse().unwrap())
    }

    fn pid(&self) -> Pid {
        Pid(self.id("pid").unwrap_or(-1))
    }

    fn tid(&self) -> Tid {
        Tid(self.id("tid").unwrap_or(self.pid().0))
    }

    fn chain(&self) -> Option<Vec<u64>> {
        let value = |word: &str| match word {
            "kernel" => context::KERNEL,
            "user" => context::USER,
            "guest" => context::GUEST,
            "hypervisor" => context::HYPERVISOR,
            "deferred" => context::USER_DEFERRED,
            _ => hex(word),
        };
        Some(self.fields.get("chain")?.split(',').map(value).collect())
    }

    fn build_id(&self) -> Option<BuildId> {
        BuildId::from_hex(self.fields.get("build-id")?)
    }

    fn file(&self) -> FileIdentity {
        FileIdentity { major: 8, minor: 1, inode: self.number_of("ino").unwrap_or(0), generation: 0 }
    }

    fn record(&self) -> Option<Record<'a>> {
        let sample_id = SampleId::default();
        let (pid, tid) = (self.pid(), self.tid());
        let (start, len) = self.range;
        let task = || {
            let parent_pid = Pid(self.id("ppid").unwrap_or(pid.0));
            let parent_tid = Tid(self.id("ptid").unwrap_or(parent_pid.0));
            Task { pid, tid, parent_pid, parent_tid, time: Timestamp(self.time), sample_id }
        };
        let comm = |exec| Record::Comm(Comm { pid, tid, comm: self.rest.as_bytes(), exec, sample_id });
        let symbol = |unregister| {
            let (len, kind, name) = (len as u32, 1, self.rest.as_bytes());
            Record::Ksymbol(Ksymbol { start, len, kind, unregister, name, sample_id })
        };
        Some(match self.kind {
            "fork" => Record::Fork(task()),
            "exit" => Record::Exit(task()),
            "comm" => comm(false),
            "comm-exec" => comm(true),
            "ksymbol" => symbol(false),
            "ksymbol-gone" => symbol(true),
            "mmap" | "mmap2" => {
                let kernel = self.flags.contains(&"kernel");
                let identity = match self.build_id() {
                    Some(build_id) => MmapIdentity::BuildId(Some(build_id)),
                    None => MmapIdentity::File(self.file()),
                };
                let protection = self.number_of("prot").unwrap_or(5) as u32;
                Record::Mmap(Mmap {
                    pid,
                    tid,
                    start,
                    len,
                    page_offset: self.number_of("pgoff").unwrap_or(0),
                    path: self.rest.as_bytes(),
                    extended: (self.kind == "mmap2").then_some(MmapExtended {
                        identity,
                        protection,
                        flags: if self.flags.contains(&"shared") { 1 } else { 2 },
                    }),
                    data: self.flags.contains(&"data"),
                    mode: if kernel { CpuMode::Kernel } else { CpuMode::User },
                    scan_cut_short: false,
                    sample_id: SampleId { time: Some(Timestamp(self.time)), ..sample_id },
                })
            }
            _ => return None,
        })
    }
}

fn hex(text: &str) -> u64 {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).unwrap_or_else(|_| panic!("{text}")),
        None => text.parse().unwrap_or_else(|_| panic!("{text}")),
    }
}

/// The case with the tracker's answers in it.
fn tell(case: &str) -> String {
    let lines: Vec<_> = case.lines().filter(|line| !line.starts_with("  ")).collect();
    let mut answers = vec![String::new(); lines.len()];
    let mut orderer = Orderer::default();
    let mut state = State::default();
    for (number, text) in lines.iter().enumerate() {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let line = Line::parse(number, text);
        if line.kind == "round" {
            orderer.finish_round();
            continue;
        }
        orderer.push(Timestamp(line.time), line);
        while let Some((_, line)) = orderer.pop() {
            state.apply(&line, &mut answers);
        }
    }
    orderer.finish();
    while let Some((_, line)) = orderer.pop() {
        state.apply(&line, &mut answers);
    }
    for (number, comm, entries) in state.deferred.finish().collect::<Vec<_>>() {
        answers[number] = state.answer(&comm, &entries);
    }
    lines.iter().zip(answers).fold(String::new(), |told, (line, answer)| told + line + "\n" + &answer)
}

#[derive(Default)]
struct State {
    tracker: Tracker,
    deferred: Deferred<(usize, String, Vec<StackEntry>)>,
}

impl State {
    fn apply(&mut self, line: &Line<'_>, answers: &mut [String]) {
        if let Some(record) = line.record() {
            self.tracker.apply(&record);
            return;
        }
        let (pid, tid) = (line.pid(), line.tid());
        match line.kind {
            "" => self.tracker.add_build_id(line.rest.as_bytes(), line.build_id().unwrap()),
            "file" => {
                let since = Timestamp(line.number_of("since").unwrap_or(0));
                let is_foreign = line.fields.contains_key("foreign");
                let contents = FileContents { build_id: line.build_id(), is_foreign };
                self.tracker.add_file(line.file(), since, contents);
            }
            "sample" => {
                let mode = match line.fields.get("mode").copied() {
                    Some("kernel") => CpuMode::Kernel,
                    Some("hypervisor") => CpuMode::Hypervisor,
                    Some("unknown") => CpuMode::Unknown,
                    _ => CpuMode::User,
                };
                let comm = self.tracker.comm(pid, tid).to_string();
                let mut entries = Vec::new();
                let chain = line.chain().map(Vec::into_iter);
                let stack = RawStack { pid, mode, ip: line.number_of("ip"), chain };
                match self.tracker.map_callchain(stack, &mut entries) {
                    Some(cookie) => {
                        assert_eq!(self.deferred.wait(tid, cookie, (line.number, comm, entries)), None);
                    }
                    None => answers[line.number] = self.answer(&comm, &entries),
                }
            }
            "deferred" => {
                let cookie = line.number_of("cookie").unwrap();
                for (number, comm, mut entries) in self.deferred.complete(tid, cookie).collect::<Vec<_>>() {
                    let chain = line.chain().unwrap();
                    self.tracker.map_deferred(pid, chain.into_iter(), &mut entries);
                    answers[number] = self.answer(&comm, &entries);
                }
            }
            other => panic!("line {}: {other}?", line.number + 1),
        }
    }

    fn answer(&self, comm: &str, entries: &[StackEntry]) -> String {
        let mut text = format!("  {comm}\n");
        for entry in entries {
            let place = place(self.tracker.spaces().get(entry.space), entry.offset);
            let kind = match entry.kind {
                AddressKind::InstructionPointer => "at",
                AddressKind::ReturnAddress => "from",
                AddressKind::Data => "data",
            };
            let kernel = if entry.in_kernel { " (kernel)" } else { "" };
            writeln!(text, "    {kind} {place}{kernel}").unwrap();
        }
        text
    }
}

fn place(space: &Space, offset: u64) -> String {
    let id = |build_id: &Option<BuildId>| build_id.map_or(String::new(), |id| format!(" {id}"));
    match space {
        Space::Object(object) => {
            let inode = object.file.map_or(String::new(), |file| format!(" inode {}", file.inode));
            format!("{}{}{inode} +{offset:#x}", object.path, id(&object.build_id))
        }
        Space::Vdso { build_id } => format!("[vdso]{} +{offset:#x}", id(build_id)),
        Space::Kernel { build_id, text } => {
            let text =
                text.map_or(String::new(), |text| format!(" {} {:#x}", text.symbol.name(), text.address));
            format!("the kernel{}{text} {offset:#x}", id(build_id))
        }
        Space::KernelModule { name, build_id, start } => {
            format!("module {name}{} of {start:#x} {offset:#x}", id(build_id))
        }
        Space::KernelSymbol { name } => format!("{name} +{offset:#x}"),
        Space::Jit { pid, generation, mapping } => {
            format!("{mapping} of {pid} generation {generation} {offset:#x}")
        }
        Space::JitDump { pid, generation, path } => {
            format!("{path} of {pid} generation {generation} +{offset:#x}")
        }
        Space::JavaScript { name } => format!("{name} line {offset}"),
        Space::TaskLabel { name } => name.to_string(),
        Space::Python { file, function } => format!("{function} in {file} line {offset}"),
        Space::Unmapped { pid, generation } => format!("nothing of {pid} program {generation} {offset:#x}"),
        Space::Truncated(reason) => format!("truncated: {reason}"),
        Space::State(state) => format!("{state}"),
        Space::Foreign(reason) => format!("{reason} {offset:#x}"),
    }
}
