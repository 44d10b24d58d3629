//! What is asked again and again, in HTTP/2's terms.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Uri};

use crate::error::LoadError;
use crate::request::Request;
use crate::target::Target;

/// Fields that belong to a connection of HTTP/1.1, which HTTP/2 forbids (RFC 9113 section 8.2.2), and Host,
/// which is part of the URL there.
const FOREIGN: [&str; 7] =
    ["connection", "host", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade"];

/// A request, and how many of it may be under way over a connection.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(super) head: http::Request<()>,
    pub(super) body: Option<Bytes>,
    pub(crate) streams: u32,
}

impl Question {
    pub(crate) fn new(request: &Request, target: &Target, streams: u32) -> Result<Question, LoadError> {
        let host = request.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("host"));
        let authority = host.map_or_else(|| target.authority(), |(_, value)| value.clone());
        let uri = Uri::builder()
            .scheme(target.scheme())
            .authority(authority)
            .path_and_query(target.path.as_str())
            .build()
            .map_err(|cause| LoadError::Http2Request(cause.to_string()))?;
        let mut head = http::Request::new(());
        *head.method_mut() = Method::from_bytes(request.method.as_bytes())
            .map_err(|cause| LoadError::Http2Request(cause.to_string()))?;
        *head.uri_mut() = uri;
        *head.version_mut() = http::Version::HTTP_2;
        for (name, value) in &request.fields {
            if FOREIGN.iter().any(|foreign| name.eq_ignore_ascii_case(foreign)) {
                continue;
            }
            let legal = HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_str(value).ok());
            let (name, value) =
                legal.ok_or_else(|| LoadError::Http2Request(format!("field '{name}' has no legal form")))?;
            head.headers_mut().append(name, value);
        }
        let body = request.body.clone().map(Bytes::from);
        if let Some(body) = body.as_ref().filter(|_| !request.names("content-length")) {
            head.headers_mut().insert(http::header::CONTENT_LENGTH, HeaderValue::from(body.len()));
        }
        Ok(Question { head, body, streams })
    }

    /// Whom it asks.
    pub(super) fn authority(&self) -> String {
        self.head.uri().authority().map(ToString::to_string).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_of_http_1_becomes_one_of_http_2() {
        let target = Target::parse("http://h:81/p?q").unwrap();
        let fields = [("Connection", "close"), ("Host", "other"), ("X-A", "b"), ("X-A", "c")];
        let request = Request {
            method: "PUT".to_owned(),
            fields: fields.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            body: Some(b"abc".to_vec()),
            close: false,
        };
        let question = Question::new(&request, &target, 3).unwrap();
        assert_eq!(question.head.uri().to_string(), "http://other/p?q");
        let seen: Vec<String> =
            question.head.headers().iter().map(|(name, value)| format!("{name}: {value:?}")).collect();
        assert_eq!(seen, ["x-a: \"b\"", "x-a: \"c\"", "content-length: \"3\""]);
        let plain = Question::new(&Request::default(), &target, 1).unwrap();
        assert_eq!((plain.head.uri().to_string().as_str(), plain.body), ("http://h:81/p?q", None));
    }
}
