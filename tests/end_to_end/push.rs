//! `prof push`, `record --push` and `prof watch`: what an engine gets, and what happens without one.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use prost::Message;
use push::testing::{Engine, Export, Received, Reply};

use super::bad_input::reachable_prof;
use super::prof::{RECORDERS, finish, folder, may_record, prof, run, until};
use super::programs;
use super::signals::{FOR_COMMANDS, blocks, group_leader};

/// The profiles of a request: service, type, period and the sum of its values.
fn profiles(request: &Received) -> Vec<(String, String, i64, i64)> {
    let data = Export::decode(&*request.body).unwrap();
    let strings = data.dictionary.unwrap().strings;
    let mut profiles = Vec::new();
    for resource in data.resources {
        let attributes = resource.resource.unwrap().attributes;
        let service = attributes.into_iter().find(|attribute| attribute.key == "service.name").unwrap();
        let service = service.value.unwrap().text;
        for profile in resource.scopes.into_iter().flat_map(|scope| scope.profiles) {
            let kind = profile.period_type.unwrap().kind;
            let values = profile.samples.iter().flat_map(|sample| &sample.values).sum();
            profiles.push((service.clone(), strings[kind as usize].clone(), profile.period, values));
        }
    }
    profiles
}

/// Records a program as the service `shop`, with its waits.
fn record(folder: &Path) -> Option<std::path::PathBuf> {
    let program = programs::c("paths").filter(|_| may_record())?;
    let file = folder.join("prof.data");
    let mut command = prof(["record", "-q", "-e", "cpu-clock", "-F", "500", "--off-cpu", "-o"]);
    command.env("OTEL_SERVICE_NAME", "shop").env("OTEL_RESOURCE_ATTRIBUTES", "service.version=3");
    command.env("SECRET", "never-noted");
    run(command.arg(&file).arg("--").arg(program).args(["2", "200"])).ok();
    Some(file)
}

#[test]
fn an_engine_gets_profiles_by_service_and_says_them_to_be_right() {
    let folder = folder();
    let Some(file) = record(folder.path()) else { return };
    let bytes = std::fs::read(&file).unwrap();
    assert!(!bytes.windows(11).any(|part| part == b"never-noted"), "nothing else of the environment");
    let engine = Engine::start(Vec::new());
    let pushed = run(prof(["push"]).arg(&file).arg(engine.url())).ok();
    assert!(pushed.stderr.contains("pushed 1 request"), "{}", pushed.stderr);
    let received = engine.received();
    let [request] = received.as_slice() else { panic!("{}", received.len()) };
    let profiles = profiles(request);
    let (_, _, period, samples) = profiles.iter().find(|(.., kind, _, _)| kind == "cpu").unwrap();
    assert!(*period == 2_000_000 && *samples > 20, "{profiles:?}");
    assert!(profiles.iter().all(|(service, ..)| service == "shop"), "{profiles:?}");
    assert!(profiles.iter().any(|(_, kind, period, waits)| kind.is_empty() && *period == 0 && *waits > 0));
    // An engine of yours.
    for url in
        std::env::var("PROF_TEST_PYROSCOPE").iter().flat_map(|url| [url.clone(), format!("pyroscope+{url}")])
    {
        run(prof(["push"]).arg(&file).arg(url)).ok();
    }
    let without = folder.path().join("without.data");
    let mut command = prof(["record", "-q", "--no-service", "-o"]);
    command.env("OTEL_SERVICE_NAME", "shop").arg(&without).args(["--", "true"]);
    run(&mut command).ok();
    assert!(!std::fs::read(&without).unwrap().windows(4).any(|part| part == b"shop"));
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn older_pyroscope_gets_pprof() {
    let folder = folder();
    let Some(file) = record(folder.path()) else { return };
    let engine = Engine::start(Vec::new());
    run(prof(["push"]).arg(&file).arg(format!("pyroscope+{}", engine.url()))).ok();
    let received = engine.received();
    assert_eq!(received.len(), 2, "on and off the CPU");
    for request in received {
        assert!(request.path.starts_with("/ingest?name=shop%7B"), "{}", request.path);
        assert!(request.path.contains("service_version%3D3"), "{}", request.path);
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn refusals_and_absent_engines_are_said_and_passwords_refused() {
    let folder = folder();
    let Some(file) = record(folder.path()) else { return };
    let engine = Engine::start(vec![Reply::Status(400, Vec::new(), b"profile too old".to_vec())]);
    let refused = run(prof(["push"]).arg(&file).arg(engine.url()));
    assert!(refused.code == 1 && refused.stderr.contains("400: profile too old"), "{}", refused.stderr);
    let password = run(prof(["push"]).arg(&file).arg("http://user:secret@localhost"));
    assert!(password.code == 1 && !password.stderr.contains("secret"), "{}", password.stderr);
    // A recording keeps the exit code of its command, unless that is 0; and says what to do, with -q, too.
    for (command_code, code) in [(0, 1), (3, 3)] {
        let engine = Engine::start(vec![Reply::Status(400, Vec::new(), Vec::new())]);
        let output = folder.path().join("pushed.data");
        let recorded = run(&mut pushing(&engine.url(), &output, command_code));
        assert_eq!(recorded.code, code, "{}", recorded.stderr);
        let advice = format!("try: prof push {} {}", output.display(), engine.url());
        assert!(recorded.stderr.contains("HTTP status 400") && output.exists(), "{}", recorded.stderr);
        assert!(recorded.stderr.contains(&advice), "{}", recorded.stderr);
    }
}

/// Records a command that works for a moment, and pushes it.
fn pushing(url: &str, output: &Path, code: i32) -> Command {
    let mut command = prof(["record", "-q", "-e", "cpu-clock", "--push", url, "-o"]);
    let work = format!("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exit {code}");
    command.arg(output).args(["--", "sh", "-c", &work]);
    command
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn an_engine_that_says_nothing_holds_nobody_behind_a_recording() {
    if !may_record() {
        return;
    }
    let folder = folder();
    let output = folder.path().join("pushed.data");
    let engine = Engine::start(vec![Reply::Hang(Duration::from_secs(60)); 9]);
    let recorded = run(&mut pushing(&engine.url(), &output, 0));
    assert!(recorded.code == 1 && recorded.stderr.contains("try: prof push"), "{}", recorded.stderr);
    assert_eq!(engine.received().len(), 1, "the first request takes all the time that there is");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_spool_has_one_watch() {
    let Some(program) = programs::rust("shares", "v0").filter(|_| may_record()) else { return };
    let folder = folder();
    let spool = folder.path().join("spool");
    let engine = Engine::start(Vec::new());
    let mut busy = Command::new(&program).arg("60000").spawn().unwrap();
    let watch = || {
        let mut watch = prof(["watch", "--interval", "1", "--push"]);
        watch.arg(engine.url()).arg("--spool").arg(&spool).args(["-p", &busy.id().to_string()]);
        watch
    };
    let mut first = watch();
    let first = first.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("it sends", || !engine.received().is_empty());
    let second = run(&mut watch());
    let name = spool.display().to_string();
    assert!(second.code != 0 && second.stderr.contains(&name), "{}", second.stderr);
    assert!(second.stderr.contains("uses the spool") && second.stderr.contains("try: "), "{}", second.stderr);
    signal(&first, Signal::SIGTERM);
    assert_eq!(finish(first).code, 0);
    busy.kill().unwrap();
    busy.wait().unwrap();
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn requests_stay_within_limits_and_the_environment_says_where_to_and_with_what() {
    let folder = folder();
    let folded = folder.path().join("stacks.folded");
    let frames = "f".repeat(200);
    let lines: String = (0..40_000).map(|number| format!("main;{frames}{number};g{number} 1\n")).collect();
    std::fs::write(&folded, lines).unwrap();
    let engine = Engine::start(Vec::new());
    let mut command = prof(["push"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", engine.url());
    command.env("OTEL_EXPORTER_OTLP_HEADERS", "x-scope-orgid=team");
    run(command.arg(&folded)).ok();
    let received = engine.received();
    assert!(received.len() > 3, "{}", received.len());
    assert!(received.iter().all(|request| request.body.len() <= 2_000_000));
    let samples: i64 = received.iter().flat_map(profiles).map(|(.., values)| values).sum();
    assert_eq!(samples, 40_000);
    let tenant = ("x-scope-orgid".to_owned(), "team".to_owned());
    assert!(received.iter().all(|request| request.headers.contains(&tenant)));
}

fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_watch_outlives_an_absent_engine_and_sends_what_it_has_at_the_end() {
    let Some(program) = programs::rust("shares", "v0").filter(|_| may_record()) else { return };
    let folder = folder();
    let spool = folder.path().join("spool");
    let engine = Engine::start(vec![Reply::Status(503, vec![("Retry-After", "1".to_owned())], Vec::new())]);
    let _in_company = RECORDERS.read();
    let mut busy = Command::new(&program);
    let mut busy = busy.arg("60000").env("OTEL_SERVICE_NAME", "shop").spawn().unwrap();
    let mut watch = prof(["watch", "--interval", "1", "-F", "997", "--push"]);
    watch.arg(engine.url()).arg("--spool").arg(&spool).args(["-p", &busy.id().to_string()]);
    let watch = watch.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("three intervals have come", || engine.received().len() >= 4);
    signal(&watch, Signal::SIGUSR1);
    thread::sleep(Duration::from_millis(300));
    signal(&watch, Signal::SIGTERM);
    let ended = finish(watch);
    busy.kill().unwrap();
    busy.wait().unwrap();
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    for line in ["profiles wait: HTTP status 503", "profiles are sent again", "0 waiting (0.0 MB), 0 dropped"]
    {
        assert!(ended.stderr.contains(line), "{line}: {}", ended.stderr);
    }
    assert_eq!(ended.stderr.matches("requests: ").count(), 2, "{}", ended.stderr);
    // The first was asked for twice.
    let received = engine.received();
    let all: Vec<_> = received.iter().skip(1).flat_map(profiles).collect();
    assert!(all.iter().all(|(service, kind, period, samples)| {
        service == "shop" && kind == "cpu" && *period == 1_000_000_000 / 997 && *samples > 0
    }));
    assert!(all.len() >= 3, "{all:?}");
    // Functions have their names as users read them, and as linkers know them.
    let dictionary = Export::decode(&*received[1].body).unwrap().dictionary.unwrap();
    let has = |is: fn(&str) -> bool| dictionary.strings.iter().any(|text| is(text));
    assert!(
        has(|text| text == "shares::sixty") && has(|text| text.starts_with("_R") && text.ends_with("5sixty"))
    );
    assert_eq!(std::fs::read_dir(spool).unwrap().count(), 0);
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_watch_ends_in_order_at_every_signal_that_would_end_it() {
    let Some(program) = programs::c("shares").filter(|_| may_record()) else { return };
    let _in_company = RECORDERS.read();
    let mut busy = Command::new(&program).args(["alone", "60000"]).spawn().unwrap();
    // USR1 prints what was sent.
    let watches: Vec<_> = FOR_COMMANDS
        .into_iter()
        .filter(|signal| *signal != Signal::SIGUSR1 as i32)
        .map(|signal| {
            let engine = Engine::start(Vec::new());
            let mut watch = group_leader(&["watch", "--interval", "60", "-F", "997", "--push"]);
            watch.arg(engine.url()).args(["-p", &busy.id().to_string()]);
            let watch = watch.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            (signal, engine, watch.spawn().unwrap())
        })
        .collect();
    for (signal, _, watch) in &watches {
        until("it keeps signals for itself", || blocks(watch.id(), *signal));
    }
    thread::sleep(Duration::from_secs(2));
    for (signal, engine, watch) in watches {
        // The C library's `kill` of nix knows no real-time signals.
        let sent = Command::new("sh").args(["-c", &format!("kill -{signal} {}", watch.id())]).status();
        assert!(sent.unwrap().success());
        let ended = finish(watch);
        assert_eq!(ended.code, 0, "signal {signal}: {}", ended.stderr);
        assert!(ended.stderr.contains("requests: "), "signal {signal}: {}", ended.stderr);
        assert!(!engine.received().is_empty(), "signal {signal}: {}", ended.stderr);
    }
    busy.kill().unwrap();
    busy.wait().unwrap();
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_watch_of_a_user_waits_for_processes_and_sends_no_others() {
    const USER: &str = "64123";
    if !nix::unistd::Uid::effective().is_root() || !programs::has("setpriv") || !may_record() {
        return programs::skip("only root becomes another user");
    }
    let folder = folder();
    let reachable = reachable_prof(folder.path());
    let as_user = |program: &std::ffi::OsStr| {
        let mut command = std::process::Command::new("setpriv");
        command.args(["--reuid", USER, "--regid", USER, "--clear-groups", "--inh-caps=-all"]).arg(program);
        command
    };
    // Root samples all CPUs and picks the user's processes out, the user attaches to them.
    for command in [std::process::Command::new(&reachable), as_user(reachable.as_ref())] {
        let engine = Engine::start(Vec::new());
        let _in_company = RECORDERS.read();
        let mut watch = command;
        watch.args(["watch", "--interval", "1", "-F", "97", "-u", USER, "--push"]).arg(engine.url());
        let watch = watch.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        thread::sleep(Duration::from_millis(300));
        let mut busy = as_user("sh".as_ref());
        let mut busy =
            busy.args(["-c", "while :; do :; done"]).env("OTEL_SERVICE_NAME", "guest").spawn().unwrap();
        until("an interval has come", || !engine.received().is_empty());
        signal(&watch, Signal::SIGTERM);
        let ended = finish(watch);
        busy.kill().unwrap();
        busy.wait().unwrap();
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        let all: Vec<_> = engine.received().iter().flat_map(profiles).collect();
        assert!(all.iter().all(|(service, ..)| service == "guest"), "{all:?}");
    }
}

/// The page of the book whose queries run here.
const FLEET: &str = include_str!("../../docs/src/fleet.md");

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn the_queries_of_the_book_run_in_duckdb() {
    const RUN: &str = "
import sys
try:
    import duckdb
except ImportError:
    sys.exit(7)
for query in sys.stdin.read().split('\\0'):
    rows = duckdb.sql(query).fetchall()
    print(len(rows), rows[:1])
";
    let folder = folder();
    let Some(recording) = record(folder.path()) else { return };
    for version in ["version=1", "version=2"] {
        let to = folder.path().join(version);
        std::fs::create_dir(&to).unwrap();
        run(prof(["export", "-f", "json", "-o"]).arg(to.join("vm.json")).arg(&recording)).ok();
    }
    let queries = FLEET.split("```sql\n").skip(1).filter_map(|rest| rest.split("```").next());
    let place = folder.path().to_str().unwrap();
    let queries: Vec<String> = queries.map(|query| query.replace("s3://profiles", place)).collect();
    assert!(queries.len() >= 5, "{queries:?}");
    let input = folder.path().join("queries");
    std::fs::write(&input, queries.join("\0")).unwrap();
    let mut python = std::process::Command::new("python3");
    python.args(["-c", RUN]).stdin(std::fs::File::open(&input).unwrap());
    let output = python.output().unwrap();
    if output.status.code() == Some(7) {
        return programs::skip("python3 has no duckdb (pip install duckdb)");
    }
    let (text, errors) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{errors}");
    assert_eq!(text.lines().count(), queries.len(), "{text}");
    assert!(text.lines().all(|line| !line.starts_with("0 ")), "{text}");
}

/// The Collector that `tests/collector/builder.yaml` describes, if it was built.
fn collector() -> Option<std::path::PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/collector/otelcol");
    if !path.is_file() {
        programs::skip(
            "there is no OpenTelemetry Collector (tests/collector/builder.yaml says how to build it)",
        );
        return None;
    }
    Some(path)
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_real_collector_takes_profiles_and_passes_them_on() {
    let Some(collector) = collector() else { return };
    let folder = folder();
    let Some(recording) = record(folder.path()) else { return };
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = folder.path().join("config.yaml");
    let text = format!(
        "receivers: {{otlp: {{protocols: {{http: {{endpoint: '{free}'}}}}}}}}\n\
         exporters: {{debug: {{verbosity: detailed}}}}\n\
         service:\n  telemetry: {{metrics: {{level: none}}}}\n  pipelines: {{profiles: {{receivers: [otlp], exporters: [debug]}}}}\n"
    );
    std::fs::write(&config, text).unwrap();
    let mut server = std::process::Command::new(collector);
    server.arg("--feature-gates=service.profilesSupport").arg("--config").arg(&config);
    // A file, as it prints more than a pipe holds.
    let printed = folder.path().join("printed");
    let stderr = std::fs::File::create(&printed).unwrap();
    let mut server = server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).spawn().unwrap();
    until("it listens", || std::net::TcpStream::connect(free).is_ok());
    run(prof(["push"]).arg(&recording).arg(format!("http://{free}"))).ok();
    signal(&server, Signal::SIGTERM);
    server.wait().unwrap();
    let printed = std::fs::read_to_string(printed).unwrap();
    for line in ["service.name: Str(shop)", "process.executable.name: Str(paths", "resource profiles\": 1"] {
        assert!(printed.contains(line), "{line}: {printed:.3000}");
    }
    // A sum for each profile.
    let mut passed_on: Vec<i64> = Vec::new();
    for line in printed.lines().map(str::trim) {
        if line.starts_with("Profile #") {
            passed_on.push(0);
        } else if let Some(values) = line.strip_prefix("Values: [") {
            *passed_on.last_mut().unwrap() += values.trim_end_matches(']').parse::<i64>().unwrap();
        }
    }
    let reported = ["samples", "offcpu"].map(|weight| {
        let report = run(prof(["report", "--json", "--weight", weight]).arg(&recording)).ok();
        let report: serde_json::Value = serde_json::from_str(report.text()).unwrap();
        report["total"].as_i64().unwrap()
    });
    assert_eq!(passed_on, reported, "samples, and nanoseconds off the CPU");
}
