//! Macros by which a stage forwards calls of a [`RecordingSink`](super::RecordingSink) to the next consumer.

/// Forwards the calls of a [`RecordingSink`] in which a stage has no work of its own.
macro_rules! forward_calls {
    ($this:ident => $consumer:expr) => {
        fn add_loss(&mut self, loss: model::Loss) {
            let $this = self;
            $consumer.add_loss(loss);
        }

        fn wanted_copy_sizes(&self) -> Option<$crate::unwind::PerArrival<u32>> {
            let $this = self;
            $consumer.wanted_copy_sizes()
        }

        fn wants_round_soon(&self) -> bool {
            let $this = self;
            $consumer.wants_round_soon()
        }

        fn set_stack_totals(&mut self, stacks: &$crate::unwind::StackTotals) {
            let $this = self;
            $consumer.set_stack_totals(stacks);
        }

        fn update_switches(&mut self, news: &[$crate::consumer::SwitchUpdate]) {
            let $this = self;
            $consumer.update_switches(news);
        }

        fn request_dump(&mut self, ticket: u64) {
            let $this = self;
            $consumer.request_dump(ticket);
        }

        fn take_dump_reports(&mut self) -> Vec<$crate::consumer::DumpReport> {
            let $this = self;
            $consumer.take_dump_reports()
        }
    };
}
pub(crate) use forward_calls;

/// Forwards the notices and checkpoints of a [`RecordingSink`], for stages that have none of their own.
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
