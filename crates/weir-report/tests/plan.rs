//! A fixed plan rendered and compared with `tests/snapshots`.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::time::Duration;

use weir_model::pipeline::{Figure, Path, SSH_CIPHER};
use weir_model::plan::{Inputs, Means, Plan};
use weir_report::plan::{PlanRecord, buffer_note, render};
use weir_units::{Bytes, Rate};

fn figure(name: &str, ratio: f64, compress: f64, decompress: f64) -> Figure {
    Figure {
        name: name.to_owned(),
        ratio,
        compress: Rate(compress * 1e6),
        decompress: Some(Rate(decompress * 1e6)),
    }
}

fn inputs() -> Inputs {
    let figures = vec![
        Figure::none(),
        figure("lz4", 0.52, 600.0, 2500.0),
        figure("zstd-3", 0.36, 250.0, 1100.0),
        figure("zstd-19", 0.29, 2.8, 1000.0),
    ];
    let rtt = Some(Duration::from_millis(40));
    let path = Path {
        rtt,
        window: Some(Bytes(1 << 20)),
        disk: Some(Rate(300e6)),
        cores: 2.0,
        ..Path::of(Rate(125e6))
    };
    Inputs {
        figures,
        path,
        links: vec![Rate(125e6), Rate(1.25e6)],
        means: vec![Means::Tcp, Means::Ssh, Means::Weir],
        ssh: SSH_CIPHER,
        cipher: Some(Rate(2e9)),
        lanes: None,
        size: Bytes(1_100_000_000),
    }
}

fn record() -> PlanRecord {
    let inputs = inputs();
    let note =
        buffer_note("net.ipv4.tcp_rmem", Bytes(6 << 20), Bytes(16 << 20), Rate(78.6e6), Rate(125e6)).unwrap();
    PlanRecord::new(&inputs, &Plan::of(&inputs), vec![note])
}

fn rendered(record: &PlanRecord) -> String {
    let mut out = Vec::new();
    render(record, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn transports_side_by_side() {
    insta::assert_snapshot!(rendered(&record()));
}

#[test]
fn the_plan_in_json() {
    let mut record = record();
    record.columns.truncate(1);
    let value = serde_json::to_value(&record).unwrap();
    assert_eq!(serde_json::from_value::<PlanRecord>(value.clone()).unwrap(), record);
    insta::assert_json_snapshot!(value);
}

#[test]
fn a_codec_of_a_stranger_cannot_drive_the_terminal() {
    let mut inputs = inputs();
    inputs.figures[1].name = "lz4\u{1b}[31m".to_owned();
    let text = rendered(&PlanRecord::new(&inputs, &Plan::of(&inputs), vec!["a\nb".to_owned()]));
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
}

#[test]
fn buffers_that_suffice_are_no_note() {
    assert_eq!(buffer_note("net.ipv4.tcp_rmem", Bytes(8), Bytes(8), Rate(1.0), Rate(1.0)), None);
}

#[test]
fn more_buffer_is_not_advised_where_loss_holds_one_connection() {
    let mut inputs = inputs();
    inputs.path.window = None;
    let text = |inputs: &Inputs| rendered(&PlanRecord::new(inputs, &Plan::of(inputs), Vec::new()));
    assert!(text(&inputs).contains("one connection can with sysctl"));
    inputs.path.loss = 0.01;
    let lossy = text(&inputs);
    assert!(lossy.contains("loss keeps one connection below that"), "{lossy}");
    assert!(!lossy.contains("sysctl"), "{lossy}");
    let (allowed, needed) = (Bytes(4 << 20), Bytes(32 << 20));
    assert_eq!(buffer_note("net.ipv4.tcp_wmem", allowed, needed, Rate(26e6), Rate(2.9e6)), None);
    assert!(buffer_note("net.ipv4.tcp_wmem", allowed, needed, Rate(26e6), Rate(125e6)).is_some());
}

/// What one connection is said to carry is not denied by a note below it.
#[test]
fn a_rate_beyond_this_machines_buffers_says_so() {
    let mut inputs = inputs();
    inputs.path.window = None;
    let plan = Plan::of(&inputs);
    let bests = |allowed| {
        let record = PlanRecord::new(&inputs, &plan, Vec::new()).with_buffers(&plan, Bytes(allowed));
        let text = rendered(&record);
        let lines = text.lines().filter(|line| line.starts_with("best over "));
        lines.map(|line| line.ends_with(" (after the sysctl below)")).collect::<Vec<_>>()
    };
    // 2 MiB in flight over 40 ms are 52 MB/s: enough for the second link alone.
    assert_eq!(bests(4 << 20), [true, false]);
    assert_eq!(bests(64 << 20), [false, false]);
}
