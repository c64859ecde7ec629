//! Names of functions as people read them: short, unless two of a list would read alike, and cut at their outer parts.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use profile::short_name;

/// The names of a list. Those whose short names are equal are shown whole.
#[derive(Clone, Default, Debug)]
pub struct ShownNames {
    alike: BTreeSet<String>,
    are_full: bool,
}

impl ShownNames {
    /// Chooses the names of a list; whole ones if `are_full`.
    pub fn new<'n>(names: impl IntoIterator<Item = &'n str>, are_full: bool) -> Self {
        let mut of_short: BTreeMap<Cow<'_, str>, &str> = BTreeMap::new();
        let mut alike = BTreeSet::new();
        for name in names {
            let short = short_name(name);
            if of_short.get(&short).is_some_and(|other| *other != name) {
                alike.insert(short.clone().into_owned());
            }
            of_short.insert(short, name);
        }
        Self { alike, are_full }
    }

    /// Returns a name of the list as it is shown.
    pub fn of<'n>(&self, name: &'n str) -> Cow<'n, str> {
        match short_name(name) {
            Cow::Owned(short) if !self.are_full && !self.alike.contains(&short) => Cow::Owned(short),
            _ => Cow::Borrowed(name),
        }
    }
}

/// Cuts a name to a number of characters: outer parts of its path first (`…::Attr::visit`, `…Attr.visit`, `…/http.Serve`), then the end of the
/// last one.
pub fn fit_name(name: &str, columns: usize) -> Cow<'_, str> {
    if name.chars().count() <= columns {
        return Cow::Borrowed(name);
    }
    let (mut depth, mut last) = (0_i32, 0);
    for (at, byte) in name.bytes().enumerate() {
        depth += i32::from(b"<([{".contains(&byte)) - i32::from(b">)]}".contains(&byte));
        let rest = name.get(at + usize::from(byte == b'.')..).unwrap_or_default();
        let begins = (matches!(byte, b'.' | b'/') || rest.starts_with("::")) && !rest.is_empty();
        if depth == 0 && at > 0 && begins {
            last = name.len() - rest.len();
            if rest.chars().count() < columns {
                break;
            }
        }
    }
    let rest = name.get(last..).unwrap_or(name);
    let before = if last > 0 { "…" } else { "" };
    let room = columns.saturating_sub(before.chars().count());
    if rest.chars().count() <= room {
        return Cow::Owned(format!("{before}{rest}"));
    }
    Cow::Owned(format!("{before}{}…", rest.chars().take(room.saturating_sub(1)).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_read_alike_are_whole() {
        let (index, deref) = ("<Rows<u8> as Index>::get", "<Rows<u8> as Deref>::get");
        let names = ShownNames::new([index, deref, "<Rows<u8> as Drop>::drop", index], false);
        assert_eq!([names.of(index), names.of(deref)], [index, deref]);
        assert_eq!(names.of("<Rows<u8> as Drop>::drop"), "Rows<u8>::drop");
        assert_eq!(ShownNames::new([index], true).of(index), index);
        assert_eq!(ShownNames::new([index], false).of(index), "Rows<u8>::get");
    }

    #[test]
    fn long_names_lose_their_outer_parts() {
        let name = "com::sun::tools::Attr<a::b>::visit";
        assert_eq!(fit_name(name, 40), name);
        assert_eq!(fit_name(name, 33), "…::sun::tools::Attr<a::b>::visit");
        assert_eq!(fit_name(name, 20), "…::Attr<a::b>::visit");
        assert_eq!(fit_name(name, 12), "…::visit");
        assert_eq!(fit_name(name, 6), "…::vi…");
        assert_eq!(fit_name("pthread_mutex_lock", 10), "pthread_m…");
        assert_eq!(fit_name("void com.sun.tools.Attr.visit(Tree)", 20), "…Attr.visit(Tree)");
        assert_eq!(fit_name("github.com/a/http.(*Server).Serve", 23), "…/http.(*Server).Serve");
        assert_eq!(fit_name("a::b", 0), "……");
    }
}
