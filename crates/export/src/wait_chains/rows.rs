//! Chains of waits as rows: a table, and JSON by the schema in `docs/schemas/waits.json`.

use model::{Pid, ThreadState, Tid};
use profile::Label;
use profile::waiting::{Chain, CriticalPath, Culprit, PathStretch, PlaceNumber, Step};
use serde_json::{Value, json};

use super::{WaitingFindings, amount};
use crate::figures::counted;
use crate::names::plain_name;
use crate::table::{Cell, Table};

impl WaitingFindings<'_> {
    /// Says in sentences what the rows are of.
    pub(super) fn head(&self) -> Vec<String> {
        let waiting = self.waiting;
        let path = waiting.path.as_ref().map(|path| {
            let guessed = match path.guessed * 100 / path.length.max(1) {
                0 => String::new(),
                percent => format!(", {percent} % of it not known"),
            };
            format!("critical path of {}{guessed}", amount(path.length))
        });
        let idle = (waiting.resting.0 > 0).then(|| {
            format!(
                "{} idle for {}",
                counted(waiting.resting.0, "thread", "threads"),
                amount(waiting.resting.1)
            )
        });
        let cut = (waiting.not_followed > 0).then(|| {
            format!("the shortest waits, {} of them, were not followed", amount(waiting.not_followed))
        });
        path.into_iter().chain(idle).chain(cut).collect()
    }

    /// Returns chains as a table, in times for people or in nanoseconds.
    pub(super) fn table(&self, limit: usize, in_nanoseconds: bool) -> Table {
        let has_path = self.waiting.path.is_some();
        let time = |time: u64| match in_nanoseconds {
            true => Cell::Count(time),
            false => Cell::Figure(amount(time)),
        };
        let mut table = Table::new(&["on path", "waited", "waits", "chain"]);
        table.rows = self
            .by_path()
            .take(limit)
            .map(|(on_path, chain)| {
                let on_path = if has_path { time(on_path) } else { Cell::Nothing };
                vec![on_path, time(chain.weight), Cell::Count(chain.waits), Cell::Text(self.chain(chain))]
            })
            .collect();
        table
    }

    /// Returns the chains with the time on the critical path of what they lead to, those with the most of it first.
    fn by_path(&self) -> impl Iterator<Item = (u64, &Chain)> {
        let mut chains: Vec<(u64, &Chain)> = self
            .waiting
            .chains
            .iter()
            .map(|chain| (self.waiting.culprit_of(chain).map_or(0, |culprit| culprit.on_path), chain))
            .collect();
        chains.sort_by_key(|(on_path, chain)| std::cmp::Reverse((*on_path, chain.weight)));
        chains.into_iter()
    }

    /// Says who waited where for what, and so on: `reader in lookup, waiting for big_lock ⇒ indexer in rebuild, on CPU`.
    fn chain(&self, chain: &Chain) -> String {
        let step = |Step { thread, place }: &Step| {
            let functions = self.waiting.place(*place).told();
            let at = if functions.is_empty() {
                String::new()
            } else {
                format!(" in {}", self.functions(functions))
            };
            format!("{thread}{at}, {}", self.doing(*place))
        };
        chain.steps.iter().map(step).collect::<Vec<_>>().join(" ⇒ ")
    }
}

/// Parts of the critical path of which one is too short to be seen.
const VISIBLE_PARTS: u64 = 20_000;
/// Rows of a page.
const MOST_PAGE_LINES: usize = 20;

impl WaitingFindings<'_> {
    /// Returns what a page shows: lines of text, and the critical path as beginning, end, lane and what its thread did (0 it ran, 1 it was
    /// ready for a CPU, 2 it was blocked). `units` converts times, `lane_of` finds the lane of a thread.
    pub(crate) fn of_page(
        &self,
        units: &dyn Fn(u64) -> u64,
        lane_of: &dyn Fn(Pid, Tid) -> Option<usize>,
    ) -> Value {
        let doing = |place: PlaceNumber| {
            let state = self.waiting.place(place).state.and_then(|state| self.label(state));
            match state {
                None => 0,
                Some(Label::State(ThreadState::Runnable(_))) => 1,
                Some(_) => 2,
            }
        };
        let stretches = self.waiting.path.iter().flat_map(|path| &path.stretches);
        let all = self.waiting.path.as_ref().map_or(0, |path| path.length);
        let mut path: Vec<(u64, u64, usize, u8)> = Vec::new();
        for stretch in stretches.filter(|stretch| stretch.time.1 - stretch.time.0 >= all / VISIBLE_PARTS) {
            let Some(lane) = lane_of(stretch.pid, stretch.tid) else { continue };
            let (from, to, doing) = (units(stretch.time.0), units(stretch.time.1), doing(stretch.place));
            match path.last_mut().filter(|last| (last.1, last.2, last.3) == (from, lane, doing)) {
                Some(last) => last.1 = to,
                None => path.push((from, to, lane, doing)),
            }
        }
        json!({ "lines": self.lines(MOST_PAGE_LINES), "path": path })
    }
}

/// Returns what was found as one object, with up to `most` rows of each list.
pub(super) fn json(findings: &WaitingFindings<'_>, title: &str, most: usize) -> Value {
    let waiting = findings.waiting;
    let place = |number: PlaceNumber| {
        let functions =
            waiting.place(number).own.iter().map(|&function| plain_name(findings.label(function)));
        json!({ "functions": functions.collect::<Vec<_>>(), "doing": findings.doing(number) })
    };
    let step = |step: &Step| {
        let mut value = place(step.place);
        value["thread"] = step.thread.to_string().into();
        value
    };
    let timed = |mut value: Value, time: u64| {
        value["ns"] = time.into();
        value
    };
    let culprit = |culprit: &Culprit| {
        let name = |function| plain_name(findings.label(function));
        json!({
            "thread": culprit.thread.to_string(),
            "functions": culprit.functions.iter().map(|&function| name(function)).collect::<Vec<_>>(),
            "on_path_ns": culprit.on_path,
            "waited_ns": culprit.cost,
            "own_ns": culprit.own,
            "doing": culprit.doing.iter().take(most).map(|&(at, time)| timed(place(at), time)).collect::<Vec<_>>(),
            "waiters": culprit.waiters.iter().take(most).map(|(at, time)| timed(step(at), *time)).collect::<Vec<_>>(),
            "without": culprit.without.iter().map(|&(function, wall)| json!({ "function": name(function), "wall_ns": wall }))
                .collect::<Vec<_>>(),
        })
    };
    let chain = |(on_path, chain): (u64, &Chain)| {
        let steps: Vec<Value> = chain.steps.iter().map(step).collect();
        json!({ "steps": steps, "ns": chain.weight, "waits": chain.waits, "on_path_ns": on_path })
    };
    let stretch = |PathStretch { pid, tid, time, place: at }: &PathStretch| {
        let mut value = place(*at);
        for (key, number) in [("pid", i64::from(pid.0)), ("tid", tid.0.into())] {
            value[key] = number.into();
        }
        (value["start_ns"], value["end_ns"]) = (time.0.into(), time.1.into());
        value
    };
    let path = |path: &CriticalPath| {
        let stretches: Vec<Value> = path.stretches.iter().map(stretch).collect();
        json!({ "ns": path.length, "guessed_ns": path.guessed, "stretches": stretches })
    };
    let alone = waiting.parallelism.alone.iter().take(most);
    json!({
        "schema": "prof-waits-1",
        "title": title,
        "path": waiting.path.as_ref().map(path),
        "culprits": waiting.culprits.iter().take(most).map(culprit).collect::<Vec<_>>(),
        "culprit_count": waiting.culprits.len(),
        "chains": findings.by_path().take(most).map(chain).collect::<Vec<_>>(),
        "chain_count": waiting.chains.len(),
        "idle_threads": waiting.resting.0,
        "idle_ns": waiting.resting.1,
        "not_followed_ns": waiting.not_followed,
        "running_threads_ns": waiting.parallelism.times,
        "alone": alone.map(|&(function, time)| json!({ "function": plain_name(findings.label(function)), "ns": time }))
            .collect::<Vec<_>>(),
    })
}
