//! Finds out whether a build has line tables, and the environment that makes cargo build with them.

use std::path::Path;

use anyhow::Context;
use toml::{Table, Value};

use crate::arguments::Arguments;

/// Environment variables for cargo.
#[derive(Default, Debug, PartialEq, Eq)]
pub struct Environment {
    /// Names and values.
    pub variables: Vec<(String, &'static str)>,
    profile: String,
}

impl Environment {
    /// Returns a message about the variables; `None` without any.
    pub fn message(&self) -> Option<String> {
        let set: Vec<_> = self.variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
        (!set.is_empty()).then(|| {
            format!(
                "the profile {0} has no line tables: building with {1} (to keep one build, write `debug = \
                 \"line-tables-only\"` below [profile.{0}] in Cargo.toml)",
                self.profile,
                set.join(" ")
            )
        })
    }
}

/// Returns the variables with which the chosen profile has line tables and does not strip them; empty if none are needed.
///
/// # Errors
/// The manifest cannot be read.
pub fn line_tables(arguments: &Arguments, root: &Path) -> anyhow::Result<Environment> {
    let path = root.join("Cargo.toml");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let manifest: Table = text.parse().with_context(|| format!("cannot read {}", path.display()))?;
    let set = |name: &str| std::env::var(name).ok();
    Ok(variables(&manifest, arguments.profile(), set))
}

fn variables(manifest: &Table, profile: &str, set: impl Fn(&str) -> Option<String>) -> Environment {
    let mut environment = Environment { variables: Vec::new(), profile: profile.to_owned() };
    let prefix = format!("CARGO_PROFILE_{}", profile.to_uppercase().replace('-', "_"));
    let debug_name = format!("{prefix}_DEBUG");
    let debug = set(&debug_name).map(Value::String).or_else(|| setting(manifest, profile, "debug"));
    let has_lines = match &debug {
        None => built_in_ancestor(manifest, profile) == "dev",
        Some(Value::Boolean(debug)) => *debug,
        Some(Value::Integer(level)) => *level > 0,
        Some(Value::String(level)) => {
            !matches!(level.as_str(), "0" | "none" | "false" | "line-directives-only")
        }
        Some(_) => true,
    };
    if !has_lines {
        environment.variables.push((debug_name, "line-tables-only"));
    }
    let strip_name = format!("{prefix}_STRIP");
    let strip = set(&strip_name).map(Value::String).or_else(|| setting(manifest, profile, "strip"));
    let strips = match &strip {
        Some(Value::Boolean(strip)) => *strip,
        Some(Value::String(what)) => matches!(what.as_str(), "symbols" | "debuginfo" | "true"),
        _ => false,
    };
    if strips {
        environment.variables.push((strip_name, "none"));
    }
    environment
}

/// Maximum depth of inherited profiles. cargo reports circles.
const MAX_DEPTH: usize = 16;

/// Returns a setting of the profile, or of the nearest profile that it inherits from.
fn setting(manifest: &Table, profile: &str, key: &str) -> Option<Value> {
    ancestors(manifest, profile).iter().find_map(|profile| table(manifest, profile)?.get(key).cloned())
}

/// Returns the built-in profile from which the profile inherits.
fn built_in_ancestor(manifest: &Table, profile: &str) -> String {
    ancestors(manifest, profile).pop().unwrap_or_default()
}

/// Returns the profile and those that it inherits from.
fn ancestors(manifest: &Table, profile: &str) -> Vec<String> {
    let mut line = vec![profile.to_owned()];
    while let Some(last) = line.last().filter(|_| line.len() < MAX_DEPTH) {
        let parent = match last.as_str() {
            "dev" | "release" => break,
            "test" => Some("dev"),
            "bench" => Some("release"),
            custom => table(manifest, custom).and_then(|table| table.get("inherits")?.as_str()),
        };
        let Some(parent) = parent else { break };
        line.push(parent.to_owned());
    }
    line
}

fn table<'m>(manifest: &'m Table, profile: &str) -> Option<&'m Table> {
    manifest.get("profile")?.get(profile)?.as_table()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(manifest: &str, profile: &str) -> Vec<String> {
        let manifest: Table = manifest.parse().unwrap();
        variables(&manifest, profile, |_| None).variables.into_iter().map(|(name, _)| name).collect()
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
        assert!(variables(&Table::new(), "release", set).variables.is_empty());
    }
}
