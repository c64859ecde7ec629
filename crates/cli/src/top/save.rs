//! Saves the samples in the scope as a picture or as a recording.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use export::flamegraph;
use export::summary::{self, Summary};
use model::{
    AddressKind, Frame as ModelFrame, Name, Pid, Resolution, Space, SpaceId, SpaceTable, StackEntry,
    Symbolized, Tid,
};
use profile::{Count, Detail, FrameKind, PlaceId, Profile, Show, View, Weight};

use super::save_recording;
use crate::output::Output;
use live::snapshot::{Frame, Snapshot};
use live::views::{Scope, TimeSpent};

/// Writes the samples in the scope to a file: a flame graph if its name ends in `.svg`, otherwise a recording. Returns the
/// message for the user.
///
/// # Errors
/// Fails if the scope is empty, or the file cannot be written.
pub(crate) fn save(name: &str, snapshot: &Snapshot, scope: &Scope) -> anyhow::Result<String> {
    let is_picture = Path::new(name).extension().is_some_and(|end| end.eq_ignore_ascii_case("svg"));
    if !is_picture {
        return save_recording::save(name, snapshot, scope);
    }
    let mut output = Output::create(Path::new(name))?;
    write_svg(snapshot, scope, &mut output)?;
    output.finish()?;
    Ok(format!("saved {name}"))
}

/// Draws the stacks in the scope as `prof flame` does.
///
/// # Errors
/// Fails if the scope is empty, or `output` cannot be written.
pub(crate) fn write_svg(snapshot: &Snapshot, scope: &Scope, output: &mut dyn Write) -> anyhow::Result<()> {
    let shown = ScopeProfile::new(snapshot, scope);
    let event = snapshot.status.events.get(scope.event as usize);
    let weight = match event {
        Some(event) if event.unit != "samples" => Weight::Period,
        _ => Weight::Samples,
    };
    let is_time = event.is_some_and(|event| event.is_time);
    let resolve = |_: PlaceId, entry: &StackEntry| shown.names.get(entry);
    let census = View::census(&shown.profile, &shown.spaces, resolve);
    let facts = Summary {
        event: event.map_or("", |event| &event.name),
        total: shown.profile.total(),
        unsampled: 0,
        weight,
        loss: &shown.profile.loss,
        census: &census,
        remedies: &[],
        estimates: &[],
        foreign_unit: None,
    };
    let subtitle = match is_time {
        true => summary::subtitle_of_time(&facts, &TimeSpent::of(snapshot, scope).shown(scope)),
        false => summary::subtitle(&facts),
    };
    let options = flamegraph::Options {
        title: "prof top".to_owned(),
        subtitle: format!("{} – {subtitle}", snapshot.status.target),
        colors: if is_time { "kinds" } else { "java" }.parse().map_err(anyhow::Error::msg)?,
        width: None,
        min_width: 0.01,
        inverted: false,
        reverse: false,
        chart: false,
        // Weights of time are nanoseconds; the picture shows microseconds.
        per_unit: if is_time { 1000 } else { 1 },
        unit: match event {
            Some(_) if is_time => "µs".to_owned(),
            Some(event) => event.unit.clone(),
            None => "samples".to_owned(),
        },
    };
    let view = View::new(&shown.profile, &shown.spaces, resolve, Show::default(), weight);
    flamegraph::write(&view, &options, output)?;
    Ok(())
}

/// The stacks of a scope as a profile with a made-up address per function, and the names of these addresses.
struct ScopeProfile {
    profile: Profile,
    spaces: SpaceTable,
    names: HashMap<StackEntry, Resolution>,
}

impl ScopeProfile {
    fn new(snapshot: &Snapshot, scope: &Scope) -> Self {
        let mut spaces = SpaceTable::default();
        let code = spaces.intern(Space::Kernel { build_id: None, text: None });
        let generated =
            spaces.intern(Space::Jit { pid: Pid::NONE, generation: 0, mapping: Name::from("//anon") });
        let mut profile = Profile::new(Detail::default());
        profile.loss = snapshot.status.loss;
        let mut shown = Self { profile, spaces, names: HashMap::new() };
        let mut entries = Vec::new();
        for stack in scope.stacks(snapshot) {
            entries.clear();
            for frame in stack.frames() {
                let entry = entry_of_frame(frame, code, generated);
                shown.names.entry(entry).or_insert_with(|| symbolized_frame(snapshot, frame));
                entries.push(entry);
            }
            let comm = Name::from(&*stack.task.comm);
            let id = shown.profile.stacks.intern(&entries);
            let count = Count { samples: stack.samples, period: stack.weight };
            shown.profile.add_counted(&comm, Pid(stack.task.pid), Tid(stack.task.tid), id, count);
        }
        shown
    }
}

/// Returns a made-up address for a frame: its function id, in a space from which the export tells generated code.
fn entry_of_frame(frame: Frame, code: SpaceId, generated: SpaceId) -> StackEntry {
    let inlined = u64::from(frame.kind == FrameKind::Inlined);
    StackEntry {
        offset: u64::from(frame.function) << 1 | inlined,
        space: if frame.kind == FrameKind::Jit { generated } else { code },
        kind: AddressKind::InstructionPointer,
        in_kernel: frame.in_kernel,
    }
}

fn symbolized_frame(snapshot: &Snapshot, frame: Frame) -> Resolution {
    let function = snapshot.functions.get(frame.function as usize);
    let function = function.map_or_else(|| Arc::from(""), |function| Arc::clone(&function.name));
    let frame = ModelFrame { function, location: None, inlined: frame.kind == FrameKind::Inlined };
    Resolution::Resolved(Symbolized { frames: [frame].into(), symbol_offset: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use live::testing::SnapshotBuilder;

    #[test]
    fn the_picture_is_what_the_scope_shows() {
        let mut build = SnapshotBuilder::default();
        build
            .stack(1, 1, "a", "main;_i_f;_k_sys", 30)
            .stack(2, 2, "b", "_j_x", 10)
            .stack(0, 0, "idle", "_k_i", 99);
        let mut svg = Vec::new();
        write_svg(&build.snapshot(), &Scope::default(), &mut svg).unwrap();
        let svg = String::from_utf8(svg).unwrap();
        // inferno colours by the suffixes of names, and leaves them out of titles.
        for text in ["sys (30 samples, 75.00%)", "f (30 samples", "x (10 samples", "all (40 samples"] {
            assert!(svg.contains(text), "{text}");
        }
        assert!(!svg.contains("idle"));
    }

    #[test]
    fn a_picture_of_time_has_the_legend() {
        let mut build = SnapshotBuilder::default();
        build
            .stack(1, 1, "a", "main;work", 3_000_000)
            .stack(1, 1, "a", "main;_k_read;[blocked: pipe read]", 5_000_000)
            .stack(1, 2, "b", "main;[waiting: epoll]", 9_000_000);
        let mut snapshot = build.snapshot();
        for event in &mut snapshot.status.events {
            (event.unit, event.is_time) = ("wall-clock time".into(), true);
        }
        let mut svg = Vec::new();
        write_svg(&snapshot, &Scope::default(), &mut svg).unwrap();
        let svg = String::from_utf8(svg).unwrap();
        for text in ["id=\"legend\"", "[blocked: pipe read] (5,000 µs, 62.50%)", "37.5 % running"] {
            assert!(svg.contains(text), "{text}");
        }
        assert!(!svg.contains("epoll"), "at rest");
        assert!(save("x.data", &snapshot, &Scope::default()).unwrap_err().to_string().contains("--off-cpu"));
    }
}
