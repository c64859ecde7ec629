//! Saves the samples in the scope as a picture.

use std::io::Write;
use std::path::Path;

use anyhow::bail;
use export::flamegraph;
use export::summary::{self, Summary};
use profile::{Detail, Show, View};

use crate::output::Output;
use live::snapshot::Snapshot;
use live::views::{Scope, TimeSpent};

/// Writes the samples in the scope to a file, as a flame graph. Returns the message for the user.
///
/// # Errors
/// Fails if the name does not end in `.svg`, the scope is empty, or the file cannot be written.
pub(crate) fn save(name: &str, snapshot: &Snapshot, scope: &Scope) -> anyhow::Result<String> {
    let is_picture = Path::new(name).extension().is_some_and(|end| end.eq_ignore_ascii_case("svg"));
    if !is_picture {
        bail!("the screen saves pictures alone; try: a name that ends in .svg, or prof record");
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
    let profile = scope.profile(snapshot, Detail::default());
    let view = scope.view(snapshot, &profile, Show { modules: false, ..scope.show() });
    let event = snapshot.status.events.get(scope.event as usize);
    let is_time = event.is_some_and(|event| event.is_time);
    let census = View::census(&profile, &snapshot.spaces, |_, entry| snapshot.names.resolution(entry));
    let facts = Summary {
        event: event.map_or("", |event| &event.name),
        total: profile.total(),
        unsampled: 0,
        weight: view.weight(),
        loss: &profile.loss,
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
        colors: "kinds".parse().map_err(anyhow::Error::msg)?,
        width: None,
        min_width: 0.01,
        inverted: false,
        reverse: false,
        // Weights of time are nanoseconds; the picture shows microseconds.
        per_unit: if is_time { 1000 } else { 1 },
        unit: match event {
            Some(_) if is_time => "µs".to_owned(),
            Some(event) => event.unit.clone(),
            None => "samples".to_owned(),
        },
    };
    flamegraph::write(&view, &options, output)?;
    Ok(())
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
        assert!(
            save("x.data", &snapshot, &Scope::default()).unwrap_err().to_string().contains("prof record")
        );
    }
}
