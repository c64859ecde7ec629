//! A kernel that the archive serves: its package, its image, and what checks ask of it.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::apt::{Apt, Served};
use super::architecture::Architecture;
use super::catalogue::Wanted;

/// Files of the packages: the image, and the modules with their list.
const IMAGES: [&str; 2] = ["./boot/vmlinuz-*", "./usr/lib/modules/*/vmlinuz"];

/// A kernel that is served.
#[derive(Clone)]
pub(super) struct Kernel {
    pub(super) architecture: Architecture,
    /// Debian's package of the image.
    package: String,
    /// The package's version: `6.12.117-1`.
    pub(super) version: String,
    /// True for the kernel that Debian stable installs.
    pub(super) is_stable: bool,
}

impl Kernel {
    /// Lists the packages that may be the kernel that the catalogue wants, the preferred one first. An archive's list may name a package
    /// that the archive no longer has.
    ///
    /// # Errors
    /// No suite serves it.
    pub(super) fn candidates(
        apt: &Apt,
        architecture: Architecture,
        wanted: &Wanted,
        is_stable: bool,
    ) -> anyhow::Result<Vec<Self>> {
        let found = match &wanted.series {
            None => installed_by_suites(apt, architecture, &wanted.suites)?,
            Some(series) => newest_of_series(apt, architecture, series)?,
        };
        if found.is_empty() {
            bail!("no kernel for {} is served by {}", architecture.debian(), wanted.label());
        }
        let kernel = |(package, version)| Self { architecture, package, version, is_stable };
        Ok(found.into_iter().map(kernel).collect())
    }

    /// Returns the version without Debian's revision: `6.12.117`.
    pub(super) fn short_version(&self) -> &str {
        self.version.split('-').next().unwrap_or(&self.version)
    }

    /// Returns how the table calls it, with its architecture.
    pub(super) fn name(&self) -> String {
        format!("{} {}", self.short_version(), self.architecture.machine())
    }

    /// Returns the numbers of the version, for comparisons: `[6, 12, 117]`.
    pub(super) fn numbers(&self) -> Vec<u32> {
        numbers(self.short_version())
    }

    /// Fetches the kernel, and returns its image.
    pub(super) fn image(&self, apt: &Apt) -> anyhow::Result<PathBuf> {
        let folder = apt.unpack(&self.package, &self.version, &IMAGES)?;
        let boot = files(&folder.join("boot"));
        let mut images = boot
            .into_iter()
            .chain(files(&folder.join("usr/lib/modules")).into_iter().map(|release| release.join("vmlinuz")));
        images.find(|file| file.is_file()).with_context(|| format!("{} has no vmlinuz", self.package))
    }
}

/// Returns package and version of what each suite installs as its kernel.
fn installed_by_suites(
    apt: &Apt,
    architecture: Architecture,
    suites: &[String],
) -> anyhow::Result<Vec<(String, String)>> {
    let name = format!("linux-image-{}", architecture.debian());
    let served = apt.served(&name)?;
    let mut found = Vec::new();
    for suite in suites {
        let Some(newest) = served.iter().find(|served| served.suite == *suite) else { continue };
        let dependencies = apt.dependencies(&name, &newest.version)?;
        let Some(image) = dependencies.iter().find(|name| name.starts_with("linux-image-")) else { continue };
        let version = apt.served(image)?.into_iter().find(|served| served.suite == *suite);
        if let Some(version) = version {
            found.push((with_image(apt, image, &version.version)?, version.version));
        }
    }
    Ok(found)
}

/// Returns package and version of the kernels of a series, the newest first.
fn newest_of_series(
    apt: &Apt,
    architecture: Architecture,
    series: &str,
) -> anyhow::Result<Vec<(String, String)>> {
    let debian = format!("-{}", architecture.debian());
    let mut names = apt.names(&format!("linux-image-{series}."))?;
    // Neither `-cloud`, nor `-rt`, nor `-unsigned`.
    names.retain(|name| name.strip_suffix(&debian).is_some_and(|name| name.matches('-').count() == 2));
    names.sort_by_key(|name| std::cmp::Reverse(numbers(name.trim_start_matches("linux-image-"))));
    let mut found = Vec::new();
    for name in names {
        if let Some(Served { version, .. }) = apt.served(&name)?.into_iter().next() {
            found.push((with_image(apt, &name, &version)?, version));
        }
    }
    Ok(found)
}

/// Returns the package that contains the image: from 6.19 on, `linux-image-…` depends on `linux-binary-…`.
fn with_image(apt: &Apt, package: &str, version: &str) -> anyhow::Result<String> {
    let binary = package.replacen("linux-image-", "linux-binary-", 1);
    let depends = apt.dependencies(package, version)?;
    Ok(if depends.contains(&binary) { binary } else { package.to_owned() })
}

/// Returns the leading numbers of a version: of `6.19.14+deb13-amd64` 6, 19, 14.
fn numbers(version: &str) -> Vec<u32> {
    let numeric = version.split(|c: char| !c.is_ascii_digit() && c != '.').next().unwrap_or_default();
    numeric.split('.').filter_map(|number| number.parse().ok()).collect()
}

/// Lists the entries of a folder; none if it is not there.
fn files(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert_eq!(numbers("6.19.14+deb13-amd64"), [6, 19, 14]);
        assert_eq!(numbers("7.3~rc7"), [7, 3]);
        assert!(numbers("5.10.262") < numbers("6.1.192") && numbers("6.9") < numbers("6.12.118"));
    }
}
