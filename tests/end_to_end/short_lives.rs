//! Programs that end before they have had a sample: what is missing is said, and whose it was.

use super::folded::Folded;
use super::prof::{figure, may_record};
use super::programs::{self, skip};
use super::unprivileged::{LEVEL, as_nobody, paranoid};
use super::{perf, prof};

/// A loop that has samples, and programs that are over within less than the time between two.
const SCRIPT: &str =
    "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; for i in $(seq 300); do /bin/true; /bin/true; done";

/// The share of the frames with this name, of the picture's width, in per cent.
fn share(svg: &str, name: &str) -> f64 {
    let of_frame = |title: &str| {
        let percent = title.strip_prefix(name)?.strip_prefix(" (")?.rsplit_once(", ")?.1.split_once('%')?.0;
        percent.parse::<f64>().ok()
    };
    svg.split("<title>").skip(1).filter_map(of_frame).sum()
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn what_had_no_samples_is_said_and_drawn() {
    if !may_record() {
        return;
    }
    let _level = LEVEL.read();
    if paranoid() != 2 {
        return skip("kernel.perf_event_paranoid is not 2");
    }
    let folder = prof::folder();
    let record = ["record", "-e", "cpu-clock:u", "-F", "199", "-o", "prof.data", "--", "sh", "-c", SCRIPT];
    let Some(recorded) = as_nobody(folder.path(), &record) else { return };
    let recorded = recorded.ok();
    let samples = figure(&recorded.stderr, "samples");
    let line = recorded.stderr.lines().find(|line| line.contains("has no samples"));
    assert!(line.is_some_and(|line| line.contains("try: -F 1990")), "{}", recorded.stderr);

    let folded = as_nobody(folder.path(), &["flame", "--folded"]).unwrap().ok();
    assert!(!folded.text().contains("not sampled"), "it is no sample");
    assert_eq!(Folded::parse(folded.text()).total(), samples);

    let svg = as_nobody(folder.path(), &["flame"]).unwrap().ok();
    let unsampled = share(svg.text(), "[not sampled]");
    assert!(unsampled > 50.0, "{unsampled} % of the picture");
    // The shell started them, and what was its own time before exec cannot be told apart.
    let of_true = share(svg.text(), "sh → true");
    assert!(of_true > 40.0, "{of_true} % are those of true");
    assert!(svg.text().contains("of the CPU time not sampled"));
    let other = as_nobody(folder.path(), &["flame", "--cpu", "0-63"]).unwrap().ok();
    assert!(!other.text().contains("not sampled"), "on which CPU that was is not known");

    if perf::is_here() {
        let file = folder.path().join("home/prof.data");
        let script = perf::script(folder.path(), &file).ok();
        assert_eq!(perf::fold(script.text()).total(), samples, "perf reads what it needs not know");
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn threads_that_run_shortly_are_not_said_to_end() {
    let Some(program) = programs::c("bursts") else { return };
    if !may_record() {
        return;
    }
    let folder = prof::folder();
    let file = folder.path().join("prof.data");
    let mut child = std::process::Command::new(program).args(["200", "60"]).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    let pid = child.id().to_string();
    let record = ["record", "-e", "cpu-clock", "-F", "499", "-d", "4", "-p", &pid, "-o"];
    let recorded = prof::run(prof::prof(record).arg(&file));
    let advised = ["record", "-e", "cpu-clock", "-F", "499", "-d", "0.5", "-a", "-o"];
    let advised = prof::run(prof::prof(advised).arg(folder.path().join("all.data")));
    child.kill().unwrap();
    child.wait().unwrap();
    let recorded = recorded.ok();
    let line = recorded.stderr.lines().find(|line| line.contains("of the CPU time has no samples"));
    let is_true = line.is_some_and(|line| line.contains("threads lack their last") && line.contains("or -a"));
    assert!(is_true, "{}", recorded.stderr);
    if advised.code == 0 {
        assert!(
            !advised.stderr.contains("threads lack their last"),
            "what is advised helps: {}",
            advised.stderr
        );
    }
    // Whoever reads the recording later is told, too.
    let explained = prof::run(prof::prof(["explain", "-i"]).arg(&file)).ok();
    assert!(explained.text().contains("of the CPU time has no samples"), "{}", explained.text());
    let folded = prof::run(prof::prof(["flame", "--folded", "-i"]).arg(&file)).ok();
    assert!(!folded.stderr.contains("of the CPU time has no samples"), "the recorder has: {}", folded.stderr);
    let svg = prof::run(prof::prof(["flame", "-i"]).arg(&file)).ok();
    assert!(svg.text().contains("% of the CPU time not sampled"), "the subtitle");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_lower_rate_is_advised_where_it_samples_whole_cpus() {
    if !may_record() || !nix::unistd::Uid::effective().is_root() {
        return skip("only root samples whole CPUs");
    }
    let folder = prof::folder();
    let file = folder.path().join("prof.data");
    let record = |rate| {
        let mut command = prof::prof(["record", "-e", "cpu-clock", "-F", rate, "-o"]);
        prof::run(command.arg(&file).args(["--", "sh", "-c", SCRIPT])).ok().stderr
    };
    let missing = record("2999");
    let line = missing.lines().find(|line| line.contains("has no samples"));
    assert!(line.is_some_and(|line| line.contains("try: -F 2500, at which whole CPUs")), "{missing}");
    // Late ticks are those of a machine with other load, whatever is sampled.
    let in_time = |said: &String| !said.contains("ticks of the clock came so late");
    let followed = std::iter::repeat_with(|| record("2500")).take(10).find(in_time).unwrap();
    assert!(!followed.contains("has no samples"), "what is advised helps: {followed}");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn threads_that_take_turns_on_a_cpu_have_no_more_time_than_they_used() {
    let Some(program) = programs::c("waits") else { return };
    if !may_record() {
        return;
    }
    let folder = prof::folder();
    let file = folder.path().join("prof.data");
    // Too fast for whole CPUs: the events are those of the threads.
    let mut command = prof::prof(["record", "-e", "cpu-clock", "-F", "4999", "-o"]);
    let recorded = prof::run(command.arg(&file).arg("--").arg(program).arg("rival")).ok();
    assert!(!recorded.stderr.contains("no samples"), "{}", recorded.stderr);
    let svg = prof::run(prof::prof(["flame", "-i"]).arg(&file)).ok();
    let unsampled = share(svg.text(), "[not sampled]");
    assert!(unsampled < 5.0, "{unsampled} % of the picture");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn time_before_the_end_of_a_delay_needs_no_samples() {
    if !may_record() {
        return;
    }
    let _level = LEVEL.read();
    let folder = prof::folder();
    let spin = "i=0; while [ $i -lt 600000 ]; do i=$((i+1)); done";
    for event in ["cpu-clock", "cpu-clock:u"] {
        let record = ["record", "-e", event, "-D", "200", "-o", "prof.data", "--", "sh", "-c", spin];
        for recorded in [
            Some(prof::run(prof::prof(record).current_dir(folder.path()))),
            as_nobody(folder.path(), &record),
        ] {
            let Some(recorded) = recorded else { continue };
            let recorded = recorded.ok();
            assert!(!recorded.stderr.contains("no samples"), "{}", recorded.stderr);
        }
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_command_that_slept_is_told_from_an_event_that_did_not_occur() {
    if !may_record() {
        return;
    }
    let folder = prof::folder();
    let record = |args: &[&str]| {
        let file = folder.path().join("prof.data");
        prof::run(prof::prof(["record", "-o"]).arg(&file).args(args)).ok().stderr
    };
    let slept = record(&["-e", "cpu-clock", "-c", "1000000000", "--", "sleep", "0.5"]);
    assert!(slept.contains("no samples: the command slept"), "{slept}");
    let rare = record(&["-e", "page-faults", "-c", "1000000", "--", "true"]);
    assert!(rare.contains("page-faults occurred") && rare.contains("try: -c 1"), "{rare}");
    let none = record(&["-e", "cpu-migrations", "-F", "100", "--", "sh", "-c", ":"]);
    assert!(!none.contains("-F"), "no rate finds what does not occur: {none}");
}
