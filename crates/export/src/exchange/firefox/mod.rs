//! The Firefox Profiler's processed profile (<https://github.com/firefox-devtools/profiler>), as JSON of version 61, which
//! every later version of its loader upgrades.
//!
//! The file contains names, lines and inlined calls, so that it needs no symbol server. Each thread has a track for each
//! event. Gaps have a track of their own, with a marker for each.

mod tables;
mod tracks;

use std::io::{self, Write};

use serde_json::{Value, json};

use super::ExportedRecording;
use super::dictionary::Dictionary;
use super::json_stream::Object;
use tables::Tables;
use tracks::Tracks;

/// The version of the format.
const VERSION: u32 = 61;

/// The categories of frames and markers, with colours of the profiler's palette. The profiler uses the grey one by default.
const CATEGORIES: [(&str, &str); 4] =
    [("Other", "grey"), ("User", "yellow"), ("Kernel", "orange"), ("Generated code", "green")];

pub(super) fn write(
    recording: &ExportedRecording<'_>,
    dictionary: &Dictionary,
    output: &mut dyn Write,
) -> io::Result<()> {
    let mut tables = Tables::default();
    let tracks = Tracks::new(recording, dictionary, &mut tables);
    let mut whole = Object::begin(output)?;
    let meta = meta(recording, &tracks);
    whole.value("meta", &meta)?;
    whole.value("libs", &tables.libs(dictionary))?;
    let losses = tracks.losses(recording, &mut tables);
    whole.key("threads")?.write_all(b"[")?;
    let length = tracks.list.len();
    for number in 0..length {
        tracks.write(number, recording, dictionary, &mut tables, whole.output())?;
        if number + 1 < length || losses.is_some() {
            whole.output().write_all(b",\n")?;
        }
    }
    if let Some(losses) = losses {
        serde_json::to_writer(whole.output(), &losses)?;
    }
    whole.output().write_all(b"]")?;
    tables.write(whole.key("shared")?)?;
    whole.end()?;
    output.write_all(b"\n")
}

fn milliseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e6
}

fn meta(recording: &ExportedRecording<'_>, tracks: &Tracks) -> Value {
    let categories =
        CATEGORIES.map(|(name, color)| json!({"name": name, "color": color, "subcategories": ["Other"]}));
    let is_clock = recording.events.first().is_some_and(|event| event.is_clock);
    let caveats = recording.events.iter().zip(&recording.caveats);
    let caveats =
        caveats.map(|(event, truth)| json!({"label": event.name, "format": "string", "value": truth}));
    json!({
        "version": 24,
        "preprocessedProfileVersion": VERSION,
        "product": recording.title,
        "importedFrom": "prof",
        "interval": milliseconds(tracks.timeline.interval),
        "startTime": recording.started_unix_ns.map_or(0.0, milliseconds),
        "profilingStartTime": 0,
        "profilingEndTime": milliseconds(tracks.timeline.length),
        "processType": 0,
        "stackwalk": 1,
        "debug": false,
        "platform": "Linux",
        "symbolicated": true,
        "usesOnlyOneStackType": true,
        "sourceCodeIsNotOnSearchfox": true,
        "categories": categories,
        "sampleUnits": {
            "time": "ms",
            "eventDelay": "ms",
            "threadCPUDelta": if is_clock { "ns" } else { "variable CPU cycles" },
        },
        "initialSelectedThreads": tracks.heaviest(),
        "markerSchema": [
            {
                "name": "cpu",
                "display": ["marker-chart", "marker-table"],
                "tooltipLabel": "Samples in a row on CPU {marker.data.cpu}",
                "tableLabel": "{marker.data.samples} samples",
                "fields": [
                    {"key": "cpu", "label": "CPU", "format": "integer"},
                    {"key": "samples", "label": "Samples", "format": "integer"},
                ],
            },
            {
                "name": "loss",
                "display": ["marker-chart", "marker-table", "timeline-overview"],
                "tableLabel": "{marker.data.records} records lost",
                "fields": [{"key": "records", "label": "Lost records", "format": "integer"}],
            },
            {
                "name": "throttle",
                "display": ["marker-chart", "marker-table", "timeline-overview"],
                "description": "The kernel stopped an event for a while, because it fired too often.",
                "fields": [],
            },
        ],
        "extra": [{"label": "How far this can be trusted", "entries": caveats.collect::<Vec<_>>()}],
    })
}
