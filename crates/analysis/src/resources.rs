//! What processes are parts of, as their profiles state it: attributes of OpenTelemetry's conventions, from what the recorder noted.

use std::collections::HashMap;

use decoder::Endian;
use export::exchange::{Resource, ResourceValue, published_attributes};
use model::{Name, Pid};
use perfdata::features::Features;
use perfdata::sections;
use perfdata::sections::resources::{ProcessResource, ResourceChange, from_section};
use rustc_hash::FxBuildHasher;
use tracker::cgroup_facts;

/// Maximum number of attributes that are kept of those that a process states: engines make labels of them, and Pyroscope refuses profiles with
/// more than 30, of which we state up to ten.
const MAX_STATED: usize = 16;
/// Maximum length of their keys and values, in bytes: Pyroscope refuses longer keys than 1,024 and longer values than 2,048.
const MAX_STATED_BYTES: usize = 1024;
/// The service of the kernel's own threads.
const KERNEL: &str = "kernel";

/// The programs, cgroups and services of a recording's processes.
#[derive(Default, Debug)]
pub(crate) struct Resources {
    by_pid: HashMap<Pid, Vec<ProcessResource>, FxBuildHasher>,
    host: Option<String>,
}

impl Resources {
    /// Reads what the recorder noted.
    pub(crate) fn from_recording(features: &Features, endian: Endian) -> Self {
        let mut by_pid: HashMap<Pid, Vec<ProcessResource>, FxBuildHasher> = HashMap::default();
        let section = features.section(sections::id::RESOURCES);
        let changes = section.map_or_else(Vec::new, |section| from_section(section, endian));
        for ResourceChange { pid, resource, .. } in changes {
            by_pid.entry(pid).or_default().push(resource);
        }
        Self { by_pid, host: features.hostname.as_ref().map(Name::to_string) }
    }

    /// Returns the resource of a process with this name. Of several programs that it executed, it is that of the last with the name, or of the
    /// last.
    pub(crate) fn resource(&self, pid: Pid, name: &Name) -> Resource {
        let known = self.by_pid.get(&pid).map_or(&[][..], Vec::as_slice);
        let is_of_name = |resource: &&ProcessResource| {
            let file = resource.executable.as_ref().map(Name::base_name);
            file.is_some_and(|file| !name.is_empty() && file.starts_with(name.as_bytes()))
        };
        let of_name = known.iter().rev().find(is_of_name).or(known.last());
        resource(of_name.unwrap_or(&ProcessResource::default()), pid, name, self.host.as_deref())
    }
}

/// Returns the resource of a process, of which `process` is known. `name` is its own name (that of its first thread), `host` that of the
/// machine.
///
/// The service is, in this order, what the process has published (OTEP 4719), what its environment says, its service of systemd, its container
/// by name, its program.
pub fn resource(process: &ProcessResource, pid: Pid, name: &Name, host: Option<&str>) -> Resource {
    let cgroup = process.cgroup.as_ref().map(|path| cgroup_facts(path.as_bytes())).unwrap_or_default();
    let is_kernel = process.executable.as_ref().is_some_and(Name::is_empty) || pid.0 == 0;
    // The name of a memory file may be another one each time.
    let is_file = |path: &&Name| !path.is_empty() && !path.as_bytes().starts_with(b"/memfd:");
    let path = process.executable.as_ref().filter(is_file);
    let program = path.map_or_else(|| name.to_string(), |path| Name::new(path.base_name()).to_string());
    let mut stated: Vec<(String, ResourceValue)> = Vec::new();
    stated.extend(process.context.as_deref().into_iter().flat_map(published_attributes));
    let named = process.service_name.as_ref().map(Name::to_string);
    stated.extend(named.map(|name| (Resource::SERVICE_NAME.to_owned(), ResourceValue::Text(name))));
    stated.extend(process.attributes.as_deref().into_iter().flat_map(environment_attributes));
    let mut resource = Resource::default();
    let text = |text: &str| ResourceValue::Text(text.to_owned());
    let of_service = stated.iter().find(|(key, value)| key == Resource::SERVICE_NAME && *value != text(""));
    let service = of_service.map(|(_, value)| value.clone()).unwrap_or_else(|| {
        let of_cgroup = cgroup.unit.as_deref().or(cgroup.container_name.as_deref());
        text(if is_kernel { KERNEL } else { of_cgroup.unwrap_or(&program) })
    });
    resource.set(Resource::SERVICE_NAME, service);
    let facts = [
        ("host.name", host.map(&text)),
        ("os.type", Some(text("linux"))),
        ("process.pid", Some(ResourceValue::Number(pid.0.into()))),
        ("process.executable.name", Some(text(if is_kernel { KERNEL } else { &program }))),
        ("process.executable.path", path.map(|path| text(&path.to_string()))),
        ("container.id", cgroup.container_id.as_deref().map(&text)),
        ("container.name", cgroup.container_name.as_deref().map(&text)),
        ("k8s.pod.uid", cgroup.pod_uid.as_deref().map(&text)),
    ];
    for (key, value) in facts {
        value.into_iter().for_each(|value| resource.set(key, value));
    }
    let own = resource.attributes.len();
    for (key, value) in stated {
        let is_long = |text: &str| text.is_empty() || text.len() > MAX_STATED_BYTES;
        let is_kept = !is_long(&key) && !matches!(&value, ResourceValue::Text(text) if is_long(text));
        if is_kept && resource.attributes.len() < own + MAX_STATED {
            resource.set(&key, value);
        } else {
            resource.dropped += 1;
        }
    }
    resource
}

/// Parses `OTEL_RESOURCE_ATTRIBUTES`: `KEY=VALUE,KEY=VALUE`, with `%XX` for other characters (the specification of OpenTelemetry's SDK).
fn environment_attributes(text: &[u8]) -> Vec<(String, ResourceValue)> {
    let pair = |pair: &[u8]| {
        let at = pair.iter().position(|&byte| byte == b'=')?;
        let (key, value) = (pair.get(..at)?, pair.get(at + 1..)?);
        Some((plain(key), ResourceValue::Text(plain(value))))
    };
    text.split(|&byte| byte == b',').filter_map(pair).collect()
}

/// Returns a text without percent-encoding and surrounding blanks.
fn plain(text: &[u8]) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.trim_ascii();
    while let Some((&first, next)) = rest.split_first() {
        let code = next.get(..2).and_then(|code| str::from_utf8(code).ok());
        let code = code.filter(|_| first == b'%').and_then(|code| u8::from_str_radix(code, 16).ok());
        bytes.push(code.unwrap_or(first));
        rest = if code.is_some() { next.get(2..).unwrap_or_default() } else { next };
    }
    Name::new(&bytes).to_string()
}

#[cfg(test)]
mod tests {
    use prost::encoding::{encode_key, encode_varint};

    use super::*;

    /// A field of a message with a length.
    fn field(number: u32, bytes: &[u8]) -> Vec<u8> {
        let mut field = Vec::new();
        encode_key(number, prost::encoding::WireType::LengthDelimited, &mut field);
        encode_varint(bytes.len() as u64, &mut field);
        [field, bytes.to_vec()].concat()
    }

    fn attribute(key: &str, value: &[u8]) -> Vec<u8> {
        field(1, &[field(1, key.as_bytes()), field(2, value)].concat())
    }

    fn process(cgroup: &str) -> ProcessResource {
        let name = |text: &str| Some(Name::from(text));
        ProcessResource {
            executable: name("/srv/bin/shop"),
            cgroup: name(cgroup),
            ..ProcessResource::default()
        }
    }

    fn of(process: &ProcessResource) -> Resource {
        resource(process, Pid(7), &Name::from("main"), Some("vm"))
    }

    #[test]
    fn services_have_names_by_rank() {
        let service = |process: &ProcessResource| of(process).text(Resource::SERVICE_NAME).map(str::to_owned);
        let text = |text: &str| Some(text.to_owned());
        let mut shop = process("/");
        assert_eq!(service(&shop), text("shop"), "program");
        shop.cgroup = Some(Name::from("/lxc/web"));
        assert_eq!(service(&shop), text("web"), "container by name");
        shop.cgroup = Some(Name::from("/system.slice/nginx.service"));
        assert_eq!(service(&shop), text("nginx"), "unit");
        shop.attributes = Some(b"service.name=of%20attributes,service.version=3,x".as_slice().into());
        assert_eq!(service(&shop), text("of attributes"));
        shop.service_name = Some(Name::from("of-variable"));
        assert_eq!(service(&shop), text("of-variable"));
        let published =
            [attribute("service.name", &field(1, b"published")), attribute("n", &[3 << 3, 5])].concat();
        shop.context = Some(published.into());
        assert_eq!(service(&shop), text("published"));
        assert_eq!(of(&shop).text("service.version"), Some("3"));
        assert!(of(&shop).attributes.contains(&("n".to_owned(), ResourceValue::Number(5))));
        let kernel = ProcessResource { executable: Some(Name::from("")), ..ProcessResource::default() };
        assert_eq!(service(&kernel), text("kernel"));
        let memory =
            ProcessResource { executable: Some(Name::from("/memfd:x7")), ..ProcessResource::default() };
        for process in [&memory, &ProcessResource::default()] {
            assert_eq!(service(process), text("main"), "name of the process");
        }
    }

    #[test]
    fn hosts_programs_and_containers_are_stated() {
        let id = "0123456789abcdef".repeat(4);
        let docker = of(&process(&format!("/system.slice/docker-{id}.scope")));
        for (key, value) in [
            ("service.name", "shop"),
            ("host.name", "vm"),
            ("os.type", "linux"),
            ("process.executable.name", "shop"),
            ("process.executable.path", "/srv/bin/shop"),
            ("container.id", &id),
        ] {
            assert_eq!(docker.text(key), Some(value), "{key}");
        }
        assert!(docker.attributes.contains(&("process.pid".to_owned(), ResourceValue::Number(7))));
    }

    #[test]
    fn what_a_process_states_is_bounded_and_replaces_nothing_of_ours() {
        let mut hostile = process("/");
        let many: Vec<String> = (0..100).map(|number| format!("k{number}=v")).collect();
        let text = format!("host.name=other,process.pid=1,={},{}", "x".repeat(5000), many.join(","));
        hostile.attributes = Some(text.into_bytes().into());
        hostile.context = Some([field(1, &[0xff; 40]), vec![0x0a, 0xff, 0xff]].concat().into());
        let resource = of(&hostile);
        assert_eq!(resource.text("host.name"), Some("vm"));
        assert!(resource.attributes.len() <= 7 + MAX_STATED && resource.dropped >= 80, "{resource:?}");
    }
}
