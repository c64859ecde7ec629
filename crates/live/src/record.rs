//! Runs a recording with an engine as its consumer.

use recorder::unwind::UnwindingStage;
use recorder::{Command, Control, Notice, Options, Summary};

use super::engine::{Engine, EngineEvent};

/// Records until `control` stops it or the target ends. Puts the records in order, unwinds user stacks where `options` ask for stack
/// copies, and gives all of it to `engine`. Terminates a command that still runs at the end: it was started for this view alone.
///
/// # Errors
/// Where the recording cannot begin, or fails.
pub fn record<F: FnMut(EngineEvent)>(
    options: &Options,
    control: &Control,
    engine: &mut Engine<F>,
    notices: &mut dyn FnMut(Notice),
) -> Result<Summary, recorder::Error> {
    let mut in_order = UnwindingStage::new(engine, options.keeps_stacks(), options.mechanisms)
        .with_low_memory()
        .with_interpreter_frames(options.interpreter_frames);
    let refused_tables = in_order.refused_tables();
    in_order.consumer_mut().refused_tables = refused_tables;
    let summary = recorder::record(options, control, &mut in_order, Vec::new(), notices)?;
    if let Some(Command::Running(command)) = &summary.command {
        command.terminate();
    }
    Ok(summary)
}
