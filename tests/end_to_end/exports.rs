//! What `prof export` writes is read by the formats' own tools, and says the same in every form.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::folded::{Folded, plain};
use super::prof::{folder, may_record, prof, run};
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

fn of_speedscope(path: &Path) -> Weights {
    let whole = json(path);
    let profile = &whole["profiles"][0];
    let mut weights = Weights::new();
    let samples = profile["samples"].as_array().unwrap().iter();
    for (stack, weight) in samples.zip(profile["weights"].as_array().unwrap()) {
        let innermost = stack.as_array().unwrap().last().unwrap().as_u64().unwrap() as usize;
        let name = whole["shared"]["frames"][innermost]["name"].as_str().unwrap();
        *weights.entry(name.to_owned()).or_default() += weight.as_u64().unwrap();
    }
    assert_eq!(profile["endValue"], weights.values().sum::<u64>());
    weights
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

/// What the Firefox Profiler's own loader says of the functions of these tracks.
fn of_firefox_profiler(path: &Path) -> Option<Weights> {
    let home = folder();
    let ask = |arguments: &[&str]| {
        let mut command = Command::new("profiler-cli");
        run(command.args(arguments).args(["--session", "prof"]).env("HOME", home.path()))
    };
    if !is_installed("profiler-cli") {
        programs::skip(
            "there is no profiler-cli (npm install -g @firefox-devtools/profiler-cli, with Node 24)",
        );
        return None;
    }
    ask(&["load", path.to_str().unwrap()]).ok();
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
    run(Command::new("profiler-cli").args(["stop", "prof"]).env("HOME", home.path())).ok();
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
    let run_ = run(Command::new("go")
        .args(["tool", "pprof", "-top", "-nodecount", "1000000", "-nodefraction", "0", "-edgefraction", "0"])
        .arg(path))
    .ok();
    let mut weights = Weights::new();
    for line in run_.text().lines().skip_while(|line| !line.trim_start().starts_with("flat")).skip(1) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let name = fields[5..].join(" ");
        let name = name.strip_suffix(" (inline)").or(name.strip_suffix(" (partial-inline)")).unwrap_or(&name);
        *weights.entry(name.to_owned()).or_default() += fields[0].parse::<u64>().unwrap();
    }
    let raw = run(Command::new("go").args(["tool", "pprof", "-raw"]).arg(path)).ok();
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

/// What DuckDB sums up.
fn of_parquet(path: &Path) -> Option<Weights> {
    const READ: &str = "
import sys, duckdb
stacks = duckdb.read_parquet(sys.argv[1])
for weight, function in duckdb.sql('select sum(samples), function from stacks group by function').fetchall():
    print(weight, function)
[(rows, whole, ordered)] = duckdb.sql('''
    select count(*), count(*) filter (stack[-1] = function and samples > 0 and pid > 0),
        count(*) filter (since_start_ns % 100000000 = 0) from stacks
''').fetchall()
assert rows == whole == ordered, (rows, whole, ordered)
";
    of_python("duckdb", "duckdb", READ, path)
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
    let expected: Weights = of_folded(&export(&file, "folded", &[]));
    assert!(expected.values().sum::<u64>() > 100, "{expected:?}");
    // A folded line has no semicolon but those between frames.
    let folded = |weights: Weights| -> Weights {
        weights.into_iter().map(|(name, weight)| (name.replace(';', ":"), weight)).collect()
    };
    // pprof leaves out what has no weight of its own.
    let heavy =
        |weights: Weights| -> Weights { weights.into_iter().filter(|(_, weight)| *weight > 0).collect() };
    assert_eq!(folded(of_speedscope(&export(&file, "speedscope", &[]))), expected);
    assert_eq!(folded(of_json(&export(&file, "json", &[]))), expected);
    let firefox = export(&file, "firefox", &[]);
    assert_eq!(folded(of_firefox(&firefox)), expected);
    if let Some(weights) = of_firefox_profiler(&firefox) {
        assert_eq!(folded(weights), expected);
    }
    if let Some(weights) = of_perfetto(&export(&file, "perfetto", &[])) {
        assert_eq!(folded(weights), expected);
    }
    if let Some(weights) = of_parquet(&export(&file, "parquet", &[])) {
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
print(any(function.start_line for function in data.dictionary.function_table))
";
    let read = run(Command::new("python3").args(["-c", READ]).arg(path));
    if read.code == 7 {
        programs::skip("there is no opentelemetry-proto for python3");
        return None;
    }
    Some(read.ok().text().to_owned())
}

#[test]
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
            assert!(flags[0] != "--event" || starts == "True", "functions have start lines");
        }
        if programs::has("go") {
            let pprof = export(&file, "pprof", flags);
            let raw = run(Command::new("go").args(["tool", "pprof", "-raw"]).arg(pprof)).ok();
            let stated = format!("PeriodType: {of_pprof}");
            assert!(raw.text().contains(&stated), "{flags:?} {stated}: {:.200}", raw.text());
        }
    }
}
