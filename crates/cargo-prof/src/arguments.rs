//! Divides the command line among cargo, `prof record`, `prof flame` and the program.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, CommandFactory, FromArgMatches, Parser};

const USAGE: &str = "\
cargo prof [run] [OPTIONS] [-- ARGS…]
       cargo prof test [NAME] [OPTIONS] [-- ARGS…]
       cargo prof bench [NAME] [OPTIONS] [-- ARGS…]
       cargo prof example [NAME] [OPTIONS] [-- ARGS…]";

/// The end of the help. It names few of the many options that are passed on.
const HELP: &str = "\
Options of cargo choose and build the target: --release, --bin NAME, -p PACKAGE, --features LIST, …
Options of prof record: -F HZ, -e EVENT, --call-graph HOW, …
Options of prof flame: --title TEXT, --no-inline, --reverse, --folded, …
Short options are those of prof, except -p, -r and -j, which are those of cargo.

Examples:
  cargo prof --release --bin server -- --once
  cargo prof test parses_large_files -F 4999
  cargo prof bench --bench decode --title decode
  cargo prof example hello --release
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

/// Build a target with cargo, record it with prof, and open the flame graph
#[derive(Parser, Debug)]
#[command(bin_name = "cargo prof", version, override_usage = USAGE, after_help = HELP)]
pub struct Arguments {
    /// Programs to build and record: run, test, bench or example
    #[arg(default_value = "run", value_parser = kind)]
    pub kind: Kind,
    /// A filter of tests or benchmarks, as for cargo, or the name of an example
    pub name: Option<String>,
    /// Output file [default: NAME.svg in target/prof]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Do not open the flame graph
    #[arg(long)]
    pub no_open: bool,
    /// Print errors only
    #[arg(short, long)]
    pub quiet: bool,
    /// Print details of the build and of the recording
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,
    /// Arguments of the program
    #[arg(last = true, value_name = "ARGS")]
    pub program: Vec<OsString>,
    /// Options of cargo, of `prof record` and of `prof flame`: long ones with their values behind `=`.
    #[arg(skip)]
    pub cargo: Vec<String>,
    #[arg(skip)]
    pub record: Vec<String>,
    #[arg(skip)]
    pub flame: Vec<String>,
}

/// Options of `cargo build`, `test` and `bench` that choose what is built and how. After the names of an option, `=` says that it
/// takes a value, `=?` that it may take the next word as its value, and `[=]` that it may have a value behind `=`.
const CARGO: &str = "
    -r,--release --profile= --bin=? --bins --example=? --examples --test=? --tests --bench=? --benches --lib
    --all-targets -p,--package=? --workspace --exclude= -j,--jobs= --keep-going --features= --all-features
    --no-default-features --target=? --target-dir= --manifest-path= --locked --offline --frozen --config=
    --color= --ignore-rust-version --timings -Z=";

/// Options of `prof flame`, also those that `prof record` has, too.
const FLAME: &str = "
    --folded --diff= --hide= --keep= --root-at= --collapse= --comm= --time= --no-inline --no-kernel
    --no-user --merge-threads --by-process --by-container --container= --cgroup= --parallelism= --addresses --modules
    --modules-only --fold-async --all-frames --debug-dir= --symfs= --raw-names --debuginfod --reverse --inverted
    --title= --colors= --min-width= --wakers --width= --per-thread --weight=";

/// Options of `prof record`, but for short ones that are cargo's and long ones that are [`FLAME`]'s.
const RECORD: &str = "
    --pid= --with-children -t,--tid= -u,--uid= -a,--all-cpus -C,--cpu= -G= -i,--no-inherit --inherit=
    --no-cpu-rings -e,--event= --filter= -F,--freq= --call-graph= --user-callchains --kernel-callchains -g
    -d,--duration= -D,--delay= --max-stack= --all-user --all-kernel -k,--clockid= -m,--mmap-pages= --data
    --phys-data --intr-regs -W,--sample-weight -b,--branch-any --branch-filter= --off-cpu --tasks[=]
    --switch-events --namespaces --all-cgroups --data-page-size --code-page-size -c,--period= --keep-stacks --overwrite
    --window= --switch-output[=] --dump-when= --max-files= --control= -z,--compress[=] --archive
    --no-names --no-service --interpreter-frames --push= --token-file= --header-file= --ca-file= --strict
    --runtimes[=]";

fn kind(word: &str) -> Result<Kind, &'static str> {
    match word {
        "run" => Ok(Kind::Run),
        "test" => Ok(Kind::Test),
        "bench" => Ok(Kind::Bench),
        "example" => Ok(Kind::Example),
        _ => Err("arguments of the program come after `--`"),
    }
}

/// Returns the names of an option of another program, without what says that it takes a value.
fn names(option: &str) -> &str {
    option.trim_end_matches(['=', '?', '[', ']'])
}

fn argument(option: &'static str) -> Arg {
    let names = names(option);
    let mut argument = Arg::new(names).action(ArgAction::Append).default_missing_value("").hide(true);
    for name in names.split(',') {
        argument = match name.strip_prefix("--") {
            Some(long) => argument.long(long),
            None => argument.short(name.chars().nth(1)),
        };
    }
    match option.strip_prefix(names) {
        Some("=") => argument.allow_negative_numbers(true),
        Some("=?") => argument.num_args(0..=1),
        Some("[=]") => argument.num_args(0..=1).require_equals(true),
        _ => argument.num_args(0),
    }
}

/// Returns the options of another program that were given, each as one word.
fn given(matches: &ArgMatches, options: &str) -> Vec<String> {
    let mut words = Vec::new();
    for names in options.split_whitespace().map(names) {
        let name = names.rsplit(',').next().unwrap_or(names);
        for value in matches.get_many::<String>(names).into_iter().flatten() {
            let sign = if name.starts_with("--") && !value.is_empty() { "=" } else { "" };
            words.push(format!("{name}{sign}{value}"));
        }
    }
    words
}

fn command() -> clap::Command {
    let options = [CARGO, FLAME, RECORD].into_iter().flat_map(str::split_whitespace);
    Arguments::command().no_binary_name(true).args(options.map(argument))
}

impl Arguments {
    /// Parses the command line, the program's own name apart.
    ///
    /// # Errors
    /// It is wrong, or asks for help or the version.
    pub fn parse(words: impl Iterator<Item = OsString>) -> clap::error::Result<Self> {
        let mut command = command();
        let matches = command.try_get_matches_from_mut(words)?;
        let mut parsed = Self::from_arg_matches(&matches)?;
        if let (Kind::Run, Some(word)) = (parsed.kind, &parsed.name) {
            let what = format!("unexpected `{word}`; arguments of the program come after `--`");
            return Err(command.error(ErrorKind::UnknownArgument, what));
        }
        let quiet = vec!["--quiet".to_owned(); usize::from(parsed.quiet)];
        let verbose = vec!["--verbose".to_owned(); usize::from(parsed.verbose)];
        parsed.cargo = [given(&matches, CARGO), quiet.clone()].concat();
        parsed.record = [given(&matches, RECORD), quiet.clone(), verbose.clone()].concat();
        parsed.flame = [given(&matches, FLAME), quiet, verbose].concat();
        Ok(parsed)
    }

    /// Returns the value of an option of cargo.
    pub fn cargo_value(&self, option: &str) -> Option<&str> {
        self.cargo.iter().find_map(|word| word.strip_prefix(option)?.strip_prefix('='))
    }

    /// Returns the profile that cargo builds with.
    pub fn profile(&self) -> &str {
        let built_in = match self.kind {
            _ if self.cargo.iter().any(|word| word == "--release") => "release",
            Kind::Run | Kind::Example => "dev",
            Kind::Test => "test",
            Kind::Bench => "bench",
        };
        self.cargo_value("--profile").unwrap_or(built_in)
    }

    /// Returns true if cargo runs the program in the folder of its package: tests and benchmarks.
    pub fn runs_in_package(&self) -> bool {
        matches!(self.kind, Kind::Test | Kind::Bench)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Arguments {
        Arguments::parse(line.split(' ').map(OsString::from)).unwrap()
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
        assert_eq!(parsed.output, Some(PathBuf::from("p.svg")));
        assert_eq!(parsed.profile(), "release");
    }

    #[test]
    fn a_name_comes_after_its_subcommand() {
        let parsed = parse("test parses -p core --no-open -j2");
        assert_eq!((parsed.kind, parsed.name.as_deref()), (Kind::Test, Some("parses")));
        assert_eq!(
            (parsed.cargo, parsed.no_open),
            (vec!["--package=core".to_owned(), "--jobs=2".to_owned()], true)
        );
        let wrong = Arguments::parse(std::iter::once("server".into()));
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
        let wrong = Arguments::parse(["--release", "server"].map(OsString::from).into_iter());
        assert!(wrong.is_err_and(|error| error.to_string().contains("after `--`")));
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
