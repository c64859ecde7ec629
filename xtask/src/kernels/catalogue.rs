//! What `kernels.toml` says: the suites, and the kernels that are sought in them.

use anyhow::{Context, bail};

/// The catalogue as it is written.
pub(super) struct Catalogue {
    /// The suite that Debian calls stable.
    pub(super) stable: String,
    /// Suites of the main archive.
    pub(super) archive: Vec<String>,
    /// Suites of the archive of security updates.
    pub(super) security: Vec<String>,
    /// From old to new.
    pub(super) kernels: Vec<Wanted>,
    pub(super) known: Vec<Known>,
}

/// A fault that is known, whose check does not fail.
pub(super) struct Known {
    /// A part of the check's title: `root · doctor`.
    pub(super) check: String,
    /// A part of the kernel's name: `aarch64`.
    pub(super) kernel: String,
    pub(super) why: String,
}

/// A kernel of the catalogue.
pub(super) struct Wanted {
    /// The suites that may serve it, the preferred one first.
    pub(super) suites: Vec<String>,
    /// `6.19`: the newest of these versions; otherwise what the suite installs as its kernel.
    pub(super) series: Option<String>,
}

impl Catalogue {
    /// Reads the catalogue that was built in.
    ///
    /// # Errors
    /// It lacks an entry, or one has another type.
    pub(super) fn read() -> anyhow::Result<Self> {
        let table: toml::Table = include_str!("../../kernels.toml").parse().context("kernels.toml")?;
        let stable = table.get("stable").and_then(toml::Value::as_str).context("kernels.toml: no stable")?;
        let kernels = table.get("kernel").and_then(toml::Value::as_array);
        let kernels = kernels.context("kernels.toml: no kernel")?;
        let catalogue = Self {
            stable: stable.to_owned(),
            archive: names(&table, "archive")?,
            security: names(&table, "security")?,
            kernels: kernels.iter().map(Wanted::read).collect::<anyhow::Result<_>>()?,
            known: faults(&table)?,
        };
        let known =
            |suite: &&String| !catalogue.archive.contains(suite) && !catalogue.security.contains(suite);
        if let Some(suite) = catalogue.kernels.iter().flat_map(|kernel| &kernel.suites).find(known) {
            bail!("kernels.toml: a kernel is sought in {suite}, which is no suite of the archives");
        }
        Ok(catalogue)
    }

    /// Returns true if a kernel is the one that Debian stable installs.
    pub(super) fn is_stable(&self, wanted: &Wanted) -> bool {
        wanted.series.is_none() && wanted.suites.contains(&self.stable)
    }
}

impl Wanted {
    fn read(entry: &toml::Value) -> anyhow::Result<Self> {
        let table = entry.as_table().context("kernels.toml: a kernel that is no table")?;
        let series = table.get("series").and_then(toml::Value::as_str).map(str::to_owned);
        Ok(Self { suites: names(table, "suites")?, series })
    }

    /// Returns how a message calls it: by where it is sought.
    pub(super) fn label(&self) -> String {
        let suites = self.suites.join(" or ");
        match &self.series {
            None => suites,
            Some(series) => format!("{series} of {suites}"),
        }
    }
}

/// Returns the known faults; none if there is no list.
fn faults(table: &toml::Table) -> anyhow::Result<Vec<Known>> {
    let entries = table.get("known").and_then(toml::Value::as_array);
    let text = |entry: &toml::Value, key: &str| {
        let text = entry.get(key).and_then(toml::Value::as_str).map(str::to_owned);
        text.with_context(|| format!("kernels.toml: a known fault without {key}"))
    };
    let known = |entry: &toml::Value| -> anyhow::Result<Known> {
        Ok(Known { check: text(entry, "check")?, kernel: text(entry, "kernel")?, why: text(entry, "why")? })
    };
    entries.into_iter().flatten().map(known).collect()
}

/// Returns the list of names called `key`.
fn names(table: &toml::Table, key: &str) -> anyhow::Result<Vec<String>> {
    let list = table.get(key).and_then(toml::Value::as_array);
    let list = list.with_context(|| format!("kernels.toml: no list {key}"))?;
    list.iter()
        .map(|name| {
            name.as_str().map(str::to_owned).with_context(|| format!("kernels.toml: {key}: {name:?}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalogue_is_whole_and_names_the_kernel_of_stable() {
        let catalogue = Catalogue::read().unwrap();
        assert_eq!(catalogue.kernels.iter().filter(|kernel| catalogue.is_stable(kernel)).count(), 1);
    }
}
