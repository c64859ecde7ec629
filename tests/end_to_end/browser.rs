//! The picture in real browsers: what is in view, and what its script finds.

use std::sync::Arc;

use export::flamegraph::{self, Options};
use model::{
    AddressKind, Frame, Name, ObjectIdentity, Pid, Resolution, Space, SpaceTable, StackEntry, Symbolized, Tid,
};
use profile::{Detail, PlaceId, Profile, Show, View, Weight};
use serde_json::Value;

use super::prof::folder;
use super::visits::{Browser, browsers};

const SIZES: [(u32, u32); 3] = [(1280, 720), (1440, 900), (390, 844)];

/// Opens a picture in a window of this size and returns what `script`, the body of a function, returns there. It can wait until
/// the picture is `drawn`, with what follows from scrolling, and until what was typed is `found`: the picture searches 100 ms later.
fn visit(browser: &str, svg: &str, (width, height): (u32, u32), query: &str, script: &str) -> Value {
    let folder = folder();
    let mut browser = Browser::lend(browser);
    let probe = format!(
        "<script><![CDATA[addEventListener('load', () => {{\n\
         const id = name => document.getElementById(name), box = name => id(name).getBoundingClientRect();\n\
         const frame = name => [...document.querySelectorAll('#frames > g')].find(g => g.textContent.startsWith(name));\n\
         const type = text => {{ id('search').value = text; id('search').dispatchEvent(new Event('input')); }};\n\
         const drawn = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));\n\
         const found = () => new Promise(done => setTimeout(done, 110)).then(drawn);\n\
         const probe = async () => {{ await drawn(); {script} }};\n\
         probe().catch(error => `${{error}}`).then(answer => parent.postMessage(answer, '*'));\n\
         }});]]></script>\n<script>"
    );
    let (picture, page) = (folder.path().join("picture.svg"), folder.path().join("page.html"));
    // The picture's own script takes everything out of the document that comes after it.
    std::fs::write(&picture, svg.replacen("<script>", &probe, 1)).unwrap();
    // Windows cannot be as narrow as a phone's; frames can.
    let frame =
        format!("<iframe src='picture.svg{query}' width={width} height={height} style='border:0'></iframe>");
    let pass_on =
        format!("<script>addEventListener('message', said => {});</script>", browser.answer("said.data"));
    std::fs::write(&page, format!("<!doctype html><body style='margin:0'>{pass_on}{frame}")).unwrap();
    browser.visit(&format!("file://{}", page.display()))
}

/// A picture of stacks of functions, outermost first.
fn picture(stacks: &[(&[&str], u64)], change: impl FnOnce(&mut Options)) -> String {
    let mut spaces = SpaceTable::default();
    let identity = ObjectIdentity { path: Name::from("/bin/x"), build_id: None, file: None };
    let space = spaces.intern(Space::Object(identity));
    let mut profile = Profile::new(Detail::default());
    let mut names: Vec<(String, Resolution)> = Vec::new();
    for (stack, samples) in stacks {
        let entries: Vec<_> = stack
            .iter()
            .rev()
            .map(|name| {
                let known = names.iter().position(|(known, _)| known == name);
                let offset = known.unwrap_or_else(|| {
                    let frame = Frame { function: Arc::from(*name), location: None, inlined: false };
                    let symbolized = Symbolized { frames: [frame].into(), symbol_offset: None };
                    names.push((name.to_string(), Resolution::Resolved(symbolized)));
                    names.len() - 1
                });
                let kind = AddressKind::InstructionPointer;
                StackEntry { offset: offset as u64, space, kind, in_kernel: false }
            })
            .collect();
        let id = profile.stacks.intern(&entries);
        for _ in 0..*samples {
            profile.add(&Name::from("program"), Pid(1), Tid(1), id, 1);
        }
    }
    let resolve =
        |_: PlaceId, entry: &StackEntry| names.get(entry.offset as usize).map(|(_, resolution)| resolution);
    let view = View::new(&profile, &spaces, resolve, Show::default(), Weight::Samples);
    let mut options = Options {
        title: "a <title>".to_owned(),
        subtitle: "10,000 samples of cpu-clock, 0 lost".to_owned(),
        colors: "kinds".parse().unwrap(),
        width: None,
        min_width: 0.01,
        inverted: false,
        reverse: false,
        unit: "samples".to_owned(),
        per_unit: 1,
    };
    change(&mut options);
    let mut svg = Vec::new();
    flamegraph::write(&view, &options, &mut svg).unwrap();
    String::from_utf8(svg).unwrap()
}

/// A tower that is wide, one that is a hair and much higher, and some in between.
fn towers(change: impl FnOnce(&mut Options)) -> String {
    let level = |number: usize| format!("level{number}");
    let levels: Vec<String> = (0..400).map(level).collect();
    let up_to = |top: usize| -> Vec<&str> { levels[..top].iter().map(String::as_str).collect() };
    let (wide, spike) = (up_to(90), up_to(400));
    let other = ["main", "Parser::parse_all", "memory.*"];
    picture(&[(&wide, 9_000), (&spike, 3), (&other, 990), (&["main", "parse"], 7)], change)
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn the_roots_and_all_controls_are_in_view_from_the_start_and_while_scrolling() {
    const BOXES: &str = "
        const boxes = () => Object.fromEntries(['title', 'search', 'matched', 'details'].map(name => {
            const { left, top, right, bottom } = box(name);
            return [name, [left, top, right, bottom]];
        }));
        const root = () => { const { top, bottom } = frame('all').getBoundingClientRect(); return [top, bottom]; };
        type('parse'); id('search').dispatchEvent(new Event('input')); await found();
        const first = { ...boxes(), root: root() };
        const frames = document.querySelector('main'), begin = frames.scrollTop;
        frames.scrollTo(0, frames.scrollHeight / 4); await drawn();
        return { first, later: boxes(), scrolled: [begin, frames.scrollTop, scrollY], footer: document.querySelector('footer').getBoundingClientRect().top,
            height: box('frames').height, width: document.documentElement.scrollWidth, note: id('note').textContent };";
    let upright = towers(|_| {});
    let inverted = towers(|options| options.inverted = true);
    for browser in browsers() {
        let cases = SIZES.map(|size| (&upright, size)).into_iter().chain([(&inverted, SIZES[0])]);
        // Windows of all sizes in one browser: what the other lays out differently, it does in a small one.
        for (svg, size) in cases.filter(|(_, size)| browser == "chromium" || *size == SIZES[2]) {
            let seen = visit(browser, svg, size, "", BOXES);
            let case = format!("{browser} {size:?}: {seen}");
            let (width, height) = (f64::from(size.0), f64::from(size.1));
            let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{case}"));
            for moment in ["first", "later"] {
                for name in ["title", "search", "matched", "details"] {
                    let sides = &seen[moment][name];
                    let inside = number(&sides[0]) >= 0.0
                        && number(&sides[1]) >= 0.0
                        && number(&sides[2]) <= width
                        && number(&sides[3]) <= height;
                    assert!(inside, "{name} is not in view: {case}");
                    assert!(number(&sides[3]) > number(&sides[1]), "{name} has no height: {case}");
                }
            }
            // The frames scroll below the header. The page itself does not: a picture of it shows what its reader sees.
            assert_eq!(number(&seen["scrolled"][2]), 0.0, "{case}");
            assert_ne!(seen["scrolled"][0], seen["scrolled"][1], "nothing has scrolled: {case}");
            let root = &seen["first"]["root"];
            assert!(number(&root[0]) > 0.0 && number(&root[1]) <= number(&seen["footer"]) + 8.0, "{case}");
            // The wide tower is what is seen; the hair on it is folded, and that is said.
            assert_eq!(number(&seen["height"]), 92.0 * 16.0, "{case}");
            assert!(seen["note"].as_str().unwrap().contains("311 frames too narrow"), "{case}");
            assert!(number(&seen["width"]) <= width, "wider than the window: {case}");
        }
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn it_is_said_that_stacks_go_on_outside_of_the_window_and_what_a_share_is_of() {
    const MORE: &str = "
        const more = id('more'), frames = document.querySelector('main');
        frames.scrollTo(0, 0); await drawn();
        const top = [more.hidden, more.textContent];
        frames.scrollTo(0, frames.scrollHeight); await drawn();
        const bottom = [more.hidden, more.textContent, more.getBoundingClientRect().top];
        type('level2'); await found();
        const whole = id('matched').textContent;
        frame('level0').dispatchEvent(new MouseEvent('click', { bubbles: true })); await drawn();
        return { top, bottom, whole, zoom: id('matched').textContent, legend: id('legend')?.textContent ?? null };";
    for browser in browsers() {
        for (svg, hidden, word) in
            [(towers(|_| {}), "top", "above"), (towers(|options| options.inverted = true), "bottom", "below")]
        {
            let seen = visit(browser, &svg, SIZES[0], "", MORE);
            let shown = if hidden == "top" { "bottom" } else { "top" };
            assert_eq!(seen[hidden][0], true, "{browser}: {seen}");
            assert_eq!(seen[shown][0], false, "{browser}: {seen}");
            let text = seen[shown][1].as_str().unwrap();
            assert!(
                text.contains(&format!("stacks go on {word}: ")) && text.ends_with(" more rows"),
                "{text}"
            );
            let (whole, zoom) = (seen["whole"].as_str().unwrap(), seen["zoom"].as_str().unwrap());
            assert!(!whole.contains("of the zoom") && zoom.ends_with("% of the zoom"), "{browser}: {seen}");
            assert_eq!(seen["legend"], Value::Null, "all is user code");
        }
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn a_search_takes_plain_text_and_ignores_case_unless_a_capital_is_typed() {
    let svg = towers(|_| {});
    const SEARCHES: &str = "
        const answers = [];
        for (const text of ['parse', 'Parse', 'PARSE', '.*', 'level399', 'nothing', '']) {
            type(text); await found();
            answers.push(id('matched').textContent);
        }
        return answers;";
    for browser in browsers() {
        let answers = visit(browser, &svg, SIZES[0], "", SEARCHES);
        let expected = [
            "Matched: 10.0%",
            "Matched: 9.9%",
            "Matched: 0%",
            "Matched: 9.9%",
            "Matched: 0.03%",
            "Matched: 0%",
            "",
        ];
        assert_eq!(answers, serde_json::json!(expected), "{browser}");
        let found = visit(browser, &svg, SIZES[0], "?s=parse", "return id('matched').textContent");
        assert_eq!(found, "Matched: 10.0%", "{browser}");
    }
}

#[test]
#[ignore = "of the second ring: cargo xtask ci"]
fn keys_and_clicks_zoom_and_go_back() {
    let svg = towers(|_| {});
    const STEPS: &str = "
        const key = (name, more) => dispatchEvent(new KeyboardEvent('keydown', { key: name, ...more }));
        const point = name => frame(name).dispatchEvent(new MouseEvent('mouseover', { bubbles: true }));
        const click = name => frame(name).dispatchEvent(new MouseEvent('click', { bubbles: true }));
        const shown = name => getComputedStyle(frame(name)).display !== 'none';
        const state = () => [id('details').textContent, id('unzoom').hidden, shown('level399'), shown('Parser')];
        const states = [];
        point('Parser'); states.push(state());
        click('level120'); states.push(state());
        click('level89'); click('level119'); states.push(state());
        key('Escape'); states.push(state());
        key('f', { ctrlKey: true }); states.push(document.activeElement.id);
        id('frames').focus(); point('main'); key('ArrowUp'); states.push(state()); key('Enter'); states.push(state());
        id('unzoom').click(); states.push(state());
        return states;";
    for browser in browsers() {
        let states = visit(browser, &svg, SIZES[1], "", STEPS);
        let parser = "Parser::parse_all (990 samples, 9.90%)";
        let expected = serde_json::json!([
            [parser, true, false, true],
            ["level120 (3 samples, 0.03%)", false, true, false],
            ["level119 (3 samples, 0.03%)", false, true, false],
            ["level119 (3 samples, 0.03%)", true, false, true],
            "search",
            [parser, true, false, true],
            [parser, false, false, true],
            [parser, true, false, true],
        ]);
        assert_eq!(states, expected, "{browser}");
    }
}
