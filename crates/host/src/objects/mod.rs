//! Object files: finds the file of a recorded object, and the files with its debug information.
//!
//! Every file is checked: an object by its build id, a debug file by its build id or checksum. Rejected files are reported with the
//! reason.
//!
//! The recorder reads objects block by block ([`BlockBytes`]), because they may be huge and change at any moment. The symbolizer
//! reads whole sections, and maps the files ([`ObjectBytes`]); changes while a file is mapped are detected.

mod block_cache;
mod bytes;
mod debug_files;
mod image;
mod mapped;
mod recorded_files;
mod retained_files;
mod search;
mod store;

pub use block_cache::{BlockBytes, BlockCache};
#[cfg(feature = "debuginfod")]
pub(crate) use bytes::open_opened;
pub use bytes::{FileBytes, HostObject, ObjectBytes, file_author, open as open_file};
pub use debug_files::DebugFiles;
pub use image::{own_vdso, own_vdso_bytes};
pub use mapped::{FileMapping, FileState, MappedFileReader};
pub use recorded_files::{RecordedFiles, RecordedState};
pub use retained_files::{MAX_ATTEMPTS, MappingLocation, RetainedFiles};
pub use search::SearchPaths;
pub use store::{ObjectLimits, ObjectStore};
