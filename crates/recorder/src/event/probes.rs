//! Events with forms of their own: hardware breakpoints, and probes in programs and in the kernel.

use std::ffi::{CStr, CString};
use std::sync::Arc;

use decoder::Attr;
use decoder::attr::{BREAKPOINT_EXECUTE, BREAKPOINT_READ, BREAKPOINT_WRITE, TYPE_BREAKPOINT};

use super::terms::parse_number;
use super::{Catalogue, EventError};

/// Bytes of an instruction breakpoint: `sizeof(long)`.
const EXECUTE_LENGTH_BYTES: u64 = size_of::<usize>() as u64;

/// Parses `mem:ADDR[/LEN][:rwx]`, a hardware breakpoint.
pub(super) fn breakpoint(text: &str) -> Result<Attr, EventError> {
    let malformed = |problem| EventError::Malformed { text: text.to_owned(), problem };
    let rest = text.strip_prefix("mem:").unwrap_or(text);
    let (place, access) = rest.split_once(':').map_or((rest, None), |(place, access)| (place, Some(access)));
    let (address, length) = place.split_once('/').map_or((place, None), |(at, length)| (at, Some(length)));
    let address = parse_number(address).ok_or_else(|| malformed("the address is no number"))?;
    let mut kind = 0;
    for letter in access.unwrap_or("rw").chars() {
        kind |= match letter {
            'r' => BREAKPOINT_READ,
            'w' => BREAKPOINT_WRITE,
            'x' => BREAKPOINT_EXECUTE,
            _ => return Err(malformed("the access is made of r, w and x")),
        };
    }
    let length = match length {
        Some(length) => parse_number(length).ok_or_else(|| malformed("the length is no number"))?,
        None if kind == BREAKPOINT_EXECUTE => EXECUTE_LENGTH_BYTES,
        None => 4,
    };
    if !matches!(length, 1 | 2 | 4 | 8) || kind == BREAKPOINT_EXECUTE && length != EXECUTE_LENGTH_BYTES {
        return Err(malformed("the length is 1, 2, 4 or 8 bytes, and 8 for x"));
    }
    if kind & BREAKPOINT_EXECUTE != 0 && kind != BREAKPOINT_EXECUTE {
        return Err(malformed("x does not go with r or w"));
    }
    if kind == BREAKPOINT_READ {
        return Err(malformed("this processor cannot watch for reads alone; try :rw"));
    }
    if !address.is_multiple_of(length) && kind != BREAKPOINT_EXECUTE {
        return Err(malformed("the address is no multiple of the length"));
    }
    Ok(Attr { kind: TYPE_BREAKPOINT, bp_type: kind, config1: address, config2: length, ..Attr::default() })
}

/// A probe in a program or in the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Probe {
    /// The object file, or the kernel's function; `None` for an address of the kernel.
    pub path: Option<Arc<CStr>>,
    /// True if it is in the kernel.
    pub in_kernel: bool,
}

impl Probe {
    /// Returns the value for `config1`, valid as long as the probe or a clone of it lives: the address of its path.
    pub(crate) fn config1(&self) -> u64 {
        self.path.as_ref().map_or(0, |path| path.as_ptr().expose_provenance() as u64)
    }
}

/// Parses `uprobe:PATH:SYMBOL[+OFFSET][%return]`, or a file offset in place of the symbol.
pub(super) fn uprobe(text: &str, catalogue: &dyn Catalogue) -> Result<(Attr, Probe), EventError> {
    let malformed = |problem| EventError::Malformed { text: text.to_owned(), problem };
    let rest = text.strip_prefix("uprobe:").unwrap_or(text);
    let (rest, on_return) = rest.strip_suffix("%return").map_or((rest, false), |rest| (rest, true));
    let (path, place) = path_and_place(rest).ok_or_else(|| malformed("the form is uprobe:PATH:SYMBOL"))?;
    let (symbol, offset) = place.rsplit_once('+').map_or((place, None), |(at, plus)| (at, Some(plus)));
    let base = match parse_number(symbol) {
        Some(offset) => offset,
        None => catalogue.symbol_offset(path, symbol)?,
    };
    let offset = offset.map_or(Some(0), parse_number).ok_or_else(|| malformed("the offset is no number"))?;
    let at = base.checked_add(offset).ok_or_else(|| malformed("the offset is beyond every file"))?;
    let pmu = catalogue.pmus().iter().find(|pmu| pmu.name == "uprobe").ok_or_else(|| EventError::Probe {
        path: path.to_owned(),
        problem: "this kernel has no uprobes (CONFIG_UPROBE_EVENTS)".to_owned(),
        nearest: None,
    })?;
    let path = CString::new(path).map_err(|_| malformed("the path has a NUL"))?;
    // `config` bit 0 of this PMU is `retprobe`; the address of the path is filled in when it is opened.
    let attr = Attr { kind: pmu.kind, config: u64::from(on_return), config2: at, ..Attr::default() };
    Ok((attr, Probe { path: Some(path.into()), in_kernel: false }))
}

/// Splits `PATH:SYMBOL`. Both may have colons (`/opt/a:b/program`, `a::b`); a symbol has no slash but that of `operator/`.
fn path_and_place(text: &str) -> Option<(&str, &str)> {
    let cuts = text.match_indices(':').map(|(at, _)| text.split_at(at));
    let mut cuts = cuts.map(|(path, place)| (path, place.get(1..).unwrap_or("")));
    cuts.find(|(_, place)| !place.replace("operator/", "").contains('/'))
}

/// Parses `kprobe:FUNCTION[+OFFSET][%return]`, or an address in place of the function.
pub(super) fn kprobe(text: &str, catalogue: &dyn Catalogue) -> Result<(Attr, Probe), EventError> {
    let malformed = |problem| EventError::Malformed { text: text.to_owned(), problem };
    let rest = text.strip_prefix("kprobe:").unwrap_or(text);
    let (rest, on_return) = rest.strip_suffix("%return").map_or((rest, false), |rest| (rest, true));
    let (function, offset) = rest.rsplit_once('+').map_or((rest, None), |(at, plus)| (at, Some(plus)));
    let offset = offset.map_or(Some(0), parse_number).ok_or_else(|| malformed("the offset is no number"))?;
    if function.is_empty() {
        return Err(malformed("the form is kprobe:FUNCTION"));
    }
    let pmu = catalogue.pmus().iter().find(|pmu| pmu.name == "kprobe").ok_or_else(|| EventError::Probe {
        path: function.to_owned(),
        problem: "this kernel has no kprobes (CONFIG_KPROBE_EVENTS)".to_owned(),
        nearest: None,
    })?;
    let attr = Attr { kind: pmu.kind, config: u64::from(on_return), ..Attr::default() };
    // `kprobe_func` and `probe_offset`, or no function and `kprobe_addr` (include/uapi/linux/perf_event.h).
    if let Some(address) = parse_number(function) {
        let at =
            address.checked_add(offset).ok_or_else(|| malformed("the offset is beyond every address"))?;
        return Ok((Attr { config2: at, ..attr }, Probe { path: None, in_kernel: true }));
    }
    let name = CString::new(function).map_err(|_| malformed("the function has a NUL"))?;
    Ok((Attr { config2: offset, ..attr }, Probe { path: Some(name.into()), in_kernel: true }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Pmu;

    #[test]
    fn breakpoints() {
        let fields = |text| breakpoint(text).map(|attr| (attr.bp_type, attr.config1, attr.config2)).ok();
        assert_eq!(fields("mem:0x1000"), Some((3, 0x1000, 4)));
        assert_eq!(fields("mem:0x1000/8:w"), Some((2, 0x1000, 8)));
        assert_eq!(fields("mem:0x1001:x"), Some((4, 0x1001, 8)));
        for bad in
            ["mem:x", "mem:0x1000/3", "mem:0x1001/4:w", "mem:0x1000:r", "mem:0x1000:wx", "mem:0x1000:q"]
        {
            assert_eq!(fields(bad), None, "{bad}");
        }
    }

    #[test]
    fn paths_and_symbols_may_have_colons() {
        assert_eq!(path_and_place("/bin/a:main"), Some(("/bin/a", "main")));
        assert_eq!(path_and_place("/opt/a:b/c:d::e"), Some(("/opt/a:b/c", "d::e")));
        assert_eq!(path_and_place("/bin/a:N::operator/(int)"), Some(("/bin/a", "N::operator/(int)")));
        assert_eq!(path_and_place("/bin/a"), None);
    }

    #[test]
    fn probes_in_the_kernel() {
        let pmus = vec![Pmu { name: "kprobe".to_owned(), kind: 9, ..Pmu::default() }];
        let (attr, probe) = kprobe("kprobe:vfs_read+0x10%return", &pmus).unwrap();
        assert_eq!((attr.kind, attr.config, attr.config2), (9, 1, 0x10));
        assert_eq!(probe.path.unwrap().to_bytes(), b"vfs_read");
        let (attr, probe) = kprobe("kprobe:0xffffffff81000000+4", &pmus).unwrap();
        assert_eq!((attr.config, attr.config2, probe.path), (0, 0xffff_ffff_8100_0004, None));
        for bad in ["kprobe:", "kprobe:+4", "kprobe:f+x", "kprobe:0xffffffffffffffff+1"] {
            assert!(kprobe(bad, &pmus).is_err(), "{bad}");
        }
        assert!(kprobe("kprobe:vfs_read", &Vec::new()).unwrap_err().to_string().contains("CONFIG"));
    }

    #[test]
    fn probes_by_offset() {
        let pmus = vec![Pmu { name: "uprobe".to_owned(), kind: 8, ..Pmu::default() }];
        let (attr, probe) = uprobe("uprobe:/bin/true:0x1000+4%return", &pmus).unwrap();
        assert_eq!((attr.kind, attr.config, attr.config2), (8, 1, 0x1004));
        assert_eq!(probe.path.unwrap().to_bytes(), b"/bin/true");
        assert!(uprobe("uprobe:/bin/true:main", &pmus).is_err());
        assert!(uprobe("uprobe:/bin/true:1", &Vec::new()).unwrap_err().to_string().contains("CONFIG"));
    }
}
