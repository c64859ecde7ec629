//! The list of kernel symbols in the form of `/proc/kallsyms` (`address type name [module]`): from the running kernel, from
//! perf's cache, or from a `vmlinux`.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;

use elf::{SymbolKind, SymbolSource};
use model::BuildId;

use crate::objects::{HostObject, SearchPaths, open_file};

/// Reads the list of the running kernel. Slow: the kernel formats every symbol anew for each reader.
///
/// # Errors
/// `/proc/kallsyms` cannot be read.
pub fn running() -> io::Result<String> {
    read("/proc/kallsyms".as_ref())
}

/// Reads the list that perf cached for the kernel with this build id (`~/.debug/[kernel.kallsyms]/ID/kallsyms`).
pub fn cached(paths: &SearchPaths, build_id: BuildId) -> Option<String> {
    let folder = paths.build_id_cache.as_ref()?.join("[kernel.kallsyms]").join(build_id.to_string());
    read(&folder.join("kallsyms")).ok()
}

fn read(path: &Path) -> io::Result<String> {
    Ok(String::from_utf8(fs::read(path)?)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// Makes the list from the `vmlinux` with this build id. Looks in the build-id folders and where kernels and their debug files
/// are installed, below every folder for debug files as well.
pub fn from_vmlinux(paths: &SearchPaths, build_id: BuildId) -> Option<String> {
    let is_it = |object: &HostObject| object.build_id().is_some_and(|found| found.same_object(&build_id));
    let object = paths
        .kernels(&build_id)
        .into_iter()
        .filter_map(|path| open_file(&path).ok())
        .find(|object| is_it(object) && object.has_symbols(SymbolSource::Full))?;
    Some(kallsyms_text(&object))
}

/// Formats the functions of a kernel as `/proc/kallsyms` does.
fn kallsyms_text(object: &HostObject) -> String {
    let mut text = String::new();
    for symbol in object.symbols(SymbolSource::Full) {
        let is_code =
            object.sections().get(usize::from(symbol.section)).is_some_and(elf::Section::is_executable);
        if is_code
            && matches!(symbol.kind, SymbolKind::Function | SymbolKind::Untyped)
            && !symbol.name().is_empty()
        {
            let kind = if symbol.is_global { 'T' } else { 't' };
            let name = String::from_utf8_lossy(symbol.name());
            // Writing to memory does not fail.
            let _ = writeln!(text, "{:016x} {kind} {name}", symbol.address.0);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn another_kernels_names_come_from_its_vmlinux() {
        // Any program with symbols serves: what makes it a kernel is where it lies.
        let program = std::env::current_exe().unwrap();
        let Some(build_id) = open_file(&program).unwrap().build_id() else {
            println!("skipped: this program was linked without a build id");
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        let paths = SearchPaths {
            symfs: None,
            debug_dirs: vec![folder.path().to_owned()],
            build_id_cache: None,
            debuginfod_cache: None,
            this_host: false,
            own_images: false,
        };
        assert!(from_vmlinux(&paths, build_id).is_none());
        for place in ["vmlinux", "boot/vmlinux-6.1.0-1-amd64", "lib/modules/6.1.0-1-amd64/vmlinux"] {
            let place = folder.path().join(place);
            std::fs::create_dir_all(place.parent().unwrap_or(Path::new("/"))).unwrap();
            std::fs::copy(&program, &place).unwrap();
            let found = from_vmlinux(&paths, build_id).unwrap();
            assert!(found.lines().any(|line| line.ends_with(" T main")), "{}", place.display());
            assert!(from_vmlinux(&paths, BuildId::from_hex("00112233").unwrap()).is_none());
            std::fs::remove_file(&place).unwrap();
        }
    }
}
