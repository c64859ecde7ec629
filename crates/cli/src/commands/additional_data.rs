//! Arguments of `prof record` for additional data in samples and additional records.

use clap::Args;
use decoder::BranchSampleFormat;
use recorder::Extras;

/// Additional data in samples, and additional records.
#[derive(Args)]
pub struct AdditionalDataArguments {
    /// Record data addresses, and mappings without code
    #[arg(hide_short_help = true, long, help_heading = "More in each sample")]
    data: bool,
    /// Record physical data addresses
    #[arg(hide_short_help = true, long, help_heading = "More in each sample")]
    phys_data: bool,
    /// Record registers at each sample
    #[arg(hide_short_help = true, long, help_heading = "More in each sample")]
    intr_regs: bool,
    /// Record the cost (weight) of each sample, if the event provides it
    #[arg(hide_short_help = true, short = 'W', long, help_heading = "More in each sample")]
    sample_weight: bool,
    /// Record the last branches before each sample (same as -j any)
    #[arg(hide_short_help = true, short = 'b', long, help_heading = "More in each sample")]
    branch_any: bool,
    /// Record the last branches before each sample, filtered: any, any_call, any_ret, ind_call, cond, …, and u or k for one
    /// privilege level
    #[arg(hide_short_help = true, short = 'j', long, value_name = "LIST", value_parser = recorder::parse_branches, conflicts_with = "branch_any", help_heading = "More in each sample")]
    branch_filter: Option<BranchSampleFormat>,
    /// Also record where threads wait (shown by prof view)
    ///
    /// Each context switch, with the stack of the thread that leaves the CPU; also shown by prof flame --off-cpu.
    #[arg(long, conflicts_with_all = ["overwrite", "switch_output", "all_user", "all_kernel"], help_heading = "Stacks")]
    pub off_cpu: bool,
    /// Also record where goroutines wait, HZ times a second (shown with --event tasks) [default HZ: 10]
    #[arg(long, value_name = "HZ", num_args = 0..=1, require_equals = true, default_missing_value = "10",
          value_parser = crate::arguments::numbers::within(1..=1_000_u64), help_heading = "Stacks")]
    pub tasks: Option<u64>,
    /// Record context switches
    #[arg(hide_short_help = true, long, help_heading = "Stacks")]
    switch_events: bool,
    /// Record namespaces of processes
    #[arg(hide_short_help = true, long, help_heading = "More in each sample")]
    namespaces: bool,
    /// Record the cgroup of each sample
    #[arg(hide_short_help = true, long, help_heading = "More in each sample")]
    all_cgroups: bool,
    /// Record the page size of data addresses
    #[arg(hide_short_help = true, long, help_heading = "More in each sample")]
    data_page_size: bool,
    /// Record the page size of instruction addresses
    #[arg(hide_short_help = true, long, help_heading = "More in each sample")]
    code_page_size: bool,
}

impl AdditionalDataArguments {
    /// Returns the options of the recorder.
    pub fn extras(&self) -> Extras {
        Extras {
            data: self.data,
            physical_data: self.phys_data,
            registers: self.intr_regs,
            weight: self.sample_weight,
            branches: match self.branch_filter {
                Some(branches) => branches,
                None if self.branch_any => BranchSampleFormat::ANY,
                None => BranchSampleFormat::empty(),
            },
            switches: self.switch_events,
            namespaces: self.namespaces,
            cgroups: self.all_cgroups,
            data_page_sizes: self.data_page_size,
            code_page_sizes: self.code_page_size,
        }
    }
}
