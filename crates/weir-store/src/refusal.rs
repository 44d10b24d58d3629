//! What refusals of all stores have in common.

use std::time::SystemTime;

use weir_get::GetError;
use weir_http::head::ResponseHead;
use weir_units::human_duration;

use crate::error::StoreError;

/// As whoever speaks for a request has to say it.
pub fn as_get_error(error: StoreError) -> GetError {
    match error {
        StoreError::Http(error) => error,
        StoreError::Credentials(words) => GetError::Credentials(words),
        other => GetError::Refused(other.to_string()),
    }
}

/// How far this host's clock is from the store's, which has the time in the head of its answer.
pub fn skew(head: &ResponseHead, now: SystemTime) -> Option<String> {
    let theirs = httpdate::parse_http_date(head.header("date")?).ok()?;
    let (apart, how) = match now.duration_since(theirs) {
        Ok(ahead) => (ahead, "ahead of"),
        Err(behind) => (behind.duration(), "behind"),
    };
    Some(format!("this host's clock is {} {how} the store's; set it", human_duration(apart)))
}
