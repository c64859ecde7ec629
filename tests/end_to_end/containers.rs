//! Samples know the container that they were taken in.

use std::fs;
use std::path::{Path, PathBuf};

use super::folded::Folded;
use super::prof::{folded, folder, may_record, prof, run};
use super::{perf, programs};

const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// A cgroup as docker makes them; it goes with the value.
struct Group(PathBuf);

impl Group {
    fn new(test: &str) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/mounts").ok()?;
        let root = mounts.lines().find_map(|line| {
            let mut words = line.split(' ').skip(1);
            let (path, kind) = (words.next()?, words.next()?);
            (kind == "cgroup2").then(|| PathBuf::from(path))
        })?;
        let slice = root.join(format!("prof-test-{test}-{}.slice", std::process::id()));
        match fs::create_dir_all(slice.join(format!("docker-{ID}.scope"))) {
            Ok(()) => Some(Self(slice)),
            Err(error) => {
                programs::skip(&format!("no cgroup can be made here: {error}"));
                None
            }
        }
    }

    fn scope(&self) -> PathBuf {
        self.0.join(format!("docker-{ID}.scope"))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(self.scope());
        let _ = fs::remove_dir(&self.0);
    }
}

/// A script that runs the program twice, once in the group.
fn script(folder: &Path, group: &Group, program: &Path) -> PathBuf {
    let script = folder.join("both");
    let (group, program) = (group.scope(), program.display().to_string());
    let text = format!(
        "(echo 0 > {}/cgroup.procs && exec {program} alone 300) &\n{program} alone 300\nwait\n",
        group.display()
    );
    fs::write(&script, text).unwrap();
    script
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn processes_in_containers_are_told_apart() {
    let Some(program) = programs::c("shares") else { return };
    let Some(group) = Group::new("ours").filter(|_| may_record()) else { return };
    let folder = folder();
    let file = folder.path().join("prof.data");
    let script = script(folder.path(), &group, &program);
    run(prof(["record", "-q", "-F", "999", "-o"]).arg(&file).args(["--", "sh"]).arg(script)).ok();
    // The group is gone when the recording is read.
    drop(group);
    let by_container = folded(&file, &["--by-container"]).ok();
    let stacks = Folded::parse(by_container.text());
    let of = |container: &str| {
        stacks.count(|stack| stack[0] == container && stack.iter().any(|frame| frame == "main"))
    };
    let (inside, outside) = (of("docker:0123456789ab"), of("host"));
    assert!(inside > 100 && outside > 100, "{}", by_container.text());
    for name in ["docker:0123456789ab", "0123456789ab", ID] {
        let only = folded(&file, &["--container", name]).ok();
        assert_eq!(Folded::parse(only.text()).with("main"), inside, "{name}");
    }
    let host = folded(&file, &["--container", "host"]).ok();
    assert_eq!(Folded::parse(host.text()).with("main"), outside);
    let report = run(prof(["report", "--csv", "--sort", "container,comm", "-i"]).arg(&file)).ok();
    assert!(report.text().contains("docker:0123456789ab,shares"), "{}", report.text());
    let other = folded(&file, &["--container", "docker:ffff"]);
    assert_eq!(other.code, 1);
    assert!(
        other.stderr.contains("there are ") && other.stderr.contains("docker:0123456789ab ("),
        "{}",
        other.stderr
    );
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn what_perf_records_of_cgroups_tells_the_containers() {
    let Some(program) = programs::c("shares") else { return };
    let Some(group) = Group::new("perf").filter(|_| perf::is_here() && may_record()) else { return };
    let folder = folder();
    let script = script(folder.path(), &group, &program);
    let file = perf::record(folder.path(), &["--all-cgroups"], &mut |command| {
        command.arg("sh").arg(&script);
    });
    drop(group);
    let by_container = folded(&file, &["--by-container"]).ok();
    let stacks = Folded::parse(by_container.text());
    let of =
        |container: &str| stacks.count(|stack| stack[0] == container && stack.contains(&"shares".to_owned()));
    assert!(of("docker:0123456789ab") > 100 && of("host") > 100, "{}", by_container.text());
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn samples_that_say_their_cgroups_are_told_apart_and_chosen_by_path() {
    let Some(program) = programs::c("shares") else { return };
    let Some(group) = Group::new("path").filter(|_| may_record()) else { return };
    let folder = folder();
    let (file, without) = (folder.path().join("prof.data"), folder.path().join("without.data"));
    let script = script(folder.path(), &group, &program);
    let slice = format!("/{}", group.0.file_name().unwrap().to_str().unwrap());
    let scope = format!("{slice}/docker-{ID}.scope");
    run(prof(["record", "-q", "-F", "999", "--all-cgroups", "-o"]).arg(&file).args(["--", "sh"]).arg(script))
        .ok();
    run(prof(["record", "-q", "-o"]).arg(&without).args(["--"]).arg(&program).args(["alone", "50"])).ok();
    drop(group);
    let report = run(prof(["report", "--csv", "--sort", "cgroup,comm", "-i"]).arg(&file)).ok();
    let row = |path: &str| report.text().lines().any(|line| line.starts_with(&format!("{path},shares")));
    assert!(row(&scope), "{}", report.text());
    let all = Folded::parse(folded(&file, &[]).ok().text()).with("main");
    let of = |path: &str| Folded::parse(folded(&file, &["--cgroup", path]).ok().text()).with("main");
    let inside = of(&scope);
    assert!(inside > 100 && all - inside > 100, "{inside} of {all}");
    assert_eq!((of(&slice), of("/")), (inside, all));
    let script = run(prof(["script", "-F", "cgroup", "--cgroup", &slice, "-i"]).arg(&file)).ok();
    assert!(script.text().lines().all(|line| line.trim() == scope), "{}", script.text());
    let waits = folded(&file, &["--cgroup", "/", "--weight", "wall"]);
    assert!(waits.code == 1 && waits.stderr.contains("--container"), "{}", waits.stderr);
    let other = folded(&file, &["--cgroup", "/nosuch"]);
    assert!(other.code == 1 && other.stderr.contains(&scope), "{}", other.stderr);
    for (command, options) in [("report", ["--sort", "cgroup"]), ("flame", ["--cgroup", "/"])] {
        let refused = run(prof([command]).args(options).args(["-o", "-", "-i"]).arg(&without));
        assert!(refused.code == 1 && refused.stderr.contains("--all-cgroups"), "{}", refused.stderr);
    }
}

/// A program in a file system that nobody sees but itself: of another name, and removed with the last of its processes.
const CONTAINER: &str = "mount -t tmpfs none $1 && cp $0 $1/inside && $1/inside alone 600";

/// A second one which begins with traps: a pipe and a link that leads to what only root reads, in place of programs that ran.
const TRAPS: &str = "mount -t tmpfs none $1 && for n in 1 2; do cp $0 $1/trap$n; $1/trap$n alone 300 & done; sleep 0.05; \
                     rm $1/trap*; mkfifo $1/trap1; ln -s /etc/shadow $1/trap2; wait";

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn programs_of_containers_have_names_when_these_are_gone() {
    let Some(program) = programs::c("shares").filter(|_| may_record()) else { return };
    let unshare = ["unshare", "-m", "-p", "-f", "sh", "-c"];
    let may = std::process::Command::new("unshare").args(["-m", "-p", "-f", "true"]).status();
    if !may.is_ok_and(|status| status.success()) {
        programs::skip("no mount namespace can be made here");
        return;
    }
    let folder = folder();
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let named = |text: &str| {
        let stacks = Folded::parse(text);
        let of = |name: &str| stacks.count(|stack| stack.iter().any(|frame| frame == name));
        let nameless = stacks.count(|stack| {
            stack.iter().any(|frame| frame.starts_with("[inside") || frame.starts_with("[trap"))
        });
        assert!(of("sixty") > 100 && nameless * 100 < of("main"), "{text}");
    };
    for script in [CONTAINER, TRAPS] {
        let file = folder.path().join("prof.data");
        let mut record = prof(["record", "-q", "-o"]);
        run(record.arg(&file).arg("--").args(unshare).arg(script).arg(&program).arg(&inner)).ok();
        named(folded(&file, &[]).ok().text());
    }
    let mut flame = prof(["flame", "--folded", "--"]);
    named(run(flame.args(unshare).arg(CONTAINER).arg(&program).arg(&inner)).ok().text());
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn the_live_view_shows_containers() {
    let Some(program) = programs::c("shares") else { return };
    let Some(group) = Group::new("live").filter(|_| may_record()) else { return };
    let folder = folder();
    let script = script(folder.path(), &group, &program);
    let top =
        run(prof(["top", "-q", "-F", "999", "--json", "--delay-secs", "30", "--", "sh"]).arg(script)).ok();
    let interval: serde_json::Value = serde_json::from_str(top.text()).unwrap();
    let processes = interval["events"][0]["processes"].as_array().unwrap();
    let of = |container: serde_json::Value| {
        let rows = processes.iter().filter(|row| row["container"] == container && row["comm"] == "shares");
        rows.filter_map(|row| row["weight"].as_u64()).sum::<u64>()
    };
    let (inside, outside) = (of("docker:0123456789ab".into()), of(serde_json::Value::Null));
    assert!(inside > 100 && outside > 100, "{}", top.text());
}
