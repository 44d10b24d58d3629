//! What each end measured: the JSON that ends a test.

use serde_json::{Map, Value, json};

use crate::copies::Copies;
use crate::frame::count;
use crate::ordered::Json;

/// Streams of a peer's results that are read: 128 each way.
const MOST_STREAMS: usize = 256;

/// No count of a peer's results is larger (2^53): a day at 800 Gbit/s, and what a double tells exactly. All
/// streams' sums fit 64 bits.
const MOST_COUNT: u64 = 1 << 53;

/// No time of a peer's results is longer, seconds: a day, what was omitted before it and the graces after it.
const MOST_SECONDS: f64 = 100_000.0;

/// No share of processors is larger, in per cent of one: Linux runs on 8,192 at most.
const MOST_PERCENT: f64 = 819_200.0;

/// One end's results.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Results {
    /// Processor use of that end's program, in per cent of one core.
    pub cpu: CpuUse,
    /// Whether retransmissions were counted; `None` of an end that only receives.
    pub counts_retransmits: Option<bool>,
    /// Its congestion control.
    pub congestion: Option<String>,
    /// Which copies that end made, where it is a weir; iperf3 does not say.
    pub copies: Option<Copies>,
    /// Its own report, where that was asked for.
    pub output: Option<Output>,
    /// Each stream.
    pub streams: Vec<StreamResults>,
}

/// Processor use of a program while it tested, in per cent of one core.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CpuUse {
    /// Both.
    pub total: f64,
    /// In the program.
    pub user: f64,
    /// In the kernel on its behalf.
    pub system: f64,
}

/// A server's report.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// For people.
    Text(String),
    /// iperf3's layout, with its members in the order in which they came.
    Json(Json),
}

/// One stream as one end saw it, without what was omitted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StreamResults {
    /// 1, 3, 4, 5, ...: see [`stream_id`].
    pub id: u32,
    /// Payload sent, or received.
    pub bytes: u64,
    /// Segments sent again; `None` where that end did not send.
    pub retransmits: Option<u64>,
    /// Seconds (UDP, of the receiver).
    pub jitter: f64,
    /// Datagrams lost (UDP, of the receiver).
    pub errors: u64,
    /// Datagrams (UDP).
    pub packets: u64,
    /// Of those omitted.
    pub omitted: Option<Omitted>,
    /// Seconds from the start of the test.
    pub start: Option<f64>,
    /// Seconds from the start of the test.
    pub end: Option<f64>,
}

impl StreamResults {
    /// Datagrams that count and losses among them, of an end that tells what it omitted.
    pub(crate) fn datagrams_without(&self, omitted: Omitted) -> (u64, u64) {
        (self.packets.saturating_sub(omitted.packets), self.errors.saturating_sub(omitted.errors))
    }

    /// The same of an end that does not (iperf3 3.12): its bytes leave out what was omitted, its datagrams do
    /// not. All are of `block` bytes, so the bytes tell how many came. Where that end received, this one sent
    /// `before` in the omitted time: what is missing of the others was lost.
    pub(crate) fn datagrams_by_bytes(&self, block: u32, before: Option<u64>) -> (u64, u64) {
        let came = self.bytes.div_ceil(block.max(1).into());
        let missing = |before: u64| self.packets.saturating_sub(before).saturating_sub(came);
        let lost = before.map_or(0, |before| missing(before).min(self.errors));
        (came + lost, lost)
    }
}

/// What did not count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Omitted {
    /// Datagrams lost.
    pub errors: u64,
    /// Datagrams.
    pub packets: u64,
}

/// Results that are none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// A member is missing or of the wrong type.
    #[error("the results lack '{0}'")]
    Lacks(&'static str),
    /// A stream lacks a member.
    #[error("the results of a stream lack '{0}'")]
    StreamLacks(&'static str),
    /// More streams than any test has.
    #[error("the results name {0} streams, more than {MOST_STREAMS}")]
    TooMany(usize),
    /// A number that no test comes to.
    #[error("the results of a stream say '{name}' is {value}, more than any test comes to")]
    Beyond {
        /// The member.
        name: &'static str,
        /// As it came.
        value: u64,
    },
}

/// The number of the stream at `index`, from 0: 1, 3, 4, 5, ... (iperf3 leaves out 2, and its peers must).
pub(crate) fn stream_id(index: usize) -> u32 {
    let index = u32::try_from(index).unwrap_or(u32::MAX - 2);
    if index == 0 { 1 } else { index + 2 }
}

impl Results {
    /// Reads a peer's frame.
    pub fn parse(value: &Value) -> Result<Results, Unusable> {
        let percent = |name| {
            let share = value.get(name).and_then(Value::as_f64).ok_or(Unusable::Lacks(name))?;
            // Beside the figures of the data a wrong one is none.
            Ok(if (0.0..=MOST_PERCENT).contains(&share) { share } else { 0.0 })
        };
        let streams = value.get("streams").and_then(Value::as_array).ok_or(Unusable::Lacks("streams"))?;
        if streams.len() > MOST_STREAMS {
            return Err(Unusable::TooMany(streams.len()));
        }
        let retransmits =
            value.get("sender_has_retransmits").ok_or(Unusable::Lacks("sender_has_retransmits"))?;
        let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let made = |name| value.get("weir_copies")?.get(name)?.as_bool();
        let json = value.get("server_output_json").cloned().map(|json| Output::Json(json.into()));
        Ok(Results {
            cpu: CpuUse {
                total: percent("cpu_util_total")?,
                user: percent("cpu_util_user")?,
                system: percent("cpu_util_system")?,
            },
            counts_retransmits: count(retransmits).map(|number| number != 0),
            congestion: text("congestion_used"),
            copies: made("sending")
                .zip(made("receiving"))
                .map(|(sending, receiving)| Copies { sending, receiving }),
            output: json.or_else(|| text("server_output_text").map(Output::Text)),
            streams: streams.iter().map(StreamResults::parse).collect::<Result<_, _>>()?,
        })
    }

    /// As an end sends it.
    pub fn to_json(&self) -> Value {
        let mut members = Map::new();
        let mut put = |name: &str, value: Value| members.insert(name.to_owned(), value);
        put("cpu_util_total", json!(self.cpu.total));
        put("cpu_util_user", json!(self.cpu.user));
        put("cpu_util_system", json!(self.cpu.system));
        let counts = self.counts_retransmits.map_or(-1, i32::from);
        put("sender_has_retransmits", json!(counts));
        if let Some(congestion) = &self.congestion {
            put("congestion_used", json!(congestion));
        }
        if let Some(Copies { sending, receiving }) = self.copies {
            put("weir_copies", json!({ "sending": sending, "receiving": receiving }));
        }
        match &self.output {
            Some(Output::Text(text)) => drop(put("server_output_text", json!(text))),
            Some(Output::Json(json)) => drop(put("server_output_json", json.into())),
            None => {}
        }
        put("streams", self.streams.iter().map(StreamResults::to_json).collect());
        Value::Object(members)
    }

    /// The same as text, in which the report keeps the order of its members.
    pub fn to_text(&self) -> String {
        let mut json = Json::from(self.to_json());
        if let Some(Output::Json(report)) = &self.output {
            json.put("server_output_json", report.clone());
        }
        json.line()
    }

    /// Reads a peer's frame with its report as it came.
    pub(crate) fn parse_in_order(json: &Json) -> Result<Results, Unusable> {
        let mut results = Results::parse(&Value::from(json))?;
        if let Some(report) = json.get("server_output_json") {
            results.output = Some(Output::Json(report.clone()));
        }
        Ok(results)
    }

    /// The stream of this number.
    pub fn stream(&self, id: u32) -> Option<&StreamResults> {
        self.streams.iter().find(|stream| stream.id == id)
    }
}

impl StreamResults {
    fn parse(value: &Value) -> Result<StreamResults, Unusable> {
        let bounded = |name, value| match value {
            value if value <= MOST_COUNT => Ok(value),
            value => Err(Unusable::Beyond { name, value }),
        };
        let number = |name| {
            let value = value.get(name).and_then(count).ok_or(Unusable::StreamLacks(name))?;
            bounded(name, value)
        };
        let seconds = |name| value.get(name).and_then(Value::as_f64);
        // A time that no test has is none: this end's own stands in for it.
        let sensible = |name| seconds(name).filter(|seconds| (0.0..=MOST_SECONDS).contains(seconds));
        let retransmits = value.get("retransmits").ok_or(Unusable::StreamLacks("retransmits"))?;
        let omitted = |name| value.get(name).and_then(count).filter(|count| *count <= MOST_COUNT);
        Ok(StreamResults {
            id: u32::try_from(number("id")?).unwrap_or_default(),
            bytes: number("bytes")?,
            retransmits: count(retransmits).map(|count| bounded("retransmits", count)).transpose()?,
            jitter: seconds("jitter").ok_or(Unusable::StreamLacks("jitter"))?.clamp(0.0, MOST_SECONDS),
            // A count that has gone below zero (packets that came twice) is none.
            errors: {
                let errors = value.get("errors").ok_or(Unusable::StreamLacks("errors"))?;
                bounded("errors", count(errors).unwrap_or(0))?
            },
            packets: number("packets")?,
            omitted: match (omitted("omitted_errors"), omitted("omitted_packets")) {
                (Some(errors), Some(packets)) => Some(Omitted { errors, packets }),
                _ => None,
            },
            start: sensible("start_time"),
            end: sensible("end_time"),
        })
    }

    fn to_json(&self) -> Value {
        let mut members = Map::new();
        let mut put = |name: &str, value: Value| drop(members.insert(name.to_owned(), value));
        put("id", json!(self.id));
        put("bytes", json!(self.bytes));
        put("retransmits", self.retransmits.map_or(json!(-1), |count| json!(count)));
        put("jitter", json!(self.jitter));
        put("errors", json!(self.errors));
        let omitted = self.omitted.unwrap_or_default();
        put("omitted_errors", json!(omitted.errors));
        put("packets", json!(self.packets));
        put("omitted_packets", json!(omitted.packets));
        put("start_time", json!(self.start.unwrap_or(0.0)));
        put("end_time", json!(self.end.unwrap_or(0.0)));
        Value::Object(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn datagrams_that_do_not_count_are_taken_off() {
        // Of 60 the first 20 are omitted, and of the 40 others three were lost, of the first 20 one.
        let told = StreamResults { bytes: 37_000, packets: 60, errors: 4, ..StreamResults::default() };
        assert_eq!(told.datagrams_without(Omitted { packets: 20, errors: 1 }), (40, 3));
        assert_eq!(told.datagrams_by_bytes(1000, Some(20)), (40, 3));
        // A sender knows of no losses.
        let sent = StreamResults { bytes: 40_000, packets: 60, ..StreamResults::default() };
        assert_eq!(sent.datagrams_by_bytes(1000, None), (40, 0));
        // Those that were under way when the omitted time ended came in what counts.
        assert_eq!(told.datagrams_by_bytes(1000, Some(25)), (37, 0));
    }

    #[test]
    fn ids_leave_out_two() {
        let ids: Vec<u32> = (0..5).map(stream_id).collect();
        assert_eq!(ids, [1, 3, 4, 5, 6]);
    }

    #[test]
    fn a_receiver_of_3_12_says_minus_one_in_its_own_way() {
        let text = r#"{"cpu_util_total":9.5,"cpu_util_user":0.2,"cpu_util_system":9.3,"sender_has_retransmits":1.8446744073709552e+19,
            "congestion_used":"bbr","streams":[{"id":1,"bytes":7405568,"retransmits":1.8446744073709552e+19,"jitter":0,"errors":0,
            "omitted_errors":0,"packets":0,"omitted_packets":0,"start_time":0,"end_time":1.000105}]}"#;
        let results = Results::parse(&serde_json::from_str(text).unwrap()).unwrap();
        assert_eq!(results.counts_retransmits, None);
        assert_eq!(
            results.stream(1).map(|stream| (stream.bytes, stream.retransmits)),
            Some((7_405_568, None))
        );
        assert_eq!(results.congestion.as_deref(), Some("bbr"));
    }

    #[test]
    fn lies_are_told() {
        let whole = Results { streams: vec![StreamResults::default()], ..Results::default() }.to_json();
        for name in ["cpu_util_total", "streams", "sender_has_retransmits"] {
            let mut lacking = whole.clone();
            lacking[name] = json!("x");
            let read = Results::parse(&lacking);
            assert!(read.is_err() || name == "sender_has_retransmits", "{name}");
        }
        for name in ["id", "bytes", "jitter", "packets"] {
            let mut lacking = whole.clone();
            lacking["streams"][0][name] = json!(["x"]);
            assert_eq!(Results::parse(&lacking), Err(Unusable::StreamLacks(name)));
        }
        let many = json!({ "cpu_util_total": 0, "cpu_util_user": 0, "cpu_util_system": 0, "sender_has_retransmits": 0,
            "streams": vec![json!({}); 257] });
        assert_eq!(Results::parse(&many), Err(Unusable::TooMany(257)));
    }

    /// No figure of a peer makes one of this end's infinite, or overflow.
    #[test]
    fn numbers_that_no_test_has_are_none() {
        let stream = StreamResults { id: 1, bytes: 7, end: Some(1.0), ..StreamResults::default() };
        let whole = Results { streams: vec![stream], ..Results::default() }.to_json();
        for hostile in
            [json!(1e308), json!(-1e308), json!(-1), json!("1"), json!(null), json!([1]), json!(1e6)]
        {
            for name in ["start_time", "end_time"] {
                let mut lie = whole.clone();
                lie["streams"][0][name] = hostile.clone();
                let read = Results::parse(&lie).unwrap();
                let found = if name == "end_time" { read.streams[0].end } else { read.streams[0].start };
                assert_eq!(found, None, "{name} {hostile}");
            }
        }
        for (name, value) in [("jitter", -1.0), ("jitter", 1e308)] {
            let mut lie = whole.clone();
            lie["streams"][0][name] = json!(value);
            let jitter = Results::parse(&lie).unwrap().streams[0].jitter;
            assert!((0.0..=MOST_SECONDS).contains(&jitter), "{value}: {jitter}");
        }
        for name in ["bytes", "packets", "errors", "retransmits"] {
            let mut lie = whole.clone();
            lie["streams"][0][name] = json!(MOST_COUNT + 1);
            assert!(matches!(Results::parse(&lie), Err(Unusable::Beyond { .. })), "{name}");
        }
        let mut lie = whole.clone();
        lie["cpu_util_total"] = json!(1e308);
        assert_eq!(Results::parse(&lie).unwrap().cpu.total, 0.0);
    }

    #[test]
    fn a_server_s_report_keeps_its_order() {
        let report =
            Json::object().with("start", Json::object().with("z", 1_u32).with("a", 2_u32)).with("end", 3_u32);
        let results = Results { output: Some(Output::Json(report)), ..Results::default() };
        let text = results.to_text();
        assert!(text.contains(r#""server_output_json":{"start":{"z":1,"a":2},"end":3}"#), "{text}");
        assert_eq!(Results::parse_in_order(&Json::parse(text.as_bytes()).unwrap()), Ok(results));
    }

    proptest! {
        #[test]
        fn what_is_sent_is_what_is_understood(
            bytes in 0..MOST_COUNT, retransmits in proptest::option::of(0..1_u64 << 40), errors: u32, packets: u32, ids in 1..128_usize,
        ) {
            let stream = |index| StreamResults {
                id: stream_id(index), bytes, retransmits, jitter: 0.25, errors: errors.into(), packets: packets.into(),
                omitted: Some(Omitted::default()), start: Some(0.0), end: Some(2.5),
            };
            let results = Results {
                counts_retransmits: retransmits.map(|_| true),
                copies: retransmits.map(|count| Copies { sending: count % 2 == 0, receiving: count % 3 == 0 }),
                output: Some(Output::Text("lines\n".to_owned())),
                streams: (0..ids).map(stream).collect(),
                ..Results::default()
            };
            prop_assert_eq!(Results::parse(&results.to_json()), Ok(results.clone()));
            prop_assert_eq!(Results::parse_in_order(&Json::parse(results.to_text().as_bytes()).unwrap()), Ok(results));
        }
    }
}
