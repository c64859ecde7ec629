//! Four CPUs in two nodes, by the host's clock: a tenth of the ticks arrive, so that only what is said can be judged.

use anyhow::ensure;

use super::Check;
use crate::kernels::answer::one_line;
use crate::kernels::machine::Machine;
use crate::kernels::text;

/// Returns the checks.
pub(super) fn checks() -> Vec<Check> {
    let checks = [whole_system(), hotplug(), throttled()];
    checks.map(|check| check.in_machine(Machine::Smp).on(|kernel| kernel.is_stable)).into()
}

fn whole_system() -> Check {
    let script = "shares forks 100000 > /dev/null &\n\
                  run record prof record -e cpu-clock -a -d 1 -o r.data\n\
                  run folded prof -q flame --folded --weight samples -i r.data\n\
                  killall shares\n";
    Check::new("all CPUs of two nodes", "the program's functions", script, |_, answer| {
        answer.text("record")?;
        let stacks = text::folded(answer.text("folded")?);
        let seen = text::weight(stacks.iter().filter(|(stack, _)| stack.contains(&"sixty")));
        ensure!(seen > 0, "no function of the program in {} samples", text::weight(&stacks));
        Ok(())
    })
}

fn hotplug() -> Check {
    let script = "shares forks 100000 > /dev/null &\n\
                  (sleep 2; for round in 1 2 3; do\n\
                      set_to /sys/devices/system/cpu/cpu3/online 0; sleep 0.3\n\
                      set_to /sys/devices/system/cpu/cpu3/online 1; sleep 0.3\n\
                  done) & plug=$!\n\
                  run record prof record -e cpu-clock -a -d 5 -o r.data\n\
                  wait $plug\n\
                  run folded prof -q flame --folded --weight samples -i r.data\n\
                  run online cat /sys/devices/system/cpu/online\n\
                  killall shares\n";
    Check::new("all CPUs while one comes and goes", "a recording to the end", script, |_, answer| {
        answer.text("record")?;
        ensure!(answer.text("online")? == "0-3", "the CPU did not come back: {}", answer.text("online")?);
        let stacks = text::folded(answer.text("folded")?);
        let seen = text::weight(stacks.iter().filter(|(stack, _)| stack.contains(&"sixty")));
        ensure!(seen > 0, "no function of the program in {} samples", text::weight(&stacks));
        Ok(())
    })
}

/// A period of 0.1 ms is too short for an emulated CPU: what samples do not cover must be said.
fn throttled() -> Check {
    let script = "set_to /proc/sys/kernel/perf_cpu_time_max_percent 25\n\
                  run record prof record -e cpu-clock -c 100000 -o r.data -- shares alone 1000\n\
                  set_to /proc/sys/kernel/perf_event_max_sample_rate 100000\n\
                  set_to /proc/sys/kernel/perf_cpu_time_max_percent 0\n";
    let expects = "10,000 samples, or a word about what is missing";
    Check::new("a period that is too short", expects, script, |_, answer| {
        let record = answer.text("record")?;
        let samples = text::figure(record, "samples")?;
        let is_said = ["throttled", "not sampled", "missing"].iter().any(|word| record.contains(word));
        ensure!(samples > 9000.0 || is_said, "{}", one_line(record));
        Ok(())
    })
}
