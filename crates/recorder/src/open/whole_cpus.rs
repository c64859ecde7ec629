//! Whole CPUs in place of threads that are too many.

use model::Pid;

use super::plan::{Opened, open_target, processes};
use crate::error::Error;
use crate::notice::Notice;
use crate::options::{Options, Target};

/// Opens the events of `options` on their target, which for a command is the waiting child. Where processes have more
/// threads than there may be file descriptors, whole CPUs are opened if that is permitted, and [`Opened::members`] says
/// whose samples are meant.
pub(crate) fn open(
    options: &Options,
    child: Option<Pid>,
    notices: &mut dyn FnMut(Notice),
) -> Result<Opened, Error> {
    let opened = open_target(options, child, notices);
    let Err(Error::Descriptors { needed, limit, .. }) = opened else { return opened };
    if options.per_thread || !matches!(options.target, Target::Processes(_) | Target::User(_)) {
        return opened;
    }
    let pids = processes(options)?;
    let whole = Options { target: Target::System, ..options.clone() };
    let mut told = Vec::new();
    let Ok(mut instead) = open_target(&whole, child, &mut |notice| told.push(notice)) else { return opened };
    instead.members = Some(pids);
    notices(Notice::WholeCpus { needed, limit });
    told.into_iter().for_each(notices);
    Ok(instead)
}
