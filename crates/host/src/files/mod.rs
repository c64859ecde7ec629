//! The one door through which results leave: recordings, pictures, texts, what a cache keeps.
//!
//! Whoever profiles may be root, in a folder that others can write to. So a path is walked once, a component at a time
//! (`folder`); links are followed only where nobody else can have put them there (`trust`); the last component is
//! judged by its descriptor and never followed (`destination`); and all that comes later (temporary names, the name,
//! `.old`) happens within the open folder (`new_file`), whatever has become of the path meanwhile. None of this relies on
//! `fs.protected_symlinks`, `_hardlinks`, `_fifos` or `_regular`.

mod destination;
mod folder;
mod new_file;
mod series;
mod socket;
mod trust;

pub use destination::{Destination, DestinationError, DestinationKind, NameInFolder, open_pipe_read_write};
pub use new_file::NewFile;
pub use series::FileSeries;
pub use socket::{CommandSocket, connect_to_recording};

pub(crate) use folder::make_folders;
