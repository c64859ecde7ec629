//! Functions by the names that people read (`ns::A::work`): in each mangling, Itanium C++'s, Rust's legacy and v0, each
//! identifier of a path stands in its order, behind its length.

/// Those of `symbols`, with their addresses, that are the likeliest to be the function `readable`, one for each address.
pub(crate) fn likeliest<A: Ord + Copy>(
    symbols: impl Iterator<Item = (String, A)>,
    readable: &str,
) -> Vec<(String, A)> {
    let mut found: Vec<(usize, A, String)> = symbols
        .filter_map(|(mangled, address)| Some((says(&mangled, readable)?, address, mangled)))
        .collect();
    found.sort();
    let least = found.first().map(|(further, ..)| *further);
    found.retain(|(further, ..)| Some(*further) == least);
    found.dedup_by_key(|(_, address, _)| *address);
    found.into_iter().map(|(_, address, mangled)| (mangled, address)).collect()
}

/// Returns true if `mangled` may be the function `readable`: how many identifiers follow the last one of the path (types of
/// parameters, closures), so that the least is the likeliest.
fn says(mangled: &str, readable: &str) -> Option<usize> {
    let mut rest = mangled.strip_prefix("_Z").or_else(|| mangled.strip_prefix("_R"))?;
    // Without parameters, and what a function returns: `int ns::A::twice<int>(int)`.
    let path = readable.split('(').next().unwrap_or(readable);
    let path = path.rsplit(' ').next().unwrap_or(path);
    for part in path.split("::") {
        let identifier = part.split('<').next().unwrap_or(part);
        if identifier.is_empty() || identifier.starts_with(|first: char| first.is_ascii_digit()) {
            return None;
        }
        rest = behind(rest, &format!("{}{identifier}", identifier.len()))?;
    }
    Some(identifiers(rest))
}

/// The text behind `token` in `text`, where it stands by itself: `4work` is not in `14workmanlike_it`.
fn behind<'a>(text: &'a str, token: &str) -> Option<&'a str> {
    text.match_indices(token)
        .find(|(at, _)| {
            !text.get(..*at).is_some_and(|before| before.ends_with(|last: char| last.is_ascii_digit()))
        })
        .and_then(|(at, _)| text.get(at + token.len()..))
}

/// The number of identifiers, but for the hash of Rust's legacy mangling.
fn identifiers(mut text: &str) -> usize {
    let mut count = 0;
    while let Some(at) = text.find(|first: char| first.is_ascii_digit()) {
        let digits = text.get(at..).unwrap_or_default();
        let end = digits.find(|next: char| !next.is_ascii_digit()).unwrap_or(digits.len());
        let (length, rest) = digits.split_at(end);
        let identifier = length.parse().ok().and_then(|length: usize| rest.get(..length));
        count += usize::from(identifier.is_some_and(|name| !(name.len() == 17 && name.starts_with('h'))));
        text = rest.get(identifier.map_or(0, str::len)..).unwrap_or_default();
    }
    count
}

#[cfg(test)]
mod tests {
    use super::says;

    #[test]
    fn paths_are_found_in_each_mangling() {
        for (mangled, readable, further) in [
            ("_ZN2ns1A4workEl", "ns::A::work", Some(0)),
            ("_ZN2ns1A4workEl", "work", Some(0)),
            ("_ZN2ns1A4workEl", "ns::A::work(long)", Some(0)),
            ("_ZN2ns1A4workE3Foo", "A::work", Some(1)),
            ("_ZN2ns1A5twiceIiEET_S2_", "int ns::A::twice<int>(int)", Some(0)),
            ("_ZN1m5inner1B4work17hac5c5266e537b8aeE", "m::inner::B::work", Some(0)),
            (
                "_ZN1m5inner1B4work28_$u7b$$u7b$closure$u7d$$u7d$17hac5c5266e537b8aeE",
                "inner::B::work",
                Some(1),
            ),
            ("_RNvMNtCs1a2b_1m5innerNtB2_1B4work", "m::inner::B::work", Some(0)),
            ("_ZN14workmanlike_itE", "work", None),
            ("_ZN2ns1A4workEl", "A::ns::work", None),
            ("work", "work", None),
            ("_ZN99999999999999999999999aE", "a::", None),
            ("_ZN1a99999999999999999999999bE", "a", Some(0)),
        ] {
            assert_eq!(says(mangled, readable), further, "{mangled} {readable}");
        }
    }
}
