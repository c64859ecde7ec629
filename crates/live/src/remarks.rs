//! Which files are not used for names and stacks, and what is approximate, in a few sentences.

use export::printable;
use recorder::unwind::RefusedTables;

/// Maximum number of sentences of a snapshot.
const MOST_REMARKS: usize = 16;

/// The first of what is said of files for names, of tables for stacks and of what is `approximate`, harmless, and how many
/// sentences are left out.
pub(crate) fn first_remarks(
    of_names: Vec<String>,
    of_stacks: &RefusedTables,
    approximate: Option<&str>,
) -> (Vec<String>, u64) {
    let mut all = of_names;
    all.extend(of_stacks.sentences());
    all.extend(approximate.map(str::to_owned));
    all.sort();
    // A file that is refused for both says so once.
    all.dedup();
    let omitted = all.len().saturating_sub(MOST_REMARKS) as u64;
    all.truncate(MOST_REMARKS);
    (all.iter().map(|remark| printable(remark).into_owned()).collect(), omitted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_told_without_what_a_terminal_acts_upon() {
        let said =
            (0..40).map(|number| format!("/tmp/\x1b[2J{number:02} is not used")).chain(["a".to_owned()]);
        let said: Vec<String> = said.collect();
        let (remarks, omitted) =
            first_remarks([said.clone(), said].concat(), &RefusedTables::default(), None);
        assert_eq!((remarks.len(), omitted), (MOST_REMARKS, 25));
        assert_eq!(remarks[0], "/tmp/\u{fffd}[2J00 is not used");
    }
}
