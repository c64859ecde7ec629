//! Opens the events again on running processes whose events the kernel has ended.

use std::io;

use host::sys::perf_event::Subject;
use model::{CpuId, Pid, Tid};

use super::attach::all_threads;
use super::hotplug::HotplugChange;
use super::opened::{Opened, redirect};
use crate::options::Options;

impl Opened {
    /// Opens the events on the threads of `pids`, and starts them. Their records go into the rings of the events that the recording
    /// knows. Returns the ids of the new events, each with that of the event which it stands for. Empty where the processes have ended,
    /// where the user may not observe them, and where each thread has a ring, which the kernel lets no other thread use.
    pub(crate) fn reopen(&mut self, pids: &[Pid], options: &Options) -> Vec<(u64, u64)> {
        let mut change = HotplugChange::default();
        if options.per_thread {
            return change.ids;
        }
        let sampled = self.sampled_cpus(options);
        for tid in all_threads(pids) {
            for cpu in self.cpus.clone() {
                if self.reopen_on(tid, cpu, sampled.contains(&cpu), &mut change).is_err() {
                    // It has ended, or is not ours: so it is on all CPUs.
                    break;
                }
            }
        }
        change.ids
    }

    fn reopen_on(
        &mut self,
        tid: Tid,
        cpu: CpuId,
        is_sampled: bool,
        change: &mut HotplugChange,
    ) -> io::Result<()> {
        let subject = Subject::Thread(tid, Some(cpu));
        let sideband = self.open_sideband(subject)?;
        redirect(&sideband, &self.sideband.instances).map_err(io::Error::other)?;
        let samplers = if is_sampled {
            self.open_samplers(subject, Some(cpu)).map_err(|unopened| unopened.errno)?
        } else {
            Vec::new()
        };
        self.add_instance(None, &sideband, change)?;
        sideband.enable()?;
        for (index, instance) in samplers.iter().enumerate() {
            if let (Some(instance), Some(event)) = (instance, self.events.get(index)) {
                redirect(instance, &event.instances).map_err(io::Error::other)?;
                self.add_instance(Some(index), instance, change)?;
            }
        }
        Ok(())
    }
}
