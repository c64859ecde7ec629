//! `cargo xtask records FILE`: prints a line for each record of a recording, in the order of the file: kind, time, pid, tid, ip, size.
//!
//! What a record does not have is `-`. A record that cannot be decoded, or that a tool wrote, has kind, time and size alone.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, bail};
use decoder::{HEADER_SIZE, Record, kind};
use perfdata::read::ReadAt;
use perfdata::{Entry, EntryKind, Reader, Source, tool};

pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let [file] = args else { bail!("usage: cargo xtask records FILE") };
    let mut output = std::io::BufWriter::new(std::io::stdout().lock());
    each(Path::new(file), |entry, size, record| {
        let kind = name(entry).map_or_else(|| entry.record.kind().to_string(), str::to_owned);
        let time = optional(entry.time.map(|time| time.0.to_string()));
        let (thread, ip) = match record {
            Some(Record::Sample(sample)) => (sample.thread, sample.ip),
            Some(record) => (thread(record), None),
            None => (None, None),
        };
        let (pid, tid) = thread.unzip();
        let (pid, tid) =
            (optional(pid.map(|pid| pid.0.to_string())), optional(tid.map(|tid| tid.0.to_string())));
        let ip = optional(ip.map(|ip| format!("{ip:#x}")));
        writeln!(output, "{kind} {time} {pid} {tid} {ip} {size}")?;
        Ok(())
    })?;
    Ok(output.flush()?)
}

/// Calls `seen` with each record of a file, or of a folder of `perf record --threads`: its entry, its size in bytes, and its fields if it
/// is one of the kernel's that can be decoded.
pub(crate) fn each(
    path: &Path,
    mut seen: impl FnMut(&Entry, usize, Option<&Record<'_>>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut reader = Reader::open(source(path)?).with_context(|| path.display().to_string())?;
    while let Some(entry) = reader.next_entry()? {
        let (raw, layout) = reader.record_and_layout(entry.record)?;
        let record = if entry.kind == EntryKind::Kernel { layout.decode(&raw).ok() } else { None };
        seen(&entry, HEADER_SIZE + raw.body.len(), record.as_ref())?;
        reader.release(entry.record);
    }
    Ok(())
}

/// Returns the name of a record's type; `None` for an unknown type.
pub(crate) fn name(entry: &Entry) -> Option<&'static str> {
    kind::name(entry.record.kind()).or_else(|| tool::kind::name(entry.record.kind()))
}

fn source(path: &Path) -> anyhow::Result<Source> {
    let open = |path: &Path| -> anyhow::Result<Box<dyn ReadAt>> {
        Ok(Box::new(File::open(path).with_context(|| path.display().to_string())?))
    };
    if !path.is_dir() {
        return Ok(Source::File(open(path)?));
    }
    let parts = (0..).map(|number| path.join(format!("data.{number}"))).take_while(|part| part.exists());
    Ok(Source::Directory {
        data: open(&path.join("data"))?,
        parts: parts.map(|part| open(&part)).collect::<Result<_, _>>()?,
    })
}

/// Returns the thread that a record is about, or that caused it.
fn thread(record: &Record<'_>) -> Option<(model::Pid, model::Tid)> {
    match record {
        Record::Mmap(map) => Some((map.pid, map.tid)),
        Record::Comm(comm) => Some((comm.pid, comm.tid)),
        Record::Exit(task) | Record::Fork(task) => Some((task.pid, task.tid)),
        Record::Read(read) => Some((read.pid, read.tid)),
        Record::Namespaces(namespaces) => Some((namespaces.pid, namespaces.tid)),
        Record::Switch(switch) => switch.sample_id.thread,
        Record::Lost(lost) => lost.sample_id.thread,
        Record::LostSamples(lost) => lost.sample_id.thread,
        Record::Throttle(throttle) | Record::Unthrottle(throttle) => throttle.sample_id.thread,
        _ => None,
    }
}

fn optional(value: Option<String>) -> String {
    value.unwrap_or_else(|| "-".to_owned())
}
