//! `-e LIST` and `--filter EXPR`. A filter applies to the events before it, so the order on the command line matters.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use recorder::event::{Event, select};

/// Event lists as given, each with the filter that follows it.
#[derive(Clone, Debug, Default)]
pub struct EventLists(pub Vec<(String, Option<String>)>);

impl EventLists {
    /// Returns the events of all lists on this machine, with their filters.
    ///
    /// # Errors
    /// An event is unknown, or cannot be filtered.
    pub fn select(&self) -> anyhow::Result<Vec<Event>> {
        let catalogue = recorder::this_machine();
        let mut all = Vec::new();
        for (list, filter) in &self.0 {
            let mut events = select(list, &catalogue)?;
            if let Some(filter) = filter {
                for event in &mut events {
                    anyhow::ensure!(
                        event.tracepoint.is_some(),
                        "--filter applies to tracepoints, and {} is not one",
                        event.name
                    );
                    event.filter = Some(filter.clone());
                }
            }
            // `leader` is an index into the list of all events.
            let before = all.len();
            all.extend(events.into_iter().map(|event| {
                let leader = event.leader.map(|leader| leader + before);
                Event { leader, ..event }
            }));
        }
        Ok(all)
    }
}

impl Args for EventLists {
    fn augment_args(command: Command) -> Command {
        command
            .arg(
                Arg::new("event")
                    .short('e')
                    .long("event")
                    .value_name("LIST")
                    .action(ArgAction::Append)
                    .help_heading("Events")
                    .help(
                        "Events, as perf names them [default: cycles, or cpu-clock without a PMU]",
                    )
                    .long_help(
                        "Events to sample, as perf names them: cycles:u, cpu-clock, page-faults, sched:sched_switch, \
                         uprobe:PATH:SYMBOL, mem:ADDR:rw, cpu/event=0xc0/, {a,b}:S [default: cycles, or cpu-clock \
                         where there is no PMU]; prof list prints those of this machine",
                    ),
            )
            .arg(
                Arg::new("filter")
                    .long("filter")
                    .value_name("EXPR")
                    .action(ArgAction::Append)
                    .requires("event")
                    .help_heading("Events")
                    .hide_short_help(true)
                    .help("Filter for the tracepoints before it: 'prev_prio < 100'"),
            )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for EventLists {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let with_places = |name: &str| {
            let places = matches.indices_of(name).into_iter().flatten();
            let values = matches.get_many::<String>(name).into_iter().flatten().cloned();
            places.zip(values).collect::<Vec<(usize, String)>>()
        };
        let mut lists: Vec<(usize, String, Option<String>)> =
            with_places("event").into_iter().map(|(place, list)| (place, list, None)).collect();
        for (place, filter) in with_places("filter") {
            match lists.iter_mut().rev().find(|(before, ..)| *before < place) {
                Some((_, _, slot @ None)) => *slot = Some(filter),
                Some(_) => return Err(usage("two --filter for one -e; try joining them with &&")),
                None => return Err(usage("--filter must follow the -e to which it applies")),
            }
        }
        Ok(Self(lists.into_iter().map(|(_, list, filter)| (list, filter)).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// [`EventLists`] with the help text of `prof stat`.
#[derive(Clone, Debug, Default)]
pub struct CountedLists(pub EventLists);

impl Args for CountedLists {
    fn augment_args(command: Command) -> Command {
        EventLists::augment_args(command).mut_arg("event", |arg| {
            arg.help("Events, as perf names them; {a,b} are counted together")
                .long_help(
                "Events to count, as perf names them: cycles:u, page-faults, sched:sched_switch, uprobe:PATH:SYMBOL, \
                 cpu/event=0xc0/, {a,b} for events counted together [default: clocks, context switches, faults, and the \
                 common hardware counters]",
            )
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for CountedLists {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        EventLists::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

fn usage(text: &str) -> Error {
    Error::raw(clap::error::ErrorKind::ArgumentConflict, format!("{text}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Option<Vec<(String, Option<String>)>> {
        let command = EventLists::augment_args(Command::new("prof"));
        let matches = command.try_get_matches_from(["prof"].iter().chain(words)).ok()?;
        EventLists::from_arg_matches(&matches).ok().map(|lists| lists.0)
    }

    #[test]
    fn a_filter_belongs_to_the_events_before_it() {
        let lists = parse(&["-e", "a:b", "--filter", "x > 1", "-e", "cs"]).unwrap();
        assert_eq!(lists, [("a:b".to_owned(), Some("x > 1".to_owned())), ("cs".to_owned(), None)]);
        assert_eq!(parse(&["--filter", "x", "-e", "a:b"]), None);
        assert_eq!(parse(&["-e", "a:b", "--filter", "x", "--filter", "y"]), None);
        assert_eq!(parse(&["--filter", "x"]), None);
    }
}
