//! How long a server wants to be left alone.
//!
//! * `Retry-After` (RFC 9110 section 10.2.3): seconds or a date.
//! * `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers, versions 8 and later):
//!   `"default";r=50;t=30` and `"default";q=100;w=60`.
//! * Version 7 of that draft: `limit=100, remaining=50, reset=30`.
//! * Older ones: `RateLimit-Remaining` and `RateLimit-Reset`, and the same with `X-`.
//!
//! A date counts from the answer's own `Date`, so that a client whose clock is wrong waits as long as the
//! server means. Which wait is too long the caller decides; [`MAX_WAIT`] only keeps the numbers within what a
//! clock can add.

use std::time::{Duration, SystemTime};

use crate::fields::Fields;
use crate::grammar::{self, MAX_VALUE, parse_saturating};

/// The longest wait that is told from a longer one: ten years.
pub const MAX_WAIT: Duration = Duration::from_secs(3650 * 86_400);

/// What is left of a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// How many requests may still be sent; draft section 4 counts quota units, which are requests with most
    /// servers.
    pub remaining: u64,
    /// In what time more become available; at most [`MAX_WAIT`].
    pub reset: Option<Duration>,
}

/// A quota that a server declares: at most `quota` requests in `window`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// How many.
    pub quota: u64,
    /// In how long; not capped, since it is no wait.
    pub window: Option<Duration>,
}

/// The wait that an answer asks for: that of `Retry-After`, else until the reset of a quota with nothing
/// left.
pub fn wait(fields: &Fields, now: SystemTime) -> Option<Duration> {
    retry_after(fields, now).or_else(|| {
        let limit = rate_limit(fields, now)?;
        if limit.remaining == 0 { limit.reset } else { None }
    })
}

/// `Retry-After`; a date in the past is no wait. Of several fields the longest counts: it is the one that
/// offends nobody.
pub fn retry_after(fields: &Fields, now: SystemTime) -> Option<Duration> {
    let base = fields.header("date").and_then(grammar::parse_date).unwrap_or(now);
    let values = fields.headers_all("retry-after").filter(|value| value.len() <= MAX_VALUE);
    let wait = |value: &str| match parse_saturating(value) {
        Some(seconds) => Some(capped(seconds)),
        None => {
            let then = grammar::parse_date(value)?;
            Some(then.duration_since(base).unwrap_or_default().min(MAX_WAIT))
        }
    };
    values.filter_map(wait).max()
}

/// The quota with the least left, from the newest kind of field that is there.
pub fn rate_limit(fields: &Fields, now: SystemTime) -> Option<RateLimit> {
    let structured = fields.members("ratelimit").filter_map(structured_limit);
    structured
        .min_by_key(|limit| (limit.remaining, std::cmp::Reverse(limit.reset)))
        .or_else(|| draft_7(fields))
        .or_else(|| pair(fields, "ratelimit-remaining", "ratelimit-reset", now))
        .or_else(|| pair(fields, "x-ratelimit-remaining", "x-ratelimit-reset", now))
        .or_else(|| pair(fields, "x-rate-limit-remaining", "x-rate-limit-reset", now))
}

/// The quotas of `RateLimit-Policy`; malformed ones are left out.
pub fn policies(fields: &Fields) -> Vec<Policy> {
    let policy = |member| {
        let quota = integer(member, "q")?;
        Some(Policy { quota, window: integer(member, "w").map(Duration::from_secs) })
    };
    fields.members("ratelimit-policy").filter_map(policy).collect()
}

fn structured_limit(member: &str) -> Option<RateLimit> {
    Some(RateLimit { remaining: integer(member, "r")?, reset: integer(member, "t").map(capped) })
}

/// An integer parameter of a structured-field item (RFC 9651 section 3.1.2): `"name";key=5`.
fn integer(member: &str, key: &str) -> Option<u64> {
    let parameters = grammar::split(member, ';').skip(1).map(grammar::parameter);
    let value = parameters.filter(|(name, _)| *name == key).last()?.1?;
    parse_saturating(value)
}

fn draft_7(fields: &Fields) -> Option<RateLimit> {
    let value = |key: &str| {
        let mut members = fields.members("ratelimit").map(grammar::parameter);
        members.find(|(name, _)| *name == key).and_then(|(_, value)| parse_saturating(value?))
    };
    Some(RateLimit { remaining: value("remaining")?, reset: value("reset").map(capped) })
}

fn pair(fields: &Fields, remaining: &str, reset: &str, now: SystemTime) -> Option<RateLimit> {
    // Some servers write "50, 50;w=60": the first number is what is left.
    let first = |name: &str| {
        let member = fields.members(name).next();
        member.and_then(|member| grammar::split(member, ';').next()).and_then(whole_seconds)
    };
    let remaining = first(remaining)?;
    Some(RateLimit { remaining, reset: first(reset).map(|reset| until(reset, now)) })
}

/// Seconds, perhaps with a fraction, rounded up.
fn whole_seconds(text: &str) -> Option<u64> {
    match text.split_once('.') {
        None => parse_saturating(text),
        Some((whole, fraction)) => {
            let more = parse_saturating(fraction)? > 0;
            Some(parse_saturating(whole)?.saturating_add(u64::from(more)))
        }
    }
}

/// A reset is seconds from now, or with many servers (GitHub) seconds since 1970, or with some milliseconds
/// since then. 10^9 seconds are 31 years of waiting but the year 2001; 10^12 seconds are the year 33658.
fn until(reset: u64, now: SystemTime) -> Duration {
    let since_epoch = match reset {
        0..1_000_000_000 => return capped(reset),
        1_000_000_000..1_000_000_000_000 => Duration::from_secs(reset),
        _ => Duration::from_millis(reset),
    };
    let then = SystemTime::UNIX_EPOCH.checked_add(since_epoch);
    then.map_or(MAX_WAIT, |then| then.duration_since(now).unwrap_or_default().min(MAX_WAIT))
}

fn capped(seconds: u64) -> Duration {
    Duration::from_secs(seconds).min(MAX_WAIT)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 1 700 000 000 seconds after 1970.
    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)
    }

    fn seconds(wait: Option<Duration>) -> Option<u64> {
        wait.map(|wait| wait.as_secs())
    }

    #[test]
    fn seconds_or_a_date() {
        for (value, expected) in [
            ("120", Some(120)),
            ("0", Some(0)),
            ("86400", Some(86_400)),
            ("99999999999999999999999", Some(MAX_WAIT.as_secs())),
            ("Tue, 14 Nov 2023 22:13:50 GMT", Some(30)),
            ("Tue, 14 Nov 2023 22:13:10 GMT", Some(0)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(MAX_WAIT.as_secs())),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
        ] {
            assert_eq!(
                seconds(retry_after(&Fields::from([("Retry-After", value)]), now())),
                expected,
                "{value}"
            );
        }
    }

    #[test]
    fn a_date_counts_from_the_server_s_own() {
        let date = ("Date", "Tue, 14 Nov 2023 10:00:00 GMT");
        let fields = Fields::from([date, ("Retry-After", "Tue, 14 Nov 2023 10:00:07 GMT")]);
        assert_eq!(seconds(retry_after(&fields, now())), Some(7));
    }

    #[test]
    fn of_several_the_longest_counts() {
        let fields = Fields::from([("Retry-After", "5"), ("Retry-After", "soon"), ("Retry-After", "9")]);
        assert_eq!(seconds(retry_after(&fields, now())), Some(9));
    }

    #[test]
    fn every_generation_of_rate_limits() {
        for fields in [
            Fields::from([("RateLimit", "\"default\";r=0;t=30")]),
            Fields::from([("RateLimit", "\"a\";r=9;t=1, \"b\";t=30;r=0")]),
            Fields::from([("RateLimit", "limit=100, remaining=0, reset=30")]),
            Fields::from([("RateLimit-Remaining", "0"), ("RateLimit-Reset", "30")]),
            Fields::from([("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", "29.5")]),
            Fields::from([("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", "1700000030")]),
            Fields::from([("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", "1700000030000")]),
            Fields::from([("X-Rate-Limit-Remaining", "0"), ("X-Rate-Limit-Reset", "30")]),
        ] {
            assert_eq!(seconds(wait(&fields, now())), Some(30), "{fields:?}");
        }
        let some_left = Fields::from([("RateLimit", "\"default\";r=5;t=30")]);
        assert_eq!(rate_limit(&some_left, now()).unwrap().remaining, 5);
        assert_eq!(wait(&some_left, now()), None);
        let both = Fields::from([("RateLimit", "\"default\";r=0;t=30"), ("Retry-After", "7")]);
        assert_eq!(seconds(wait(&both, now())), Some(7));
    }

    #[test]
    fn declared_policies() {
        let fields = Fields::from([("RateLimit-Policy", "\"burst\";q=100;w=60, \"daily\";q=1000, junk")]);
        assert_eq!(
            policies(&fields),
            [
                Policy { quota: 100, window: Some(Duration::from_secs(60)) },
                Policy { quota: 1000, window: None }
            ]
        );
    }

    proptest! {
        #[test]
        fn never_panics_and_never_waits_long(value in "(\"a\";)?[rtqw]?=?[0-9.;,=rt]{0,30}|\\PC*") {
            for name in ["Retry-After", "RateLimit", "X-RateLimit-Reset", "RateLimit-Policy"] {
                let fields = Fields::from([(name, value.as_str()), ("X-RateLimit-Remaining", "0")]);
                prop_assert!(wait(&fields, now()).unwrap_or_default() <= MAX_WAIT);
                policies(&fields);
            }
        }

        #[test]
        fn print_parse(seconds in 0u64..=3600) {
            let date = httpdate::fmt_http_date(now() + Duration::from_secs(seconds));
            for value in [seconds.to_string(), date] {
                let fields = Fields::from([("Retry-After", value.as_str())]);
                prop_assert_eq!(retry_after(&fields, now()), Some(Duration::from_secs(seconds)));
            }
        }
    }
}
