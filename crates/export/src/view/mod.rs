//! A recording as one self-contained HTML page, whose script aggregates and draws the samples.
//!
//! The page has names and integers only. `blocks` describes how data is packed; `page/` has the modules of the script.
//! Without scripts the page shows its title, the losses of the recording, and the hottest functions.

mod assembly;
mod blocks;
mod merging;
mod samples;
mod script;
mod sides;
mod source;
mod stacks;
mod tree;
mod waits;

use std::io::{self, Write};

use model::{Name, Pid, Tid, WaitSpan};
use profile::{StartPart, View, Weight};
use serde_json::{Value, json};

use crate::SourceReader;
use crate::figures::{counted, grouped, percent};
use crate::names::escape::escape;
use crate::wait_chains::WaitingFindings;
use assembly::Instructions;
pub use assembly::PageRange;
pub use blocks::pack;
use merging::Merged;
pub use samples::PageSamples;
use samples::{Clock, Columns};
pub use sides::PageSides;
pub use stacks::PageStacks;
use tree::{Kind, PageTree};
use waits::Waits;

/// The mark in the first bytes of a page by which `prof` knows its own files.
pub const MARK: &str = "<meta name=\"generator\" content=\"prof\">";

/// The recording that a page shows: title, events, gaps and waits.
pub struct Page<'p> {
    /// The recorded target.
    pub title: String,
    /// The machine, time, duration and rate of the recording, a text each.
    pub facts: Vec<String>,
    /// The losses and other caveats of the recording, a line each.
    pub caveats: Vec<String>,
    /// The events with samples. Their profiles must keep threads, processes, pools and single samples
    /// ([`profile::Detail`]), and their views must show modules ([`profile::Show`]), by which functions of one name differ.
    pub events: Vec<PageEvent<'p>>,
    /// The intervals in which samples are missing: start and end in nanoseconds of the recording's clock, and the number of
    /// records lost.
    pub gaps: Vec<(u64, u64, u64)>,
    /// The intervals in which threads were off the CPU, in the order of their ends.
    pub waits: &'p [WaitSpan],
    /// Who ended waits; `None` if the recording does not say who woke threads.
    pub wakers: Option<Vec<PageWaker>>,
    /// Who made threads wait, where that is known.
    pub waiting: Option<WaitingFindings<'p>>,
    /// The intervals of which `waits` has none, because switches were not recorded: start and end in nanoseconds of the recording's
    /// clock, in order.
    pub switch_gaps: Vec<(u64, u64)>,
    /// Returns true for modules with code of the user, and not of the system.
    pub is_own_code: &'p dyn Fn(&str) -> bool,
    /// Returns the package that a function in a module of the user's is of, by the names of module and function.
    pub package_of: &'p dyn Fn(&str, &str) -> Option<String>,
    /// True if the frames that start a program or thread are one until the reader unfolds them.
    pub folds_starts: bool,
    /// Reads source files; `None` for a page without source.
    pub source: Option<&'p SourceReader<'p>>,
    /// True for all sampled source lines, and not just those of `code`. The views must show lines.
    pub has_lines: bool,
    /// The words that name the recording in the commands that the page recommends.
    pub recording: String,
    /// The comparison, for a page of two recordings: `events` are the same event before and after, and there are no waits, lines or
    /// code.
    pub sides: Option<&'p PageSides<'p>>,
    /// The code of functions, the most important first; empty for a page without code.
    pub code: &'p [PageRange],
}

/// A thread or an interrupt that ended waits.
pub struct PageWaker {
    /// The name of the thread, or the kind of interrupt.
    pub name: String,
    /// The process and the thread; `None` for an interrupt.
    pub thread: Option<(Pid, Tid)>,
}

/// The samples of one event.
pub struct PageEvent<'p> {
    /// The event's name.
    pub name: String,
    /// The samples.
    pub view: &'p View<'p>,
    /// True if the event is a clock, whose periods are nanoseconds.
    pub is_clock: bool,
    /// True if samples are pieces of the time of threads, and not what a counter took.
    pub is_time: bool,
}

/// The number of functions in the table that is shown without scripts.
const STATIC_TABLE_FUNCTIONS: usize = 30;

/// The number of samples above which they are merged. A page of 1.6 million samples, with 292,000 different stacks of a machine that compiled, took
/// 5.1 MB with up to 1.4 million of them, and takes 3.1 MB; 4 MB are allowed (decision 17).
const MAX_SAMPLES: usize = 1_000_000;

/// Packs the blocks of a page, each by [`pack`]: they do not depend on each other, and take a tenth of the time of a large page.
pub type PackBlocks<'f> = &'f dyn Fn(&[Vec<u8>]) -> io::Result<Vec<String>>;

/// Writes the page, with the samples and the stacks of its events.
///
/// # Errors
/// Those of `output` and `pack`, and one if no sample is left.
pub fn write(
    page: &Page<'_>,
    samples: PageSamples,
    stacks: PageStacks,
    pack: PackBlocks<'_>,
    output: &mut dyn Write,
) -> io::Result<()> {
    let page = &page.with_safe_text();
    let PageSamples(mut samples) = samples;
    let PageStacks { tree, events: of_events } = stacks;
    samples.has_lines = page.has_lines;
    samples.instructions = Instructions::new(page.code);
    let views: Vec<&View<'_>> = page.events.iter().map(|event| event.view).collect();
    samples.end(&views, &of_events, page.sides.is_some());
    drop(of_events);
    let counts: Vec<usize> = (0..page.events.len()).map(|event| samples.count(event)).collect();
    let sample_count = samples.row_count();
    if counts.iter().all(|&count| count == 0) {
        return Err(io::Error::other("no sample is left: the filters on stacks leave all of them out"));
    }
    let weighted: Vec<bool> = page.events.iter().map(|event| event.view.weight() == Weight::Period).collect();
    let merged = samples.clock().map(|clock| samples.merge(clock, &weighted, MAX_SAMPLES));
    let clock = merged.map(|merged| merged.clock);
    let rows = (samples.row_count() < sample_count).then(|| samples.row_count());
    let ends = samples.ends_at(tree.len());
    let (tree, moved) = tree.page(ends);
    samples.move_nodes(&moved);
    let waits = clock.map(|clock| {
        let lane_of = |pid, tid| samples.lane_of(pid, tid);
        Waits::new(page.waits, &page.switch_gaps, clock, lane_of)
    });
    let waits = waits.unwrap_or_default();
    let wakers = page.wakers.as_ref().map(|wakers| {
        let lane = |waker: &PageWaker| waker.thread.and_then(|(pid, tid)| samples.lane_of(pid, tid));
        let number = |waker: &PageWaker| waker.thread.map(|(_, tid)| tid.0);
        let described = wakers
            .iter()
            .map(|waker| json!({ "name": waker.name, "tid": number(waker), "thread": lane(waker) }));
        Value::from(described.collect::<Vec<_>>())
    });
    let lanes = std::mem::take(&mut samples.lanes);
    let origins = std::mem::take(&mut samples.origins);
    let lines = std::mem::take(&mut samples.lines);
    let code =
        (!samples.instructions.is_empty()).then(|| samples.instructions.meta(page.code, &tree, page.source));
    let mut columns = samples.into_columns(clock, &weighted, &tree, lanes.len());
    let mut caveats = caveats(page, merged, rows);
    caveats.extend(waits.caveats());
    let waiting = waits.columns();
    let ended_by = wakers.as_ref().and(waiting.as_ref()).map(|_| waits.wakers());
    let mut meta = meta(page, &counts, &caveats, clock, (&lanes, &origins), &tree, &columns);
    if let (Some((counts, ..)), Some(fields)) = (&waiting, meta.as_object_mut()) {
        fields.insert("waits".to_owned(), json!(counts));
        fields.insert("unrecorded".to_owned(), json!(waits.unrecorded));
        fields.extend(wakers.map(|wakers| ("wakers".to_owned(), wakers)));
    }
    if let (Some(waiting), Some(clock), Some(fields)) = (&page.waiting, clock, meta.as_object_mut()) {
        let lane_of = |pid, tid| lanes.iter().position(|lane| (lane.pid, lane.tid) == (pid, tid));
        fields.insert("waiting".to_owned(), waiting.of_page(&|time| clock.units(time), &lane_of));
    }
    if let (true, Some(read), Some(fields)) = (page.has_lines, page.source, meta.as_object_mut()) {
        fields.extend(lines.with_text(&columns.samples_of_lines, read));
    }
    if let (Some(code), Some(fields)) = (code, meta.as_object_mut()) {
        fields.insert("code".to_owned(), code);
    }
    if let (Some(sides), Some(fields)) = (page.sides, meta.as_object_mut()) {
        fields.insert("sides".to_owned(), sides.meta(&tree, &origins));
    }
    let content = StaticContent { page, caveats: &caveats, tree: &tree, columns: &columns }.text();
    let (names, blocks): (Vec<&str>, Vec<Vec<u8>>) = [
        ("meta", Some(meta.to_string().into_bytes())),
        ("nodes", Some(tree.column().into_bytes())),
        ("stacks", Some(std::mem::take(&mut columns.stacks).into_bytes())),
        ("times", clock.is_some().then(|| std::mem::take(&mut columns.times).into_bytes())),
        ("samples", Some(std::mem::take(&mut columns.samples).into_bytes())),
        ("wakers", ended_by.map(blocks::Column::into_bytes)),
        ("waits", waiting.map(|(_, column)| column.into_bytes())),
        ("lines", columns.lines.take().map(blocks::Column::into_bytes)),
        ("instructions", columns.instructions.take().map(blocks::Column::into_bytes)),
        ("counts", columns.counts.take().map(blocks::Column::into_bytes)),
        ("cpus", columns.cpus.take().map(blocks::Column::into_bytes)),
        ("weights", columns.weights.take().map(blocks::Column::into_bytes)),
    ]
    .into_iter()
    .filter_map(|(name, bytes)| Some((name, bytes?)))
    .unzip();
    let code = script::joined();
    write!(
        output,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n{MARK}\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>{}</style>\n</head>\n<body>\n{content}",
        script::policy(&code),
        escape(&page.title),
        script::STYLE,
    )?;
    for (name, packed) in names.into_iter().zip(pack(&blocks)?) {
        writeln!(output, "<script type=\"text/plain\" data-block=\"{name}\">{packed}</script>")?;
    }
    writeln!(output, "<script type=\"module\">{code}</script>\n</body>\n</html>")
}

impl<'p> Page<'p> {
    /// Returns the page with unsafe characters of its texts replaced ([`Name::is_unsafe`]).
    fn with_safe_text(&self) -> Page<'p> {
        let text = |text: &str| Name::from(text).to_string();
        let event = |event: &PageEvent<'p>| PageEvent { name: text(&event.name), ..*event };
        let waker = |waker: &PageWaker| PageWaker { name: text(&waker.name), ..*waker };
        Page {
            title: text(&self.title),
            facts: self.facts.iter().map(|fact| text(fact)).collect(),
            caveats: self.caveats.iter().map(|line| text(line)).collect(),
            events: self.events.iter().map(event).collect(),
            gaps: self.gaps.clone(),
            waits: self.waits,
            waiting: self.waiting,
            wakers: self.wakers.as_ref().map(|wakers| wakers.iter().map(waker).collect()),
            switch_gaps: self.switch_gaps.clone(),
            is_own_code: self.is_own_code,
            package_of: self.package_of,
            folds_starts: self.folds_starts,
            source: self.source,
            has_lines: self.has_lines,
            recording: text(&self.recording),
            code: self.code,
            sides: self.sides,
        }
    }
}

/// Returns the caveats of the recording, and those of the page.
fn caveats(page: &Page<'_>, merged: Option<Merged>, rows: Option<usize>) -> Vec<String> {
    let mut caveats = page.caveats.clone();
    let times = page.events.iter().filter(|event| event.is_time);
    if let Some(longest) =
        times.flat_map(|event| event.view.profile().samples().iter().map(|of| of.period)).max()
    {
        let milliseconds = longest.div_ceil(1_000_000);
        caveats.push(format!(
            "a sample stands for up to {milliseconds} ms: the edges of a selection of time are no more exact than that"
        ));
    }
    let Some(Merged { clock: Clock { unit, .. }, has_neighbours }) = merged else {
        caveats.push(
            "samples do not say when they were taken: there are no lanes, and no order of time".to_owned(),
        );
        return caveats;
    };
    if unit > 1 {
        let merged = rows.map_or_else(String::new, |rows| {
            format!(
                ", and samples of one thread, CPU and stack within that time as one: {} in all",
                grouped(rows as u64)
            )
        });
        caveats.push(format!("the recording is large: the page keeps times to {unit} µs{merged}"));
    }
    if has_neighbours {
        caveats.push(
            "of stacks next to each other that have few samples within that time, one stands for all: shares of functions are \
             estimates, within 0.02 percentage points of those of prof report where that was measured"
                .to_owned(),
        );
    }
    caveats
}

fn meta(
    page: &Page<'_>,
    counts: &[usize],
    caveats: &[String],
    clock: Option<Clock>,
    (lanes, origins): (&[samples::Lane], &[u64]),
    tree: &PageTree,
    columns: &Columns,
) -> Value {
    let mut events: Vec<Value> = Vec::new();
    for ((event, count), &has_cpus) in page.events.iter().zip(counts).zip(&columns.has_cpus) {
        let total = event.view.profile().total();
        let nanoseconds =
            if event.is_clock { total.period.checked_div(total.samples).unwrap_or(0) } else { 0 };
        let weighted = event.view.weight() == Weight::Period;
        let noun = if weighted { event.name.as_str() } else { "samples" };
        events.push(json!({
            "name": event.name, "noun": noun, "weighted": weighted, "nanoseconds": nanoseconds, "time": event.is_time,
            "cpus": has_cpus, "samples": count,
        }));
    }
    // The wall-clock time of threads has the time off the CPU as a part.
    for (of, (event, count)) in page.events.iter().zip(counts).enumerate() {
        let off_cpu = columns.off_cpu[of];
        if event.is_time && off_cpu > 0 && off_cpu < *count as u64 {
            let mut part = events[of].clone();
            part["name"] = json!("time off the CPU");
            part["of"] = json!(of);
            part["samples"] = json!(off_cpu);
            events.push(part);
        }
    }
    let start = starts(page, tree);
    let modules: Vec<&str> =
        tree.modules.iter().map(String::as_str).chain((!start.is_null()).then_some("start")).collect();
    let mut processes: Vec<Value> = Vec::new();
    let mut process_numbers = std::collections::BTreeMap::new();
    let threads: Vec<Value> = lanes
        .iter()
        .zip(&columns.starts)
        .map(|(lane, &start)| {
            let process = *process_numbers.entry((lane.side, lane.pid)).or_insert_with(|| {
                processes.push(json!({ "name": lane.process.to_string(), "pid": lane.pid.0 }));
                processes.len() - 1
            });
            let start = if start == u64::MAX { 0 } else { start };
            json!({
                "process": process, "name": lane.name.to_string(), "tid": lane.tid.0, "pool": lane.pool, "start": start, "side": lane.side,
            })
        })
        .collect();
    let (packages, of_functions) = packages(page, tree);
    let cuts = |cuts: &Option<String>| cuts.as_ref().map_or(json!(0), |cuts| json!(cuts));
    let clock = clock.unwrap_or(Clock { origin: 0, unit: 1, length: 0 });
    let units = |time: u64| ((time / 1000).saturating_sub(clock.origin) / clock.unit).min(clock.length);
    // Times of a comparison count from the first sample of each side.
    let of_page = page.gaps.iter().map(|&gap| (0, 0, gap));
    let of_sides = page.sides.iter().flat_map(|sides| sides.gaps.iter().zip(0..)).zip(origins);
    let of_sides =
        of_sides.flat_map(|((gaps, side), &origin)| gaps.iter().map(move |&gap| (side, origin * 1000, gap)));
    let gaps =
        of_page.chain(of_sides).filter(|_| clock.length > 0).map(|(side, origin, (from, to, lost))| {
            (units(from.saturating_sub(origin)), units(to.saturating_sub(origin)), lost, side)
        });
    json!({
        "version": 1,
        "title": page.title,
        "recording": page.recording,
        "facts": page.facts,
        "truth": caveats,
        "origin": clock.origin,
        "unit": clock.unit,
        "marks": sides::marks(),
        "length": clock.length,
        "timed": clock.length > 0,
        "cpus": columns.cpu_count,
        "events": events,
        "processes": processes,
        "threads": threads,
        "segments": columns.segments,
        "names": tree.names,
        "modules": modules,
        "start": start,
        "mine": modules.iter().map(|module| u8::from((page.is_own_code)(module))).collect::<Vec<_>>(),
        "packages": packages,
        "functions": {
            "name": differences(tree.functions.iter().map(|(name, _, _)| *name)),
            "module": tree.functions.iter().map(|(_, module, _)| module).collect::<Vec<_>>(),
            "package": of_functions,
            "cuts": tree.functions.iter().map(|(_, _, shortened)| cuts(shortened)).collect::<Vec<_>>(),
        },
        "frames": {
            "function": differences(tree.frames.iter().map(|(function, _, _)| *function)),
            "kind": tree.frames.iter().map(|(_, kind, _)| *kind as u8).collect::<Vec<_>>(),
            "colour": tree.frames.iter().map(|(_, _, colour)| colour).collect::<Vec<_>>(),
        },
        "gaps": gaps.collect::<Vec<_>>(),
    })
}

/// Returns what the page needs to fold the frames that start programs and threads: the number of the module that their frame is shown as, and
/// the part that each frame has in a start ([`StartPart`]); null where none has one, or nothing is folded.
fn starts(page: &Page<'_>, tree: &PageTree) -> Value {
    let part = |(number, &(function, kind, _)): (usize, &(u32, Kind, u32))| {
        let (name, module, _) = tree.functions.get(function as usize)?;
        let module = usize::try_from(*module).ok().and_then(|module| tree.modules.get(module));
        let part = StartPart::of(tree.names.get(*name as usize)?, module.map(String::as_str));
        (kind.is_code() && part != StartPart::None).then_some([number, part as usize])
    };
    let parts: Vec<[usize; 2]> = tree.frames.iter().enumerate().filter_map(part).collect();
    if parts.is_empty() || !page.folds_starts {
        return Value::Null;
    }
    json!({ "module": tree.modules.len(), "parts": parts })
}

/// Returns the packages of functions, and for each function the number of its own, from 1; none where no function is of a package.
fn packages(page: &Page<'_>, tree: &PageTree) -> (Vec<String>, Vec<usize>) {
    let mut packages: Vec<String> = Vec::new();
    let number = |&(name, module, _): &(u32, i32, Option<String>)| {
        let module = usize::try_from(module).ok().and_then(|module| tree.modules.get(module));
        let named = module.zip(tree.names.get(name as usize));
        let Some(package) = named.and_then(|(module, name)| (page.package_of)(module, name)) else {
            return 0;
        };
        let known = packages.iter().position(|known| *known == package);
        known.unwrap_or_else(|| {
            packages.push(package);
            packages.len() - 1
        }) + 1
    };
    let numbers: Vec<usize> = tree.functions.iter().map(number).collect();
    if packages.is_empty() { (packages, Vec::new()) } else { (packages, numbers) }
}

/// Returns the differences between consecutive numbers, which pack well for numbers that mostly rise.
fn differences(numbers: impl Iterator<Item = u32>) -> Vec<i64> {
    let mut before = 0;
    numbers.map(|number| i64::from(number) - std::mem::replace(&mut before, number.into())).collect()
}

/// The content that the page shows without scripts, and that screen readers read.
struct StaticContent<'s> {
    page: &'s Page<'s>,
    caveats: &'s [String],
    tree: &'s PageTree,
    columns: &'s Columns,
}

impl StaticContent<'_> {
    fn text(&self) -> String {
        let Self { page, caveats, .. } = self;
        let mut text = format!("<main id=\"still\">\n<h1>{}</h1>\n", escape(&page.title));
        text.push_str(&format!("<p>{}</p>\n", escape(page.facts.join(" · "))));
        if !caveats.is_empty() {
            let lines: String = caveats.iter().map(|line| format!("<li>{}</li>", escape(line))).collect();
            text.push_str(&format!("<ul>{lines}</ul>\n"));
        }
        text.push_str("<noscript><p>With scripts this page shows the whole recording: activity over time, flame graphs, trees.</p></noscript>\n");
        text.push_str(&self.table());
        text.push_str("</main>\n");
        text
    }

    /// Returns a table of the hottest functions of the event with most samples, rather than of the time of threads.
    fn table(&self) -> String {
        let Self { page, tree, columns, .. } = self;
        let samples = |event: &PageEvent<'_>| event.view.profile().total().samples;
        let most = page
            .events
            .iter()
            .enumerate()
            .max_by_key(|(at, event)| (!event.is_time, samples(event), std::cmp::Reverse(*at)));
        let Some((number, event)) = most else { return String::new() };
        let weights = function_weights(tree, &columns.own[number]);
        let all: u64 = columns.own[number].iter().fold(0, |sum, own| sum.saturating_add(*own));
        let mut order: Vec<usize> = (0..weights.len()).filter(|&function| weights[function].1 > 0).collect();
        order.sort_by_key(|&function| (std::cmp::Reverse(weights[function]), function));
        let share = |part: u64| format!("{:.1} %", percent(part, all));
        let unit = match event.view.weight() {
            Weight::Period if event.is_clock => "ns",
            Weight::Period => event.name.as_str(),
            Weight::Samples => "samples",
        };
        let mut rows = String::new();
        for &function in order.iter().take(STATIC_TABLE_FUNCTIONS) {
            let (own, total) = weights[function];
            let (name, module, _) = &tree.functions[function];
            let module = usize::try_from(*module).ok().and_then(|module| tree.modules.get(module));
            rows.push_str(&format!(
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                share(own),
                grouped(own),
                share(total),
                grouped(total),
                escape(module.map_or("", String::as_str)),
                escape(&tree.names[*name as usize]),
            ));
        }
        format!(
            "<table>\n<caption>{} of {}: the {} functions with the most of their own, of {}</caption>\n\
             <thead><tr><th scope=\"col\">Self</th><th scope=\"col\">{unit}</th><th scope=\"col\">Total</th><th scope=\"col\">{unit}</th>\
             <th scope=\"col\">Module</th><th scope=\"col\">Function</th></tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n",
            counted(samples(event), "sample", "samples"),
            escape(&event.name),
            order.len().min(STATIC_TABLE_FUNCTIONS),
            grouped(order.len() as u64),
            unit = escape(unit),
        )
    }
}

/// Returns the self and total weight of each function. A recursive function gets the weight of a stack once.
fn function_weights(tree: &PageTree, own: &[u64]) -> Vec<(u64, u64)> {
    let mut totals = own.to_vec();
    let mut ends: Vec<usize> = (1..=own.len()).collect();
    for node in (1..own.len()).rev() {
        let parent = tree.nodes[node].0 as usize;
        totals[parent] = totals[parent].saturating_add(totals[node]);
        ends[parent] = ends[parent].max(ends[node]);
    }
    let mut weights = vec![(0_u64, 0_u64); tree.functions.len()];
    // Behind the last node of the subtree that a function has already counted for.
    let mut within = vec![0_usize; tree.functions.len()];
    for node in 1..own.len() {
        let (function, kind, _) = tree.frames[tree.nodes[node].1 as usize];
        if kind == Kind::Root {
            continue;
        }
        let function = function as usize;
        weights[function].0 = weights[function].0.saturating_add(own[node]);
        if node >= within[function] {
            weights[function].1 = weights[function].1.saturating_add(totals[node]);
            within[function] = ends[node];
        }
    }
    weights
}
