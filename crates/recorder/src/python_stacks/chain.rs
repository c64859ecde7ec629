//! Puts runs of Python functions into call chains.

use decoder::context;
use model::{Avma, TruncationReason};
use python::Run;
use stacks::is_user_marker;

use super::PythonSample;

/// Rewrites call chains; keeps its buffers.
#[derive(Default, Debug)]
pub(super) struct ChainRewriter {
    rewritten: Vec<u64>,
    found: Vec<u64>,
}

/// The kind of an address in a chain.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// It runs bytecode, for a run that is to be named.
    Eval,
    /// It is of the interpreter, and says nothing to the program's author.
    Hidden,
    /// It stays.
    Shown,
}

impl ChainRewriter {
    /// Replaces each frame that runs bytecode by the functions of its run, and removes frames that only lead from one Python function to
    /// the next, or to the first one. `addresses` appends the addresses of a run.
    pub(super) fn rewrite(
        &mut self,
        sample: &PythonSample<'_>,
        runs: &[Run],
        keeps_interpreter: bool,
        addresses: &mut dyn FnMut(&Run, &mut Vec<u64>),
        (chain, start): (&mut Vec<u64>, usize),
    ) {
        let Self { rewritten, found } = self;
        rewritten.clear();
        let user = chain.get(start..).unwrap_or_default();
        let (mut is_innermost, mut runs) = (false, runs.iter());
        let last_eval =
            roles(user, sample).enumerate().filter(|(_, (_, role))| *role == Some(Role::Eval)).last();
        let last_eval = last_eval.map(|(index, _)| index);
        let mut is_start = false;
        for (index, (value, role)) in roles(user, sample).enumerate() {
            let Some(role) = role else {
                is_innermost = is_user_marker(&value);
                rewritten.push(value);
                continue;
            };
            let is_first = std::mem::take(&mut is_innermost);
            is_start &= role != Role::Eval && !is_first && is_own(value, sample);
            match role {
                Role::Eval => {
                    found.clear();
                    addresses(runs.next().unwrap_or(&UNKNOWN), found);
                    if keeps_interpreter {
                        rewritten.push(value);
                    }
                    // All but an innermost function are looked up one byte before.
                    let as_return = |(place, address): (usize, &u64)| {
                        if is_first && !keeps_interpreter && place == 0 { *address } else { address + 1 }
                    };
                    rewritten.extend(found.iter().enumerate().map(as_return));
                    is_start = last_eval == Some(index);
                }
                Role::Hidden if !is_first && !keeps_interpreter => {}
                _ if is_start && !keeps_interpreter => {}
                _ => rewritten.push(value),
            }
        }
        chain.truncate(start);
        chain.append(rewritten);
    }
}

/// A run of which nothing was found.
static UNKNOWN: Run = Run { frames: Vec::new(), is_complete: false, lasting: Vec::new() };

fn is_own(value: u64, sample: &PythonSample<'_>) -> bool {
    sample.interpreter.is_own(Avma(value.wrapping_sub(1)))
}

/// Returns the values of a chain with their roles; markers have none.
fn roles<'c>(
    chain: &'c [u64],
    sample: &'c PythonSample<'_>,
) -> impl Iterator<Item = (u64, Option<Role>)> + 'c {
    let mut is_innermost = false;
    chain.iter().enumerate().map(move |(index, &value)| {
        let is_pointer = std::mem::replace(&mut is_innermost, is_user_marker(&value));
        if value >= context::MAX || TruncationReason::from_marker(value).is_some() {
            return (value, None);
        }
        let lookup = Avma(if is_pointer { value } else { value.wrapping_sub(1) });
        let interpreter = sample.interpreter;
        let role = if interpreter.is_eval(lookup) {
            // A runtime that names its functions itself calls the interpreter through code that it generates for each.
            let caller = chain.get(index + 1).map(|caller| Avma(caller.wrapping_sub(1)));
            let caller = caller.and_then(|caller| sample.maps.space.find(caller));
            let is_named = caller.is_some_and(|caller| caller.executable && caller.object.is_none());
            if is_named { Role::Shown } else { Role::Eval }
        } else if interpreter.is_glue(lookup) {
            Role::Hidden
        } else {
            Role::Shown
        };
        (value, Some(role))
    })
}
