//! The names of frames, with the suffixes by which inferno and `flamegraph.pl` colour them.

use profile::{FrameKind, Label, ViewFrame};

use super::printable;

/// Returns the name of a frame. It is not yet safe for a folded line (see [`crate::safe_label`]).
///
/// The suffix `_[k]` marks kernel frames, `_[i]` inlined ones (of the kernel as well), `_[j]` generated code. A frame
/// without a name is `[module]` or `[unknown]`, with its offset if the view has it. A function with its module is
/// ``module`function``, as DTrace writes it.
pub fn frame_name(frame: &ViewFrame) -> String {
    let offset = |offset: &Option<u64>| offset.map_or(String::new(), |offset| format!("+{offset:#x}"));
    let mut name = match &frame.label {
        Label::Comm(comm) => comm.to_string(),
        Label::Cpu(cpu) => format!("CPU {}", cpu.0),
        Label::Container(name) | Label::Cgroup(name) => name.to_string(),
        Label::Process(comm, pid) => format!("{comm}-{pid}"),
        Label::Thread(comm, pid, tid) => format!("{comm}-{pid}/{tid}"),
        Label::Function(function, None) => function.to_string(),
        Label::Function(function, Some(module)) => format!("{module}`{function}"),
        Label::Module(module, at) => format!("[{module}{}]", offset(at)),
        Label::Unknown(at) => format!("[unknown{}]", offset(at)),
        Label::Truncated(reason) => format!("[truncated: {reason}]"),
        Label::State(state) => format!("[{state}]"),
        Label::NotSampled => "[not sampled]".to_owned(),
    };
    name.push_str(match frame.kind {
        FrameKind::User => "",
        FrameKind::Kernel => "_[k]",
        FrameKind::Inlined => "_[i]",
        FrameKind::Jit => "_[j]",
    });
    name
}

/// Returns the name of a frame without its module, safe for a terminal.
pub(crate) fn plain_name(label: Option<&Label>) -> String {
    match label {
        Some(Label::Comm(comm) | Label::Thread(comm, ..) | Label::Process(comm, _)) => comm.to_string(),
        Some(Label::Cpu(cpu)) => format!("CPU {}", cpu.0),
        Some(Label::Container(name) | Label::Cgroup(name)) => name.to_string(),
        Some(Label::Function(name, _)) => printable(name).into_owned(),
        Some(Label::Module(module, None)) => format!("[{module}]"),
        Some(Label::Module(module, Some(offset))) => format!("[{module}+{offset:#x}]"),
        Some(Label::Truncated(reason)) => format!("[truncated: {reason}]"),
        Some(Label::State(state)) => format!("[{state}]"),
        Some(Label::NotSampled) => "[not sampled]".to_owned(),
        Some(Label::Unknown(_)) | None => "[unknown]".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Name, Pid, Tid, TruncationReason};

    #[test]
    fn every_kind_of_frame_has_its_form() {
        let name = |label, kind| frame_name(&ViewFrame { label, kind, line: None });
        let (user, app) = (FrameKind::User, Name::from("app"));
        assert_eq!(name(Label::Comm(app.clone()), user), "app");
        assert_eq!(name(Label::Process(app.clone(), Pid(1)), user), "app-1");
        assert_eq!(name(Label::Thread(app.clone(), Pid(1), Tid(2)), user), "app-1/2");
        assert_eq!(name(Label::Function("f".into(), None), FrameKind::Inlined), "f_[i]");
        assert_eq!(name(Label::Function("f".into(), Some(app.clone())), FrameKind::Kernel), "app`f_[k]");
        assert_eq!(name(Label::Module(app.clone(), None), FrameKind::Jit), "[app]_[j]");
        assert_eq!(name(Label::Module(app, Some(0x1234)), user), "[app+0x1234]");
        assert_eq!(name(Label::Unknown(None), user), "[unknown]");
        assert_eq!(
            name(Label::Truncated(TruncationReason::CopyTooSmall), user),
            "[truncated: stack copy too small]"
        );
    }
}
