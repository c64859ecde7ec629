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
    let instead = match (&argument, &command) {
        (Some(flag), _) => renamed(std::env::args().nth(1).as_deref(), flag),
        (None, Some(command)) => Some(replacement_for(command)),
        (None, None) => None,
    };
    if let Some(instead) = instead {
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(instead)]));
    }
    for (typed, kind) in [(argument, ContextKind::SuggestedArg), (command, ContextKind::SuggestedSubcommand)]
    {
        let is_far = |name: &String| !typed.as_ref().is_some_and(|typed| is_near(word(typed), word(name)));
        match error.get(kind) {
            Some(ContextValue::String(name)) if is_far(name) => {
                error.remove(kind);
                // What clap says beside a flag that it suggests.
                error.remove(ContextKind::TrailingArg);
                error.insert(ContextKind::Usage, ContextValue::StyledStr(typed_command().render_usage()));
            }
            Some(ContextValue::Strings(names)) => {
                let near: Vec<String> = names.iter().filter(|name| !is_far(name)).cloned().collect();
                error.remove(kind);
                if !near.is_empty() {
                    error.insert(kind, ContextValue::Strings(near));
                }
            }
            _ => {}
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

/// Returns a flag without its dashes and its value.
fn word(flag: &str) -> &str {
    let flag = flag.trim_start_matches('-');
    flag.split(['=', ' ']).next().unwrap_or(flag)
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
