//! Creates all result files: recordings, pictures, texts, cache entries.
//!
//! The profiler may run as root in a folder to which others can write. So a path is resolved once, one component at a time
//! (`folder`). Links are followed only if a trusted user has placed them (`trust`). The last component is checked by its descriptor
//! and never followed (`destination`). All later steps (temporary names, the final name, `.old`) happen in the open folder
//! (`new_file`), even if the path refers to another one by then. None of this relies on `fs.protected_symlinks`, `_hardlinks`,
//! `_fifos` or `_regular`.

mod destination;
mod destination_error;
mod folder;
mod new_file;
mod new_folder;
mod series;
mod socket;
mod trust;

pub use destination::{Destination, DestinationKind, NameInFolder, open_pipe_read_write};
pub use destination_error::DestinationError;
pub use new_file::NewFile;
pub use new_folder::make_new_folder;
pub use series::FileSeries;
pub use socket::{CommandSocket, ConnectError, RecordingConnection};

pub use folder::make_folders;
