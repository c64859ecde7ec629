//! Jobs on all cores, and idle threads that help with the parts of a large one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rayon_core::{ThreadPool, ThreadPoolBuilder};

/// Threads of a view that stays open, the one that asks included. More would be felt by what is watched: they all run at once
/// when a new program shows up, on a machine that may be busy.
const LIVE_THREADS: usize = 4;

/// The supply that threads come from.
pub(super) enum ThreadSource {
    /// They are started for each call and end with it: for those who call once.
    Fresh,
    /// They stay: for those who call every second for days.
    Pool(ThreadPool),
}

impl ThreadSource {
    /// A few threads that stay.
    pub(super) fn small_pool() -> Self {
        let threads = LIVE_THREADS.min(cores()).saturating_sub(1).max(1);
        let pool = ThreadPoolBuilder::new().num_threads(threads).thread_name(|_| "names".to_owned());
        // If the pool cannot be started, threads are started for each call.
        pool.build().map_or(Self::Fresh, Self::Pool)
    }

    /// The number of threads for the jobs of one call, the caller's included, and for parts of a large job.
    fn size(&self) -> (usize, usize) {
        match self {
            // Twice the cores for parts of a large job: cores that are busy when it starts become idle before it ends.
            Self::Fresh => (cores(), 2 * cores()),
            Self::Pool(pool) => (pool.current_num_threads() + 1, pool.current_num_threads() + 1),
        }
    }
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// The number of threads that take jobs, and of those that may help with the parts of one.
pub(super) struct Threads<'s> {
    supply: &'s ThreadSource,
    workers: usize,
    idle: AtomicUsize,
}

impl<'s> Threads<'s> {
    /// Starts threads for this number of jobs.
    pub(super) fn new(supply: &'s ThreadSource, jobs: usize) -> Self {
        let (most, all) = supply.size();
        let workers = most.min(jobs).max(1);
        Self { supply, workers, idle: AtomicUsize::new(all - workers) }
    }

    /// Runs `work` for each item and returns the results in the items' order.
    pub(super) fn run<T: Sync, R: Send>(&self, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
        let results = spread(self.supply, self.workers, items, &|item| work(item), &|| {
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
        let results = spread(self.supply, helpers + 1, &numbers, &|&part| work(part), &|| {});
        self.idle.fetch_add(helpers, Ordering::Relaxed);
        results
    }
}

/// Hands out items one by one to this thread and `threads - 1` others.
fn spread<T: Sync, R: Send>(
    supply: &ThreadSource,
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
    let mut results = match supply {
        ThreadSource::Fresh => thread::scope(|scope| {
            // If no more threads can be started, the existing ones do the work.
            let others: Vec<_> =
                (1..threads).map_while(|_| thread::Builder::new().spawn_scoped(scope, turn).ok()).collect();
            let mut results = turn();
            for other in others {
                match other.join() {
                    Ok(theirs) => results.extend(theirs),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            results
        }),
        ThreadSource::Pool(pool) => {
            let mut of_others: Vec<Vec<(usize, R)>> = (1..threads).map(|_| Vec::new()).collect();
            let mut results = pool.in_place_scope(|scope| {
                for theirs in &mut of_others {
                    scope.spawn(|_| *theirs = turn());
                }
                turn()
            });
            results.extend(of_others.into_iter().flatten());
            results
        }
    };
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn results_keep_the_order_of_items() {
        let items: Vec<usize> = (0..1000).collect();
        for supply in [ThreadSource::Fresh, ThreadSource::small_pool()] {
            let threads = Threads::new(&supply, items.len());
            let doubled = threads.run(&items, |&item| threads.help(3, |part| item * 2 + part)[0]);
            assert_eq!(doubled, items.iter().map(|item| item * 2).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_pool_has_the_same_few_threads_all_the_time() {
        let supply = ThreadSource::small_pool();
        let mut seen = HashSet::new();
        for _ in 0..100 {
            let items: Vec<usize> = (0..64).collect();
            let threads = Threads::new(&supply, items.len());
            let ids = threads.run(&items, |_| threads.help(8, |_| thread::current().id()));
            seen.extend(ids.into_iter().flatten());
        }
        assert!(seen.len() <= LIVE_THREADS, "{seen:?}");
    }
}
