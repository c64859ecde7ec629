//! Recording with the files kept open that names will come from.

use std::sync::{Arc, Mutex};

use host::objects::RetainedFiles;
use recorder::{Consumer, Control, Error, Holding, NameSources, Notice, Options, Summary};

/// The time at which names are looked for.
#[derive(Clone)]
pub enum NameLookup {
    /// At the end of the recording: files that have no name by then are kept open.
    AtEnd,
    /// While it goes on, too, by somebody who looks at these files that are kept open.
    DuringRecording(Arc<Mutex<RetainedFiles>>),
    /// Whenever somebody reads the recording.
    WhenRead,
}

/// Records, and keeps the files open meanwhile that names will have to come from, should they be gone by then.
pub fn record_retaining_files(
    consumer: &mut impl Consumer,
    names: NameLookup,
    options: &Options,
    control: &Control,
    notices: &mut dyn FnMut(Notice),
) -> (Result<Summary, Error>, NameSources) {
    match names {
        NameLookup::WhenRead => {
            (recorder::record(options, control, consumer, notices), NameSources::default())
        }
        NameLookup::AtEnd | NameLookup::DuringRecording(_) => {
            let mut holding = match names {
                NameLookup::DuringRecording(held) => Holding::sharing(consumer, held),
                NameLookup::AtEnd | NameLookup::WhenRead => Holding::new(consumer),
            };
            let recorded = recorder::record(options, control, &mut holding, notices);
            (recorded, holding.into_sources())
        }
    }
}
