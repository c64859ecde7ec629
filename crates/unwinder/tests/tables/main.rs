//! Tables made by hand: what compilers of other architectures write, and what nobody should.

mod aarch64;
mod generated;
mod hostile;
mod made;
mod remembered;
mod x86_64;
