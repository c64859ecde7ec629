//! The page of `prof view` in real browsers, with its policy in force: its numbers, and how it is used.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::prof::{folder, may_record, prof, record, run};
use super::programs::{self, repository, skip};
use super::visits::{Browser, browsers};

/// Opens a page of `prof view` and returns what `script`, the body of a function, returns there. It can `wait` until the page
/// asks its worker for nothing: an answer is drawn in the next frame, which may ask again. The policy of the page stays, but for
/// this script and where its answer goes.
fn visit(browser: &str, html: &str, fragment: &str, script: &str) -> Value {
    let folder = folder();
    let mut lent = Browser::lend(browser);
    let answer =
        lent.answer("{ said, blocked, failure: document.getElementById('failure')?.textContent ?? null }");
    // What the page before has stored is not for this one.
    let probe = format!(
        "localStorage.clear();\n\
         const wait = async () => {{ for (let quiet = 0; quiet < 4;) {{\n\
         await new Promise(requestAnimationFrame); const page = globalThis.profView;\n\
         quiet = page?.totals && !page.client.waiting.size && !page.client.queued.size ? quiet + 1 : 0; }} }};\n\
         const blocked = [];\n\
         addEventListener('securitypolicyviolation', event => blocked.push(event.violatedDirective + ' ' + event.blockedURI));\n\
         const probe = async () => {{ await wait(); const page = globalThis.profView; const store = page.store; {script} }};\n\
         probe().catch(error => `${{error}} ${{error.stack}}`).then(said => {answer});"
    );
    let hash = STANDARD.encode(Sha256::digest(&probe));
    let address = lent.address();
    let allowed =
        html.replacen("script-src ", &format!("connect-src {address}; script-src 'sha256-{hash}' "), 1);
    let with_probe = allowed.replacen("<body>", &format!("<body><script>{probe}</script>"), 1);
    assert!(with_probe.len() > html.len() + probe.len());
    let file = folder.path().join("page.html");
    std::fs::write(&file, with_probe).unwrap();
    let answer = lent.visit(&format!("file://{}#{fragment}", file.display()));
    assert_eq!(answer["blocked"], json!([]), "{browser}: the page does what its policy forbids");
    assert_eq!(answer["failure"], Value::Null, "{browser}");
    answer["said"].clone()
}

/// The page of a recording, with all frames, as lists of functions have them.
fn page(file: &Path) -> String {
    let run = run(prof(["view", "-q", "--all-frames"]).arg(file)).ok();
    String::from_utf8(run.stdout).unwrap()
}

/// Self, total and share of samples by module and function, as `prof report` has them.
#[derive(PartialEq, Debug, Default)]
struct Figures {
    samples: u64,
    total: u64,
    cut: u64,
    functions: BTreeMap<String, (u64, u64)>,
}

impl Figures {
    /// Of `prof report --json` with these flags.
    fn reported(file: &Path, flags: &[&str]) -> Self {
        let table = ["--json", "--children", "--min", "0", "--sort", "module,function", "-q", "--all-frames"];
        let run = run(prof(["report"]).arg(file).args(table).args(flags));
        if run.code == 1 && run.stderr.contains("no sample") {
            return Self::default();
        }
        let report: Value = serde_json::from_str(run.ok().text()).unwrap();
        let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{flags:?}: {value}"));
        let row = |row: &Value| {
            let word = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
            let key = format!("{} {}", word("function"), word("module"));
            (key, (number(&row["self"]), number(&row["total"])))
        };
        Self {
            samples: number(&report["samples"]),
            total: number(&report["total"]),
            cut: number(&report["cut_stacks"]),
            functions: report["rows"].as_array().unwrap().iter().map(row).collect(),
        }
    }

    /// Of an answer of the page.
    fn shown(answer: &Value) -> Self {
        let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{value}"));
        let function = |(name, pair): (&String, &Value)| (name.clone(), (number(&pair[0]), number(&pair[1])));
        Self {
            samples: number(&answer["samples"]),
            total: number(&answer["weight"]),
            cut: number(&answer["cut"]),
            functions: answer["functions"].as_object().unwrap().iter().map(function).collect(),
        }
    }
}

/// Selects at random, the same each time: time, threads or a CPU, an event, and what is done to functions.
const SELECT: &str = r"
    let seed = SEED;
    const random = below => { seed = (seed * 1103515245 + 12345) % 2147483648; return Math.floor(seed / 2147483648 * below); };
    const { meta, words } = page, answers = [], functions = meta.functions.name.length;
    const exactly = text => `/^${text.replace(/[\^$.*+?()[\]{}|]/g, '\$&')}$/`;
    const isFunction = id => meta.frames.function.some((named, frame) => named === id && meta.frames.kind[frame] < 3);
    for (let number = 0; number < COUNT; number++) {
      const state = { event: random(meta.events.length), time: null, threads: null, cpus: null, steps: [] }, flags = [];
      flags.push('--event', meta.events[state.event].name);
      if (random(4)) {
        const ends = [random(meta.length), random(meta.length)].sort((one, other) => one - other);
        state.time = [ends[0], ends[1] + 1];
        flags.push(...words.timeFlag(state.time).split(' '));
      }
      const lanes = random(3);
      if (lanes === 1) {
        state.threads = [...new Set([random(meta.threads.length), random(meta.threads.length), random(meta.threads.length)])].sort((one, other) => one - other);
        flags.push('--tid', state.threads.map(thread => meta.threads[thread].tid).join());
      } else if (lanes === 2 && !random(3)) {
        state.cpus = [random(meta.cpus)];
        flags.push('--cpu', state.cpus.join());
      }
      const what = ['keep', 'merge', 'root', 'module', 'recursion', ''][random(6)];
      let named = random(functions);
      for (let tries = 0; tries < 9 && !isFunction(named); tries++) named = random(functions);
      const name = exactly(words.functionName(named)), module = random(meta.modules.length);
      if (what === 'recursion') { state.steps = [{ o: what }]; flags.push('--collapse', what); }
      else if (what === 'module') { state.steps = [{ o: what, m: module }]; flags.push('--collapse', exactly(meta.modules[module])); }
      else if (what && isFunction(named)) {
        state.steps = [{ o: what, p: name }];
        flags.push({ keep: '--keep', merge: '--hide', root: '--root-at' }[what], name);
      }
      store.set(state);
      await wait();
      const { table } = page.side, shown = {};
      for (const id of table.functions) shown[`${words.functionName(id)} ${words.moduleOf(id)}`] = [table.self[id], table.total[id]];
      answers.push({ flags, functions: shown, samples: page.totals.samples, weight: page.totals.weight, cut: page.totals.cut });
    }
    return answers;";

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn the_numbers_of_random_selections_are_those_of_reports() {
    if !may_record() {
        return;
    }
    let (Some(workers), Some(inlines), Some(deep)) =
        (programs::c("workers"), programs::cxx("inlines"), programs::c("deep"))
    else {
        return;
    };
    let folder = folder();
    let script = "\"$0\" 4 60 & \"$1\" 80 & \"$2\" 40 60 & ls -R /usr/share/doc > /dev/null; wait";
    let words = [
        "sh".as_ref(),
        "-c".as_ref(),
        script.as_ref(),
        workers.as_os_str(),
        inlines.as_os_str(),
        deep.as_os_str(),
    ];
    let (file, _) = record(folder.path(), &["-e", "page-faults"], &words);
    let html = page(&file);
    let mut reported: BTreeMap<Vec<String>, Figures> = BTreeMap::new();
    for (browser, seed) in browsers().into_iter().zip(0..) {
        let select = SELECT.replace("SEED", &seed.to_string()).replace("COUNT", "25");
        let answers = visit(browser, &html, "", &select);
        let answers = answers.as_array().unwrap_or_else(|| panic!("{browser}: {answers}"));
        let mut rows = 0;
        for answer in answers {
            let flags: Vec<String> = answer["flags"]
                .as_array()
                .unwrap()
                .iter()
                .map(|flag| flag.as_str().unwrap().to_owned())
                .collect();
            let expected = reported.entry(flags.clone()).or_insert_with(|| {
                let mut report =
                    Figures::reported(&file, &flags.iter().map(String::as_str).collect::<Vec<_>>());
                // Samples whose frames are all merged away are the thread's in the page, which is no function.
                report.functions.remove("[no stack] ");
                report
            });
            let mut found = Figures::shown(answer);
            if flags.iter().any(|flag| flag == "--keep" || flag == "--root-at") {
                // Reports count the samples before stacks are left out.
                (found.samples, found.cut) = (expected.samples, expected.cut);
            }
            let differing =
                found.functions.iter().filter(|(name, pair)| expected.functions.get(*name) != Some(pair));
            let missing = expected.functions.keys().filter(|name| !found.functions.contains_key(*name));
            let differences: Vec<String> = differing
                .map(|(name, pair)| format!("{name}: {pair:?}, not {:?}", expected.functions.get(name)))
                .chain(missing.map(|name| format!("{name} is missing")))
                .take(20)
                .collect();
            assert!(
                found == *expected,
                "{browser} {flags:?}: {differences:#?}; {:?}, not {:?}",
                (found.samples, found.total, found.cut),
                (expected.samples, expected.total, expected.cut)
            );
            rows += found.functions.len();
        }
        assert!(rows > 100, "{browser}: too little was compared: {rows}");
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_page_of_time_has_the_time_of_each_thread_that_reports_have() {
    if !may_record() {
        return;
    }
    let Some(program) = programs::c("waits") else { return };
    let folder = folder();
    let words = [program.as_os_str(), "locker".as_ref()];
    let (file, _) = record(folder.path(), &["--off-cpu"], &words);
    const THREADS: &str = "
        const { meta, words } = page, answers = [];
        for (let thread = 0; thread < meta.threads.length; thread++) {
          store.set({ threads: [thread] });
          await wait();
          const { table } = page.side, functions = {};
          for (const id of table.functions) {
            const name = words.functionName(id);
            functions[name] = (functions[name] ?? 0) + table.self[id];
          }
          answers.push({ tid: meta.threads[thread].tid, weight: page.totals.weight, functions });
        }
        const legend = document.querySelector('.legend').textContent;
        return { answers, legend, figures: document.querySelector('.figures').textContent };";
    for weight in ["wall", "cpu", "offcpu", "latency"] {
        let html = run(prof(["view", "-q", "--all-frames", "--weight", weight]).arg(&file)).ok();
        let html = String::from_utf8(html.stdout).unwrap();
        let Some(browser) = browsers().into_iter().next() else { return };
        let said = visit(browser, &html, "", THREADS);
        let answers = said["answers"].as_array().unwrap_or_else(|| panic!("{said}"));
        assert!(answers.len() >= 2, "{said}");
        for answer in answers {
            let tid = answer["tid"].to_string();
            let expected = Figures::reported(&file, &["--weight", weight, "--tid", &tid]);
            // Each piece is rounded.
            let is_close = |one: u64, other: u64| one.abs_diff(other) <= 5_000;
            assert!(
                is_close(answer["weight"].as_u64().unwrap(), expected.total),
                "{weight} {answer} {expected:?}"
            );
            let functions = answer["functions"].as_object().unwrap();
            // The kernel and the C library both have a function `futex_wait`.
            let mut by_name: BTreeMap<&str, u64> = BTreeMap::new();
            for (name, (own, _)) in &expected.functions {
                *by_name.entry(name.rsplit_once(' ').map_or("", |(name, _)| name)).or_default() += own;
            }
            for (name, own) in by_name.iter().filter(|(_, own)| **own > 0) {
                let shown = functions.get(*name).and_then(Value::as_u64);
                assert!(
                    shown.is_some_and(|shown| is_close(shown, *own)),
                    "{weight} {tid} {name}: {shown:?}, not {own}; {functions:?}"
                );
            }
        }
        let legend = said["legend"].as_str().unwrap();
        // In lanes or in strips above them.
        assert!(legend.contains("blocked"), "{weight}: {legend}");
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn one_page_has_the_cpu_off_cpu_and_wall_time_that_reports_have() {
    if !may_record() {
        return;
    }
    let Some(program) = programs::c("waits") else { return };
    let folder = folder();
    let words = [program.as_os_str(), "locker".as_ref(), "sleeper".as_ref()];
    let (file, _) = record(folder.path(), &["--off-cpu"], &words);
    const SWITCH: &str = "
        const answers = {};
        for (const made of page.weights) {
          made.click();
          await wait();
          answers[made.textContent] = [page.totals.weight, page.totals.samples, document.querySelector('.crumbs').textContent.length > 0];
        }
        const key = name => document.body.dispatchEvent(new KeyboardEvent('keydown', { key: name, bubbles: true, cancelable: true }));
        key('w'); await wait();
        return { answers, again: store.state.event, words: document.body.textContent.includes('ready, no CPU') };";
    let html = page(&file);
    for browser in browsers() {
        let said = visit(browser, &html, "", SWITCH);
        assert_eq!((&said["again"], &said["words"]), (&json!(0), &json!(false)), "{browser}: {said}");
        let shown =
            |label: &str, at: usize| said["answers"][label][at].as_u64().unwrap_or_else(|| panic!("{said}"));
        for (label, weight) in [("Off-CPU", "offcpu"), ("Wall", "wall")] {
            let expected = Figures::reported(&file, &["--weight", weight]).total;
            // Each piece is rounded.
            assert!(
                shown(label, 0).abs_diff(expected) <= expected / 1000,
                "{browser} {label}: {said}, not {expected}"
            );
        }
        let sampled = Figures::reported(&file, &[]).samples;
        assert_eq!(shown("CPU", 1), sampled, "{browser}: {said}");
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_moment_is_pinned_and_samples_are_gone_through_one_by_one_on_the_axis_of_the_lanes() {
    if !may_record() {
        return;
    }
    let Some(program) = programs::c("workers") else { return };
    let folder = folder();
    let words = [program.as_os_str(), "2".as_ref(), "25".as_ref()];
    let (file, _) = record(folder.path(), &[], &words);
    const MOMENTS: &str = "
        const { lanes, moment, meta, client } = page;
        const busiest = page.orderThreads.threads[0], lane = () => lanes.rowOf(busiest, -1);
        if (lanes.lanes[lane()].open === false) lanes.toggle(lane());
        await wait();
        moment.pinAt(lane(), 0); await wait();
        const times = [moment.shown.time], samples = [moment.shown.sample], frames = moment.shown.frames.length > 0;
        for (let steps = 0; steps < 5000; steps++) {
          const before = moment.shown.sample;
          moment.step(lane(), 1, -1); await new Promise(next => setTimeout(next, 0));
          while (client.waiting.size || client.queued.size) await new Promise(next => setTimeout(next, 1));
          if (moment.shown.sample === before) break;
          times.push(moment.shown.time); samples.push(moment.shown.sample);
        }
        const own = meta.segments.filter(([, thread]) => thread === busiest).reduce((sum, [, , count]) => sum + count, 0);
        const panel = !document.querySelector('.moment').hidden;
        store.set({ view: 'order' }); await wait(); await wait();
        const picture = page.main, left = picture.canvas.getBoundingClientRect().left + picture.area.left;
        const off = [left - lanes.canvas.getBoundingClientRect().left - lanes.labels, picture.area.width - lanes.plot];
        const all = picture.boxes.all, drawn = meta.segments.reduce((sum, [, , count]) => sum + count, 0);
        lanes.zoom(0.5, meta.length / 2); await wait();
        const zoomed = picture.boxes.total / meta.length;
        return { steps: new Set(samples).size === own, sorted: times.every((time, at) => !at || time >= times[at - 1]), frames, panel, off, all: all === drawn, zoomed };";
    const STEPS: &str = "
        const choose = async change => { store.set(change); page.save(); await wait(); };
        await choose({ view: 'tree' });
        await choose({ threads: [0] });
        await choose({ named: 1 });
        await choose({ steps: [{ o: 'recursion' }] });
        const states = [];
        for (const go of ['back', 'back', 'forward', 'back', 'back']) {
          const changed = new Promise(done => addEventListener('hashchange', () => setTimeout(done, 50), { once: true }));
          history[go](); await changed; await wait();
          states.push([store.state.view, store.state.threads, store.state.steps.length]);
        }
        store.set({ view: 'flame', threads: null, steps: [] }); await wait();
        const widest = [...page.main.boxes.frame.keys()].find(box => page.main.boxes.depth[box] === 2);
        page.choose(page.main, widest); await wait();
        page.point(page.main, page.main.boxes.count - 1, 5, 5);
        const tip = document.querySelector('.tip').textContent;
        store.set({ search: 'bu.n|x' }); await wait();
        const offered = page.asPattern.textContent;
        page.asPattern.click(); await wait();
        store.set({ hidden: [0] }); await wait();
        const hidden = page.lanes.lanes.some(lane => lane.members.includes(0));
        store.set({ hidden: null, find: '1'.repeat(30) }); await wait();
        return { states, zoom: tip.includes('of the zoom into'), offered, search: store.state.search, matched: page.totals.matched > 0, hidden, found: page.lanes.lanes.length };";
    let html = page(&file);
    for browser in browsers() {
        let said = visit(browser, &html, "", MOMENTS);
        let off: Vec<f64> = serde_json::from_value(said["off"].clone()).unwrap_or_else(|_| panic!("{said}"));
        assert!(off.iter().all(|pixels| pixels.abs() < 1.0), "{browser}: {said}");
        for what in ["steps", "sorted", "frames", "panel", "all"] {
            assert_eq!(said[what], true, "{browser} {what}: {said}");
        }
        assert!((said["zoomed"].as_f64().unwrap() - 0.5).abs() < 0.1, "{browser}: {said}");
        let expected = json!({
            "states": [["tree", [0], 0], ["tree", null, 0], ["tree", [0], 0], ["tree", null, 0], ["flame", null, 0]],
            "zoom": true, "offered": "as /bu.n|x/", "search": "/bu.n|x/", "matched": true, "hidden": false, "found": 0,
        });
        assert_eq!(visit(browser, &html, "", STEPS), expected, "{browser}");
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_page_of_two_recordings_has_the_figures_of_diff_and_of_each_side() {
    if !may_record() {
        return;
    }
    let Some(program) = programs::c("paths") else { return };
    let folder = folder();
    let recorded = |name: &str, rounds: &str| {
        let file = folder.path().join(name);
        let words = ["record", "-q", "-e", "cpu-clock", "-F", "1999", "-o"];
        run(prof(words).arg(&file).arg("--").arg(&program).args(["2", rounds])).ok();
        file
    };
    let files = [recorded("a.data", "100"), recorded("b.data", "300")];
    let html = run(prof(["view", "-q", "--all-frames", "--diff"]).args(&files)).ok();
    let diff = run(prof(["diff", "--json", "--all-frames"]).args(&files)).ok();
    let diff: Value = serde_json::from_str(diff.text()).unwrap();
    const COMPARED: &str = "
        const { words, side, meta } = page, rows = {};
        for (const id of side.table.functions) {
          const { self, total, change } = side.figures(id);
          rows[`${words.functionName(id)} ${words.moduleOf(id)}`] = [...self, change, ...total];
        }
        const lanes = page.lanes.lanes.map(lane => lane.label).filter(label => label.includes(' · '));
        const counts = [0, 1].map(side => meta.segments.filter(([event]) => event === side).reduce((sum, [, , count]) => sum + count, 0));
        store.set({ timeBefore: [0, Math.floor(meta.length / 20)] }); await wait();
        const chip = document.querySelector('.chip-crumb').textContent, flags = document.querySelector('.chip-crumb').title.split(' ');
        const before = page.totals.other.weight, after = page.totals.weight;
        const views = [];
        for (const view of ['flame', 'order', 'tree', 'inverted', 'sandwich', 'functions']) {
          store.set({ view, named: side.table.functions[0], event: views.length % 2 }); await wait();
          views.push(page.main.boxes.other.length > 0);
        }
        store.set({ view: 'flame', event: 1 }); await wait();
        page.point(page.main, 0, 5, 5);
        return { rows, lanes, counts, chip, flags, before, after, views, tip: document.querySelector('.tip').textContent };";
    for browser in browsers() {
        let said = visit(browser, html.text(), "", COMPARED);
        let rows = said["rows"].as_object().unwrap_or_else(|| panic!("{browser}: {said}"));
        let expected = diff["rows"].as_array().unwrap();
        assert!(
            rows.len() == expected.len() && rows.len() > 20,
            "{browser}: {} of {}",
            rows.len(),
            expected.len()
        );
        for row in expected {
            let name = format!(
                "{} {}",
                row["function"].as_str().unwrap(),
                row["module"].as_str().unwrap_or_default()
            );
            for (at, field) in
                ["before", "after", "difference", "total_before", "total_after"].iter().enumerate()
            {
                let (found, wanted) = (rows[&name][at].as_f64().unwrap(), row[*field].as_f64().unwrap());
                assert!((found - wanted).abs() < 1.0, "{browser} {name} {field}: {found}, not {wanted}");
            }
        }
        let lanes = said["lanes"].to_string();
        assert!(lanes.contains("before · ") && lanes.contains("after · "), "{browser}: {lanes}");
        assert!(said["chip"].as_str().unwrap().starts_with("before: "), "{browser}: {said}");
        let flags: Vec<String> = serde_json::from_value(said["flags"].clone()).unwrap();
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        // By period, as the page weighs.
        let part = Figures::reported(&files[0], &[&flags[..], &["--weight", "period"]].concat());
        assert_eq!(said["before"], part.total, "{browser}: {said}");
        let all = Figures::reported(&files[1], &["--weight", "period"]);
        assert_eq!(said["after"], all.total, "{browser}: a selection before leaves what is after alone");
        let tip = said["tip"].as_str().unwrap();
        assert!(tip.contains("before: ") && tip.contains("after: ") && tip.contains("difference: "), "{tip}");
    }
    let wrong = run(prof(["view", "--diff"]).args(&files[..1]).args(["--", "true"]));
    assert!(wrong.code == 1 && wrong.stderr.contains("try: prof view --diff"), "{wrong:?}");
}

/// What starts the program is one frame, as in `prof report --tree`, until the reader asks for all.
#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn starts_are_one_frame_of_the_page_until_it_is_clicked() {
    let Some(program) = programs::c("deep").filter(|_| may_record()) else { return };
    let folder = folder();
    let (file, _) = record(folder.path(), &[], &[program.as_os_str(), "40".as_ref(), "60".as_ref()]);
    let html = run(prof(["view", "-q"]).arg(&file)).ok();
    const UNFOLDED: &str = "
        const { words } = page, shown = () => [...page.table.table.functions].map(id => words.functionName(id));
        const box = page.main.boxes.frame.findIndex(frame => frame >= 0 && words.functionName(words.functionAt(frame)) === '[start]');
        const before = shown();
        page.choose(page.main, box); await wait();
        return { box, before, after: shown(), chip: document.querySelector('.chip-crumb').textContent };";
    let tree = run(prof(["report", "-q", "--tree"]).arg(&file)).ok();
    assert!(tree.text().contains(" [start]") && !tree.text().contains(" _start ("), "{}", tree.text());
    for browser in browsers() {
        let said = visit(browser, html.text(), "", UNFOLDED);
        let has = |when: &str, name: &str| said[when].as_array().unwrap().iter().any(|shown| shown == name);
        assert!(
            has("before", "[start]") && !has("before", "_start") && has("before", "main"),
            "{browser}: {said}"
        );
        assert!(
            has("after", "_start") && !has("after", "[start]") && has("after", "main"),
            "{browser}: {said}"
        );
        assert!(said["chip"].as_str().unwrap().contains("all frames"), "{browser}: {said}");
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn two_times_of_a_page_are_compared_as_diff_compares_slices() {
    if !may_record() {
        return;
    }
    let Some(program) = programs::c("paths") else { return };
    let folder = folder();
    let file = folder.path().join("a.data");
    let words = ["record", "-q", "-e", "cpu-clock", "-F", "1999", "-o"];
    run(prof(words).arg(&file).arg("--").arg(&program).args(["2", "100"])).ok();
    let html = page(&file);
    const COMPARED: &str = "
        const { words, side, meta } = page, part = Math.floor(meta.length / 4), rows = {};
        const pressed = label => [...document.querySelectorAll('.crumbs button')].find(({ textContent }) => textContent.startsWith(label));
        store.set({ time: [0, part] }); await wait();
        pressed('Compare with').click(); await wait();
        const asked = document.querySelector('.figures').textContent;
        store.set({ time: [part, 3 * part] }); await wait();
        for (const id of side.table.functions) {
          const { self, total, change } = side.figures(id);
          rows[`${words.functionName(id)} ${words.moduleOf(id)}`] = [...self, ...total, change];
        }
        const all = [page.totals.other.weight, page.totals.weight];
        const heads = [...document.querySelectorAll('.side .head > div')].map(({ textContent }) => textContent).join();
        page.point(page.main, 1, 5, 5);
        const tip = document.querySelector('.tip').textContent, command = pressed('Copy as command').title;
        store.set({ view: 'tree' }); await wait();
        pressed('⇄').click(); await wait();
        const swapped = [page.totals.weight, store.state.time[0]];
        store.set({ timeBefore: null }); await wait();
        store.set({ time: [0, part] }); await wait();
        const listed = () => [...page.table.table.functions].map(id => [id, page.table.table.self[id]].join()).join(' '), before = listed();
        store.set({ time: [part, 3 * part] }); store.set({ time: [0, part] }); await wait();
        const returned = [before, listed()];
        return { returned, asked, rows, all, heads, tip, command, swapped, plain: page.words.comparison, sorted: side.sorted };";
    for browser in browsers() {
        let said = visit(browser, &html, "", COMPARED);
        let text = |key: &str| said[key].as_str().unwrap_or_else(|| panic!("{browser} {key}: {said}"));
        assert!(
            text("asked").contains("time after") && text("heads").contains("Self before,Self after,Points"),
            "{browser}: {said}"
        );
        assert!(
            text("tip").contains("before: ") && text("tip").contains("difference: "),
            "{browser}: {said}"
        );
        assert!(text("command").contains(" --weight samples "), "{browser}: {said}");
        let slices: Vec<&str> = text("command").split('\'').collect();
        let slices = ["--before", slices[1], "--after", slices[3]];
        let diff = run(prof(["diff", "--json", "--weight", "samples"]).args(slices).arg(&file)).ok();
        let diff: Value = serde_json::from_str(diff.text()).unwrap();
        let rows = diff["rows"].as_array().unwrap();
        let shown_rows = said["rows"].as_object().unwrap();
        assert!(rows.len() > 10 && shown_rows.len() >= rows.len(), "{browser}: {said}");
        for row in rows {
            let (function, module) =
                (row["function"].as_str().unwrap(), row["module"].as_str().unwrap_or_default());
            // Diff has a function and its numbered clones as one, the page tells them apart.
            let is_meant = |(name, _): &(&String, &Value)| {
                let shown = name.strip_suffix(module).map(str::trim_end);
                shown
                    .and_then(|shown| shown.strip_prefix(function))
                    .is_some_and(|end| end.is_empty() || end.starts_with('.'))
            };
            // Stacks that have several of them count once in totals.
            let fields = if shown_rows.iter().filter(is_meant).count() > 1 { 2 } else { 4 };
            for (at, field) in
                ["before", "after", "total_before", "total_after"].iter().enumerate().take(fields)
            {
                let shown =
                    shown_rows.iter().filter(is_meant).filter_map(|(_, figures)| figures[at].as_f64());
                assert_eq!(Some(shown.sum()), row[*field].as_f64(), "{browser} {function} {field}");
            }
        }
        assert_eq!(said["returned"][0], said["returned"][1], "{browser}");
        assert_eq!(said["swapped"], json!([said["all"][0], 0]), "{browser}: {said}");
        assert_eq!((&said["plain"], &said["sorted"]), (&Value::Null, &json!("self")), "{browser}: {said}");
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn keys_change_what_is_shown_and_all_of_it_can_be_undone() {
    if !may_record() {
        return;
    }
    let Some(program) = programs::c("workers") else { return };
    let folder = folder();
    let words = [program.as_os_str(), "4".as_ref(), "40".as_ref()];
    let (file, _) = record(folder.path(), &[], &words);
    const USE: &str = "
        const key = (name, more) => (document.activeElement ?? document.body).dispatchEvent(
          new KeyboardEvent('keydown', { key: name, bubbles: true, cancelable: true, ...more }));
        const state = () => ({ view: store.state.view, steps: store.state.steps.length, time: store.state.time !== null,
          search: store.state.search, figures: document.querySelector('.figures').textContent !== '' });
        const states = [state()];
        const burn = page.side.table.functions.find(id => page.words.functionName(id) === 'burn');
        store.set({ named: burn });
        key('k'); await wait();
        const kept = page.totals.samples, all = page.totals.allSamples;
        states.push(state());
        key('3'); await wait();
        states.push({ ...state(), rows: page.tree.rows.frame.length > 0, shown: document.querySelector('.list .line') !== null });
        key('h'); await wait();
        states.push({ ...state(), left: page.totals.samples });
        key('z', { ctrlKey: true }); key('z', { ctrlKey: true }); key('z', { ctrlKey: true }); await wait();
        states.push(state());
        key('y', { ctrlKey: true }); await wait();
        states.push({ ...state(), same: page.totals.samples === kept });
        document.querySelector('.lanes').focus();
        for (let step = 0; step < 3; step++) key('ArrowRight', { shiftKey: true });
        await wait();
        states.push({ ...state(), less: page.totals.samples <= kept });
        key('/'); const field = document.activeElement;
        field.value = 'BURN'; field.dispatchEvent(new Event('input')); await wait();
        const capitals = page.totals.matched;
        field.value = 'burn'; field.dispatchEvent(new Event('input')); await wait();
        states.push({ ...state(), capitals, matched: page.totals.matched === page.totals.weight });
        await new Promise(done => setTimeout(done, 400));
        return { states, kept: kept > 0 && kept < all + 1, fragment: location.hash.includes('search=burn') };";
    for browser in browsers() {
        let answer = visit(browser, &page(&file), "", USE);
        let plain = |view: &str, steps: u64, time: bool, search: &str| json!({ "view": view, "steps": steps, "time": time, "search": search, "figures": true });
        let with = |mut value: Value, more: Value| {
            value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            value
        };
        let expected = json!({
            "states": [
                plain("flame", 0, false, ""),
                plain("flame", 1, false, ""),
                with(plain("tree", 1, false, ""), json!({ "rows": true, "shown": true })),
                with(plain("tree", 2, false, ""), json!({ "left": 0 })),
                plain("flame", 0, false, ""),
                with(plain("flame", 1, false, ""), json!({ "same": true })),
                with(plain("flame", 1, true, ""), json!({ "less": true })),
                with(plain("flame", 1, true, "burn"), json!({ "capitals": 0, "matched": true })),
            ],
            "kept": true,
            "fragment": true,
        });
        assert_eq!(answer, expected, "{browser}");
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_link_shows_what_its_sender_saw_and_nonsense_in_it_is_left_out() {
    if !may_record() {
        return;
    }
    let Some(program) = programs::c("workers") else { return };
    let folder = folder();
    let words = [program.as_os_str(), "2".as_ref(), "40".as_ref()];
    let (file, _) = record(folder.path(), &[], &words);
    let html = page(&file);
    for browser in browsers() {
        let state = "return [store.state.view, store.state.time, store.state.search, store.state.steps, store.state.named]";
        let good =
            "view=inverted&time=10.5000&search=%3Cb%3E&steps=%5B%7B%22o%22%3A%22recursion%22%7D%5D&named=1";
        let expected = json!(["inverted", [10, 5000], "<b>", [{ "o": "recursion" }], 1]);
        assert_eq!(visit(browser, &html, good, state), expected, "{browser}");
        // The file to send, without what this test has put into the page.
        let saved = visit(browser, &html, good, "return page.share.page()");
        let without = |text: &str, from: &str, to: &str| {
            let (before, rest) = text.split_once(from).unwrap_or_else(|| panic!("{browser}: no {from}"));
            format!("{before}{}", rest.split_once(to).unwrap().1)
        };
        let saved = without(saved.as_str().unwrap(), "<script>localStorage", "</script>");
        let saved = without(&saved, "connect-src ", "; ");
        assert_eq!(visit(browser, &saved, "", state), expected, "{browser}");
        let bad = "view=constructor&time=9.x&event=99&steps=%5B1,null,%7B%22o%22:%22keep%22,%22f%22:1e9%7D%5D&named=-7&zoom=99999999&threads=1.2.777777";
        assert_eq!(visit(browser, &html, bad, state), json!(["flame", null, "", [], -1]), "{browser}");
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn the_source_of_a_function_has_the_samples_of_its_lines() {
    if !may_record() {
        return;
    }
    let Some(program) = programs::c_built("workers", "lines", &["-g"]) else { return };
    let folder = folder();
    let words = [program.as_os_str(), "2".as_ref(), "80".as_ref()];
    let (file, _) = record(folder.path(), &[], &words);
    let run_ = run(prof(["view", "-q", "--with-source"]).arg(&file)).ok();
    let lines = ["report", "--json", "-q", "--min", "0", "--sort", "function,line", "--keep", "/^burn$/"];
    let report: Value = serde_json::from_str(run(prof(lines).arg(&file)).ok().text()).unwrap();
    let of_burn = |row: &&Value| row["function"] == "cpu_time" && row["self"] != 0;
    let figure = |row: &Value| {
        let line = row["line"].as_str().unwrap().rsplit_once(':').unwrap().1.to_owned();
        (line, row["self"].as_u64().unwrap())
    };
    let expected: BTreeMap<String, u64> =
        report["rows"].as_array().unwrap().iter().filter(of_burn).map(figure).collect();
    let (hottest, _) = expected.iter().max_by_key(|(_, samples)| **samples).expect("cpu_time has samples");
    let source = std::fs::read_to_string(repository().join("fixtures/programs/workers.c")).unwrap();
    let hottest = source.lines().nth(hottest.parse::<usize>().unwrap() - 1).unwrap();
    const LINES: &str = "
        const named = page.side.table.functions.find(id => page.words.functionName(id) === 'cpu_time');
        store.set({ named, view: 'source' });
        await wait();
        const { lines } = await page.client.ask('lines', { selection: page.selection, named });
        const text = [...document.querySelectorAll('.source .hot code')].map(code => code.textContent);
        return { lines: Object.fromEntries(lines.map(({ line, samples }) => [page.meta.lines.line[line], samples])), text };";
    for browser in browsers() {
        let answer = visit(browser, run_.text(), "", LINES);
        let found: BTreeMap<String, u64> = serde_json::from_value(answer["lines"].clone()).unwrap();
        assert_eq!(found, expected, "{browser}");
        let text: Vec<String> = serde_json::from_value(answer["text"].clone()).unwrap();
        assert!(text.iter().any(|shown| shown == hottest), "{browser}: {hottest:?} is not in {text:?}");
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn the_instructions_of_a_function_have_the_samples_that_annotate_shows() {
    if !may_record() {
        return;
    }
    let Some(program) = programs::c("shares") else { return };
    let folder = folder();
    let words = [program.as_os_str(), "alone".as_ref(), "400".as_ref()];
    let (file, _) = record(folder.path(), &[], &words);
    let archive = folder.path().join("shares.archive");
    run(prof(["archive", "-q", "-o"]).arg(&archive).arg(&file)).ok();
    let listing: Value =
        serde_json::from_str(run(prof(["annotate", "--json", "sixty", "-i"]).arg(&file)).ok().text())
            .unwrap();
    let instructions = listing["functions"][0]["ranges"][0]["instructions"].as_array().unwrap();
    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    for one in instructions.iter().filter(|one| one["weight"] != 0) {
        *expected.entry(one["text"].as_str().unwrap().to_owned()).or_default() +=
            one["weight"].as_u64().unwrap();
    }
    assert!(!expected.is_empty(), "{listing}");
    const CODE: &str = "
        const named = page.side.table.functions.find(id => page.words.functionName(id) === 'sixty');
        store.set({ named, view: 'assembly' });
        await wait();
        const shown = () => [...document.querySelectorAll('.source .hot')].map(row =>
            [row.lastChild.textContent, Number(row.firstChild.title.replace(/[^0-9]/g, ''))]);
        const all = shown(), [from, to] = [0, page.meta.length / 2];
        store.set({ time: [from, to] });
        await wait();
        const half = shown().reduce((sum, [, samples]) => sum + samples, 0);
        return { all, half, self: page.side.table.self[named] };";
    // Without the files, an archive has the code, and other recordings have none; of the hottest functions it is there anyway.
    let from_files = run(prof(["view", "-q", "--with-source"]).arg(&file)).ok();
    let from_archive = run(prof(["view", "-q"]).arg(&archive)).ok();
    let without = run(prof(["view", "-q", "--no-source"]).arg(&file)).ok();
    let hottest = run(prof(["view", "-q"]).arg(&file)).ok();
    for browser in browsers() {
        let pages = [from_files.text(), from_archive.text(), hottest.text()];
        // Where a page has its code from is no matter of the browser.
        for html in &pages[..if browser == "chromium" { 3 } else { 1 }] {
            let answer = visit(browser, html, "", CODE);
            let rows: Vec<(String, u64)> = serde_json::from_value(answer["all"].clone()).unwrap();
            let mut found: BTreeMap<String, u64> = BTreeMap::new();
            rows.into_iter().for_each(|(text, samples)| *found.entry(text).or_default() += samples);
            assert_eq!(found, expected, "{browser}");
            assert_eq!(answer["half"], answer["self"], "{browser}: of the selected time");
        }
        const ADVICE: &str = "
            const shown = [], { functions, self } = page.side.table;
            for (const view of ['source', 'assembly']) {
              store.set({ view, named: functions.find(id => self[id] && page.words.moduleOf(id).startsWith('kernel')) });
              await wait();
              shown.push(document.querySelector('.source').textContent);
            }
            return shown;";
        const TABS: &str =
            "return [...document.querySelectorAll('[role=tab]')].map(tab => tab.dataset.view);";
        let tabs = visit(browser, without.text(), "", TABS);
        assert_eq!(tabs, json!(["flame", "order", "tree", "inverted", "sandwich", "functions"]), "{browser}");
        let advice = visit(browser, hottest.text(), "", ADVICE);
        let advice: Vec<String> = serde_json::from_value(advice).unwrap();
        assert!(
            advice.iter().all(|text| text.contains("prof view --with-source -o view.html ")),
            "{browser}: {advice:?}"
        );
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn lanes_have_the_time_off_the_cpu_of_each_thread() {
    if !may_record() {
        return;
    }
    let Some(program) = programs::c("waits") else { return };
    let folder = folder();
    // All threads but the one that faults: it makes switches so many that most are held back, and lanes show no waits that were not
    // recorded.
    let threads = ["sleeper", "locker", "reader", "parent", "loop", "rival"];
    let command: Vec<&OsStr> = [program.as_os_str()].into_iter().chain(threads.map(OsStr::new)).collect();
    let (file, _) = record(folder.path(), &["--off-cpu"], &command);
    let html = page(&file);
    const WAITS: &str = "
        const { meta } = page;
        const { lanes } = await page.client.ask('lanes', { events: [0], counters: 0, from: 0, to: meta.length, columns: 7, lanes: meta.threads.map((_, id) => [id]),
          byCpu: false, threads: null, steps: [], named: -1, search: '' });
        const column = meta.length * meta.unit / 7e3;
        const milliseconds = lanes.map(({ waits }, id) => [meta.threads[id].tid, waits.reduce((sum, part) => sum + part * column, 0)]);
        return [page.words.timeFlag([0, meta.length]).split(' '), milliseconds];";
    for browser in browsers() {
        let answer = visit(browser, &html, "", WAITS);
        let (time, shown): (Vec<String>, Vec<(u64, f64)>) = serde_json::from_value(answer).unwrap();
        let flags = ["report", "--json", "-q", "--weight", "offcpu", "--sort", "tid", "--min", "0"];
        let report: Value =
            serde_json::from_str(run(prof(flags).args(&time).arg(&file)).ok().text()).unwrap();
        let row = |row: &Value| Some((row["tid"].as_u64()?, row["self"].as_f64()? / 1e6));
        let reported: BTreeMap<u64, f64> =
            report["rows"].as_array().unwrap().iter().filter_map(row).collect();
        let whole: f64 = shown.iter().map(|(_, milliseconds)| milliseconds).sum();
        assert!(shown.len() > 3 && whole > 500.0, "{browser}: {shown:?}");
        for (tid, milliseconds) in shown {
            let expected = reported.get(&tid).copied().unwrap_or(0.0);
            // The page keeps whole microseconds of each wait.
            let off = (expected - milliseconds).abs();
            assert!(off < 1.0 + expected / 100.0, "{browser} {tid}: {milliseconds} ms, not {expected}");
        }
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn waits_say_who_ended_them_as_reports_do_and_what_those_did() {
    if !may_record() {
        return;
    }
    let Some(program) = programs::c("waits") else { return };
    let folder = folder();
    let (file, _) =
        record(folder.path(), &["--off-cpu"], &[program.as_os_str(), "locker".as_ref(), "parent".as_ref()]);
    let flags =
        ["report", "--json", "-q", "--weight", "offcpu", "--wakers", "--min", "0", "--sort", "function"];
    let reported = run(prof(flags).arg(&file));
    if reported.stderr.contains("does not say who woke") {
        return skip(&reported.stderr);
    }
    let report: Value = serde_json::from_str(reported.ok().text()).unwrap();
    const ENDINGS: &str = "
        const { meta } = page, sums = {};
        store.set({ view: 'waits' });
        await wait();
        const answer = await page.client.ask('endings', { selection: { ...page.selection, search: '' }, named: -1 });
        for (const { enders } of answer.places) for (const { waker, weight } of enders) {
          const known = meta.wakers[waker - 1], name = meta.threads[known?.thread ?? -1]?.name ?? known?.name ?? '';
          sums[name] = (sums[name] ?? 0) + weight;
        }
        const lock = [...document.querySelectorAll('.source tr')].find(row => /futex .* in (take_lock|locker)/.test(row.textContent))?.textContent;
        page.lanes.choose(page.lanes.lanes.findIndex(({ label }) => label === 'locker'), false);
        page.moment.pinAt(page.lanes.lanes.findIndex(({ label }) => label === 'locker'), meta.length / 3);
        await wait();
        const pinned = document.querySelector('.moment').textContent;
        [...document.querySelectorAll('.moment .code')][0]?.click();
        await wait();
        return { sums, lock, pinned, chosen: store.state.threads?.map(thread => meta.threads[thread].name) };";
    let html = page(&file);
    for browser in browsers() {
        let said = visit(browser, &html, "", ENDINGS);
        // A thread that changed its name has one in the page.
        let mut expected: BTreeMap<bool, f64> = BTreeMap::new();
        for row in report["rows"].as_array().unwrap() {
            if let Some(name) = row["function"].as_str().and_then(|name| name.strip_prefix("[woken by: ")) {
                *expected.entry(name == "interrupt]").or_default() += row["self"].as_f64().unwrap();
            }
        }
        let sums = said["sums"].as_object().unwrap_or_else(|| panic!("{browser}: {said}"));
        for (is_interrupt, expected) in expected {
            let of_kind =
                sums.iter().filter(|(name, _)| !name.is_empty() && (*name == "interrupt") == is_interrupt);
            let shown: f64 = of_kind.filter_map(|(_, weight)| weight.as_f64()).sum();
            // Waits below a microsecond are not in the page one by one.
            assert!(
                (shown - expected).abs() < 1e6 + expected / 100.0,
                "{browser}: {shown} ns, not {expected}: {said}"
            );
        }
        let lock = said["lock"].as_str().unwrap_or_default();
        assert!(lock.contains("futex") && lock.contains("waits "), "{browser}: {said}");
        let pinned = said["pinned"].as_str().unwrap_or_default();
        assert!(
            pinned.contains("until waits ") && pinned.contains("which meanwhile did: "),
            "{browser}: {said}"
        );
        assert_eq!(said["chosen"], json!(["waits"]), "{browser}: {said}");
    }
}

#[test]
fn a_page_is_written_as_asked_or_it_is_said_why_not() {
    if !may_record() {
        return;
    }
    let Some(program) = programs::c("workers") else { return };
    let folder = folder();
    let output = folder.path().join("out.html");
    let run_ = run(prof(["view", "-o"]).arg(&output).arg("--").arg(&program).args(["2", "30"]));
    assert_eq!(run_.code, 0, "{}", run_.stderr);
    let html = std::fs::read_to_string(&output).unwrap();
    assert!(html.starts_with("<!doctype html>") && html.contains("<td>burn</td>"), "{run_:?}");
    assert!(html.contains("default-src 'none'") && !html.contains(" style=\"") && !html.contains(" onload"));
    let (file, _) = record(folder.path(), &[], &[program.as_os_str(), "1".as_ref(), "20".as_ref()]);
    let nothing = run(prof(["view", "--comm", "nobody"]).arg(&file));
    assert!(nothing.code == 1 && nothing.stderr.contains("cannot show"), "{nothing:?}");
    let both = run(prof(["view", "-i"]).arg(&file).arg(&file));
    assert_eq!(both.code, 2, "{both:?}");
}
