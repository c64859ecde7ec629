//! A systemd unit for a recording that is always there, with the least rights that it needs.

use host::survey::Survey;

/// The first kernel with `CAP_PERFMON`.
const PERFMON_SINCE: (u32, u32) = (5, 8);

/// The text of a unit, for `/etc/systemd/system/prof.service`.
pub fn unit(survey: &Survey) -> String {
    let program = word(&survey.program.to_string_lossy());
    let capabilities = capabilities(survey);
    format!(
        "\
# The newest 30 seconds of every CPU, written when something asks for it. Made by prof doctor --unit; to install it:
#   prof doctor --unit | sudo tee /etc/systemd/system/prof.service
#   sudo systemctl daemon-reload && sudo systemctl enable --now prof
#   sudo systemctl reload prof      writes /var/lib/prof/prof.data.YYYYMMDDTHHMMSS

[Unit]
Description=Flight recorder of CPU profiles (prof)

[Service]
Type=exec
ExecStart={program} record -a --overwrite --window 30s --max-files 10 -o /var/lib/prof/prof.data
ExecReload=/bin/kill -USR2 $MAINPID
Restart=on-failure
RestartSec=10

# A user of its own. CAP_PERFMON: events on all CPUs. CAP_SYS_PTRACE: mappings of other users' processes, and what their
# programs are. CAP_SYSLOG: addresses in the kernel, where they are hidden. Stacks of programs in folders that only their owners
# may enter (as /root) are whole with CAP_DAC_READ_SEARCH in both lines, too: that may read every file.
DynamicUser=yes
StateDirectory=prof
StateDirectoryMode=0700
UMask=0077
AmbientCapabilities={capabilities}
CapabilityBoundingSet={capabilities}
NoNewPrivileges=yes

# What the recorder needs among busy programs, without a capability: rings, events, its turn.
LimitMEMLOCK=infinity
LimitNOFILE=1048576
LimitNICE=-20
LimitRTPRIO=1

# It writes into its folder only, reads programs wherever they are, and talks to nobody but through a socket of this machine.
ProtectSystem=strict
ProtectHome=read-only
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelModules=yes
RestrictAddressFamilies=AF_UNIX
RestrictNamespaces=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service perf_event_open process_vm_readv
SystemCallErrorNumber=EPERM

[Install]
WantedBy=multi-user.target
"
    )
}

fn capabilities(survey: &Survey) -> String {
    let release = survey.system.release.to_string_lossy();
    let mut numbers = release.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let events = if version >= PERFMON_SINCE { "CAP_PERFMON" } else { "CAP_SYS_ADMIN" };
    // With 0, whoever may record sees them; with 2, nobody does.
    let hidden = survey.settings.kptr_restrict.is_some_and(|level| level == 1);
    let names = if hidden { " CAP_SYSLOG" } else { "" };
    format!("{events} CAP_SYS_PTRACE{names}")
}

/// A word of `ExecStart=`, in which `%` and `$` have a meaning of their own (systemd.service(5)).
fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if text.chars().all(plain) {
        return text.to_owned();
    }
    let escaped = |c: char| match c {
        '%' => "%%".to_owned(),
        '$' => "$$".to_owned(),
        '"' | '\\' => format!("\\{c}"),
        c if c.is_control() => format!("\\x{:02x}", u32::from(c) & 0xff),
        c => c.to_string(),
    };
    format!("\"{}\"", text.chars().map(escaped).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::survey::survey;

    #[test]
    fn rights_follow_the_kernel() {
        let mut survey = survey();
        survey.system.release = "6.1.0-18-amd64".into();
        survey.settings.kptr_restrict = Some(0);
        let rights = |survey: &Survey| capabilities(survey);
        assert_eq!(rights(&survey), "CAP_PERFMON CAP_SYS_PTRACE");
        survey.settings.kptr_restrict = Some(1);
        assert_eq!(rights(&survey), "CAP_PERFMON CAP_SYS_PTRACE CAP_SYSLOG");
        survey.system.release = "5.4.0".into();
        assert_eq!(rights(&survey), "CAP_SYS_ADMIN CAP_SYS_PTRACE CAP_SYSLOG");
        survey.program = "/opt/my tools/prof%".into();
        let unit = unit(&survey);
        assert!(unit.contains("ExecStart=\"/opt/my tools/prof%%\" record -a --overwrite"), "{unit}");
        let is_line = |line: &str| line.is_empty() || line.starts_with(['#', '[']) || line.contains('=');
        assert!(unit.lines().all(is_line), "{unit}");
    }
}
