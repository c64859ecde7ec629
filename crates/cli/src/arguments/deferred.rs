//! Arguments whose parser is built when their command is chosen: building those of all commands takes a tenth of the time that
//! `prof record -- true` takes.

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

/// The arguments of one command.
pub struct Deferred<A>(pub A);

impl<A: FromArgMatches> FromArgMatches for Deferred<A> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        A::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl<A: Args> Args for Deferred<A> {
    fn augment_args(command: Command) -> Command {
        command.defer(|command| rare_last(keep_about(command, A::augment_args)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        command.defer(|command| rare_last(keep_about(command, A::augment_args_for_update)))
    }
}

/// Adds arguments to a command that already says what it is for. Otherwise the documentation of the type of the arguments would.
fn keep_about(command: Command, add: fn(Command) -> Command) -> Command {
    let about = command.get_about().cloned().unwrap_or_default();
    add(command).about(about).long_about(None)
}

/// Moves the options that `-h` leaves out into a group at the end of `--help`, but for filters, which stay together.
fn rare_last(command: Command) -> Command {
    let is_rare = |arg: &&Arg| arg.is_hide_short_help_set() && arg.get_help_heading() != Some("Filters");
    let rare: Vec<_> = command.get_arguments().filter(is_rare).map(|arg| arg.get_id().clone()).collect();
    rare.into_iter().fold(command, |command, id| command.mut_arg(id, |arg| arg.help_heading("Rarely needed")))
}
