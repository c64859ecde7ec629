//! The discriminators of addresses: numbers in a line table that tell blocks of code on one line apart.

use gimli::UnitRef;

use super::Reader;

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
