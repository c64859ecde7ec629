//! Finds functions among mangled symbols by their readable names (`ns::A::work`): in all manglings (Itanium C++, Rust's legacy and
//! v0) the identifiers of a path stand in their order, each behind its length.

/// Returns those of `symbols`, with their addresses, that are the likeliest to be the function `readable`; one per address.
pub(crate) fn likeliest<A: Ord + Copy>(
    symbols: impl Iterator<Item = (String, A)>,
    readable: &str,
) -> Vec<(String, A)> {
    let mut found: Vec<(usize, A, String)> = symbols
        .filter_map(|(mangled, address)| {
            Some((identifiers_behind_path(&mangled, readable)?, address, mangled))
        })
        .collect();
    found.sort();
    let least = found.first().map(|(further, ..)| *further);
    found.retain(|(further, ..)| Some(*further) == least);
    found.dedup_by_key(|(_, address, _)| *address);
    found.into_iter().map(|(_, address, mangled)| (mangled, address)).collect()
}

/// Returns the number of identifiers behind those of the path `readable` in `mangled` (types of parameters, closures): the function with
/// the fewest is the likeliest. `None` where `mangled` does not have the path.
fn identifiers_behind_path(mangled: &str, readable: &str) -> Option<usize> {
    let mut rest = mangled.strip_prefix("_Z").or_else(|| mangled.strip_prefix("_R"))?;
    // Without parameters and the type of the result: `int ns::A::twice<int>(int)`.
    let path = readable.split('(').next().unwrap_or(readable);
    let path = path.rsplit(' ').next().unwrap_or(path);
    for part in path.split("::") {
        let identifier = part.split('<').next().unwrap_or(part);
        if identifier.is_empty() || identifier.starts_with(|first: char| first.is_ascii_digit()) {
            return None;
        }
        rest = text_behind(rest, &format!("{}{identifier}", identifier.len()))?;
    }
    Some(identifiers(rest))
}

/// Returns the text behind `token`, where no digit stands before it: `4work` is not in `14workmanlike_it`.
fn text_behind<'a>(text: &'a str, token: &str) -> Option<&'a str> {
    text.match_indices(token)
        .find(|(at, _)| {
            !text.get(..*at).is_some_and(|before| before.ends_with(|last: char| last.is_ascii_digit()))
        })
        .and_then(|(at, _)| text.get(at + token.len()..))
}

/// Returns the number of identifiers in `text`, without the hash of Rust's legacy mangling.
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
    use super::identifiers_behind_path;

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
            assert_eq!(identifiers_behind_path(mangled, readable), further, "{mangled} {readable}");
        }
    }
}
