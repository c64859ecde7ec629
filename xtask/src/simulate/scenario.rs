//! Programs and machines that the simulation invents.

use profile::comparison::statistics::{Item, Observation};

use super::random::Random;

/// A program with a change, on a machine with noise.
#[derive(Clone, Copy)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    /// The shares of its functions.
    pub(super) shares: Shares,
    /// Samples of a run.
    pub(super) samples: f64,
    /// Standard deviation of the speed of the machine from run to run, as a logarithm.
    pub(super) machine: f64,
    /// Standard deviation of each function's time beyond that.
    pub(super) function: f64,
    pub(super) runs: usize,
    pub(super) change: Change,
}

/// The division of a program's time among its functions.
#[derive(Clone, Copy)]
pub(super) enum Shares {
    /// The first has this share, and the rest is divided among so many others, each three quarters of the one before.
    First(f64, usize),
    /// So many with equal shares.
    Equal(usize),
}

/// The difference after the change.
#[derive(Clone, Copy)]
pub(super) enum Change {
    Nothing,
    /// The first function takes so many times as long.
    First(f64),
    /// The first function grows by so many times the smallest change that the comparison without it states.
    Smallest(f64),
    /// Everything takes so many times as long.
    Everything(f64),
    /// Each of the first so many functions takes so many times as long.
    Several(usize, f64),
}

const RUNS: Scenario = Scenario {
    name: "",
    shares: Shares::First(0.3, 20),
    samples: 20_000.0,
    machine: 0.05,
    function: 0.01,
    runs: 10,
    change: Change::Nothing,
};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario { name: "nothing: 21 functions, 10 and 10 runs", ..RUNS },
    Scenario { name: "nothing: 8 and 8 runs", runs: 8, ..RUNS },
    Scenario { name: "nothing: 5 and 5 runs", runs: 5, ..RUNS },
    Scenario { name: "nothing: quiet machine, no excess", machine: 0.002, function: 0.0, ..RUNS },
    Scenario { name: "nothing: noisy functions (4 %)", function: 0.04, ..RUNS },
    Scenario { name: "nothing: 2,000 samples", samples: 2_000.0, ..RUNS },
    Scenario { name: "nothing: 2 functions", shares: Shares::First(0.6, 1), ..RUNS },
    Scenario { name: "nothing: 1 function", shares: Shares::First(1.0, 0), ..RUNS },
    Scenario { name: "nothing: 3 functions", shares: Shares::First(0.5, 2), ..RUNS },
    Scenario { name: "nothing: 100 equal functions", shares: Shares::Equal(100), ..RUNS },
    Scenario { name: "nothing: one function of 90 %", shares: Shares::First(0.9, 10), ..RUNS },
    Scenario { name: "everything × 1.3, machine 5 %", change: Change::Everything(1.3), ..RUNS },
    Scenario {
        name: "everything × 1.3, machine 8 %",
        change: Change::Everything(1.3),
        machine: 0.085,
        ..RUNS
    },
    Scenario {
        name: "5 % on 30 %, runs within 1 %",
        change: Change::First(1.05),
        machine: 0.01,
        function: 0.005,
        ..RUNS
    },
    Scenario {
        name: "3 % on 30 %, runs within 1 %",
        change: Change::First(1.03),
        machine: 0.01,
        function: 0.005,
        ..RUNS
    },
    Scenario { name: "smallest, on 30 %", change: Change::Smallest(1.0), ..RUNS },
    Scenario { name: "smallest, 8 and 8 runs", change: Change::Smallest(1.0), runs: 8, ..RUNS },
    Scenario { name: "smallest, 5 and 5 runs", change: Change::Smallest(1.0), runs: 5, ..RUNS },
    Scenario { name: "smallest, 15 and 15 runs", change: Change::Smallest(1.0), runs: 15, ..RUNS },
    Scenario { name: "twice the smallest, on 30 %", change: Change::Smallest(2.0), ..RUNS },
    Scenario { name: "twice the smallest, 8 and 8 runs", change: Change::Smallest(2.0), runs: 8, ..RUNS },
    Scenario { name: "twice the smallest, 5 and 5 runs", change: Change::Smallest(2.0), runs: 5, ..RUNS },
    Scenario {
        name: "smallest, on 2 % of 2,000 samples",
        change: Change::Smallest(1.0),
        shares: Shares::First(0.02, 20),
        samples: 2_000.0,
        ..RUNS
    },
    Scenario {
        name: "twice the smallest, one of 2 functions",
        change: Change::Smallest(2.0),
        shares: Shares::First(0.5, 1),
        ..RUNS
    },
    Scenario {
        name: "twice the smallest, on 60 % of 4",
        change: Change::Smallest(2.0),
        shares: Shares::First(0.6, 3),
        ..RUNS
    },
    Scenario {
        name: "twice the smallest, on 90 %",
        change: Change::Smallest(2.0),
        shares: Shares::First(0.9, 10),
        ..RUNS
    },
    Scenario { name: "30 % grows threefold", change: Change::First(3.0), ..RUNS },
    Scenario { name: "five functions × 1.2", change: Change::Several(5, 1.2), ..RUNS },
];

impl Scenario {
    pub(super) fn shares(&self) -> Vec<f64> {
        match self.shares {
            Shares::Equal(count) => vec![1.0 / count as f64; count],
            Shares::First(first, others) => {
                let weights: Vec<f64> = (0..others as i32).map(|number| 0.75_f64.powi(number)).collect();
                let total: f64 = weights.iter().sum();
                std::iter::once(first)
                    .chain(weights.iter().map(|weight| weight / total * (1.0 - first)))
                    .collect()
            }
        }
    }

    /// The factors of the functions, given what the change of a share of one would be called the smallest.
    pub(super) fn factors(&self, smallest: f64) -> Vec<f64> {
        let factor = |index: usize| match self.change {
            Change::Nothing => 1.0,
            Change::First(factor) => {
                if index == 0 {
                    factor
                } else {
                    1.0
                }
            }
            Change::Smallest(times) => {
                if index == 0 {
                    1.0 + times * (smallest.exp() - 1.0)
                } else {
                    1.0
                }
            }
            Change::Everything(factor) => factor,
            Change::Several(count, factor) => {
                if index < count {
                    factor
                } else {
                    1.0
                }
            }
        };
        (0..self.shares().len()).map(factor).collect()
    }

    /// Invents the runs: items of the functions, and of the total.
    pub(super) fn runs(&self, factors: &[f64], random: &mut Random) -> (Vec<Item>, Item) {
        let shares = self.shares();
        let mut items = vec![Item { is_tested: true, ..Item::default() }; shares.len()];
        let mut total = Item { is_tested: true, ..Item::default() };
        for side in 0..2 {
            for _ in 0..self.runs {
                let machine = self.machine * random.normal();
                let mut sum = 0.0;
                for (index, share) in shares.iter().enumerate() {
                    // Functions differ in how steady they are.
                    let steadiness = if index % 3 == 2 { 1.6 } else { 0.8 };
                    let noise = machine + self.function * steadiness * random.normal();
                    let factor = if side == 1 { factors[index] } else { 1.0 };
                    let samples = random.poisson(self.samples * share * factor * noise.exp());
                    sum += samples;
                    items[index].sides[side].push(Observation::of_samples(samples, 1e6));
                }
                total.sides[side].push(Observation::of_samples(sum, 1e6));
            }
        }
        let largest = |item: &Item| {
            let mean = |side: &[Observation]| side.iter().map(|run| run.log.exp()).sum::<f64>();
            mean(&item.sides[0]) + mean(&item.sides[1])
        };
        let all: f64 = items.iter().map(largest).sum();
        for item in &mut items {
            item.is_tested = largest(item) >= 0.0025 * all;
        }
        (items, total)
    }
}
