//! Object files: from what a recording says of one to its bytes, and to the files with its debug information.
//!
//! Nothing is taken on trust: a file counts as the recorded one by its build id, a debug file by its build id or
//! checksum. What was found and rejected is told.
//!
//! Whoever records reads objects block by block ([`BlockBytes`]): they may be huge, and change at any moment. Whoever looks for
//! names reads all of some sections, and maps them ([`ObjectBytes`]); a file that changes then is found out.

mod block_cache;
mod bytes;
mod debug_files;
mod image;
mod mapped;
mod retained_files;
mod search;
mod store;

pub use block_cache::{BlockBytes, BlockCache};
#[cfg(feature = "debuginfod")]
pub(crate) use bytes::open_opened;
pub use bytes::{HostObject, ObjectBytes, ObjectSource, open as open_file};
pub use debug_files::DebugFiles;
pub use image::{own_vdso, own_vdso_bytes};
pub use mapped::build_id_of_mapping;
pub use retained_files::{MappingLocation, RetainedFiles};
pub use search::SearchPaths;
pub use store::{ObjectLimits, ObjectStore};
