//! The blind spot of clocks: code that runs with interrupts off.
//!
//! A clock samples by an interrupt. Where interrupts are off it comes as soon as they are on again, and the sample names the function that
//! turned them on. Only a PMU's non-maskable interrupts see more, and virtual machines often have no PMU.

use std::collections::HashMap;

use model::{Resolution, StackEntry};
use profile::{PlaceId, Profile};

use crate::annotate::name_of_whole;

/// The functions of the kernel that turn interrupts on: at the beginning of a call or a page fault, at the end of a lock, of a switch, of
/// an interrupt.
const TURN_INTERRUPTS_ON: [&str; 16] = [
    "_raw_read_unlock_irq",
    "_raw_read_unlock_irqrestore",
    "_raw_spin_unlock_irq",
    "_raw_spin_unlock_irqrestore",
    "_raw_write_unlock_irq",
    "_raw_write_unlock_irqrestore",
    "__do_softirq",
    "do_syscall_64",
    "do_user_addr_fault",
    "exc_page_fault",
    "exit_to_user_mode_loop",
    "finish_task_switch",
    "handle_softirqs",
    "irqentry_exit",
    "irqentry_exit_to_user_mode",
    "syscall_exit_to_user_mode",
];
/// Minimum share of all samples for the sentence, of 1: in a virtual machine without counters such functions had 15 % of a run of rustc.
const MIN_SHARE: f64 = 0.02;

/// Returns a sentence about the samples of a clock that stand for code before the function that they name, if such functions lead the
/// kernel's share: no other function of it has more samples than they have together.
pub(super) fn charged_elsewhere<'r>(
    profile: &Profile,
    resolve: impl Fn(PlaceId, &StackEntry) -> Option<&'r Resolution>,
) -> Option<String> {
    let mut functions: HashMap<&str, u64> = HashMap::new();
    let mut innermost = vec![0_u64; profile.stacks.places().len()];
    for (_, stack, count) in profile.counts() {
        let samples = profile.stacks.split(stack).and_then(|(place, _)| innermost.get_mut(place.index()));
        samples.into_iter().for_each(|samples| *samples = samples.saturating_add(count.samples));
    }
    let of_kernel = profile.stacks.numbered_places().zip(innermost).filter(|((_, entry), _)| entry.in_kernel);
    for ((place, entry), samples) in of_kernel.filter(|(_, samples)| *samples > 0) {
        if let Some(Resolution::Resolved(found)) = resolve(place, entry)
            && let Some(frame) = found.frames.last()
        {
            *functions.entry(name_of_whole(&frame.function)).or_default() += samples;
        }
    }
    let is_meant = |function: &&str| TURN_INTERRUPTS_ON.contains(function);
    let charged = functions.iter().filter(|(function, _)| is_meant(function));
    let (mut sum, mut most) = (0_u64, None);
    for (&function, &samples) in charged {
        sum += samples;
        most = most.max(Some((samples, function)));
    }
    let others = functions.iter().filter(|(function, _)| !is_meant(function));
    let leads = others.map(|(_, &samples)| samples).max().is_none_or(|other| other <= sum);
    let share = sum as f64 / profile.total().samples.max(1) as f64;
    let (_, most) = most.filter(|_| leads && share >= MIN_SHARE)?;
    Some(format!(
        "code with interrupts off counts for what turns them on again, {:.1} % here (mostly {most}): a clock sees no more",
        100.0 * share
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{AddressKind, Frame, Name, Pid, Space, SpaceTable, Symbolized, Tid};

    /// Takes so many samples in functions of the kernel, beside a hundred in a program.
    fn said(kernel: &[(&str, u64)]) -> Option<String> {
        let mut spaces = SpaceTable::default();
        let spaces = [
            spaces.intern(Space::Kernel { build_id: None, text: None }),
            spaces.intern(Space::Unmapped { pid: Pid(1), generation: 0 }),
        ];
        let entry = |offset: usize, in_kernel: bool| StackEntry {
            offset: offset as u64,
            space: spaces[usize::from(!in_kernel)],
            kind: AddressKind::InstructionPointer,
            in_kernel,
        };
        let mut profile = Profile::default();
        let mut add = |stack: &[StackEntry], samples| {
            let stack = profile.stacks.intern(stack);
            (0..samples).for_each(|_| profile.add(&Name::from("x"), Pid(1), Tid(1), stack, 1));
        };
        for (number, &(_, samples)) in kernel.iter().enumerate() {
            add(&[entry(number, true), entry(0, false)], samples);
        }
        add(&[entry(0, false)], 100);
        let names = kernel.iter().map(|&(name, _)| {
            let frame = Frame { function: name.into(), location: None, inlined: false };
            Resolution::Resolved(Symbolized { frames: [frame].into(), symbol_offset: None })
        });
        let names: Vec<Resolution> = names.collect();
        charged_elsewhere(&profile, |_, entry| names.get(entry.offset as usize).filter(|_| entry.in_kernel))
    }

    #[test]
    fn it_is_said_where_functions_that_turn_interrupts_on_lead_the_kernels_share() {
        let leading =
            [("finish_task_switch.isra.0", 12), ("_raw_spin_unlock_irqrestore", 8), ("clear_page_erms", 15)];
        let sentence = said(&leading).unwrap();
        assert!(sentence.contains("14.8 % here (mostly finish_task_switch)"), "{sentence}");
        assert_eq!(said(&[("finish_task_switch.isra.0", 12), ("clear_page_erms", 15)]), None);
        assert_eq!(said(&[("_raw_spin_unlock_irqrestore", 1)]), None, "a hundredth of all");
        assert_eq!(said(&[]), None);
    }
}
