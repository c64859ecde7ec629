//! Jumps as arrows beside instructions.

use profile::code::CodeRange;

/// Maximum number of arrows side by side. Further ones are not drawn.
const LANES: usize = 5;
/// Maximum number of rows that an arrow spans: longer jumps cannot be followed by eye.
const MAX_JUMP_ROWS: usize = 200;

/// The characters beside each instruction of a range.
pub(super) struct Arrows {
    rows: Vec<[char; LANES + 1]>,
}

impl Arrows {
    pub(super) fn new(range: &CodeRange) -> Self {
        let mut rows = vec![[' '; LANES + 1]; range.instructions.len()];
        let mut taken = vec![[false; LANES]; range.instructions.len()];
        let mut jumps: Vec<_> =
            range.jumps().filter(|(from, to)| from.abs_diff(*to) <= MAX_JUMP_ROWS).collect();
        // The shortest arrows get the lanes next to the instructions.
        jumps.sort_unstable_by_key(|&(from, to)| (from.abs_diff(to), from));
        for (from, to) in jumps {
            let (first, last) = (from.min(to), from.max(to));
            if first == last {
                continue;
            }
            let is_free = |lane: &usize| taken[first..=last].iter().all(|row| !row[*lane]);
            let Some(lane) = (0..LANES).find(is_free) else { continue };
            // Lanes are counted from the right.
            let column = LANES - 1 - lane;
            for (row, taken) in rows[first..=last].iter_mut().zip(&mut taken[first..=last]) {
                taken[lane] = true;
                row[column] = match row[column] {
                    ' ' => '│',
                    '─' => '┼',
                    other => other,
                };
            }
            for (index, corner) in [(first, '╭'), (last, '╰')] {
                rows[index][column] = corner;
                for cell in &mut rows[index][column + 1..] {
                    *cell = match *cell {
                        '│' | '┼' => '┼',
                        '►' => '►',
                        _ => '─',
                    };
                }
            }
            rows[to][LANES] = '►';
        }
        Self { rows }
    }

    /// Returns the characters beside one instruction.
    pub(super) fn row(&self, index: usize) -> String {
        self.rows.get(index).map(|row| row.iter().collect()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Name, Svma};
    use profile::code::Instruction;
    use std::sync::Arc;

    #[test]
    fn arrows_lead_from_jumps_to_their_targets() {
        let targets = [None, Some(3), None, None, Some(0)];
        let instructions = targets.iter().zip(0..).map(|(target, address)| Instruction {
            address: Svma(address),
            bytes: vec![0],
            text: String::new(),
            target: target.map(Svma),
            callee: None,
            weight: 0,
            frames: Arc::from([]),
        });
        let range = CodeRange {
            name: Arc::from("f"),
            module: Name::from("m"),
            weight: 0,
            elsewhere: 0,
            instructions: instructions.collect(),
            missing: None,
            inlined: None,
        };
        let arrows = Arrows::new(&range);
        let drawn: Vec<_> = (0..5).map(|row| arrows.row(row)).collect();
        assert_eq!(drawn, ["   ╭─►", "   │╭─", "   ││ ", "   │╰►", "   ╰──"]);
    }
}
