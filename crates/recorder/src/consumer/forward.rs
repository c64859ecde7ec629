//! The calls of a [`Destination`](super::Destination) that a stage hands on to the next consumer.

/// Hands those calls of a [`Destination`] on to another one that mean the same to all who stand before it.
macro_rules! forward_calls {
    ($this:ident => $consumer:expr) => {
        fn note_loss(&mut self, loss: model::Loss) {
            let $this = self;
            $consumer.note_loss(loss);
        }

        fn wanted_copy_size(&self) -> Option<u32> {
            let $this = self;
            $consumer.wanted_copy_size()
        }

        fn is_in_haste(&self) -> bool {
            let $this = self;
            $consumer.is_in_haste()
        }

        fn note_stacks(&mut self, stacks: &$crate::unwind::StackTotals) {
            let $this = self;
            $consumer.note_stacks(stacks);
        }

        fn note_switches(&mut self, news: &[$crate::consumer::SwitchNews]) {
            let $this = self;
            $consumer.note_switches(news);
        }

        fn dump(&mut self, ticket: u64) {
            let $this = self;
            $consumer.dump(ticket);
        }

        fn take_reports(&mut self) -> Vec<$crate::consumer::DumpReport> {
            let $this = self;
            $consumer.take_reports()
        }
    };
}
pub(crate) use forward_calls;

/// Hands on those calls of a [`Destination`] in which a stage may have work of its own.
macro_rules! forward_upkeep {
    ($this:ident => $consumer:expr) => {
        fn take_notices(&mut self) -> Vec<$crate::notice::Notice> {
            let $this = self;
            $consumer.take_notices()
        }

        fn checkpoint(&mut self) -> std::io::Result<()> {
            let $this = self;
            $consumer.checkpoint()
        }
    };
}
pub(crate) use forward_upkeep;
