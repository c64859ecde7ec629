//! Lists of CPUs in the kernel's form: `0-3,5`.

use model::CpuId;

/// Parses a list such as `0-3,5` into ascending, unique numbers; `None` if it is malformed.
pub fn parse(text: &str) -> Option<Vec<CpuId>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse::<u32>().ok()?, last.trim().parse::<u32>().ok()?);
        if first > last || CpuId(last) > CpuId::MAX {
            return None;
        }
        cpus.extend((first..=last).map(CpuId));
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

/// Formats ascending numbers as a list with ranges.
pub fn format(cpus: &[CpuId]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(cpu.0) => *last = cpu.0,
            _ => ranges.push((cpu.0, cpu.0)),
        }
    }
    let text = |(first, last): (u32, u32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    ranges.into_iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        for text in ["", "3", "0-3,5", "0,2,4-5"] {
            assert_eq!(format(&parse(text).unwrap()), text);
        }
    }

    #[test]
    fn lists_and_ranges() {
        let numbers = |text| parse(text).map(|cpus| cpus.iter().map(|cpu| cpu.0).collect::<Vec<_>>());
        assert_eq!(numbers("0-3,5\n"), Some(vec![0, 1, 2, 3, 5]));
        assert_eq!(numbers("7,1,1-2"), Some(vec![1, 2, 7]));
        assert_eq!(numbers(""), Some(vec![]));
        for bad in ["x", "3-1", "1-", "-1", "0-4294967295", "1 2"] {
            assert_eq!(numbers(bad), None, "{bad}");
        }
    }
}
