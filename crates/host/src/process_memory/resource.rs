//! What a process is a part of: its program, and how it names its service.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStringExt;

use model::Pid;

use super::{executable_maps, read};
use crate::procfs::{path, read_shared};

/// Maximum number of bytes of an environment, a command line or a file with options that are searched: as many as the arguments of a program may have with the usual limit of the stack
/// (a quarter of 8 MiB, execve(2)).
pub(crate) const MAX_ENVIRONMENT_BYTES: u64 = 2 << 20;
/// Maximum size of a published process context, in bytes. A page is usual.
const MAX_CONTEXT_BYTES: usize = 16 << 10;
/// The only version of the header of a process context (OTEP 4719).
const CONTEXT_VERSION: u32 = 2;
/// Bytes of that header: signature, version, payload size, time of publication, address of the payload.
const CONTEXT_HEADER_BYTES: usize = 32;
/// The names of mappings with a process context: of a memory file, and of memory without one.
const CONTEXT_MAPPINGS: [&[u8]; 3] = [b"/memfd:OTEL_CTX", b"[anon_shmem:OTEL_CTX]", b"[anon:OTEL_CTX]"];
/// Fields of `/proc/PID/stat` by their numbers in proc(5).
const FLAGS: usize = 9;
const ENVIRONMENT_START: usize = 50;
const ENVIRONMENT_END: usize = 51;
/// Bit of the flags in `/proc/PID/stat` that says that it is a thread of the kernel (`PF_KTHREAD` in `include/linux/sched.h`).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// The variables of an environment by which OpenTelemetry names a service.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ServiceEnvironment {
    /// The value of `OTEL_SERVICE_NAME`, if it is not empty.
    pub service_name: Option<Vec<u8>>,
    /// The value of `OTEL_RESOURCE_ATTRIBUTES`, if it is not empty.
    pub attributes: Option<Vec<u8>>,
}

/// Reads the path of the program that a process executes, as the process sees it; empty for a thread of the kernel.
///
/// # Errors
/// The process has ended, or we may not read it.
pub fn executable(pid: Pid) -> io::Result<Vec<u8>> {
    match read_shared(pid, "exe", |path| fs::read_link(path)) {
        Ok(path) => {
            let path = path.into_os_string().into_vec();
            Ok(path.strip_suffix(b" (deleted)").map_or(path.clone(), <[u8]>::to_vec))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && is_kernel_thread(pid) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn is_kernel_thread(pid: Pid) -> bool {
    stat_field(pid, FLAGS).is_some_and(|flags| flags & KERNEL_THREAD != 0)
}

/// Returns a field of `/proc/PID/stat` by its number in proc(5).
fn stat_field(pid: Pid, number: usize) -> Option<u64> {
    let stat = path(pid, "stat").and_then(fs::read).ok()?;
    // The name, which may contain anything, ends with the last parenthesis. It is the second field.
    let rest = stat.rsplit(|&byte| byte == b')').next()?;
    let mut fields = rest.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    str::from_utf8(fields.nth(number.checked_sub(3)?)?).ok()?.parse().ok()
}

/// The memory of a process, from an address on, as far as it can be read.
struct MemoryReader {
    pid: Pid,
    at: u64,
    end: u64,
}

impl Read for MemoryReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let length = left.min(into.len());
        let read = read(self.pid, self.at, into.get_mut(..length).unwrap_or_default())?;
        self.at += read as u64;
        Ok(read)
    }
}

/// Reads how the environment of a process, as it was when its program began, names its service.
///
/// # Errors
/// The process has ended, or we may not read it.
pub fn service_environment(pid: Pid) -> io::Result<ServiceEnvironment> {
    // `/proc/PID/environ` would fetch pages that are not in memory.
    let address = |field| stat_field(pid, field).filter(|address| *address != 0);
    let (Some(at), Some(end)) = (address(ENVIRONMENT_START), address(ENVIRONMENT_END)) else {
        return Err(io::ErrorKind::PermissionDenied.into());
    };
    service_in(BufReader::new(MemoryReader { pid, at, end }.take(MAX_ENVIRONMENT_BYTES)))
}

fn service_in(environment: impl BufRead) -> io::Result<ServiceEnvironment> {
    let mut found = ServiceEnvironment::default();
    for variable in environment.split(0) {
        let variable = variable?;
        let value =
            |name: &[u8]| variable.strip_prefix(name).filter(|value| !value.is_empty()).map(<[u8]>::to_vec);
        // As for getenv(3), the first of several variables of a name counts.
        found.service_name = found.service_name.or_else(|| value(b"OTEL_SERVICE_NAME="));
        found.attributes = found.attributes.or_else(|| value(b"OTEL_RESOURCE_ATTRIBUTES="));
        if found.service_name.is_some() && found.attributes.is_some() {
            break;
        }
    }
    Ok(found)
}

/// Reads the resource that a process has published for readers outside (OTEP 4719): a protobuf message `Resource` of OpenTelemetry, which
/// is not checked. `None` if there is none, or it is being written.
///
/// # Errors
/// The process has ended, or we may not read it.
pub fn process_context(pid: Pid) -> io::Result<Option<Vec<u8>>> {
    let (maps, _) = executable_maps(pid, true)?;
    let is_context = |path: &[u8]| CONTEXT_MAPPINGS.iter().any(|name| path.starts_with(name));
    let mapping = maps.iter().find(|map| is_context(&map.path));
    Ok(mapping.and_then(|map| context_at(|address, into| read(pid, address, into), map.start)))
}

fn context_at(mut read: impl FnMut(u64, &mut [u8]) -> io::Result<usize>, address: u64) -> Option<Vec<u8>> {
    let mut read = |address, into: &mut [u8]| read(address, into).is_ok_and(|length| length == into.len());
    let mut header = [0; CONTEXT_HEADER_BYTES];
    read(address, &mut header).then_some(())?;
    let word = |at: usize| header.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default();
    let number =
        |at: usize| u64::from_ne_bytes([word(at), word(at + 4)].concat().try_into().unwrap_or_default());
    let (size, published, payload) = (u32::from_ne_bytes(word(12)) as usize, number(16), number(24));
    let is_valid = header.starts_with(b"OTEL_CTX") && u32::from_ne_bytes(word(8)) == CONTEXT_VERSION;
    if !is_valid || published == 0 || size > MAX_CONTEXT_BYTES {
        return None;
    }
    let mut bytes = vec![0; size];
    read(payload, &mut bytes).then_some(())?;
    let mut again = [0; CONTEXT_HEADER_BYTES];
    (read(address, &mut again) && again == header).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::perf_event::own_pid;

    #[test]
    fn two_variables_are_read_and_no_other() {
        let read = |text: &[u8]| service_in(text).unwrap();
        let found = read(
            b"SECRET=x\0OTEL_SERVICE_NAME=shop\0OTEL_SERVICE_NAME=other\0OTEL_RESOURCE_ATTRIBUTES=a=b,c=d\0",
        );
        assert_eq!(found.service_name.as_deref(), Some(&b"shop"[..]));
        assert_eq!(found.attributes.as_deref(), Some(&b"a=b,c=d"[..]));
        assert_eq!(read(b"OTEL_SERVICE_NAME=\0XOTEL_SERVICE_NAME=y\0"), ServiceEnvironment::default());
        assert_eq!(read(b"OTEL_SERVICE_NAME=cut").service_name.as_deref(), Some(&b"cut"[..]));
        assert!(service_environment(own_pid()).is_ok());
    }

    #[test]
    fn programs_have_paths() {
        let own = std::env::current_exe().unwrap();
        assert_eq!(executable(own_pid()).unwrap(), own.into_os_string().into_vec());
        assert!(executable(Pid(1 << 22)).is_err());
        assert!(!is_kernel_thread(own_pid()));
    }

    #[test]
    fn a_context_is_read_only_if_it_is_whole() {
        let mut memory = b"OTEL_CTX".to_vec();
        memory.extend(CONTEXT_VERSION.to_ne_bytes());
        memory.extend(3_u32.to_ne_bytes());
        memory.extend(1_u64.to_ne_bytes());
        memory.extend(32_u64.to_ne_bytes());
        memory.extend(b"abc");
        let at = |memory: &[u8]| {
            context_at(
                |address, into| {
                    let part = memory.get(address as usize..).unwrap_or_default();
                    let length = part.len().min(into.len());
                    into[..length].copy_from_slice(&part[..length]);
                    Ok(length)
                },
                0,
            )
        };
        assert_eq!(at(&memory).as_deref(), Some(&b"abc"[..]));
        for (from, to) in [(0, 1), (8, 12), (16, 24)] {
            let mut other = memory.clone();
            other[from..to].fill(0);
            assert_eq!(at(&other), None, "{from}");
        }
        memory[12..16].fill(0xff);
        assert_eq!(at(&memory), None, "too large");
        assert_eq!(process_context(own_pid()).unwrap(), None);
    }
}
