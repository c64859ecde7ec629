use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use super::HAS_CLIENT;
use crate::objects::SearchPaths;

/// The servers, and the limits of downloads.
#[derive(Clone, Debug)]
pub struct Settings {
    /// URLs of servers, in the order in which they are tried.
    pub servers: Vec<String>,
    /// The folder of the cache.
    pub cache: PathBuf,
    /// Time limit for all downloads together.
    pub total_timeout: Duration,
    /// Time limit for the start of an answer.
    pub answer_timeout: Duration,
    /// Maximum size of a file, in bytes.
    pub max_file_bytes: u64,
}

/// The server that forwards requests to those of the distributions.
const FEDERATION: &str = "https://debuginfod.elfutils.org/";

/// Default of `DEBUGINFOD_MAXTIME`.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(60);
/// Default of `DEBUGINFOD_TIMEOUT`.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// Default of `DEBUGINFOD_MAXSIZE`. Debug files of browsers have two gigabytes.
const MAX_FILE_BYTES: u64 = 8 << 30;

impl Settings {
    /// Reads `DEBUGINFOD_URLS`, `DEBUGINFOD_MAXTIME`, `DEBUGINFOD_TIMEOUT` and `DEBUGINFOD_MAXSIZE`
    /// (debuginfod_find_debuginfo(3)). Returns `None` unless `--debuginfod` is given (`asked`) or `DEBUGINFOD_URLS` names servers.
    /// Without `DEBUGINFOD_URLS`, uses the servers of the system (`/etc/debuginfod/*.urls`), or else that of elfutils.
    pub fn from_environment(paths: &SearchPaths, asked: bool) -> Option<Self> {
        let number =
            |name: &str| std::env::var(name).ok()?.trim().parse::<u64>().ok().filter(|&number| number > 0);
        let mut servers = urls(&std::env::var("DEBUGINFOD_URLS").unwrap_or_default());
        if servers.is_empty() && asked {
            servers = system_servers();
            if servers.is_empty() {
                servers.push(FEDERATION.to_owned());
            }
        }
        (HAS_CLIENT && !servers.is_empty()).then_some(())?;
        Some(Self {
            servers,
            cache: paths.debuginfod_cache.clone()?,
            total_timeout: number("DEBUGINFOD_MAXTIME").map_or(TOTAL_TIMEOUT, Duration::from_secs),
            answer_timeout: number("DEBUGINFOD_TIMEOUT").map_or(ANSWER_TIMEOUT, Duration::from_secs),
            max_file_bytes: number("DEBUGINFOD_MAXSIZE").unwrap_or(MAX_FILE_BYTES),
        })
    }
}

/// Returns true if downloads are requested: `--debuginfod` is given (`asked`), or `DEBUGINFOD_URLS` names servers. Ignores whether
/// this build has a client.
pub fn is_requested(asked: bool) -> bool {
    asked || !urls(&std::env::var("DEBUGINFOD_URLS").unwrap_or_default()).is_empty()
}

/// Splits URLs at white space. Other words (`ima:enforcing`) are settings of elfutils' client and are skipped.
fn urls(text: &str) -> Vec<String> {
    let is_url = |word: &&str| word.starts_with("http://") || word.starts_with("https://");
    text.split_whitespace().filter(is_url).map(str::to_owned).collect()
}

/// Reads the servers that the system is configured for.
fn system_servers() -> Vec<String> {
    let Ok(entries) = fs::read_dir("/etc/debuginfod") else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "urls"));
    files.sort();
    files.iter().flat_map(|path| urls(&fs::read_to_string(path).unwrap_or_default())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_no_urls_are_left_out() {
        assert_eq!(urls("ima:enforcing https://a/ http://b:8002\n"), ["https://a/", "http://b:8002"]);
        assert!(urls("file:///srv ftp://x").is_empty());
    }
}
