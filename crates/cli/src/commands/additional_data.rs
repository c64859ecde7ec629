//! What `prof record` records beside the usual, as arguments.

use clap::Args;
use decoder::BranchSampleFormat;
use recorder::Extras;

/// What is recorded beside the usual.
#[derive(Args)]
pub struct AdditionalDataArguments {
    /// The data address of each sample, and mappings without code
    #[arg(long)]
    data: bool,
    /// The physical data address of each sample
    #[arg(long)]
    phys_data: bool,
    /// The registers at each sample
    #[arg(long)]
    intr_regs: bool,
    /// How costly each sample was, where the event knows
    #[arg(short = 'W', long)]
    weight: bool,
    /// The last branches before each sample (-j any)
    #[arg(short = 'b', long)]
    branch_any: bool,
    /// The last branches before each sample: any, any_call, any_ret, ind_call, cond, …, with u or k for one side
    #[arg(short = 'j', long, value_name = "LIST", value_parser = recorder::parse_branches, conflicts_with = "branch_any")]
    branch_filter: Option<BranchSampleFormat>,
    /// Also where threads wait: each switch between threads, with the stack of the one that leaves its CPU (prof flame
    /// --off-cpu draws it)
    #[arg(long, conflicts_with_all = ["overwrite", "switch_output", "all_user", "all_kernel"])]
    pub off_cpu: bool,
    /// When threads are switched in and out
    #[arg(long)]
    switch_events: bool,
    /// The namespaces of processes
    #[arg(long)]
    namespaces: bool,
    /// The cgroup of each sample
    #[arg(long)]
    all_cgroups: bool,
    /// The page size of each sample's data address
    #[arg(long)]
    data_page_size: bool,
    /// The page size of each sample's instruction
    #[arg(long)]
    code_page_size: bool,
}

impl AdditionalDataArguments {
    /// Returns the extras that were asked for.
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
