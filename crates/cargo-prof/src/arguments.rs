//! Divides the command line among cargo, `prof record`, `prof flame` and the program.

/// Printed by `cargo prof --help`.
pub const HELP: &str = "\
Build a target with cargo, record it with prof, and open the flame graph

Usage: cargo prof [run] [OPTIONS] [-- ARGS…]
       cargo prof test [NAME] [OPTIONS] [-- ARGS…]
       cargo prof bench [NAME] [OPTIONS] [-- ARGS…]
       cargo prof example [NAME] [OPTIONS] [-- ARGS…]

NAME is a filter of tests or benchmarks, as for cargo, or the name of an example.
ARGS are passed to the program.

Options:
      --release, --bin NAME, -p PACKAGE, --features LIST, --target-dir DIR, …
                    Options of cargo, to choose and build the target
  -F, --freq HZ, -e EVENT, --call-graph HOW, …
                    Options of prof record
      --title TEXT, --no-inline, --reverse, --folded, …
                    Options of prof flame
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

/// The request of the command line.
#[derive(Debug)]
pub enum Request {
    /// The help.
    Help,
    /// The version.
    Version,
    /// A recording.
    Run(Arguments),
}

/// The command line, divided among cargo, the recorder and the program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arguments {
    /// The kind of target that is built.
    pub kind: Kind,
    /// The filter of tests or benchmarks, or the name of the example.
    pub name: Option<String>,
    /// Words for cargo.
    pub cargo: Vec<String>,
    /// Words for `prof record`.
    pub record: Vec<String>,
    /// Words for `prof flame`.
    pub flame: Vec<String>,
    /// Words for the program.
    pub program: Vec<String>,
    /// The path of the picture.
    pub output: Option<String>,
    /// True if the picture may be opened.
    pub open: bool,
}

/// Options of `cargo build`, `test` and `bench` that choose what is built and how.
const CARGO: &[&str] = &[
    "--release",
    "-r",
    "--profile",
    "--bin",
    "--bins",
    "--example",
    "--examples",
    "--test",
    "--tests",
    "--bench",
    "--benches",
    "--lib",
    "--all-targets",
    "-p",
    "--package",
    "--workspace",
    "--exclude",
    "-j",
    "--jobs",
    "--keep-going",
    "--features",
    "--all-features",
    "--no-default-features",
    "--target",
    "--target-dir",
    "--manifest-path",
    "--locked",
    "--offline",
    "--frozen",
    "--config",
    "-Z",
    "--color",
    "--ignore-rust-version",
    "--timings",
];

/// Long options of `prof flame`. All others are passed to `prof record`, which rejects unknown ones.
pub const FLAME: &[&str] = &[
    "--folded",
    "--hide",
    "--keep",
    "--root-at",
    "--collapse",
    "--comm",
    "--time",
    "--no-inline",
    "--no-kernel",
    "--no-user",
    "--merge-threads",
    "--by-process",
    "--by-container",
    "--container",
    "--cgroup",
    "--addresses",
    "--modules",
    "--modules-only",
    "--fold-async",
    "--debug-dir",
    "--symfs",
    "--raw-names",
    "--debuginfod",
    "--reverse",
    "--inverted",
    "--flamechart",
    "--title",
    "--subtitle",
    "--colors",
    "--min-width",
    "--width",
];

/// The recipient of the words after an option.
#[derive(Clone, Copy)]
enum Owner {
    Cargo,
    Record,
    Flame,
    Output,
}

impl Arguments {
    /// Parses the command line. All words after an option that do not start with `-` count as its values, so that this need not know
    /// which options take a value. For that reason, NAME must directly follow the subcommand.
    pub fn parse(words: Vec<String>) -> Result<Request, String> {
        let mut words = words.into_iter().peekable();
        let kind = match words.peek().map(String::as_str) {
            Some("run") => Some(Kind::Run),
            Some("test") => Some(Kind::Test),
            Some("bench") => Some(Kind::Bench),
            Some("example") => Some(Kind::Example),
            _ => None,
        };
        if kind.is_some() {
            words.next();
        }
        let kind = kind.unwrap_or(Kind::Run);
        let name = words.next_if(|word| kind != Kind::Run && !word.starts_with('-'));
        let mut parsed = Self {
            kind,
            name,
            cargo: Vec::new(),
            record: Vec::new(),
            flame: Vec::new(),
            program: Vec::new(),
            output: None,
            open: true,
        };
        let mut owner = None;
        while let Some(word) = words.next() {
            match word.as_str() {
                "--" => {
                    parsed.program = words.collect();
                    break;
                }
                "-h" | "--help" => return Ok(Request::Help),
                "-V" | "--version" => return Ok(Request::Version),
                "--no-open" => parsed.open = false,
                "-o" | "--output" => owner = Some(Owner::Output),
                "-q" | "--quiet" => {
                    for words in [&mut parsed.cargo, &mut parsed.record, &mut parsed.flame] {
                        words.push("--quiet".to_owned());
                    }
                }
                "-v" | "-vv" | "--verbose" => {
                    parsed.record.push(word.clone());
                    parsed.flame.push(word);
                }
                value if !value.starts_with('-') || value == "-" => match owner {
                    Some(Owner::Output) => {
                        parsed.output = Some(word);
                        owner = None;
                    }
                    Some(Owner::Cargo) => parsed.cargo.push(word),
                    Some(Owner::Record) => parsed.record.push(word),
                    Some(Owner::Flame) => parsed.flame.push(word),
                    None => return Err(misplaced(kind, value)),
                },
                option => {
                    let (name, value) = option.split_once('=').map_or((option, None), |(n, v)| (n, Some(v)));
                    match value {
                        Some(path) if name == "--output" => parsed.output = Some(path.to_owned()),
                        _ if is_cargos(name) => {
                            owner = Some(Owner::Cargo);
                            parsed.cargo.push(word);
                        }
                        _ if FLAME.contains(&name) => {
                            owner = Some(Owner::Flame);
                            parsed.flame.push(word);
                        }
                        _ => {
                            owner = Some(Owner::Record);
                            parsed.record.push(word);
                        }
                    }
                }
            }
        }
        if matches!(owner, Some(Owner::Output)) && parsed.output.is_none() {
            return Err("-o needs a file".to_owned());
        }
        Ok(Request::Run(parsed))
    }

    /// Returns the value of an option of cargo.
    pub fn cargo_value(&self, option: &str) -> Option<&str> {
        let mut words = self.cargo.iter();
        while let Some(word) = words.next() {
            if word == option {
                return words.next().map(String::as_str);
            }
            if let Some(value) = word.strip_prefix(option).and_then(|rest| rest.strip_prefix('=')) {
                return Some(value);
            }
        }
        None
    }

    /// Returns the profile that cargo builds with.
    pub fn profile(&self) -> &str {
        if let Some(profile) = self.cargo_value("--profile") {
            return profile;
        }
        let release = self.cargo.iter().any(|word| word == "--release" || word == "-r");
        match self.kind {
            _ if release => "release",
            Kind::Run | Kind::Example => "dev",
            Kind::Test => "test",
            Kind::Bench => "bench",
        }
    }

    /// Returns true if an unoptimized program would be recorded, probably by mistake.
    pub fn is_unoptimized(&self) -> bool {
        matches!(self.kind, Kind::Run | Kind::Example) && self.profile() == "dev"
    }
}

fn is_cargos(name: &str) -> bool {
    // `-j4` and `-Zflag` have their values in the same word.
    CARGO.contains(&name)
        || ["-j", "-Z"].iter().any(|short| name.starts_with(short) && !name.starts_with("--"))
}

fn misplaced(kind: Kind, word: &str) -> String {
    match kind {
        Kind::Run => format!("`{word}` is not an option; arguments of the program come after `--`"),
        _ => format!(
            "unexpected `{word}`; a name must follow the subcommand, and arguments of the program come after `--`"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Arguments {
        match Arguments::parse(line.split(' ').map(str::to_owned).collect()) {
            Ok(Request::Run(arguments)) => arguments,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn each_word_reaches_its_owner() {
        let parsed = parse(
            "--release --bin x -F 4999 --title my.title --features=a,b -o p.svg --call-graph fp -- -F --bin y",
        );
        assert_eq!(parsed.kind, Kind::Run);
        assert_eq!(parsed.cargo, ["--release", "--bin", "x", "--features=a,b"]);
        assert_eq!(parsed.record, ["-F", "4999", "--call-graph", "fp"]);
        assert_eq!(parsed.flame, ["--title", "my.title"]);
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
            (vec!["-p".to_owned(), "core".to_owned(), "-j2".to_owned()], false)
        );
        let wrong = Arguments::parse(vec!["server".to_owned()]);
        assert!(wrong.is_err_and(|text| text.contains("after `--`")));
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
