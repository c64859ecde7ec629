//! Runs cargo, and finds the program to record in its JSON messages.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde_json::Value;

use crate::arguments::{Arguments, Kind};
use crate::profile::Variable;

/// The folders of the packages and of the build.
pub struct Workspace {
    /// The folder with the manifest that has the profiles.
    pub root: PathBuf,
    /// The folder of pictures and recordings.
    pub output: PathBuf,
}

impl Workspace {
    /// Asks cargo where the workspace and its target folder are.
    ///
    /// # Errors
    /// Where cargo cannot be run, or finds no manifest.
    pub fn find(arguments: &Arguments) -> anyhow::Result<Self> {
        let mut command = cargo();
        command.args(["metadata", "--no-deps", "--format-version", "1"]);
        if let Some(path) = arguments.cargo_value("--manifest-path") {
            command.args(["--manifest-path", path]);
        }
        let metadata = printed(&mut command).context("cargo metadata failed")?;
        let metadata: Value = serde_json::from_str(&metadata).context("cannot read cargo's metadata")?;
        let folder = |key| metadata[key].as_str().with_context(|| format!("cargo names no {key}"));
        let target = match arguments.cargo_value("--target-dir") {
            Some(folder) => folder,
            None => folder("target_directory")?,
        };
        Ok(Self { root: folder("workspace_root")?.into(), output: Path::new(target).join("prof") })
    }
}

/// An executable that cargo has built, and what it needs to run as cargo runs it.
#[derive(Debug)]
pub struct Target {
    /// The target's name.
    pub name: String,
    /// The file.
    pub executable: PathBuf,
    /// The package's folder, where cargo runs tests and benchmarks.
    pub package: PathBuf,
    /// Folders with shared libraries of build scripts.
    pub libraries: Vec<PathBuf>,
}

/// Builds what the user chose, and returns the one executable to record.
///
/// # Errors
/// Where the build fails, and where there is no or more than one executable.
pub fn build(arguments: &Arguments, variables: Vec<Variable>) -> anyhow::Result<Target> {
    let mut command = cargo();
    match (arguments.kind, &arguments.name) {
        (Kind::Run, _) => command.arg("build"),
        (Kind::Test, _) => command.args(["test", "--no-run"]),
        (Kind::Bench, _) => command.args(["bench", "--no-run"]),
        (Kind::Example, Some(name)) => command.args(["build", "--example", name]),
        (Kind::Example, None) => command.args(["build", "--examples"]),
    };
    command.arg("--message-format=json-render-diagnostics").args(&arguments.cargo).envs(variables);
    let messages = printed(&mut command).context("the build failed")?;
    choose(arguments, executables(arguments.kind, &messages))
}

/// Returns cargo, from the variable that it sets for subcommands.
fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")))
}

/// Returns what cargo prints. It says itself why it fails.
fn printed(command: &mut Command) -> anyhow::Result<String> {
    let output = command.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    if !output.status.success() {
        bail!("{}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Parses the messages of cargo: <https://doc.rust-lang.org/cargo/reference/external-tools.html#json-messages>.
fn executables(kind: Kind, messages: &str) -> Vec<Target> {
    let messages: Vec<Value> = messages.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let paths = messages.iter().filter_map(|message| message["linked_paths"].as_array()).flatten();
    // `native=/path`, or the path alone.
    let path = |text: &str| PathBuf::from(text.split_once('=').map_or(text, |(_, path)| path));
    let libraries: Vec<_> = paths.filter_map(Value::as_str).map(path).collect();
    messages.iter().filter_map(|message| target(kind, message, &libraries)).collect()
}

/// Returns the program that a message of cargo is about; `None` if it names none of this kind.
fn target(kind: Kind, message: &Value, libraries: &[PathBuf]) -> Option<Target> {
    let executable = message["executable"].as_str()?.into();
    let kinds = message["target"]["kind"].as_array()?;
    let is = |wanted: &str| kinds.iter().any(|kind| kind == wanted);
    let fits = match kind {
        Kind::Run => is("bin") || is("example"),
        Kind::Example => is("example"),
        // A binary that integration tests run is built beside them. Without the harness, the profile still says test.
        Kind::Test | Kind::Bench => message["profile"]["test"] == true || is("bench"),
    };
    let package = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    let name = message["target"]["name"].as_str()?.to_owned();
    fits.then(|| Target { name, executable, package, libraries: libraries.to_vec() })
}

/// Chooses the program to record.
///
/// # Errors
/// There is none, or there are several.
fn choose(arguments: &Arguments, mut built: Vec<Target>) -> anyhow::Result<Target> {
    if built.len() > 1 && arguments.runs_in_package() {
        built.retain(|target| lists(arguments, target));
    }
    let names: Vec<_> = built.iter().map(|target| target.name.clone()).collect();
    match (built.pop(), &arguments.name) {
        (Some(target), _) if built.is_empty() => Ok(target),
        (None, Some(name)) => bail!("there is no program {name} to record"),
        (None, None) => {
            bail!("the build has no program to run; try: cargo prof -p PACKAGE, or cargo prof test")
        }
        (Some(Target { name, .. }), _) => {
            // Tests within the library or a binary have the same name as that.
            let how = match arguments.kind {
                Kind::Run => format!("--bin {name}"),
                Kind::Example => format!("example {name}"),
                Kind::Test => format!("test NAME --lib, --bin {name} or --test {name}"),
                Kind::Bench => format!("bench --bench {name}"),
            };
            let (many, names) = (names.len(), names.join(", "));
            bail!("there are {many} programs to record ({names}); to choose one, try: cargo prof {how}")
        }
    }
}

/// Returns true if a test or benchmark program lists something that matches the filter (`--list`), or cannot list.
fn lists(arguments: &Arguments, target: &Target) -> bool {
    let (option, ending) =
        if arguments.kind == Kind::Bench { (Some("--bench"), ": benchmark") } else { (None, ": test") };
    let mut command = Command::new(&target.executable);
    command.args(option).args(&arguments.name).args(["--list", "--format", "terse"]);
    command.current_dir(&target.package).env("LD_LIBRARY_PATH", target.library_path());
    let Ok(output) = command.stdin(Stdio::null()).stderr(Stdio::null()).output() else { return true };
    let listed = String::from_utf8_lossy(&output.stdout);
    !output.status.success() || listed.lines().any(|line| line.ends_with(ending))
}

impl Target {
    /// Returns the search path for shared libraries, as cargo sets it: of build scripts, of dependencies, of Rust,
    /// and the user's.
    pub fn library_path(&self) -> OsString {
        let mut folders = self.libraries.clone();
        if let Some(folder) = self.executable.parent() {
            folders.extend([folder.join("deps"), folder.to_owned()]);
        }
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        if let Ok(output) = Command::new(rustc).args(["--print", "target-libdir"]).output() {
            folders.push(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
        }
        let user = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        folders.extend(std::env::split_paths(&user).filter(|path| !path.as_os_str().is_empty()));
        // A folder with a colon in its name cannot be listed; then the variable of the user stays.
        std::env::join_paths(folders).unwrap_or(user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGES: &str = r#"{"reason":"build-script-executed","linked_paths":["native=/t/out","/t/lib"]}
{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml","target":{"kind":["lib"],"name":"a"},"profile":{"test":false},"executable":null}
{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml","target":{"kind":["bin"],"name":"tool"},"profile":{"test":false},"executable":"/t/tool"}
{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml","target":{"kind":["test"],"name":"it"},"profile":{"test":true},"executable":"/t/deps/it-1"}
not json
{"reason":"build-finished","success":true}"#;

    #[test]
    fn messages_name_what_can_be_run() {
        let run = executables(Kind::Run, MESSAGES);
        assert_eq!(run.iter().map(|target| target.name.as_str()).collect::<Vec<_>>(), ["tool"]);
        assert_eq!(run[0].libraries, [PathBuf::from("/t/out"), PathBuf::from("/t/lib")]);
        let test = executables(Kind::Test, MESSAGES);
        assert_eq!(test.iter().map(|target| target.name.as_str()).collect::<Vec<_>>(), ["it"]);
        assert_eq!(test[0].package, PathBuf::from("/w/a"));
    }
}
