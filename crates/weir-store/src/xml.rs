//! Answers in XML, read event by event: of a list of a thousand keys no tree is built.

use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::Event;

/// Deeper than any answer of a store.
const MAX_DEPTH: usize = 16;

/// Why a text is no answer in XML.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadXml {
    /// It ends before its root does: a proxy, or the store, has cut it.
    #[error("ends in the middle, after {0} bytes")]
    Cut(usize),
    /// It is none.
    #[error("is no XML: {0}")]
    Malformed(String),
}

/// Calls `ended` with the local names from the root down and the text of each element as it ends; those
/// within an element end before it.
pub fn each(body: &[u8], mut ended: impl FnMut(&[&str], &str)) -> Result<(), BadXml> {
    let mut reader = Reader::from_reader(body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body));
    reader.config_mut().expand_empty_elements = true;
    let mut open: Vec<(String, String)> = Vec::new();
    let mut is_over = false;
    loop {
        let malformed = |why: &dyn std::fmt::Display| BadXml::Malformed(why.to_string());
        let event = reader.read_event().map_err(|error| match error {
            quick_xml::Error::Syntax(_) => BadXml::Cut(body.len()),
            other => malformed(&other),
        })?;
        match event {
            Event::Start(start) => {
                if open.len() == MAX_DEPTH {
                    return Err(BadXml::Malformed(format!("it is deeper than {MAX_DEPTH} elements")));
                }
                let name = String::from_utf8_lossy(start.local_name().as_ref()).into_owned();
                open.push((name, String::new()));
            }
            Event::Text(text) => push(&mut open, &text.decode().map_err(|error| malformed(&error))?),
            Event::CData(text) => push(&mut open, &text.decode().map_err(|error| malformed(&error))?),
            Event::GeneralRef(entity) => {
                match entity.resolve_char_ref().map_err(|error| malformed(&error))? {
                    Some(char) => push(&mut open, char.encode_utf8(&mut [0; 4])),
                    None => {
                        let name = entity.decode().map_err(|error| malformed(&error))?;
                        let text = resolve_predefined_entity(&name);
                        push(
                            &mut open,
                            text.ok_or_else(|| malformed(&format_args!("unknown entity '{name}'")))?,
                        );
                    }
                }
            }
            Event::End(_) => {
                let names: Vec<&str> = open.iter().map(|(name, _)| name.as_str()).collect();
                ended(&names, open.last().map_or("", |(_, text)| text));
                open.pop();
                is_over |= open.is_empty();
            }
            Event::Eof if is_over && open.is_empty() => return Ok(()),
            Event::Eof => return Err(BadXml::Cut(body.len())),
            _ => {}
        }
    }
}

/// Nothing outside the root counts.
fn push(open: &mut [(String, String)], text: &str) {
    if let Some((_, own)) = open.last_mut() {
        own.push_str(text);
    }
}

/// A text within an element of a request.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            // A reader makes a space or a line feed of them otherwise (XML 1.0 section 2.11).
            '\r' | '\n' | '\t' => out.push_str(&format!("&#{};", u32::from(char))),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<String>, BadXml> {
        let mut seen = Vec::new();
        each(text.as_bytes(), |path, text| seen.push(format!("{}={text}", path.join("/"))))?;
        Ok(seen)
    }

    #[test]
    fn elements_end_with_their_text() {
        let text = "\u{feff}<?xml version=\"1.0\"?>\n<a:L xmlns:a=\"x\"><K>1 &lt;&amp;&#10;<![CDATA[<]]></K><E/></a:L>\n";
        assert_eq!(read(text).unwrap(), ["L/K=1 <&\n<", "L/E=", "L="]);
    }

    #[test]
    fn what_is_cut_or_no_xml_is_told_apart() {
        let whole = "<L><K>a&amp;b</K><E x=\"1\">c</E></L>";
        for end in 0..whole.len() {
            assert!(matches!(read(&whole[..end]), Err(BadXml::Cut(_) | BadXml::Malformed(_))), "{end}");
        }
        assert_eq!(read("<L><K>a</K>"), Err(BadXml::Cut(11)));
        for bad in ["<L></K>", "<L>&odd;</L>", &"<L>".repeat(17), "{\"a\": 1}"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_escaped_comes_back() {
        let odd = "a<b>&c\r\n\td'\"";
        assert_eq!(read(&format!("<L>{}</L>", escaped(odd))).unwrap(), [format!("L={odd}")]);
    }
}
