//! `cargo xtask bench [--runs N] [SECTION…]`: prof beside perf and inferno, on the same files and commands, in one run.
//!
//! Every figure is the median of alternating runs; what counts is the ratio, since the machine is shared and its
//! absolute times say little. The result is one Markdown table.

pub(crate) mod ablation;
mod completeness;
mod flame;
mod key_latency;
mod loss;
pub(crate) mod measure;
mod programs;
mod record;
mod stacks;
mod switches;
mod symbols;
mod table;
mod tools;
mod top;
mod waits;

use anyhow::{Context, bail};

use table::Table;
use tools::Tools;

type Section = fn(&Tools, usize, &mut Table) -> anyhow::Result<()>;

/// A section with the runs of each side by default.
const SECTIONS: &[(&str, usize, Section)] = &[
    ("small", 5, flame::small),
    ("big", 3, flame::big),
    ("symbols", 5, symbols::symbols),
    ("cost", 11, record::cost),
    ("own", 1, record::own),
    ("true", 11, record::start),
    ("loss", 3, loss::loss),
    ("floods", 3, loss::floods),
    ("stacks", 3, stacks::stacks),
    ("switches", 15, switches::switches),
    ("top", 3, top::top),
    ("waits", 5, waits::waits),
    ("completeness", 1, completeness::completeness),
];

/// Runs the sections named, or all.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let mut runs = None;
    let mut wanted = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if arg == "--runs" {
            runs = Some(args.next().context("--runs takes a number")?.parse().context("--runs")?);
        } else if SECTIONS.iter().any(|(name, ..)| name == arg) {
            wanted.push(arg.as_str());
        } else {
            let names: Vec<&str> = SECTIONS.iter().map(|(name, ..)| *name).collect();
            bail!("no section is called {arg}; there are {}", names.join(", "));
        }
    }
    let tools = Tools::prepare()?;
    let mut table = Table::default();
    for (name, default, section) in SECTIONS {
        if wanted.is_empty() || wanted.contains(name) {
            eprintln!("== {name}");
            section(&tools, runs.unwrap_or(*default), &mut table)?;
        }
    }
    println!("`cargo xtask bench{}` on {}\n", args_text(&wanted), tools::machine());
    print!("{table}");
    Ok(())
}

fn args_text(wanted: &[&str]) -> String {
    wanted.iter().map(|name| format!(" {name}")).collect()
}
