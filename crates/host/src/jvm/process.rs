//! Checks whether a process is a HotSpot virtual machine that handles SIGQUIT.

use std::ffi::CString;

use model::{Pid, Tid};

use super::error::AttachError;
use crate::process_memory;
use crate::procfs::{self, Status};

/// The number of SIGQUIT (signal(7)).
pub(super) const SIGQUIT: i32 = 3;

/// A process in which `libjvm.so` is mapped.
pub(super) struct JavaProcess {
    pub(super) pid: Pid,
    pub(super) user: u32,
    pub(super) group: u32,
    /// Its pid in its own namespace.
    own_number: Pid,
}

impl JavaProcess {
    /// Reads the mappings and the status of a process.
    pub(super) fn inspect(pid: Pid) -> Result<Self, AttachError> {
        let (maps, _) = process_memory::executable_maps(pid, false).map_err(AttachError::Unreadable)?;
        let is = |path: &[u8], start: &[u8]| {
            path.rsplit(|&byte| byte == b'/').next().is_some_and(|name| name.starts_with(start))
        };
        if !maps.iter().any(|map| is(&map.path, b"libjvm.so")) {
            return Err(AttachError::NotJava);
        }
        if maps.iter().any(|map| is(&map.path, b"libj9vm")) {
            return Err(AttachError::OpenJ9);
        }
        let status = status(pid)?;
        let (user, group) = (status.effective_user, status.effective_group);
        Ok(Self { pid, user, group, own_number: status.own_number })
    }

    /// Checks that the process would handle SIGQUIT now: it has a handler and is not stopped.
    pub(super) fn check_signal_handled(&self) -> Result<(), AttachError> {
        let status = status(self.pid)?;
        match status.state {
            b'T' | b't' => return Err(AttachError::Stopped),
            b'Z' | b'X' => return Err(AttachError::Unreadable(std::io::ErrorKind::NotFound.into())),
            _ => {}
        }
        if status.effective_user != self.user {
            return Err(AttachError::OtherUser);
        }
        if status.catches(SIGQUIT) { Ok(()) } else { Err(AttachError::NoHandler) }
    }

    /// Returns the name of its socket in its `/tmp`.
    pub(super) fn socket_name(&self) -> CString {
        self.name(".java_pid")
    }

    /// Returns the name of the attach file, which makes it listen.
    pub(super) fn attach_name(&self) -> CString {
        self.name(".attach_pid")
    }

    fn name(&self, start: &str) -> CString {
        CString::new(format!("{start}{}", self.own_number)).unwrap_or_default()
    }

    /// Returns true if the virtual machine accepts a file of this owner: HotSpot applies the same rule.
    pub(super) fn owns(&self, owner: u32) -> bool {
        owner == self.user || owner == 0
    }
}

fn status(pid: Pid) -> Result<Status, AttachError> {
    procfs::status(Tid(pid.0)).map_err(AttachError::Unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    #[test]
    fn a_process_that_only_calls_itself_java_is_none() {
        let mut child = Command::new("sleep").arg0("java").arg("60").spawn().unwrap();
        let pid = Pid(child.id().try_into().unwrap());
        assert!(matches!(JavaProcess::inspect(pid), Err(AttachError::NotJava)));
        let machine = JavaProcess {
            pid,
            user: procfs::status(Tid(pid.0)).unwrap().effective_user,
            group: 0,
            own_number: pid,
        };
        assert!(matches!(machine.check_signal_handled(), Err(AttachError::NoHandler)));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(machine.check_signal_handled().is_err());
    }
}
