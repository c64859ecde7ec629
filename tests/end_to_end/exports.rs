//! What `prof export` writes is read by the formats' own tools, and says the same in every form.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::folded::{Folded, plain};
use super::prof::{Run, folder, may_record, prof, run};
use super::{perf, programs};

fn export(file: &Path, format: &str, flags: &[&str]) -> PathBuf {
    let output = file.with_extension(format);
    let mut command = prof(["export", "--format", format, "-o"]);
    run(command.arg(&output).arg(file).args(flags)).ok();
    output
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

type Weights = BTreeMap<String, u64>;

/// Self weights of functions.
fn of_folded(path: &Path) -> Weights {
    let mut weights = Weights::new();
    for (stack, count) in Folded::parse(&std::fs::read_to_string(path).unwrap()).stacks {
        let function = match stack.as_slice() {
            [_] => "[no stack]",
            stack => plain(stack.last().unwrap()),
        };
        *weights.entry(function.to_owned()).or_default() += count;
    }
    weights
}

/// Self weights of functions in samples, each of which stands for a period of this many nanoseconds.
fn of_speedscope(path: &Path, period: u64) -> Weights {
    let whole = json(path);
    validate_speedscope(path);
    let mut weights = Weights::new();
    for profile in whole["profiles"].as_array().unwrap() {
        assert_eq!((&profile["type"], &profile["unit"]), (&"sampled".into(), &"nanoseconds".into()));
        let (mut end, samples) = (0, profile["samples"].as_array().unwrap().iter());
        for (stack, weight) in samples.zip(profile["weights"].as_array().unwrap()) {
            end += weight.as_u64().unwrap();
            // Nothing was sampled in the time between.
            let Some(innermost) = stack.as_array().unwrap().last() else { continue };
            let name =
                whole["shared"]["frames"][innermost.as_u64().unwrap() as usize]["name"].as_str().unwrap();
            *weights.entry(name.to_owned()).or_default() += weight.as_u64().unwrap();
        }
        assert_eq!(profile["endValue"], end);
    }
    weights.values_mut().for_each(|weight| *weight = (*weight + period / 2) / period);
    weights
}

/// Holds a file against the schema that speedscope's package carries.
fn validate_speedscope(path: &Path) {
    const VALIDATE: &str = "
import json, sys
try:
    import jsonschema
except ImportError:
    sys.exit(7)
jsonschema.validate(json.load(open(sys.argv[1])), json.load(open(sys.argv[2])))
";
    let root = Command::new("npm").args(["root", "-g"]).output().ok();
    let root = root.map(|root| PathBuf::from(String::from_utf8_lossy(&root.stdout).trim()));
    let schema = root.map(|root| root.join("speedscope/dist/release/file-format-schema.json"));
    let Some(schema) = schema.filter(|schema| schema.is_file()) else {
        return programs::skip("there is no speedscope (npm install -g speedscope)");
    };
    let checked = run(Command::new("python3").args(["-c", VALIDATE]).args([path, &schema]));
    if checked.code == 7 {
        return programs::skip("there is no jsonschema for python3");
    }
    checked.ok();
}

fn of_json(path: &Path) -> Weights {
    let whole = json(path);
    let event = &whole["events"][0];
    let mut weights = Weights::new();
    for row in event["rows"].as_array().unwrap() {
        let location = &whole["stacks"][row[1].as_u64().unwrap() as usize][0];
        let line = &whole["locations"][location.as_u64().unwrap() as usize]["lines"][0];
        let function = &whole["functions"][line["function"].as_u64().unwrap() as usize];
        *weights.entry(function["name"].as_str().unwrap().to_owned()).or_default() +=
            row[2].as_u64().unwrap();
    }
    assert_eq!(event["samples"], weights.values().sum::<u64>());
    weights
}

/// Self weights of functions in the tracks of the first event.
fn of_firefox(path: &Path) -> Weights {
    let whole = json(path);
    let shared = &whole["shared"];
    let number = |value: &Value| value.as_u64().unwrap() as usize;
    let mut weights = Weights::new();
    // The tracks of other events have their names beside the thread's number.
    for thread in whole["threads"].as_array().unwrap().iter().filter(|thread| thread["tid"].is_u64()) {
        let samples = &thread["samples"];
        assert_eq!(samples["timeDeltas"].as_array().unwrap().len(), number(&samples["length"]));
        for (at, stack) in samples["stack"].as_array().unwrap().iter().enumerate() {
            let frame = number(&shared["stackTable"]["frame"][number(stack)]);
            let function = number(&shared["frameTable"]["func"][frame]);
            let name = &shared["stringArray"][number(&shared["funcTable"]["name"][function])];
            *weights.entry(name.as_str().unwrap().to_owned()).or_default() +=
                samples["weight"][at].as_u64().unwrap_or(1);
        }
    }
    weights
}

/// The Firefox Profiler's own loader, from `PATH` or from where CI installs it with the Node.js that it needs.
fn profiler_cli() -> Option<Command> {
    let name = "profiler-cli";
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = programs::repository().join("target/profiler-cli/node_modules/.bin");
    let folders: Vec<_> = [own].into_iter().chain(std::env::split_paths(&path)).collect();
    let found = folders.iter().map(|folder| folder.join(name)).find(|file| file.is_file())?;
    let mut command = Command::new(found);
    command.env("PATH", std::env::join_paths(folders).unwrap());
    Some(command)
}

/// What the Firefox Profiler's own loader says of the functions of these tracks.
fn of_firefox_profiler(path: &Path) -> Option<Weights> {
    if profiler_cli().is_none() {
        programs::skip(
            "there is no profiler-cli (npm install -g @firefox-devtools/profiler-cli, with Node 24)",
        );
        return None;
    }
    let home = folder();
    let ask = |arguments: &[&str]| {
        let mut command = profiler_cli().unwrap();
        run(command.args(arguments).args(["--session", "prof"]).env("HOME", home.path()))
    };
    // It gives its own daemon half a second to start, which is too little on a busy machine.
    let load = || ask(&["load", path.to_str().unwrap()]);
    let is_late = |loaded: &Run| loaded.stderr.contains("did not become ready within");
    let loaded = std::iter::repeat_with(load).take(30).find(|loaded| !is_late(loaded));
    let Some(loaded) = loaded else {
        programs::skip("profiler-cli does not wait for its daemon on a machine as busy as this");
        return None;
    };
    loaded.ok();
    let threads = serde_json::from_str::<Value>(ask(&["thread", "list", "--json"]).ok().text()).unwrap();
    let mut weights = Weights::new();
    for thread in threads["threads"].as_array().unwrap().iter().filter(|thread| thread["tid"].is_u64()) {
        let handle = thread["threadHandle"].as_str().unwrap();
        let all = ask(&["thread", "functions", "--thread", handle, "--include-idle", "--json"]).ok();
        let all = serde_json::from_str::<Value>(all.text()).unwrap();
        for function in all["functions"].as_array().unwrap() {
            let name = function["name"].as_str().unwrap().to_owned();
            *weights.entry(name).or_default() += function["selfSamples"].as_f64().unwrap() as u64;
        }
    }
    run(profiler_cli().unwrap().args(["stop", "prof"]).env("HOME", home.path())).ok();
    weights.retain(|_, weight| *weight > 0);
    Some(weights)
}

fn is_installed(tool: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(tool).is_file()))
}

/// What `go tool pprof` says of all functions.
fn of_pprof(path: &Path) -> Option<Weights> {
    if !programs::has("go") {
        return None;
    }
    let run_ = run(programs::pprof()
        .args(["-top", "-nodecount", "1000000", "-nodefraction", "0", "-edgefraction", "0"])
        .arg(path))
    .ok();
    let mut weights = Weights::new();
    for line in run_.text().lines().skip_while(|line| !line.trim_start().starts_with("flat")).skip(1) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let name = fields[5..].join(" ");
        let name = name.strip_suffix(" (inline)").or(name.strip_suffix(" (partial-inline)")).unwrap_or(&name);
        *weights.entry(name.to_owned()).or_default() += fields[0].parse::<u64>().unwrap();
    }
    let raw = run(programs::pprof().arg("-raw").arg(path)).ok();
    assert!(raw.text().contains("samples/count[dflt] cpu/nanoseconds"), "{}", raw.text());
    Some(weights)
}

/// What Perfetto's own classes read, with numbers followed as its importer follows them.
fn of_perfetto(path: &Path) -> Option<Weights> {
    const READ: &str = "
import sys
from perfetto.protos.perfetto.trace import perfetto_trace_pb2
trace = perfetto_trace_pb2.Trace.FromString(open(sys.argv[1], 'rb').read())
names, frames, stacks, mappings = {}, {}, {}, {}
first, clock = min(packet.trusted_packet_sequence_id for packet in trace.packet if packet.HasField('stack_sample')), 0
for packet in trace.packet:
    if packet.trusted_packet_sequence_id != first:
        continue
    new = packet.interned_data
    names.update((name.iid, name.str.decode()) for name in new.function_names)
    mappings.update((mapping.iid, mapping) for mapping in new.mappings)
    frames.update((frame.iid, frame) for frame in new.frames)
    stacks.update((stack.iid, stack.frame_ids) for stack in new.callstacks)
    if packet.HasField('stack_sample'):
        sample = packet.stack_sample
        assert packet.timestamp >= clock and sample.task_context.tid > 0
        clock = packet.timestamp
        for frame in stacks[sample.callstack_iid]:
            assert frames[frame].mapping_id == 0 or mappings[frames[frame].mapping_id].path_string_ids
        print(1, names[frames[stacks[sample.callstack_iid][-1]].function_name_id])
";
    of_python("perfetto.protos.perfetto.trace.perfetto_trace_pb2", "perfetto", READ, path)
}

/// What OpenTelemetry's own classes read.
fn of_otlp(path: &Path) -> Option<Weights> {
    const READ: &str = "
import sys
from opentelemetry.proto.profiles.v1development import profiles_pb2
data = profiles_pb2.ProfilesData.FromString(open(sys.argv[1], 'rb').read())
all = data.dictionary
profiles = [profile for resource in data.resource_profiles for profile in resource.scope_profiles[0].profiles]
assert len({profile.profile_id for profile in profiles}) == len(profiles) and all.string_table[0] == ''
for sample in (sample for profile in profiles for sample in profile.samples):
    location = all.location_table[all.stack_table[sample.stack_index].location_indices[0]]
    function = all.function_table[location.lines[0].function_index]
    print(sample.values[0], all.string_table[function.name_strindex])
";
    of_python("opentelemetry.proto.profiles.v1development.profiles_pb2", "opentelemetry-proto", READ, path)
}

/// The weights that a script prints, if Python has the module that it needs.
fn of_python(module: &str, package: &str, script: &str, path: &Path) -> Option<Weights> {
    let has_module = is_installed("python3")
        && run(Command::new("python3").arg("-c").arg(format!("import {module}"))).code == 0;
    if !has_module {
        programs::skip(&format!("python3 has no {package} (pip install {package})"));
        return None;
    }
    let run = run(Command::new("python3").args(["-c", script]).arg(path)).ok();
    let mut weights = Weights::new();
    for line in run.text().lines() {
        let (weight, name) = line.split_once(' ').unwrap();
        *weights.entry(name.to_owned()).or_default() += weight.parse::<u64>().unwrap();
    }
    Some(weights)
}

#[test]
fn all_formats_say_the_same() {
    if !perf::is_here() {
        return;
    }
    let Some(program) = programs::c("paths") else { return };
    let folder = folder();
    let file = perf::record(folder.path(), &[], &mut |command| {
        command.arg(&program).args(["2", "200"]);
    });
    // Of a clock, a sample stands for the time between samples.
    const PERIOD: u64 = 1_000_000_000 / 4_999;
    let expected: Weights = of_folded(&export(&file, "folded", &[]));
    assert!(expected.values().sum::<u64>() > 100, "{expected:?}");
    // A folded line has no semicolon but those between frames.
    let folded = |weights: Weights| -> Weights {
        weights.into_iter().map(|(name, weight)| (name.replace(';', ":"), weight)).collect()
    };
    // pprof leaves out what has no weight of its own.
    let heavy =
        |weights: Weights| -> Weights { weights.into_iter().filter(|(_, weight)| *weight > 0).collect() };
    assert_eq!(folded(of_speedscope(&export(&file, "speedscope", &[]), PERIOD)), expected);
    assert_eq!(folded(of_json(&export(&file, "json", &[]))), expected);
    let firefox = export(&file, "firefox", &[]);
    assert_eq!(folded(of_firefox(&firefox)), expected);
    if let Some(weights) = of_firefox_profiler(&firefox) {
        assert_eq!(folded(weights), expected);
    }
    if let Some(weights) = of_perfetto(&export(&file, "perfetto", &[])) {
        assert_eq!(folded(weights), expected);
    }
    let pprof = export(&file, "pprof", &[]);
    if let Some(weights) = of_pprof(&pprof) {
        assert_eq!(folded(heavy(weights)), expected);
    }
    let otlp = export(&file, "otlp", &[]);
    if let Some(weights) = of_otlp(&otlp) {
        assert_eq!(folded(weights), expected);
    }
    let again = std::fs::read(&otlp).unwrap();
    assert_eq!(std::fs::read(export(&file, "otlp", &[])).unwrap(), again, "the same bytes each time");
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn addresses_keep_their_modules_build_ids_and_lines() {
    if !perf::is_here() {
        return;
    }
    let Some(program) = programs::c("paths") else { return };
    let folder = folder();
    let file = perf::record(folder.path(), &["-e", "page-faults"], &mut |command| {
        command.arg(&program).args(["1", "100"]);
    });
    let whole = json(&export(&file, "json", &[]));
    assert_eq!(whole["events"].as_array().unwrap().len(), 2);
    let mappings = whole["mappings"].as_array().unwrap();
    let own = mappings.iter().position(|mapping| mapping["name"] == program.to_str().unwrap()).unwrap();
    assert!(mappings[own]["build_id"].as_str().is_none_or(|id| id.len() >= 16), "{}", mappings[own]);
    let locations = whole["locations"].as_array().unwrap();
    // Where a page fault came first is up to the kernel: the start code of the C library has no lines.
    let of_own = locations.iter().filter(|location| location["mapping"] == own);
    let has_line = |location: &&Value| {
        let line = &location["lines"][0];
        let function = line["function"].as_u64().map(|index| &whole["functions"][index as usize]);
        let is_of_file = |file: &str| file.ends_with("paths.c") && line["line"].as_u64().is_some();
        function.and_then(|function| function["file"].as_str()).is_some_and(is_of_file)
    };
    assert!(of_own.clone().any(|location| has_line(&location)), "{:?}", of_own.collect::<Vec<_>>());
    let module = format!("mod:{}", program.file_name().unwrap().to_str().unwrap());
    let filtered = json(&export(&file, "json", &["--event", "cpu-clock", "--keep", &module, "--no-lines"]));
    let [event] = filtered["events"].as_array().unwrap().as_slice() else { panic!("{filtered}") };
    assert!(event["samples"].as_u64() <= whole["events"][0]["samples"].as_u64());
}

/// What OpenTelemetry's own classes say of the type and the period of a profile; `None` without them.
fn types_of_otlp(path: &Path) -> Option<String> {
    const READ: &str = "
import sys
try:
    from opentelemetry.proto.profiles.v1development import profiles_pb2
except ImportError:
    sys.exit(7)
data = profiles_pb2.ProfilesData.FromString(open(sys.argv[1], 'rb').read())
text = data.dictionary.string_table
profile = data.resource_profiles[0].scope_profiles[0].profiles[0]
kind = lambda of: text[of.type_strindex] + '/' + text[of.unit_strindex]
print(kind(profile.sample_type), kind(profile.period_type), profile.HasField('period_type'), profile.period)
own = [function for function in data.dictionary.function_table if text[function.filename_strindex].endswith('paths.c')]
print(len(own) > 0 and all(function.start_line for function in own))
";
    let read = run(Command::new("python3").args(["-c", READ]).arg(path));
    if read.code == 7 {
        programs::skip("there is no opentelemetry-proto for python3");
        return None;
    }
    Some(read.ok().text().to_owned())
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn profiles_state_what_a_sample_stands_for() {
    if !may_record() {
        return;
    }
    let Some(program) = programs::c("paths") else { return };
    let folder = folder();
    let file = folder.path().join("prof.data");
    let mut command = prof(["record", "-q", "-e", "cpu-clock", "-F", "500", "--off-cpu", "-o"]);
    run(command.arg(&file).arg("--").arg(&program).args(["2", "200"])).ok();
    // Readers get the time of samples by multiplying with the period: 2 ms at 500 Hz.
    for (flags, samples, period, of_pprof) in [
        (
            &["--event", "cpu-clock"][..],
            "samples/count",
            "cpu/nanoseconds True 2000000",
            "cpu nanoseconds\nPeriod: 2000000\n",
        ),
        (&["--weight", "offcpu"][..], "off_cpu/nanoseconds", "/ True 0", "off_cpu nanoseconds\nPeriod: 0\n"),
        (
            &["--weight", "wall"][..],
            "wall/nanoseconds",
            "wall/nanoseconds True 1",
            "wall nanoseconds\nPeriod: 1\n",
        ),
    ] {
        if let Some(types) = types_of_otlp(&export(&file, "otlp", flags)) {
            let (first, starts) = types.trim().split_once('\n').unwrap();
            assert_eq!(first, format!("{samples} {period}"), "{flags:?}");
            assert!(flags[0] != "--event" || starts == "True", "the program's functions have start lines");
        }
        if programs::has("go") {
            let pprof = export(&file, "pprof", flags);
            let raw = run(programs::pprof().arg("-raw").arg(pprof)).ok();
            let stated = format!("PeriodType: {of_pprof}");
            assert!(raw.text().contains(&stated), "{flags:?} {stated}: {:.200}", raw.text());
        }
    }
}

/// Functions of a program with the time that they began and ended, in nanoseconds of CLOCK_MONOTONIC, by the program's own account.
fn turns(printed: &str) -> Vec<(String, u64, u64)> {
    let turn = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        (words[0].to_owned(), words[1].parse().unwrap(), words[2].parse().unwrap())
    };
    printed.lines().map(turn).collect()
}

/// The times at which a function was on a stack, in nanoseconds since the first sample, by tid.
type Sightings = Vec<(u64, String, u64)>;

fn seen_in_speedscope(path: &Path) -> Sightings {
    let whole = json(path);
    let mut seen = Vec::new();
    for profile in whole["profiles"].as_array().unwrap() {
        let tid = profile["name"].as_str().unwrap().rsplit('/').next().unwrap().parse().unwrap();
        let mut end = 0;
        let samples = profile["samples"].as_array().unwrap().iter();
        for (stack, weight) in samples.zip(profile["weights"].as_array().unwrap()) {
            end += weight.as_u64().unwrap();
            let names = stack
                .as_array()
                .unwrap()
                .iter()
                .map(|frame| &whole["shared"]["frames"][frame.as_u64().unwrap() as usize]["name"]);
            seen.extend(names.map(|name| (tid, name.as_str().unwrap().to_owned(), end)));
        }
    }
    seen
}

fn seen_in_firefox(path: &Path) -> Sightings {
    let whole = json(path);
    let shared = &whole["shared"];
    let number = |value: &Value| value.as_u64().map(|number| number as usize);
    let mut seen = Vec::new();
    for thread in whole["threads"].as_array().unwrap().iter() {
        let mut time = 0.0;
        let deltas = thread["samples"]["timeDeltas"].as_array().unwrap().iter();
        for (delta, stack) in deltas.zip(thread["samples"]["stack"].as_array().unwrap()) {
            time += delta.as_f64().unwrap();
            let mut stack = number(stack);
            while let Some(at) = stack {
                let function = number(
                    &shared["frameTable"]["func"][number(&shared["stackTable"]["frame"][at]).unwrap()],
                );
                let name =
                    &shared["stringArray"][number(&shared["funcTable"]["name"][function.unwrap()]).unwrap()];
                seen.push((
                    thread["tid"].as_u64().unwrap(),
                    name.as_str().unwrap().to_owned(),
                    (time * 1e6) as u64,
                ));
                stack = number(&shared["stackTable"]["prefix"][at]);
            }
        }
    }
    seen
}

/// Functions that take turns show at their times, to 5 ms, and each thread is one track.
#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn functions_that_take_turns_show_in_that_order() {
    const TOLERANCE: u64 = 5_000_000;
    let Some(program) = programs::c("turns").filter(|_| may_record()) else { return };
    let folder = folder();
    let file = folder.path().join("prof.data");
    let mut record = prof(["record", "-q", "-e", "cpu-clock", "-o"]);
    let recorded = run(record.arg(&file).arg("--").arg(&program)).ok();
    let turns = turns(recorded.text());
    let script = run(prof(["script", "-q", "--ns", "-F", "time", "-i"]).arg(&file)).ok();
    let times =
        script.text().split_whitespace().filter_map(|time| time.trim_end_matches(':').parse::<f64>().ok());
    let origin = times.map(|seconds| (seconds * 1e9) as u64).min().unwrap();
    let speedscope = export(&file, "speedscope", &[]);
    validate_speedscope(&speedscope);
    for seen in [seen_in_speedscope(&speedscope), seen_in_firefox(&export(&file, "firefox", &[]))] {
        let mut tids: Vec<u64> = seen.iter().map(|(tid, ..)| *tid).collect();
        tids.sort_unstable();
        tids.dedup();
        assert_eq!(tids.len(), 2, "{tids:?}");
        for name in ["first", "second"] {
            let of_name = seen.iter().filter(|(_, function, _)| function == name);
            let is_at_its_time = |(_, _, time): &&(u64, String, u64)| {
                let at = origin + time;
                let during = |(function, begin, end): &(String, u64, u64)| {
                    function == name && (begin - TOLERANCE..end + TOLERANCE).contains(&at)
                };
                turns.iter().any(during)
            };
            let (right, wrong): (Vec<_>, Vec<_>) = of_name.partition(is_at_its_time);
            assert!(
                right.len() > 20 && wrong.is_empty(),
                "{name}: {} at their times, not {wrong:?}",
                right.len()
            );
        }
    }
}

/// Where waits were recorded, speedscope's profiles open and close frames: what blocks is there when it blocks.
#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn waits_are_in_the_profiles_of_speedscope() {
    let Some(program) = programs::c("turns").filter(|_| may_record()) else { return };
    let folder = folder();
    let file = folder.path().join("prof.data");
    // Beside many switches of other tests, waits are recorded in parts, and the recorder says so.
    let record = || {
        let mut record = prof(["record", "-e", "cpu-clock", "--off-cpu", "-o"]);
        run(record.arg(&file).arg("--").arg(&program)).ok()
    };
    let is_whole = |run: &Run| run.stderr.contains(", 0 lost") && !run.stderr.contains("switches a second");
    let Some(recorded) = std::iter::repeat_with(record).take(10).find(is_whole) else {
        return programs::skip("the machine switches between threads too often to record each wait");
    };
    // A loaded machine lets a thread sleep for longer.
    let begin = |function: &str| {
        let begins =
            recorded.text().lines().filter_map(|line| line.strip_prefix(function)?.split(' ').nth(1));
        begins.map(|begin| begin.parse::<u64>().unwrap()).min().unwrap()
    };
    let until_second = begin("second") - begin("first");
    let path = export(&file, "speedscope", &["--event", "cpu-clock"]);
    validate_speedscope(&path);
    let whole = json(&path);
    let frame = |name: &str| {
        whole["shared"]["frames"].as_array().unwrap().iter().position(|frame| frame["name"] == name)
    };
    let blocked = frame("[blocked]").unwrap();
    let mut longest = 0;
    // The kernel has no number for a thread that is about to be gone, so its switches are unknown.
    let is_gone = |profile: &&Value| profile["name"].as_str().unwrap().starts_with("[exiting] ");
    for profile in whole["profiles"].as_array().unwrap().iter().filter(|profile| !is_gone(profile)) {
        assert_eq!((&profile["type"], &profile["unit"]), (&"evented".into(), &"nanoseconds".into()));
        let (mut open, mut before) = (Vec::new(), 0);
        for event in profile["events"].as_array().unwrap() {
            let (frame, at) = (event["frame"].as_u64().unwrap() as usize, event["at"].as_u64().unwrap());
            assert!(at >= before);
            before = at;
            if event["type"] == "O" {
                open.push((frame, at));
            } else {
                let (opened, since) = open.pop().unwrap();
                assert_eq!(opened, frame);
                longest = longest.max(if frame == blocked { at - since } else { 0 });
            }
        }
        assert!(open.is_empty());
    }
    let greatest = until_second.max(300_000_000) + 100_000_000;
    assert!(
        (290_000_000..greatest).contains(&longest),
        "the sleep of 300 ms: {longest}, {}",
        recorded.text()
    );
}
