//! Stands in for the client in builds without the feature `debuginfod`: it asks nobody, and its error says so.

use std::path::PathBuf;

use model::BuildId;

use super::{Artifact, FetchError, Settings};

/// Has no servers to ask.
#[derive(Debug)]
pub struct Client;

impl Client {
    /// Asks nothing, now or later.
    pub fn new(_: Settings) -> Self {
        Self
    }

    /// Fetches nothing, as this build has no client.
    ///
    /// # Errors
    /// Always [`FetchError::NoClient`].
    pub fn fetch(
        &mut self,
        _: &BuildId,
        _: Artifact,
        _: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<PathBuf, FetchError> {
        Err(FetchError::NoClient)
    }
}
