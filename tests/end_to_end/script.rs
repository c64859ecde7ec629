//! `prof script` prints what `perf script` prints: the same samples in the same order with the same fields.
//!
//! Every line must be the same, or differ in one of these ways, all of them on purpose:
//!
//! | what | perf | prof | why |
//! |---|---|---|---|
//! | address of a user frame in a call chain | perf 6.1: offset in the file; others: the address | the address | an address is what was recorded; compared modulo the page |
//! | caller at the end of a function | the function behind (`next+0x0`) | the caller | the call is the byte before the return address; perf looks at the address itself |
//! | caller unwound from a stack copy | address − 1 | the address | perf subtracts before it prints |
//! | frames of a stack copy | as libdw or libunwind find them | as our unwinder does | judged where unwinding is tested: only the samples are compared here |
//! | caller at the end of a function, with no function behind | `[unknown]` | the caller | as above |
//! | functions in a `.plt` | `@plt`, `[unknown]`, or the `_init` or `_fini` before it | `name@plt`, or nothing | the relocation says whose entry it is |
//! | a value above `PERF_CONTEXT_MAX` in a call chain that is no context | no chain at all | the chain before it | what was walked before is good |
//! | one of several names of a place | the one its rules prefer | the one ours prefer | all are true |
//! | functions of files that are in memory only (memfd) or deleted | `[unknown]` | the function | they can be read through `/proc` while their process lives |
//! | parts of functions (`f.cold`) of Rust | `f` | `f.cold` | perf's demangler cuts the suffix |
//! | frames of the program before an `exec` | named | `[unknown]` | their mappings are gone when the sample is taken |
//! | return address that lies in data | the variable | nothing | code is not looked for among variables |
//! | `[kernel.kallsyms]` outside the recorded kernel text | `[unknown]` | `[kernel.kallsyms]` | the context marker says whose address it is |
//! | foreign kernels | sometimes named by this machine's kallsyms | `[unknown]` | the names would be wrong |
//! | vDSO of a 32-bit process, of any on the machine where all are sampled | `[vdso32]` | `[vdso]` | the name that the kernel records |
//! | vDSO of a foreign machine | named by this machine's | `[unknown]` | as above |
//! | mapped memory that a name of perf's cache covers | the cached name | the mapping's | perf runs with an empty cache here |
//! | the call chain of a sample from a pipe whose `-F` has no `ip` | printed | not printed | it was not asked for |
//!
//! What perf prints for stacks deeper than `--max-stack`, and for files it refuses, is not compared.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use inferno::collapse::Collapse;
use inferno::collapse::perf::Folder;
use perfdata::{Reader, Source, tool};
use tempfile::TempDir;

use super::prof::{RECORDERS, folder, may_record, prof, record, run, run_alone};
use super::{perf, programs};

/// How a line of perf's differs from ours; `None` where it does in a way that is not in the table.
fn explained(theirs: &str, ours: &str) -> Option<&'static str> {
    let (Some(theirs), Some(ours)) = (Frame::parse(theirs), Frame::parse(ours)) else {
        let before_plt = theirs.contains(" _init+0x") || theirs.contains(" _fini+0x");
        if theirs.strip_suffix("[unknown]").is_some_and(|place| ours.starts_with(place)) {
            return Some("perf has no name");
        }
        return (before_plt || same_but_name(theirs, ours)).then_some("one of several names");
    };
    let same_place = theirs.address & 0xfff == ours.address & 0xfff;
    let minus_one = (theirs.address + 1) & 0xfff == ours.address & 0xfff;
    Some(match () {
        () if minus_one && theirs.name == ours.name => "address − 1",
        () if !same_place => return None,
        () if theirs.object == "[vdso32]" && ours.object == "[vdso]" => "32-bit vDSO",
        () if theirs.name.starts_with("@plt") && ours.name.contains("@plt") => "plt",
        () if matches!(theirs.name, "_init" | "_fini") => "plt behind it",
        () if theirs.offset == Some(0) => "end of a function",
        () if theirs.name == "[unknown]" && theirs.object == ours.object => "perf has no name",
        () if ours.name == "[unknown]" && ours.object == "[unknown]" => "before exec",
        () if theirs.object == "[unknown]" && ours.object == "[kernel.kallsyms]" => {
            "outside the kernel's text"
        }
        () if theirs.object == ours.object && theirs.offset == ours.offset => "one of several names",
        () => return None,
    })
}

/// Lines of samples without call chains.
fn same_but_name(theirs: &str, ours: &str) -> bool {
    let split = |line: &str| {
        let (before, name) = line.rsplit_once("+0x")?;
        Some((before.rsplit_once(' ')?.0.to_owned(), name.to_owned()))
    };
    split(theirs).is_some() && split(theirs) == split(ours)
}

/// `\t  7f79fa2f2ad7 name+0x12 (object)`
struct Frame<'a> {
    address: u64,
    name: &'a str,
    offset: Option<u64>,
    object: &'a str,
}

impl<'a> Frame<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (address, rest) = line.strip_prefix('\t')?.trim_start().split_once(' ')?;
        let (place, object) = rest.rsplit_once(" (")?;
        let (name, offset) = match place.rsplit_once("+0x") {
            Some((name, offset)) => (name, u64::from_str_radix(offset, 16).ok()),
            None => (place, None),
        };
        let address = u64::from_str_radix(address, 16).ok()?;
        Some(Self { address, name, offset, object: object.trim_end_matches(')') })
    }

    fn same(&self, other: &Self) -> bool {
        (self.name, self.offset, self.object) == (other.name, other.offset, other.object)
            && self.address & 0xfff == other.address & 0xfff
    }
}

/// Holds our text of a file against perf's.
fn agrees(folder: &Path, file: &Path, flags: &[&str]) {
    let ours = run(prof(["script", "-q", "--no-inline", "-i"]).arg(file).args(flags)).ok();
    let mut command = perf::perf(folder);
    command.args(["script", "-f", "--max-stack", "65535", "--no-inline", "-i"]).arg(file).args(flags);
    let theirs = run(&mut command).ok();
    let (ours, theirs) = (ours.text(), theirs.text());
    assert!(theirs.lines().count() > 5, "perf prints nothing: {theirs}");
    let mut report = String::new();
    let mut different = 0;
    let mut ours = ours.lines();
    for theirs in theirs.lines() {
        let mut line = ours.next().unwrap_or_default();
        while theirs.is_empty() && line.starts_with('\t') {
            // perf threw the rest of the chain away.
            different += 1;
            line = ours.next().unwrap_or_default();
        }
        // The kernel has no number any more for a thread that it is taking down. perf prints the −1 that stands for it.
        let exiting = |line: &str, name: &str| line.trim_start().strip_prefix(name).map(str::to_owned);
        let same = theirs == line
            || exiting(theirs, ":-1 ").is_some_and(|rest| exiting(line, "[exiting] ") == Some(rest))
            || matches!((Frame::parse(theirs), Frame::parse(line)), (Some(a), Some(b)) if a.same(&b));
        if same {
            continue;
        }
        different += 1;
        if explained(theirs, line).is_none() && report.len() < 4096 {
            writeln!(report, "perf {theirs}\nprof {line}").unwrap();
        }
    }
    assert!(report.is_empty(), "{flags:?}:\n{report}");
    assert_eq!(ours.next(), None, "{flags:?}: more than perf prints");
    // The idle task's outermost frame alone is one in ten.
    assert!(
        different * 4 <= theirs.lines().count(),
        "{different} of {} lines differ",
        theirs.lines().count()
    );
}

/// `perf record` of a program with these flags, and then the comparison, once for each set of `prof script`'s flags.
fn recorded(flags: &[&str], scripts: &[&[&str]]) {
    let Some((folder, file)) = recording(flags) else { return };
    agrees(folder.path(), &file, &[]);
    scripts.iter().for_each(|flags| agrees(folder.path(), &file, flags));
}

/// `perf record` of a program with these flags; `None` where there is no perf or no compiler.
fn recording(flags: &[&str]) -> Option<(TempDir, PathBuf)> {
    let (true, Some(program)) = (perf::is_here(), programs::c("paths")) else { return None };
    let folder = folder();
    let file = folder.path().join("perf.data");
    let mut record = perf::perf(folder.path());
    record.args(perf::RECORD).arg("-o").arg(&file).args(flags).arg("--").arg(program).args(["2", "100"]);
    assert_eq!(run(&mut record).code, 0, "{flags:?}");
    Some((folder, file))
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn without_call_chains() {
    let clock = ["-e", "cpu-clock", "-F", "4999"];
    recorded(&clock, &[&["-F", "comm,pid,tid,time,event,ip"], &["--ns"], &["-F", "+pid,+misc,-event"]]);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn with_call_chains() {
    recorded(&["-e", "cpu-clock", "-F", "4999", "-g"], &[&["-F", "-ip"], &["-F", "comm,ip,sym,dso"]]);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn several_events() {
    recorded(&["-e", "cpu-clock,page-faults", "-c", "100000"], &[]);
    recorded(&["-e", "page-faults,task-clock,context-switches", "-c", "1", "-g"], &[]);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn the_counters_of_a_group() {
    // perf does not follow threads with such a group: the first millisecond of the program has to be enough.
    recorded(&["-e", "{cpu-clock,page-faults}:S", "-c", "50000"], &[]);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn tracepoints() {
    let events = "sched:sched_switch,sched:sched_wakeup,syscalls:sys_enter_write,raw_syscalls:sys_enter,\
                  irq:softirq_entry,timer:hrtimer_start,kmem:kmalloc,rcu:rcu_utilization,mmap:vm_unmapped_area";
    let chains = ["trace:comm,tid,cpu,time,event,ip,sym,symoff,dso"];
    for (flags, fields) in [
        (&["-e", events, "-a"][..], &["-trace", "-trace,+ip,+sym", "trace:comm,cpu"][..]),
        (&["-e", "sched:sched_switch,irq:softirq_entry,kmem:kmalloc", "-g", "-a"], &chains),
    ] {
        let Some((folder, file)) = recording(flags) else { return };
        fields.iter().for_each(|fields| agrees(folder.path(), &file, &["-F", fields]));
        let flags = ["-F", "trace:trace", "-i"];
        let ours = run(prof(["script", "-q"]).args(flags).arg(&file)).ok();
        let theirs = run(perf::perf(folder.path()).args(["script", "-f"]).args(flags).arg(&file)).ok();
        // perf prints a switch by the kernel's line of C, with the same names of these fields.
        let pids = |text: &str| -> Vec<String> {
            let value = |line: &str, name| Some(line.split_once(name)?.1.split(' ').next()?.to_owned());
            let of = |line: &str| Some([value(line, "prev_pid=")?, value(line, "next_pid=")?]);
            text.lines().filter_map(of).flatten().collect()
        };
        assert!(pids(ours.text()).len() > 20, "{}", ours.text());
        assert_eq!(pids(ours.text()), pids(theirs.text()));
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn data_addresses() {
    // Without names: those of data are in the table of differences.
    recorded(&["-e", "cpu-clock", "-c", "100000", "-d"], &[&["-F", "time,addr"], &["-F", "+addr"]]);
    recorded(&["-e", "page-faults", "-c", "1", "-d"], &[&["-F", "time,addr"]]);
}

/// What samples have beside that is skipped.
#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn parts_of_samples_that_are_not_printed() {
    let flags = [
        "-e",
        "cpu-clock",
        "-c",
        "100000",
        "-d",
        "--phys-data",
        "--data-page-size",
        "--code-page-size",
        "-W",
    ];
    recorded(&flags, &[&["-F", "time,addr,ip"]]);
    recorded(&["-e", "cpu-clock", "-I", "--user-regs=ip,sp,ax"], &[&["-F", "+pid"]]);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn compressed_and_on_another_clock() {
    recorded(&["-e", "cpu-clock", "-z", "-g"], &[]);
    recorded(&["-e", "cpu-clock", "-k", "CLOCK_MONOTONIC", "-g"], &[]);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn the_whole_machine_with_all_that_happens() {
    recorded(&["-e", "cpu-clock", "-a", "--switch-events", "--namespaces", "--all-cgroups", "-g"], &[]);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_recording_in_several_files() {
    let (true, Some(program)) = (perf::is_here(), programs::c("paths")) else { return };
    let folder = folder();
    let file = folder.path().join("perf.data");
    let mut record = perf::perf(folder.path());
    record.args(["record", "-q", "-e", "cpu-clock", "-a", "--threads", "-g", "-o"]).arg(&file);
    // Runtimes that tests record beside it would have names that perf has not.
    let alone = RECORDERS.write();
    assert_eq!(run_alone(record.arg("--").arg(program).args(["2", "100"])).code, 0);
    drop(alone);
    agrees(folder.path(), &file, &[]);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_recording_through_a_pipe() {
    let (true, Some(program)) = (perf::is_here(), programs::c("paths")) else { return };
    let folder = folder();
    let file = folder.path().join("pipe.data");
    let mut record = perf::perf(folder.path());
    record
        .args(perf::RECORD)
        .args(["-e", "cpu-clock", "-g", "-o", "-", "--"])
        .arg(program)
        .args(["2", "100"]);
    let piped = run(&mut record).ok();
    std::fs::write(&file, &piped.stdout).unwrap();
    agrees(folder.path(), &file, &[]);
    let from_file = run(prof(["script", "-i"]).arg(&file)).ok();
    let mut cat = Command::new("cat").arg(&file).stdout(Stdio::piped()).spawn().unwrap();
    let from_pipe = prof(["script"])
        .stdin(cat.stdout.take().unwrap())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
        .wait_with_output()
        .unwrap();
    cat.wait().unwrap();
    assert_eq!(from_file.stdout, from_pipe.stdout);
}

/// The samples of a file with copies of user stacks: their frames are compared where unwinding is tested.
#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn samples_with_stack_copies() {
    let (true, Some(program)) = (perf::is_here(), programs::c("paths")) else { return };
    let folder = folder();
    let file = folder.path().join("perf.data");
    let mut record = perf::perf(folder.path());
    record.args(perf::RECORD).args(["-e", "cpu-clock", "--call-graph", "dwarf", "-o"]).arg(&file).arg("--");
    assert_eq!(run(record.arg(program).args(["2", "100"])).code, 0);
    agrees(folder.path(), &file, &["-F", "comm,tid,time,period,event"]);
}

/// Each sample is one in the folded form that collapsers make of the text, also of several events at once.
#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn collapsers_read_it() {
    let Some(program) = programs::c("paths") else { return };
    if !super::prof::may_record() {
        return;
    }
    let folder = folder();
    let (file, recording) =
        super::prof::record(folder.path(), &[], &[program.as_os_str(), "2".as_ref(), "100".as_ref()]);
    assert_eq!(recording.code, 0, "{}", recording.stderr);
    let text = run(prof(["script", "-F", "-period", "-i"]).arg(&file)).ok();
    let mut folded = Vec::new();
    Folder::default().collapse(text.stdout.as_slice(), &mut folded).unwrap();
    let counts = String::from_utf8(folded).unwrap();
    let total: u64 =
        counts.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum();
    assert_eq!(total, super::prof::figure(&recording.stderr, "samples"));
    assert!(counts.contains(";work;"), "{counts}");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn every_record_is_read_once() {
    let (true, Some(program)) = (perf::is_here(), programs::c("paths")) else { return };
    let folder = folder();
    let file = folder.path().join("perf.data");
    let mut record = perf::perf(folder.path());
    record
        .args(["record", "-q", "-e", "cpu-clock,page-faults", "-g", "-a", "--switch-events", "-o"])
        .arg(&file);
    assert_eq!(run(record.arg("--").arg(program).args(["2", "100"])).code, 0);
    let mut ours: HashMap<&str, usize> = HashMap::new();
    let mut reader = Reader::open(Source::File(Box::new(std::fs::File::open(&file).unwrap()))).unwrap();
    while let Some(entry) = reader.next_entry().unwrap() {
        let kind = entry.record.kind();
        *ours.entry(decoder::kind::name(kind).or_else(|| tool::kind::name(kind)).unwrap()).or_default() += 1;
        reader.release(entry.record);
    }
    let stats = run(perf::perf(folder.path()).args(["report", "-f", "--stats", "-i"]).arg(&file)).ok();
    let mut compared = 0;
    // Totals come first, then the same again for each event.
    for line in
        stats.text().lines().take_while(|line| !line.ends_with("stats:") || line.contains("Aggregated"))
    {
        let Some((kind, count)) = line.split_once(" events:") else { continue };
        let kind = kind.trim();
        let count: usize = count.split_whitespace().next().unwrap().parse().unwrap();
        if kind == "TOTAL" {
            continue;
        }
        assert_eq!(ours.get(kind).copied().unwrap_or(0), count, "{kind}");
        compared += 1;
    }
    assert!(compared > 5, "{}", stats.text());
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn what_is_not_there_is_refused() {
    let (true, Some(program)) = (perf::is_here(), programs::c("paths")) else { return };
    let folder = folder();
    let file = perf::record(folder.path(), &[], &mut |command| {
        command.arg(&program).args(["1", "50"]);
    });
    let refused = |flags: &[&str]| {
        let run = run(prof(["script", "-i"]).arg(&file).args(flags));
        assert_ne!(run.code, 0, "{flags:?}");
        run.stderr
    };
    assert!(refused(&["-F", "+addr"]).contains("have no ADDR"));
    assert!(refused(&["-F", "+iregs"]).contains("no field `iregs`; the fields are comm,tid,pid"));
    assert!(refused(&["-F", "+nonsense"]).contains("no field `nonsense`"));
    assert!(refused(&["--event", "cycles"]).contains("no event `cycles`; it has cpu-clock"));
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn what_prints_nothing_says_why() {
    if !may_record() {
        return;
    }
    let Some(program) = programs::c("shares") else { return };
    let folder = folder();
    let command = [program.as_os_str(), OsStr::new("alone"), OsStr::new("100")];
    let (recording, recorded) = record(folder.path(), &[], &command);
    recorded.ok();
    let script = |flags: &[&str]| run(prof(["script", "-i"]).arg(&recording).args(flags)).ok();
    let run = script(&["--comm", "nobody", "--cpu", "0-999"]);
    assert_eq!(run.text(), "");
    assert!(run.stderr.contains("nothing is printed: none of "), "{}", run.stderr);
    assert!(run.stderr.contains(" matches --comm --cpu"), "{}", run.stderr);
    assert!(!script(&[]).stderr.contains("nothing is printed"));
}
