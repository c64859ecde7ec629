//! Replaces the client in builds without the feature `debuginfod`: every fetch fails with an error that says so.

use std::path::PathBuf;

use model::BuildId;

use super::{Artifact, FetchError, Settings};

/// A client without servers.
#[derive(Debug)]
pub struct Client;

impl Client {
    /// Ignores the settings.
    pub fn new(_: Settings) -> Self {
        Self
    }

    /// Fails with [`FetchError::NoClient`].
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
