//! What refusals of all stores have in common.

use std::time::{Duration, SystemTime};

use weir_get::GetError;
use weir_http::head::ResponseHead;
use weir_units::human_duration;

use crate::error::StoreError;

/// As whoever speaks for a request has to say it.
pub fn as_get_error(error: StoreError) -> GetError {
    match error {
        StoreError::Http(error) => error,
        StoreError::Answered { answer, .. } if answer.is_for_later() => *answer,
        StoreError::Credentials(words) => GetError::Credentials(words),
        other => GetError::Refused(other.to_string()),
    }
}

/// Clocks that are no farther apart are not why a request is too old: stores take those of a quarter of an
/// hour ago.
const CLOSE: Duration = Duration::from_secs(300);

/// How far this host's clock is from the store's, which has the time in the head of its answer.
pub fn skew(head: &ResponseHead, now: SystemTime) -> Option<String> {
    let theirs = httpdate::parse_http_date(head.header("date")?).ok()?;
    let (apart, how) = match now.duration_since(theirs) {
        Ok(ahead) => (ahead, "ahead of"),
        Err(behind) => (behind.duration(), "behind"),
    };
    if apart < CLOSE {
        let agrees =
            "this host's clock agrees with the store's; something between them delays or changes requests";
        return Some(agrees.to_owned());
    }
    Some(format!("this host's clock is {} {how} the store's; set it", human_duration(apart)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_blamed_only_where_it_is_off() {
        let text = b"HTTP/1.1 403 Forbidden\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n";
        let head = weir_http::head::parse_response_to("GET", text).unwrap().unwrap().0;
        let theirs = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        for (now, says) in [
            (theirs + Duration::from_millis(816), "agrees with the store's"),
            (theirs - Duration::from_secs(200), "agrees with the store's"),
            (
                theirs + Duration::from_secs(3600),
                "this host's clock is 60 min 00 s ahead of the store's; set it",
            ),
            (
                theirs - Duration::from_secs(7200),
                "this host's clock is 2 h 00 min behind the store's; set it",
            ),
        ] {
            let said = skew(&head, now).unwrap();
            assert!(said.contains(says), "{said}");
        }
    }
}
