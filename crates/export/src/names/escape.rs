//! Escapes text for XML and HTML, and restores it.

use std::borrow::Cow;

const ENTITIES: [(&str, char); 5] =
    [("&lt;", '<'), ("&gt;", '>'), ("&apos;", '\''), ("&quot;", '"'), ("&amp;", '&')];

/// Returns the text of an element or attribute with its entities resolved.
pub(crate) fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let entity = ENTITIES.iter().find(|(entity, _)| rest.starts_with(entity));
        let (entity, character) = entity.copied().unwrap_or(("&", '&'));
        plain.push(character);
        rest = &rest[entity.len()..];
    }
    Cow::Owned(plain + rest)
}

/// Escapes text for an element or attribute.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['<', '>', '&', '\'', '"']) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match ENTITIES.iter().find(|(_, plain)| *plain == character) {
            Some((entity, _)) => escaped.push_str(entity),
            None => escaped.push(character),
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_read_back() {
        for text in ["", "a", "<&>\"'", "&amp;", "&&lt;"] {
            assert_eq!(unescaped(&escape(text)), text);
        }
        assert_eq!(escape("a<b>&'\""), "a&lt;b&gt;&amp;&apos;&quot;");
        assert_eq!(unescaped("a & b &lt"), "a & b &lt");
    }
}
