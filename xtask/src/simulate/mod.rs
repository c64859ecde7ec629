//! `cargo xtask simulate`: how often the test of `prof diff` errs, and what it finds.
//!
//! Invents runs of programs with known changes, compares them as `prof diff` does, and counts. The decision page "How changes are
//! told from noise" has the figures.

mod random;
mod scenario;

use anyhow::{Context, bail};
use profile::comparison::statistics::{Estimate, compare, compare_totals};

use random::Random;
use scenario::{Change, SCENARIOS, Scenario};

/// Rounds of each scenario, unless told: a share of 1 % has a standard error of 0.3 % then.
const ROUNDS: u64 = 1000;

/// What a scenario came to, in rounds.
#[derive(Default)]
struct Tally {
    rounds: f64,
    /// Functions that did not change were marked.
    wrong: f64,
    /// All functions that changed were marked.
    found: f64,
    /// The total was marked.
    total: f64,
    /// Intervals of functions that did not change, and those of them that have no change in them.
    intervals: f64,
    covering: f64,
    /// The mean of the smallest change that the first function could have shown, in per cent.
    smallest: f64,
}

/// Runs the scenarios whose names have all given words.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let mut rounds = ROUNDS;
    let mut words: Vec<&String> = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--rounds" => {
                rounds = args.next().context("--rounds needs a number")?.parse().context("--rounds")?
            }
            option if option.starts_with('-') => bail!("unknown option {option}"),
            _ => words.push(arg),
        }
    }
    println!(
        "{:<42} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "scenario", "wrong", "found", "total", "coverage", "smallest"
    );
    for scenario in SCENARIOS.iter().filter(|scenario| words.iter().all(|word| scenario.name.contains(*word)))
    {
        let tally = simulate(scenario, rounds);
        let percent = |part: f64, whole: f64| format!("{:.1} %", 100.0 * part / whole.max(1.0));
        let is_change = !matches!(scenario.change, Change::Nothing | Change::Everything(_));
        println!(
            "{:<42} {:>9} {:>9} {:>9} {:>9} {:>9}",
            scenario.name,
            percent(tally.wrong, tally.rounds),
            if is_change { percent(tally.found, tally.rounds) } else { String::new() },
            percent(tally.total, tally.rounds),
            percent(tally.covering, tally.intervals),
            format!("{:.1} %", tally.smallest / tally.rounds),
        );
    }
    Ok(())
}

fn simulate(scenario: &Scenario, rounds: u64) -> Tally {
    let mut tally = Tally::default();
    let nothing = vec![1.0; scenario.shares().len()];
    for round in 0..rounds {
        let mut random = Random::new(round);
        let smallest = match scenario.change {
            // As a user would learn it: from a comparison of the same program with itself.
            Change::Smallest(_) => {
                let (items, _) = scenario.runs(&nothing, &mut random);
                let family = compare(&items, [scenario.runs; 2]);
                family.and_then(|family| family.items[0].smallest).unwrap_or(0.0)
            }
            _ => 0.0,
        };
        let factors = scenario.factors(smallest);
        let (items, total) = scenario.runs(&factors, &mut random);
        let Some(family) = compare(&items, [scenario.runs; 2]) else { continue };
        let totals = compare_totals(&[total], [scenario.runs; 2]);
        let common = if matches!(scenario.change, Change::Everything(_)) { factors[0] } else { 1.0 };
        let changed = |index: usize| (factors[index] / common - 1.0).abs() > 1e-9;
        let marked = |estimate: &Estimate| estimate.is_marked();
        let count = |holds: bool| f64::from(u8::from(holds));
        let of = |is_changed: bool| {
            family.items.iter().enumerate().filter(move |&(index, _)| changed(index) == is_changed)
        };
        tally.rounds += 1.0;
        tally.wrong += count(of(false).any(|(_, estimate)| marked(estimate)));
        tally.found += count(of(true).all(|(_, estimate)| marked(estimate)));
        tally.total += count(totals.is_some_and(|totals| totals.iter().any(marked)));
        for (_, estimate) in of(false) {
            tally.intervals += 1.0;
            tally.covering += count(estimate.log_ratio.abs() <= estimate.half_width);
        }
        tally.smallest += 100.0 * (family.items[0].smallest.unwrap_or(0.0).exp() - 1.0);
    }
    tally
}
