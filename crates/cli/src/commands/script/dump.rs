//! `prof script -D`: prints every record in the order of the file.

use std::io::Write;

use analysis::Notices;
use analysis::input::Input;
use anyhow::Context;
use export::script::dump::{self, RecordHeading};
use model::Harm;
use perfdata::EntryKind;
use perfdata::tool::ToolRecord;

use super::architecture;
use crate::console::Console;

/// Prints the records of `input`.
///
/// # Errors
/// The recording cannot be read, or the text cannot be written.
pub(super) fn dump(input: Input, console: &Console, output: &mut dyn Write) -> anyhow::Result<()> {
    let Input { mut reader, name, .. } = input;
    let architecture = architecture(&reader);
    let endian = reader.endian();
    let mut text = Vec::new();
    loop {
        let position = reader.position();
        let Some(entry) = reader.next_entry().with_context(|| format!("cannot read {name}"))? else { break };
        let (raw, layout) =
            reader.record_and_layout(entry.record).with_context(|| format!("cannot read {name}"))?;
        let heading = RecordHeading {
            // Records from a pipe or a compressed record have no offset in a file, so the position in the stream is printed.
            offset: entry.record.file_offset().unwrap_or(position),
            size: (decoder::HEADER_SIZE + raw.body.len()) as u64,
            time: entry.time,
            misc: raw.misc,
        };
        text.clear();
        match entry.kind {
            EntryKind::Kernel => match layout.decode(&raw) {
                Ok(record) => {
                    dump::record(
                        &mut text,
                        &heading,
                        raw.kind,
                        &record,
                        layout.sample_format(),
                        architecture,
                    );
                }
                Err(error) => dump::undecodable(&mut text, &heading, raw.kind, &error.to_string()),
            },
            EntryKind::Unknown => {
                dump::undecodable(&mut text, &heading, raw.kind, "a type that this version does not know")
            }
            EntryKind::Tool | EntryKind::RoundEnd => match ToolRecord::parse(&raw, endian) {
                Ok(Some(record)) => dump::tool_record(&mut text, &heading, raw.kind, &record),
                Ok(None) => dump::undecodable(&mut text, &heading, raw.kind, "no fields are known"),
                Err(error) => dump::undecodable(&mut text, &heading, raw.kind, &error.to_string()),
            },
        }
        output.write_all(&text)?;
        reader.release(entry.record);
    }
    for notice in reader.take_notices() {
        console.warn(Harm::Samples, &format!("{name}: {notice}"));
    }
    let losses = export::summary::losses(&reader.loss());
    if !losses.is_empty() {
        console.warn(Harm::Samples, &format!("missing in this recording: {losses}"));
    }
    Ok(())
}
