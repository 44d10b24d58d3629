//! Answers of stores in XML: errors, and pages of a list, whose keys begin with what was asked for.

use weir_store::listing::ListAsk;
use weir_store::s3::read_page;
use weir_store::words::StoreWords;
use weir_store::xml;

use crate::Input;

/// Deeper than any element that is told of.
const DEEP: usize = 16;

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    let mut input = Input(bytes);
    let (versions, prefix) = (input.byte() & 1 == 1, input.text());
    let body = input.rest();
    let mut understood = false;
    if let Some(words) = StoreWords::of(body) {
        assert!(!words.code.is_empty());
        understood = true;
    }
    let mut ended = 0_usize;
    let read = xml::each(body, |path, text| {
        assert!((1..=DEEP).contains(&path.len()));
        assert!(text.len() <= body.len());
        ended += 1;
    });
    // Each element that ends has at least its name in brackets.
    assert!(ended * 4 <= body.len().max(4), "{ended} elements in {} bytes", body.len());
    for ask in [
        ListAsk { prefix: &prefix, versions, ..ListAsk::default() },
        ListAsk { prefix: &prefix, delimiter: Some("/"), versions, ..ListAsk::default() },
    ] {
        if let Ok(page) = read_page(body, &ask) {
            assert!(read.is_ok());
            let keys = page.objects.iter().map(|object| &object.key).chain(&page.prefixes);
            assert!(keys.into_iter().all(|key| key.starts_with(&*prefix)));
            assert!(page.next.is_none_or(|token| !token.is_empty()));
            assert!(page.objects.len() <= body.len());
            understood = true;
        }
    }
    let text = String::from_utf8_lossy(body);
    let escaped = xml::escaped(&text);
    let mut back = String::new();
    let is_xml = xml::each(format!("<L>{escaped}</L>").as_bytes(), |_, text| text.clone_into(&mut back));
    // Some letters have no form in XML.
    assert!(
        is_xml.is_err() || back == text || text.contains(char::is_control),
        "{text:?} came back as {back:?}"
    );
    understood
}
