//! The live view at every size it has to live with, down to one cell.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use ratatui_core::backend::TestBackend;
use ratatui_core::buffer::Buffer;
use ratatui_core::style::{Color, Modifier};
use ratatui_core::terminal::Terminal;
use weir_model::limit::Limit;
use weir_report::progress::Progress;
use weir_report::stages::Stage;
use weir_report::tui::{Beat, File, Lane, Look, Snapshot, draw};

const FULL: Look = Look { colour: true, blocks: true };
const PLAIN: Look = Look { colour: false, blocks: false };

fn stage(
    name: &'static str,
    limit: &str,
    held: f64,
    load: Option<f64>,
    ceiling: Option<f64>,
    basis: &str,
) -> Stage {
    Stage { name, limit: limit.to_owned(), held, load, ceiling, basis: basis.to_owned() }
}

/// A download over four connections, held by a small receive buffer.
fn download() -> Snapshot {
    let lane = |number: u32, rate: f64| Lane {
        name: format!("lane {number}"),
        rate,
        deed: "awaits data 91 %, round trip 20.3 ms".to_owned(),
    };
    Snapshot {
        title: "get http://10.200.0.2:8000/images/debian-13.iso".to_owned(),
        keys: "q ends it, what came is kept".to_owned(),
        elapsed: Duration::from_millis(72_400),
        progress: Progress {
            done: 904_000_000,
            total: Some(2_150_000_000),
            rate: 12.4e6,
            lanes: 4,
            limit: Some(Limit::ReceiveWindow),
            ..Progress::default()
        },
        shares: vec![
            ("receive-window".to_owned(), 0.82),
            ("latency".to_owned(), 0.18),
            ("disk".to_owned(), 0.004),
        ],
        reasons: vec![
            "3.10 MB/s x 20.3 ms round trip fill 98 % of the 64.0 KB receive window; tcp_rmem ends at 131 KB"
                .to_owned(),
            "advice: allow the receiver a larger receive buffer".to_owned(),
        ],
        stages: vec![
            stage(
                "Source",
                "application",
                0.0,
                Some(0.04),
                None,
                "first bytes were waited for 4 % of the time",
            ),
            stage(
                "Path",
                "latency",
                0.18,
                Some(0.09),
                Some(98e6),
                "connections were being made 9 % of the time",
            ),
            stage(
                "Receive",
                "receive-window",
                0.82,
                Some(0.98),
                Some(12.6e6),
                "rate x round trip filled the receive window to 98 %",
            ),
            stage("Core", "cpu-core", 0.0, Some(0.07), Some(177e6), "the busiest thread ran 7 % of the time"),
            stage("Store", "disk", 0.0, None, None, "not measured"),
        ],
        history: (0..300)
            .map(|at| Beat {
                rate: 1e6 * f64::from(at % 40),
                limit: Some(if at % 40 < 10 { Limit::Latency } else { Limit::ReceiveWindow }),
            })
            .collect(),
        lanes: vec![lane(0, 3.1e6), lane(1, 3.05e6), lane(2, 3.2e6), lane(3, 3.05e6)],
        files: vec![File { name: "debian-13.iso".to_owned(), done: 904_000_000, total: Some(2_150_000_000) }],
        log: (1..=6).map(|line| format!("lanes: {line} more pay")).collect(),
    }
}

/// A copy of many files, of which not all are found, with words that a peer chose.
fn copy() -> Snapshot {
    let files =
        (0..30).map(|number| File { name: format!("träge/漢字-{number}\x1b[2J"), done: 5, total: None });
    Snapshot {
        title: "cp host:\x1b]0;evil\x07 to .".to_owned(),
        progress: Progress {
            done: 12,
            total: Some(40),
            at_least: true,
            files: Some((3, 1000)),
            rate: f64::INFINITY,
            ..Progress::default()
        },
        files: files.collect(),
        history: vec![Beat { rate: f64::NAN, limit: None }, Beat { rate: -1.0, limit: None }],
        lanes: (0..200)
            .map(|number| Lane { name: format!("{number}"), rate: f64::NAN, deed: String::new() })
            .collect(),
        stages: vec![stage("Path", "sender-or-path", f64::NAN, Some(f64::INFINITY), Some(-1.0), "")],
        ..download()
    }
}

fn drawn(snapshot: &Snapshot, (columns, rows): (u16, u16), look: Look) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| draw(frame, snapshot, look)).unwrap();
    terminal.backend().buffer().clone()
}

fn text(buffer: &Buffer) -> String {
    let columns = usize::from(buffer.area.width).max(1);
    let row = |cells: &[ratatui_core::buffer::Cell]| {
        cells.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned()
    };
    buffer.content.chunks(columns).map(row).collect::<Vec<_>>().join("\n")
}

#[test]
fn at_each_size_it_shows_what_has_room() {
    for size in [(120, 40), (80, 24), (40, 12), (10, 3), (1, 1)] {
        insta::assert_snapshot!(format!("tui_{}x{}", size.0, size.1), text(&drawn(&download(), size, FULL)));
    }
    insta::assert_snapshot!("tui_80x24_plain", text(&drawn(&download(), (80, 24), PLAIN)));
    insta::assert_snapshot!(
        "tui_80x24_begins",
        text(&drawn(&Snapshot { keys: "q ends it".to_owned(), ..Snapshot::default() }, (80, 24), FULL))
    );
}

#[test]
fn no_size_is_too_small_and_no_value_too_strange() {
    for snapshot in [download(), copy(), Snapshot::default()] {
        for (columns, rows) in (1..=50).flat_map(|columns| (1..=45).map(move |rows| (columns, rows))) {
            let buffer = drawn(&snapshot, (columns, rows), FULL);
            assert!(!text(&buffer).contains('\x1b'));
        }
        drawn(&snapshot, (500, 200), PLAIN);
    }
}

#[test]
fn the_limit_is_named_wherever_there_are_two_rows_of_forty() {
    for rows in 2..=60 {
        let text = text(&drawn(&download(), (40, rows), FULL));
        assert!(text.contains("limit: receive-window 82 %"), "{text}");
        assert!(text.contains("s left") || text.contains("min"), "{text}");
    }
}

#[test]
fn the_narrowest_stage_is_marked_without_colours_too() {
    let row_of = |buffer: &Buffer, name: &str| {
        let at =
            text(buffer).lines().position(|line| line.chars().skip(2).collect::<String>().starts_with(name));
        at.unwrap() as u16
    };
    let plain = drawn(&download(), (80, 24), PLAIN);
    assert!(plain.content.iter().all(|cell| (cell.fg, cell.bg) == (Color::Reset, Color::Reset)));
    assert!(plain.content.iter().all(|cell| cell.symbol().is_ascii()));
    let row = row_of(&plain, "Receive");
    assert_eq!(plain[(0, row)].symbol(), ">");
    assert!(plain[(2, row)].modifier.contains(Modifier::REVERSED));
    assert!(!plain[(2, row_of(&plain, "Core"))].modifier.contains(Modifier::REVERSED));
    let full = drawn(&download(), (80, 24), FULL);
    assert_eq!(full[(10, row_of(&full, "Receive"))].fg, Color::Cyan);
    assert_eq!(full[(10, row_of(&full, "Path"))].fg, Color::LightBlue);
    assert_eq!(full[(10, row_of(&full, "Core"))].fg, Color::Reset);
}
