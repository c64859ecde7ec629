//! The two sides that are compared, as they were typed: recordings, folders of runs, or slices.

use std::path::{Path, PathBuf};

use analysis::comparable::Common;
use analysis::runs::{MANIFEST, Manifest, RecordedRun, RunSide};
use profile::comparison::Experiment;
use profile::comparison::statistics::Design;

use crate::arguments::SampleArguments;
use crate::console::Console;
use crate::input;

/// The forms of the command, for usage errors.
pub const FORMS: &str = "try: prof diff BEFORE AFTER, prof diff B1 B2 B3 -- A1 A2 A3, prof diff prof.runs, or prof diff REC --before \
                         'time=0,5' --after 'time=5,10'";

/// A side: its recordings, and the samples of them that count.
pub struct SideInput {
    /// The name of the side, as it was typed.
    pub name: String,
    pub recordings: Vec<PathBuf>,
    pub samples: SampleArguments,
}

impl SideInput {
    /// Leaves what the first of its profiles has as well. Errors are found again when it is read.
    pub fn narrow(&self, common: Common, console: &Console) -> Common {
        let first = self.recordings.first().filter(|path| path.as_os_str() != "-");
        let input = first.and_then(|path| input::open(Some(path), console).ok());
        input.map_or(common, |input| common.with(&input, self.samples.event.as_deref()))
    }
}

/// Both sides, and what is known of their runs.
pub struct Sides {
    pub inputs: [SideInput; 2],
    pub experiment: Experiment,
    /// Remarks on the runs.
    pub notes: Vec<String>,
}

/// An operand that was looked at.
enum Operand {
    Recording(PathBuf),
    Runs(PathBuf, Manifest),
}

impl Sides {
    /// Finds out what was typed. `separate` are the operands behind `--`.
    ///
    /// # Errors
    /// A sentence for a usage error.
    pub fn new(
        operands: &[PathBuf],
        separate: &[PathBuf],
        slices: [Option<&str>; 2],
        common: &SampleArguments,
    ) -> Result<Self, String> {
        let read =
            |paths: &[PathBuf]| paths.iter().map(|path| Operand::read(path)).collect::<Result<Vec<_>, _>>();
        if let Some(option) = separate.iter().find(|path| is_option(path)) {
            return Err(format!(
                "`{}` stands behind --, where the runs after the change are; try it before --",
                option.display()
            ));
        }
        let mut sides = match (operands, separate) {
            ([], _) => return Err(format!("two sides are compared; {FORMS}")),
            ([both], []) if slices.iter().all(Option::is_some) => match Operand::read(both)? {
                Operand::Recording(path) => Self::single([path.clone(), path], common),
                Operand::Runs(path, _) => return Err(slices_of_runs(&path)),
            },
            ([both], []) => match Operand::read(both)? {
                Operand::Runs(folder, manifest) => Self::of_folder(&folder, &manifest, common)?,
                Operand::Recording(path) => {
                    return Err(format!(
                        "{} is one recording, and nothing to compare it with; {FORMS}",
                        path.display()
                    ));
                }
            },
            ([before, after], []) => {
                Self::of_operands(vec![Operand::read(before)?], vec![Operand::read(after)?], common)?
            }
            (several, []) => {
                let names: Vec<String> = several.iter().map(|path| path.display().to_string()).collect();
                let (before, after) = names.split_at(names.len() / 2);
                return Err(format!(
                    "of more than two recordings, -- must say which are which; try: prof diff {} -- {}",
                    before.join(" "),
                    after.join(" ")
                ));
            }
            (before, after) => Self::of_operands(read(before)?, read(after)?, common)?,
        };
        for (side, slice) in sides.inputs.iter_mut().zip(slices) {
            if let Some(slice) = slice {
                side.samples = side.samples.with_slice(slice)?;
                side.name = format!("{} ({})", side.name, slice.trim());
            }
        }
        Ok(sides)
    }

    /// Returns true if each side is one recording or a slice of one.
    pub fn are_single(&self) -> bool {
        self.experiment.design.is_none()
    }

    fn single(paths: [PathBuf; 2], common: &SampleArguments) -> Self {
        let input = |path: PathBuf| SideInput {
            name: path.display().to_string(),
            recordings: vec![path],
            samples: common.clone(),
        };
        Self { inputs: paths.map(input), experiment: Experiment::default(), notes: Vec::new() }
    }

    fn of_operands(
        before: Vec<Operand>,
        after: Vec<Operand>,
        common: &SampleArguments,
    ) -> Result<Self, String> {
        let mut experiment = Experiment::default();
        let mut notes = Vec::new();
        let mut counts = Vec::new();
        let mut inputs = Vec::new();
        for (index, operands) in [before, after].into_iter().enumerate() {
            let (mut recordings, mut names) = (Vec::new(), Vec::new());
            // Figures beside the samples are known only if each run of a side has them.
            let mut runs: Vec<RecordedRun> = Vec::new();
            for operand in operands {
                match operand {
                    Operand::Recording(path) => {
                        names.push(path.display().to_string());
                        recordings.push(path);
                    }
                    Operand::Runs(folder, manifest) => {
                        if manifest.before.is_some() {
                            return Err(format!(
                                "{0} has runs of both sides; try: prof diff {0}",
                                folder.display()
                            ));
                        }
                        let of_folder = manifest.side(RunSide::After);
                        names.push(format!("{} ({} runs)", folder.display(), of_folder.len()));
                        recordings.extend(of_folder.iter().map(|run| folder.join(&run.file)));
                        runs.extend(of_folder.into_iter().cloned());
                    }
                }
            }
            if runs.len() == recordings.len() {
                let runs: Vec<&RecordedRun> = runs.iter().collect();
                experiment.wall[index] = walls(&runs);
                counts.push(runs.iter().map(|run| run.counts.clone()).collect::<Vec<_>>());
                notes.extend(failures(&runs, index));
            }
            let name = match names.as_slice() {
                [first, .., last] => format!("{first} … {last} ({} runs)", recordings.len()),
                _ => names.concat(),
            };
            inputs.push(SideInput { name, recordings, samples: common.clone() });
        }
        let [before, after] = <[SideInput; 2]>::try_from(inputs).map_err(|_| FORMS.to_owned())?;
        if let Some(side) = [&before, &after].into_iter().find(|side| side.recordings.is_empty()) {
            return Err(format!("{} has no runs; try: prof record --runs 10 -- COMMAND", side.name));
        }
        if before.recordings.len() > 1 || after.recordings.len() > 1 {
            experiment.design = Some(Design::Groups);
        }
        if let [before, after] = counts.as_slice() {
            experiment.counts = common_counts(before, after);
        }
        Ok(Self { inputs: [before, after], experiment, notes })
    }

    fn of_folder(folder: &Path, manifest: &Manifest, common: &SampleArguments) -> Result<Self, String> {
        let sides = [RunSide::Before, RunSide::After].map(|side| manifest.side(side));
        let name = folder.display();
        if sides[0].is_empty() {
            return Err(format!(
                "{name} has runs of one command only; try: prof record --runs {} --against 'BEFORE CMD' -- CMD, or prof diff \
                 {name} OTHER.runs",
                sides[1].len().max(10)
            ));
        }
        if sides[1].is_empty() {
            return Err(format!("{name} has no runs after the change; record it again"));
        }
        let design = if manifest.is_paired() { Design::Pairs } else { Design::Groups };
        let words = [manifest.before.clone().unwrap_or_default(), manifest.after.clone()];
        let mut notes = Vec::new();
        let input = |index: usize| SideInput {
            name: format!("{} ({} runs in {name})", words[index].join(" "), sides[index].len()),
            recordings: sides[index].iter().map(|run| folder.join(&run.file)).collect(),
            samples: common.clone(),
        };
        for (index, runs) in sides.iter().enumerate() {
            notes.extend(failures(runs, index));
        }
        let counts =
            sides.each_ref().map(|runs| runs.iter().map(|run| run.counts.clone()).collect::<Vec<_>>());
        let experiment = Experiment {
            design: Some(design),
            wall: sides.each_ref().map(|runs| walls(runs)),
            counts: common_counts(&counts[0], &counts[1]),
            ..Experiment::default()
        };
        Ok(Self { inputs: [input(0), input(1)], experiment, notes })
    }
}

impl Operand {
    fn read(path: &Path) -> Result<Self, String> {
        if !path.join(MANIFEST).is_file() {
            return Ok(Self::Recording(path.to_owned()));
        }
        let manifest = Manifest::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self::Runs(path.to_owned(), manifest))
    }
}

/// Returns true for what looks like an option and is no file.
fn is_option(path: &Path) -> bool {
    let bytes = path.as_os_str().as_encoded_bytes();
    bytes.len() > 1 && bytes.starts_with(b"-") && !path.exists()
}

fn slices_of_runs(folder: &Path) -> String {
    format!("slices are of one recording, and {} has several; try: prof diff {0}", folder.display())
}

fn walls(runs: &[&RecordedRun]) -> Vec<f64> {
    runs.iter().map(|run| run.wall.as_secs_f64()).collect()
}

fn failures(runs: &[&RecordedRun], side: usize) -> Option<String> {
    let failed = runs.iter().filter(|run| run.exit_status != 0).count();
    let side = if side == 0 { "before" } else { "after" };
    (failed > 0).then(|| format!("{failed} of {} runs {side} ended with an error", runs.len()))
}

type Counts = std::collections::BTreeMap<String, u64>;

/// The counts that all runs of both sides have.
fn common_counts(before: &[Counts], after: &[Counts]) -> Vec<(String, [Vec<f64>; 2])> {
    let of = |runs: &[Counts], event: &str| -> Option<Vec<f64>> {
        runs.iter().map(|counts| counts.get(event).map(|&count| count as f64)).collect()
    };
    let events = before.first().map(|counts| counts.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
    let events = events.into_iter().filter_map(|event| {
        let sides = [of(before, &event)?, of(after, &event)?];
        Some((event, sides))
    });
    events.collect()
}
