//! Folded stacks: a line per stack, `outermost;…;innermost COUNT`, as `flamegraph.pl`, inferno, speedscope and others
//! read it.

use std::io::{self, Write};

use profile::View;

use crate::label_stacks::{Rows, Stacks};

/// Writes the stacks of a view, equal ones once, in the order of their text.
///
/// # Errors
/// Those of `output`.
pub fn write(view: &View<'_>, output: &mut dyn Write) -> io::Result<()> {
    let mut stacks = Stacks::from_tree(&view.tree(0.0), view.frames());
    stacks.merge();
    let mut line = String::new();
    for (frames, weight) in stacks.iter() {
        line.clear();
        for &frame in frames {
            if !line.is_empty() {
                line.push(';');
            }
            line.push_str(stacks.text(frame));
        }
        writeln!(output, "{line} {weight}")?;
    }
    Ok(())
}
