//! The modules that are the user's own code rather than the system's, judged by their folders.

use std::collections::HashSet;

use model::{Space, SpaceTable};
use profile::module_of;

/// Folders of what a distribution installs.
const SYSTEM_FOLDERS: [&[u8]; 8] =
    [b"/usr/", b"/lib/", b"/lib64/", b"/bin/", b"/sbin/", b"/nix/store/", b"/gnu/store/", b"/snap/"];

/// Folders of packages, wherever they are: of pip, of Python's own modules, of npm, cargo and rustup.
const PACKAGE_FOLDERS: [&[u8]; 6] =
    [b"/site-packages/", b"/dist-packages/", b"/lib-dynload/", b"/node_modules/", b"/.cargo/", b"/.rustup/"];

/// The modules of a recording that are the user's own code.
#[derive(Debug)]
pub struct UserModules(HashSet<String>);

impl UserModules {
    /// Finds them among the spaces of a recording: generated code, and objects outside of the folders of the system and of packages.
    /// Where all lie in these (`/usr/bin/python3` or `/usr/lib/gcc/…/cc1plus` was profiled), their programs.
    pub fn new(spaces: &SpaceTable) -> Self {
        let own = modules(spaces, is_of_user);
        if own.is_empty() {
            return Self(modules(spaces, |path| !is_library(path)));
        }
        Self(own)
    }

    /// Finds the modules as [`Self::new`] does, and the programs of all processes: none is left without code of its own.
    pub fn with_programs(spaces: &SpaceTable) -> Self {
        Self(modules(spaces, |path| is_of_user(path) || !is_library(path)))
    }

    /// Returns true if a module ([`module_of`]) is one of them.
    pub fn contains(&self, module: &str) -> bool {
        self.0.contains(module)
    }
}

/// Returns true for paths outside of the folders of the system and of packages.
fn is_of_user(path: &[u8]) -> bool {
    let is_in = |folder: &&[u8]| path.windows(folder.len()).any(|part| part == *folder);
    !SYSTEM_FOLDERS.iter().any(|folder| path.starts_with(folder)) && !PACKAGE_FOLDERS.iter().any(is_in)
}

/// Returns true for the name of a shared library: `libc.so.6`, `_json.cpython-312-x86_64-linux-gnu.so`.
pub(crate) fn is_library(path: &[u8]) -> bool {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    name.ends_with(b".so") || name.windows(4).any(|part| part == b".so.")
}

fn modules(spaces: &SpaceTable, is_own: impl Fn(&[u8]) -> bool) -> HashSet<String> {
    let own = spaces.iter().filter(|(_, space)| match space {
        Space::Object(object) => object.path.as_bytes().starts_with(b"/") && is_own(object.path.as_bytes()),
        Space::Jit { .. } => true,
        _ => false,
    });
    own.filter_map(|(_, space)| module_of(space)).map(|name| name.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use model::{Name, ObjectIdentity};

    use super::*;

    fn spaces(paths: &[&str]) -> SpaceTable {
        let mut spaces = SpaceTable::default();
        for path in paths {
            let identity = ObjectIdentity { path: Name::from(*path), build_id: None, file: None };
            spaces.intern(Space::Object(identity));
        }
        spaces
    }

    #[test]
    fn libraries_of_the_system_are_not_own() {
        let own =
            UserModules::new(&spaces(&["/home/me/app", "/usr/lib/libc.so.6", "/usr/bin/env", "//anon"]));
        let found = ["app", "libc.so.6", "env"].map(|module| own.contains(module));
        assert_eq!(found, [true, false, false]);
    }

    #[test]
    fn packages_are_not_own_and_programs_are_where_each_process_shall_have_code() {
        let paths = [
            "/home/me/v/lib/python3.13/site-packages/np/core.so",
            "/home/me/v/lib/python3.13/lib-dynload/_socket.so",
            "/home/me/.cargo/bin/rg",
            "/srv/own.so",
            "/usr/bin/sh",
        ];
        let own = |own: UserModules| {
            ["core.so", "_socket.so", "rg", "own.so", "sh"].map(|module| own.contains(module))
        };
        assert_eq!(own(UserModules::new(&spaces(&paths))), [false, false, false, true, false]);
        assert_eq!(own(UserModules::with_programs(&spaces(&paths))), [false, false, true, true, true]);
    }

    #[test]
    fn a_program_of_the_system_is_own_where_nothing_else_is() {
        let own = UserModules::new(&spaces(&["/usr/bin/python3.11", "/usr/lib/libc.so.6"]));
        assert!(own.contains("python3.11") && !own.contains("libc.so.6"));
        let compiler = "/usr/lib/gcc/x86_64-linux-gnu/12/cc1plus";
        let own = UserModules::new(&spaces(&["/usr/bin/g++", compiler, "/usr/lib/liblto_plugin.so"]));
        assert!(own.contains("g++") && own.contains("cc1plus") && !own.contains("liblto_plugin.so"));
    }
}
