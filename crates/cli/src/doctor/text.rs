//! Formats findings as text.

use std::fmt::Write as _;

use host::procfs::Capability;
use host::survey::Survey;
use model::Name;

use super::{Facts, Finding, Level, Remedy, can_record};

/// Formats the report. With `detail`, it includes notes, and a line for each good finding.
pub fn report(facts: &Facts, findings: &[Finding], detail: bool) -> String {
    let mut text = format!("{}\n", machine(&facts.survey));
    let good: Vec<&Finding> = findings.iter().filter(|finding| finding.level == Level::Good).collect();
    if detail {
        for finding in good {
            line(&mut text, "ok", finding);
        }
    } else if !good.is_empty() {
        let names: Vec<&str> = good.iter().map(|finding| finding.what).collect();
        let _ = writeln!(text, "{:<8} {}", "ok", names.join(", "));
    }
    for (level, word) in [(Level::Broken, "broken"), (Level::Limited, "limited"), (Level::Note, "note")] {
        for finding in
            findings.iter().filter(|finding| finding.level == level && (detail || level != Level::Note))
        {
            line(&mut text, word, finding);
            for remedy in &finding.remedies {
                let _ = match remedy {
                    Remedy::Command(command) => writeln!(text, "{:<8}   try: {command}", ""),
                    Remedy::Advice(advice) => writeln!(text, "{:<8}   try: {advice}", ""),
                    Remedy::Capabilities(_) => Ok(()),
                };
            }
        }
    }
    let shown = |finding: &&Finding| detail || finding.level < Level::Note;
    let capabilities = capabilities(findings.iter().filter(shown));
    if !capabilities.is_empty() {
        let program = Name::from(facts.survey.program.as_os_str().as_encoded_bytes());
        let _ = writeln!(
            text,
            "To allow what is limited with the least privileges, for this program alone and without root:\n  \
             sudo setcap {}=ep {program}",
            capabilities.join(",")
        );
    }
    let notes = findings.iter().filter(|finding| finding.level == Level::Note).count();
    if !detail && notes > 0 {
        let _ =
            writeln!(text, "{notes} more {}; try: prof doctor -v", if notes == 1 { "note" } else { "notes" });
    }
    if !can_record(findings) {
        text.push_str("Nothing can be recorded with these settings.\n");
    }
    text
}

fn line(text: &mut String, word: &str, finding: &Finding) {
    let _ = writeln!(text, "{word:<8} {}: {}", finding.what, Name::from(finding.text.as_str()));
}

/// Describes the machine: `Linux 6.1.0, x86_64, 8 CPUs, virtual machine, user 1000`.
fn machine(survey: &Survey) -> String {
    let word = |text: &std::ffi::OsStr| Name::from(text.as_encoded_bytes()).to_string();
    let cpus = if survey.cpus == 1 { "1 CPU".to_owned() } else { format!("{} CPUs", survey.cpus) };
    let mut parts =
        vec![format!("Linux {}", word(&survey.system.release)), word(&survey.system.machine), cpus];
    parts.extend(survey.virtual_machine.then(|| "virtual machine".to_owned()));
    parts.extend(survey.container.as_ref().map(|kind| format!("container ({kind})")));
    parts.push(if survey.user == 0 { "root".to_owned() } else { format!("user {}", survey.user) });
    parts.join(", ")
}

/// Returns the capabilities that the findings need, each once, by their names in setcap(8).
fn capabilities<'a>(findings: impl Iterator<Item = &'a Finding>) -> Vec<&'static str> {
    let mut names = Vec::new();
    for remedy in findings.flat_map(|finding| &finding.remedies) {
        if let Remedy::Capabilities(capabilities) = remedy {
            for name in capabilities.iter().map(|capability| name(*capability)) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
    }
    names
}

/// Returns the name of a capability in setcap(8).
fn name(capability: Capability) -> &'static str {
    match capability {
        Capability::IpcLock => "cap_ipc_lock",
        Capability::SysPtrace => "cap_sys_ptrace",
        Capability::SysAdmin => "cap_sys_admin",
        Capability::Syslog => "cap_syslog",
        Capability::Perfmon => "cap_perfmon",
    }
}
