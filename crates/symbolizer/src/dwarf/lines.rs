//! Source lines and discriminators of addresses, from line tables.

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

/// Returns the discriminator of each of `addresses` (sorted) in the line table of a unit; 0 where the table has none, does not cover
/// the address, or is damaged before it does.
pub(crate) fn discriminators(unit: UnitRef<'_, Reader<'_>>, addresses: &[u64]) -> Vec<u32> {
    let mut found = vec![0; addresses.len()];
    let Some(program) = unit.line_program.clone() else { return found };
    let mut rows = program.rows();
    // Bounds the work: only in a hostile table do many rows cover the same addresses.
    let mut budget = addresses.len().saturating_mul(64).saturating_add(1 << 16);
    // The address and the discriminator of the last row of the sequence.
    let mut last: Option<(u64, u64)> = None;
    while let Ok(Some((_, row))) = rows.next_row() {
        if let Some((start, discriminator)) = last.filter(|&(start, _)| start < row.address()) {
            let first = addresses.partition_point(|&address| address < start);
            let covered = addresses.iter().zip(&mut found).skip(first);
            for (_, found) in covered.take_while(|&(&address, _)| address < row.address()).take(budget) {
                budget -= 1;
                *found = u32::try_from(discriminator).unwrap_or(0);
            }
        }
        last = (!row.end_sequence()).then(|| (row.address(), row.discriminator()));
    }
    found
}
