//! Arguments of recordings that write several files: windows (`--overwrite`), `--switch-output`, `--dump-when`, `--control`.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use analysis::Notices;
use anyhow::Context;
use clap::Args;
use host::files::{CommandSocket, DestinationError, FileSeries, open_pipe_read_write};
use model::Harm;
use recorder::{CommandSources, DumpCondition, ExitCondition, NextFileWhen, Window};

use super::numbers::{MIN_SPAN, bytes_with_unit, within};
use crate::console::Console;

/// Default size of a window.
const DEFAULT_WINDOW_BYTES: u64 = 64 << 20;
/// Minimum size of a window or file: smaller ones would hold only a few large samples.
const MIN_WINDOW_BYTES: u64 = 1 << 20;
/// Maximum size of a window that is given as a time …
const MAX_TIMED_WINDOW_BYTES: u64 = 1 << 30;
/// … which is also limited to this fraction of main memory: one eighth.
const MEMORY_PER_TIMED_WINDOW: u64 = 8;

/// Arguments of recordings that write several files.
#[derive(Args)]
pub struct WindowArguments {
    /// Flight recorder: keep the newest samples in memory (see prof dump)
    ///
    /// They are written to FILE.YYYYMMDDTHHMMSS at the end and on each SIGUSR2 (prof dump PID).
    #[arg(long, help_heading = "Windows")]
    overwrite: bool,
    /// With --overwrite: how much to keep: 30s, 64M, or both [default: 64M]
    ///
    /// A time (30s), a size (64M), or the smaller of both (5m,256M).
    #[arg(long, value_name = "TIME|SIZE", value_parser = window, requires = "overwrite", help_heading = "Windows")]
    window: Option<Window>,
    /// Write a series of files, by time (30s), size (100M) or signal
    ///
    /// The files are FILE.YYYYMMDDTHHMMSS, each readable by itself. WHEN the next one starts: on SIGUSR2 (signal), after a time, or after a size;
    /// with --overwrite, the window is written each time.
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true,
          default_missing_value = "signal", value_parser = switch_when, help_heading = "Windows")]
    switch_output: Option<NextFileWhen>,
    /// Also write the window, or start the next file, when: file:PATH appears; cpu:90%:5s, CPU use exceeds 90 % for 5 s (of one CPU;
    /// with -a of the machine). exit:CODE or exit:nonzero: with --overwrite, write at the end only if the command exits so (may be
    /// repeated)
    #[arg(long, value_name = "WHAT", value_parser = dump_when, hide_short_help = true, help_heading = "Windows")]
    dump_when: Vec<DumpWhen>,
    /// Keep at most N of these files, and remove the oldest
    #[arg(hide_short_help = true, long, value_name = "N", value_parser = within(1..=1_000_000_usize), help_heading = "Windows")]
    max_files: Option<usize>,
    /// Accept commands while recording, one per line: enable, disable, dump, ping, stop; each is answered with "ack" or
    /// "error: REASON". fifo:PATH[,ACK-PATH] reads a named pipe (mkfifo) and answers to another
    #[arg(long, value_name = "fifo:PATH[,ACK]", value_parser = control, hide_short_help = true, help_heading = "Windows")]
    control: Option<ControlPipes>,
}

/// A condition on which a file is written.
#[derive(Clone, PartialEq, Eq, Debug)]
enum DumpWhen {
    Condition(DumpCondition),
    Exit(ExitCondition),
}

/// The named pipe that commands come through, and that for the answers.
#[derive(Clone, PartialEq, Eq, Debug)]
struct ControlPipes {
    commands: PathBuf,
    answers: Option<PathBuf>,
}

impl WindowArguments {
    /// Returns the window; `None` without `--overwrite`.
    pub fn window(&self) -> Option<Window> {
        self.overwrite.then(|| self.window.unwrap_or(Window { time: None, bytes: DEFAULT_WINDOW_BYTES }))
    }

    /// Returns when the next file starts; `None` without `--switch-output`.
    pub fn switch(&self) -> Option<NextFileWhen> {
        self.switch_output
    }

    /// Returns the conditions that the recorder watches.
    pub fn conditions(&self) -> Vec<DumpCondition> {
        let condition = |when: &DumpWhen| match when {
            DumpWhen::Condition(condition) => Some(condition.clone()),
            DumpWhen::Exit(_) => None,
        };
        self.dump_when.iter().filter_map(condition).collect()
    }

    /// Returns the exit condition on which a file is written at the end.
    pub fn exit(&self) -> Option<ExitCondition> {
        let exit = |when: &DumpWhen| match when {
            DumpWhen::Exit(exit) => Some(*exit),
            DumpWhen::Condition(_) => None,
        };
        self.dump_when.iter().rev().find_map(exit)
    }

    /// Returns the usage error if options contradict each other.
    pub fn contradiction(&self) -> Option<&'static str> {
        let has_series = self.overwrite || self.switch_output.is_some();
        match self.switch_output {
            _ if self.max_files.is_some() && !has_series => {
                Some("--max-files needs --overwrite or --switch-output; try one of them")
            }
            _ if !self.dump_when.is_empty() && !has_series => {
                Some("--dump-when needs --overwrite or --switch-output; try: --overwrite")
            }
            _ if self.exit().is_some() && !self.overwrite => {
                Some("--dump-when exit: needs --overwrite; try: --overwrite")
            }
            Some(NextFileWhen::Bytes(_)) if self.overwrite => {
                Some("with --overwrite, --window sets the size of files; try: --switch-output=30s")
            }
            _ => None,
        }
    }

    /// Opens the series of files.
    ///
    /// # Errors
    /// The files cannot be written at `path`.
    pub fn series(&self, path: &Path) -> Result<FileSeries, DestinationError> {
        FileSeries::find(path, self.max_files)
    }

    /// Returns true if `--control` is given.
    pub fn has_control(&self) -> bool {
        self.control.is_some()
    }

    /// Opens the pipes and the socket of `prof dump`, through which commands come.
    ///
    /// # Errors
    /// A pipe is missing, a name is in use, or an untrusted user may have created it.
    pub fn commands(&self, console: &Console) -> anyhow::Result<CommandSources> {
        let mut sources = CommandSources::default();
        if let Some(ControlPipes { commands, answers }) = &self.control {
            let open = |path: &PathBuf| {
                open_pipe_read_write(path)
                    .with_context(|| format!("cannot take commands from {}", path.display()))
            };
            sources = sources.with_pipe(open(commands)?, answers.as_ref().map(open).transpose()?);
        }
        if self.overwrite || self.switch_output.is_some() {
            match CommandSocket::for_this_process() {
                Ok(socket) => sources = sources.with_socket(socket),
                // SIGUSR2 works without the socket.
                Err(error) if error.kind() == ErrorKind::AddrInUse => console.warn(Harm::Nothing, "another process has the address at which prof dump would ask: it will send a signal instead",
                ),
                Err(error) => {
                    console.detail(&format!("prof dump will use a signal instead of a socket: {error}"))
                }
            }
        }
        Ok(sources)
    }
}

fn control(text: &str) -> Result<ControlPipes, String> {
    let paths = text.strip_prefix("fifo:").filter(|paths| !paths.is_empty());
    let paths = paths.ok_or("fifo:PATH or fifo:PATH,ACK-PATH")?;
    let (commands, answers) = paths.split_once(',').map_or((paths, None), |(one, other)| (one, Some(other)));
    Ok(ControlPipes { commands: commands.into(), answers: answers.map(PathBuf::from) })
}

/// Parses `30s`, `5m`, `64M`, or one time and one size.
fn window(text: &str) -> Result<Window, String> {
    let wrong = || "a time such as 30s or 5m, a size from 1M on such as 64M, or both: 30s,64M".to_owned();
    let (mut time, mut bytes) = (None, None);
    for part in text.split(',') {
        let slot = (duration(part), size(part));
        match slot {
            (Some(part), _) if time.is_none() => time = Some(part),
            (None, Some(part)) if bytes.is_none() => bytes = Some(part),
            _ => return Err(wrong()),
        }
    }
    let bytes = bytes.unwrap_or_else(|| {
        let memory =
            host::machine::total_memory_kb().map_or(MAX_TIMED_WINDOW_BYTES, |kilobytes| kilobytes << 10);
        (memory / MEMORY_PER_TIMED_WINDOW).clamp(MIN_WINDOW_BYTES, MAX_TIMED_WINDOW_BYTES)
    });
    Ok(Window { time, bytes })
}

fn switch_when(text: &str) -> Result<NextFileWhen, String> {
    let wrong = || "signal, a time such as 30s or 5m, or a size from 1M on such as 100M".to_owned();
    match (text, duration(text), size(text)) {
        ("signal", ..) => Ok(NextFileWhen::OnRequest),
        (_, Some(age), _) => Ok(NextFileWhen::Age(age)),
        (_, None, Some(bytes)) => Ok(NextFileWhen::Bytes(bytes)),
        _ => Err(wrong()),
    }
}

fn dump_when(text: &str) -> Result<DumpWhen, String> {
    let wrong = || "file:PATH, cpu:90%:5s, exit:CODE or exit:nonzero".to_owned();
    let (what, rest) = text.split_once(':').ok_or_else(wrong)?;
    match what {
        "file" if !rest.is_empty() => Ok(DumpWhen::Condition(DumpCondition::File(rest.into()))),
        "exit" if rest == "nonzero" => Ok(DumpWhen::Exit(ExitCondition::NotZero)),
        "exit" => rest.parse().map(|code| DumpWhen::Exit(ExitCondition::Code(code))).map_err(|_| wrong()),
        "cpu" => {
            let (percent, time) = rest.split_once(':').ok_or_else(wrong)?;
            let percent = percent.strip_suffix('%').unwrap_or(percent).parse().ok();
            let percent = percent.filter(|percent| (1..1_000_000).contains(percent)).ok_or_else(wrong)?;
            let time = duration(time).ok_or_else(wrong)?;
            Ok(DumpWhen::Condition(DumpCondition::CpuUse { percent, time }))
        }
        _ => Err(wrong()),
    }
}

/// Parses a time of at least 100 ms, with the unit `ms`, `s`, `m` (minutes) or `h`.
fn duration(text: &str) -> Option<Duration> {
    let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let (number, factor) =
        units.into_iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    let number: f64 = number.parse().ok()?;
    Duration::try_from_secs_f64(number * factor).ok().filter(|time| *time >= MIN_SPAN)
}

/// Parses a size of at least [`MIN_WINDOW_BYTES`].
fn size(text: &str) -> Option<u64> {
    bytes_with_unit(text).ok().filter(|size| *size >= MIN_WINDOW_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_times_and_sizes() {
        let time = |text| window(text).unwrap().time;
        assert_eq!(time("30s"), Some(Duration::from_secs(30)));
        assert_eq!(
            (time("0.5s"), time("500ms")),
            (Some(Duration::from_millis(500)), Some(Duration::from_millis(500)))
        );
        assert_eq!(time("5m"), Some(Duration::from_secs(300)));
        assert_eq!(window("64M"), Ok(Window { time: None, bytes: 64 << 20 }));
        let both = Window { time: Some(Duration::from_secs(3600)), bytes: 2 << 30 };
        assert_eq!((window("1h,2G"), window("2G,1h")), (Ok(both), Ok(both)));
        assert_eq!(switch_when("signal"), Ok(NextFileWhen::OnRequest));
        assert_eq!(switch_when("5m"), Ok(NextFileWhen::Age(Duration::from_secs(300))));
        assert_eq!(switch_when("5M"), Ok(NextFileWhen::Bytes(5 << 20)));
        assert!(switch_when("5").is_err() && switch_when("1K").is_err());
        let cpu = DumpCondition::CpuUse { percent: 90, time: Duration::from_secs(5) };
        for text in ["cpu:90%:5s", "cpu:90:5s"] {
            assert_eq!(dump_when(text), Ok(DumpWhen::Condition(cpu.clone())));
        }
        assert_eq!(dump_when("file:/a:b"), Ok(DumpWhen::Condition(DumpCondition::File("/a:b".into()))));
        assert_eq!(dump_when("exit:139"), Ok(DumpWhen::Exit(ExitCondition::Code(139))));
        for bad in ["", "cpu:90%", "cpu:0%:5s", "cpu:x:5s", "exit:", "exit:256", "file:", "slow:./a:f:5ms"] {
            assert!(dump_when(bad).is_err(), "{bad}");
        }
        let fifo = |commands: &str, answers: Option<&str>| {
            Ok(ControlPipes { commands: commands.into(), answers: answers.map(PathBuf::from) })
        };
        assert_eq!((control("fifo:a"), control("fifo:a,b")), (fifo("a", None), fifo("a", Some("b"))));
        assert!(control("fd:3").is_err() && control("unix:/run/x").is_err() && control("fifo:").is_err());
        assert!((MIN_WINDOW_BYTES..=MAX_TIMED_WINDOW_BYTES).contains(&window("30s").unwrap().bytes));
        for bad in
            ["", "30", "0s", "-1s", "nans", "infs", "1K", "64M,64M", "30s,5m", "30s,", "1e999s", "9999999G"]
        {
            assert!(window(bad).is_err(), "{bad}");
        }
    }
}
