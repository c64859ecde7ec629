//! The section with the formats of tracepoints' raw data
//! (perf.data-file-format.txt, "HEADER_TRACING_DATA"; `trace-event-info.c`).

use std::io;

use host::sys::system::page_size;
use host::tracefs;

/// Encodes the section for `tracepoints`, pairs of system and name.
///
/// # Errors
/// If tracefs, or a format in it, cannot be read.
pub(crate) fn encode(tracepoints: &[(String, String)]) -> io::Result<Vec<u8>> {
    let folder = tracefs::mounted()?;
    let mut out = vec![0x17, 0x08, 0x44];
    out.extend_from_slice(b"tracing0.6\0");
    out.push(u8::from(cfg!(target_endian = "big")));
    out.push(size_of::<usize>() as u8);
    out.extend(u32::try_from(page_size()).unwrap_or(4096).to_ne_bytes());
    let [page, event] = tracefs::headers(&folder)?;
    for (name, text) in [(&b"header_page\0"[..], page), (b"header_event\0", event)] {
        out.extend_from_slice(name);
        push_with_size(&mut out, &text);
    }
    out.extend(0_u32.to_ne_bytes()); // formats of ftrace's own events
    let mut systems: Vec<&str> = tracepoints.iter().map(|(system, _)| system.as_str()).collect();
    systems.sort_unstable();
    systems.dedup();
    out.extend(u32::try_from(systems.len()).unwrap_or(0).to_ne_bytes());
    for system in systems {
        let mut names: Vec<&str> =
            tracepoints.iter().filter(|(of, _)| of == system).map(|(_, name)| name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        out.extend_from_slice(system.as_bytes());
        out.push(0);
        out.extend(u32::try_from(names.len()).unwrap_or(0).to_ne_bytes());
        for name in names {
            push_with_size(&mut out, &tracefs::format(&folder, system, name)?);
        }
    }
    out.extend(0_u32.to_ne_bytes()); // kallsyms
    let printk = tracefs::printk_formats(&folder).unwrap_or_default();
    out.extend(u32::try_from(printk.len()).unwrap_or(0).to_ne_bytes());
    out.extend_from_slice(&printk);
    out.extend(0_u64.to_ne_bytes()); // saved command lines
    Ok(out)
}

fn push_with_size(out: &mut Vec<u8>, text: &[u8]) {
    out.extend((text.len() as u64).to_ne_bytes());
    out.extend_from_slice(text);
}
