//! Builds one program of the matrix: the reference as the linker wrote it, and the form to be tested.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::combination::{Combination, Compiler, Dwarf, Form, Kind, Linker};

/// A built program.
pub(crate) struct Built {
    /// With all debug information inside: what the oracles read.
    pub reference: PathBuf,
    /// What is tested.
    pub program: PathBuf,
    /// A folder to look for debug files in.
    pub debug_dirs: Vec<PathBuf>,
}

/// Builds in an empty folder.
///
/// # Errors
/// The failing tool's message: not every toolchain can make every combination.
pub(crate) fn build(combination: Combination, folder: &Path) -> Result<Built, String> {
    let reference = folder.join("reference");
    let compile = |split, output: &Path| match combination.compiler {
        Compiler::Rustc => compile_rust(combination, split, folder, output),
        _ => compile_cpp(combination, split, folder, output),
    };
    compile(false, &reference)?;
    let split = folder.join("split");
    if matches!(combination.form, Form::Dwo | Form::Dwp) {
        // The oracles are weak at split files, so they read a twin without.
        compile(true, &split)?;
        if code_of(&split)? != code_of(&reference)? {
            return Err(String::from("the compiler makes other code when it splits"));
        }
    }
    transform(combination.form, folder, &reference, &split)
}

fn code_of(path: &Path) -> Result<(u64, Vec<u8>), String> {
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    let object = elf::Object::parse(bytes).map_err(|error| error.to_string())?;
    let text = object.section(".text").ok_or("no .text")?;
    Ok((text.address.0, object.section_bytes(text).map_err(|error| error.to_string())?.to_vec()))
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/matrix")
}

fn compile_cpp(combination: Combination, split: bool, folder: &Path, output: &Path) -> Result<(), String> {
    let Combination { compiler, dwarf, kind, linker, .. } = combination;
    let compiler = if compiler == Compiler::Gcc { "g++" } else { "clang++" };
    let mut flags = vec!["-O2", "-ffunction-sections"];
    flags.push(if dwarf == Dwarf::Four { "-gdwarf-4" } else { "-gdwarf-5" });
    match kind {
        Kind::Pie | Kind::StaticPie => flags.push("-fPIE"),
        Kind::NoPie | Kind::Static => flags.push("-fno-pie"),
        Kind::Shared => flags.extend(["-fPIC", "-DPROBE_SHARED"]),
    }
    if split {
        flags.push("-gsplit-dwarf");
    }
    let mut objects = Vec::new();
    for source in ["program", "other"] {
        let object = folder.join(format!("{source}.o"));
        let file = sources().join(format!("{source}.cpp"));
        run(Command::new(compiler)
            .args(&flags)
            .arg("-c")
            .arg(file)
            .arg("-o")
            .arg(&object)
            .current_dir(folder))?;
        objects.push(object);
    }
    let mut link = Command::new(compiler);
    link.arg(format!("-fuse-ld={}", linker.text())).arg("-Wl,--build-id=sha1").arg("-Wl,--gc-sections");
    link.arg(match kind {
        Kind::Pie => "-pie",
        Kind::NoPie => "-no-pie",
        Kind::Static => "-static",
        Kind::StaticPie => "-static-pie",
        Kind::Shared => "-shared",
    });
    if kind == Kind::NoPie || kind == Kind::Pie {
        // Symbols that the dynamic linker sees, with versions or not, are in the table too.
        link.arg("-rdynamic");
    }
    run(link.args(&objects).arg("-o").arg(output).current_dir(folder))
}

fn compile_rust(combination: Combination, split: bool, folder: &Path, output: &Path) -> Result<(), String> {
    let Combination { dwarf, kind, linker, .. } = combination;
    let source = folder.join("program.rs");
    std::fs::copy(sources().join("program.rs.txt"), &source).map_err(|error| error.to_string())?;
    let mut rustc = Command::new("rustc");
    rustc.args(["--edition=2024", "-Copt-level=2", "-Cdebuginfo=2", "-Ccodegen-units=2"]);
    rustc.arg(if dwarf == Dwarf::Four { "-Cdwarf-version=4" } else { "-Cdwarf-version=5" });
    rustc.args(match kind {
        Kind::Pie => &["-Crelocation-model=pie"][..],
        Kind::NoPie => &["-Crelocation-model=static"],
        Kind::Static => &["-Crelocation-model=static", "-Ctarget-feature=+crt-static"],
        Kind::StaticPie => &["-Crelocation-model=pie", "-Ctarget-feature=+crt-static"],
        Kind::Shared => &["--crate-type=cdylib"],
    });
    rustc.arg("-Clinker=clang").arg(format!("-Clink-arg=-fuse-ld={}", linker.text()));
    if linker != Linker::Lld {
        rustc.arg("-Clinker-features=-lld");
    }
    rustc.arg("-Clink-arg=-Wl,--build-id=sha1");
    rustc.arg(if split { "-Csplit-debuginfo=unpacked" } else { "-Csplit-debuginfo=off" });
    run(rustc.arg(&source).arg("-o").arg(output).current_dir(folder))
}

fn transform(form: Form, folder: &Path, reference: &Path, split: &Path) -> Result<Built, String> {
    let program = folder.join("program");
    let mut built =
        Built { reference: reference.to_owned(), program: program.clone(), debug_dirs: Vec::new() };
    let objcopy = |arguments: &[&str], from: &Path, to: &Path| {
        run(Command::new("objcopy").args(arguments).arg(from).arg(to).current_dir(folder))
    };
    match form {
        Form::Plain => copy(reference, &program)?,
        Form::Dwo => copy(split, &program)?,
        Form::DebugLink | Form::BuildIdDir => {
            let debug = folder.join("program.debug");
            objcopy(&["--only-keep-debug"], reference, &debug)?;
            if form == Form::DebugLink {
                objcopy(&["--strip-all", "--add-gnu-debuglink=program.debug"], reference, &program)?;
            } else {
                objcopy(&["--strip-all"], reference, &program)?;
                let id = build_id(reference)?;
                let place = folder.join("debug/.build-id").join(&id[..2]);
                std::fs::create_dir_all(&place).map_err(|error| error.to_string())?;
                std::fs::rename(&debug, place.join(format!("{}.debug", &id[2..])))
                    .map_err(|error| error.to_string())?;
                built.debug_dirs.push(folder.join("debug"));
            }
        }
        Form::Dwz => {
            // With two files dwz moves what they have in common to a third.
            let second = folder.join("second");
            copy(reference, &program)?;
            copy(reference, &second)?;
            let together = ["-m", "common.debug", "program", "second"];
            if run(Command::new("dwz").args(together).current_dir(folder)).is_err() {
                run(Command::new("dwz").arg("program").current_dir(folder))?;
            }
        }
        Form::MiniDebug => {
            let mini = folder.join("mini");
            objcopy(&["--only-keep-debug"], reference, &mini)?;
            run(Command::new("objcopy").args(["--strip-debug", "mini"]).current_dir(folder))?;
            run(Command::new("xz").args(["-9", "mini"]).current_dir(folder))?;
            objcopy(&["--strip-all", "--add-section", ".gnu_debugdata=mini.xz"], reference, &program)?;
        }
        Form::Dwp => {
            copy(split, &program)?;
            run(Command::new("llvm-dwp").args(["-e", "program", "-o", "program.dwp"]).current_dir(folder))?;
            for entry in std::fs::read_dir(folder).map_err(|error| error.to_string())?.flatten() {
                if entry.path().extension().is_some_and(|extension| extension == "dwo") {
                    std::fs::remove_file(entry.path()).map_err(|error| error.to_string())?;
                }
            }
        }
        Form::Zlib => objcopy(&["--compress-debug-sections=zlib"], reference, &program)?,
        Form::Zstd => objcopy(&["--compress-debug-sections=zstd"], reference, &program)?,
    }
    Ok(built)
}

fn build_id(path: &Path) -> Result<String, String> {
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    let object = elf::Object::parse(bytes).map_err(|error| error.to_string())?;
    object.build_id().map(|id| id.to_string()).ok_or_else(|| String::from("the linker wrote no build id"))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    std::fs::copy(from, to).map(drop).map_err(|error| error.to_string())
}

/// Runs a tool.
///
/// # Errors
/// The last line of what it said.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    output(command).map(drop)
}

/// Runs a tool and returns what it printed.
///
/// # Errors
/// The line of its complaint that says most.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let tool = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{tool}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // A compiler that calls a linker says last, and least, that it failed.
    let reason =
        |line: &&str| line.contains("rror") && !line.contains("ld returned") && !line.contains("exit code");
    let line = said.lines().find(reason).or(said.lines().next());
    Err(format!("{tool}: {}", line.unwrap_or_default().trim().chars().take(200).collect::<String>()))
}
