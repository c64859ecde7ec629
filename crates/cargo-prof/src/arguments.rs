//! The command line: which words are for cargo, for `prof record`, for `prof flame` and for the program.

/// Printed by `cargo prof --help`.
pub const HELP: &str = "\
Build a target with cargo, record it with prof, and open the picture

Usage: cargo prof [run] [OPTIONS] [-- ARGS…]
       cargo prof test [NAME] [OPTIONS] [-- ARGS…]
       cargo prof bench [NAME] [OPTIONS] [-- ARGS…]
       cargo prof example [NAME] [OPTIONS] [-- ARGS…]

NAME is a filter for tests and benchmarks, as cargo has it, and the name of an example. ARGS are the program's.

Options:
      --release, --bin NAME, -p PACKAGE, --features LIST, --target-dir DIR and the others of cargo
                    choose and build what is recorded
  -F, --freq HZ, -e EVENT, --call-graph HOW and the others of `prof record`
                    say how it is recorded
      --title TEXT, --no-inline, --reverse, --folded and the others of `prof flame`
                    say how it is drawn
  -o, --output FILE The picture [default: NAME.svg in the folder target/prof]
      --no-open     Do not open the picture
  -q, --quiet       Errors only; -v says more
  -h, --help        This text
  -V, --version     The version

Short options are prof's, but for -p, -r and -j, which are cargo's.

Examples:
  cargo prof --release --bin server -- --once
  cargo prof test parses_large_files -F 4999
  cargo prof bench --bench decode --title decode
  cargo prof example hello --release
";

/// The kind of target that cargo is told to build.
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

/// The request that the user makes.
#[derive(Debug)]
pub enum Request {
    /// The help.
    Help,
    /// The version.
    Version,
    /// A picture.
    Run(Arguments),
}

/// The command line, divided among cargo, the recorder and the program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arguments {
    /// The kind of target that is built.
    pub kind: Kind,
    /// The filter of tests and benchmarks, or the example.
    pub name: Option<String>,
    /// For cargo.
    pub cargo: Vec<String>,
    /// For `prof record`.
    pub record: Vec<String>,
    /// For `prof flame`.
    pub flame: Vec<String>,
    /// For the program.
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

/// Long options of `prof flame`. All others are for `prof record`, which says so if it does not know one.
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

/// Who the words after an option belong to.
#[derive(Clone, Copy)]
enum Owner {
    Cargo,
    Record,
    Flame,
    Output,
}

impl Arguments {
    /// Sorts the words. An option's values are the words after it that do not begin with `-`, so nothing here has to
    /// know which options take one; a NAME stands right behind its subcommand for that reason.
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

    /// The value of an option of cargo's.
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

    /// The profile that cargo builds with.
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

    /// Returns true if what is measured was probably meant to be built otherwise.
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
        Kind::Run => format!("`{word}` is no option; the program's arguments come after `--`"),
        _ => format!(
            "`{word}` is one name too many; a name comes right after the subcommand, the program's arguments after `--`"
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
