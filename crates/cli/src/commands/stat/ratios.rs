//! Ratios of counts: instructions per cycle, misses per reference, rates.

use std::time::Duration;

use decoder::{Attr, AttrFlags};
use recorder::counting::CountedEvent;

use super::count_table::{CountCell, CountTable};

const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
const CACHE: u32 = 3;
/// `enum perf_hw_id`.
const CYCLES: u64 = 0;
const INSTRUCTIONS: u64 = 1;
const REFERENCES: u64 = 2;
const MISSES: u64 = 3;
const BRANCHES: u64 = 4;
const BRANCH_MISSES: u64 = 5;
const STALLED_FRONTEND: u64 = 7;
const STALLED_BACKEND: u64 = 8;
/// `PERF_COUNT_HW_CACHE_RESULT_MISS`, shifted to its position in `config`.
const CACHE_MISS: u64 = 1 << 16;
/// The bits of `config` that select the event. On hybrid machines, the upper half is the type of the PMU.
const EVENT: u64 = u32::MAX as u64;

/// A ratio with its unit.
#[derive(Clone, PartialEq, Debug)]
pub struct Ratio {
    /// The value.
    pub value: f64,
    /// The unit: `insn per cycle`, `CPUs utilized`.
    pub unit: String,
}

/// Returns true if the event counts nanoseconds.
pub fn is_clock(event: &CountedEvent) -> bool {
    event.attr.kind == SOFTWARE && event.attr.config <= 1
}

/// Returns the ratio of the count of `cell` to a related count of the same row, or its rate, for a run of `elapsed`.
pub fn ratio(
    events: &[CountedEvent],
    table: &CountTable,
    cell: &CountCell,
    elapsed: Duration,
) -> Option<Ratio> {
    let event = events.get(cell.event)?;
    let attr = &event.attr;
    let value = cell.mean()?;
    let other = |kind: u32, config: u64| {
        let wanted = |other: &Attr| {
            let pmu = if kind == attr.kind { attr.config & !EVENT } else { 0 };
            (other.kind, other.config) == (kind, config | pmu) && levels(other) == levels(attr)
        };
        let mut found = table
            .with_label(&cell.label)
            .iter()
            .filter(|other| events.get(other.event).is_some_and(|event| wanted(&event.attr)));
        found.find_map(CountCell::mean).filter(|value| *value > 0.0)
    };
    let share =
        |of: Option<f64>, unit: &str| Some(Ratio { value: 100.0 * value / of?, unit: unit.to_owned() });
    let clock = || {
        let mut clocks = table
            .with_label(&cell.label)
            .iter()
            .filter(|other| events.get(other.event).is_some_and(is_clock));
        clocks.find_map(CountCell::mean).filter(|nanoseconds| *nanoseconds > 0.0)
    };
    let config = attr.config & EVENT;
    match attr.kind {
        SOFTWARE if is_clock(event) => {
            let elapsed = elapsed.as_nanos() as f64;
            (elapsed > 0.0).then(|| Ratio { value: value / elapsed, unit: "CPUs utilized".to_owned() })
        }
        HARDWARE if config == CYCLES => Some(Ratio { value: value / clock()?, unit: "GHz".to_owned() }),
        HARDWARE if config == INSTRUCTIONS => {
            Some(Ratio { value: value / other(HARDWARE, CYCLES)?, unit: "insn per cycle".to_owned() })
        }
        HARDWARE if config == BRANCH_MISSES => share(other(HARDWARE, BRANCHES), "% of all branches"),
        HARDWARE if config == MISSES => share(other(HARDWARE, REFERENCES), "% of all cache refs"),
        HARDWARE if config == STALLED_FRONTEND => share(other(HARDWARE, CYCLES), "% frontend cycles idle"),
        HARDWARE if config == STALLED_BACKEND => share(other(HARDWARE, CYCLES), "% backend cycles idle"),
        CACHE if config & CACHE_MISS != 0 => share(other(CACHE, config - CACHE_MISS), "% of all accesses"),
        // Counts with a unit of their own, and snapshots, have no rate.
        _ if !event.measure.unit.is_empty() || event.measure.snapshot => None,
        _ => Some(rate(value / clock()? * 1e9)),
    }
}

/// Returns a rate per second with a metric prefix.
fn rate(per_second: f64) -> Ratio {
    let (value, letter) = match per_second {
        rate if rate >= 1e9 => (rate / 1e9, "G"),
        rate if rate >= 1e6 => (rate / 1e6, "M"),
        rate if rate >= 1e3 => (rate / 1e3, "K"),
        rate => (rate, ""),
    };
    Ratio { value, unit: format!("{letter}/sec") }
}

/// Returns the flags that exclude privilege levels.
fn levels(attr: &Attr) -> AttrFlags {
    attr.flags & (AttrFlags::EXCLUDE_USER | AttrFlags::EXCLUDE_KERNEL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::stat::count_table::RowLabel;
    use recorder::counting::Reading;
    use recorder::event::{Measure, select};

    fn ratios(list: &str, values: &[u64]) -> Vec<Option<(f64, String)>> {
        let events: Vec<CountedEvent> = select(list, &Vec::new())
            .unwrap()
            .into_iter()
            .map(|event| CountedEvent {
                attr: Attr { flags: event.modifiers.flags(), ..event.attr },
                name: event.name,
                measure: Measure::default(),
                leader: None,
                absent: None,
            })
            .collect();
        let cell = |(event, value): (usize, &u64)| CountCell {
            event,
            label: RowLabel::All,
            cpus: 1,
            values: vec![*value],
            reading: Reading::default(),
            uncounted: None,
        };
        let table = CountTable { cells: values.iter().enumerate().map(cell).collect() };
        let of = |cell| {
            ratio(&events, &table, cell, Duration::from_secs(2)).map(|ratio| (ratio.value, ratio.unit))
        };
        table.cells.iter().map(of).collect()
    }

    fn shown(list: &str, values: &[u64]) -> Vec<String> {
        let show =
            |ratio: Option<(f64, String)>| ratio.map_or("-".to_owned(), |(v, unit)| format!("{v:.2} {unit}"));
        ratios(list, values).into_iter().map(show).collect()
    }

    #[test]
    fn the_usual_pairs() {
        let list = "task-clock,cycles,instructions,branches,branch-misses,cache-references,cache-misses,cs";
        let values = [1_000_000_000, 3_000_000_000, 6_000_000_000, 500_000_000, 5_000_000, 1_000, 250, 20];
        assert_eq!(
            shown(list, &values),
            [
                "0.50 CPUs utilized",
                "3.00 GHz",
                "2.00 insn per cycle",
                "500.00 M/sec",
                "1.00 % of all branches",
                "1.00 K/sec",
                "25.00 % of all cache refs",
                "20.00 /sec"
            ]
        );
        assert_eq!(
            shown("L1-dcache-loads,L1-dcache-load-misses", &[200, 10]),
            ["-", "5.00 % of all accesses"]
        );
    }

    #[test]
    fn what_differs_in_its_level_is_no_pair() {
        assert_eq!(shown("cycles:u,instructions:k", &[10, 20]), ["-", "-"]);
        assert_eq!(shown("cycles:u,instructions:u", &[10, 20]), ["-", "2.00 insn per cycle"]);
        assert_eq!(shown("cycles,instructions", &[0, 20]), ["-", "-"], "nothing is divided by 0");
    }
}
