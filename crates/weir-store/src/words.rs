//! What a store answers in XML when it refuses, read for decisions: its code, and what comes with some codes.

use quick_xml::de;
use serde::Deserialize;

/// An error of a store. Of those who say less the rest is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct StoreWords {
    /// `NoSuchKey`, `SlowDown`.
    pub code: String,
    /// In words.
    pub message: String,
    /// Where the bucket is, with `PermanentRedirect`, `AuthorizationHeaderMalformed`.
    pub region: Option<String>,
    /// As above, a host.
    pub endpoint: Option<String>,
    /// The store's clock, with `RequestTimeTooSkewed`.
    pub server_time: Option<String>,
}

impl StoreWords {
    /// Those of the body of an answer, whatever its status: some errors come with 200.
    pub fn of(body: &[u8]) -> Option<StoreWords> {
        let text = std::str::from_utf8(body).ok()?;
        let start = text.find("<Error")?;
        // An `<Error>` within another answer is of a part of it.
        let is_outermost = text[..start].trim_start_matches('\u{feff}').trim();
        let is_outermost =
            is_outermost.is_empty() || is_outermost.starts_with("<?xml") && !is_outermost[2..].contains('<');
        let words: StoreWords = is_outermost.then(|| de::from_str(&text[start..]).ok())??;
        (!words.code.is_empty()).then_some(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_read_and_nothing_else() {
        let body =
            b"<?xml version=\"1.0\"?>\n<Error><Code>SlowDown</Code><Message>Please &amp; wait</Message>\
                     <Odd><A/></Odd></Error>";
        let words = StoreWords::of(body).unwrap();
        assert_eq!((words.code.as_str(), words.message.as_str()), ("SlowDown", "Please & wait"));
        for body in
            [&b""[..], b"<DeleteResult><Error><Code>A</Code></Error></DeleteResult>", b"<Error>", b"\xff"]
        {
            assert_eq!(StoreWords::of(body), None);
        }
    }
}
