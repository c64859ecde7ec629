//! Arguments of `prof record` for additional data in samples and additional records.

use clap::Args;
use decoder::BranchSampleFormat;
use recorder::Extras;

/// Additional data in samples, and additional records.
#[derive(Args)]
pub struct AdditionalDataArguments {
    /// Record data addresses, and mappings without code
    #[arg(long)]
    data: bool,
    /// Record physical data addresses
    #[arg(long)]
    phys_data: bool,
    /// Record registers at each sample
    #[arg(long)]
    intr_regs: bool,
    /// Record the cost (weight) of each sample, if the event provides it
    #[arg(short = 'W', long)]
    weight: bool,
    /// Record the last branches before each sample (same as -j any)
    #[arg(short = 'b', long)]
    branch_any: bool,
    /// Record the last branches before each sample, filtered: any, any_call, any_ret, ind_call, cond, …, and u or k for one
    /// privilege level
    #[arg(short = 'j', long, value_name = "LIST", value_parser = recorder::parse_branches, conflicts_with = "branch_any")]
    branch_filter: Option<BranchSampleFormat>,
    /// Also record where threads wait: each context switch, with the stack of the thread that leaves the CPU (shown by prof flame
    /// --off-cpu)
    #[arg(long, conflicts_with_all = ["overwrite", "switch_output", "all_user", "all_kernel"])]
    pub off_cpu: bool,
    /// Record context switches
    #[arg(long)]
    switch_events: bool,
    /// Record namespaces of processes
    #[arg(long)]
    namespaces: bool,
    /// Record the cgroup of each sample
    #[arg(long)]
    all_cgroups: bool,
    /// Record the page size of data addresses
    #[arg(long)]
    data_page_size: bool,
    /// Record the page size of instruction addresses
    #[arg(long)]
    code_page_size: bool,
}

impl AdditionalDataArguments {
    /// Returns the options of the recorder.
    pub fn extras(&self) -> Extras {
        Extras {
            data: self.data,
            physical_data: self.phys_data,
            registers: self.intr_regs,
            weight: self.weight,
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
