//! Whom `record`, `stat` and `top` observe.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use model::{CpuId, Pid, Tid};
use recorder::{Options, Target};

use super::numbers::process_number;

/// The processes, threads, CPUs or cgroup to observe.
#[derive(Args)]
pub struct TargetArguments {
    /// Attach to these processes, and the children that they start
    #[arg(short, long, value_name = "PID", value_delimiter = ',', conflicts_with = "all_cpus",
          allow_negative_numbers = true, value_parser = process_number, help_heading = "Target")]
    pid: Vec<i32>,
    /// With -p: also attach to the existing descendants of these processes
    #[arg(
        hide_short_help = true,
        long,
        requires = "pid",
        conflicts_with = "no_inherit",
        help_heading = "Target"
    )]
    with_children: bool,
    /// Attach to these threads only
    #[arg(short, long, value_name = "TID", value_delimiter = ',', conflicts_with_all = ["pid", "all_cpus"],
          allow_negative_numbers = true, value_parser = process_number, help_heading = "Target")]
    tid: Vec<i32>,
    /// Attach to all processes of this user
    #[arg(short, long, value_name = "USER", hide_short_help = true, conflicts_with_all = ["pid", "tid", "all_cpus"], help_heading = "Target")]
    uid: Option<String>,
    /// Observe all CPUs (system-wide)
    #[arg(short, long, help_heading = "Target")]
    all_cpus: bool,
    /// Only on these CPUs (0-3,5)
    ///
    /// Without another target, everything on them.
    #[arg(short = 'C', long, value_name = "LIST", value_parser = cpu_list, help_heading = "Target")]
    cpu: Option<CpuList>,
    /// Only this cgroup (with -a)
    #[arg(
        short = 'G',
        long,
        value_name = "PATH",
        requires = "all_cpus",
        hide_short_help = true,
        help_heading = "Target"
    )]
    cgroup: Option<PathBuf>,
    /// Do not follow new threads and processes
    #[arg(short = 'i', long, hide_short_help = true, help_heading = "Target")]
    no_inherit: bool,
    /// What to follow: new processes and threads, or only new threads of the target [default: process]
    #[arg(long, value_name = "WHAT", value_parser = ["process", "thread"], conflicts_with = "no_inherit",
          hide_short_help = true, help_heading = "Target")]
    inherit: Option<String>,
}

impl TargetArguments {
    /// Returns the target; `None` if no option names one. Next to a command, `-C` alone limits the CPUs on which the command is
    /// sampled.
    ///
    /// # Errors
    /// `--uid` names an unknown user.
    pub fn target(&self, has_command: bool) -> anyhow::Result<Option<Target>> {
        Ok(Some(if !self.pid.is_empty() {
            Target::Processes(self.pid.iter().copied().map(Pid).collect())
        } else if !self.tid.is_empty() {
            Target::Threads(self.tid.iter().copied().map(Tid).collect())
        } else if let Some(user) = &self.uid {
            Target::User(user_number(user)?)
        } else if let Some(path) = &self.cgroup {
            Target::Cgroup(path.clone())
        } else if self.all_cpus || (self.cpu.is_some() && !has_command) {
            Target::System
        } else {
            return Ok(None);
        }))
    }

    /// Sets the CPUs, and which children of the target are followed.
    pub fn apply_limits(&self, options: &mut Options) {
        options.cpus = self.cpu.as_ref().map(|list| list.0.clone());
        options.inherit = !self.no_inherit;
        options.with_children = self.with_children;
        options.threads_only = self.inherit.as_deref() == Some("thread");
    }
}

/// Returns the number of a user that is given by number or name.
fn user_number(user: &str) -> anyhow::Result<u32> {
    if let Ok(number) = user.parse() {
        return Ok(number);
    }
    // Only the file is read: users of LDAP and the like can be given by number.
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let line = users.lines().find_map(|line| line.strip_prefix(user)?.strip_prefix(':'));
    let number = line.and_then(|line| line.split(':').nth(1)?.parse().ok());
    number.with_context(|| {
        format!("there is no user {user:?} in /etc/passwd; try the number that `id -u {user}` prints")
    })
}

/// A list of CPUs in the kernel's form: `0-3,5`.
#[derive(Clone, Debug)]
struct CpuList(Vec<CpuId>);

fn cpu_list(text: &str) -> Result<CpuList, String> {
    let cpus = host::cpus::parse(text).filter(|cpus| !cpus.is_empty());
    cpus.map(CpuList).ok_or_else(|| "a list of CPUs such as 0-3,5".to_owned())
}
