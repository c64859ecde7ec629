//! Divides the command line among cargo, `prof record`, `prof flame` and the program.

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command};

const ABOUT: &str = "Build a target with cargo, record it with prof, and open the flame graph";

const USAGE: &str = "\
cargo prof [run] [OPTIONS] [-- ARGS…]
       cargo prof test [NAME] [OPTIONS] [-- ARGS…]
       cargo prof bench [NAME] [OPTIONS] [-- ARGS…]
       cargo prof example [NAME] [OPTIONS] [-- ARGS…]";

/// The rest of the help. It names few of the many options that are passed on.
const HELP: &str = "\
NAME is a filter of tests or benchmarks, as for cargo, or the name of an example.
ARGS are passed to the program.

Options:
      --release, --bin NAME, -p PACKAGE, --features LIST, --target-dir DIR, …
                    Options of cargo, to choose and build the target
  -F, --freq HZ, -e EVENT, --call-graph HOW, …
                    Options of prof record
      --title TEXT, --no-inline, --reverse, --folded, …
                    Options of prof flame
      --base REV    Build this revision of git, too, record both in turns (--runs N pairs,
                    10 by default), and print what changed
  -o, --output FILE Output file [default: NAME.svg in target/prof]
      --no-open     Do not open the flame graph
  -q, --quiet       Print errors only
  -v, --verbose     Print details
  -h, --help        Print help
  -V, --version     Print version

Short options are those of prof, except -p, -r and -j, which are those of cargo.

Examples:
  cargo prof --release --bin server -- --once
  cargo prof test parses_large_files -F 4999
  cargo prof bench --bench decode --title decode
  cargo prof example hello --release
  cargo prof --release --base main -- --once
";

/// The kind of target that cargo builds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// `cargo run`.
    Run,
    /// `cargo test`.
    Test,
    /// `cargo bench`.
    Bench,
    /// `cargo run --example`.
    Example,
}

/// The command line, divided among cargo, the recorder and the program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arguments {
    /// The kind of target that is built.
    pub kind: Kind,
    /// The filter of tests or benchmarks, or the name of the example.
    pub name: Option<String>,
    /// Words for cargo: long options with their values behind `=`.
    pub cargo: Vec<String>,
    /// Words for `prof record`.
    pub record: Vec<String>,
    /// Words for `prof flame`, in the same form.
    pub flame: Vec<String>,
    /// Words for the program.
    pub program: Vec<String>,
    /// The path of the picture.
    pub output: Option<String>,
    /// True if the picture may be opened.
    pub open: bool,
    /// The revision to compare with.
    pub base: Option<String>,
}

/// An option of another program: its long name, its short name and its values. The long name may be missing.
type Passed = (&'static str, Option<char>, Values);

/// The values that an option takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Values {
    Flag,
    One,
    /// None or one, as the next word.
    Optional,
    /// None or one, behind `=`.
    Equals,
}
use Values::{Equals, Flag, One, Optional};

/// Options of `cargo build`, `test` and `bench` that choose what is built and how.
const CARGO: &[Passed] = &[
    ("release", Some('r'), Flag),
    ("profile", None, One),
    ("bin", None, Optional),
    ("bins", None, Flag),
    ("example", None, Optional),
    ("examples", None, Flag),
    ("test", None, Optional),
    ("tests", None, Flag),
    ("bench", None, Optional),
    ("benches", None, Flag),
    ("lib", None, Flag),
    ("all-targets", None, Flag),
    ("package", Some('p'), Optional),
    ("workspace", None, Flag),
    ("exclude", None, One),
    ("jobs", Some('j'), One),
    ("keep-going", None, Flag),
    ("features", None, One),
    ("all-features", None, Flag),
    ("no-default-features", None, Flag),
    ("target", None, Optional),
    ("target-dir", None, One),
    ("manifest-path", None, One),
    ("locked", None, Flag),
    ("offline", None, Flag),
    ("frozen", None, Flag),
    ("config", None, One),
    ("color", None, One),
    ("ignore-rust-version", None, Flag),
    ("timings", None, Flag),
    ("", Some('Z'), One),
];

/// Options of `prof flame`, also those that `prof record` has, too.
const FLAME: &[Passed] = &[
    ("folded", None, Flag),
    ("diff", None, One),
    ("hide", None, One),
    ("keep", None, One),
    ("root-at", None, One),
    ("collapse", None, One),
    ("comm", None, One),
    ("time", None, One),
    ("no-inline", None, Flag),
    ("no-kernel", None, Flag),
    ("no-user", None, Flag),
    ("merge-threads", None, Flag),
    ("by-process", None, Flag),
    ("by-container", None, Flag),
    ("container", None, One),
    ("cgroup", None, One),
    ("addresses", None, Flag),
    ("modules", None, Flag),
    ("modules-only", None, Flag),
    ("fold-async", None, Flag),
    ("debug-dir", None, One),
    ("symfs", None, One),
    ("raw-names", None, Flag),
    ("debuginfod", None, Flag),
    ("reverse", None, Flag),
    ("inverted", None, Flag),
    ("flamechart", None, Flag),
    ("title", None, One),
    ("subtitle", None, One),
    ("colors", None, One),
    ("min-width", None, One),
    ("wakers", None, Flag),
    ("width", None, One),
    ("per-thread", None, Flag),
    ("weight", None, One),
];

/// Options of `prof record`, but for short ones that are cargo's and long ones that are [`FLAME`]'s.
const RECORD: &[Passed] = &[
    ("pid", None, One),
    ("with-children", None, Flag),
    ("tid", Some('t'), One),
    ("uid", Some('u'), One),
    ("all-cpus", Some('a'), Flag),
    ("cpu", Some('C'), One),
    ("", Some('G'), One),
    ("no-inherit", Some('i'), Flag),
    ("inherit", None, One),
    ("no-cpu-rings", None, Flag),
    ("event", Some('e'), One),
    ("filter", None, One),
    ("freq", Some('F'), One),
    ("call-graph", None, One),
    ("user-callchains", None, Flag),
    ("kernel-callchains", None, Flag),
    ("", Some('g'), Flag),
    ("duration", Some('d'), One),
    ("delay", Some('D'), One),
    ("max-stack", None, One),
    ("all-user", None, Flag),
    ("all-kernel", None, Flag),
    ("clockid", Some('k'), One),
    ("mmap-pages", Some('m'), One),
    ("data", None, Flag),
    ("phys-data", None, Flag),
    ("intr-regs", None, Flag),
    ("sample-weight", Some('W'), Flag),
    ("branch-any", Some('b'), Flag),
    ("branch-filter", None, One),
    ("off-cpu", None, Flag),
    ("switch-events", None, Flag),
    ("namespaces", None, Flag),
    ("all-cgroups", None, Flag),
    ("data-page-size", None, Flag),
    ("code-page-size", None, Flag),
    ("period", Some('c'), One),
    ("keep-stacks", None, Flag),
    ("overwrite", None, Flag),
    ("window", None, One),
    ("switch-output", None, Equals),
    ("dump-when", None, One),
    ("max-files", None, One),
    ("control", None, One),
    ("compress", Some('z'), Equals),
    ("archive", None, Flag),
    ("no-names", None, Flag),
    ("no-service", None, Flag),
    ("interpreter-frames", None, Flag),
    ("push", None, One),
    ("token-file", None, One),
    ("header-file", None, One),
    ("ca-file", None, One),
    ("strict", None, Flag),
    ("runtimes", None, Equals),
    ("runs", None, One),
    ("against", None, One),
];

/// Returns the description of the command line.
fn command() -> Command {
    let own = [
        Arg::new("output").short('o').long("output").value_name("FILE"),
        Arg::new("base").long("base").value_name("REV"),
        Arg::new("no-open").long("no-open").action(ArgAction::SetTrue),
        Arg::new("quiet").short('q').long("quiet").action(ArgAction::SetTrue),
        Arg::new("verbose").short('v').long("verbose").action(ArgAction::Count),
        Arg::new("words").num_args(0..),
        Arg::new("program").num_args(0..).last(true),
    ];
    Command::new("cargo-prof")
        .version(env!("CARGO_PKG_VERSION"))
        .override_usage(USAGE)
        .override_help(format!("{ABOUT}\n\nUsage: {USAGE}\n\n{HELP}"))
        .args(own)
        .args([CARGO, FLAME, RECORD].into_iter().flatten().map(argument))
}

fn argument(option: &Passed) -> Arg {
    let &(long, short, values) = option;
    let argument = Arg::new(id(option)).short(short).action(ArgAction::Append);
    let argument = if long.is_empty() { argument } else { argument.long(long) };
    match values {
        Flag => argument.action(ArgAction::Count),
        One => argument.allow_negative_numbers(true),
        Optional => argument.num_args(0..=1).default_missing_value(""),
        Equals => argument.num_args(0..=1).default_missing_value("").require_equals(true),
    }
}

fn id(&(long, short, _): &Passed) -> String {
    short.filter(|_| long.is_empty()).map_or_else(|| long.to_owned(), |short| short.to_string())
}

impl Arguments {
    /// Parses the command line, the program's own name apart.
    ///
    /// # Errors
    /// It is wrong, or asks for help or the version.
    pub fn parse(words: Vec<String>) -> clap::error::Result<Self> {
        let mut command = command().no_binary_name(true);
        let matches = command.try_get_matches_from_mut(words)?;
        let mut words = values(&matches, "words").into_iter().peekable();
        let kind = words.next_if_map(|word| match word.as_str() {
            "run" => Ok(Kind::Run),
            "test" => Ok(Kind::Test),
            "bench" => Ok(Kind::Bench),
            "example" => Ok(Kind::Example),
            _ => Err(word),
        });
        let kind = kind.unwrap_or(Kind::Run);
        let name = words.next_if(|_| kind != Kind::Run);
        if let Some(word) = words.next() {
            let what = format!("unexpected `{word}`; arguments of the program come after `--`");
            return Err(command.error(ErrorKind::UnknownArgument, what));
        }
        let mut parsed = Self {
            kind,
            name,
            cargo: given(&matches, CARGO),
            record: given(&matches, RECORD),
            flame: given(&matches, FLAME),
            program: values(&matches, "program"),
            output: matches.get_one("output").cloned(),
            open: !matches.get_flag("no-open"),
            base: matches.get_one("base").cloned(),
        };
        if let Some(why) = parsed.contradiction() {
            return Err(command.error(ErrorKind::ArgumentConflict, why));
        }
        if matches.get_flag("quiet") {
            for words in [&mut parsed.cargo, &mut parsed.record, &mut parsed.flame] {
                words.push("--quiet".to_owned());
            }
        }
        for _ in 0..matches.get_count("verbose") {
            parsed.record.push("--verbose".to_owned());
            parsed.flame.push("--verbose".to_owned());
        }
        Ok(parsed)
    }

    /// Returns why options exclude each other; `None` if they do not.
    fn contradiction(&self) -> Option<&'static str> {
        let asks = |option: &str| self.record.iter().any(|word| word.starts_with(option));
        let compares = self.base.is_some();
        if asks("--against=") {
            Some(
                "--against takes a command that is built already; to build one of another revision: --base REV",
            )
        } else if asks("--runs=") && !compares {
            Some("--runs records for a comparison; to compare with another revision: --base REV --runs N")
        } else if compares && !self.flame.is_empty() {
            Some("--base compares by prof diff, and options of prof flame do not apply")
        } else {
            None
        }
    }

    /// Returns the value of an option of cargo.
    pub fn cargo_value(&self, option: &str) -> Option<&str> {
        self.cargo.iter().find_map(|word| word.strip_prefix(option)?.strip_prefix('='))
    }

    /// Returns the profile that cargo builds with.
    pub fn profile(&self) -> &str {
        if let Some(profile) = self.cargo_value("--profile") {
            return profile;
        }
        let release = self.cargo.iter().any(|word| word == "--release");
        match self.kind {
            _ if release => "release",
            Kind::Run | Kind::Example => "dev",
            Kind::Test => "test",
            Kind::Bench => "bench",
        }
    }

    /// Returns true if cargo runs the program in the folder of its package: tests and benchmarks.
    pub fn runs_in_package(&self) -> bool {
        matches!(self.kind, Kind::Test | Kind::Bench)
    }

    /// Returns true if an unoptimized program would be recorded, probably by mistake.
    pub fn is_unoptimized(&self) -> bool {
        matches!(self.kind, Kind::Run | Kind::Example) && self.profile() == "dev"
    }
}

fn values(matches: &ArgMatches, name: &str) -> Vec<String> {
    matches.get_many(name).into_iter().flatten().cloned().collect()
}

/// Returns the options of a table that were given, each as one word.
fn given(matches: &ArgMatches, options: &[Passed]) -> Vec<String> {
    let mut words = Vec::new();
    for option in options {
        let id = id(option);
        let values = match option.2 {
            Flag => vec![String::new(); usize::from(matches.get_count(&id))],
            One | Optional | Equals => values(matches, &id),
        };
        for value in values {
            words.push(match *option {
                ("", short, _) => format!("-{}{value}", short.unwrap_or_default()),
                (long, ..) if value.is_empty() => format!("--{long}"),
                (long, ..) => format!("--{long}={value}"),
            });
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Arguments {
        Arguments::parse(line.split(' ').map(str::to_owned).collect()).unwrap()
    }

    #[test]
    fn each_word_reaches_its_owner() {
        let parsed = parse(
            "--release --bin x -F 4999 --title my.title --features=a,b -o p.svg --call-graph fp -- -F --bin y",
        );
        assert_eq!(parsed.kind, Kind::Run);
        assert_eq!(parsed.cargo, ["--release", "--bin=x", "--features=a,b"]);
        assert_eq!(parsed.record, ["--freq=4999", "--call-graph=fp"]);
        assert_eq!(parsed.flame, ["--title=my.title"]);
        assert_eq!(parsed.program, ["-F", "--bin", "y"]);
        assert_eq!(parsed.output.as_deref(), Some("p.svg"));
        assert_eq!(parsed.profile(), "release");
    }

    #[test]
    fn a_name_comes_after_its_subcommand() {
        let parsed = parse("test parses -p core --no-open -j2");
        assert_eq!((parsed.kind, parsed.name.as_deref()), (Kind::Test, Some("parses")));
        assert_eq!(
            (parsed.cargo, parsed.open),
            (vec!["--package=core".to_owned(), "--jobs=2".to_owned()], false)
        );
        let wrong = Arguments::parse(vec!["server".to_owned()]);
        assert!(wrong.is_err_and(|error| error.to_string().contains("after `--`")));
    }

    #[test]
    fn options_keep_their_values() {
        let parsed =
            parse("-F 4999 --release -e a -e b -vv -gz -G/x --runtimes=jvm -q -Zbuild-std -D -1 --bin");
        let record = "-G/x --event=a --event=b --freq=4999 -g --delay=-1 --compress --runtimes=jvm";
        assert_eq!(parsed.record.join(" "), format!("{record} --quiet --verbose --verbose"));
        assert_eq!(parsed.cargo, ["--release", "--bin", "-Zbuild-std", "--quiet"]);
        assert_eq!(parsed.flame, ["--quiet", "--verbose", "--verbose"]);
        let wrong = Arguments::parse(["--release", "server"].map(str::to_owned).into());
        assert!(wrong.is_err_and(|error| error.to_string().contains("after `--`")));
    }

    #[test]
    fn a_comparison_takes_options_of_the_recorder_alone() {
        let parsed = parse("--release --base main --runs 5 -F 4999 -q");
        assert_eq!(parsed.base.as_deref(), Some("main"));
        assert_eq!(parsed.record, ["--freq=4999", "--runs=5", "--quiet"]);
        for wrong in ["--runs 5", "--base main --title x", "--base main --against old"] {
            assert!(Arguments::parse(wrong.split(' ').map(str::to_owned).collect()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_description_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn the_profile_is_cargos() {
        for (line, profile) in
            [("run", "dev"), ("test", "test"), ("bench", "bench"), ("test x -r", "release")]
        {
            assert_eq!(parse(line).profile(), profile, "{line}");
        }
        assert_eq!(parse("bench --profile=dist").profile(), "dist");
        assert_eq!(parse("--profile dist").profile(), "dist");
    }
}
