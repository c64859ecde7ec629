//! The two sides that are compared, as they were typed: recordings, folders of runs, or slices.

use std::path::{Path, PathBuf};

use analysis::comparable::Common;
use analysis::runs::{MANIFEST, Manifest, RecordedRun, RunSide};
use profile::comparison::Experiment;

use crate::arguments::SampleArguments;
use crate::console::Console;
use crate::input;

/// The forms of the command, for usage errors.
const FORMS: &str = "try: prof diff BEFORE AFTER, prof diff B1 B2 B3 -- A1 A2 A3, prof diff prof.runs, or prof diff REC --before \
                     'time=0,5' --after 'time=5,10'";

/// A side: its recordings, and the samples of them that count.
pub struct SideInput {
    /// The name of the side, as it was typed.
    pub name: String,
    pub recordings: Vec<PathBuf>,
    pub samples: SampleArguments,
    /// The recordings that a list names, with what it says of them.
    runs: Vec<RecordedRun>,
}

/// Both sides, and what is known of their runs.
pub struct Sides {
    pub inputs: [SideInput; 2],
    pub experiment: Experiment,
    /// True if the runs of both sides were made in turns.
    pub is_paired: bool,
    /// Remarks on the runs.
    pub notes: Vec<String>,
}

impl SideInput {
    /// Takes recordings and folders of runs of one command.
    fn of(paths: &[PathBuf], samples: &SampleArguments) -> Result<Self, String> {
        let (mut recordings, mut runs, mut names) = (Vec::new(), Vec::new(), Vec::new());
        for path in paths {
            let Some(manifest) = read_manifest(path)? else {
                names.push(path.display().to_string());
                recordings.push(path.clone());
                continue;
            };
            if manifest.before.is_some() {
                return Err(format!("{0} has runs of both sides; try: prof diff {0}", path.display()));
            }
            names.push(format!("{} ({} runs)", path.display(), manifest.runs.len()));
            recordings.extend(manifest.runs.iter().map(|run| path.join(&run.file)));
            runs.extend(manifest.runs);
        }
        let name = match names.as_slice() {
            [first, .., last] => format!("{first} … {last} ({} runs)", recordings.len()),
            _ => names.concat(),
        };
        if recordings.is_empty() {
            return Err(format!("{name} has no runs; try: prof record --runs 10 -- COMMAND"));
        }
        Ok(Self { name, recordings, samples: samples.clone(), runs })
    }

    /// Takes the runs of a side from a folder that has those of both.
    fn of_folder(folder: &Path, manifest: &Manifest, side: RunSide, samples: &SampleArguments) -> Self {
        let words = if side == RunSide::Before { manifest.before.as_deref() } else { Some(&*manifest.after) };
        let runs: Vec<RecordedRun> = manifest.side(side).into_iter().cloned().collect();
        let words = words.unwrap_or_default().join(" ");
        Self {
            name: format!("{words} ({} runs in {})", runs.len(), folder.display()),
            recordings: runs.iter().map(|run| folder.join(&run.file)).collect(),
            samples: samples.clone(),
            runs,
        }
    }

    /// Leaves what the first of its profiles has as well. Errors are found again when it is read.
    pub fn narrow(&self, common: Common, console: &Console) -> Common {
        let first = self.recordings.first().filter(|path| path.as_os_str() != "-");
        let input = first.and_then(|path| input::open(Some(path), console).ok());
        input.map_or(common, |input| common.with(&input, self.samples.event.as_deref()))
    }

    /// Returns the exact counts of an event, where each recording has one.
    fn counts(&self, event: &str) -> Option<Vec<f64>> {
        self.runs.iter().map(|run| run.counts.get(event).map(|&count| count as f64)).collect()
    }
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
        samples: &SampleArguments,
    ) -> Result<Self, String> {
        if let Some(option) = separate.iter().find(|path| is_option(path)) {
            return Err(format!(
                "`{}` stands behind --, where the runs after the change are; try it before --",
                option.display()
            ));
        }
        let mut is_paired = false;
        let has_slices = slices.iter().all(Option::is_some);
        let mut inputs = match (operands, separate) {
            ([], _) => return Err(format!("two sides are compared; {FORMS}")),
            ([both], []) => match read_manifest(both)? {
                Some(manifest) => {
                    is_paired = manifest.interleaved;
                    of_both(both, &manifest, has_slices, samples)?
                }
                None if has_slices => [SideInput::of(operands, samples)?, SideInput::of(operands, samples)?],
                None => {
                    return Err(format!(
                        "{} is one recording, and nothing to compare it with; {FORMS}",
                        both.display()
                    ));
                }
            },
            ([before, after], []) => {
                let side = |path: &PathBuf| SideInput::of(std::slice::from_ref(path), samples);
                [side(before)?, side(after)?]
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
            (before, after) => [SideInput::of(before, samples)?, SideInput::of(after, samples)?],
        };
        for (side, slice) in inputs.iter_mut().zip(slices) {
            if let Some(slice) = slice {
                side.samples = side.samples.with_slice(slice)?;
                side.name = format!("{} ({})", side.name, slice.trim());
            }
        }
        let experiment = experiment(&inputs);
        let notes = inputs.iter().zip(["before", "after"]).filter_map(|(side, name)| {
            let failed = side.runs.iter().filter(|run| run.exit_status != 0).count();
            (failed > 0).then(|| format!("{failed} of {} runs {name} ended with an error", side.runs.len()))
        });
        Ok(Self { notes: notes.collect(), experiment, is_paired, inputs })
    }

    /// Returns true if each side is one recording or a slice of one.
    pub fn are_single(&self) -> bool {
        self.inputs.iter().all(|side| side.recordings.len() == 1)
    }
}

/// Takes both sides from one folder.
fn of_both(
    folder: &Path,
    manifest: &Manifest,
    has_slices: bool,
    samples: &SampleArguments,
) -> Result<[SideInput; 2], String> {
    let name = folder.display();
    if has_slices {
        return Err(format!("slices are of one recording, and {name} has several; try: prof diff {name}"));
    }
    let sides =
        [RunSide::Before, RunSide::After].map(|side| SideInput::of_folder(folder, manifest, side, samples));
    match sides.each_ref().map(|side| side.runs.len()) {
        [0, after] => Err(format!(
            "{name} has runs of one command only; try: prof record --runs {} --against 'BEFORE CMD' -- CMD, or prof diff {name} \
             OTHER.runs",
            after.max(10)
        )),
        [_, 0] => Err(format!("{name} has no runs after the change; record it again")),
        _ => Ok(sides),
    }
}

/// Returns what is known of the runs beside their samples, where it is known of each.
fn experiment(sides: &[SideInput; 2]) -> Experiment {
    if sides.iter().any(|side| side.runs.len() != side.recordings.len()) {
        return Experiment::default();
    }
    let events = sides[0].runs.first().into_iter().flat_map(|run| run.counts.keys());
    let counts =
        events.filter_map(|event| Some((event.clone(), [sides[0].counts(event)?, sides[1].counts(event)?])));
    Experiment {
        wall: sides.each_ref().map(|side| side.runs.iter().map(|run| run.wall.as_secs_f64()).collect()),
        counts: counts.collect(),
        ..Experiment::default()
    }
}

/// Reads the list in a folder of runs; `None` for what has none.
fn read_manifest(path: &Path) -> Result<Option<Manifest>, String> {
    if !path.join(MANIFEST).is_file() {
        return Ok(None);
    }
    Manifest::read(path).map(Some).map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns true for what looks like an option and is no file.
fn is_option(path: &Path) -> bool {
    let bytes = path.as_os_str().as_encoded_bytes();
    bytes.len() > 1 && bytes.starts_with(b"-") && !path.exists()
}
