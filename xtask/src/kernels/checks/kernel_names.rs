//! Where the kernel lies, and the names of its functions.

use anyhow::{Context, ensure};

use super::Check;
use crate::kernels::answer::one_line;
use crate::kernels::text;

/// A program that is in the kernel most of the time.
const READ: &str = "dd if=/dev/zero of=/dev/null bs=64k count=20000";
/// The kernel's code has more bytes than that.
const KERNEL_BYTES: u64 = 4 << 20;

/// Returns the checks.
pub(super) fn checks() -> Vec<Check> {
    let script = format!(
        "run record prof record -e cpu-clock -o r.data -- {READ}\n\
         run folded prof -q flame --folded -i r.data\n\
         prof script -D r.data > records\n\
         run map grep -F '[kernel.kallsyms]' records\n"
    );
    let names =
        Check::new("kernel functions", "frames of the kernel, with names", script.clone(), |_, answer| {
            let stacks = text::folded(answer.text("folded")?);
            let in_kernel = |frame: &str| frame.ends_with("_[k]");
            let kernel =
                text::weight(stacks.iter().filter(|(stack, _)| stack.iter().any(|frame| in_kernel(frame))));
            let total = text::weight(&stacks);
            ensure!(kernel * 10 >= total * 8, "{kernel} of {total} samples are in the kernel");
            let read = text::weight(
                stacks.iter().filter(|(stack, _)| stack.iter().any(|frame| frame.starts_with("vfs_read"))),
            );
            // Newer kernels clear memory so fast that entering and leaving system calls takes most of the time.
            ensure!(
                read * 10 >= total * 2,
                "{read} of {total} samples are in vfs_read, which the program calls"
            );
            let unnamed = text::weight(
                stacks.iter().filter(|(stack, _)| stack.iter().any(|frame| frame.starts_with("[kernel"))),
            );
            ensure!(unnamed == 0, "{unnamed} of {total} samples have frames of the kernel without a name");
            Ok(())
        });
    let map = Check::new(
        "the kernel's mapping",
        "a record that says where the kernel's code lies",
        script,
        |_, answer| {
            answer.text("record")?;
            let map = answer.text("map")?;
            let size = map.lines().find_map(size).with_context(|| one_line(map))?;
            ensure!(size > KERNEL_BYTES, "{size} bytes: {}", one_line(map));
            ensure!(
                map.contains("]_text") || map.contains("]_stext"),
                "without the symbol that perf looks for: {}",
                one_line(map)
            );
            Ok(())
        },
    );
    vec![names, map]
}

/// Returns the size of a mapping: `[0xffffffff81000000(0x120bb08) @ …]`.
fn size(line: &str) -> Option<u64> {
    let (_, size) = line.split_once("(0x")?;
    u64::from_str_radix(size.split_once(')')?.0, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_mapping_is_read_from_a_dump_of_records() {
        let line = "0 0x1e8 [0x80]: PERF_RECORD_MMAP2 -1/0: [0xffffffff81000000(0x120bb08) @ 0x0 <4a>]: r-xp [kernel.kallsyms]_text";
        assert_eq!(size(line), Some(0x120_bb08));
    }
}
