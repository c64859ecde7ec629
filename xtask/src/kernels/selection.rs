//! Which kernels and checks run.

use super::architecture::Architecture;
use super::checks::Check;
use super::kernel::Kernel;
use super::machine::Machine;

/// The kernels and checks that the command line asks for.
pub(super) struct Selection {
    is_all: bool,
    /// Filters that are part of the title of a check.
    checks: Vec<String>,
    /// All others: parts of a kernel's name.
    kernels: Vec<String>,
}

impl Selection {
    /// Sorts the filters into those of checks and those of kernels.
    pub(super) fn new(is_all: bool, filters: &[&String], checks: &[Check]) -> Self {
        let of_check = |filter: &&&String| checks.iter().any(|check| check.title().contains(filter.as_str()));
        let (checks, kernels): (Vec<&&String>, Vec<_>) = filters.iter().partition(of_check);
        let owned = |filters: Vec<&&String>| filters.into_iter().map(|filter| (*filter).clone()).collect();
        Self { is_all, checks: owned(checks), kernels: owned(kernels) }
    }

    /// Returns true if a check is selected.
    pub(super) fn has_check(&self, check: &Check) -> bool {
        self.checks.is_empty() || self.checks.iter().any(|filter| check.title().contains(filter.as_str()))
    }

    fn has_kernel(&self, kernel: &Kernel) -> bool {
        let name = kernel.name();
        self.kernels.is_empty() || self.kernels.iter().any(|filter| name.contains(filter.as_str()))
    }

    /// Returns true if guests of this kind are booted. CI has five minutes, in which small ones give the most answers.
    pub(super) fn has_machine(&self, machine: Machine) -> bool {
        machine == Machine::Exact || self.is_all || !self.checks.is_empty() || !self.kernels.is_empty()
    }

    /// Chooses from the candidates of all kernels of the catalogue. CI takes the oldest and the newest that is served and what stable
    /// installs, on x86-64, and the last on aarch64, too.
    pub(super) fn choose(&self, mut served: Vec<Vec<Kernel>>) -> Vec<Vec<Kernel>> {
        served.retain(|candidates| candidates.first().is_some_and(|kernel| self.has_kernel(kernel)));
        served.sort_by_key(|candidates| {
            candidates.first().map(|kernel| (kernel.architecture, kernel.numbers()))
        });
        if self.is_all || !self.kernels.is_empty() {
            return served;
        }
        let is = |architecture| move |candidates: &Vec<Kernel>| candidates[0].architecture == architecture;
        let x86_64 = || served.iter().map(is(Architecture::X86_64));
        let first = x86_64().position(|it| it);
        let last = x86_64().rposition(|it| it);
        let chosen = served.iter().enumerate().filter(|(index, candidates)| {
            candidates[0].is_stable || Some(*index) == first || Some(*index) == last
        });
        chosen.map(|(_, candidates)| candidates.clone()).collect()
    }
}
