//! What other symbolizers say, and whether we say the same.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use model::Resolution;

/// A frame as all of them tell it: linkage name, file name without folders, line.
pub(crate) type Told = (String, String, u32);

/// Whether the tools are there.
pub(crate) fn available() -> Result<(), String> {
    for tool in ["llvm-symbolizer", "eu-addr2line", "addr2line", "objcopy"] {
        if Command::new(tool).arg("--version").output().is_err() {
            return Err(format!("{tool} is not installed"));
        }
    }
    Ok(())
}

/// For each address what two of llvm-symbolizer, eu-addr2line and GNU addr2line say; `None` where each says something
/// else, or they know nothing. elfutils finds nothing where there is no `.debug_aranges` (clang), binutils misses units,
/// and llvm takes units of code that the linker left out for the ones at low addresses (bfd gives such code the address 0).
pub(crate) fn agreed(object: &Path, addresses: &[u64]) -> Vec<Option<Vec<Told>>> {
    let llvm = ask("llvm-symbolizer", &["-fi", "--no-demangle", "--print-address", "-e"], object, addresses);
    let elfutils = ask("eu-addr2line", &["-fi", "-a", "-e"], object, addresses);
    let binutils = ask("addr2line", &["-fi", "-a", "-e"], object, addresses);
    let said = llvm.into_iter().zip(elfutils).zip(binutils);
    said.map(|((llvm, elfutils), binutils)| {
        let known = |said: &[Told]| !said.iter().any(|told| told.0 == "??");
        if llvm == elfutils || llvm == binutils {
            return Some(llvm).filter(|llvm| known(llvm));
        }
        // That both know the symbol alone is no agreement: then neither found the unit.
        let described = |said: &[Told]| known(said) && said.iter().all(|told| told.2 > 0);
        (elfutils == binutils).then_some(elfutils).filter(|elfutils| described(elfutils))
    })
    .collect()
}

fn ask(tool: &str, arguments: &[&str], object: &Path, addresses: &[u64]) -> Vec<Vec<Told>> {
    let mut child = Command::new(tool)
        .args(arguments)
        .arg(object)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let text: String = addresses.iter().map(|address| format!("{address:#x}\n")).collect();
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    let _ = writer.join();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut answers: Vec<Vec<Told>> = Vec::new();
    let mut function: Option<String> = None;
    for line in text.lines().filter(|line| !line.is_empty()) {
        if line.starts_with("0x") && function.is_none() {
            answers.push(Vec::new());
        } else if let Some(function) = function.take() {
            let line = line.split(" (discriminator").next().unwrap();
            let mut parts = line.split(':');
            // binutils writes what rustc calls the unit behind the file: `program.rs/@/program.0123-cgu.0`.
            let file = parts.next().unwrap().split("/@/").next().unwrap().rsplit('/').next().unwrap();
            let number = parts.next().and_then(|number| number.parse().ok()).unwrap_or(0);
            // Where there is no line, some tell the symbol's file, which is no place in the source.
            let file = if number == 0 { "??" } else { file }.to_owned();
            answers.last_mut().unwrap().push((function, file, number));
        } else {
            function = Some(plain(line.split(" inlined at ").next().unwrap()).to_owned());
        }
    }
    assert_eq!(answers.len(), addresses.len(), "{tool} on {}", object.display());
    answers
}

/// Our answer in the same form.
pub(crate) fn told(resolution: &Resolution) -> Vec<Told> {
    let Resolution::Resolved(symbolized) = resolution else { return Vec::new() };
    let frame = |frame: &model::Frame| {
        let location = frame.location.as_ref();
        let location = location.filter(|location| location.line > 0);
        let file = location.and_then(|location| location.file.rsplit('/').next()).unwrap_or("??");
        (plain(&frame.function).to_owned(), file.to_owned(), location.map_or(0, |location| location.line))
    };
    symbolized.frames.iter().map(frame).collect()
}

/// The name without version and without what compilers append to clones: some tools tell the symbol's name, some the
/// one in the debug information. `.abi0` is the Go linker's for functions in assembly.
pub(crate) fn plain(name: &str) -> &str {
    let name = name.split('@').next().unwrap();
    let clones =
        [".isra", ".part", ".constprop", ".cold", ".lto_priv", ".llvm", ".localalias", ".abi0", ".warm"];
    let end = clones.iter().filter_map(|suffix| name.find(suffix)).min();
    &name[..end.unwrap_or(name.len())]
}
