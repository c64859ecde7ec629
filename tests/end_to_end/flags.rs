//! Each flag of `prof record`: what is recorded with it is read alike by perf and by us, and shows what the flag is for.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::prof::{Run, UNREAD, figure, folder, may_record, prof, record, run};
use super::{perf, programs};

/// `perf script` with these flags; nothing where perf is not here.
fn theirs(folder: &Path, file: &Path, flags: &[&str]) -> Option<String> {
    perf::is_here().then(|| {
        let run = run(perf::perf(folder).arg("script").args(flags).arg("-i").arg(file)).ok();
        assert_eq!(run.stderr, "", "{flags:?}");
        run.text().to_owned()
    })
}

/// Both of us find as many samples as the summary says.
fn agree(folder: &Path, file: &Path, recorded: &Run) {
    let lines = |text: &str| text.lines().filter(|line| !line.is_empty()).count() as u64;
    let samples = figure(&recorded.stderr, "samples");
    let ours = run(prof(["script", "-F", "time", "-i"]).arg(file)).ok();
    assert_eq!(lines(ours.text()), samples, "{}", recorded.stderr);
    if let Some(theirs) = theirs(folder, file, &["-G", "-F", "time"]) {
        assert_eq!(lines(&theirs), samples, "{}", recorded.stderr);
    }
    assert!(samples > 0, "{}", recorded.stderr);
}

/// Records `shares` with these flags, and returns what `perf script` prints with those.
fn with(flags: &[&str], script: &[&str]) -> Option<String> {
    let program = programs::c("shares")?;
    if !may_record() {
        return None;
    }
    let folder = folder();
    let command = [program.as_os_str(), OsStr::new("alone"), OsStr::new("50")];
    let (file, recorded) = record(folder.path(), flags, &command);
    let recorded = recorded.ok();
    agree(folder.path(), &file, &recorded);
    theirs(folder.path(), &file, script)
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn what_samples_carry() {
    let all = |flags: &[&str], fields: &str, holds: fn(&str) -> bool| {
        let Some(text) = with(flags, &["-F", fields, "-G"]) else { return };
        let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
        assert!(!lines.is_empty() && lines.iter().all(|line| holds(line)), "{flags:?}: {text}");
    };
    all(&["--data"], "addr,data_src", |line| line.contains("|OP "));
    all(&["--phys-data"], "phys_addr", |line| u64::from_str_radix(line.trim(), 16).is_ok());
    all(&["-W"], "weight", |line| line.trim().parse::<u64>().is_ok());
    all(&["--intr-regs"], "iregs", |line| line.contains("ABI:") && line.contains("IP:0x"));
}

/// A record says its size in 16 bits: the largest copies of stacks leave room for all that follows them.
#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn samples_with_the_largest_copies_carry_all_the_rest() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let command = [program.as_os_str(), OsStr::new("alone"), OsStr::new("200")];
    let sets: [&[&str]; 3] = [
        &["--intr-regs"],
        &["--intr-regs", "--data", "--phys-data", "-W", "--all-cgroups", "--call-graph", "dwarf,65528"],
        &["--intr-regs", "--keep-stacks"],
    ];
    for flags in sets {
        let file = folder.path().join("prof.data");
        let mut record = prof(["record", "-vv", "-F", "499", "-e", "cpu-clock", "-m", "4M"]);
        let recorded = run(record.args(flags).arg("-o").arg(&file).arg("--").args(command)).ok();
        agree(folder.path(), &file, &recorded);
        assert_eq!(figure(&recorded.stderr, "lost"), 0, "{flags:?}: {}", recorded.stderr);
        if let Some(text) = theirs(folder.path(), &file, &["-F", "iregs", "-G"]) {
            let whole = text.lines().filter(|line| line.contains("IP:0x")).count() as u64;
            assert_eq!(whole, figure(&recorded.stderr, "samples"), "{flags:?}");
        }
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn what_is_told_beside_samples() {
    let told = |flags: &[&str], script: &str, record: &str| {
        let Some(text) = with(flags, &[script]) else { return };
        assert!(text.contains(record), "{flags:?}: no {record}");
    };
    told(&["--switch-events"], "--show-switch-events", "PERF_RECORD_SWITCH");
    told(&["--namespaces"], "--show-namespace-events", "PERF_RECORD_NAMESPACES");
    told(&["--all-cgroups"], "--show-cgroup-events", "PERF_RECORD_CGROUP");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn how_much_of_a_chain() {
    let Some(text) = with(&["--max-stack", "3", "--call-graph", "fp"], &["-F", "ip"]) else { return };
    // The mark of a stack that was cut is no frame.
    let is_frame = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("80000000");
    let frames = |chain: &str| chain.lines().filter(is_frame).count();
    let longest = text.split("\n\n").map(frames).max();
    assert!(longest.is_some_and(|frames| (1..=3).contains(&frames)), "{text}");
    let sides = |flag: &str| with(&[flag, "--call-graph", "no"], &["-F", "ip"]);
    let Some(user) = sides("--all-user") else { return };
    let mut addresses = user.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
    assert!(addresses.peek().is_some() && addresses.all(|line| !line.starts_with("ffff")), "{user}");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn chains_of_one_side() {
    // In the kernel for most of their time, and called from user space.
    let chains = |flag: &str| with(&[flag, "-e", "page-faults"], &["-F", "ip"]);
    let addresses = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let Some(user) = chains("--user-callchains") else { return };
    // The sampled address itself is the first of each chain, wherever it lies.
    let behind_first = |text: &str, kernel: bool| {
        let chains = text.split("\n\n").map(addresses);
        chains
            .flat_map(|chain| chain.into_iter().skip(1))
            .all(|ip| (ip.len() == 16 && ip.starts_with("ffff")) == kernel)
    };
    assert!(behind_first(&user, false), "{user}");
    let Some(kernel) = chains("--kernel-callchains") else { return };
    assert!(behind_first(&kernel, true), "{kernel}");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn page_sizes() {
    let flags = ["--data-page-size", "--code-page-size", "-e", "page-faults"];
    let Some(text) = with(&flags, &["-F", "data_page_size,code_page_size"]) else { return };
    assert!(text.contains("4K"), "{text}");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn threads_alone_are_followed_where_that_is_asked() {
    if !may_record() {
        return;
    }
    let count = |flags: &[&str]| {
        let mut command = prof(["stat", "--json", "-e", "page-faults"]);
        let run = run(command.args(flags).args(["--", "sh", "-c", "ls / >/dev/null; ls / >/dev/null; true"]));
        let run = run.ok();
        let counts: Value = serde_json::from_str(&run.stderr).unwrap();
        counts["counts"][0]["value"].as_f64().unwrap_or_else(|| panic!("{counts}"))
    };
    let (all, threads) = (count(&[]), count(&["--inherit", "thread"]));
    assert!(threads > 0.0 && all > 2.0 * threads, "{threads} of {all}");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn refusals_say_which_of_their_causes_it_is() {
    let told = |event: &str, part: &str| {
        let refused = run(&mut prof(["record", "-e", event, "-o", "/dev/null", "--", "true"]));
        assert!(refused.code == 1 && refused.stderr.contains(part), "{event}: {}", refused.stderr);
    };
    if !std::path::Path::new("/sys/bus/event_source/devices/kprobe").exists() {
        told("kprobe:vfs_read", "CONFIG_KPROBE");
    }
    if run(&mut prof(["list", "msr/tsc/"])).text().contains("counts only") {
        told("msr/tsc/", "prof stat -e msr/tsc/");
        told("msr/tsc/:u", "cannot tell user space from the kernel");
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_fixed_period_on_the_kernels_side() {
    if !may_record() {
        return;
    }
    let folder = folder();
    let file = folder.path().join("prof.data");
    let mut command =
        prof(["record", "-e", "cpu-clock", "-c", "200000", "--all-kernel", "--call-graph", "no", "-m", "1M"]);
    let copy = ["dd", "if=/dev/zero", "of=/dev/null", "bs=1M", "count=2000", "status=none"];
    let recorded = run(command.arg("-o").arg(&file).arg("--").args(copy));
    agree(folder.path(), &file, &recorded.ok());
    if let Some(text) = theirs(folder.path(), &file, &["-F", "ip,period"]) {
        let in_kernel = |line: &str| {
            line.trim()
                .split_once(' ')
                .is_some_and(|(period, ip)| period == "200000" && ip.trim().starts_with("ffff"))
        };
        assert!(text.lines().filter(|line| !line.is_empty()).all(in_kernel), "{text}");
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn how_it_is_written() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let command = [program.as_os_str(), OsStr::new("alone"), OsStr::new("200")];
    let mut sizes = [["-z=3", "--strict"], ["-k", "monotonic"], ["-i", "--strict"]].map(|flags| {
        let (file, recorded) = record(folder.path(), &flags, &command);
        agree(folder.path(), &file, &recorded.ok());
        file.metadata().unwrap().len()
    });
    sizes[1..].sort_unstable();
    assert!(sizes[0] * 3 < sizes[1], "compressed {} of {}", sizes[0], sizes[1]);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn other_forms_of_flags() {
    let forms: [(&[&str], &[&str], &str); 10] = [
        (&["-g"], &["-F", "ip,sym"], "sixty"),
        (&["--keep-stacks"], &["-F", "ip,sym"], "sixty"),
        (&["--call-graph", "dwarf,8192"], &["-F", "ip,sym"], "sixty"),
        (&["--call-graph", "lbr"], &["-F", "ip,sym"], "sixty"),
        (&["-m", "64"], &["-F", "comm"], "shares"),
        (&["-C", "0-1", "--call-graph", "no"], &["-F", "cpu"], "[00"),
        (&["-k", "realtime"], &["--header"], "# clockid: realtime"),
        (&["-k", "CLOCK_TAI"], &["--header"], "# clockid: tai"),
        (&["-k", "raw"], &["--header"], "# clockid: monotonic_raw"),
        (&["-z"], &["--header"], "# compressed : Zstd, level = 1"),
    ];
    for (flags, script, expected) in forms {
        let Some(text) = with(flags, script) else { return };
        assert!(text.contains(expected), "{flags:?}: {}", text.get(..4000).unwrap_or(&text));
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn rates_and_losses() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let file = folder.path().join("prof.data");
    let record = |flags: &[&str], before: &[&str]| {
        let mut record = prof(["record", "-e", "cpu-clock", "-o"]);
        run(record.arg(&file).args(flags).arg("--").args(before).arg(&program).args(["alone", "150"]))
    };
    // What is sampled by default is limited as what is asked for.
    let default = run(prof(["record", "-F", "max", "-o"]).arg(&file).args(["--", "true"]));
    assert_eq!(default.code, 0, "{}", default.stderr);
    // The kernel lowers it where interrupts take long, as they do on a busy machine.
    let allowed = || std::fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate").unwrap();
    let before = allowed();
    let most = record(&["-F", "max", "--call-graph", "no"], &[]).ok();
    let said = most.stderr.replace(',', "");
    let is_said = |rate: &str| said.contains(&format!("({} Hz cpu-clock", rate.trim()));
    assert!(is_said(&before) || is_said(&allowed()), "{before} {said}");
    agree(folder.path(), &file, &most);
    let small = ["-F", "40000", "-m", "4K", "--call-graph", "fp"];
    let lossy = record(&small, &UNREAD).ok();
    assert!(figure(&lossy.stderr, "lost") > 0, "{}", lossy.stderr);
    let strict = record(&[&small[..], &["--strict"]].concat(), &UNREAD);
    assert_eq!(strict.code, 1, "{}", strict.stderr);
    let quiet = record(&[&small[..], &["--strict", "-q"]].concat(), &UNREAD);
    assert!(quiet.code == 1 && quiet.stderr.contains(" lost"), "{}", quiet.stderr);
    // The rings have room for all of them, whenever they are read.
    let all = record(&["--strict", "-F", "99", "--call-graph", "fp"], &[]).ok();
    assert_eq!(figure(&all.stderr, "lost"), 0, "{}", all.stderr);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_stream_is_read_by_both() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    for flags in [&[][..], &["-z"]] {
        let mut record = prof(["record", "-e", "cpu-clock", "-F", "4999", "-o", "-"]);
        let recorded = run(record.args(flags).arg("--").arg(&program).args(["alone", "100"])).ok();
        let file = folder.path().join("stream");
        std::fs::write(&file, &recorded.stdout).unwrap();
        agree(folder.path(), &file, &recorded);
        assert!(
            recorded.stderr.contains("sixty"),
            "what the command prints goes to stderr: {}",
            recorded.stderr
        );
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_duration_ends_the_command() {
    if !may_record() {
        return;
    }
    let folder = folder();
    let file = folder.path().join("prof.data");
    let command = ["-d", "0.5", "--", "sh", "-c", "while :; do :; done"];
    let recorded = run(prof(["record", "-e", "cpu-clock", "-o"]).arg(&file).args(command));
    assert_eq!(recorded.code, 143, "{}", recorded.stderr);
    assert!(recorded.stderr.contains("was sent SIGTERM"), "{}", recorded.stderr);
    agree(folder.path(), &file, &recorded);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn several_processes_or_threads() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let file = folder.path().join("prof.data");
    let mut children = [(); 2].map(|()| Command::new(&program).args(["alone", "90000"]).spawn().unwrap());
    let list = children.each_ref().map(|child| child.id().to_string()).join(",");
    let recorded = ["-p", "-t"].map(|flag| {
        let mut record = prof(["record", "-e", "cpu-clock", "-F", "1999", "-d", "0.3", "-o"]);
        let recorded = run(record.arg(&file).args([flag, &list]));
        let seen = run(prof(["script", "-F", "pid", "-i"]).arg(&file));
        let agreed = std::panic::catch_unwind(|| agree(folder.path(), &file, &recorded));
        (recorded, seen, agreed.is_ok())
    });
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    for (recorded, seen, agreed) in recorded {
        assert!(agreed, "{}", recorded.stderr);
        let seen = seen.ok();
        let pids: std::collections::BTreeSet<&str> = seen.text().split_whitespace().collect();
        assert_eq!(pids.len(), 2, "{list}: {pids:?}");
        assert!(pids.iter().all(|pid| list.contains(pid)), "{list}: {pids:?}");
    }
}

/// Seconds since the machine has been started.
fn uptime() -> f64 {
    let text = std::fs::read_to_string("/proc/uptime").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_delay_leaves_the_beginning_out() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let before = uptime();
    let command = [program.as_os_str(), OsStr::new("alone"), OsStr::new("1000")];
    let (file, recorded) = record(folder.path(), &["-D", "700", "-k", "boottime"], &command);
    agree(folder.path(), &file, &recorded.ok());
    let times = run(prof(["script", "-F", "time", "-i"]).arg(&file)).ok();
    let times = times.text().lines().filter_map(|line| line.trim().trim_end_matches(':').parse::<f64>().ok());
    let first = times.fold(f64::INFINITY, f64::min);
    // The uptime is told in hundredths.
    assert!(first > before + 0.68, "{first} after {before}");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn when_it_begins() {
    let Some(program) = programs::c("shares") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let command = [program.as_os_str(), OsStr::new("alone"), OsStr::new("50")];
    // The command is over long before.
    let (_, recorded) = record(folder.path(), &["-D", "3600000"], &command);
    assert_eq!(figure(&recorded.ok().stderr, "samples"), 0);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn whom_it_sees() {
    let Some(program) = programs::c("flood") else { return };
    if !may_record() {
        return;
    }
    let folder = folder();
    let mut child = Command::new(&program).args(["sleepers", "90000", "30"]).spawn().unwrap();
    let pid = child.id().to_string();
    let threads = format!("/proc/{pid}/task");
    while std::fs::read_dir(&threads).unwrap().count() < 31 {
        thread::sleep(Duration::from_millis(5));
    }
    let recorded: Vec<(&str, PathBuf, Run)> = [
        ("--per-thread", &["-p", &pid, "--per-thread"][..]),
        ("-t", &["-t", &pid]),
        ("-t --per-thread", &["-t", &pid, "--per-thread"]),
        ("-i", &["-p", &pid, "-i"]),
        ("-C", &["-C", "0"]),
        ("-a -z", &["-a", "-z"]),
    ]
    .into_iter()
    .map(|(name, flags)| {
        let file = folder.path().join(name);
        let mut command = prof(["record", "-e", "cpu-clock", "-F", "1999", "-d", "0.3", "-o"]);
        let recorded = run(command.arg(&file).args(flags));
        (name, file, recorded)
    })
    .collect();
    child.kill().unwrap();
    child.wait().unwrap();
    for (name, file, recorded) in recorded {
        assert_eq!(recorded.code, 0, "{name}: {}", recorded.stderr);
        agree(folder.path(), &file, &recorded);
        let stacks = super::prof::folded(&file, &[]).ok();
        let seen = super::folded::Folded::parse(stacks.text()).with("burn") > 0;
        assert!(seen || name == "-C", "{name}: {}", stacks.text());
    }
}

/// A new cgroup of version 2, if this user may make one.
pub(crate) fn cgroup(name: &str) -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "))?;
    let own = Path::new(mount.split(' ').nth(4)?).join(format!("prof-test-{name}-{}", std::process::id()));
    std::fs::create_dir(&own).ok().map(|()| own)
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn only_a_user_or_a_cgroup() {
    let (Some(one), Some(other)) = (programs::c("shares"), programs::c("flood")) else { return };
    if !may_record() || !programs::has("setpriv") {
        return;
    }
    if !nix::unistd::Uid::effective().is_root() {
        return programs::skip("another user's processes need root");
    }
    let folder = folder();
    let file = folder.path().join("prof.data");
    // Where another user may execute it.
    let public = Path::new("/tmp").join(format!("prof-test-shares-{}", std::process::id()));
    std::fs::copy(one, &public).unwrap();
    let nobody = ["--reuid=65534", "--clear-groups", "--"];
    let mut member =
        Command::new("setpriv").args(nobody).arg(&public).args(["alone", "90000"]).spawn().unwrap();
    let mut stranger = Command::new(&other).args(["busy", "90000", "1"]).spawn().unwrap();
    let cgroup = cgroup("member");
    let mut targets = vec![vec!["-u", "65534"]];
    if let Some(cgroup) = &cgroup {
        std::fs::write(cgroup.join("cgroup.procs"), member.id().to_string()).unwrap();
        targets.push(vec!["-a", "-G", cgroup.file_name().unwrap().to_str().unwrap()]);
    } else {
        programs::skip("cgroups of version 2 cannot be made here");
    }
    let recorded: Vec<_> = targets
        .into_iter()
        .map(|target| {
            let mut command = prof(["record", "-e", "cpu-clock", "-F", "1999", "-d", "0.3", "-o"]);
            let recorded = run(command.arg(&file).args(&target));
            (target, recorded, super::prof::folded(&file, &[]))
        })
        .collect();
    for child in [&mut member, &mut stranger] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    std::fs::remove_file(public).unwrap();
    if let Some(cgroup) = &cgroup {
        // A process leaves it a little after its end.
        while std::fs::remove_dir(cgroup).is_err_and(|error| error.kind() == ErrorKind::ResourceBusy) {
            thread::sleep(Duration::from_millis(5));
        }
    }
    for (target, recorded, stacks) in recorded {
        let stacks = super::folded::Folded::parse(stacks.ok().text());
        assert!(stacks.with("sixty") > 0, "{target:?}: {}", recorded.stderr);
        assert_eq!(stacks.with("burn"), 0, "{target:?}");
    }
}

/// Machines without last branch records (virtual ones, mostly) say so; with them, samples carry branches.
#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn branches_are_recorded_or_what_is_missing_is_explained() {
    if !may_record() {
        return;
    }
    let folder = folder();
    // Files of the kernel's, which we do not ask ourselves about: PMUs with branches tell how many.
    let has_branches = std::fs::read_dir("/sys/bus/event_source/devices").is_ok_and(|pmus| {
        pmus.flatten().any(|pmu| {
            let branches = std::fs::read_to_string(pmu.path().join("caps/branches"));
            branches.is_ok_and(|count| count.trim().parse().is_ok_and(|count: u32| count > 0))
        })
    });
    for flags in [&["-b"][..], &["-j", "any_call,u"]] {
        let (file, recorded) = record(folder.path(), flags, &[OsStr::new("true")]);
        if has_branches {
            let listed = run(prof(["script", "-F", "ip,brstack", "-i"]).arg(file.as_os_str())).ok();
            assert!(
                recorded.code == 0 && listed.text().contains("0x"),
                "{}{}",
                recorded.stderr,
                listed.text()
            );
        } else {
            assert_eq!(recorded.code, 1, "{}", recorded.stderr);
            assert!(recorded.stderr.contains("try without -b and -j"), "{}", recorded.stderr);
        }
    }
    let (_, wrong) = record(folder.path(), &["-j", "nonsense"], &[OsStr::new("true")]);
    assert_eq!(wrong.code, 2, "{}", wrong.stderr);
    assert!(wrong.stderr.contains("any_call"), "{}", wrong.stderr);
}

/// More threads than there may be descriptors: whole CPUs are sampled in their place, or it is refused before anything
/// is opened, with the number to type.
#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn too_few_descriptors_are_counted_before() {
    let Some(program) = programs::c("flood") else { return };
    if !may_record() || !programs::has("prlimit") {
        return;
    }
    let folder = folder();
    let file = folder.path().join("prof.data");
    let mut child =
        Command::new(program).args(["sleepers", "90000", "60"]).stdout(Stdio::null()).spawn().unwrap();
    let pid = child.id().to_string();
    let threads = format!("/proc/{pid}/task");
    while std::fs::read_dir(&threads).unwrap().count() < 61 {
        thread::sleep(Duration::from_millis(5));
    }
    let record = |flags: &[&str]| {
        let mut command = Command::new("prlimit");
        command.args(["--nofile=100:100", env!("CARGO_BIN_EXE_prof"), "record", "-e", "cpu-clock"]);
        run(command.args(flags).args(["-d", "1", "-p", &pid, "-o"]).arg(&file))
    };
    let refused = record(&["--per-thread"]);
    let refused_left_nothing = !file.exists();
    let whole = record(&[]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(refused.stderr.contains("try: sudo prlimit --pid $$ --nofile="), "{}", refused.stderr);
    assert!(refused_left_nothing);
    if nix::unistd::Uid::effective().is_root() {
        assert!(whole.stderr.contains("sampling whole CPUs"), "{}", whole.stderr);
        agree(folder.path(), &file, &whole.ok());
        let pids = run(prof(["script", "-F", "pid", "-i"]).arg(&file)).ok();
        let mut pids = pids.text().lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
        assert!(pids.peek().is_some() && pids.all(|seen| seen == pid), "only of the process");
    }
}
