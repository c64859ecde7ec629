//! `prof completions`: completion scripts for shells. `prof man`: manual pages.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use clap_complete::Shell;

use crate::console::Console;
use crate::output::Output;

/// Arguments of `prof completions`.
#[derive(Args)]
#[command(after_help = "Examples:
  prof completions bash > ~/.local/share/bash-completion/completions/prof
  prof completions zsh > ~/.zfunc/_prof
  prof completions fish > ~/.config/fish/completions/prof.fish")]
pub struct CompletionsArguments {
    /// Shell to complete for
    shell: Shell,
}

/// Arguments of `prof man`.
#[derive(Args)]
pub struct ManArguments {
    /// Folder for the pages: one for `prof` and one for each command
    folder: PathBuf,
}

/// Prints the completion script for a shell.
///
/// # Errors
/// Standard output cannot be written.
pub fn run(arguments: &CompletionsArguments, mut command: clap::Command) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "prof", &mut script);
    io::stdout().write_all(&script).context("cannot write to standard output")?;
    Ok(ExitCode::SUCCESS)
}

/// Writes `prof.1` and a `prof-COMMAND.1` for each command.
///
/// # Errors
/// A page cannot be written.
pub fn write_pages(
    arguments: &ManArguments,
    mut command: clap::Command,
    console: &Console,
) -> anyhow::Result<ExitCode> {
    command.build();
    write_page(&arguments.folder, &command, console)?;
    let is_page = |command: &&clap::Command| !command.is_hide_set() && command.get_name() != "help";
    for subcommand in command.get_subcommands().filter(is_page) {
        write_page(&arguments.folder, subcommand, console)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write_page(folder: &Path, command: &clap::Command, console: &Console) -> anyhow::Result<()> {
    // After `build`, the display name of a subcommand is `prof-COMMAND`.
    let name = command.get_display_name().unwrap_or(command.get_name());
    let path = folder.join(format!("{name}.1"));
    let mut output = Output::open(Some(&path), console)?;
    clap_mangen::Man::new(command.clone())
        .render(&mut output)
        .with_context(|| format!("cannot write {}", path.display()))?;
    output.finish()
}
