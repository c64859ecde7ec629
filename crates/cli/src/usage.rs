//! Errors of the command line: what clap says, with better suggestions.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};
use clap::{Command, CommandFactory};
use model::near::is_near;

/// Exits with an error of clap. Suggests only what is near to what was typed, the new name of what was renamed, and the replacement for
/// a command of perf that `prof` lacks.
pub fn exit_with_error(mut error: clap::Error) -> ! {
    let invalid = |kind| match error.get(kind) {
        Some(ContextValue::String(typed)) => Some(typed.clone()),
        _ => None,
    };
    let (argument, command) = (invalid(ContextKind::InvalidArg), invalid(ContextKind::InvalidSubcommand));
    let renamed = argument.as_ref().and_then(|flag| renamed(std::env::args().nth(1).as_deref(), flag));
    let instead = renamed.or_else(|| command.as_ref().map(|command| replacement_for(command)));
    // That a flag could be the name of a program.
    if argument.is_some() {
        error.remove(ContextKind::Suggested);
    }
    if let Some(instead) = instead {
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(instead)]));
    }
    let is_near = |typed: &Option<String>, name: &String| {
        typed.as_ref().is_some_and(|typed| is_meant(word(typed), word(name)))
    };
    if let Some(ContextValue::String(name)) = error.get(ContextKind::SuggestedArg)
        && !is_near(&argument, name)
    {
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Usage, ContextValue::StyledStr(typed_command().render_usage()));
    }
    if let Some(ContextValue::Strings(names)) = error.remove(ContextKind::SuggestedSubcommand) {
        let near: Vec<String> = names.into_iter().filter(|name| is_near(&command, name)).collect();
        if !near.is_empty() {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(near));
        }
    }
    error.exit()
}

/// Returns the command of `prof` that was typed, or `prof` itself.
pub fn typed_command() -> Command {
    let mut prof = crate::Arguments::command();
    prof.build();
    let typed = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    typed.and_then(|typed| prof.find_subcommand(typed)).cloned().unwrap_or(prof)
}

fn is_meant(typed: &str, name: &str) -> bool {
    is_near(typed, name) || typed.starts_with(name)
}

/// Returns a flag without its dashes and its value.
fn word(flag: &str) -> &str {
    flag.trim_start_matches('-').split(['=', ' ']).next().unwrap_or_default()
}

/// Returns the flag that a flag of a command is called now: one that means something else elsewhere is no longer taken.
fn renamed(command: Option<&str>, flag: &str) -> Option<String> {
    let instead = match (command?, word(flag)) {
        ("record", "weight") => "for the weight of each sample: --sample-weight",
        ("top", "count") => "for a number of intervals: --intervals N, for a fixed period: -c N",
        _ => return None,
    };
    Some(instead.to_owned())
}

/// Returns the suggestion for a word that is no command of `prof`: one of perf, a program, or a recording.
fn replacement_for(word: &str) -> String {
    match word {
        "trace" => "for system calls: prof record -e raw_syscalls:sys_enter".to_owned(),
        "probe" => "for probes: prof record -e uprobe:PATH:SYMBOL".to_owned(),
        path if path.contains('/') => {
            format!("`{path}` is neither a recording nor a program that can be run")
        }
        word => format!("to record a program: prof -- {word}; to show a recording: prof ./{word}"),
    }
}
