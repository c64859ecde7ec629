//! Explains a profile in a few findings: what is hot, where from, when, and what kind of work it is.
//!
//! All shares are of the view's weight. Paths are those of the program's own functions, with recursion folded: a function that calls
//! itself, directly or through others, stands once, with everything that it called at any depth.

mod call_tree;
mod causes;
mod costs;
mod functions;
mod own;
mod phases;
mod stacks;

use crate::{FrameId, View};
use model::{Name, TruncationReason};

use call_tree::ROOT;
pub use causes::{Cause, Step};
pub use costs::{Cost, CostKind, is_of_scheduler};
pub use functions::HotFunction;
pub(crate) use own::OwnCode;
pub use phases::{Phase, phases};
pub(crate) use stacks::Functions;
use stacks::Stacks;

/// A part of the whole with its weight.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part<T> {
    /// The subject: a function, a thread, …
    pub what: T,
    /// Its weight.
    pub weight: u64,
}

/// The findings about a profile. Lists are sorted by weight, the heaviest first, and are whole but where they say
/// otherwise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explanation {
    /// The weight of all samples but those of `at_rest`. The other findings are of these, too.
    pub total: u64,
    /// The weight of the time that event loops were idle.
    pub at_rest: u64,
    /// The few paths that most of that is on.
    pub rest: Vec<Cause>,
    /// Weight of samples taken in the kernel.
    pub kernel: u64,
    /// Weight of samples taken in generated code (a JIT's).
    pub generated: u64,
    /// Weight of samples whose stack ends early, by the reason.
    pub truncated: Vec<Part<TruncationReason>>,
    /// Thread names, as the view has them.
    pub threads: Vec<Part<FrameId>>,
    /// Modules by the weight of the samples taken in them; `None` is where the module is not known.
    pub modules: Vec<Part<Option<Name>>>,
    /// The few paths that make up most of the time. They do not overlap; those too small to be told are left out.
    pub causes: Vec<Cause>,
    /// Functions by the weight of the samples taken in them.
    pub functions: Vec<HotFunction>,
    /// Kinds of work, found by the names of functions. They do not overlap.
    pub costs: Vec<Cost>,
}

impl Explanation {
    /// Returns the weight of all samples whose stack ends early.
    pub fn truncated_total(&self) -> u64 {
        self.truncated.iter().map(|part| part.weight).fold(0, u64::saturating_add)
    }
}

/// Explains a view. It should show modules ([`crate::Show::modules`]), of which `is_users` tells those that are the user's own code;
/// [`phases`] are found apart from it.
pub fn explain(view: &View<'_>, is_users: &dyn Fn(&str) -> bool) -> Explanation {
    let mut stacks = Stacks::new(view, is_users);
    Explanation {
        total: stacks.total(),
        at_rest: stacks.rest.node(ROOT).total,
        kernel: stacks.in_kernel,
        generated: stacks.in_generated_code,
        truncated: sorted(std::mem::take(&mut stacks.truncated)),
        threads: stacks.threads(),
        modules: stacks.modules(),
        functions: functions::functions(&stacks),
        costs: stacks.costs.sorted(),
        causes: causes::causes(&mut stacks.tree),
        rest: causes::causes(&mut stacks.rest),
    }
}

/// Sorts parts by weight, the heaviest first, and by what they are where weights are equal: the same input gives the same order.
fn sorted<T: Ord>(parts: impl IntoIterator<Item = (T, u64)>) -> Vec<Part<T>> {
    let mut parts: Vec<Part<T>> = parts.into_iter().map(|(what, weight)| Part { what, weight }).collect();
    parts.sort_unstable_by(|one, other| (other.weight, &one.what).cmp(&(one.weight, &other.what)));
    parts
}
