//! The source lines of addresses and of inlined calls.

use std::path::PathBuf;
use std::sync::Arc;

use gimli::UnitRef;
use model::SourceLocation;
use rustc_hash::FxHashMap;

use super::walk::CallSite;
use super::{Dwarf, Reader};

/// Looks up addresses in the line tables of a file.
pub(crate) struct Lines<'a> {
    context: Option<addr2line::Context<Reader<'a>>>,
    files: FxHashMap<String, Arc<str>>,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(dwarf: Dwarf<'a>) -> Self {
        Self { context: addr2line::Context::from_dwarf(dwarf).ok(), files: FxHashMap::default() }
    }

    /// Returns the source line of an address; `None` where no line table covers it.
    pub(crate) fn find(&mut self, address: u64) -> Option<SourceLocation> {
        // addr2line adds one to the address.
        if address == u64::MAX {
            return None;
        }
        let location = self.context.as_ref()?.find_location(address).ok()??;
        Some(SourceLocation {
            file: interned(&mut self.files, location.file?),
            line: location.line.unwrap_or(0),
            column: location.column.unwrap_or(0),
            discriminator: 0,
            start_line: 0,
        })
    }
}

fn interned(files: &mut FxHashMap<String, Arc<str>>, file: &str) -> Arc<str> {
    if let Some(known) = files.get(file) {
        return Arc::clone(known);
    }
    let name: Arc<str> = Arc::from(file);
    files.insert(file.to_owned(), Arc::clone(&name));
    name
}

/// Returns the location of an inlined call, whose file is a number in the line table of the unit.
pub(crate) fn call_location(unit: UnitRef<'_, Reader<'_>>, call: CallSite) -> Option<SourceLocation> {
    let header = unit.line_program.as_ref()?.header();
    let file = header.file(call.file?)?;
    let text = |value| unit.attr_string(value).map(|text| text.to_string_lossy().into_owned()).ok();
    let mut path = PathBuf::new();
    if let Some(folder) = unit.comp_dir {
        path.push(folder.to_string_lossy().as_ref());
    }
    // Directory 0 is the compilation directory.
    if file.directory_index() != 0
        && let Some(folder) = file.directory(header)
    {
        path.push(text(folder)?);
    }
    path.push(text(file.path_name())?);
    Some(SourceLocation {
        file: Arc::from(path.to_string_lossy()),
        line: call.line,
        column: call.column,
        discriminator: call.discriminator,
        start_line: 0,
    })
}
