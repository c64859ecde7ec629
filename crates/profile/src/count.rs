//! How much something weighs: its samples, or what they stand for.

/// A number of samples, with the sum of their weights.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Count {
    /// Samples.
    pub samples: u64,
    /// The sum of the samples' periods: how many events they stand for.
    pub period: u64,
}

/// The quantity that makes a stack of a view heavy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Weight {
    /// The number of samples.
    Samples,
    /// The sum of their periods.
    Period,
}

impl Weight {
    /// Chooses the weight that fits an event: a fixed period, or a clock's, says nothing that the number of samples
    /// does not say;
    /// where the kernel adjusts the period to a frequency, samples differ in what they stand for.
    pub fn fitting(by_frequency: bool, clock: bool) -> Self {
        if by_frequency && !clock { Self::Period } else { Self::Samples }
    }
}

impl Count {
    /// The count as a weight.
    pub fn weight(&self, weight: Weight) -> u64 {
        match weight {
            Weight::Samples => self.samples,
            Weight::Period => self.period,
        }
    }
}
