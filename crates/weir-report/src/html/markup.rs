//! The one way text gets into a page: every text and every attribute's value is escaped here, and tags,
//! attribute names and the page's own style are constants of this program. There is no way to hand it markup
//! made at run time.

use weir_units::push_html;

use crate::escape::escape;

/// Attributes: names are ours, values may be anyone's.
pub type Attributes<'a> = &'a [(&'static str, &'a str)];

/// A page that grows.
#[derive(Debug, Default)]
pub struct Markup {
    text: String,
    ids: usize,
}

impl Markup {
    /// An element with what `inside` puts into it.
    pub fn within(
        &mut self,
        tag: &'static str,
        attributes: Attributes<'_>,
        inside: impl FnOnce(&mut Markup),
    ) {
        self.open(tag, attributes);
        inside(self);
        self.text.push_str("</");
        self.text.push_str(tag);
        self.text.push('>');
        if is_block(tag) {
            self.text.push('\n');
        }
    }

    /// An element with a text.
    pub fn leaf(&mut self, tag: &'static str, attributes: Attributes<'_>, text: &str) {
        self.within(tag, attributes, |inside| inside.text(text));
    }

    /// An element that has no inside: `meta`, or one of a picture's.
    pub fn empty(&mut self, tag: &'static str, attributes: Attributes<'_>) {
        match tag {
            "meta" | "br" | "hr" => self.open(tag, attributes),
            _ => self.within(tag, attributes, |_| ()),
        }
    }

    /// Text between tags.
    pub fn text(&mut self, text: &str) {
        push_escaped(&mut self.text, text);
    }

    /// A text of this program's own, as it is: the style sheet, the document type.
    pub fn fixed(&mut self, text: &'static str) {
        self.text.push_str(text);
    }

    /// A name that no other element of the page has.
    pub(crate) fn fresh_id(&mut self) -> String {
        self.ids += 1;
        format!("n{}", self.ids)
    }

    /// A piece that is written first and put in later, where it turns out not to be empty. Its names go on
    /// from these.
    pub fn nested(&self) -> Markup {
        Markup { text: String::new(), ids: self.ids }
    }

    /// Nothing was written.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Puts a piece in that [`Markup::nested`] began.
    pub(crate) fn rejoin(&mut self, piece: Markup) {
        self.text.push_str(&piece.text);
        self.ids = self.ids.max(piece.ids);
    }

    /// What was written.
    pub(crate) fn into_text(self) -> String {
        self.text
    }

    fn open(&mut self, tag: &'static str, attributes: Attributes<'_>) {
        self.text.push('<');
        self.text.push_str(tag);
        for (name, value) in attributes {
            self.text.push(' ');
            self.text.push_str(name);
            self.text.push_str("=\"");
            push_escaped(&mut self.text, value);
            self.text.push('"');
        }
        self.text.push('>');
    }
}

/// Lines end where it does no harm to a text.
fn is_block(tag: &str) -> bool {
    matches!(
        tag,
        "section"
            | "article"
            | "header"
            | "main"
            | "footer"
            | "p"
            | "li"
            | "tr"
            | "h1"
            | "h2"
            | "h3"
            | "figure"
            | "svg"
            | "table"
    )
}

/// Safe between tags and between either kind of quotes; what would move a cursor or turn the writing around
/// is written out.
fn push_escaped(out: &mut String, text: &str) {
    push_html(out, &escape(text));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_and_attributes_come_out_inert() {
        let mut page = Markup::default();
        page.leaf("p", &[("title", "\" onload=\"x")], "<script>alert('1')</script>\u{202e}");
        assert_eq!(
            page.into_text(),
            "<p title=\"&quot; onload=&quot;x\">&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;\\u{202e}</p>\n"
        );
    }

    proptest! {
        #[test]
        fn no_bracket_and_no_quote_of_a_text_survives(text in "(?s).*", hostile in "[<>\"'&=/ a-z]{0,40}") {
            for text in [text, hostile] {
                let mut escaped = String::new();
                push_escaped(&mut escaped, &text);
                prop_assert!(!escaped.contains(['<', '>', '"', '\'']), "{escaped}");
                prop_assert!(escaped.matches('&').count() == escaped.matches(';').count() - text.matches(';').count() || text.contains(';'));
                prop_assert!(!escaped.chars().any(char::is_control));
            }
        }
    }
}
