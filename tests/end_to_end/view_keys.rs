//! The page of `prof view` with the keyboard alone, in windows of all sizes, and with names that mean harm.

use std::path::Path;
use std::sync::Arc;

use export::view::{Page, PageEvent, PageSamples, PageStacks};
use model::{
    AddressKind, CpuId, Frame, Name, ObjectIdentity, Pid, Resolution, Space, SpaceTable, StackEntry,
    Symbolized, Tid, Timestamp,
};
use profile::{Columns, Detail, PlaceId, Profile, Sample as Counted, Show, View, Weight};
use serde_json::{Value, json};

use super::prof::{folder, may_record, prof, record, run};
use super::programs;
use super::webdriver::{Driver, ENTER, ESCAPE, RIGHT, SHIFT, TAB};

const SIZES: [(u32, u32); 4] = [(1024, 700), (1440, 900), (3840, 2160), (390, 844)];

/// Waits until the page has nothing left to do.
const IDLE: &str = "
    // A key asks in the next frame, and an answer is drawn in the one after it, however late these are.
    let idle = 0;
    for (let tries = 0; tries < 2000 && idle < 3; tries++) {
      await new Promise(next => requestAnimationFrame(() => setTimeout(next, 15)));
      const page = globalThis.profView;
      idle = page?.totals && !page.client.waiting.size && !page.client.queued.size ? idle + 1 : 0;
    }";

/// What has the keyboard; `null` for nothing.
const FOCUSED: &str = "
    const focused = document.activeElement;
    if (!focused || focused === document.body) return null;
    const { left, top, right, bottom } = focused.getBoundingClientRect(), style = getComputedStyle(focused);
    const again = focused.dataset.visited === 'yes';
    focused.dataset.visited = 'yes';
    return { again, name: `${focused.tagName} ${focused.className} ${focused.getAttribute('aria-label') ?? focused.textContent.slice(0, 40)}`,
      seen: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1,
      inside: left >= -1 && top >= -1 && right <= innerWidth + 1 && bottom <= innerHeight + 1, box: [left, top, right, bottom] };";

/// What can be used and had the keyboard never, and what is drawn outside of the window.
const REST: &str = "
    const usable = [...document.querySelectorAll('button, select, input, a[href], [tabindex]')]
      .filter(one => !one.disabled && !one.closest('dialog') && one.checkVisibility({ visibilityProperty: true }));
    const missed = usable.filter(one => one.tabIndex >= 0 && one.dataset.visited !== 'yes').map(one => one.textContent.slice(0, 40));
    // Rows and bars that scroll hold what is outside of them.
    const scrolls = one => { for (let up = one.parentElement; up; up = up.parentElement) if (/auto|scroll/.test(getComputedStyle(up).overflow)) return true; return false; };
    const boxes = [...document.querySelectorAll('button, select, input, canvas, h1, p, output, section, main, aside, footer')]
      .filter(one => one.checkVisibility({ visibilityProperty: true }) && !one.closest('.unseen, dialog') && !one.matches('.unseen') && !scrolls(one));
    const outside = boxes.filter(one => {
      const { left, top, right, bottom, width } = one.getBoundingClientRect();
      return width && (left < -1 || top < -1 || right > innerWidth + 1 || bottom > innerHeight + 1);
    }).map(one => `${one.tagName} ${one.className}`);
    const root = document.documentElement;
    return { missed, outside, scrolls: [root.scrollWidth > innerWidth, root.scrollHeight > innerHeight] };";

fn page(folder: &Path) -> Option<String> {
    let program = programs::c("workers")?;
    let (file, _) = record(folder, &[], &[program.as_os_str(), "4".as_ref(), "60".as_ref()]);
    let html = folder.join("page.html");
    run(prof(["view", "-q", "-o"]).arg(&html).arg(&file)).ok();
    Some(format!("file://{}", html.display()))
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn all_that_can_be_used_is_reached_by_tab_and_in_view_in_every_window() {
    let folder = folder();
    if !may_record() {
        return;
    }
    let Some(driver) = Driver::lend() else { return };
    let Some(url) = page(folder.path()) else { return };
    for size in SIZES {
        // What the views have is the same in each window; where it has its place is for the usual and the smallest one.
        let views = ["flame", "order", "tree", "sandwich", "functions"];
        for view in &views[..if [SIZES[1], SIZES[3]].contains(&size) { 5 } else { 1 }] {
            let case = format!("{size:?} {view}");
            driver.open(&format!("{url}#view={view}&named=1&time=10.40000"), size);
            driver.run(IDLE);
            let mut stops = 0;
            for _ in 0..80 {
                driver.press(&[], TAB);
                let focused = driver.run(FOCUSED);
                if focused.is_null() || focused["again"] == true {
                    break;
                }
                stops += 1;
                assert!(focused["seen"] == true && focused["inside"] == true, "{case}: {focused}");
            }
            assert!(stops > 15, "{case}: Tab stops {stops} times");
            let rest = driver.run(REST);
            let expected = json!({ "missed": [], "outside": [], "scrolls": [false, false] });
            assert_eq!(rest, expected, "{case}");
        }
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn time_lanes_views_and_steps_are_chosen_with_the_keyboard_alone() {
    let folder = folder();
    if !may_record() {
        return;
    }
    let Some(driver) = Driver::lend() else { return };
    let Some(url) = page(folder.path()) else { return };
    driver.open(&url, SIZES[1]);
    driver.run(IDLE);
    let focus = |what: &str| {
        for _ in 0..80 {
            driver.press(&[], TAB);
            let here = format!("return document.activeElement.matches({what:?})");
            if driver.run(&here) == true {
                return;
            }
        }
        panic!("Tab does not reach {what}");
    };
    let state = |more: &str| -> Value {
        driver.run(IDLE);
        driver.run(&format!("const {{ store: {{ state }} }} = profView; return {more};"))
    };
    focus(".lanes");
    for _ in 0..3 {
        driver.press(&[SHIFT], RIGHT);
    }
    assert_eq!(state("state.time !== null"), true);
    driver.press(&[], ENTER);
    assert_eq!(state("state.threads !== null"), true);
    // A step is made and taken back, and the keyboard stays where it was.
    focus(".crumbs [aria-pressed]");
    driver.press(&[], ENTER);
    assert_eq!(
        state("[state.steps.length, document.activeElement.getAttribute('aria-pressed')]"),
        json!([1, "true"])
    );
    driver.press(&[], ENTER);
    assert_eq!(
        state("[state.steps.length, document.activeElement.getAttribute('aria-pressed')]"),
        json!([0, "false"])
    );
    focus("[role=tab]");
    driver.press(&[], RIGHT);
    assert_eq!(state("[state.view, document.activeElement.dataset.view]"), json!(["order", "order"]));
    driver.press(&[], '6');
    // The list has its rows when the worker has answered.
    driver.run(IDLE);
    focus(".panel .rows");
    driver.press(&[], '\u{e015}');
    assert_eq!(state("[state.view, state.named >= 0]"), json!(["functions", true]));
    focus(".actions button");
    driver.press(&[], ENTER);
    assert_eq!(
        state("[state.steps[0].o, document.activeElement.closest('.actions') !== null]"),
        json!(["keep", true])
    );
    driver.press(&[], '?');
    assert_eq!(state("document.querySelector('dialog').open"), true);
    driver.press(&[], ESCAPE);
    assert_eq!(state("document.querySelector('dialog').open"), false);
    focus(".crumb");
    driver.press(&[], ENTER);
    let nothing = json!([null, null, 0, true]);
    assert_eq!(
        state(
            "[state.time, state.threads, state.steps.length, document.activeElement.closest('.crumbs') !== null]"
        ),
        nothing
    );
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn short_processes_of_one_name_are_one_lane() {
    let folder = folder();
    if !may_record() {
        return;
    }
    let Some(driver) = Driver::lend() else { return };
    let Some(url) = page(folder.path()) else { return };
    driver.open(&url, SIZES[1]);
    driver.run(IDLE);
    const LANES: &str = "
        const { lanes } = profView, processes = [], threads = [], segments = [];
        const add = (name, pid, samples) => {
          processes.push({ name, pid });
          samples.forEach((count, at) => {
            segments.push([0, threads.length, count, count]);
            threads.push({ process: processes.length - 1, name: at ? `${name}-${at}` : name, tid: pid + at, pool: '' });
          });
        };
        for (let pid = 1; pid <= 400; pid++) add('true', pid, [1]);
        add('make', 1000, [3000, 500]);
        add('cc', 2000, [40]);
        for (let pid = 3000; pid < 3003; pid++) add('few', pid, [2]);
        const shown = () => { lanes.list(); return lanes.lanes.map(({ label, detail, samples, level, open }) => [label, detail, samples, level, open]); };
        const meta = lanes.meta;
        lanes.meta = { ...meta, processes, threads, segments };
        const shut = shown();
        lanes.toggled.add('g0');
        const open = shown();
        lanes.toggled.clear();
        lanes.meta = meta;
        lanes.list();
        return { shut, open: [open.length, open[2]] };";
    let expected = json!({
        "shut": [
            ["make", "1000 · 2 threads", 3500, 0, false],
            ["true", "400 processes", 400, 0, false],
            ["cc", "2000", 40, 0, null],
            ["few", "3000", 2, 0, null],
            ["few", "3001", 2, 0, null],
            ["few", "3002", 2, 0, null],
        ],
        "open": [406, ["true", "1", 1, 1, null]],
    });
    assert_eq!(driver.run(LANES), expected);
}

/// Names that want to be something else than text.
fn hostile_names() -> Vec<String> {
    let short = [
        "</script><script>document.title = 'taken'</script>",
        "<img src=x onerror=\"document.title = 'taken'\">",
        "<!--<script>",
        "]]></style><h1>taken</h1>",
        "javascript:alert(1)",
        "${document.title = 'taken'}`+'\"\\",
        "\u{202e}gnp.exe\u{2066}\u{200f}",
        "مرحبا بالعالم",
        "\u{7}\u{1b}[31m\r\n\0end",
        "e\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}",
        "__proto__",
        "constructor",
    ];
    let long = ["x".repeat(100_000), "w::<".repeat(25_000), "名".repeat(30_000)];
    short.into_iter().map(str::to_owned).chain(long).collect()
}

/// More samples than a page keeps one by one.
const MANY_SAMPLES: u64 = 2_100_000;

/// A page of that many samples: one each microsecond, in turns of two threads and three functions.
fn page_of_many() -> Vec<u8> {
    let mut spaces = SpaceTable::default();
    let identity = ObjectIdentity { path: Name::from("/opt/many"), build_id: None, file: None };
    let space = spaces.intern(Space::Object(identity));
    let resolutions: Vec<Resolution> = ["one", "two", "three"]
        .into_iter()
        .map(|name| {
            let frame = Frame { function: Arc::from(name), location: None, inlined: false };
            Resolution::Resolved(Symbolized { frames: [frame].into(), symbol_offset: None })
        })
        .collect();
    let samples = Some(Columns { times: true, cpus: true });
    let mut profile = Profile::new(Detail { threads: true, processes: true, samples, ..Detail::default() });
    let stacks: Vec<_> = (0..3)
        .map(|offset| {
            let kind = AddressKind::InstructionPointer;
            profile.stacks.intern(&[StackEntry { offset, space, kind, in_kernel: false }])
        })
        .collect();
    let name = Name::from("many");
    let threads = [1, 2].map(|tid| profile.thread(&name, Pid(1), Tid(tid), || name.clone()));
    for number in 0..MANY_SAMPLES {
        let (stack, thread) = (stacks[(number % 3) as usize], threads[(number % 2) as usize]);
        let (time, cpu) = (Some(Timestamp(number * 1000)), Some(CpuId((number % 2) as u32)));
        profile.count(Counted { thread, stack, period: 2, time, cpu, is_continued: false });
    }
    let resolve = |_: PlaceId, entry: &StackEntry| resolutions.get(entry.offset as usize);
    let view =
        View::new(&profile, &spaces, resolve, Show { modules: true, ..Show::default() }, Weight::Samples);
    written(&["many".to_owned()], |name| PageEvent { name, view: &view, is_clock: true, is_time: false })
}

/// A page with these texts as title, facts, caveats and events, and a loss in its first microseconds.
fn written<'v>(texts: &[String], event: impl Fn(String) -> PageEvent<'v>) -> Vec<u8> {
    let page = Page {
        title: texts.concat(),
        facts: texts.to_vec(),
        caveats: texts.to_vec(),
        events: texts.iter().cloned().map(event).collect(),
        gaps: vec![(0, 2000, 7)],
        switch_gaps: Vec::new(),
        waits: &[],
        waiting: None,
        wakers: None,
        is_own_code: &|_| true,
        package_of: &|_, _| None,
        code: &[],
        folds_starts: true,
        source: None,
        has_lines: false,
        recording: texts.concat(),
        sides: None,
    };
    let mut html = Vec::new();
    let views = || page.events.iter().map(|event| event.view);
    let samples = PageSamples::of(views(), false);
    let stacks = PageStacks::of(views(), None);
    let pack_all = |blocks: &[Vec<u8>]| blocks.iter().map(|block| export::view::pack(block)).collect();
    export::view::write(&page, samples, stacks, &pack_all, &mut html).unwrap();
    html
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn samples_that_were_merged_count_and_that_is_said() {
    let folder = folder();
    let Some(driver) = Driver::lend() else { return };
    let file = folder.path().join("many.html");
    let html = page_of_many();
    assert!(html.len() < 1_000_000, "{} bytes", html.len());
    std::fs::write(&file, html).unwrap();
    driver.open(&format!("file://{}#view=order", file.display()), SIZES[1]);
    driver.run(IDLE);
    let found = driver.run(
        "const { totals, meta, words, side: { table }, main } = profView;
         const functions = Object.fromEntries([...table.functions].map(id => [words.functionName(id), table.self[id]]));
         return { samples: totals.samples, functions, drawn: main.boxes.all, lanes: profView.lanes.lanes[0].samples, truth: meta.truth };",
    );
    let third = MANY_SAMPLES / 3;
    assert_eq!(found["samples"], MANY_SAMPLES);
    assert_eq!(found["functions"], json!({ "one": third, "two": third, "three": third }));
    assert_eq!((&found["drawn"], &found["lanes"]), (&json!(MANY_SAMPLES), &json!(MANY_SAMPLES)));
    assert!(found["truth"].to_string().contains("within that time as one"), "{found}");
    let lost = driver.run(
        "profView.losses.toggle.click();
         const entry = document.querySelector('.losses li button');
         entry.click();
         return [profView.losses.toggle.textContent, entry.textContent, profView.state.time, document.querySelectorAll('.losses li').length];",
    );
    assert_eq!(
        (&lost[0], &lost[2], &lost[3]),
        (&json!("lost samples: once"), &json!([0, 1]), &json!(1)),
        "{lost}"
    );
    assert!(lost[1].as_str().is_some_and(|entry| entry.ends_with(" · 7 records lost")), "{lost}");
}

/// A page with each of these names as a function, a thread, an event, a module and a title.
fn page_of(names: &[String]) -> Vec<u8> {
    let mut spaces = SpaceTable::default();
    let resolutions: Vec<Resolution> = names
        .iter()
        .map(|name| {
            let frame = Frame { function: Arc::from(&**name), location: None, inlined: false };
            Resolution::Resolved(Symbolized { frames: [frame].into(), symbol_offset: None })
        })
        .collect();
    let detail = Detail {
        threads: true,
        pools: true,
        processes: true,
        cpus: false,
        containers: false,
        cgroups: false,
        samples: Some(Columns { times: true, cpus: true }),
    };
    let mut profile = Profile::new(detail);
    for (number, name) in (0..).zip(names) {
        let path = Name::from(&**name);
        let space = spaces.intern(Space::Object(ObjectIdentity { path, build_id: None, file: None }));
        let entries: Vec<StackEntry> = (0..=number)
            .map(|offset| StackEntry {
                offset,
                space,
                kind: AddressKind::InstructionPointer,
                in_kernel: false,
            })
            .collect();
        let stack = profile.stacks.intern(&entries);
        let comm = Name::from(&**name);
        let thread = profile.thread(&comm, Pid(number as i32 + 1), Tid(number as i32 + 1), || comm.clone());
        let (time, cpu) = (Some(Timestamp(number * 1_000_000)), Some(CpuId(0)));
        profile.count(Counted { thread, stack, period: 1, time, cpu, is_continued: false });
    }
    let resolve = |_: PlaceId, entry: &StackEntry| resolutions.get(entry.offset as usize);
    let show = Show { modules: true, ..Show::default() };
    let view = View::new(&profile, &spaces, resolve, show, Weight::Samples);
    written(names, |name| PageEvent { name, view: &view, is_clock: false, is_time: false })
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn names_that_mean_harm_are_text_in_every_view() {
    let folder = folder();
    let Some(driver) = Driver::lend() else { return };
    let names = hostile_names();
    let file = folder.path().join("hostile.html");
    std::fs::write(&file, page_of(&names)).unwrap();
    let shown: Vec<String> = names.iter().map(|name| Name::from(&**name).to_string()).collect();
    let views = ["flame", "order", "tree", "inverted", "sandwich", "functions"];
    let in_small = views.map(|view| (view, SIZES[3]));
    for (view, size) in in_small.into_iter().chain([(views[0], SIZES[0])]) {
        let case = format!("{view} {size:?}");
        driver.open(&format!("file://{}#view={view}&named=3", file.display()), size);
        driver.run(IDLE);
        let found = driver.run(
            "const { meta, words, store } = profView;
             for (let named = 0; named < meta.functions.name.length; named++) store.set({ named });
             for (let event = 0; event < meta.events.length; event++) store.set({ event });
             store.set({ search: '/(x+)+$/', steps: [{ o: 'keep', p: '<' }] });
             // The search keeps the worker busy for long; lanes take it up 150 ms later.
             await new Promise(next => setTimeout(next, 200));
             const wide = [...document.querySelectorAll('body *')].filter(one => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest('.unseen, .crumbs, .actions, .tabs'))
               .map(one => `${one.tagName} ${one.className}`).slice(0, 5);
             const elements = [...document.querySelectorAll('img, iframe, object, a, base, link, h1')].map(one => one.tagName);
             return { elements, title: document.title === meta.title, scripts: document.scripts.length, failure: document.getElementById('failure')?.textContent ?? null,
               width: document.documentElement.scrollWidth, wide, names: meta.names };",
        );
        let listed: Vec<String> =
            serde_json::from_value(found["names"].clone()).unwrap_or_else(|_| panic!("{case}: {found}"));
        assert!(shown.iter().all(|name| listed.contains(name)), "{case}: {listed:?}");
        assert_eq!(found["elements"], json!(["H1"]), "{case}");
        assert_eq!(
            (&found["failure"], &found["width"]),
            (&Value::Null, &json!(size.0)),
            "{case}: {}",
            found["wide"]
        );
        assert_eq!((&found["title"], &found["scripts"]), (&json!(true), &json!(0)), "{case}");
    }
}
