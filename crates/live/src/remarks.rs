//! Remarks of a snapshot: which files were not used for names and stacks, and which numbers are approximate.

use export::printable;
use recorder::unwind::RefusedTables;

/// Maximum number of remarks in a snapshot.
const MAX_REMARKS: usize = 16;

/// Merges the remarks on symbol files, on unwind tables and on approximate numbers. Returns the first [`MAX_REMARKS`] of them in
/// alphabetical order, without control characters, and the number of those left out.
pub(crate) fn first_remarks(
    on_symbols: Vec<String>,
    on_tables: &RefusedTables,
    approximate: Option<&str>,
) -> (Vec<String>, u64) {
    let mut all = on_symbols;
    all.extend(on_tables.sentences());
    all.extend(approximate.map(str::to_owned));
    all.sort();
    // A file that was refused both for symbols and for unwinding has the same remark twice.
    all.dedup();
    let omitted = all.len().saturating_sub(MAX_REMARKS) as u64;
    all.truncate(MAX_REMARKS);
    (all.iter().map(|remark| printable(remark).into_owned()).collect(), omitted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_remarks_come_without_control_characters() {
        let said =
            (0..40).map(|number| format!("/tmp/\x1b[2J{number:02} is not used")).chain(["a".to_owned()]);
        let said: Vec<String> = said.collect();
        let (remarks, omitted) =
            first_remarks([said.clone(), said].concat(), &RefusedTables::default(), None);
        assert_eq!((remarks.len(), omitted), (MAX_REMARKS, 25));
        assert_eq!(remarks[0], "/tmp/\u{fffd}[2J00 is not used");
    }
}
