//! How complete the recorded stacks are, and why some end early.

use std::path::Path;

use analysis::Notices;
use analysis::advice::{StackFacts, cut_stacks_in_words};
use analysis::hints::MIN_SHARE;
use decoder::MAX_STACK_COPY_BYTES;
use export::summary::counted;
use host::sys::system;
use model::{Harm, TruncationReason};
use recorder::Options;
use recorder::unwind::StackTotals;

use crate::console::Console;

/// Returns `, stacks 99.8 % complete (copies of 4 to 64 KiB)` for the summary. `sizes` are the smallest and the largest copy,
/// in bytes.
pub fn completeness(totals: &StackTotals, sizes: Option<(u32, u32)>) -> String {
    totals.complete_percent().map_or(String::new(), |percent| {
        // 99.96 % must not be rounded to "100.0 %".
        let percent = if percent < 100.0 { percent.min(99.9) } else { percent };
        let kib = |size: u32| (f64::from(size) / 1024.0).round();
        let sizes = match sizes {
            None => String::new(),
            Some((smallest, largest)) if smallest == largest => format!(" (copies of {} KiB)", kib(largest)),
            Some((smallest, largest)) => format!(" (copies of {} to {} KiB)", kib(smallest), kib(largest)),
        };
        format!(", stacks {percent:.1} % complete{sizes}")
    })
}

/// Prints why stacks are incomplete: as problems if they are many, else as details. `sizes` are those of [`completeness`].
pub fn report_truncation(
    totals: &StackTotals,
    sizes: Option<(u32, u32)>,
    options: &Options,
    console: &Console,
) {
    let facts = StackFacts {
        copies_are_largest: sizes.is_some_and(|(smallest, _)| smallest >= MAX_STACK_COPY_BYTES),
        could_ask_jvm: could_ask_jvm(options),
        as_root: system::effective_user() == 0,
    };
    let all = totals.unwound().max(1) as f64;
    let percent = |count: u64| 100.0 * count as f64 / all;
    if totals.completed_beyond_copy > 0 {
        console.detail(&format!(
            "{:.1} % of the stacks were deeper than their copy and were completed from memory read later",
            percent(totals.completed_beyond_copy)
        ));
    }
    for reason in TruncationReason::ALL {
        let count = totals.truncated_by(reason);
        if count == 0 {
            continue;
        }
        let reason = match reason {
            TruncationReason::AddressLimit(_) => TruncationReason::AddressLimit(totals.address_limit),
            reason => reason,
        };
        let line = cut_stacks_in_words(reason, count, totals.unwound(), facts);
        if count as f64 >= MIN_SHARE * all {
            console.warn(Harm::Stacks, &line);
        } else {
            console.detail(&line);
        }
    }
    if totals.of_32_bits > 0 {
        console.warn(Harm::Stacks, &format!(
            "{} of 32-bit programs, unwound by frame pointers alone: functions without one have no callers",
            counted(totals.of_32_bits, "sample is", "samples are")
        ));
    }
}

/// Returns true if the command is a Java virtual machine that was not asked for anything.
fn could_ask_jvm(options: &Options) -> bool {
    let program = options.workload.as_ref().and_then(|workload| workload.words.first());
    let name = program.and_then(|program| Path::new(program).file_name());
    options.jvm_maps.is_none() && name.is_some_and(|name| name == "java")
}

#[cfg(test)]
mod tests {
    use super::*;
    use recorder::Workload;

    #[test]
    fn advice_depends_on_what_was_recorded_and_how() {
        let of = |word: &str| {
            let workload =
                Workload { words: vec![word.into()], environment: Vec::new(), output_to_stderr: false };
            Options::of_command(workload)
        };
        assert!(could_ask_jvm(&of("/usr/bin/java")) && !could_ask_jvm(&of("valgrind")));
        let asked = Options { jvm_maps: Some(recorder::JvmMapTiming::AtEnd), ..of("java") };
        assert!(!could_ask_jvm(&asked));
    }

    #[test]
    fn a_share_is_not_rounded_up_to_all() {
        let mut totals = StackTotals { complete: 9_999, ..StackTotals::default() };
        assert_eq!(
            completeness(&totals, Some((4096, 65_528))),
            ", stacks 100.0 % complete (copies of 4 to 64 KiB)"
        );
        totals.truncated[0] = 1;
        assert_eq!(
            completeness(&totals, Some((16_384, 16_384))),
            ", stacks 99.9 % complete (copies of 16 KiB)"
        );
        assert_eq!(completeness(&StackTotals::default(), None), "");
    }
}
