//! Requests as `weir serve` meets them: heads of HTTP/1, targets, authorities, what HTTP/2 brings in their
//! place.

use weir_http::request::{self, Refusal};
use weir_http::{Fields, Framing, RequestTarget, authority, head, request_target};

fn plain(target: &RequestTarget) {
    let RequestTarget::Path(Some(path)) = target else { return };
    assert!(!path.bytes.starts_with(b"/") && !path.bytes.ends_with(b"/") && !path.bytes.contains(&0));
    let mut components = path.bytes.split(|byte| *byte == b'/');
    assert!(path.bytes.is_empty() || components.all(|name| !matches!(name, b"" | b"." | b"..")));
}

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    let mut understood = false;
    match head::parse_request(bytes) {
        Ok(Some((head, end))) => {
            assert!(end <= bytes.len() && end <= head::MAX_HEAD);
            let _ = head.keeps_connection();
            if let Ok(target) = request::check(&head) {
                plain(&target);
                understood = true;
                let hosts: Vec<&str> = head.headers_all("host").collect();
                assert!(hosts.len() == 1 || (hosts.is_empty() && head.minor == 0));
                assert!(hosts.iter().all(|host| authority::is_valid(host)));
                let framed = head.headers_all("content-length").count()
                    + head.headers_all("transfer-encoding").count();
                match head.framing() {
                    Ok(Framing::None) => assert_eq!(framed, 0),
                    Ok(Framing::Length(_) | Framing::Chunked) => assert_eq!(framed, 1),
                    other => panic!("{other:?}"),
                }
            }
        }
        Ok(None) => {}
        Err(error) => assert!(matches!(Refusal::from(&error).status, 400 | 431 | 501)),
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return understood };
    if let Some(target) = request_target::parse(text) {
        plain(&target);
    }
    if authority::is_valid(text) {
        assert!(text.bytes().all(|byte| byte.is_ascii_graphic() && !b"/?#@\\".contains(&byte)));
    }
    let mut parts = text.split('\n');
    let mut part = || parts.next().unwrap_or_default();
    let (method, path, named) = (part(), part(), part());
    let mut fields = Fields::new();
    for line in parts {
        let _ = fields.push_line(line);
    }
    if let Ok(target) = request::check_http2(method, Some(named), path, &fields) {
        plain(&target);
        assert!(authority::is_valid(named));
        understood = true;
    }
    understood
}
