//! What `prof export` writes is read by the formats' own tools, and says the same in every form.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::folded::{Folded, plain};
use super::prof::{folder, prof, run};
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

/// What OpenTelemetry's own classes read.
fn of_otlp(path: &Path) -> Option<Weights> {
    const READ: &str = "
import sys
from opentelemetry.proto.profiles.v1development import profiles_pb2
data = profiles_pb2.ProfilesData.FromString(open(sys.argv[1], 'rb').read())
all = data.dictionary
[profile] = data.resource_profiles[0].scope_profiles[0].profiles
assert len(profile.profile_id) == 16 and all.string_table[0] == ''
for sample in profile.samples:
    location = all.location_table[all.stack_table[sample.stack_index].location_indices[0]]
    function = all.function_table[location.lines[0].function_index]
    print(sample.values[0], all.string_table[function.name_strindex])
";
    let has_classes = programs::has("python3")
        && run(Command::new("python3")
            .args(["-c", "import opentelemetry.proto.profiles.v1development.profiles_pb2"]))
        .code
            == 0;
    if !has_classes {
        programs::skip("python3 has no opentelemetry-proto");
        return None;
    }
    let run = run(Command::new("python3").args(["-c", READ]).arg(path)).ok();
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
    let of_own = locations.iter().find(|location| location["mapping"] == own).unwrap();
    let line = &of_own["lines"][0];
    let function = &whole["functions"][line["function"].as_u64().unwrap() as usize];
    assert!(line["line"].as_u64().is_some(), "{of_own}");
    assert!(function["file"].as_str().unwrap().ends_with("paths.c"), "{function}");
    let module = format!("mod:{}", program.file_name().unwrap().to_str().unwrap());
    let filtered = json(&export(&file, "json", &["--event", "cpu-clock", "--keep", &module, "--no-lines"]));
    let [event] = filtered["events"].as_array().unwrap().as_slice() else { panic!("{filtered}") };
    assert!(event["samples"].as_u64() <= whole["events"][0]["samples"].as_u64());
}
