//! Object files: from what a recording says of one to its bytes, and to the files with its debug information.
//!
//! Nothing is taken on trust: a file counts as the recorded one by its build id, a debug file by its build id or
//! checksum. What was found and rejected is told.

mod bytes;
mod debug_files;
mod image;
mod mapped;
mod search;
mod store;

pub(crate) use bytes::open_opened;
pub use bytes::{HostObject, ObjectBytes, open as open_file};
pub use debug_files::DebugFiles;
pub use image::own_vdso;
pub use mapped::build_id_of_mapping;
pub use search::SearchPaths;
pub use store::{Limits, ObjectStore};
