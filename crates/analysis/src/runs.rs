//! Folders of runs (`prof.runs`): several recordings of one command, or of one before and after a change, with a list of them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

/// The name of the list in a folder of runs.
pub const MANIFEST: &str = "runs.json";

/// The version of the list. Increase it with a change that breaks readers.
const SCHEMA: u64 = 1;

/// Maximum size of a list: 1,000 runs with 20 counts each take 1 MB.
const MAX_MANIFEST_BYTES: u64 = 16 << 20;

/// The list of the runs in a folder, which `prof record --runs` writes as `runs.json`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Manifest {
    /// True if the recorder ran both commands in turns (A B B A), so that both sides met the same machine.
    pub interleaved: bool,
    /// The words of the command before the change; `None` if only one command was run.
    pub before: Option<Vec<String>>,
    /// The words of the command after the change, or of the only one.
    pub after: Vec<String>,
    /// The runs in the order in which they were made, without the runs to warm up.
    pub runs: Vec<RecordedRun>,
}

/// A run of a folder.
#[derive(Clone, PartialEq, Debug)]
pub struct RecordedRun {
    /// The side of the change.
    pub side: RunSide,
    /// The name of the recording, in the folder of the list.
    pub file: PathBuf,
    /// The time from the start of the command to its end.
    pub wall: Duration,
    /// The exit status of the command, 128 and the signal if one killed it.
    pub exit_status: i64,
    /// Exact counts by the name of their event: `task-clock` in nanoseconds, `page-faults`, `context-switches`, and others.
    pub counts: BTreeMap<String, u64>,
}

/// The side of a change that a run belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunSide {
    /// The command before the change.
    Before,
    /// The command after it, or the only one.
    After,
}

/// An error of reading a list of runs.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The list cannot be read.
    #[error("cannot read the list of runs: {0}")]
    Read(#[from] io::Error),
    /// The list is larger than any that `prof` writes.
    #[error("the list of runs has more than {MAX_MANIFEST_BYTES} bytes")]
    TooLarge,
    /// The list is no JSON.
    #[error("the list of runs is not JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The version of the list is unknown.
    #[error("the list of runs has schema {0}, and this prof reads {SCHEMA}")]
    Schema(Value),
    /// A field is absent or of another kind.
    #[error("the list of runs has no usable field `{0}`")]
    Field(String),
    /// A run lies outside the folder.
    #[error("the list of runs names `{0}`, which is not in its folder")]
    Outside(String),
}

impl Manifest {
    /// Reads the list in a folder of runs.
    ///
    /// # Errors
    /// There is no list, or it is not one that this version reads.
    pub fn read(folder: &Path) -> Result<Self, ManifestError> {
        let mut text = Vec::new();
        File::open(folder.join(MANIFEST))?.take(MAX_MANIFEST_BYTES + 1).read_to_end(&mut text)?;
        if text.len() as u64 > MAX_MANIFEST_BYTES {
            return Err(ManifestError::TooLarge);
        }
        Self::parse(&text)
    }

    /// Parses a list.
    ///
    /// # Errors
    /// The text is not a list that this version reads.
    pub fn parse(text: &[u8]) -> Result<Self, ManifestError> {
        let list: Value = serde_json::from_slice(text)?;
        if list["schema"] != SCHEMA {
            return Err(ManifestError::Schema(list["schema"].clone()));
        }
        let command = |side: &str| -> Option<Vec<String>> {
            let words = list[side]["command"].as_array()?;
            words.iter().map(|word| word.as_str().map(str::to_owned)).collect()
        };
        let runs = list["runs"].as_array().ok_or_else(|| ManifestError::Field("runs".to_owned()))?;
        Ok(Self {
            interleaved: list["interleaved"] == true,
            before: command("before"),
            after: command("after").unwrap_or_default(),
            runs: runs
                .iter()
                .enumerate()
                .map(|(number, run)| parse_run(number, run))
                .collect::<Result<_, _>>()?,
        })
    }

    /// Returns the list as JSON, with a line break at its end.
    pub fn to_json(&self) -> String {
        let run = |run: &RecordedRun| {
            json!({
                "side": run.side.name(),
                "file": run.file.to_string_lossy(),
                "wall_ns": u64::try_from(run.wall.as_nanos()).unwrap_or(u64::MAX),
                "exit_status": run.exit_status,
                "counts": run.counts,
            })
        };
        let mut list = json!({
            "schema": SCHEMA,
            "interleaved": self.interleaved,
            "after": { "command": self.after },
            "runs": self.runs.iter().map(run).collect::<Value>(),
        });
        if let Some(before) = &self.before {
            list["before"] = json!({ "command": before });
        }
        format!("{list:#}\n")
    }

    /// The runs of a side, as they were made.
    pub fn side(&self, side: RunSide) -> Vec<&RecordedRun> {
        self.runs.iter().filter(|run| run.side == side).collect()
    }
}

impl RunSide {
    /// The name of the side in the list and in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
        }
    }
}

fn parse_run(number: usize, run: &Value) -> Result<RecordedRun, ManifestError> {
    let missing = |field: &str| ManifestError::Field(format!("runs[{number}].{field}"));
    let mut sides = [RunSide::Before, RunSide::After].into_iter();
    let side = sides.find(|side| run["side"] == side.name()).ok_or_else(|| missing("side"))?;
    let file = run["file"].as_str().ok_or_else(|| missing("file"))?;
    if Path::new(file).file_name().is_none_or(|name| name != file) {
        return Err(ManifestError::Outside(file.to_owned()));
    }
    let wall = run["wall_ns"].as_u64().ok_or_else(|| missing("wall_ns"))?;
    let counts = run["counts"].as_object().into_iter().flatten();
    Ok(RecordedRun {
        side,
        file: PathBuf::from(file),
        wall: Duration::from_nanos(wall),
        exit_status: run["exit_status"].as_i64().unwrap_or_default(),
        counts: counts.filter_map(|(event, count)| Some((event.clone(), count.as_u64()?))).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(side: RunSide, file: &str) -> RecordedRun {
        RecordedRun {
            side,
            file: file.into(),
            wall: Duration::from_millis(1500),
            exit_status: 0,
            counts: [("page-faults".to_owned(), 17)].into(),
        }
    }

    #[test]
    fn a_list_is_read_as_it_was_written() {
        let list = Manifest {
            interleaved: true,
            before: Some(vec!["./old".to_owned(), "a b".to_owned()]),
            after: vec!["./new".to_owned()],
            runs: vec![
                run(RunSide::Before, "01-before.data"),
                run(RunSide::After, "01-after.data"),
                run(RunSide::After, "02-after.data"),
                run(RunSide::Before, "02-before.data"),
            ],
        };
        assert_eq!(Manifest::parse(list.to_json().as_bytes()).unwrap(), list);
        let alone = Manifest { before: None, interleaved: false, ..list };
        assert_eq!(Manifest::parse(alone.to_json().as_bytes()).unwrap(), alone);
    }

    #[test]
    fn files_outside_the_folder_are_refused() {
        for file in ["../a.data", "/etc/passwd", "a/b", "", ".", "a/"] {
            let list = Manifest { runs: vec![run(RunSide::After, file)], ..Manifest::default() };
            let read = Manifest::parse(list.to_json().as_bytes());
            assert!(matches!(read, Err(ManifestError::Outside(_))), "{file}: {read:?}");
        }
    }

    #[test]
    fn other_lists_are_refused_with_the_field() {
        let message = |text: &str| Manifest::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(message("{").contains("not JSON"));
        assert!(message("{}").contains("schema null"));
        assert!(message(r#"{"schema":2}"#).contains("schema 2"));
        assert!(message(r#"{"schema":1}"#).contains("`runs`"));
        assert!(message(r#"{"schema":1,"runs":[{"side":"x"}]}"#).contains("`runs[0].side`"));
    }
}
