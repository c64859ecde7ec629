//! Recording with the files kept open that names will come from.

use std::sync::{Arc, Mutex};

use host::objects::HeldFiles;
use recorder::{Consumer, Control, Error, Holding, NameSources, Notice, Options, Summary};

/// The time at which names are looked for.
#[derive(Clone)]
pub enum Names {
    /// At the end of the recording: files that have no name by then are kept open.
    Soon,
    /// While it goes on, too, by somebody who looks at these files that are kept open.
    Meanwhile(Arc<Mutex<HeldFiles>>),
    /// Whenever somebody reads the recording.
    Later,
}

/// Records, and keeps the files open meanwhile that names will have to come from, should they be gone by then.
pub fn record_holding(
    consumer: &mut impl Consumer,
    names: Names,
    options: &Options,
    control: &Control,
    notices: &mut dyn FnMut(Notice),
) -> (Result<Summary, Error>, NameSources) {
    match names {
        Names::Later => (recorder::record(options, control, consumer, notices), NameSources::default()),
        Names::Soon | Names::Meanwhile(_) => {
            let mut holding = match names {
                Names::Meanwhile(held) => Holding::sharing(consumer, held),
                Names::Soon | Names::Later => Holding::new(consumer),
            };
            let recorded = recorder::record(options, control, &mut holding, notices);
            (recorded, holding.into_sources())
        }
    }
}
