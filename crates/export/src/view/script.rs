//! The script and the style sheet of the page. The script is written as modules, which are joined to one inline module.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// The style sheet.
pub(super) const STYLE: &str = include_str!("page/page.css");

macro_rules! modules {
    ($($name:literal),+ $(,)?) => {
        &[$(($name, include_str!(concat!("page/", $name, ".js")))),+]
    };
}

/// The modules, each after those that it imports. The page and its worker run the same script.
const MODULES: &[(&str, &str)] = modules![
    "format",
    "tree",
    "weigh",
    "layout",
    "order",
    "ended",
    "engine",
    "client",
    "dom",
    "state",
    "words",
    "colours",
    "list",
    "heat",
    "lanelist",
    "lanedraw",
    "losses",
    "lanes",
    "waits",
    "moment",
    "picture",
    "functions",
    "calltree",
    "source",
    "assembly",
    "help",
    "share",
    "keys",
    "crumbs",
    "details",
    "page",
    "main",
];

/// Joins the modules to one. Drops comments, and imports and exports, none of which renames anything.
pub(super) fn joined() -> String {
    let mut script = String::from("\"use strict\";\n");
    for (_, module) in MODULES {
        let mut in_comment = false;
        for line in module.lines() {
            let code = line.trim_start();
            if in_comment || code.starts_with("/*") {
                in_comment = !code.ends_with("*/");
            } else if !code.is_empty() && !code.starts_with("//") && !line.starts_with("import ") {
                script.push_str(line.strip_prefix("export ").unwrap_or(line).trim_start());
                script.push('\n');
            }
        }
    }
    script
}

/// Returns the content security policy, which allows only the page's own script and style.
pub(super) fn policy(script: &str) -> String {
    let hash = |text: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
    let (script, style) = (hash(script), hash(STYLE));
    format!(
        "default-src 'none'; script-src {script}; style-src {style}; worker-src blob:; img-src data: blob:; base-uri 'none'; \
         form-action 'none'"
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_modules_can_be_joined() {
        let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
        let names: Vec<&str> = MODULES.iter().map(|(name, _)| *name).collect();
        for (at, (module, text)) in MODULES.iter().enumerate() {
            for line in text.lines() {
                if let Some(import) = line.strip_prefix("import ") {
                    let from = import.rsplit_once("\"./").and_then(|(_, rest)| rest.split_once(".js\""));
                    let (from, _) = from.unwrap_or_else(|| panic!("{module}: {line}"));
                    let place = names.iter().position(|&name| name == from);
                    assert!(
                        place.is_some_and(|place| place < at),
                        "{module} needs {from}, which is not before it"
                    );
                    assert!(import.starts_with('{') && !import.contains(" as "), "{module}: {line}");
                }
                let code = line.strip_prefix("export ").unwrap_or(line);
                let code = code.strip_prefix("async ").unwrap_or(code);
                let declared =
                    ["function ", "class ", "const ", "let "].iter().find_map(|word| code.strip_prefix(word));
                let Some(declared) = declared else { continue };
                let end = declared.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
                let name = &declared[..end.unwrap_or(declared.len())];
                assert!(!name.is_empty(), "{module}: `{line}` cannot be told from another module's");
                if let Some(other) = owners.insert(name, module) {
                    panic!("{name} is declared by {other} and {module}");
                }
            }
        }
        let script = joined();
        assert!(!script.contains("</script") && !script.contains("<!--"), "the script would end early");
        assert!(!STYLE.contains("</style"));
        assert!(!script.lines().any(|line| line.starts_with("import ") || line.starts_with("export ")));
        assert!(script.contains("`") && script.lines().count() > 1000);
    }

    #[test]
    fn no_line_of_the_modules_looks_like_a_comment_and_is_none() {
        for (module, text) in MODULES {
            // Templates of several lines could hold such a line.
            let ticks = |line: &str| line.matches('`').count() % 2 == 1 && !line.contains("\\`");
            let odd: Vec<&str> =
                text.lines().filter(|line| !line.trim_start().starts_with('*') && ticks(line)).collect();
            assert!(odd.is_empty(), "{module}: a template goes over several lines: {odd:?}");
        }
    }
}
