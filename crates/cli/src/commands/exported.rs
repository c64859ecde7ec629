//! Reads a recording for formats that tools exchange: what `prof export` writes and `prof push` sends.

use std::collections::HashMap;

use analysis::input::Input;
use analysis::object_ids::{generated_code_kinds, object_ids};
use analysis::{Analysis, EventProfile, EventView, Measure, Notices, Request, TimeWeight};
use anyhow::bail;
use export::exchange::{ExportedEvent, ExportedRecording, Format, Resource};
use model::Name;
use profile::{Columns, Detail, Show, Weight, runtime_names};
use symbolizer::{NameStyle, display_name};

use crate::arguments::QueryArguments;
use crate::console::Console;
use crate::input;

/// The parts of a recording that are exported.
pub struct ExportOptions {
    pub format: Format,
    /// True to merge threads of the same name.
    pub merge_threads: bool,
    /// True to keep threads of one name apart where the format does not do so by itself.
    pub thread_ids: bool,
    /// True to look up source lines.
    pub lines: bool,
}

/// Reads a recording, and calls `use_recording` with it. `act` is the verb of error messages.
///
/// # Errors
/// The recording cannot be read or has no matching samples, or those of `use_recording`.
pub fn with_recording<T>(
    options: &ExportOptions,
    query: &QueryArguments,
    input: Input,
    act: &str,
    console: &Console,
    use_recording: impl FnOnce(&ExportedRecording<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let format = options.format;
    // Folded stacks have neither lines nor modules.
    let is_folded = format == Format::Folded;
    let lines = options.lines && !is_folded;
    let is_of_processes = format == Format::Otlp;
    let mut settings = query.settings(&input, lines);
    // Profiles for engines have names as linkers know them, too. Filters compare names as they are shown.
    let is_linkage = matches!(format, Format::Otlp | Format::Pprof)
        && settings.options.names == NameStyle::Demangled
        && !query.stacks.compares_names();
    if is_linkage {
        settings.options.names = NameStyle::Linkage;
    }
    let request = query.request(&settings);
    let has_time_beside = matches!(format, Format::Otlp | Format::Pprof)
        && query.stacks.time().is_none()
        && query.samples.event.is_none();
    // Profiles of other tools have no times, and weights of time no single samples.
    let has_order =
        format.is_timed() || format.has_order() && query.stacks.time().is_none() && input.foreign.is_none();
    let request = Request {
        detail: Detail {
            threads: if is_of_processes { options.thread_ids } else { !options.merge_threads && !is_folded },
            processes: format.is_timed() || is_of_processes || format == Format::Pprof,
            samples: has_order.then_some(Columns { times: true, cpus: format.is_timed() }),
            ..Detail::default()
        },
        several_events: !is_folded,
        all_quantities: format == Format::Pprof,
        unmapped_addresses: !is_folded,
        measure: match request.measure {
            _ if has_time_beside => Measure::SamplesAndTime(TimeWeight::OffCpu),
            _ if has_order && !format.is_timed() => Measure::SamplesAndWaits,
            measure => measure,
        },
        ..request
    };
    let name = input.name.clone();
    let analysis = input::analyse(input, &request, act, console)?;
    if let (Some(other), true) = (analysis.foreign_format(), format.is_timed()) {
        bail!(
            "{name} is {other}: samples have no times, which this format needs; try: --format speedscope, or pprof"
        );
    }
    let show = Show { modules: !is_folded, lines, ..query.stacks.show_for_others() };
    // What reads waits as they were has their sums already.
    let beside = analysis.thread_time.iter().filter(|_| has_time_beside);
    let events = analysis.events.iter().chain(beside);
    let shown: Vec<_> = events
        .map(|event| {
            let weight = if event.is_time { Weight::Period } else { query.stacks.weight(&event.event.attr) };
            EventView::new(&analysis, event, show, weight, &query.stacks.shape(), console)
        })
        .collect();
    if shown.iter().all(|shown| shown.view.shown_total() == 0 && shown.view.total() > 0) {
        bail!("cannot {act} {name}: no sample has a frame that matches --keep or --root-at");
    }
    let caveats = shown.iter().map(|shown| analysis.subtitle(shown.event, &shown.summary()));
    shown.iter().for_each(|shown| shown.warn(console));
    let title = analysis.events.first().map_or(name, |event| analysis.title(event, &query.description()));
    let (started_unix_ns, duration_ns) = analysis.time();
    let events: Vec<_> = shown
        .iter()
        .map(|shown| {
            let attr = &shown.event.event.attr;
            let is_sampled = !shown.event.is_time && analysis.foreign_format().is_none();
            let time = || query.stacks.time().unwrap_or(TimeWeight::OffCpu);
            ExportedEvent {
                name: shown.name.clone(),
                view: &shown.view,
                unit: shown.event.unit_of_quantity(),
                is_clock: shown.event.is_clock(),
                time: (shown.event.is_time && analysis.foreign_format().is_none()).then(time),
                period: (is_sampled && !attr.is_frequency()).then_some(attr.sample_period),
                frequency: (is_sampled && attr.is_frequency()).then_some(attr.sample_period),
                stated: Vec::new(),
            }
        })
        .collect();
    if is_of_processes
        && let Some(event) = events.iter().find(|event| !event.is_clock && event.time.is_none())
    {
        console.say(&format!(
            "{0} is exported as {0}: engines have CPU time of the event cpu-clock only (prof record -e cpu-clock)",
            event.name
        ));
    }
    let display_name = |name: &str| match is_linkage {
        true => {
            let demangled = display_name(name.as_bytes(), NameStyle::Demangled);
            let spoken = runtime_names::parse(&demangled, true).map(|name| name.function.into_owned());
            spoken.unwrap_or_else(|| demangled.into_owned())
        }
        false => name.to_owned(),
    };
    let (has_resources, has_ids) = (
        matches!(format, Format::Otlp | Format::Json),
        is_of_processes && analysis.foreign_format().is_none(),
    );
    let recording = ExportedRecording {
        events,
        spaces: &analysis.spaces,
        title: &title,
        caveats: caveats.collect(),
        started_unix_ns,
        duration_ns,
        labels: analysis.foreign_labels(),
        resources: if has_resources { resources(&analysis) } else { HashMap::new() },
        generated_code_kinds: generated_code_kinds(&analysis),
        object_ids: if has_ids { object_ids(&analysis, &settings.paths) } else { HashMap::new() },
        display_name: &display_name,
        gaps: &analysis.gaps,
        waits: &analysis.waits.spans,
    };
    use_recording(&recording)
}

/// Returns the resources of all processes with samples.
fn resources(analysis: &Analysis) -> HashMap<i32, Resource> {
    let threads = |event: &EventProfile| event.profile.threads().to_vec();
    let mut resources = HashMap::new();
    for thread in analysis.events.iter().chain(&analysis.thread_time).flat_map(threads) {
        let process = thread.process.or(thread.ids.map(|(pid, _)| (pid, Name::from(""))));
        if let Some((pid, name)) = process {
            resources.entry(pid.0).or_insert_with(|| analysis.resource(pid, &name));
        }
    }
    resources
}
