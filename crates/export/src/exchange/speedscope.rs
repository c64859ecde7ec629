//! speedscope's own JSON (<https://www.speedscope.app/file-format-schema.json>).

use std::io::{self, Write};

use serde_json::{Value, json};

use super::ExportedRecording;
use super::dictionary::Dictionary;
use crate::figures::write_json_line;

/// Writes a profile for each event. The outermost frame of each stack is its thread.
pub(super) fn write(
    recording: &ExportedRecording<'_>,
    dictionary: &Dictionary,
    output: &mut dyn Write,
) -> io::Result<()> {
    let functions = dictionary.functions.values.iter().map(|function| match &*function.file {
        "" => json!({ "name": function.name }),
        file => json!({ "name": function.name, "file": file }),
    });
    let first_thread = dictionary.functions.values.len();
    let threads = dictionary.threads.values.iter().map(|thread| {
        let name = match thread.ids {
            Some((pid, tid)) => format!("{}-{pid}/{tid}", thread.comm),
            None => thread.comm.clone(),
        };
        json!({ "name": name })
    });
    let frames: Vec<Value> = functions.chain(threads).collect();
    let profiles = recording.events.iter().enumerate().map(|(number, event)| {
        let (mut samples, mut weights, mut total) = (Vec::new(), Vec::new(), 0_u64);
        for of_event in dictionary.samples_of(number) {
            let functions = dictionary.lines_of(of_event.stack).map(|(_, line)| line.function as usize);
            let thread = first_thread + of_event.thread as usize;
            let stack: Vec<usize> = std::iter::once(thread).chain(functions).collect();
            let weight = of_event.count.weight(event.view.weight());
            total = total.saturating_add(weight);
            samples.push(stack);
            weights.push(weight);
        }
        let unit = match event.weight_type() {
            (_, "nanoseconds") => "nanoseconds",
            _ => "none",
        };
        json!({
            "type": "sampled",
            "name": event.name,
            "unit": unit,
            "startValue": 0,
            "endValue": total,
            "samples": samples,
            "weights": weights,
        })
    });
    let whole = json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": "prof",
        "name": recording.title,
        "activeProfileIndex": 0,
        "shared": { "frames": frames },
        "profiles": profiles.collect::<Vec<_>>(),
    });
    write_json_line(&whole, output)
}
