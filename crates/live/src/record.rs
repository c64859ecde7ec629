//! A recording into the engine.

use recorder::unwind::Unwinding;
use recorder::{Command, Control, Notice, Options, Summary};

use super::engine::{Engine, News};

/// Records into the engine, through the stage that unwinds stacks where they are to be complete. A command that still
/// runs when nobody looks any more is terminated: it was started to be looked at.
///
/// # Errors
/// Where nothing can be recorded.
pub fn record<F: FnMut(News)>(
    options: &Options,
    control: &Control,
    engine: &mut Engine<F>,
    notices: &mut dyn FnMut(Notice),
) -> Result<Summary, recorder::Error> {
    let summary = if options.copies_stacks() {
        let mut unwinding = Unwinding::new(engine, options.keeps_stacks(), options.mechanisms).light();
        let refused_tables = unwinding.refused_tables();
        unwinding.consumer_mut().refused_tables = refused_tables;
        recorder::record(options, control, &mut unwinding, notices)
    } else {
        recorder::record(options, control, engine, notices)
    }?;
    if let Some(Command::Running(command)) = &summary.command {
        command.terminate();
    }
    Ok(summary)
}
