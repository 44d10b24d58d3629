//! Heads out of raw bytes, and everything that is asked about a response.

use std::time::SystemTime;

use weir_http::validator::{Agreement, Validators};
use weir_http::{digest_field, encoding, filename, head, retry_after};

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    let mut understood = false;
    if let Ok(Some((response, end))) = head::parse_response(bytes) {
        assert!(end <= bytes.len() && end <= head::MAX_RESPONSE_HEAD);
        let _ = response.framing("GET");
        let _ = response.keeps_connection();
        let _ = response.transfer_codings();
        let _ = digest_field::declarations(response.status, &response.fields);
        let _ = encoding::content_coding(&response.fields);
        let _ = filename::from_header(&response.fields);
        let _ = retry_after::policies(&response.fields);
        let wait = retry_after::wait(&response.fields, SystemTime::UNIX_EPOCH);
        assert!(wait.unwrap_or_default() <= retry_after::MAX_WAIT);
        let validators = Validators::from_fields(&response.fields);
        let proven = validators.agree(&validators) == Agreement::Same;
        assert_eq!(proven, validators.strong().is_some(), "nothing agrees without a strong validator");
        if proven {
            let (etag, last_modified) = (validators.etag(), validators.last_modified());
            assert_eq!(Validators::from_journal(etag, last_modified), validators);
        }
        understood = true;
    }
    if let Ok(Some((request, end))) = head::parse_request(bytes) {
        assert!(end <= bytes.len());
        let _ = request.framing();
    }
    understood
}
