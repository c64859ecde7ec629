use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use model::{BuildId, Reason};
use ureq::Agent;
use ureq::tls::TlsConfig;

use super::cache::{self, CacheEntry};
use super::{Artifact, FetchError, Settings};
use crate::http::{CONNECT_TIMEOUT, is_local, root_certificates};
use crate::objects::open_opened;

/// Downloads files from debuginfod servers.
#[derive(Debug)]
pub struct Client {
    settings: Settings,
    agent: Agent,
    /// For each server, true if it could not be reached; it is not tried again.
    unreachable: Vec<bool>,
    /// The start of the first download.
    start: Option<Instant>,
}

/// The answer of one server.
enum Answer {
    Got(PathBuf),
    HasNone,
}

/// Size of one read of a download.
const READ_BYTES: usize = 64 << 10;

impl Client {
    /// Creates a client. Connects to no server yet.
    pub fn new(settings: Settings) -> Self {
        let config = Agent::config_builder()
            .user_agent(concat!("prof/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(CONNECT_TIMEOUT.min(settings.answer_timeout)))
            .timeout_recv_response(Some(settings.answer_timeout))
            .max_redirects(5)
            .tls_config(TlsConfig::builder().root_certs(root_certificates()).build())
            .build();
        let unreachable = vec![false; settings.servers.len()];
        Self { settings, agent: config.into(), unreachable, start: None }
    }

    /// Returns the path of the file with this build id: from the cache, or downloaded from the first server that has it. Calls
    /// `progress` with the number of bytes received, and the size if the server states it.
    ///
    /// # Errors
    /// The reason why there is no file. After [`FetchError::TimeLimit`], all further downloads fail too.
    pub fn fetch(
        &mut self,
        build_id: &BuildId,
        artifact: Artifact,
        progress: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<PathBuf, FetchError> {
        let path = match cache::look_up(&self.settings.cache, build_id, artifact) {
            CacheEntry::File(path) => return Ok(path),
            CacheEntry::Miss => return Err(FetchError::RecentlyNotFound),
            CacheEntry::Nothing(path) => path,
        };
        let start = *self.start.get_or_insert_with(Instant::now);
        let deadline = start + self.settings.total_timeout;
        let mut first_error = None;
        for index in 0..self.settings.servers.len() {
            if self.unreachable.get(index).is_none_or(|&unreachable| unreachable) {
                continue;
            }
            match self.ask(index, build_id, artifact, &path, deadline, progress) {
                Ok(Answer::Got(path)) => return Ok(path),
                Ok(Answer::HasNone) => {}
                Err(error @ (FetchError::TimeLimit(_) | FetchError::Cache { .. })) => return Err(error),
                Err(error) => {
                    first_error.get_or_insert(error);
                }
            }
        }
        if let Some(error) = first_error {
            return Err(error);
        }
        // A miss is recorded only if every server has answered.
        if self.unreachable.contains(&true) {
            return Err(FetchError::SkippedServer);
        }
        cache::record_miss(&path).map_err(|error| FetchError::Cache { path, error })?;
        Err(FetchError::NotFound)
    }

    fn ask(
        &mut self,
        index: usize,
        build_id: &BuildId,
        artifact: Artifact,
        path: &Path,
        deadline: Instant,
        progress: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<Answer, FetchError> {
        let Some(server) = self.settings.servers.get(index) else { return Ok(Answer::HasNone) };
        let url = format!("{}/buildid/{build_id}/{}", server.trim_end_matches('/'), artifact.name());
        let time_is_up = || FetchError::TimeLimit(self.settings.total_timeout);
        let left = deadline.checked_duration_since(Instant::now()).ok_or_else(time_is_up)?;
        let failed = |why: String| match Instant::now() < deadline {
            true => FetchError::Server { url: url.clone(), why },
            false => time_is_up(),
        };
        let mut request = self.agent.get(&url).config().timeout_global(Some(left));
        if is_local(server) {
            // A proxy would resolve a loopback address to itself.
            request = request.proxy(None);
        }
        let mut response = match request.build().call() {
            Ok(response) => response,
            Err(ureq::Error::StatusCode(404)) => return Ok(Answer::HasNone),
            Err(ureq::Error::StatusCode(code)) => return Err(failed(format!("HTTP status {code}"))),
            Err(error) => {
                let error = failed(error.to_string());
                if let Some(unreachable) = self.unreachable.get_mut(index) {
                    *unreachable = true;
                }
                return Err(error);
            }
        };
        let size = response.body().content_length();
        let limit = self.settings.max_file_bytes;
        let too_large = || FetchError::TooLarge { url: url.clone(), limit };
        if size.is_some_and(|size| size > limit) {
            return Err(too_large());
        }
        let cannot_write = |error| FetchError::Cache { path: path.to_owned(), error };
        let mut file = cache::create(path).map_err(cannot_write)?;
        let mut body = response.body_mut().as_reader();
        let mut buffer = vec![0; READ_BYTES];
        let mut done = 0;
        loop {
            let read = match body.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed(error.to_string())),
            };
            done += read as u64;
            if done > limit {
                return Err(too_large());
            }
            file.write_all(buffer.get(..read).unwrap_or_default()).map_err(cannot_write)?;
            progress(done, size);
        }
        if size.is_some_and(|size| size != done) {
            return Err(failed(format!("it broke off after {done} bytes")));
        }
        // Checked before it gets its name, so that a wrong file never appears in the cache.
        check(file.file(), build_id).map_err(|reason| FetchError::WrongFile { url: url.clone(), reason })?;
        file.persist().map_err(cannot_write)?;
        Ok(Answer::Got(path.to_owned()))
    }
}

/// Checks that the file is an object with this build id.
fn check(file: &File, wanted: &BuildId) -> Result<(), Reason> {
    match open_opened(file)?.build_id() {
        Some(found) if found.same_object(wanted) => Ok(()),
        found => Err(Reason::BuildIdDiffers { recorded: *wanted, found }),
    }
}
