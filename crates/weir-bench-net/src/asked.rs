//! What a client asks for that wants requests and responses, and what each end tells of its part in them.

use std::time::Duration;

use serde_json::{Value, json};

use crate::frame::count;
use crate::refused::Refused;

/// The largest request and response.
pub const MOST_SIZE: u32 = 1 << 20;

/// What a transaction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A request and its response, again and again over one connection (netperf's TCP_RR).
    Exchange,
    /// A connection, a request, its response, and the connection's end (netperf's TCP_CRR).
    Connect,
}

/// What a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// What a transaction is.
    pub kind: Kind,
    /// Bytes of a request.
    pub request: u32,
    /// Bytes of a response.
    pub response: u32,
}

impl Kind {
    /// `rr` or `crr`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Exchange => "rr",
            Kind::Connect => "crr",
        }
    }
}

impl Asked {
    /// Reads the member of a client's parameters. One of an unknown kind is as if it were not there, so that
    /// the client learns it.
    pub fn parse(value: &Value) -> Result<Option<Asked>, Refused> {
        let kind = match value.get("kind").and_then(Value::as_str) {
            Some("rr") => Kind::Exchange,
            Some("crr") => Kind::Connect,
            _ => return Ok(None),
        };
        let size = |name: &'static str| {
            let value = value.get(name).and_then(count).unwrap_or(1);
            let bounded = u32::try_from(value).ok().filter(|size| (1..=MOST_SIZE).contains(size));
            bounded.ok_or(Refused::Bound { name, value, least: 1, most: MOST_SIZE.into() })
        };
        Ok(Some(Asked { kind, request: size("request")?, response: size("response")? }))
    }

    /// As the client sends it.
    pub fn to_json(&self) -> Value {
        json!({ "kind": self.kind.name(), "request": self.request, "response": self.response })
    }

    /// Bytes of one transaction.
    pub fn bytes(&self) -> u64 {
        u64::from(self.request) + u64::from(self.response)
    }
}

/// What an end tells of its part, at the end.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Part {
    /// Whole transactions.
    pub transactions: u64,
    /// Processor time of the threads that made or answered them.
    pub cpu: Duration,
}

impl Part {
    /// Reads a peer's; `None` for what cannot be one.
    pub fn parse(value: &Value) -> Option<Part> {
        let cpu = value.get("cpu_seconds").and_then(Value::as_f64)?;
        // A peer may claim an infinite or a negative time.
        let cpu = Duration::try_from_secs_f64(cpu).ok()?;
        Some(Part { transactions: value.get("transactions").and_then(count)?, cpu })
    }

    /// As it is told.
    pub fn to_json(&self) -> Value {
        json!({ "transactions": self.transactions, "cpu_seconds": self.cpu.as_secs_f64() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_asked_has_bounds() {
        let asked = Asked { kind: Kind::Connect, request: 200, response: 30_000 };
        assert_eq!(Asked::parse(&asked.to_json()), Ok(Some(asked)));
        assert_eq!(Asked::parse(&json!({ "kind": "udp_rr" })), Ok(None));
        assert_eq!(Asked::parse(&json!("rr")), Ok(None));
        for (name, size) in
            [("request", json!(0)), ("response", json!(MOST_SIZE + 1)), ("request", json!(1e18))]
        {
            let refused = Asked::parse(&json!({ "kind": "rr", name: size })).unwrap_err();
            assert!(refused.to_string().contains(name), "{refused}");
        }
    }

    #[test]
    fn times_that_cannot_be_are_none() {
        for cpu in [json!(-1), json!(1e300), json!("1"), json!(null)] {
            assert_eq!(Part::parse(&json!({ "transactions": 1, "cpu_seconds": cpu })), None, "{cpu}");
        }
        assert_eq!(Part::parse(&json!({ "transactions": -1, "cpu_seconds": 1 })), None);
    }

    proptest! {
        #[test]
        fn a_part_survives_the_wire(transactions in 0..1_u64 << 53, micros in 0..1_u64 << 40) {
            let part = Part { transactions, cpu: Duration::from_micros(micros) };
            let back = Part::parse(&part.to_json()).unwrap();
            prop_assert_eq!(back.transactions, transactions);
            prop_assert!(back.cpu.abs_diff(part.cpu) < Duration::from_micros(1));
        }
    }
}
