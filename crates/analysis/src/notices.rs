//! What a person should hear while a recording is read, told through a trait: this library prints nothing.

use model::Harm;

/// Maximum number of causes, files or values that a notice or a page lists of a kind.
pub(crate) const MAX_LISTED: usize = 5;

/// Receives notices and progress.
pub trait Notices {
    /// Receives a problem of the result, and what it takes from it. Of many, a person hears those first that take most.
    fn warn(&self, harm: Harm, text: &str);

    /// Receives something worth saying that casts no doubt on the result.
    fn say(&self, text: &str);

    /// Receives something for those who asked for detail.
    fn detail(&self, text: &str);

    /// Begins work that may take long. `total` is its size in bytes, where that is known. The work ends when the returned
    /// value is dropped.
    fn progress(&self, title: &str, total: Option<u64>) -> Box<dyn Progress>;
}

/// Receives how far one piece of work has come.
pub trait Progress {
    /// Receives how many bytes are done.
    fn set(&self, done: u64);
}

/// Ignores all notices.
#[derive(Clone, Copy, Default, Debug)]
pub struct Silent;

impl Notices for Silent {
    fn warn(&self, _harm: Harm, _text: &str) {}

    fn say(&self, _text: &str) {}

    fn detail(&self, _text: &str) {}

    fn progress(&self, _title: &str, _total: Option<u64>) -> Box<dyn Progress> {
        Box::new(Self)
    }
}

impl Progress for Silent {
    fn set(&self, _done: u64) {}
}
