//! What two profiles need to have in common to be compared, in a table, a picture or a page.

use profile::Weight;

use crate::input::Input;
use crate::load::EventProfile;

/// The properties that both sides of a comparison have, known before they are read.
#[derive(Clone, Copy, Debug)]
pub struct Common {
    /// True if both say in which module a function is. Other tools do not, and a function without its module is not the same as one with it.
    pub modules: bool,
    /// True if both count more than samples. Folded stacks do not, so that the other side is weighed by samples, too.
    pub weights: bool,
}

impl Default for Common {
    /// The properties that two recordings have in common.
    fn default() -> Self {
        Self { modules: true, weights: true }
    }
}

impl Common {
    /// Leaves what a side has as well. `event` is the event that is compared, if one was chosen.
    #[must_use]
    pub fn with(self, side: &Input, event: Option<&str>) -> Self {
        let foreign = side.foreign.as_ref();
        Self {
            modules: self.modules && foreign.is_none(),
            weights: self.weights && !foreign.is_some_and(|foreign| foreign.counts_samples(event)),
        }
    }

    /// Returns the weight by which both sides compare, if none was chosen. Periods compare even if the rates differ.
    pub fn weight(self) -> Weight {
        if self.weights { Weight::Period } else { Weight::Samples }
    }
}

/// The event and the unit that the figures of a side of a comparison count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Basis {
    /// The event without its modifiers; `None` for a profile of another tool, which has its own names for events.
    event: Option<String>,
    /// The type of what is weighed: `cpu` for CPU time, another tool's name of it, or the event; `None` for samples.
    kind: Option<String>,
    /// The unit: `ns`, `samples`, what another tool says, or the event.
    unit: String,
    /// The name of the event in messages.
    name: String,
}

impl Basis {
    /// Returns what a profile counts by this weight.
    pub fn new(profile: &EventProfile, weight: Weight) -> Self {
        let name = profile.event.name.to_string();
        let event = name.split(':').next().unwrap_or_default().to_owned();
        let unit = match weight {
            Weight::Samples => "samples".to_owned(),
            Weight::Period if profile.is_clock() => "ns".to_owned(),
            Weight::Period => profile.unit.clone().unwrap_or_else(|| event.clone()),
        };
        let kind = if profile.is_clock() { "cpu".to_owned() } else { event.clone() };
        let kind = (weight == Weight::Period).then_some(kind);
        Self { event: profile.unit.is_none().then_some(event), kind, unit, name }
    }

    /// Returns the unit: `ns`, `samples`, what another tool says, or the event.
    pub fn unit(&self) -> &str {
        &self.unit
    }

    /// Checks that a side can be compared with another. Sides are given with their names.
    ///
    /// # Errors
    /// Why it cannot, and what to type.
    pub fn check(
        (before_name, before): (&str, &Self),
        (after_name, after): (&str, &Self),
    ) -> Result<(), String> {
        let differs = |one: &Option<String>, other: &Option<String>| matches!((one, other), (Some(one), Some(other)) if one != other);
        let (one, other, advice) = if differs(&before.event, &after.event) {
            (&before.name, &after.name, "--event NAME")
        } else if before.unit != after.unit {
            (&before.unit, &after.unit, "--weight samples")
        } else if differs(&before.kind, &after.kind) {
            (&before.name, &after.name, "--event NAME")
        } else {
            return Ok(());
        };
        Err(format!(
            "{before_name} counts {one} and {after_name} counts {other}, which cannot be compared; try: {advice}, or recording \
             both alike"
        ))
    }
}
