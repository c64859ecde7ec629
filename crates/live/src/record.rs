//! A recording into the engine.

use recorder::unwind::UnwindingStage;
use recorder::{Command, Control, Notice, Options, Summary};

use super::engine::{Engine, News};

/// Records into the engine, through the stage that orders the records, and unwinds stacks where they are to be complete. A command
/// that still runs when nobody looks any more is terminated: it was started to be looked at.
///
/// # Errors
/// Where nothing can be recorded.
pub fn record<F: FnMut(News)>(
    options: &Options,
    control: &Control,
    engine: &mut Engine<F>,
    notices: &mut dyn FnMut(Notice),
) -> Result<Summary, recorder::Error> {
    let mut in_order =
        UnwindingStage::new(engine, options.keeps_stacks(), options.mechanisms).for_live_view();
    let refused_tables = in_order.refused_tables();
    in_order.consumer_mut().refused_tables = refused_tables;
    let summary = recorder::record(options, control, &mut in_order, notices)?;
    if let Some(Command::Running(command)) = &summary.command {
        command.terminate();
    }
    Ok(summary)
}
