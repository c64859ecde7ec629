//! Records while retaining the files that names will be looked up in.

use std::sync::{Arc, Mutex};

use host::objects::RetainedFiles;
use recorder::{Consumer, Control, Error, FileHolder, NameSources, Notice, Options, Summary};

/// The time at which the names of a recording are looked up.
#[derive(Clone)]
pub enum NameLookup {
    /// Names are looked up at the end of the recording. Files whose paths may be gone by then are retained.
    AtEnd,
    /// Names are looked up at each dump of a running recording, from the shared retained files.
    DuringRecording(Arc<Mutex<RetainedFiles>>),
    /// Names are looked up when the recording is read. No files are retained.
    WhenRead,
}

/// Records, and retains the files whose paths may be gone when names are looked up. Returns these files with the summary.
pub fn record_retaining_files(
    consumer: &mut impl Consumer,
    names: NameLookup,
    options: &Options,
    control: &Control,
    notices: &mut dyn FnMut(Notice),
) -> (Result<Summary, Error>, NameSources) {
    let held = match names {
        NameLookup::WhenRead => {
            let recorded = recorder::record(options, control, consumer, Vec::new(), notices);
            return (recorded, NameSources::default());
        }
        NameLookup::AtEnd => Arc::default(),
        NameLookup::DuringRecording(held) => held,
    };
    let mut holder = FileHolder::new(held);
    let recorded = recorder::record(options, control, consumer, vec![&mut holder], notices);
    (recorded, holder.into_sources())
}
