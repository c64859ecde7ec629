//! What prof writes into a recording so that it can be read without the recorded files: names, code, and placements of generated
//! code.

pub mod archive;
pub mod ephemeral_names;
pub mod jit_placements;
mod previous_chain;
pub(crate) mod sections;
