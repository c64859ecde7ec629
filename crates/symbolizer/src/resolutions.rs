use model::{Resolution, StackEntry};
use rustc_hash::FxHashMap;

/// What is known of each stack entry: the answer to every question that an output asks about names.
#[derive(Default)]
pub struct Resolutions {
    numbers: FxHashMap<StackEntry, u32>,
    resolutions: Vec<Resolution>,
}

impl Resolutions {
    /// Adds the answer for an entry; the first one stays.
    pub fn insert(&mut self, entry: StackEntry, resolution: Resolution) {
        // More than 2^32 unique places do not fit into memory.
        let number = self.resolutions.len() as u32;
        self.numbers.entry(entry).or_insert_with(|| {
            self.resolutions.push(resolution);
            number
        });
    }

    /// The answer for an entry; `None` for one that was never asked about.
    pub fn get(&self, entry: &StackEntry) -> Option<&Resolution> {
        self.number(entry).and_then(|number| self.resolutions.get(number as usize))
    }

    /// A small number for an entry, below [`Resolutions::len`]: for tables of one's own beside this one.
    pub fn number(&self, entry: &StackEntry) -> Option<u32> {
        self.numbers.get(entry).copied()
    }

    /// All answers, by number.
    pub fn as_slice(&self) -> &[Resolution] {
        &self.resolutions
    }

    /// All entries with their answers, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&StackEntry, &Resolution)> {
        self.numbers
            .iter()
            .filter_map(|(entry, &number)| Some((entry, self.resolutions.get(number as usize)?)))
    }

    /// How many entries are known.
    pub fn len(&self) -> usize {
        self.resolutions.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.resolutions.is_empty()
    }
}

impl FromIterator<(StackEntry, Resolution)> for Resolutions {
    fn from_iter<I: IntoIterator<Item = (StackEntry, Resolution)>>(answers: I) -> Self {
        let mut resolutions = Self::default();
        answers.into_iter().for_each(|(entry, resolution)| resolutions.insert(entry, resolution));
        resolutions
    }
}
