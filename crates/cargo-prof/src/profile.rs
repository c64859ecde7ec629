//! Finds out whether a build has line tables, and the environment that makes cargo build with them.

use std::path::Path;

use anyhow::Context;
use toml::{Table, Value};

/// The name and the value of an environment variable for cargo.
pub type Variable = (String, &'static str);

/// Returns the variables with which the profile has line tables and does not strip them; empty if none are needed.
///
/// # Errors
/// The manifest cannot be read.
pub fn line_tables(profile: &str, root: &Path) -> anyhow::Result<Vec<Variable>> {
    let path = root.join("Cargo.toml");
    let read = || anyhow::Ok(std::fs::read_to_string(&path)?.parse()?);
    let manifest = read().with_context(|| format!("cannot read {}", path.display()))?;
    Ok(variables(&manifest, profile, |name| std::env::var(name).ok()))
}

fn variables(manifest: &Table, profile: &str, set: impl Fn(&str) -> Option<String>) -> Vec<Variable> {
    let line = ancestors(manifest, profile);
    let prefix = format!("CARGO_PROFILE_{}", profile.to_uppercase().replace('-', "_"));
    let (debug, strip) = (format!("{prefix}_DEBUG"), format!("{prefix}_STRIP"));
    // What the user has set, or the setting of the nearest profile that this one inherits from.
    let setting = |name: &str, key: &str| {
        set(name).or_else(|| line.iter().find_map(|profile| table(manifest, profile)?.get(key)).map(text))
    };
    let has_lines = match setting(&debug, "debug") {
        Some(level) => !matches!(level.as_str(), "0" | "none" | "false" | "line-directives-only"),
        None => line.last().is_some_and(|profile| profile == "dev"),
    };
    let strips = setting(&strip, "strip")
        .is_some_and(|what| matches!(what.as_str(), "symbols" | "debuginfo" | "true"));
    let wanted = [(!has_lines, debug, "line-tables-only"), (strips, strip, "none")];
    wanted.into_iter().filter(|(is_missing, ..)| *is_missing).map(|(_, name, value)| (name, value)).collect()
}

/// Maximum depth of inherited profiles. cargo reports circles.
const MAX_DEPTH: usize = 16;

/// Returns the profile and those that it inherits from.
fn ancestors(manifest: &Table, profile: &str) -> Vec<String> {
    let parent = |profile: &String| match profile.as_str() {
        "dev" | "release" => None,
        "test" => Some("dev".to_owned()),
        "bench" => Some("release".to_owned()),
        custom => table(manifest, custom)?.get("inherits").map(text),
    };
    std::iter::successors(Some(profile.to_owned()), parent).take(MAX_DEPTH).collect()
}

fn table<'m>(manifest: &'m Table, profile: &str) -> Option<&'m Table> {
    manifest.get("profile")?.get(profile)?.as_table()
}

/// Returns a setting as it is written in an environment variable.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Integer(level) => level.to_string(),
        Value::Boolean(is_on) => is_on.to_string(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(manifest: &str, profile: &str) -> Vec<String> {
        let manifest: Table = manifest.parse().unwrap();
        variables(&manifest, profile, |_| None).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn lines_are_asked_for_where_they_are_missing() {
        assert_eq!(names("", "release"), ["CARGO_PROFILE_RELEASE_DEBUG"]);
        assert_eq!(names("", "bench"), ["CARGO_PROFILE_BENCH_DEBUG"]);
        assert!(names("", "dev").is_empty() && names("", "test").is_empty());
        assert!(names("[profile.release]\ndebug = 1", "bench").is_empty());
        assert_eq!(names("[profile.dev]\ndebug = false", "test"), ["CARGO_PROFILE_TEST_DEBUG"]);
        let custom = "[profile.a-b]\ninherits = \"release\"\nstrip = true\n[profile.c]\ninherits = \"c\"";
        assert_eq!(names(custom, "a-b"), ["CARGO_PROFILE_A_B_DEBUG", "CARGO_PROFILE_A_B_STRIP"]);
        assert_eq!(names(custom, "c"), ["CARGO_PROFILE_C_DEBUG"]);
    }

    #[test]
    fn what_the_user_set_counts() {
        let set = |name: &str| (name == "CARGO_PROFILE_RELEASE_DEBUG").then(|| "2".to_owned());
        assert!(variables(&Table::new(), "release", set).is_empty());
    }
}
