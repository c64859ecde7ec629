//! Containers by the paths of their cgroups, as the programs that make containers name these.

use alloc::format;
use alloc::string::String;

use model::Name;

/// The number of digits that are shown of a container id: as many as `docker ps` and `podman ps` print.
const ID_DIGITS: usize = 12;
/// The number of digits that are shown of a pod's uid.
const POD_DIGITS: usize = 8;

/// The text before a container's id in the name of its cgroup, and who puts it there. systemd's scopes have it; what is of
/// the container's monitor (`libpod-conmon-…`) has no id right behind it.
const PREFIXES: [(&str, &str); 6] = [
    ("docker-", "docker"),
    ("libpod-", "podman"),
    ("cri-containerd-", "containerd"),
    ("nerdctl-", "containerd"),
    ("crio-", "cri-o"),
    ("buildkit-", "buildkit"),
];

/// Returns the container that a cgroup is of, shortened: `docker:0123456789ab`, `podman:…`, `k8s:POD/…`, `lxc:NAME`,
/// `nspawn:NAME`. `None` for a group of the host itself. Of containers in containers it is the innermost.
pub fn container_of(path: &[u8]) -> Option<Name> {
    let path = core::str::from_utf8(path).ok()?;
    let parts = path.split('/').filter(|part| !part.is_empty());
    let (mut found, mut pod) = (None, None);
    let mut parent = "";
    for part in parts {
        pod = pod_of(part).or(pod);
        found = container(parent, part, pod).or(found);
        parent = part;
    }
    found.map(|name| Name::from(name.as_str()))
}

fn container(parent: &str, part: &str, pod: Option<&str>) -> Option<String> {
    let unit = part.strip_suffix(".scope").or_else(|| part.strip_suffix(".service"));
    let name = unit.unwrap_or(part);
    let of_prefix = PREFIXES.iter().find_map(|(prefix, kind)| Some((*kind, name.strip_prefix(prefix)?)));
    let (kind, id) = of_prefix.unwrap_or((kind_of_folder(parent), name));
    if let Some(id) = short_id(id) {
        return Some(match pod {
            Some(pod) => format!("k8s:{pod}/{id}"),
            None => format!("{kind}:{id}"),
        });
    }
    let payload = name.strip_prefix("lxc.payload.").or_else(|| Some(name).filter(|_| parent == "lxc"));
    if let Some(name) = payload {
        return Some(format!("lxc:{name}"));
    }
    let nspawn = name.strip_prefix("systemd-nspawn@").map(|name| format!("nspawn:{}", unescaped(name)));
    let machine = || name.strip_prefix("machine-").map(|name| format!("machine:{}", unescaped(name)));
    unit.and_then(|_| nspawn.or_else(machine))
}

/// The runtime that has containers below a folder of this name, where their names say nothing but the id.
fn kind_of_folder(parent: &str) -> &'static str {
    match parent {
        "docker" => "docker",
        "libpod_parent" => "podman",
        _ => "container",
    }
}

/// The beginning of an id.
fn short_id(id: &str) -> Option<&str> {
    id.get(..ID_DIGITS).filter(|_| is_id(id))
}

/// Returns true if a text is the id of a container: 64 hexadecimal digits.
fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The facts that the path of a cgroup tells of the processes in it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct CgroupFacts {
    /// The whole id of the container.
    pub container_id: Option<String>,
    /// The name of the container, where it has one: those of LXC and systemd do.
    pub container_name: Option<String>,
    /// The whole uid of the pod of Kubernetes.
    pub pod_uid: Option<String>,
    /// The service of systemd, without `.service`. That of a user's session manager is none, but those below it are.
    pub unit: Option<String>,
}

/// Returns what the path of a cgroup says of the processes in it. Of containers in containers it is the innermost.
pub fn cgroup_facts(path: &[u8]) -> CgroupFacts {
    let mut facts = CgroupFacts::default();
    let Ok(path) = core::str::from_utf8(path) else { return facts };
    let mut parent = "";
    for part in path.split('/').filter(|part| !part.is_empty()) {
        let name = part.strip_suffix(".scope").or_else(|| part.strip_suffix(".service")).unwrap_or(part);
        let id = PREFIXES.iter().find_map(|(prefix, _)| name.strip_prefix(prefix)).unwrap_or(name);
        if is_id(id) {
            facts.container_id = Some(id.into());
        }
        if let Some((kind, name)) =
            container(parent, part, None).as_deref().and_then(|name| name.split_once(':'))
            && matches!(kind, "lxc" | "nspawn" | "machine")
        {
            facts.container_name = Some(name.into());
        }
        if pod_of(part).is_some() {
            let uid = part.strip_suffix(".slice").unwrap_or(part).rsplit_once("pod").map(|(_, uid)| uid);
            facts.pod_uid = uid.map(|uid| uid.replace('_', "-"));
        }
        let unit = part.strip_suffix(".service").filter(|unit| !unit.starts_with("user@"));
        // The instances of a template are one service.
        let unit = unit.map(|unit| unit.split_once('@').map_or(unit, |(template, _)| template));
        facts.unit = unit.filter(|unit| !unit.is_empty()).map(unescaped).or(facts.unit);
        parent = part;
    }
    facts
}

/// The beginning of a pod's uid: `pod<uid>`, `kubepods-besteffort-pod<uid, with underscores>.slice`.
fn pod_of(part: &str) -> Option<&str> {
    let name = part.strip_suffix(".slice").unwrap_or(part);
    let (before, uid) = name.rsplit_once("pod")?;
    let is_uid = (32..=36).contains(&uid.len())
        && uid.bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'-' | b'_'));
    let is_pod = before.is_empty() || before.ends_with('-');
    uid.get(..POD_DIGITS).filter(|_| is_uid && is_pod)
}

/// A name as it was before systemd made a unit of it: `\x2d` is a hyphen.
fn unescaped(name: &str) -> String {
    let mut rest = name;
    let mut text = String::new();
    while let Some(at) = rest.find("\\x") {
        let code = rest.get(at + 2..at + 4).and_then(|code| u8::from_str_radix(code, 16).ok());
        let Some(code) = code.filter(u8::is_ascii_graphic) else { break };
        let (Some(before), Some(after)) = (rest.get(..at), rest.get(at + 4..)) else { break };
        text.push_str(before);
        text.push(char::from(code));
        rest = after;
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn paths_tell_services_containers_and_pods() {
        let id = "0123456789abcdef".repeat(4);
        let of = |path: &str| cgroup_facts(path.as_bytes());
        let text = |text: &str| Some(text.to_string());
        assert_eq!(of("/system.slice/nginx.service").unit, text("nginx"));
        assert_eq!(of("/system.slice/system-getty.slice/getty@tty1.service").unit, text("getty"));
        let user = "/user.slice/user-1000.slice/user@1000.service";
        assert_eq!(of(user), CgroupFacts::default());
        assert_eq!(of(&format!("{user}/app.slice/shop.service")).unit, text("shop"));
        assert_eq!(of("/user.slice/user-1000.slice/session-2.scope"), CgroupFacts::default());
        let docker = of(&format!("/system.slice/docker-{id}.scope"));
        assert_eq!((docker.container_id, docker.unit), (Some(id.clone()), None));
        assert_eq!(of("/lxc.payload.web/init.scope").container_name, text("web"));
        let pod = "1b2c3d4e-0000-1111-2222-333344445555";
        let slice = format!("kubepods-burstable-pod{}.slice", pod.replace('-', "_"));
        let in_pod = of(&format!("/kubepods.slice/{slice}/cri-containerd-{id}.scope"));
        assert_eq!((in_pod.pod_uid.as_deref(), in_pod.container_id), (Some(pod), Some(id)));
        assert_eq!(cgroup_facts(b"/\xff"), CgroupFacts::default());
    }

    #[test]
    fn groups_are_called_as_their_makers_call_containers() {
        let id = "0123456789abcdef".repeat(4);
        let pod = "1b2c3d4e-0000-1111-2222-333344445555";
        let of = |path: &str| container_of(path.as_bytes()).map(|name| name.to_string());
        let named = |path: String, name: &str| assert_eq!(of(&path).as_deref(), Some(name), "{path}");
        named(format!("/system.slice/docker-{id}.scope"), "docker:0123456789ab");
        named(format!("/docker/{id}"), "docker:0123456789ab");
        named(format!("/docker/{}/docker/{id}/init.scope", "f".repeat(64)), "docker:0123456789ab");
        named(format!("/machine.slice/libpod-{id}.scope/container"), "podman:0123456789ab");
        named(
            format!("/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{id}.scope"),
            "podman:0123456789ab",
        );
        let slice = format!("kubepods-burstable-pod{}.slice", pod.replace('-', "_"));
        named(
            format!("/kubepods.slice/kubepods-burstable.slice/{slice}/cri-containerd-{id}.scope"),
            "k8s:1b2c3d4e/0123456789ab",
        );
        named(format!("/kubepods/besteffort/pod{pod}/{id}"), "k8s:1b2c3d4e/0123456789ab");
        named(format!("/system.slice/nerdctl-{id}.scope"), "containerd:0123456789ab");
        named(format!("/default/{id}"), "container:0123456789ab");
        named("/lxc.payload.web/init.scope".to_string(), "lxc:web");
        named("/machine.slice/systemd-nspawn@my\\x2dbox.service/payload".to_string(), "nspawn:my-box");
        named("/machine.slice/machine-box.scope".to_string(), "machine:box");
        for host in [
            "/",
            "/user.slice/user-0.slice/session-1.scope",
            "/system.slice/docker.service",
            &format!("/machine.slice/libpod-conmon-{id}.scope"),
            &format!("/kubepods/besteffort/pod{pod}"),
            "/system.slice/docker-0123.scope",
            "/machine-x",
        ] {
            assert_eq!(of(host), None, "{host}");
        }
        assert_eq!(container_of(b"/docker/\xff"), None);
        assert_eq!(of("/machine.slice/machine-a\\x.scope").unwrap(), "machine:a\\x");
    }
}
