//! A whole profile as JSON, by the schema in `docs/schemas/profile.json`.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::dictionary::Dictionary;
use super::json_stream::Object;
use super::{ExportedRecording, Resource};

/// The name and version of the schema. Increase the number with a change that breaks readers.
const SCHEMA: &str = "prof-profile-1";

pub(super) fn write(
    recording: &ExportedRecording<'_>,
    dictionary: &Dictionary,
    output: &mut dyn Write,
) -> io::Result<()> {
    let known = |text: &str| if text.is_empty() { Value::Null } else { text.into() };
    let mappings = dictionary.mappings.iter().map(|mapping| {
        json!({ "name": mapping.name, "build_id": known(&mapping.build_id), "kernel": mapping.in_kernel })
    });
    let functions = dictionary.functions.values.iter().map(|function| {
        json!({ "name": function.name, "module": known(&function.module), "file": known(&function.file) })
    });
    let locations = dictionary.locations.values.iter().map(|location| {
        let lines = location
            .lines
            .iter()
            .map(|line| json!({ "function": line.function, "line": (line.line > 0).then_some(line.line) }));
        json!({
            "mapping": location.mapping,
            // As text, because numbers of many JSON readers have less than 64 bits.
            "address": format!("{:#x}", location.address),
            "lines": lines.collect::<Vec<_>>(),
        })
    });
    let threads = dictionary.threads.values.iter().map(|thread| {
        let (pid, tid) = thread.ids.unzip();
        let resource = thread.pid.and_then(|pid| recording.resources.get(&pid));
        let stated = |key: &str| resource.and_then(|resource| resource.text(key));
        json!({
            "comm": thread.comm,
            "pid": pid,
            "tid": tid,
            "service": stated(Resource::SERVICE_NAME),
            "host": stated("host.name"),
            "container": stated("container.id"),
        })
    });
    let events = recording.events.iter().enumerate().map(|(number, event)| {
        let samples = || dictionary.samples_of(number);
        let (_, unit) = event.period_type();
        json!({
            "event": event.name,
            "unit": unit,
            "samples": samples().map(|of| of.count.samples).fold(0, u64::saturating_add),
            "period": samples().map(|of| of.count.period).fold(0, u64::saturating_add),
            "rows": samples()
                .map(|of| json!([of.thread, of.stack, of.count.samples, of.count.period]))
                .collect::<Vec<_>>(),
        })
    });
    let mut whole = Object::begin(output)?;
    whole.value("duration_ns", &recording.duration_ns.into())?;
    whole.list("events", events)?;
    whole.list("functions", functions)?;
    whole.list("locations", locations)?;
    whole.list("mappings", mappings)?;
    whole.value("schema", &SCHEMA.into())?;
    whole.list("stacks", dictionary.stacks.values.iter().map(|stack| json!(stack)))?;
    let started = recording.started_unix_ns.map(|started| started.to_string());
    whole.value("started_unix_ns", &started.into())?;
    whole.list("threads", threads)?;
    whole.value("title", &recording.title.into())?;
    whole.value("truths", &json!(recording.caveats))?;
    whole.end()?;
    output.write_all(b"\n")
}
