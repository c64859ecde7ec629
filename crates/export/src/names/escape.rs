//! Escapes text for XML and HTML, and restores it.

use std::borrow::Cow;

pub(crate) use quick_xml::escape::escape;

/// Returns the text of an element or attribute with its entities resolved, or as it is if one is none of XML's.
pub(crate) fn unescaped(text: &str) -> Cow<'_, str> {
    quick_xml::escape::unescape(text).unwrap_or(Cow::Borrowed(text))
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
