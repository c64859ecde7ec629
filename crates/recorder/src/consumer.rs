//! Where a recording goes: a file, a live view, or a stage that works on the records and hands them on.

use std::io;
use std::ops::Add;
use std::time::Instant;

use decoder::{Attr, RecordLayout};
use host::sys::spawn::ExitStatus;
use model::{CpuId, Loss, Pid, Tid};

use crate::notice::Notice;
use crate::ring::Drained;
use crate::unwind::{CopySizes, StackTotals};
use crate::window::DumpReport;
use perfdata::sections::{Schedstat, SwitchSampling, WatchedTime};

/// The kind of a CPU's ring, of which each CPU has two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RingKind {
    /// The sampling events'.
    Samples,
    /// The always enabled event's that tells of mappings, names, threads.
    Sideband,
    /// That of the CPU times of tasks. Consumers get its records as [`RingKind::Sideband`], checked.
    TaskTimes,
}

/// Records of one ring, whole and in the order of the ring, in the machine's byte order.
#[derive(Debug)]
pub struct Chunk {
    /// The ring that they came from.
    pub ring: RingKind,
    /// The records.
    pub bytes: Vec<u8>,
    /// The reader's account of them.
    pub drained: Drained,
}

/// An event as it was opened.
#[derive(Clone, Debug)]
pub struct RecordedEvent {
    /// The name that the user gave it.
    pub name: String,
    /// The kernel's attr.
    pub attr: Attr,
    /// The ids of its instances, which its records carry.
    pub ids: Vec<u64>,
    /// True if it is the sideband event, which takes no samples.
    pub sideband: bool,
    /// The place of the leader of its group, where it is in one.
    pub leader: Option<usize>,
    /// System and name of a tracepoint.
    pub tracepoint: Option<(String, String)>,
}

/// The events, CPUs and sizes of a recording that is about to begin.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The events; the order is that of the file.
    pub events: Vec<RecordedEvent>,
    /// The CPUs with rings.
    pub cpus: Vec<CpuId>,
    /// Bytes of samples that a ring holds.
    pub ring_size: u64,
    /// The sizes that stack copies may have.
    pub copy_sizes: CopySizes,
}

impl Recording {
    /// The layout of the records of the event at `index`.
    pub fn layout(&self, index: usize) -> Option<RecordLayout> {
        Some(RecordLayout::new(&self.events.get(index)?.attr, decoder::Endian::NATIVE))
    }
}

/// Samples that the kernel could not hand over.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LostCount {
    /// The number of lost samples, of those counts that could be read.
    pub samples: u64,
    /// Counts that could not be read: what they say is not known.
    pub unread: u64,
}

impl Add for LostCount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let (samples, unread) =
            (self.samples.saturating_add(other.samples), self.unread.saturating_add(other.unread));
        Self { samples, unread }
    }
}

/// The way in which a recording ended.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Ending {
    /// Samples that each event lost, in the order of [`Recording::events`] (`PERF_FORMAT_LOST`); for the sideband
    /// event, its records. `None` where the kernel does not count them (before 6.0): LOST records say it.
    pub lost: Option<Vec<LostCount>>,
    /// Without these counts: rings of samples that were full when they were emptied last. What was lost then is in no LOST
    /// record.
    pub full_rings: u64,
    /// The totals of unwound user stacks, where they were unwound.
    pub stacks: Option<StackTotals>,
    /// CPU times that no READ record has told: of the threads that were attached to, or of the command.
    pub task_times: Vec<TaskTime>,
    /// The command's exit status, where it has ended.
    pub exit: Option<ExitStatus>,
    /// For how long switches were watched, where they were.
    pub watched: Option<WatchedTime>,
    /// The spans in which switches were held back, because there were too many; `None` where all were recorded.
    pub switches: Option<SwitchSampling>,
}

/// News of switches between threads, beside their records. They come before any record of what happens later. Times are on
/// the clock of the recording, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SwitchNews {
    /// Switches are watched; from when on and of whom. The end is not known.
    Watched(WatchedTime),
    /// Switches are held back from this time on, because there are too many.
    Held(u64),
    /// They are recorded again.
    Resumed(u64),
    /// The kernel's counts of a thread. Only with [`crate::Options::light`].
    Counted(Tid, Schedstat),
}

/// CPU time of a thread, and of what it started and has not ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskTime {
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// The id of the event that counted it.
    pub id: u64,
    /// Its running time since the recording began, in nanoseconds.
    pub nanoseconds: u64,
}

/// Takes what a recording says beside its records. Those come by [`Consumer`] or [`crate::unwind::OrderedConsumer`].
///
/// The calls come from one thread, in this order: `begin`; records of what existed before; `started`; then, again and again,
/// records and `finished_round`, and now and then `checkpoint`; at last `end`.
pub trait Destination {
    /// The events are open; nothing has been recorded yet.
    ///
    /// # Errors
    /// Where the destination cannot be made; the command is then not started.
    fn begin(&mut self, recording: &Recording) -> io::Result<()>;

    /// Says that all that existed before is described, and the command runs.
    ///
    /// # Errors
    /// Those of the destination.
    fn started(&mut self) -> io::Result<()>;

    /// Something went missing before it came here: bytes of a ring that were no records, or records that a stage could not
    /// decode.
    fn note_loss(&mut self, _loss: Loss) {}

    /// Every ring has been emptied since the round before: no record that comes later is older than the newest one
    /// that came before the *previous* call.
    ///
    /// # Errors
    /// Those of the destination; the recording then ends.
    fn finished_round(&mut self) -> io::Result<()>;

    /// The wanted size of stack copies in bytes, where it matters and can be chosen; asked after each round.
    fn wanted_copy_size(&self) -> Option<u32> {
        None
    }

    /// Returns true if the records are wanted soon, so that rounds should follow each other quickly.
    fn is_in_haste(&self) -> bool {
        false
    }

    /// Takes the totals of stacks since the recording began; told before each round is finished, where they are unwound.
    fn note_stacks(&mut self, _stacks: &StackTotals) {}

    /// Takes what became known of switches; what [`Ending`] says of them at the end has all of it.
    fn note_switches(&mut self, _news: &[SwitchNews]) {}

    /// Something asked for a file with what is kept. What was recorded before has come. `ticket` is in the report of that
    /// file; one file may serve several.
    fn dump(&mut self, _ticket: u64) {}

    /// Returns the reports on files since the last call.
    fn take_reports(&mut self) -> Vec<DumpReport> {
        Vec::new()
    }

    /// Returns the notices for the user since the last call.
    fn take_notices(&mut self) -> Vec<Notice> {
        Vec::new()
    }

    /// Half a second has gone by: make it readable, should we die now.
    ///
    /// # Errors
    /// Those of the destination; the recording then ends.
    fn checkpoint(&mut self) -> io::Result<()>;

    /// Nothing more comes.
    ///
    /// # Errors
    /// Those of the destination.
    fn end(&mut self, ending: &Ending) -> io::Result<()>;
}

/// Takes the records of a recording as they come out of the rings.
pub trait Consumer: Destination {
    /// Records, of one ring in its order; rings are in no order to each other but for `finished_round`. Gives the
    /// memory back for the next chunk, or keeps it.
    ///
    /// # Errors
    /// Those of the destination; the recording then ends.
    fn records(&mut self, chunk: Chunk) -> io::Result<Option<Vec<u8>>>;

    /// Looks at a sample that is still in its ring, and will soon come in a chunk: appends a shorter record of the same layout to
    /// `into`, to come in its place, or does nothing and returns false. The ring waits meanwhile, about `until` then.
    fn shrink(&mut self, _sample: &[u8], _until: Instant, _into: &mut Vec<u8>) -> bool {
        false
    }
}

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

        fn take_reports(&mut self) -> Vec<$crate::window::DumpReport> {
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

impl<D: Destination + ?Sized> Destination for &mut D {
    fn begin(&mut self, recording: &Recording) -> io::Result<()> {
        (**self).begin(recording)
    }

    fn started(&mut self) -> io::Result<()> {
        (**self).started()
    }

    fn finished_round(&mut self) -> io::Result<()> {
        (**self).finished_round()
    }

    fn end(&mut self, ending: &Ending) -> io::Result<()> {
        (**self).end(ending)
    }

    forward_calls!(this => (**this));
    forward_upkeep!(this => (**this));
}

impl<C: Consumer + ?Sized> Consumer for &mut C {
    fn records(&mut self, chunk: Chunk) -> io::Result<Option<Vec<u8>>> {
        (**self).records(chunk)
    }

    fn shrink(&mut self, sample: &[u8], until: Instant, into: &mut Vec<u8>) -> bool {
        (**self).shrink(sample, until, into)
    }
}
