//! Runs cargo, and finds the program to record in its JSON messages.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde_json::Value;

use crate::arguments::{Arguments, Kind};
use crate::profile::Environment;

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
        let output = command.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
        if !output.status.success() {
            bail!("cargo metadata failed");
        }
        let metadata: Value =
            serde_json::from_slice(&output.stdout).context("cannot read cargo's metadata")?;
        let folder = |key: &str| {
            metadata[key].as_str().map(PathBuf::from).with_context(|| format!("cargo names no {key}"))
        };
        let target = arguments
            .cargo_value("--target-dir")
            .map_or_else(|| folder("target_directory"), |dir| Ok(dir.into()))?;
        Ok(Self { root: folder("workspace_root")?, output: target.join("prof") })
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

/// A folder to build in, other than the current one.
pub struct Place {
    /// The folder in which cargo runs.
    pub folder: PathBuf,
    /// The target folder.
    pub target: PathBuf,
}

/// Builds what the user chose, in the current folder or in `place`, and returns the one executable to record.
///
/// # Errors
/// Where the build fails, and where there is no or more than one executable.
pub fn build(
    arguments: &Arguments,
    environment: &Environment,
    place: Option<&Place>,
) -> anyhow::Result<Target> {
    let mut command = cargo();
    match arguments.kind {
        Kind::Run => command.arg("build"),
        Kind::Test => command.args(["test", "--no-run"]),
        Kind::Bench => command.args(["bench", "--no-run"]),
        Kind::Example => command.arg("build"),
    };
    match (arguments.kind, &arguments.name) {
        (Kind::Example, Some(name)) => command.args(["--example", name]),
        (Kind::Example, None) => command.arg("--examples"),
        _ => &mut command,
    };
    command.arg("--message-format=json-render-diagnostics");
    match place {
        None => command.args(&arguments.cargo),
        Some(place) => {
            let others = arguments.cargo.iter().filter(|word| !word.starts_with("--target-dir="));
            command.args(others).arg("--target-dir").arg(&place.target).current_dir(&place.folder)
        }
    };
    command.envs(environment.variables.iter().map(|(name, value)| (name, value)));
    let output = command.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    if !output.status.success() {
        bail!("the build failed");
    }
    let built = executables(arguments.kind, &String::from_utf8_lossy(&output.stdout));
    choose(arguments, built)
}

/// Returns cargo, from the variable that it sets for subcommands.
fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")))
}

/// Parses the messages of cargo: <https://doc.rust-lang.org/cargo/reference/external-tools.html#json-messages>.
fn executables(kind: Kind, messages: &str) -> Vec<Target> {
    let mut targets = Vec::new();
    let mut libraries = Vec::new();
    for message in messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        match message["reason"].as_str() {
            Some("build-script-executed") => {
                let paths =
                    message["linked_paths"].as_array().into_iter().flatten().filter_map(Value::as_str);
                // `native=/path`, or the path alone.
                libraries.extend(
                    paths.map(|path| PathBuf::from(path.split_once('=').map_or(path, |(_, path)| path))),
                );
            }
            Some("compiler-artifact") => targets.extend(target(kind, &message)),
            _ => {}
        }
    }
    for target in &mut targets {
        target.libraries.clone_from(&libraries);
    }
    targets
}

fn target(kind: Kind, message: &Value) -> Option<Target> {
    let executable = PathBuf::from(message["executable"].as_str()?);
    let is = |wanted: &str| {
        message["target"]["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == wanted))
    };
    let tests = message["profile"]["test"] == true;
    let fits = match kind {
        Kind::Run => is("bin") || is("example"),
        Kind::Example => is("example"),
        // A binary that integration tests run is built beside them. Without the harness, the profile still says test.
        Kind::Test | Kind::Bench => tests || is("bench"),
    };
    let package = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    let name = message["target"]["name"].as_str()?.to_owned();
    fits.then_some(Target { name, executable, package, libraries: Vec::new() })
}

/// Chooses the program to record.
///
/// # Errors
/// There is none, or there are several.
fn choose(arguments: &Arguments, mut built: Vec<Target>) -> anyhow::Result<Target> {
    if built.len() > 1 && matches!(arguments.kind, Kind::Test | Kind::Bench) {
        built.retain(|target| lists(arguments, target));
    }
    let option = match arguments.kind {
        Kind::Run => "--bin",
        Kind::Example => "example",
        Kind::Test => "--test",
        Kind::Bench => "--bench",
    };
    match built.len() {
        1 => built.pop().context("nothing was built"),
        0 if arguments.name.is_some() => {
            bail!("there is no program {} to record", arguments.name.as_deref().unwrap_or_default())
        }
        0 => bail!("the build has no program to run; try: cargo prof -p PACKAGE, or cargo prof test"),
        many => {
            let names: Vec<_> = built.iter().map(|target| target.name.as_str()).collect();
            let name = names.first().copied().unwrap_or_default();
            // Tests within the library or a binary have the same name as that.
            let how = match arguments.kind {
                Kind::Example => format!("cargo prof example {name}"),
                Kind::Test => format!("cargo prof test NAME --lib, --bin {name} or --test {name}"),
                _ => format!("cargo prof {option} {name}"),
            };
            bail!("there are {many} programs to record ({}); to choose one, try: {how}", names.join(", "))
        }
    }
}

/// Returns true if a test or benchmark program lists something that matches the filter (`--list`), or cannot list.
fn lists(arguments: &Arguments, target: &Target) -> bool {
    let mut command = Command::new(&target.executable);
    if arguments.kind == Kind::Bench {
        command.arg("--bench");
    }
    command.args(&arguments.name).args(["--list", "--format", "terse"]);
    command.current_dir(&target.package).env("LD_LIBRARY_PATH", target.library_path());
    let Ok(output) = command.stdin(Stdio::null()).stderr(Stdio::null()).output() else { return true };
    let ending = if arguments.kind == Kind::Bench { ": benchmark" } else { ": test" };
    !output.status.success()
        || String::from_utf8_lossy(&output.stdout).lines().any(|line| line.ends_with(ending))
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
