//! A private state of apt: the host's sources with other suites and one architecture, without root rights.
//!
//! Nothing of the host is changed: lists, caches and the (empty) list of installed packages lie in the laboratory's folder. Packages
//! are named, never addresses: these are those of the host's own sources.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};

use super::architecture::Architecture;
use super::catalogue::Catalogue;
use crate::workspace;

/// How old the lists may become: Debian's archive changes four times a day, its suites' kernels every few weeks.
const LISTS_AGE: Duration = Duration::from_secs(24 * 3600);
/// The keys of Debian's archive, of Debian's package of that name. Without the file, apt's own trusted keys count.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// apt for one architecture.
pub(super) struct Apt {
    architecture: Architecture,
    /// Settings and lists.
    state: PathBuf,
    /// Unpacked packages, one folder each.
    packages: PathBuf,
}

/// A version of a package, and the suite that serves it.
pub(super) struct Served {
    pub(super) version: String,
    pub(super) suite: String,
}

impl Apt {
    /// Writes the settings, and updates the lists if they are older than a day.
    ///
    /// # Errors
    /// The host has no apt or no sources of Debian, or no list could be fetched and none is here from earlier.
    pub(super) fn open(
        cache: &Path,
        architecture: Architecture,
        catalogue: &Catalogue,
    ) -> anyhow::Result<Self> {
        let state = cache.join("apt").join(architecture.debian());
        let packages = cache.join("packages").join(architecture.debian());
        for folder in [state.join("lists/partial"), state.join("archives/partial"), packages.clone()] {
            std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        }
        let apt = Self { architecture, state, packages };
        let sources = sources(catalogue)?;
        let list = apt.state.join("sources.list");
        let is_new = std::fs::read_to_string(&list).ok().as_ref() != Some(&sources);
        std::fs::write(&list, sources).with_context(|| list.display().to_string())?;
        std::fs::write(apt.state.join("status"), "").context("status")?;
        std::fs::write(apt.settings(), apt.settings_text()).context("apt.conf")?;
        apt.update(is_new)?;
        Ok(apt)
    }

    fn settings(&self) -> PathBuf {
        self.state.join("apt.conf")
    }

    /// Returns settings that override all that the host has. Its proxies remain; its commands after an update do not.
    fn settings_text(&self) -> String {
        let state = self.state.display();
        let architecture = self.architecture.debian();
        format!(
            "#clear APT::Update::Post-Invoke;\n#clear APT::Update::Post-Invoke-Success;\n#clear DPkg::Post-Invoke;\n\
             APT::Architecture \"{architecture}\";\n#clear APT::Architectures;\nAPT::Architectures {{ \"{architecture}\"; }};\n\
             APT::Sandbox::User \"root\";\nAPT::Install-Recommends \"false\";\n#clear APT::Default-Release;\n\
             Dir::State \"{state}\";\nDir::State::lists \"lists\";\nDir::State::status \"{state}/status\";\n\
             Dir::Cache \"{state}\";\nDir::Cache::archives \"archives\";\n\
             Dir::Cache::pkgcache \"pkgcache.bin\";\nDir::Cache::srcpkgcache \"srcpkgcache.bin\";\n\
             Dir::Etc::sourcelist \"{state}/sources.list\";\nDir::Etc::sourceparts \"/dev/null\";\n\
             Dir::Etc::preferences \"/dev/null\";\nDir::Etc::preferencesparts \"/dev/null\";\n\
             Debug::NoLocking \"true\";\nAcquire::Languages \"none\";\n\
             Acquire::IndexTargets::deb::DEP-11::DefaultEnabled \"false\";\n"
        )
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.arg("-c").arg(self.settings()).arg("-qq").env("LC_ALL", "C.UTF-8");
        command
    }

    /// Fetches the lists. One that is not to be had is left out: its kernels are missing then.
    fn update(&self, is_new: bool) -> anyhow::Result<()> {
        let stamp = self.state.join("updated");
        let age = || std::fs::metadata(&stamp).ok()?.modified().ok()?.elapsed().ok();
        if !is_new && age().is_some_and(|age| age < LISTS_AGE) {
            return Ok(());
        }
        let updated = self.command("apt-get").arg("update").output().context("apt-get")?;
        let lists = std::fs::read_dir(self.state.join("lists"))?.flatten();
        if !lists.into_iter().any(|entry| entry.file_name().to_string_lossy().contains("_Packages")) {
            bail!("apt-get update: {}", String::from_utf8_lossy(&updated.stderr).trim());
        }
        std::fs::write(&stamp, "").context("updated")
    }

    /// Lists the served versions of a package, the newest first.
    pub(super) fn served(&self, package: &str) -> anyhow::Result<Vec<Served>> {
        let listed = workspace::output(self.command("apt-cache").args(["madison", package]))?;
        Ok(listed.lines().filter_map(served).collect())
    }

    /// Lists the names of packages that begin with a prefix.
    pub(super) fn names(&self, prefix: &str) -> anyhow::Result<Vec<String>> {
        let listed = workspace::output(self.command("apt-cache").args(["pkgnames", prefix]))?;
        Ok(listed.lines().map(str::to_owned).collect())
    }

    /// Lists the packages that a version of a package depends on, the first of alternatives.
    pub(super) fn dependencies(&self, package: &str, version: &str) -> anyhow::Result<Vec<String>> {
        let exact = format!("{package}={version}");
        let shown = workspace::output(self.command("apt-cache").args(["show", &exact]))?;
        let depends = shown.lines().find_map(|line| line.strip_prefix("Depends: ")).unwrap_or_default();
        Ok(depends.split(',').filter_map(|each| each.split_whitespace().next()).map(str::to_owned).collect())
    }

    /// Returns the folder with those files of a package that match one of `patterns` (of tar: `./boot/*`); fetches the package unless
    /// it was unpacked earlier.
    pub(super) fn unpack(&self, package: &str, version: &str, patterns: &[&str]) -> anyhow::Result<PathBuf> {
        let folder = self.packages.join(format!("{package}_{}", version.replace(':', "_")));
        if folder.is_dir() {
            return Ok(folder);
        }
        let fetched = tempfile::tempdir_in(&self.packages)?;
        let exact = format!("{package}={version}");
        workspace::output(self.command("apt-get").args(["download", &exact]).current_dir(fetched.path()))?;
        let files = fetched.path().join("files");
        std::fs::create_dir(&files)?;
        for archive in archives(fetched.path())? {
            unpack_matching(&archive, &files, patterns)?;
        }
        std::fs::rename(&files, &folder).with_context(|| folder.display().to_string())?;
        Ok(folder)
    }

    /// Returns the folder `name` with packages of a suite and all that they depend on, without the packages in `but`.
    pub(super) fn unpack_all(
        &self,
        name: &str,
        suite: &str,
        wanted: &[&str],
        but: &[&str],
    ) -> anyhow::Result<PathBuf> {
        let folder = self.packages.join(format!("{name}-{suite}"));
        if folder.is_dir() {
            return Ok(folder);
        }
        let fetched = tempfile::tempdir_in(&self.packages)?;
        std::fs::create_dir(fetched.path().join("partial"))?;
        let mut install = self.command("apt-get");
        install.args(["install", "--yes", "--download-only", "--target-release", suite]);
        install.arg("-o").arg(format!("Dir::Cache::archives={}", fetched.path().display()));
        workspace::output(install.args(wanted))?;
        let files = fetched.path().join("files");
        std::fs::create_dir(&files)?;
        for archive in archives(fetched.path())? {
            let package = archive.file_name().and_then(|name| name.to_str()?.split('_').next());
            if package.is_none_or(|package| !but.contains(&package)) {
                workspace::output(Command::new("dpkg-deb").arg("-x").arg(&archive).arg(&files))?;
            }
        }
        std::fs::rename(&files, &folder).with_context(|| folder.display().to_string())?;
        Ok(folder)
    }
}

/// Returns lines of sources.list: the host's two archives of Debian, with the suites of the catalogue.
fn sources(catalogue: &Catalogue) -> anyhow::Result<String> {
    let format = "$(REPO_URI) $(RELEASE)";
    let mut targets = Command::new("apt-get");
    targets.args(["indextargets", "--no-release-info", "--format", format, "Created-By: Packages"]);
    let targets = workspace::output(&mut targets).context("the host has no apt")?;
    let lines = archives_with_suites(&targets, catalogue, Path::new(KEYRING).is_file());
    if lines.is_empty() {
        bail!("the host's sources of apt have no suite of Debian");
    }
    Ok(lines)
}

/// Returns the lines for what `apt-get indextargets` printed: an address and a release per line.
fn archives_with_suites(targets: &str, catalogue: &Catalogue, has_keyring: bool) -> String {
    let options = if has_keyring { format!("[signed-by={KEYRING}] ") } else { String::new() };
    let mut lines = String::new();
    for suites in [&catalogue.archive, &catalogue.security] {
        let mut pairs = targets.lines().filter_map(|line| line.split_once(' '));
        let Some((address, _)) = pairs.find(|(_, release)| suites.iter().any(|suite| suite == release))
        else {
            continue;
        };
        for suite in suites {
            lines.push_str(&format!("deb {options}{address} {suite} main\n"));
        }
    }
    lines
}

/// Reads a line of `apt-cache madison`: `package | version | ADDRESS SUITE/main ARCHITECTURE Packages`.
fn served(line: &str) -> Option<Served> {
    let mut columns = line.split('|').map(str::trim);
    let (version, origin) = (columns.nth(1)?, columns.next()?);
    let (suite, _component) = origin.split_whitespace().nth(1)?.split_once('/')?;
    Some(Served { version: version.to_owned(), suite: suite.to_owned() })
}

/// Lists the packages in a folder.
fn archives(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let paths = entries.flatten().map(|entry| entry.path());
    Ok(paths.filter(|path| path.extension().is_some_and(|extension| extension == "deb")).collect())
}

/// Unpacks the files of a package that match one of `patterns`.
fn unpack_matching(archive: &Path, folder: &Path, patterns: &[&str]) -> anyhow::Result<()> {
    let script = "dpkg-deb --fsys-tarfile \"$1\" | { tar -x -C \"$2\" --wildcards -f - \"${@:3}\" || cat >/dev/null; }";
    let mut shell = Command::new("bash");
    shell.args(["-o", "pipefail", "-c", script, "bash"]).arg(archive).arg(folder).args(patterns);
    workspace::output(&mut shell).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalogue() -> Catalogue {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Catalogue {
            stable: "trixie".to_owned(),
            archive: names(&["bookworm", "sid"]),
            security: names(&["bookworm-security"]),
            kernels: Vec::new(),
            known: Vec::new(),
        }
    }

    #[test]
    fn sources_are_the_hosts_with_the_suites_of_the_catalogue() {
        let targets =
            "x:tools stable\nx:main bookworm\nx:main bookworm-updates\nx:updates bookworm-security\n";
        assert_eq!(
            archives_with_suites(targets, &catalogue(), false),
            "deb x:main bookworm main\ndeb x:main sid main\ndeb x:updates bookworm-security main\n"
        );
        assert_eq!(archives_with_suites("x:main noble\n", &catalogue(), true), "");
    }

    #[test]
    fn a_served_version_is_read_from_what_apt_prints() {
        let line = "linux-image-amd64 | 6.12.95-1~bpo12+1 | x:main bookworm-backports/main amd64 Packages";
        let served = served(line).unwrap();
        assert_eq!(
            (served.version.as_str(), served.suite.as_str()),
            ("6.12.95-1~bpo12+1", "bookworm-backports")
        );
    }
}
