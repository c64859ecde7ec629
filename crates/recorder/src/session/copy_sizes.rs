//! Gives stack copies the sizes that the consumer wants.

use super::Session;
use crate::notice::Notice;
use crate::open::Opened;

impl Session<'_> {
    /// Changes the sizes of stack copies if the consumer wants others. Returns true if one has changed. Sends a notice the first time
    /// that stacks of waits have smaller copies than was asked for.
    pub(super) fn resize_copies(&mut self, opened: &mut Opened) -> bool {
        let wanted = self.consumer.wanted_copy_sizes();
        let is_changed = wanted.is_some_and(|sizes| opened.set_copy_sizes(sizes));
        if let Some((asked, given)) = opened.small_copies_of_waits().filter(|_| is_changed)
            && !std::mem::replace(&mut self.has_small_copies, true)
        {
            (self.notices)(Notice::WaitCopiesShrunk { asked, given });
        }
        is_changed
    }
}
