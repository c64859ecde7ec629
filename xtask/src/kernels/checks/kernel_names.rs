//! Where the kernel lies, and the names of its functions.

use anyhow::{Context, ensure};
use decoder::Record;

use super::Check;
use crate::kernels::text;
use crate::records;

/// A program that is in the kernel most of the time.
const READ: &str = "dd if=/dev/zero of=/dev/null bs=64k count=20000";
/// The kernel's code has more bytes than that.
const KERNEL_BYTES: u64 = 4 << 20;

/// Returns the checks.
pub(super) fn checks() -> Vec<Check> {
    let script = format!(
        "run record prof record -e cpu-clock -o r.data -- {READ}\n\
         run folded prof -q flame --folded -i r.data\n\
         send r.data\n"
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
            let mut kernel = None;
            records::each(answer.file("r.data")?.path(), |_, _, record| {
                if let Some(Record::Mmap(map)) = record
                    && map.path.starts_with(b"[kernel.kallsyms]")
                {
                    kernel = Some((map.len, String::from_utf8_lossy(map.path).into_owned()));
                }
                Ok(())
            })?;
            let (size, name) = kernel.context("no mapping of the kernel")?;
            ensure!(size > KERNEL_BYTES, "{size} bytes: {name}");
            ensure!(
                name.contains("]_text") || name.contains("]_stext"),
                "without the symbol that perf looks for: {name}"
            );
            Ok(())
        },
    );
    vec![names, map]
}
