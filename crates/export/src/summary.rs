//! Sentences on how far a profile can be trusted: its size, its losses, and frames without names.

use model::{Loss, Reason};
use profile::{Census, Count, Nameless, Weight};

use crate::figures::percent_text;
pub use crate::figures::{counted, grouped};

/// The counts and losses of a profile, for [`subtitle`].
#[derive(Clone, Copy, Debug)]
pub struct Summary<'a> {
    /// The event's name.
    pub event: &'a str,
    /// The samples shown.
    pub total: Count,
    /// The weight of CPU time that the profile shows and has no samples of.
    pub unsampled: u64,
    /// The weight of stacks: samples, periods or time.
    pub weight: Weight,
    /// The loss of the recording.
    pub loss: &'a Loss,
    /// The counts of frames with and without names.
    pub census: &'a Census,
    /// Remedies for frames without names, the most effective first, each in a few words.
    pub remedies: &'a [String],
    /// Estimates that the profile rests on, each in a few words.
    pub estimates: &'a [String],
    /// The unit of periods, in a profile of another tool: that one has values instead of samples, and knows nothing of losses.
    pub foreign_unit: Option<&'a str>,
}

/// The number of characters that fit below the title of a picture of the usual width.
const SUBTITLE_COLUMNS: usize = 160;

/// Describes a profile in one line: samples, event, weight, losses, frames without names, and as many remedies as fit.
pub fn subtitle(summary: &Summary<'_>) -> String {
    if let Some(unit) = summary.foreign_unit {
        return line_of_foreign(summary, unit);
    }
    let remedies = summary.remedies;
    let lines = (1..=remedies.len()).rev().map(|count| line(summary, &remedies[..count]));
    let mut fitting = lines.filter(|line| line.chars().count() <= SUBTITLE_COLUMNS);
    fitting.next().unwrap_or_else(|| line(summary, &[]))
}

/// Describes a profile of another tool in one line.
fn line_of_foreign(summary: &Summary<'_>, unit: &str) -> String {
    let Count { samples, period } = summary.total;
    let sum = match unit {
        "ns" => format!("{:.3} s of {}", period as f64 / 1e9, summary.event),
        "samples" => counted(period, "sample", "samples"),
        _ if unit == summary.event => format!("{} {unit}", grouped(period)),
        _ => format!("{} {unit} of {}", grouped(period), summary.event),
    };
    let mut parts = vec![sum];
    if samples != period {
        parts.push(counted(samples, "sample", "samples"));
    }
    let census = summary.census;
    parts.push(format!("{} of frames without a name", percent_text(census.nameless, census.frames)));
    parts.join(", ")
}

/// Returns the time of parked tasks, all together: `593.0 task-seconds`.
pub fn task_seconds(total: Count) -> String {
    format!("{:.1} task-seconds", total.period as f64 / 1e9)
}

fn line(summary: &Summary<'_>, remedies: &[String]) -> String {
    let Summary { event, total, unsampled, weight, loss, census, remedies: _, estimates, foreign_unit: _ } =
        *summary;
    let mut parts = vec![format!("{} of {event}", counted(total.samples, "sample", "samples"))];
    if event == perfdata::sections::TASKS {
        parts.push(task_seconds(total));
    } else if weight == Weight::Period {
        parts.push(format!("weighted by period (sum {})", grouped(total.period)));
    }
    parts.push(lost(loss));
    if unsampled > 0 {
        let all = total.weight(weight).saturating_add(unsampled);
        parts.push(format!("{} of the CPU time not sampled", percent_text(unsampled, all)));
    }
    parts.extend_from_slice(estimates);
    if census.truncated > 0 {
        parts.push(counted(census.truncated, "stack truncated", "stacks truncated"));
    }
    let mut nameless = format!("{} of frames without a name", percent_text(census.nameless, census.frames));
    if !remedies.is_empty() {
        nameless.push_str(&format!(" ({})", remedies.join("; ")));
    }
    parts.push(nameless);
    parts.extend(other_loss(loss));
    parts.join(", ")
}

/// The time of threads, in nanoseconds, by what they did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Activity {
    /// On a CPU.
    pub running: u64,
    /// Ready to run.
    pub runnable: u64,
    /// Blocked in a call other than those in which event loops wait.
    pub blocked: u64,
    /// Waiting for events: blocked in a call in which event loops wait.
    pub waiting: u64,
    /// Unknown, because context switches were lost.
    pub unknown: u64,
}

impl Activity {
    /// Returns the sum of all times.
    pub fn total(&self) -> u64 {
        let Self { running, runnable, blocked, waiting, unknown } = *self;
        [running, runnable, blocked, waiting, unknown].into_iter().fold(0, u64::saturating_add)
    }
}

/// Describes a profile of thread time in one line, as [`subtitle`] does for other profiles.
pub fn subtitle_of_time(summary: &Summary<'_>, activity: &Activity) -> String {
    let total = activity.total();
    let Activity { running, runnable, blocked, waiting, unknown } = *activity;
    let parts = [
        ("running", running),
        ("runnable", runnable),
        ("blocked", blocked),
        ("waiting for events", waiting),
        ("unknown", unknown),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(_, time)| *time > 0)
        .map(|(what, time)| format!("{} {what}", percent_text(time, total)))
        .collect();
    let seconds = total as f64 / 1e9;
    let mut all = vec![format!("{seconds:.3} s of {}: {}", summary.event, parts.join(" + "))];
    all.push(lost(summary.loss));
    let census = summary.census;
    if census.truncated > 0 {
        all.push(counted(census.truncated, "stack truncated", "stacks truncated"));
    }
    all.push(format!("{} of frames without a name", percent_text(census.nameless, census.frames)));
    all.extend(other_loss(summary.loss));
    all.extend_from_slice(summary.estimates);
    all.join(", ")
}

/// Describes the frames without names: a line for each reason and remedy, with the modules that share both, the most
/// frequent first. `remedy` returns what helps against a reason.
pub fn nameless(census: &Census, remedy: impl Fn(&Nameless) -> Option<String>) -> Vec<String> {
    struct Cause<'c> {
        cause: String,
        remedy: Option<String>,
        modules: Vec<&'c Nameless>,
    }
    let mut causes: Vec<Cause<'_>> = Vec::new();
    for nameless in &census.reasons {
        let (cause, remedy) = (cause(&nameless.reason), remedy(nameless));
        match causes.iter_mut().find(|known| known.cause == cause && known.remedy == remedy) {
            Some(known) => known.modules.push(nameless),
            None => causes.push(Cause { cause, remedy, modules: vec![nameless] }),
        }
    }
    let frames = |modules: &[&Nameless]| modules.iter().map(|nameless| nameless.frames).sum::<u64>();
    causes.sort_by_key(|cause| std::cmp::Reverse(frames(&cause.modules)));
    let line = |Cause { cause, remedy, modules }: Cause<'_>| {
        let frames = frames(&modules);
        let count = counted(frames, "frame", "frames");
        let share = percent_text(frames, census.frames);
        // The reason may name the file: it is printed whole if there is one module only.
        let (modules, cause) = match modules.as_slice() {
            [only] => (module_name(only), only.reason.to_string()),
            several => (named_modules(several), cause),
        };
        let remedy = remedy.map_or_else(String::new, |remedy| format!("; try {remedy}"));
        format!("{modules}: {count} ({share}) without a name: {cause}{remedy}")
    };
    causes.into_iter().map(line).collect()
}

/// Returns a reason without the parts that differ from file to file.
fn cause(reason: &Reason) -> String {
    match reason {
        Reason::BuildIdDiffers { .. } => "file has another build id than recorded".to_owned(),
        other => other.to_string(),
    }
}

fn module_name(nameless: &Nameless) -> String {
    nameless.module.as_ref().map_or_else(|| "no module".to_owned(), ToString::to_string)
}

/// Lists the first of several modules with their frames, and how many more there are.
fn named_modules(modules: &[&Nameless]) -> String {
    const MAX_LISTED: usize = 4;
    let named = |nameless: &&Nameless| format!("{} ({})", module_name(nameless), grouped(nameless.frames));
    let first = modules.iter().take(MAX_LISTED).map(named).collect::<Vec<_>>().join(", ");
    match modules.len().saturating_sub(MAX_LISTED) {
        0 => first,
        1 => format!("{first} and another"),
        others => format!("{first} and {others} others"),
    }
}

/// Describes how many samples were lost: `0 lost`, `at least 5 lost`, `unknown lost`.
pub fn lost(loss: &Loss) -> String {
    match (loss.samples, loss.unread) {
        (0, 1..) => "unknown lost".to_owned(),
        (samples, 0) => format!("{} lost", grouped(samples)),
        (samples, _) => format!("at least {} lost", grouped(samples)),
    }
}

/// Describes all losses in one line; empty if nothing was lost.
pub fn losses(loss: &Loss) -> String {
    let samples = match (loss.samples, loss.unread) {
        (0, 0) => None,
        (0, _) => Some("an unknown number of samples lost".to_owned()),
        (samples, 0) => Some(counted(samples, "sample lost", "samples lost")),
        (samples, _) => Some(format!("at least {}", counted(samples, "sample lost", "samples lost"))),
    };
    samples.into_iter().chain(other_loss(loss)).collect::<Vec<_>>().join(", ")
}

/// Describes each kind of loss other than lost samples.
fn other_loss(loss: &Loss) -> impl Iterator<Item = String> {
    // Destructured so that a new field cannot be forgotten here.
    let Loss {
        samples: _,
        unread: _,
        sideband,
        throttles,
        undecodable,
        unknown_records,
        unattributed,
        cut_bytes,
        out_of_order,
        unfollowed,
    } = *loss;
    [
        (sideband, "mapping or name record lost", "mapping or name records lost"),
        (throttles, "time throttled", "times throttled"),
        (undecodable, "record undecodable", "records undecodable"),
        (unknown_records, "record of unknown type", "records of unknown types"),
        (unattributed, "record of an undescribed event", "records of undescribed events"),
        (cut_bytes, "byte cut off at the end", "bytes cut off at the end"),
        (out_of_order, "record out of order", "records out of order"),
        (
            unfollowed,
            "process not recorded from its exec of a program with more rights on",
            "processes not recorded from their execs of programs with more rights on",
        ),
    ]
    .into_iter()
    .filter(|&(count, _, _)| count > 0)
    .map(|(count, one, many)| counted(count, one, many))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{BuildId, Name, SpaceId};

    #[test]
    fn the_subtitle_says_what_is_missing() {
        let census = Census {
            frames: 100_000,
            nameless: 1,
            truncated: 1,
            reasons: vec![Nameless {
                module: Some(Name::from("libx.so")),
                reason: Reason::FileMissing,
                space: SpaceId(0),
                frames: 1,
            }],
        };
        let loss = Loss { samples: 1234, cut_bytes: 7, ..Loss::default() };
        let total = Count { samples: 1_234_567, period: 1_000 };
        let remedies = [String::from("libx.so: `--symfs DIR`")];
        let summary = Summary {
            event: "cpu-clock",
            total,
            unsampled: 0,
            weight: Weight::Samples,
            loss: &loss,
            census: &census,
            remedies: &remedies,
            estimates: &[],
            foreign_unit: None,
        };
        assert_eq!(
            subtitle(&summary),
            "1,234,567 samples of cpu-clock, 1,234 lost, 1 stack truncated, < 0.1 % of frames without a name \
             (libx.so: `--symfs DIR`), 7 bytes cut off at the end"
        );
        assert_eq!(nameless(&census, |_| None), ["libx.so: 1 frame (< 0.1 %) without a name: file is gone"]);
        let with_time = Summary { unsampled: 1_234_567, remedies: &[], ..summary };
        assert!(subtitle(&with_time).contains("1,234 lost, 50.0 % of the CPU time not sampled, 1 stack"));
        let short = [String::from("55 % of the CPU time not sampled")];
        let with_estimate = Summary { estimates: &short, remedies: &[], ..summary };
        assert!(subtitle(&with_estimate).contains("1,234 lost, 55 % of the CPU time not sampled, 1 stack"));
        let long = [remedies[0].clone(), "y".repeat(SUBTITLE_COLUMNS / 2)];
        let with_long = Summary { remedies: &long, ..summary };
        assert_eq!(subtitle(&with_long), subtitle(&summary), "what has no room is left out");
        let whole = Summary { weight: Weight::Period, loss: &Loss::default(), remedies: &[], ..summary };
        assert_eq!(
            subtitle(&whole),
            "1,234,567 samples of cpu-clock, weighted by period (sum 1,000), 0 lost, 1 stack truncated, \
             < 0.1 % of frames without a name"
        );
    }

    #[test]
    fn modules_that_share_a_cause_share_a_line() {
        let differs =
            |id: &str| Reason::BuildIdDiffers { recorded: BuildId::from_hex(id).unwrap(), found: None };
        let of = |(module, reason, frames): (&str, Reason, u64)| Nameless {
            module: Some(Name::from(module)),
            reason,
            space: SpaceId(0),
            frames,
        };
        let reasons = [
            ("a.so", Reason::FileMissing, 30),
            ("b.so", differs("aabbccdd"), 20),
            ("c.so", Reason::FileMissing, 10),
            ("d.so", differs("11223344"), 5),
            ("e.so", Reason::NoSymbols, 1),
        ];
        let census = Census { frames: 100, nameless: 66, truncated: 0, reasons: reasons.map(of).to_vec() };
        let remedy =
            |nameless: &Nameless| (nameless.reason == Reason::FileMissing).then(|| "`--symfs`".to_owned());
        assert_eq!(
            nameless(&census, remedy),
            [
                "a.so (30), c.so (10): 40 frames (40.0 %) without a name: file is gone; try `--symfs`",
                "b.so (20), d.so (5): 25 frames (25.0 %) without a name: file has another build id than recorded",
                "e.so: 1 frame (1.0 %) without a name: no symbol table and no debug information",
            ]
        );
    }
}
