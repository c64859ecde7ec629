//! A table of counts: one cell per event and row label, with the value of each run.

use std::path::Path;

use host::topology::{self, Processors};
use model::{CpuId, Name};
use recorder::counting::{Count, CountedEvent, IntervalCounts, Reading, Uncounted};

use super::StatArguments;

/// The grouping of counts into rows.
pub enum Grouping {
    /// One row per CPU of the counts, or one for all.
    Own,
    /// One row per core (`cores`) or per socket.
    Shared { cores: bool, processors: Option<Processors> },
}

/// The label of a row.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RowLabel {
    /// All counts.
    All,
    /// A CPU.
    Cpu(u32),
    /// A core: socket, die, and number.
    Core(u32, u32, u32),
    /// A socket.
    Socket(u32),
}

/// The counts of an event in one row.
pub struct CountCell {
    /// The index of the event in the list of events.
    pub event: usize,
    /// The label of the row.
    pub label: RowLabel,
    /// The number of CPUs whose counts are summed.
    pub cpus: usize,
    /// The scaled counts of the runs that have one.
    pub values: Vec<u64>,
    /// The sum of the readings of all runs.
    pub reading: Reading,
    /// The reason why a run has no count.
    pub uncounted: Option<Uncounted>,
}

/// The table of all counts.
#[derive(Default)]
pub struct CountTable {
    /// Sorted by label, then by event.
    pub cells: Vec<CountCell>,
}

impl Grouping {
    /// Returns the grouping that the arguments request.
    pub fn from_arguments(arguments: &StatArguments) -> Self {
        if !arguments.per_core && !arguments.per_socket {
            return Self::Own;
        }
        let online = host::sysfs::online_cpus().unwrap_or_default();
        let count = online.iter().map(|cpu| cpu.0 + 1).max().unwrap_or(0);
        let processors = topology::processors(Path::new(topology::SYSTEM), count);
        Self::Shared { cores: arguments.per_core, processors }
    }

    fn label(&self, count: &Count) -> RowLabel {
        let Some(CpuId(cpu)) = count.cpu else { return RowLabel::All };
        match self {
            Self::Own => RowLabel::Cpu(cpu),
            Self::Shared { cores, processors } => {
                let place = processors
                    .as_ref()
                    .and_then(|known| known.locations.get(cpu as usize).copied().flatten());
                match place {
                    Some(place) if *cores => RowLabel::Core(place.socket, place.die, place.core),
                    Some(place) => RowLabel::Socket(place.socket),
                    // Without topology, every CPU counts as a core of one socket.
                    None if *cores => RowLabel::Core(0, 0, cpu),
                    None => RowLabel::Socket(0),
                }
            }
        }
    }
}

impl RowLabel {
    /// Formats the label as perf does; empty for all counts.
    pub fn text(&self) -> String {
        match self {
            Self::All => String::new(),
            Self::Cpu(cpu) => format!("CPU{cpu}"),
            Self::Core(socket, die, core) => format!("S{socket}-D{die}-C{core}"),
            Self::Socket(socket) => format!("S{socket}"),
        }
    }
}

impl CountTable {
    /// Creates the table of one interval.
    pub fn from_interval(sheet: &IntervalCounts<'_>, grouping: &Grouping) -> Self {
        let mut table = Self::default();
        table.add_run(sheet.events, sheet.counts.clone(), grouping);
        table
    }

    /// Adds the counts of a run.
    pub fn add_run(&mut self, events: &[CountedEvent], counts: Vec<Count>, grouping: &Grouping) {
        let mut run: Vec<(RowLabel, Count, usize)> = Vec::new();
        let mut known = std::collections::HashMap::new();
        for count in counts {
            let label = grouping.label(&count);
            let next = run.len();
            let index = *known.entry((count.event, label.clone())).or_insert(next);
            match run.get_mut(index) {
                Some((_, sum, cpus)) => {
                    sum.reading = sum.reading.plus(&count.reading);
                    sum.unreadable |= count.unreadable;
                    *cpus += 1;
                }
                None => run.push((label, count, 1)),
            }
        }
        let before = self.cells.len();
        for (label, count, cpus) in run {
            let event = events.get(count.event);
            let uncounted = event.and_then(|event| event.uncounted(&count.reading, count.unreadable));
            let value = count.reading.scaled().filter(|_| uncounted.is_none());
            let known = self.cells.get(..before).unwrap_or(&[]);
            let known = known.binary_search_by(|cell| (&cell.label, cell.event).cmp(&(&label, count.event)));
            match known.ok().and_then(|known| self.cells.get_mut(known)) {
                Some(cell) => {
                    cell.values.extend(value);
                    cell.reading = cell.reading.plus(&count.reading);
                    cell.uncounted = cell.uncounted.take().or(uncounted);
                }
                None => self.cells.push(CountCell {
                    event: count.event,
                    label,
                    cpus,
                    values: value.into_iter().collect(),
                    reading: count.reading,
                    uncounted,
                }),
            }
        }
        self.cells.sort_by(|a, b| (&a.label, a.event).cmp(&(&b.label, b.event)));
    }

    /// Returns the cells of one row, in the order of events.
    pub fn with_label(&self, label: &RowLabel) -> &[CountCell] {
        let start = self.cells.partition_point(|cell| cell.label < *label);
        let end = self.cells.partition_point(|cell| cell.label <= *label);
        self.cells.get(start..end).unwrap_or(&[])
    }

    /// Returns a sentence for each reason why events have no count.
    pub fn causes(&self, events: &[CountedEvent]) -> Vec<String> {
        let mut causes: Vec<(&Uncounted, Vec<&str>)> = Vec::new();
        for cell in &self.cells {
            let (Some(cause), Some(event)) = (&cell.uncounted, events.get(cell.event)) else { continue };
            // If nothing ran in one of many rows, the row itself says so.
            if *cause == Uncounted::NeverRan && cell.label != RowLabel::All {
                continue;
            }
            let index = causes.iter().position(|(known, _)| *known == cause).unwrap_or_else(|| {
                causes.push((cause, Vec::new()));
                causes.len() - 1
            });
            if let Some((_, names)) = causes.get_mut(index)
                && !names.contains(&event.name.as_str())
            {
                names.push(&event.name);
            }
        }
        let sentence = |(cause, names): &(&Uncounted, Vec<&str>)| {
            format!("not counted: {}: {cause}", Name::from(names.join(", ").as_str()))
        };
        causes.iter().map(sentence).collect()
    }
}

impl CountCell {
    /// Returns the mean over all runs.
    pub fn mean(&self) -> Option<f64> {
        let sum: f64 = self.values.iter().map(|value| *value as f64).sum();
        (!self.values.is_empty()).then(|| sum / self.values.len() as f64)
    }

    /// Returns the median over all runs.
    pub fn median(&self) -> Option<f64> {
        let mut sorted = self.values.clone();
        sorted.sort_unstable();
        let upper = *sorted.get(sorted.len() / 2)? as f64;
        let lower = *sorted.get(sorted.len().saturating_sub(1) / 2)? as f64;
        Some(lower.midpoint(upper))
    }

    /// Returns the standard deviation over all runs; `None` for fewer than two.
    pub fn deviation(&self) -> Option<f64> {
        deviation(self.values.iter().map(|value| *value as f64))
    }

    /// Returns the standard error of the mean as a fraction of the mean, as perf shows it.
    pub fn spread(&self) -> Option<f64> {
        let mean = self.mean().filter(|mean| *mean > 0.0)?;
        Some(self.deviation()? / (self.values.len() as f64).sqrt() / mean)
    }
}

/// Returns the standard deviation of values; `None` for fewer than two.
pub fn deviation(values: impl Iterator<Item = f64> + Clone) -> Option<f64> {
    let count = values.clone().count();
    if count < 2 {
        return None;
    }
    let mean = values.clone().sum::<f64>() / count as f64;
    let squares: f64 = values.map(|value| (value - mean).powi(2)).sum();
    Some((squares / (count - 1) as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(values: &[u64]) -> CountCell {
        let reading = Reading::default();
        CountCell {
            event: 0,
            label: RowLabel::All,
            cpus: 1,
            values: values.to_vec(),
            reading,
            uncounted: None,
        }
    }

    #[test]
    fn statistics_over_runs() {
        let odd = cell(&[30, 10, 20]);
        assert_eq!((odd.mean(), odd.median()), (Some(20.0), Some(20.0)));
        assert_eq!(odd.deviation(), Some(10.0));
        assert!((odd.spread().unwrap() - 10.0 / 3.0_f64.sqrt() / 20.0).abs() < 1e-12);
        assert_eq!(cell(&[1, 2, 3, 10]).median(), Some(2.5));
        let one = cell(&[7]);
        assert_eq!(
            (one.mean(), one.median(), one.deviation(), one.spread()),
            (Some(7.0), Some(7.0), None, None)
        );
        assert_eq!((cell(&[]).mean(), cell(&[]).median(), cell(&[0, 0]).spread()), (None, None, None));
    }

    #[test]
    fn cpus_are_added_up_by_what_they_share() {
        let place = |core, socket| Some(topology::CpuLocation { core, die: 0, socket });
        let processors = Some(Processors {
            locations: vec![place(0, 0), place(0, 0), place(0, 1), None],
            ..Processors::default()
        });
        let count = |cpu, value| Count {
            event: 0,
            cpu: Some(CpuId(cpu)),
            reading: Reading { value, enabled_ns: 10, running_ns: 5 },
            unreadable: false,
        };
        let event = CountedEvent {
            name: "cs".to_owned(),
            attr: decoder::Attr::default(),
            measure: recorder::event::Measure::default(),
            leader: None,
            absent: None,
        };
        let mut table = CountTable::default();
        let grouping = Grouping::Shared { cores: true, processors };
        table.add_run(&[event], vec![count(0, 1), count(1, 2), count(2, 4), count(3, 8)], &grouping);
        let cells: Vec<_> =
            table.cells.iter().map(|cell| (cell.label.text(), cell.cpus, cell.values.clone())).collect();
        let expected = [
            ("S0-D0-C0".to_owned(), 2, vec![6]),
            ("S0-D0-C3".to_owned(), 1, vec![16]),
            ("S1-D0-C0".to_owned(), 1, vec![8]),
        ];
        assert_eq!(cells, expected);
    }
}
