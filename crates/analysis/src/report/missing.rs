//! Says how many samples are missing, and why.

use export::summary::grouped;
use model::{MissingSamples, Shortfall};
use perfdata::{Description, Event, sections};
use profile::{Count, Profile};

use crate::waits::Estimate;

/// Returns a sentence on the share of missing samples of an event and the reason.
pub fn missing_share(event: &str, is_clock: bool, missing: &MissingSamples) -> String {
    let period = match is_clock {
        true => format!("{} ms", milliseconds(missing.period)),
        false => format!("{} {event}", grouped(missing.period)),
    };
    format!(
        "{:.0} % of {} has no samples (about {} of {}): {}",
        missing.percent(),
        if is_clock { "the CPU time" } else { event },
        grouped(missing.missing),
        grouped(missing.due),
        missing.reason.in_words(&period)
    )
}

/// Formats nanoseconds as milliseconds, with the digits that tell small periods apart.
fn milliseconds(nanoseconds: u64) -> String {
    let milliseconds = nanoseconds as f64 / 1e6;
    if milliseconds < 0.1 { format!("{milliseconds:.3}") } else { format!("{milliseconds:.1}") }
}

/// Returns what is known of missing samples of the event at `index`: by the recorder, of a profile of all its samples (`is_whole`), or by
/// the CPU time that clocks have reported. `lost` samples of all events are known to be lost.
pub(crate) fn of_event(
    recording: &Description,
    index: usize,
    event: &Event,
    profile: &Profile,
    is_whole: bool,
    lost: u64,
) -> Option<Estimate> {
    let section = recording.features().section(sections::id::MISSING_SAMPLES).filter(|_| is_whole);
    let all = section.map(|section| sections::missing_samples::from_section(section, recording.endian()));
    let recorded = all.into_iter().flatten().find(|missing| usize::try_from(missing.event) == Ok(index));
    let missing = recorded.or_else(|| reported(profile, lost))?;
    let (name, is_clock) = (event.name.to_string(), event.attr.is_cpu_clock());
    let what = if is_clock { "the CPU time" } else { &name };
    let is_drawn = !profile.unsampled().is_empty();
    let brief =
        if is_drawn { String::new() } else { format!("{:.0} % of {what} not sampled", missing.percent()) };
    Some(Estimate { brief, sentence: missing_share(&name, is_clock, &missing) })
}

/// Returns the samples that the reported CPU time lacks, if it is a large share.
fn reported(profile: &Profile, lost: u64) -> Option<MissingSamples> {
    let Count { samples, period } = profile.total();
    let missing = profile.unsampled().iter().map(|(_, due)| due.samples).fold(0, u64::saturating_add);
    let due = samples.saturating_add(missing);
    let period = period.checked_div(samples)?;
    let is_most = lost > 0 && lost.saturating_mul(2) >= missing;
    let reason = if is_most { Shortfall::Losses } else { Shortfall::ShortLives };
    (missing > 0).then_some(MissingSamples { event: 0, due, missing, period, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_says_how_many_and_why() {
        let missing = |period, reason| MissingSamples { event: 0, due: 680, missing: 277, period, reason };
        assert_eq!(
            missing_share("cpu-clock", true, &missing(1_003_009, Shortfall::ShortLives)),
            "41 % of the CPU time has no samples (about 277 of 680): threads that end within 1.0 ms have none"
        );
        assert_eq!(
            missing_share("page-faults", false, &missing(1_000, Shortfall::ShortLives)),
            "41 % of page-faults has no samples (about 277 of 680): threads that end within 1,000 page-faults have \
             none"
        );
        let shown = missing_share("cpu-clock", true, &missing(20_000, Shortfall::ShortRuns));
        assert!(shown.contains("threads lack their last 0.020 ms on each CPU"), "{shown}");
    }
}
