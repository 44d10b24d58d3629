//! `weir version`: what this program is, and with `--json` what it can do and which formats it reads and
//! writes.

use std::io::Write;

use serde_json::{Value, json};
use weir_codec::{cipher::Cipher, codec::Codec, digest::Algorithm};

use crate::args::{VERSION, Version};
use crate::cmd::bench::net::AS_IPERF3;
use crate::voice::Printed;

/// Prints it.
pub fn run(version: &Version) -> anyhow::Result<u8> {
    let text = if version.json { told().to_string() } else { format!("weir {VERSION}") };
    writeln!(std::io::stdout().lock(), "{text}").printed("the version")?;
    Ok(0)
}

/// For scripts and bug reports. Members may be added, as in records.
fn told() -> Value {
    json!({
        "schema": "weir.version/1",
        "version": env!("CARGO_PKG_VERSION"),
        "commit": env!("WEIR_COMMIT"),
        "target": env!("WEIR_TARGET"),
        "features": features(),
        "codecs": Codec::all().map(Codec::name).collect::<Vec<_>>(),
        "ciphers": Cipher::all().map(Cipher::name).collect::<Vec<_>>(),
        "digests": Algorithm::all().map(Algorithm::name).collect::<Vec<_>>(),
        "protocols": {
            "cp": weir_cp::wire::message::PROTOCOL,
            "bench_net": format!("iperf {AS_IPERF3}"),
            "bench_pps": weir_bench::pps::control::VERSION,
        },
        "record": weir_report::schema::SCHEMA,
        "journal": weir_get::journal::VERSION,
        "part_log": weir_cp::receiver::journal::VERSION,
    })
}

/// What depends on how it was built, and what scripts ask for.
fn features() -> Vec<&'static str> {
    let mut features = vec!["http1.1", "http2", "https", "socks", "luajit"];
    if cfg!(target_feature = "crt-static") {
        features.push("static");
    }
    features
}
