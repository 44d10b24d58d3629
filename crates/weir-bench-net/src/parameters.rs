//! What is to be tested: the client's first JSON.
//!
//! A member of a wrong type is as if it were not there (so versions of 3.18 and later do); one that is out of
//! bounds is refused. The bounds are iperf3's own, so that whatever a client of either kind may ask for is
//! taken.

use serde_json::{Map, Value, json};

use crate::asked::Asked;
use crate::frame::count;
use crate::refused::Refused;

/// What carries the data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
}

/// Which way data flow, as the client sees it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Direction {
    /// From client to server.
    #[default]
    Forward,
    /// From server to client (`-R`).
    Reverse,
    /// Both at once (`--bidir`).
    Both,
}

/// One test, as both ends agree on it. Zero stands for "not set" where it cannot mean anything else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parameters {
    /// TCP or UDP.
    pub transport: Transport,
    /// Which way.
    pub direction: Direction,
    /// Seconds at the start that do not count.
    pub omit: u32,
    /// Seconds that count; 0 without `num` and `blocks` for a test without end.
    pub time: u32,
    /// Bytes after which the test ends; 0 for none.
    pub bytes: u64,
    /// Blocks after which it ends; 0 for none.
    pub blocks: u64,
    /// Streams each way.
    pub parallel: u32,
    /// Bytes of one write, or of one datagram's payload; 0 for what the path's segment allows (UDP).
    pub block: u32,
    /// Segment size to ask for (TCP_MAXSEG).
    pub segment: Option<u32>,
    /// Socket buffers (SO_SNDBUF, SO_RCVBUF).
    pub window: Option<u32>,
    /// Bits per second and stream; 0 for no limit.
    pub rate: u64,
    /// Blocks sent at once before the rate is looked at again; 0 for one.
    pub burst: u32,
    /// Bytes per second and stream to which the kernel paces (SO_MAX_PACING_RATE, `--fq-rate`).
    pub pacing: Option<u64>,
    /// IP type of service.
    pub service: u8,
    /// TCP_NODELAY.
    pub no_delay: bool,
    /// Congestion control to ask for.
    pub congestion: Option<String>,
    /// Before each line.
    pub title: Option<String>,
    /// Kept in the JSON.
    pub extra_data: Option<String>,
    /// Who asks, encrypted for the server.
    pub token: Option<String>,
    /// The client wants to see the server's report.
    pub server_output: bool,
    /// Datagrams are counted in 64 bits.
    pub wide_counters: bool,
    /// Microseconds between two looks at a rate, for servers that go by a timer (iperf3 before 3.18); weir
    /// needs none.
    pub pacing_timer: u32,
    /// IPv6's flow label, of the client's connections.
    pub flow_label: Option<u32>,
    /// Datagrams of IPv4 are never fragmented on their way.
    pub dont_fragment: bool,
    /// Digits are sent again and again instead of random bytes.
    pub repeating: bool,
    /// A sending server leaves out the copy out of its memory.
    pub zerocopy: bool,
    /// A receiving server leaves out the copy into its memory.
    pub skip_rx_copy: bool,
    /// The processor that the server's streams are bound to.
    pub server_affinity: Option<u32>,
    /// Multipath TCP on the data connections.
    pub mptcp: bool,
    /// Both ends bundle datagrams (UDP_SEGMENT, UDP_GRO), where an end of iperf3 does so only if asked.
    pub gsro: bool,
    /// Weir's own: transactions instead of streams.
    pub transactions: Option<Asked>,
    /// The client's program: `3.12`, or `weir 0.1.0`.
    pub client: Option<String>,
}

/// The largest block of a TCP stream.
pub const MOST_BLOCK: u32 = 1 << 20;

/// Streams each way, at most.
pub const MOST_STREAMS: u32 = 128;

/// The payload of the largest datagram that fits IPv4.
pub const MOST_DATAGRAM: u32 = 65_507;

/// A datagram has room for its header (12 bytes, 16 with wide counters).
pub(crate) const LEAST_DATAGRAM: u32 = 16;

/// Seconds of a test, at most: a day.
pub const MOST_TIME: u32 = 86_400;

/// Seconds that do not count, at most.
pub const MOST_OMIT: u32 = 600;

/// iperf3's block of a TCP stream, where none is asked for.
pub const BLOCK: u32 = 128 << 10;

/// iperf3's timer of a rate, microseconds.
pub const PACING_TIMER: u32 = 1000;

/// A flow label has 20 bits (RFC 8200, 6), of which 0 is none.
pub const MOST_FLOW_LABEL: u32 = 0xf_ffff;

/// Processors are numbered up to this, in iperf3's own bound.
pub const MOST_AFFINITY: u32 = 1024;

impl Parameters {
    /// A test of ten seconds over one TCP stream.
    pub fn new() -> Parameters {
        let pacing_timer = PACING_TIMER;
        Parameters { time: 10, parallel: 1, block: BLOCK, pacing_timer, ..Parameters::default() }
    }

    /// Reads a client's frame.
    pub fn parse(value: &Value) -> Result<Parameters, Refused> {
        let members = value.as_object().ok_or(Refused::NotAnObject)?;
        let set = |name: &str| members.get(name).is_some_and(truth);
        let number = |name: &str| members.get(name).and_then(count);
        let text = |name: &str| members.get(name).and_then(Value::as_str).map(str::to_owned);
        if set("sctp") {
            return Err(Refused::Sctp);
        }
        let transport = if set("udp") { Transport::Udp } else { Transport::Tcp };
        let udp = transport == Transport::Udp;
        let bounded = |name: &'static str, least: u64, most: u64| match number(name) {
            Some(value) if (least..=most).contains(&value) => {
                Ok(Some(u32::try_from(value).unwrap_or(u32::MAX)))
            }
            Some(value) => Err(Refused::Bound { name, value, least, most }),
            None => Ok(None),
        };
        let (least, most) = if udp { (LEAST_DATAGRAM, MOST_DATAGRAM) } else { (1, MOST_BLOCK) };
        // Of a UDP client that leaves the size to its path, 0 or nothing.
        let block = match number("len") {
            Some(0) | None => 0,
            Some(_) => bounded("len", least.into(), most.into())?.unwrap_or_default(),
        };
        Ok(Parameters {
            transport,
            direction: match (set("bidirectional"), set("reverse")) {
                (true, _) => Direction::Both,
                (_, true) => Direction::Reverse,
                _ => Direction::Forward,
            },
            omit: bounded("omit", 0, MOST_OMIT.into())?.unwrap_or_default(),
            time: bounded("time", 0, MOST_TIME.into())?.unwrap_or_default(),
            bytes: number("num").unwrap_or_default(),
            blocks: number("blockcount").unwrap_or_default(),
            parallel: bounded("parallel", 1, MOST_STREAMS.into())?.unwrap_or(1),
            block: if block == 0 && !udp { BLOCK } else { block },
            segment: bounded("MSS", 0, 32_767)?.filter(|segment| *segment > 0),
            window: bounded("window", 0, 512 << 20)?.filter(|window| *window > 0),
            rate: number("bandwidth").unwrap_or_default(),
            burst: bounded("burst", 0, 1000)?.unwrap_or_default(),
            pacing: number("fqrate").filter(|rate| *rate > 0).map(|bits| bits / 8),
            service: bounded("TOS", 0, 255)?.unwrap_or_default() as u8,
            no_delay: set("nodelay"),
            congestion: text("congestion"),
            title: text("title"),
            extra_data: text("extra_data"),
            token: text("authtoken"),
            server_output: set("get_server_output"),
            wide_counters: set("udp_counters_64bit"),
            pacing_timer: bounded("pacing_timer", 0, u32::MAX.into())?.unwrap_or(PACING_TIMER),
            flow_label: bounded("flowlabel", 1, MOST_FLOW_LABEL.into())?,
            dont_fragment: set("dont_fragment"),
            repeating: set("repeating_payload"),
            zerocopy: set("zerocopy"),
            skip_rx_copy: set("skip_rx_copy"),
            server_affinity: bounded("server_affinity", 0, MOST_AFFINITY.into())?,
            mptcp: set("mptcp"),
            gsro: set("gso") || set("gro"),
            transactions: members.get("weir_transactions").map(Asked::parse).transpose()?.flatten(),
            client: text("client_version"),
        })
    }

    /// As the client sends it.
    pub fn to_json(&self) -> Value {
        let mut members = Map::new();
        let mut put = |name: &str, value: Value| members.insert(name.to_owned(), value);
        put(if self.transport == Transport::Udp { "udp" } else { "tcp" }, json!(true));
        put("omit", json!(self.omit));
        put("time", json!(self.time));
        put("num", json!(self.bytes));
        put("blockcount", json!(self.blocks));
        put("parallel", json!(self.parallel));
        put("len", json!(self.block));
        put("pacing_timer", json!(self.pacing_timer));
        if self.rate > 0 {
            put("bandwidth", json!(self.rate));
        }
        match self.direction {
            Direction::Forward => {}
            Direction::Reverse => drop(put("reverse", json!(true))),
            Direction::Both => drop(put("bidirectional", json!(true))),
        }
        for (name, is_set) in [("nodelay", self.no_delay), ("mptcp", self.mptcp)] {
            if is_set {
                put(name, json!(true));
            }
        }
        let fqrate = self.pacing.map(|bytes| bytes.saturating_mul(8));
        for (name, value) in [
            ("MSS", self.segment.map(u64::from)),
            ("window", self.window.map(u64::from)),
            ("fqrate", fqrate),
            ("burst", Some(u64::from(self.burst)).filter(|burst| *burst > 0)),
            ("TOS", Some(u64::from(self.service)).filter(|service| *service > 0)),
            ("get_server_output", self.server_output.then_some(1)),
            ("udp_counters_64bit", self.wide_counters.then_some(1)),
            ("flowlabel", self.flow_label.map(u64::from)),
            ("server_affinity", self.server_affinity.map(u64::from)),
            ("dont_fragment", self.dont_fragment.then_some(1)),
            ("repeating_payload", self.repeating.then_some(1)),
            ("zerocopy", self.zerocopy.then_some(1)),
            ("skip_rx_copy", self.skip_rx_copy.then_some(1)),
        ] {
            if let Some(value) = value {
                put(name, json!(value));
            }
        }
        if self.gsro {
            // A bundle is as many whole datagrams as the largest packet of IPv4 takes.
            let size = self.block.max(1);
            let bundle = (MOST_DATAGRAM / size).max(1) * size;
            for (name, value) in [
                ("gso", 1),
                ("gso_dg_size", size),
                ("gso_bf_size", bundle),
                ("gro", 1),
                ("gro_bf_size", MOST_DATAGRAM),
            ] {
                put(name, json!(value));
            }
        }
        if let Some(asked) = &self.transactions {
            put("weir_transactions", asked.to_json());
        }
        for (name, value) in [
            ("congestion", &self.congestion),
            ("title", &self.title),
            ("extra_data", &self.extra_data),
            ("authtoken", &self.token),
            ("client_version", &self.client),
        ] {
            if let Some(value) = value {
                put(name, json!(value));
            }
        }
        Value::Object(members)
    }

    /// Bytes after which a sender has sent all, if the test ends by bytes or blocks.
    pub fn budget(&self) -> Option<u64> {
        match (self.bytes, self.blocks) {
            (0, 0) => None,
            (0, blocks) => Some(blocks.saturating_mul(self.block.into())),
            (bytes, _) => Some(bytes),
        }
    }

    /// Whether the peer is a weir too, which closes its data connections when it has sent all.
    pub fn client_is_weir(&self) -> bool {
        self.client.as_deref().is_some_and(|client| client.starts_with("weir"))
    }
}

/// Flags come as `true`, and as a number other than zero.
fn truth(value: &Value) -> bool {
    value.as_bool().unwrap_or_else(|| count(value).is_some_and(|number| number != 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As 3.12 sends it for `-c HOST -t 5`.
    const CAPTURED: &str = r#"{"tcp":true,"omit":0,"time":5,"num":0,"blockcount":0,"parallel":1,"len":131072,"pacing_timer":1000,"client_version":"3.12"}"#;

    #[test]
    fn a_client_of_3_12_is_understood() {
        let parameters = Parameters::parse(&serde_json::from_str(CAPTURED).unwrap()).unwrap();
        let expected = Parameters { time: 5, client: Some("3.12".to_owned()), ..Parameters::new() };
        assert_eq!(parameters, expected);
        assert!(!parameters.client_is_weir());
    }

    #[test]
    fn wrong_types_are_as_if_absent() {
        let text = json!({ "tcp": 1, "time": "5", "parallel": [3], "len": null, "reverse": "yes", "congestion": 7, "TOS": {} });
        let parameters = Parameters::parse(&text).unwrap();
        assert_eq!(parameters, Parameters { time: 0, ..Parameters::new() });
    }

    #[test]
    fn bounds_are_enforced() {
        for (name, value) in [
            ("time", 86_401),
            ("omit", 601),
            ("parallel", 129),
            ("parallel", 0),
            ("len", 1_048_577),
            ("burst", 1001),
        ] {
            let refused = Parameters::parse(&json!({ "tcp": true, name: value })).unwrap_err();
            assert!(matches!(refused, Refused::Bound { .. }), "{name}: {refused}");
        }
        for len in [15, 65_508] {
            assert!(Parameters::parse(&json!({ "udp": true, "len": len })).is_err(), "{len}");
        }
        assert_eq!(Parameters::parse(&json!({ "sctp": true })), Err(Refused::Sctp));
        assert_eq!(Parameters::parse(&json!(1)), Err(Refused::NotAnObject));
    }

    proptest! {
        #[test]
        fn what_is_sent_is_what_is_understood(
            udp: bool, time in 0..=MOST_TIME, parallel in 1..=MOST_STREAMS, block in LEAST_DATAGRAM..=MOST_DATAGRAM,
            bytes in 0..1_u64 << 62, rate in 0..1_u64 << 50, service: u8, way in 0..3, flags: [bool; 3],
            window in proptest::option::of(1_u32..512 << 20), congestion in proptest::option::of("[a-z]{1,8}"),
            flow_label in proptest::option::of(1..=MOST_FLOW_LABEL), more: [bool; 6],
        ) {
            let parameters = Parameters {
                transport: if udp { Transport::Udp } else { Transport::Tcp },
                direction: [Direction::Forward, Direction::Reverse, Direction::Both][way as usize],
                time, parallel, block, bytes, rate, service, window, congestion,
                no_delay: flags[0], server_output: flags[1], wide_counters: flags[2], flow_label,
                dont_fragment: more[0], repeating: more[1], zerocopy: more[2], skip_rx_copy: more[3],
                mptcp: more[4], gsro: more[5],
                ..Parameters::default()
            };
            prop_assert_eq!(Parameters::parse(&parameters.to_json()), Ok(parameters));
        }

        #[test]
        fn no_json_breaks_it(text in r#"\{("(tcp|udp|time|len|parallel|num|MSS|TOS|authtoken)":(-?[0-9]{1,25}|true|null|"x"|\[\]|1e300),){0,6}"omit":0\}"#) {
            if let Ok(value) = serde_json::from_str(&text) {
                let _ = Parameters::parse(&value);
            }
        }
    }
}
