//! The caption of a profile in one line: the recorded command or target, the host, the date, the duration and the sampling rate.

use std::time::{Duration, SystemTime};

use decoder::Attr;
use model::{Name, Pid, Timestamp};
use perfdata::Event;
use perfdata::features::Features;

use crate::foreign::ForeignFacts;

/// Maximum length of a command line in a caption, in characters. A longer one would fill the header of the picture.
const MAX_COMMAND_CHARS: usize = 80;

/// The recording's header, target, time and filters, from which a caption is written.
pub(crate) struct Caption<'a> {
    /// The feature sections of its header.
    pub(crate) features: &'a Features,
    /// The recorded target, in words ([`target`]).
    pub(crate) target: &'a str,
    /// The event that is shown.
    pub(crate) event: &'a Event,
    /// The times between which was recorded what is shown.
    pub(crate) span: Option<(Timestamp, Timestamp)>,
    /// The time at which the file was last written.
    pub(crate) written: Option<SystemTime>,
    /// The filters on its samples, in words; empty if all are shown.
    pub(crate) filters: &'a str,
    /// The facts about a profile of another tool.
    pub(crate) foreign: Option<&'a ForeignFacts>,
}

/// The words of the recorder's command line; none where the recording does not say.
fn words(features: &Features) -> Vec<String> {
    features.command_line.iter().map(Name::to_string).collect()
}

/// Says in words what was recorded, by the recorder's command line; empty where the recording does not say. `name_of` is
/// asked for the names of processes.
pub(crate) fn target(features: &Features, name_of: impl FnMut(Pid) -> Option<Name>) -> String {
    let words = words(features);
    Target::parse(&words).map_or_else(|| typed(&words), |target| target.describe(name_of))
}

/// Returns true if a command was recorded that can be started again with `--runtimes`: it ran without.
pub(crate) fn could_ask_runtimes(features: &Features) -> bool {
    let words = words(features);
    Target::parse(&words).is_some_and(|target| !target.command.is_empty() && !target.asks_runtimes)
}

/// Returns true if samples were taken from the first record to the last: the recorder was not told to begin later, nor to keep only the
/// newest, nor may somebody have switched it off and on.
pub(crate) fn samples_throughout(features: &Features) -> bool {
    let words = words(features);
    Target::parse(&words).is_some_and(|target| !target.samples_at_times)
}

impl Caption<'_> {
    /// The parts of the line: what was recorded, then where, when, for how long and how often, as far as that is known.
    pub(crate) fn parts(&self) -> Vec<String> {
        let mut what = self.target.to_owned();
        if !self.filters.is_empty() {
            what.push_str(&format!(" (only {})", self.filters));
        }
        if let Some(foreign) = self.foreign {
            return self.parts_of_foreign(what, foreign);
        }
        let length = self.span.map(|(first, last)| last.0.saturating_sub(first.0));
        let length = length.filter(|&length| length > 0).map(duration);
        let rate = rate(&self.event.attr, &self.event.name.to_string());
        let how_long = length.map_or_else(|| rate.clone(), |length| format!("{length} at {rate}"));
        let host = self.features.hostname.as_ref().map(Name::to_string);
        let parts = [Some(what), host, self.date(), Some(how_long)];
        parts.into_iter().flatten().collect()
    }

    /// The same of a profile of another tool: which format it is of, and what it says of its time.
    fn parts_of_foreign(&self, what: String, foreign: &ForeignFacts) -> Vec<String> {
        let (started, length) = foreign.time();
        let date = started.map(|nanoseconds| utc(nanoseconds / 1_000_000_000)).or_else(|| self.date());
        let length = (length > 0).then(|| duration(length));
        [Some(what), Some(foreign.format.to_string()), date, length].into_iter().flatten().collect()
    }

    /// Returns the title line.
    #[cfg(test)]
    pub(crate) fn title(&self) -> String {
        self.parts().join(" · ")
    }

    /// The date on which that began, or of the last write to the file where the recording does not know.
    fn date(&self) -> Option<String> {
        let recorded = self.span.and_then(|(first, _)| wall_clock(self.features, first));
        let written = || self.written?.duration_since(SystemTime::UNIX_EPOCH).ok();
        match recorded {
            Some(nanoseconds) => Some(utc(nanoseconds / 1_000_000_000)),
            None => written().map(|written| format!("file of {}", utc(written.as_secs()))),
        }
    }
}

/// Nanoseconds since 1970 at a time of the recording's clock, where the recording says how the two go together.
pub(crate) fn wall_clock(features: &Features, time: Timestamp) -> Option<u64> {
    let clock = features.clock?;
    let since = i128::from(time.0) - i128::from(clock.clock);
    u64::try_from(i128::from(clock.wall_clock) + since).ok()
}

/// The rate or period at which the event was sampled.
fn rate(attr: &Attr, name: &str) -> String {
    let period = attr.sample_period;
    match period {
        _ if attr.is_frequency() => format!("{} Hz", export::summary::grouped(period)),
        0 | 1 => format!("each {name}"),
        _ if attr.is_cpu_clock() => {
            format!("{} Hz", export::summary::grouped(1_000_000_000_u64.div_ceil(period)))
        }
        _ => format!("one in {} {name}", export::summary::grouped(period)),
    }
}

fn duration(nanoseconds: u64) -> String {
    let duration = Duration::from_nanos(nanoseconds);
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{} ms", duration.as_millis()),
        1..60 => format!("{:.1} s", duration.as_secs_f64()),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// `2026-11-22 18:04 UTC`, of seconds since 1970.
fn utc(seconds: u64) -> String {
    let (mut days, time) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March, so that the leap day is the last of its year (H. Hinnant, "chrono-Compatible Low-Level Date
    // Algorithms", civil_from_days).
    days += 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year_of_era = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let day_of_month = day_of_year - (153 * march_month + 2) / 5 + 1;
    format!("{year}-{month:02}-{day_of_month:02} {:02}:{:02} UTC", time / 3600, time / 60 % 60)
}

/// Whom a recording is about, as the arguments of `prof` and `perf` say it.
#[derive(Default)]
struct Target<'w> {
    whole_system: bool,
    cpus: Option<&'w str>,
    processes: Vec<&'w str>,
    threads: Vec<&'w str>,
    user: Option<&'w str>,
    cgroup: Option<&'w str>,
    asks_runtimes: bool,
    samples_at_times: bool,
    command: &'w [String],
}

/// Options of those commands of `prof` that record, and of `perf record`, that take a value, which may be the next word.
const SHORT_OPTIONS_WITH_VALUE: &str = "eptrcCoFmGDjkui";
const LONG_OPTIONS_WITH_VALUE: &str = "
    against ca-file header-file push token-file diff runs event filter pid tid realtime cpu count output
    freq mmap-pages call-graph cgroup delay uid branch-filter clockid max-stack duration input title
    subtitle colors width min-width weight debug-dir symfs time comm switch-output max-size collapse
    container control delay-secs dump-when hide inherit intervals keep max-files parallelism period
    root-at source-dir window";

/// The commands of `prof` that record.
const RECORDING_COMMANDS: [&str; 4] = ["record", "flame", "top", "view"];

/// Returns true if titles are right where the value of an option of `prof record`, `flame`, `top` or `view` is the next word: the
/// name of a long option, or a letter. What they do not know, they take for the recorded command.
pub fn is_known_to_take_a_value(option: &str) -> bool {
    is_long_with_value(option)
        || option.len() == 1 && (SHORT_OPTIONS_WITH_VALUE.contains(option) || option == "d")
}

fn is_long_with_value(name: &str) -> bool {
    LONG_OPTIONS_WITH_VALUE.split_whitespace().any(|option| option == name)
}

impl<'w> Target<'w> {
    /// `None` where it is not known what the words mean.
    fn parse(words: &'w [String]) -> Option<Self> {
        let tool = words.first()?.rsplit('/').next()?;
        let is_ours = tool == "prof";
        if !is_ours && !tool.starts_with("perf") {
            return None;
        }
        let verbs: &[&str] = if is_ours { &RECORDING_COMMANDS } else { &["record"] };
        let verb = words.iter().position(|word| verbs.contains(&word.as_str()))?;
        let mut target = Self::default();
        // Where the command is set apart, a word behind an option may be the value of one that is not known here.
        let is_apart = words.get(verb..)?.iter().any(|word| word == "--");
        let is_option = |at: usize| words.get(at).is_some_and(|word| word.starts_with("--"));
        let mut at = verb + 1;
        while let Some(word) = words.get(at) {
            at += 1;
            // The value of an option: the rest of its word, or the next one.
            let mut value = |rest: &'w str| {
                if !rest.is_empty() {
                    return rest;
                }
                at += 1;
                words.get(at - 1).map_or("", String::as_str)
            };
            if word == "--" {
                target.command = words.get(at..).unwrap_or_default();
                break;
            } else if let Some(option) = word.strip_prefix("--") {
                let (name, rest) = option.split_once('=').unwrap_or((option, ""));
                let text = if is_long_with_value(name) { value(rest) } else { rest };
                target.set(name, text);
            } else if let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) {
                for (index, letter) in letters.char_indices() {
                    let rest = &letters[index + letter.len_utf8()..];
                    if SHORT_OPTIONS_WITH_VALUE.contains(letter) || is_ours && letter == 'd' {
                        target.set(letter.encode_utf8(&mut [0; 4]), value(rest));
                        break;
                    }
                    target.set(letter.encode_utf8(&mut [0; 4]), "");
                    // The values of these are behind them, if anywhere.
                    if "zISW".contains(letter) {
                        break;
                    }
                }
            } else if !is_apart || !is_option(at - 2) {
                target.command = &words[at - 1..];
                break;
            }
        }
        Some(target)
    }

    fn set(&mut self, option: &str, value: &'w str) {
        match option {
            "a" | "all-cpus" => self.whole_system = true,
            "C" | "cpu" => self.cpus = Some(value),
            "p" | "pid" => self.processes.extend(value.split(',')),
            "t" | "tid" => self.threads.extend(value.split(',')),
            "u" | "uid" => self.user = Some(value),
            "G" | "cgroup" => self.cgroup = Some(value),
            "runtimes" => self.asks_runtimes = true,
            "D" | "delay" | "control" | "overwrite" | "window" => self.samples_at_times = true,
            _ => {}
        }
    }

    fn describe(&self, mut name_of: impl FnMut(Pid) -> Option<Name>) -> String {
        let command = quoted(self.command);
        let of_processes = |numbers: &[&str], name_of: &mut dyn FnMut(Pid) -> Option<Name>| {
            let described = numbers.iter().map(|number| {
                let name = number.parse().ok().and_then(|pid| name_of(Pid(pid)));
                name.map_or_else(|| (*number).to_owned(), |name| format!("{number} ({name})"))
            });
            described.collect::<Vec<_>>().join(", ")
        };
        let several = |numbers: &[&str], one: &'static str, many: &'static str| {
            if numbers.len() == 1 { one } else { many }
        };
        let whom = if let Some(cgroup) = self.cgroup {
            Some(format!("cgroup {cgroup}"))
        } else if let Some(user) = self.user {
            Some(format!("all processes of user {user}"))
        } else if !self.processes.is_empty() {
            let word = several(&self.processes, "process", "processes");
            Some(format!("{word} {}", of_processes(&self.processes, &mut name_of)))
        } else if !self.threads.is_empty() {
            Some(format!("{} {}", several(&self.threads, "thread", "threads"), self.threads.join(", ")))
        } else if self.cpus.is_some() && (self.whole_system || command.is_empty()) {
            None
        } else if self.whole_system {
            Some("the whole system".to_owned())
        } else {
            return self.cpus.map_or(command.clone(), |cpus| format!("{command} on CPU {cpus}"));
        };
        let cpus = self.cpus.map(|cpus| format!("CPU {cpus}"));
        let whom = whom.into_iter().chain(cpus).collect::<Vec<_>>().join(" on ");
        if command.is_empty() { whom } else { format!("{whom} during {command}") }
    }
}

/// The arguments of a tool that is not known.
fn typed(words: &[String]) -> String {
    let Some((tool, arguments)) = words.split_first() else { return String::new() };
    let tool = tool.rsplit('/').next().unwrap_or(tool).to_owned();
    quoted(&[&[tool], arguments].concat())
}

/// A command line as one would type it, in one line, and no longer than there is room for.
fn quoted(words: &[String]) -> String {
    let plain = |character: char| character.is_alphanumeric() || "_-+=:,./@%^~#[]{}".contains(character);
    let words = words.iter().map(|word| {
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    });
    let line = words.collect::<Vec<_>>().join(" ");
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= MAX_COMMAND_CHARS {
        return line;
    }
    line.chars().take(MAX_COMMAND_CHARS - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use decoder::{AttrFlags, Endian, RecordLayout};
    use perfdata::features::ClockData;

    fn described(line: &str) -> String {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let name_of = |pid: Pid| (pid == Pid(12)).then(|| Name::from("nginx"));
        Target::parse(&words).map_or_else(|| typed(&words), |target| target.describe(name_of))
    }

    #[test]
    fn options_say_whether_all_of_the_time_was_sampled() {
        for (line, expected) in [
            ("prof record -a -- sleep 5", true),
            ("perf record -g ls -D", true),
            ("prof record -D 1000 -p 12", false),
            ("perf record --delay=1000 ls", false),
            ("perf record --control fifo:a,b -a", false),
            ("prof record --overwrite --window 30s -a", false),
            ("simpleperf record --app x", false),
        ] {
            let command_line = line.split(' ').map(Name::from).collect();
            assert_eq!(
                samples_throughout(&Features { command_line, ..Features::default() }),
                expected,
                "{line}"
            );
        }
    }

    #[test]
    fn targets_are_read_from_command_lines() {
        for (line, target) in [
            ("/usr/bin/prof record -F 2999 -o x -- rustc -O a.rs", "rustc -O a.rs"),
            ("prof record -F2999 rustc -O a.rs", "rustc -O a.rs"),
            ("prof flame -o out.svg -- make -j", "make -j"),
            ("perf record -g -F 99 ls -a", "ls -a"),
            ("perf record -d ls", "ls"),
            ("prof record -d 5 -p 12", "process 12 (nginx)"),
            ("perf record --call-graph dwarf --pid=12,13", "processes 12 (nginx), 13"),
            ("perf record -ag -- sleep 10", "the whole system during sleep 10"),
            ("prof record -a -C 0-3 -d 5", "CPU 0-3"),
            ("prof record -C 1 make", "make on CPU 1"),
            ("prof record -t 5", "thread 5"),
            ("perf record -a -G a/b", "cgroup a/b"),
            ("prof record -u nobody", "all processes of user nobody"),
            ("prof record -z ls", "ls"),
            ("prof record --overwrite --window 30s -a", "the whole system"),
            ("prof view -o x.html --title t -- ls -a", "ls -a"),
            ("prof record --of-tomorrow value -- ls -- -a", "ls -- -a"),
            ("perf record -g ls -- -a", "ls -- -a"),
            ("/data/simpleperf record --app x", "simpleperf record --app x"),
            ("prof record", ""),
        ] {
            assert_eq!(described(line), target, "{line}");
        }
        assert_eq!(quoted(&["sh".into(), "-c".into(), "it's\n  on".into()]), r"sh -c 'it'\''s on'");
        assert_eq!(quoted(&["x".repeat(500)]).chars().count(), MAX_COMMAND_CHARS);
    }

    #[test]
    fn the_title_says_what_where_when_how_long_how_often() {
        let words = ["prof", "record", "--", "make"];
        let mut features = Features {
            hostname: Some(Name::from("build1")),
            command_line: words.map(Name::from).to_vec(),
            clock: Some(ClockData {
                clockid: 1,
                wall_clock: 1_795_370_660_000_000_000,
                clock: 5_000_000_000,
            }),
            ..Features::default()
        };
        let attr = Attr { flags: AttrFlags::FREQ, sample_period: 2999, ..Attr::default() };
        let layout = RecordLayout::new(&attr, Endian::Little);
        let event = Event { name: Name::from("cycles"), attr, ids: Vec::new(), layout };
        let span = Some((Timestamp(4_000_000_000), Timestamp(16_400_000_000)));
        let caption = |features: &Features, filters: &str| {
            let target = target(features, |_| None);
            let target = if target.is_empty() { "prof.data" } else { &target };
            Caption { features, target, event: &event, span, written: None, filters, foreign: None }.title()
        };
        assert_eq!(caption(&features, ""), "make · build1 · 2026-11-22 18:04 UTC · 12.4 s at 2,999 Hz");
        features.clock = None;
        features.command_line.clear();
        assert_eq!(caption(&features, "comm cc1"), "prof.data (only comm cc1) · build1 · 12.4 s at 2,999 Hz");
    }

    #[test]
    fn dates_and_rates() {
        assert_eq!(utc(0), "1970-01-01 00:00 UTC");
        assert_eq!(utc(951_782_400 + 86_399), "2000-02-29 23:59 UTC");
        assert_eq!(utc(1_798_761_599), "2026-12-31 23:59 UTC");
        assert_eq!([duration(320_000_000), duration(125_000_000_000)], ["320 ms", "2 min 5 s"]);
        let page_faults = Attr { kind: 1, config: 2, sample_period: 1, ..Attr::default() };
        assert_eq!(rate(&page_faults, "page-faults"), "each page-faults");
        assert_eq!(
            rate(&Attr { sample_period: 1000, ..page_faults.clone() }, "page-faults"),
            "one in 1,000 page-faults"
        );
        assert_eq!(
            rate(&Attr { config: 0, sample_period: 1_000_000, ..page_faults }, "cpu-clock"),
            "1,000 Hz"
        );
    }
}
