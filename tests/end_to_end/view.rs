//! The page of `prof view` in real browsers, with its policy in force: its numbers, and how it is used.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::browser::{answer, browsers, open};
use super::prof::{folded, folder, may_record, prof, record, run};
use super::programs;

/// Opens a page of `prof view` and returns what `script`, the body of a function, returns there. The policy of the page stays,
/// but for this script and where its answer goes.
fn visit(browser: &str, html: &str, fragment: &str, script: &str) -> Value {
    let folder = folder();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://127.0.0.1:{}/", listener.local_addr().unwrap().port());
    let probe = format!(
        "const wait = () => new Promise(done => {{ const look = () => {{ const page = globalThis.profView;\n\
         if (page?.totals && !page.client.waiting.size && !page.client.queued.size) setTimeout(done, 60);\n\
         else setTimeout(look, 10); }}; setTimeout(look, 60); }});\n\
         const blocked = [];\n\
         addEventListener('securitypolicyviolation', event => blocked.push(event.violatedDirective + ' ' + event.blockedURI));\n\
         const probe = async () => {{ await wait(); const page = globalThis.profView; const store = page.store; {script} }};\n\
         probe().catch(error => `${{error}} ${{error.stack}}`).then(said => fetch('{address}', {{ method: 'POST', mode: 'no-cors',\n\
         body: JSON.stringify({{ said, blocked, failure: document.getElementById('failure')?.textContent ?? null }}) }}));"
    );
    let hash = STANDARD.encode(Sha256::digest(&probe));
    let allowed =
        html.replacen("script-src ", &format!("connect-src {address}; script-src 'sha256-{hash}' "), 1);
    let with_probe = allowed.replacen("<body>", &format!("<body><script>{probe}</script>"), 1);
    assert!(with_probe.len() > html.len() + probe.len());
    let file = folder.path().join("page.html");
    std::fs::write(&file, with_probe).unwrap();
    let _browser = open(browser, &format!("file://{}#{fragment}", file.display()), folder.path());
    let answer = answer(&listener);
    assert_eq!(answer["blocked"], json!([]), "{browser}: the page does what its policy forbids");
    assert_eq!(answer["failure"], Value::Null, "{browser}");
    answer["said"].clone()
}

/// The page of a recording.
fn page(file: &Path) -> String {
    let run = run(prof(["view", "-q"]).arg(file)).ok();
    String::from_utf8(run.stdout).unwrap()
}

/// Self and total of each function and module, of folded stacks with modules.
fn functions(folded: &str) -> BTreeMap<String, (u64, u64)> {
    let mut functions: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for line in folded.lines() {
        let (stack, count) = line.rsplit_once(' ').unwrap();
        let count: u64 = count.parse().unwrap();
        let names: Vec<String> = stack.split(';').skip(1).map(function_of).collect();
        if let Some(last) = names.last() {
            functions.entry(last.clone()).or_default().0 += count;
        }
        for name in names.iter().collect::<BTreeSet<_>>() {
            functions.entry(name.clone()).or_default().1 += count;
        }
    }
    functions
}

/// ``module`function_[k]`` as the page calls it.
fn function_of(label: &str) -> String {
    let bare = ["_[k]", "_[i]", "_[j]"].iter().find_map(|suffix| label.strip_suffix(suffix)).unwrap_or(label);
    bare.split_once('`').map_or_else(|| bare.to_owned(), |(module, function)| format!("{function} {module}"))
}

#[test]
fn the_numbers_of_a_selection_are_those_of_folded_stacks() {
    if !may_record() {
        return;
    }
    let Some(program) = programs::c("workers") else { return };
    let folder = folder();
    let words = [program.as_os_str(), "6".as_ref(), "60".as_ref()];
    let (file, _) = record(folder.path(), &[], &words);
    let html = page(&file);
    // Random selections, the same each time: of time, then of threads, too, then of a CPU.
    const SELECT: &str = "
        let seed = 5;
        const random = below => { seed = (seed * 1103515245 + 12345) % 2147483648; return Math.floor(seed / 2147483648 * below); };
        const answers = [], { meta, words } = page;
        for (let number = 0; number < 18; number++) {
          const ends = [random(meta.length), random(meta.length)].sort((one, other) => one - other);
          const time = [ends[0], ends[1] + 1];
          const threads = number % 3 === 1 ? [...new Set([random(meta.threads.length), random(meta.threads.length)])].sort((one, other) => one - other) : null;
          const cpus = number % 3 === 2 && meta.cpus ? [random(meta.cpus)] : null;
          store.set({ time, threads, cpus });
          await wait();
          const { table } = page.side, functions = {};
          for (const id of table.functions) {
            const module = words.moduleOf(id), name = words.functionName(id);
            const key = module && name !== `[${module}]` ? `${name} ${module}` : name;
            functions[key] = [table.self[id], table.total[id]];
          }
          const flags = words.timeFlag(time).split(' ');
          if (threads) flags.push('--tid', threads.map(thread => meta.threads[thread].tid).join());
          if (cpus) flags.push('--cpu', cpus.join());
          answers.push({ flags, functions, samples: page.totals.samples });
        }
        return answers;";
    for browser in browsers() {
        let answers = visit(browser, &html, "", SELECT);
        let answers = answers.as_array().unwrap_or_else(|| panic!("{browser}: {answers}"));
        let mut rows = 0;
        for answer in answers {
            let flags: Vec<&str> =
                answer["flags"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
            let samples = answer["samples"].as_u64().unwrap();
            let text = folded(&file, &[&["--modules"], &flags[..]].concat());
            let expected = if samples == 0 { BTreeMap::new() } else { functions(text.ok().text()) };
            let found: BTreeMap<String, (u64, u64)> = answer["functions"]
                .as_object()
                .unwrap()
                .iter()
                .map(|(name, figures)| {
                    (name.clone(), (figures[0].as_u64().unwrap(), figures[1].as_u64().unwrap()))
                })
                .collect();
            assert_eq!(found, expected, "{browser} {flags:?}");
            rows += found.len();
        }
        assert!(rows > 20, "{browser}: too little was compared: {rows}");
    }
}

#[test]
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
        key('4'); await wait();
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
        let bad = "view=constructor&time=9.x&event=99&steps=%5B1,null,%7B%22o%22:%22keep%22,%22f%22:1e9%7D%5D&named=-7&zoom=99999999&threads=1.2.777777";
        assert_eq!(visit(browser, &html, bad, state), json!(["flame", null, "", [], -1]), "{browser}");
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
