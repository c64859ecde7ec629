//! Folded stacks: a line for each stack, `outermost;…;innermost COUNT`, which `flamegraph.pl`, inferno, speedscope and others
//! read.

use std::io::{self, Write};

use profile::View;

use crate::label_stacks::LabelStacks;

/// Writes the stacks of a view, merged and sorted by their text.
///
/// # Errors
/// Those of `output`.
pub fn write(view: &View<'_>, output: &mut dyn Write) -> io::Result<()> {
    let mut stacks = LabelStacks::from_tree(&view.tree(0.0), view.frames());
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
