//! How much a problem takes from a result.

/// The harm that a problem does to a result, from the least to the most. Of many messages, those about the most come first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Harm {
    /// Nothing: something is done in another way than was asked for, or could be done better.
    Nothing,
    /// The names or lines of some frames.
    Names,
    /// The outer ends of some stacks.
    Stacks,
    /// Samples, or counts: shares may be wrong.
    Samples,
    /// Everything: there is no result.
    Everything,
}
