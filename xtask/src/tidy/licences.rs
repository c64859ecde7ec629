//! Every crate that is built in has a licence of the list in deny.toml.
//!
//! The same list is read by cargo-deny, which needs not be installed for this.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::Context;

use super::Breach;
use super::tree::Tree;
use crate::workspace;

const LIST: &str = "deny.toml";

pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<Breach>> {
    let policy: toml::Table = tree.text(LIST).parse().context(LIST)?;
    let licences = policy.get("licenses").context("deny.toml has no [licenses]")?;
    let allowed = strings(licences.get("allow"));
    let exceptions = licences.get("exceptions").and_then(toml::Value::as_array);

    let text = workspace::output(
        Command::new("cargo")
            .args(["metadata", "--format-version", "1", "--filter-platform", "x86_64-unknown-linux-gnu"])
            .current_dir(workspace::root()),
    )?;
    let metadata: serde_json::Value =
        serde_json::from_str(&text).context("cargo metadata printed no JSON")?;
    let mut breaches = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let licence = package["license"].as_str().unwrap_or_default();
        let mut allowed = allowed.clone();
        for exception in exceptions.into_iter().flatten() {
            if exception.get("crate").and_then(toml::Value::as_str) == Some(name) {
                allowed.extend(strings(exception.get("allow")));
            }
        }
        if !satisfied(licence, &allowed) {
            breaches.push(Breach::new(LIST, 0, format!("{name} is licensed under {licence:?}")));
        }
    }
    Ok(breaches)
}

fn strings(list: Option<&toml::Value>) -> BTreeSet<&str> {
    list.and_then(toml::Value::as_array).into_iter().flatten().filter_map(toml::Value::as_str).collect()
}

/// Returns true if an SPDX expression can be met: of each OR one side, of each AND both. The slash of old manifests means OR.
/// Expressions of crates are shallow: AND stands outside brackets and OR inside, or there are no brackets.
fn satisfied(expression: &str, allowed: &BTreeSet<&str>) -> bool {
    let one = |choice: &str| allowed.contains(choice.trim().trim_matches(['(', ')']));
    let all = |conjunction: &str| {
        conjunction.split(" AND ").all(|part| part.split(" OR ").flat_map(|part| part.split('/')).any(one))
    };
    if expression.contains('(') { all(expression) } else { expression.split(" OR ").any(all) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_met_by_one_choice_of_each_part() {
        let allowed = BTreeSet::from(["MIT", "Apache-2.0", "Unicode-3.0"]);
        for met in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "(MIT OR GPL-2.0) AND Unicode-3.0",
            "MIT OR GPL-2.0 AND X",
        ] {
            assert!(satisfied(met, &allowed), "{met}");
        }
        for not in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR Apache-2.0) AND GPL-3.0"] {
            assert!(!satisfied(not, &allowed), "{not}");
        }
    }
}
