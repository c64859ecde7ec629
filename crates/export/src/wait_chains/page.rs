//! The page of an explanation: the worst culprits in two lines each.

use std::fmt::Write;

use profile::waiting::{Culprit, Waiting};

use super::{WaitingFindings, amount};
use crate::figures::{counted, fit};

/// Maximum width of a thread's name, in columns.
const THREAD_COLUMNS: usize = 16;
/// Maximum number of threads and places that waited for one culprit, and of what that did.
const MOST_PARTS: usize = 3;
/// The least share of the waits for a culprit, or of its time, that is told.
const LEAST_SHARE: f64 = 0.05;
/// Functions of those that waited, the innermost ones.
const MOST_FUNCTIONS: usize = 2;
/// By how much two predictions may differ that are said as one, of 1.
const SAME: f64 = 0.05;
/// The least part of the time of a command, or of all waits, that is a row.
const LEAST_PART: f64 = 0.01;

impl WaitingFindings<'_> {
    /// Writes up to so many culprits, the worst first.
    pub(crate) fn lines(&self, most: usize) -> Vec<String> {
        let Waiting { culprits, path, resting, not_followed, parallelism, .. } = self.waiting;
        let length = path.as_ref().map(|path| path.length);
        let all: u64 = culprits
            .iter()
            .map(|culprit| culprit.cost.saturating_add(culprit.own))
            .fold(0, u64::saturating_add);
        let is_told = |culprit: &&Culprit| {
            let is_on_path =
                length.is_some_and(|length| culprit.on_path as f64 >= length as f64 * LEAST_PART);
            let waited = culprit.cost + if length.is_none() { culprit.own } else { 0 };
            is_on_path || waited as f64 >= all as f64 * LEAST_PART
        };
        let told: Vec<&Culprit> = culprits.iter().filter(is_told).take(most).collect();
        let mut lines = Vec::new();
        if told.is_empty() {
            return lines;
        }
        lines.push(match length {
            Some(length) => format!(
                "What was waited for: time on the critical path, {} from start to end, and time that other threads waited",
                amount(length)
            ),
            None => format!("What was waited for, {} of all threads together", amount(all)),
        });
        for culprit in told {
            lines.extend(self.culprit(culprit, length.is_some()));
        }
        let ran: u64 = parallelism.times.iter().sum();
        let share = |time: u64| time as f64 / ran.max(1) as f64 * 100.0;
        if let (Some(&alone), Some(&(function, most))) = (parallelism.times.get(1), parallelism.alone.first())
            && parallelism.times.len() > 2
        {
            let name = self.name(function);
            lines.push(format!(
                "  one thread alone on a CPU for {:.0} % of the time ({:.0} % in {name}), none for {:.0} %",
                share(alone),
                share(most),
                share(parallelism.times[0])
            ));
        }
        if resting.0 > 0 {
            lines.push(format!("  idle: {}, {}", counted(resting.0, "thread", "threads"), amount(resting.1)));
        }
        if *not_followed > 0 {
            lines.push(format!(
                "  the shortest waits, {} of them, were not followed: there are too many",
                amount(*not_followed)
            ));
        }
        lines
    }

    fn culprit(&self, culprit: &Culprit, has_path: bool) -> Vec<String> {
        let Culprit { thread, functions, doing, on_path, cost, own, waiters, without } = culprit;
        let mut line = match has_path {
            true => format!(
                "  {:>8}  {:>8}  {}",
                amount(*on_path),
                amount(*cost),
                fit(&thread.to_string(), THREAD_COLUMNS)
            ),
            false => format!(
                "  {:>8}  {}",
                amount(cost.saturating_add(*own)),
                fit(&thread.to_string(), THREAD_COLUMNS)
            ),
        };
        if !functions.is_empty() {
            let _ = write!(line, " in {}", self.functions(functions));
        }
        let doing = parts(doing.iter().map(|(place, weight)| (self.doing(*place), *weight)));
        if !doing.is_empty() {
            let words = doing.iter().map(|(words, share)| match share {
                0.995.. => words.clone(),
                _ => format!("{words} {:.0} %", share * 100.0),
            });
            let _ = write!(line, ": {}", words.collect::<Vec<_>>().join(", "));
        }
        for alike in without.chunk_by(|(_, one), (_, next)| one.abs_diff(*next) as f64 <= *one as f64 * SAME)
        {
            let functions: Vec<String> =
                alike.iter().rev().map(|(function, _)| self.name(*function)).collect();
            let wall = alike.first().map_or(0, |(_, wall)| *wall);
            let _ = write!(line, "; without {} about {}", functions.join(" or "), amount(wall));
        }
        let waiters = parts(waiters.iter().map(|(step, weight)| {
            let place = self.waiting.place(step.place);
            let functions = place.told();
            let functions =
                functions.get(functions.len().saturating_sub(MOST_FUNCTIONS)..).unwrap_or_default();
            let thread = fit(&step.thread.to_string(), THREAD_COLUMNS);
            let at = if functions.is_empty() {
                String::new()
            } else {
                format!(" in {}", self.functions(functions))
            };
            (format!("{thread}{at} {}", self.doing(step.place)), *weight)
        }));
        let waiters: Vec<String> = waiters
            .into_iter()
            .map(|(words, share)| format!("{words}, {}", amount((share * *cost as f64) as u64)))
            .collect();
        let second = (!waiters.is_empty()).then(|| format!("            made wait: {}", waiters.join("; ")));
        std::iter::once(line).chain(second).collect()
    }
}

/// Adds up what is said in the same words, and returns the largest parts with their shares, of 1. What is waited for with its file, and
/// without it, is one.
fn parts(all: impl Iterator<Item = (String, u64)>) -> Vec<(String, f64)> {
    let mut parts: Vec<(String, u64)> = Vec::new();
    let mut sum = 0_u64;
    for (words, weight) in all {
        sum = sum.saturating_add(weight);
        let call = |words: &str| words.split(" fd ").next().map(str::to_owned);
        let is_same = |known: &&mut (String, u64)| call(&known.0) == call(&words);
        match parts.iter_mut().find(is_same) {
            Some((known, all)) => {
                *all = all.saturating_add(weight);
                if words.len() > known.len() {
                    *known = words;
                }
            }
            None => parts.push((words, weight)),
        }
    }
    parts.sort_by_key(|(_, weight)| std::cmp::Reverse(*weight));
    let shares = parts.into_iter().map(|(words, weight)| (words, weight as f64 / sum.max(1) as f64));
    shares.take_while(|(_, share)| *share >= LEAST_SHARE).take(MOST_PARTS).collect()
}
