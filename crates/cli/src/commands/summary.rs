//! The summary of `prof record`: one line, and one for each problem.

use std::path::Path;
use std::time::Duration;

use analysis::Notices;
use analysis::rate_advice::{larger_ring, lower_rate, max_sample_rate};
use export::summary::{counted, grouped, lost};
use host::sys::clock;
use model::Harm;
use perfdata::sections::SWITCH_RECORDS;
use recorder::unwind::StackTotals;
use recorder::{OUTPUT_BUFFER_BYTES, Options, Summary};

use super::missing_samples::{self, in_words};
use super::stack_completeness;
use crate::console::Console;

/// Prints one line, and one for each problem. `output` is the file and its size, if the user gets one. `blocked_time` is how long the
/// recording waited for the destination.
pub fn print(
    summary: &Summary,
    (stacks, copy_sizes): &(StackTotals, Option<(u32, u32)>),
    options: &Options,
    output: Option<(&Path, u64)>,
    blocked_time: Duration,
    console: &Console,
) {
    // Records of switches are no samples.
    let sampling = summary.events.iter().filter(|event| !event.sideband && event.name != SWITCH_RECORDS);
    let events: Vec<String> = sampling.map(rate_and_name).collect();
    console.say(&format!(
        "{} ({}, {}, {:.1} s), {}{}{}",
        counted(summary.samples, "sample", "samples"),
        events.join(", "),
        counted(summary.cpus as u64, "CPU", "CPUs"),
        summary.duration.as_secs_f64(),
        lost(&summary.loss),
        stack_completeness::completeness(stacks, *copy_sizes),
        output.map(|(path, size)| format!(" → {} ({})", path.display(), bytes(size))).unwrap_or_default(),
    ));
    stack_completeness::report_truncation(stacks, *copy_sizes, options, console);
    console
        .detail(&own_cpu_time(clock::cpu_time_of_this_process(), summary.cpu_time.map(|time| time.total())));
    let loss = &summary.loss;
    if loss.samples > 0 {
        let share = 100.0 * loss.samples as f64 / (loss.samples + summary.samples).max(1) as f64;
        let cause = if blocked_time.is_zero() {
            let larger = larger_ring(options.ring_size).map(|flag| format!("a larger ring ({flag}) or "));
            format!("the rings were full; try {}a lower rate (-F)", larger.unwrap_or_default())
        } else {
            format!(
                "the output was slow, its buffer of {} MiB full for {:.1} s; try another disk (-o), -z, or a lower \
                 rate (-F)",
                OUTPUT_BUFFER_BYTES >> 20,
                blocked_time.as_secs_f64()
            )
        };
        console.warn(Harm::Samples, &format!("{share:.1} % of the samples were lost: {cause}"));
    }
    if loss.unread > 0 {
        let counts = counted(loss.unread, "count", "counts");
        console.warn(
            Harm::Samples,
            &format!("{counts} of lost samples could not be read (before Linux 6.0): more may be missing"),
        );
    }
    if loss.undecodable > 0 {
        let records = counted(loss.undecodable, "sample", "samples");
        console.warn(
            Harm::Samples,
            &format!(
                "{records} could not be decoded and are omitted; please report this with the output of -vv"
            ),
        );
    }
    if loss.sideband > 0 {
        let records = counted(loss.sideband, "record", "records");
        console.warn(
            Harm::Names,
            &format!("{records} about processes and mappings were lost: names may be missing"),
        );
    }
    if loss.throttles > 0 {
        let times = counted(loss.throttles, "time", "times");
        let spans = summary.coverage.circumstances.throttled.as_secs_f64();
        let sampled = summary.events.iter().find(|event| !event.sideband);
        let advice = in_words(sampled.map(|event| lower_rate(&event.attr, max_sample_rate())));
        console.warn(Harm::Samples, &format!(
            "the kernel throttled the events {times}: {spans:.2} s of all CPUs together are not sampled{advice}"
        ));
    }
    if loss.cut_bytes > 0 {
        let bytes = counted(loss.cut_bytes, "byte", "bytes");
        console.warn(Harm::Samples, &format!("{bytes} from the rings belong to no complete record"));
    }
    missing_samples::report(summary, options, console);
}

/// Returns a sentence on the CPU time that recording took, also relative to the command.
fn own_cpu_time(own: Duration, command: Option<Duration>) -> String {
    let share = command.filter(|time| !time.is_zero()).map(|time| {
        let percent = 100.0 * own.as_secs_f64() / time.as_secs_f64();
        format!(", {percent:.1} % of the command's {:.1} s", time.as_secs_f64())
    });
    format!("own CPU time {} ms{}", own.as_millis(), share.unwrap_or_default())
}

/// Formats rate and name of an event: `997 Hz cpu-clock`, `every 100 page-faults`.
fn rate_and_name(event: &recorder::RecordedEvent) -> String {
    match (event.attr.is_frequency(), event.attr.sample_period) {
        (true, hertz) => format!("{} Hz {}", grouped(hertz), event.name),
        // A group member that is read with the samples of its leader has no period.
        (false, 0) => event.name.clone(),
        (false, 1) => format!("every {}", event.name),
        (false, period) => format!("every {} {}", grouped(period), event.name),
    }
}

/// Formats a size: `1.2 MB`.
pub(super) fn bytes(size: u64) -> String {
    let size = size as f64;
    match size {
        _ if size >= 1e9 => format!("{:.1} GB", size / 1e9),
        _ if size >= 1e6 => format!("{:.1} MB", size / 1e6),
        _ => format!("{:.0} kB", (size / 1e3).ceil()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_cpu_time_is_held_against_that_of_the_command() {
        let own = Duration::from_micros(92_400);
        let beside = |command| own_cpu_time(own, command);
        assert_eq!(
            beside(Some(Duration::from_millis(9_900))),
            "own CPU time 92 ms, 0.9 % of the command's 9.9 s"
        );
        assert_eq!(beside(Some(Duration::ZERO)), "own CPU time 92 ms");
        assert_eq!(beside(None), "own CPU time 92 ms");
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([0, 999, 1000, 12_345, 1_234_567].map(grouped).join(" "), "0 999 1,000 12,345 1,234,567");
        assert_eq!([1, 999_999, 1_200_000, 3_000_000_000].map(bytes).join(" "), "1 kB 1000 kB 1.2 MB 3.0 GB");
    }
}
