//! Arguments for the names of functions.

use std::path::PathBuf;

use analysis::symbols::SymbolSettings;
use clap::Args;
use host::objects::SearchPaths;
use symbolizer::{NameStyle, Options};

/// Arguments that say where names come from, and their style.
#[derive(Args, Default)]
#[command(next_help_heading = "Names")]
pub struct SymbolArguments {
    /// Search debug files in DIR first, by build id and by name (may be repeated)
    #[arg(hide_short_help = true, long, value_name = "DIR", value_parser = folder)]
    debug_dir: Vec<PathBuf>,
    /// Open the files of the recording below DIR instead of /
    #[arg(hide_short_help = true, long, value_name = "DIR", value_parser = folder)]
    symfs: Option<PathBuf>,
    /// Do not demangle names
    #[arg(hide_short_help = true, long)]
    raw_names: bool,
}

impl SymbolArguments {
    /// Returns the symbol settings. `this_host` says that the recording was made on this machine, so that files are also opened
    /// through processes that still live.
    pub fn settings(&self, inlines: bool, this_host: bool) -> SymbolSettings {
        let names = if self.raw_names { NameStyle::Linkage } else { NameStyle::Demangled };
        SymbolSettings {
            paths: SearchPaths::from_environment(self.symfs.clone(), self.debug_dir.clone(), this_host),
            options: Options { names, inlines, ..Options::default() },
            reads_sources: false,
        }
    }
}

/// Parses the path of an existing folder.
fn folder(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_dir() { Ok(path) } else { Err(String::from("no such folder")) }
}
