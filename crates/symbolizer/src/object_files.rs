//! The files that describe one object.

use elf::Object;

/// Maximum number of functions kept of an object, in the order of its files. Chromium has 1.5 million.
pub(crate) const MAX_SYMBOLS: usize = 1 << 22;

/// The files that describe one object. All but the first are optional. The caller has to check that they belong to
/// the object.
pub struct ObjectFiles<'a, D> {
    /// The object that was mapped.
    pub object: &'a Object<D>,
    /// Its separate debug file (build-id folder, `.gnu_debuglink`, debuginfod).
    pub debug: Option<&'a Object<D>>,
    /// The object in its `.gnu_debugdata`: see [`crate::minidebug`].
    pub minidebug: Option<&'a Object<D>>,
    /// The file that `.gnu_debugaltlink` (of the debug file, else of the object) names.
    pub supplementary: Option<&'a Object<D>>,
    /// The package that holds its split units (`.dwp`).
    pub package: Option<&'a Object<D>>,
}

impl<'a, D: AsRef<[u8]>> ObjectFiles<'a, D> {
    /// Returns the number to add to an address of `file` to get the address in the object. It is not 0 where
    /// prelink(8) moved the object after `file` was split off.
    pub(crate) fn bias_of(&self, file: &Object<D>) -> u64 {
        match (self.object.section(".text"), file.section(".text")) {
            (Some(text), Some(file_text)) => text.address.0.wrapping_sub(file_text.address.0),
            _ => 0,
        }
    }
}
