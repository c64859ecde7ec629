//! `prof report` says what `perf report` says of the same file, and what the folded stacks add up to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::agreement::comparable;
use super::folded::{Folded, plain};
use super::prof::{Run, folded, folder, prof, run};
use super::{perf, programs};

fn report(file: &Path, flags: &[&str]) -> Run {
    run(prof(["report"]).arg(file).args(flags))
}

fn json(file: &Path, flags: &[&str]) -> Value {
    let run = report(file, &[flags, &["--json"]].concat()).ok();
    serde_json::from_str(run.text()).unwrap()
}

/// Rows of a JSON report by these fields: self weight and total.
fn rows(report: &Value, keys: &[&str]) -> BTreeMap<Vec<String>, (u64, u64)> {
    let weight = |row: &Value, name: &str| row[name].as_u64().unwrap();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let row = |row: &Value| {
        let key = keys.iter().map(|key| text(&row[key])).collect();
        (key, (weight(row, "self"), weight(row, "total")))
    };
    report["rows"].as_array().unwrap().iter().map(row).collect()
}

/// Adds up folded stacks: for each key of a frame, the weight of the stacks that end in it, and that have it.
fn summed(stacks: &Folded, key: impl Fn(&str) -> String) -> BTreeMap<Vec<String>, (u64, u64)> {
    let mut sums: BTreeMap<Vec<String>, (u64, u64)> = BTreeMap::new();
    for (stack, count) in &stacks.stacks {
        let no_stack = ["[no stack]".to_owned()];
        let frames = if stack.len() > 1 { &stack[1..] } else { &no_stack };
        let keys: Vec<String> = frames.iter().map(|frame| key(plain(frame))).collect();
        for key in keys.iter().collect::<BTreeSet<_>>() {
            sums.entry(vec![key.clone()]).or_default().1 += count;
        }
        sums.entry(vec![keys.last().unwrap().clone()]).or_default().0 += count;
    }
    sums
}

fn record(command: &mut dyn FnMut(&mut Command)) -> (TempDir, PathBuf) {
    let folder = folder();
    let file = perf::record(folder.path(), &[], command);
    (folder, file)
}

/// perf's recording of a small program, with its folder.
fn recording() -> Option<(TempDir, PathBuf)> {
    let program = perf::is_here().then(|| programs::c("paths")).flatten()?;
    Some(record(&mut |command| {
        command.arg(&program).args(["2", "200"]);
    }))
}

/// perf's recordings of several programs.
fn recordings() -> Vec<(TempDir, PathBuf)> {
    let mut recordings: Vec<_> = recording().into_iter().collect();
    if !perf::is_here() {
        return recordings;
    }
    for (name, arguments) in [("deep", ["100", "200"]), ("execs", ["7", "40"])] {
        if let Some(program) = programs::c(name) {
            recordings.push(record(&mut |command| {
                command.arg(&program).args(arguments);
            }));
        }
    }
    if programs::has("python3") {
        let loops = "import json\nfor i in range(60): json.loads(json.dumps(list(range(9999))))";
        recordings.push(record(&mut |command| {
            command.args(["python3", "-c", loops]);
        }));
    }
    recordings.push(record(&mut |command| {
        command.args([
            "sh",
            "-c",
            "i=0; while [ $i -lt 100 ]; do echo $i | cat | tr 1 2 >/dev/null; i=$((i+1)); done",
        ]);
    }));
    recordings
}

#[test]
fn functions_are_what_the_folded_stacks_add_up_to() {
    for (_folder, file) in recordings() {
        for flags in
            [&[][..], &["--no-inline", "--no-kernel"], &["--collapse", "recursion", "--hide", "mod:libc"]]
        {
            let stacks = Folded::parse(folded(&file, flags).ok().text());
            let all = json(&file, &[flags, &["--sort", "function"]].concat());
            // A folded line has no semicolon but those between frames.
            let by_function: BTreeMap<_, _> = rows(&all, &["function"])
                .into_iter()
                .map(|(key, row)| (vec![key[0].replace(';', ":")], row))
                .collect();
            assert_eq!(by_function, summed(&stacks, str::to_owned), "{flags:?}");
            assert_eq!(all["total"], stacks.total());
            let of_comms = rows(&json(&file, &[flags, &["--sort", "comm"]].concat()), &["comm"]);
            for (comm, (own, total)) in of_comms {
                let expected = stacks.count(|stack| stack[0] == comm[0]);
                assert_eq!((own, total), (expected, expected), "{comm:?}");
            }
        }
    }
}

/// What `perf report` says of each (comm, module, function), in per cent: with what it calls, self, and of how
/// many rows. It cuts names where it
/// is not told how wide columns may be.
fn perf_report(folder: &Path, file: &Path) -> BTreeMap<Vec<String>, (f64, f64, u32)> {
    let run = run(perf::perf(folder)
        .args(["report", "-f", "--stdio", "--no-inline", "--children", "-g", "none", "-t", "\t"])
        .args([
            "--max-stack",
            "65535",
            "--percent-limit",
            "0",
            "-w",
            "0,0,16,99,999",
            "-s",
            "comm,dso,sym",
            "-i",
        ])
        .arg(file))
    .ok();
    let mut rows: BTreeMap<Vec<String>, (f64, f64, u32)> = BTreeMap::new();
    for line in run.text().lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let fields: Vec<&str> = line.split('\t').map(str::trim).collect();
        let [children, own, comm, module, symbol] = fields[..] else { panic!("{line:?}") };
        let percent = |text: &str| text.trim_end_matches('%').parse::<f64>().unwrap();
        let symbol = symbol.split_once("] ").map_or(symbol, |(_, symbol)| symbol);
        let module = module.trim_matches(['[', ']']).to_owned();
        let row = rows.entry(vec![comm.to_owned(), module, comparable(symbol)]).or_default();
        *row = (row.0 + percent(children), row.1 + percent(own), row.2 + 1);
    }
    rows
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn rows_are_those_of_perf_report() {
    for (folder, file) in recordings() {
        let theirs = perf_report(folder.path(), &file);
        let report = json(&file, &["--no-inline", "--sort", "comm,module,function"]);
        let whole = report["total"].as_u64().unwrap() as f64;
        let mut ours: BTreeMap<Vec<String>, (f64, f64)> = BTreeMap::new();
        for (key, (own, total)) in rows(&report, &["comm", "module", "function"]) {
            let key = vec![key[0].clone(), key[1].clone(), comparable(&key[2])];
            let row = ours.entry(key).or_default();
            *row = (row.0 + total as f64 / whole * 100.0, row.1 + own as f64 / whole * 100.0);
        }
        let is_address = |name: &str| name.len() == 16 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_named =
            // Entries of the procedure linkage table have names of perf's own.
            |key: &[String]| key[2] != "plt" && !key[2].starts_with("0x") && !key[2].starts_with('[') && !is_address(&key[2]);
        let mut compared = 0;
        for (key, &(children, own, merged)) in theirs.iter().filter(|(key, row)| is_named(key) && row.0 > 0.5)
        {
            let (total, self_percent) = ours.get(key).copied().unwrap_or_default();
            // Each of perf's figures is rounded.
            let most = 0.05 + 0.005 * f64::from(merged);
            let differs = (children - total).abs() > most || (own - self_percent).abs() > most;
            assert!(!differs, "{key:?}: perf {children} {own}, we {total} {self_percent}");
            compared += 1;
        }
        assert!(compared > 3, "{theirs:?}");
    }
}

#[test]
fn trees_hold_together_and_formats_say_the_same() {
    let Some((_folder, file)) = recording() else { return };
    let tree = json(&file, &["--tree", "--min", "0"]);
    let calls = tree["calls"].as_array().unwrap();
    let mut below = vec![0; calls.len()];
    for (number, call) in calls.iter().enumerate().rev() {
        let of = |name: &str| call[name].as_u64().unwrap();
        assert_eq!(of("total"), of("self") + below[number], "{call}");
        if let Some(parent) = call["parent"].as_u64() {
            assert!((parent as usize) < number);
            below[parent as usize] += of("total");
        }
    }
    let tops: u64 = calls
        .iter()
        .filter(|call| call["parent"].is_null())
        .map(|call| call["total"].as_u64().unwrap())
        .sum();
    assert_eq!(tops, tree["total"].as_u64().unwrap());

    let functions = rows(&json(&file, &[]), &["module", "function"]);
    let csv = report(&file, &["--csv"]).ok();
    assert_eq!(csv.text().lines().count(), functions.len() + 1);
    let (heaviest, (_, total)) = functions.iter().max_by_key(|(_, row)| row.1).unwrap();
    let callers = json(&file, &["--callers", &heaviest[1], "--min", "100"]);
    assert_eq!(callers["calls"][0]["total"].as_u64(), Some(*total));
    let callees = json(&file, &["--callees", &heaviest[1], "--min", "100"]);
    assert_eq!(callees["calls"][0]["total"].as_u64(), Some(*total));
    let markdown = report(&file, &["--markdown", "--min", "0"]).ok();
    assert_eq!(markdown.text().lines().filter(|line| line.starts_with("| ")).count(), functions.len() + 2);
    let text = report(&file, &["--min", "0", "--limit", "2"]).ok();
    assert!(text.text().starts_with("# ") && text.text().contains("0 lost"), "{}", text.text());
    assert!(text.text().contains("more rows: ") || functions.len() <= 2, "{}", text.text());
    let total = report(&file, &["--total-only"]).ok();
    assert!(total.text().ends_with(" samples of cpu-clock\n"), "{}", total.text());
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn events_lie_side_by_side() {
    if !perf::is_here() {
        return;
    }
    let folder = folder();
    let file = perf::record(folder.path(), &["-e", "page-faults"], &mut |command| {
        command.args(["sh", "-c", "i=0; while [ $i -lt 50 ]; do cat /dev/null; i=$((i+1)); done"]);
    });
    let both = json(&file, &[]);
    let events = both["events"].as_array().unwrap();
    assert_eq!(events.len(), 2);
    let keys = |event: &Value| rows(event, &["module", "function"]).into_keys().collect::<Vec<_>>();
    assert_eq!(keys(&events[0]), keys(&events[1]), "the rows are the same");
    for event in events {
        let own: u64 = rows(event, &["module", "function"]).values().map(|row| row.0).sum();
        assert_eq!(Some(own), event["total"].as_u64());
        let alone = json(&file, &["--event", event["event"].as_str().unwrap(), "--weight", "period"]);
        assert!(event["unit"] == "samples" || alone["total"] == event["total"], "{event}");
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn what_is_not_there_is_said_with_what_is() {
    let Some((_folder, file)) = recording() else { return };
    let function = json(&file, &["--limit", "1"])["rows"][0]["function"].as_str().unwrap().to_owned();
    let wrong = report(&file, &["--callers", &format!("{function}x")]);
    assert_eq!(wrong.code, 1);
    assert!(wrong.stderr.contains(&format!("nearest: `{function}`")), "{}", wrong.stderr);
    for (flags, code, says) in [
        (&["--event", "nosuch"][..], 1, "no sample is of the event `nosuch`"),
        (&["--keep", "nosuch"], 1, "--keep"),
        (&["--root-at", "nosuch"], 1, "`nosuch`"),
        (&["--sort", "nosuch"], 2, "`nosuch` is not a key of rows; try comm"),
        (&["--hide", "/(/"], 2, "no regular expression"),
        (&["--json", "--csv"], 2, "cannot be used with"),
    ] {
        let wrong = report(&file, flags);
        assert_eq!(wrong.code, code, "{}", wrong.stderr);
        assert!(wrong.stderr.contains(says) && wrong.stdout.is_empty(), "{flags:?}: {}", wrong.stderr);
    }
}
