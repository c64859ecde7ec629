use std::path::PathBuf;

use analysis::symbols::SymbolSettings;
use clap::Args;
use host::objects::SearchPaths;
use symbolizer::{NameStyle, Options};

/// Where names come from, and how they look.
#[derive(Args, Default)]
#[command(next_help_heading = "Names")]
pub struct SymbolArguments {
    /// Look for debug files here first, by build id and by name (may be given several times)
    #[arg(long, value_name = "DIR", value_parser = folder)]
    debug_dir: Vec<PathBuf>,
    /// Open the recording's files below this folder instead of /
    #[arg(long, value_name = "DIR", value_parser = folder)]
    symfs: Option<PathBuf>,
    /// Names as the linker knows them, not demangled
    #[arg(long)]
    raw_names: bool,
}

impl SymbolArguments {
    /// Returns the settings that the arguments ask for. `this_host`: the recording was made here, so that processes
    /// which still live can be asked.
    pub fn settings(&self, inlines: bool, this_host: bool) -> SymbolSettings {
        let names = if self.raw_names { NameStyle::Linkage } else { NameStyle::Demangled };
        SymbolSettings {
            paths: SearchPaths::from_environment(self.symfs.clone(), self.debug_dir.clone(), this_host),
            options: Options { names, inlines, ..Options::default() },
        }
    }
}

fn folder(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_dir() { Ok(path) } else { Err(String::from("no such folder")) }
}
