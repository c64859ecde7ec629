//! Names of frames and functions as text: whole, shortened, and made safe for the formats that carry them.

pub(crate) mod escape;
mod frame_name;
mod safe_label;
mod short_name;
mod shown_names;

pub use frame_name::frame_name;
pub(crate) use frame_name::plain_name;
pub use safe_label::{printable, safe_label};
pub(crate) use short_name::FunctionName;
pub use shown_names::{ShownNames, fit_name};
