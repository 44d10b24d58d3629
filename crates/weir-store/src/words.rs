//! What a store answers when it refuses, read for decisions: its code, and what comes with some codes. All
//! have XML for that; Google's JSON interface has its own form.

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
        if text.trim_start().starts_with('{') {
            return StoreWords::of_json(text);
        }
        let start = text.find("<Error")?;
        // An `<Error>` within another answer is of a part of it.
        let is_outermost = text[..start].trim_start_matches('\u{feff}').trim();
        let is_outermost =
            is_outermost.is_empty() || is_outermost.starts_with("<?xml") && !is_outermost[2..].contains('<');
        let words: StoreWords = is_outermost.then(|| de::from_str(&text[start..]).ok())??;
        (!words.code.is_empty()).then_some(words)
    }

    /// `{"error": {"message": "...", "errors": [{"reason": "conditionNotMet"}]}}`.
    fn of_json(text: &str) -> Option<StoreWords> {
        #[derive(Deserialize)]
        struct Answer {
            error: Failure,
        }
        #[derive(Deserialize)]
        struct Failure {
            #[serde(default)]
            message: Option<String>,
            errors: Vec<Detail>,
        }
        #[derive(Deserialize)]
        struct Detail {
            reason: String,
        }
        // It stands first, and a list of objects is not read for it.
        let is_error = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).take(8).eq(*b"{\"error\"");
        let Answer { error } = is_error.then(|| serde_json::from_str(text).ok())??;
        let code = error.errors.into_iter().next()?.reason;
        let message = error.message.unwrap_or_default();
        (!code.is_empty()).then_some(StoreWords { code, message, ..StoreWords::default() })
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
        let body = b"{\n \"error\": {\"code\": 412, \"message\": \"m\", \"errors\": [{\"reason\": \"conditionNotMet\"}]}}";
        let words = StoreWords::of(body).unwrap();
        assert_eq!((words.code.as_str(), words.message.as_str()), ("conditionNotMet", "m"));
        for body in [
            &b"{\"items\": []}"[..],
            b"{\"error\": \"x\"}",
            b"",
            b"<DeleteResult><Error><Code>A</Code></Error></DeleteResult>",
            b"<Error>",
            b"\xff",
        ] {
            assert_eq!(StoreWords::of(body), None);
        }
    }
}
