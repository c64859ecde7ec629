//! Jobs on all cores, and idle threads that help with the parts of a large one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// How many threads take jobs, and how many more may help with the parts of one.
pub(super) struct Threads {
    workers: usize,
    idle: AtomicUsize,
}

impl Threads {
    /// One thread per core, and as many again for the parts of a large job: cores that will be idle before it ends are
    /// not idle when it starts.
    pub(super) fn new(jobs: usize) -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let workers = cores.min(jobs).max(1);
        Self { workers, idle: AtomicUsize::new(2 * cores - workers) }
    }

    /// Runs `work` for each item and returns the results in the items' order.
    pub(super) fn run<T: Sync, R: Send>(&self, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
        let results = spread(self.workers, items, &|item| work(item), &|| {
            self.idle.fetch_add(1, Ordering::Relaxed);
        });
        self.idle.store(0, Ordering::Relaxed);
        results
    }

    /// Runs the parts of a job on this thread, and on those that are idle now.
    pub(super) fn help<R: Send>(&self, parts: usize, work: impl Fn(usize) -> R + Sync) -> Vec<R> {
        let mut helpers = 0;
        let take = |idle: usize| {
            helpers = idle.min(parts.saturating_sub(1));
            Some(idle - helpers)
        };
        let _ = self.idle.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        let numbers: Vec<usize> = (0..parts).collect();
        let results = spread(helpers + 1, &numbers, &|&part| work(part), &|| {});
        self.idle.fetch_add(helpers, Ordering::Relaxed);
        results
    }
}

/// Hands out items one by one to this thread and `threads - 1` others.
fn spread<T: Sync, R: Send>(
    threads: usize,
    items: &[T],
    work: &(dyn Fn(&T) -> R + Sync),
    done: &(dyn Fn() + Sync),
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let turn = || {
        let mut results = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { break };
            results.push((index, work(item)));
        }
        done();
        results
    };
    let mut results = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(turn)).collect();
        let mut results = turn();
        for other in others {
            match other.join() {
                Ok(theirs) => results.extend(theirs),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    });
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_the_order_of_items() {
        let items: Vec<usize> = (0..1000).collect();
        let threads = Threads::new(items.len());
        let doubled = threads.run(&items, |&item| threads.help(3, |part| item * 2 + part)[0]);
        assert_eq!(doubled, items.iter().map(|item| item * 2).collect::<Vec<_>>());
    }
}
