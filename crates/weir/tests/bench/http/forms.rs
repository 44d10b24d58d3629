//! `weir bench http` in the forms of wrk, ab and others: line by line, and figure by figure.

use std::process::Command;
use std::time::Duration;

use super::{WEIR, bench, hello, stdout};
use crate::support::{Sandbox, Server, skip};

/// Every line of a text with its numbers and units taken out, so that what is left is the form.
fn shape(text: &str) -> Vec<String> {
    let plain = |line: &str| {
        let words = line.split_whitespace().map(|word| {
            let digits = word.chars().any(|letter| letter.is_ascii_digit());
            if digits { "#" } else { word }
        });
        words.collect::<Vec<_>>().join(" ")
    };
    text.lines().map(plain).collect()
}

#[test]
fn the_report_in_wrks_form_has_wrks_lines() {
    if Command::new("wrk").arg("-v").output().is_err() {
        return skip("wrk is not installed");
    }
    let server = Server::start(|_, wire| wire.answer("404 No", &[], b"nothing"));
    let sandbox = Sandbox::new();
    let url = server.url("x");
    let common = ["-t", "1", "-c", "2", "-d", "1s", "--latency", url.as_str()];
    let wrk = sandbox.weir("wrk", common).run();
    let weir = bench(&sandbox, &["--format", "wrk"]).args(&common).run();
    assert_eq!(shape(&stdout(weir.succeeds())), shape(&stdout(wrk.succeeds())));
    let head = "Running 1s test @ ";
    assert!(stdout(&weir).starts_with(head) && stdout(&wrk).starts_with(head));
}

#[test]
fn the_report_in_abs_form_has_abs_lines() {
    if Command::new("ab").arg("-V").output().is_err() {
        return skip("ab is not installed");
    }
    // Lengths differ, and every other answer is no 2xx.
    let server = Server::start(|request, wire| {
        let fields = [("Server", "tester"), ("Connection", "keep-alive")];
        let stays = request.field("connection").is_some();
        match (request.number % 2, stays) {
            (0, true) => wire.answer("200 OK", &fields, b"even"),
            (_, true) => wire.answer("404 No", &fields, b"odd"),
            // Without it ab reads until the end.
            (0, false) => wire.answer("200 OK", &fields[..1], b"even").and_then(|()| wire.close()),
            (_, false) => wire.answer("404 No", &fields[..1], b"odd").and_then(|()| wire.close()),
        }
    });
    let url = server.url("x");
    let sandbox = Sandbox::new();
    let base = ["-q", "-n", "20", "-c", "2", "-e", "e.csv", "-g", "g.tsv"];
    for more in [&[][..], &["-k"], &["-S", "-l"], &["-d"]] {
        let [ab, weir] = ["ab", "weir"].map(|program| {
            let before = server.requests().len();
            let run = match program {
                "ab" => sandbox.weir("ab", base),
                _ => bench(&sandbox, &["--ab"]).args(&base),
            };
            let run = run.args(more).args(&[&url]).run();
            let text = stdout(run.succeeds());
            let report = text.split_once("Server Software:").unwrap().1.to_owned();
            let doubts = |line: &&String| {
                !["ERROR", "WARNING", "These results", "deviation apart"]
                    .iter()
                    .any(|word| line.contains(word))
            };
            let lines: Vec<String> = shape(&report).iter().filter(doubts).cloned().collect();
            let files = ["e.csv", "g.tsv"].map(|name| {
                let text = String::from_utf8(sandbox.read(name)).unwrap();
                (text.lines().next().unwrap().to_owned(), text.lines().count())
            });
            let asked = server.requests_from(before);
            let request = asked.last().unwrap();
            (lines, files, asked.len(), format!("{} {} {:?}", request.method, request.target, request.fields))
        });
        assert_eq!(weir, ab, "{more:?}");
    }
}

/// `-v`: the request, and each answer as it came.
#[test]
fn ab_shows_what_was_asked_and_answered() {
    if Command::new("ab").arg("-V").output().is_err() {
        return skip("ab is not installed");
    }
    let server = Server::start(|request, wire| {
        let status = if request.number % 2 == 0 { "200 OK" } else { "404 No" };
        // In one piece: what came with the head is shown with it.
        let answer = format!("HTTP/1.1 {status}\r\nServer: tester\r\nContent-Length: 5\r\n\r\nhello");
        wire.raw(answer.as_bytes()).and_then(|()| wire.close())
    });
    let sandbox = Sandbox::new();
    let link = sandbox.path("ab");
    std::os::unix::fs::symlink(WEIR, &link).unwrap();
    for verbosity in ["0", "1", "2", "3", "4"] {
        // weir takes ab's flags behind --ab, and by ab's name.
        let [ab, weir, named] = ["ab", "weir", "named"].map(|program| {
            let args = ["-v", verbosity, "-n", "2", "-H", "X-A: b", &server.url("x")];
            let run = match program {
                "ab" => sandbox.weir("ab", args),
                "weir" => bench(&sandbox, &["--ab"]).args(&args),
                _ => sandbox.weir(link.to_str().unwrap(), args),
            };
            let text = stdout(run.run().succeeds());
            let (_, rest) = text.split_once("Benchmarking 127.0.0.1").unwrap();
            let (log, _) = rest.split_once("done\n").unwrap();
            let front = ["INFO:", "LOG:"].into_iter().filter_map(|word| log.find(word)).min();
            // Dots tell of progress.
            log[front.unwrap_or(log.len())..].trim_end_matches('.').to_owned()
        });
        assert_eq!([&weir, &named], [&ab, &ab], "-v {verbosity}");
        assert_eq!(ab.contains("LOG: header received:"), verbosity >= "2");
    }
}

/// Every figure of ab's report follows from the rows of `-g`.
#[test]
fn abs_figures_follow_from_its_rows() {
    let server = Server::start(|request, wire| {
        std::thread::sleep(Duration::from_millis(request.number as u64 % 7));
        hello(wire)
    });
    let sandbox = Sandbox::new();
    let url = server.url("x");
    let run = bench(&sandbox, &["--ab", "-n", "41", "-c", "3", "-e", "e.csv", "-g", "g.tsv", &url]).run();
    let text = stdout(run.succeeds());
    let table = String::from_utf8(sandbox.read("g.tsv")).unwrap();
    let rows: Vec<Vec<u64>> = (table.lines().skip(1))
        .map(|line| line.split('\t').skip(2).map(|number| number.parse().unwrap()).collect())
        .collect();
    assert_eq!(rows.len(), 41);
    let figure = |name: &str| -> f64 {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line[name.len()..].split_whitespace().next().unwrap().parse().unwrap()
    };
    // Rates follow from the number of rows, the time and the bytes.
    let taken = figure("Time taken for tests:");
    assert_eq!((figure("Complete requests:"), figure("Failed requests:")), (41.0, 0.0));
    let answer = "HTTP/1.1 200 OK\r\nServer: tester\r\nContent-Length: 5\r\n\r\nhello".len() as f64;
    assert_eq!(figure("Document Length:"), 5.0);
    assert_eq!((figure("Total transferred:"), figure("HTML transferred:")), (41.0 * answer, 41.0 * 5.0));
    for (name, value) in [
        ("Requests per second:", 41.0 / taken),
        ("Time per request:", 3.0 * taken * 1000.0 / 41.0),
        ("Transfer rate:", 41.0 * answer / 1024.0 / taken),
    ] {
        // The time is printed to the millisecond, the others to hundredths.
        let off = (figure(name) - value).abs();
        assert!(off < value * (0.001 / taken + 0.001) + 0.005, "{name} {value}: {text}");
    }
    for (name, column) in [("Connect:", 0), ("Processing:", 1), ("Waiting:", 3), ("Total:", 2)] {
        let mut values: Vec<u64> = rows.iter().map(|row| row[column]).collect();
        values.sort_unstable();
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        let shown: Vec<f64> = line.split_whitespace().skip(1).map(|number| number.parse().unwrap()).collect();
        assert_eq!((shown[0], shown[4]), (values[0] as f64, values[40] as f64), "{line}");
        let mean = values.iter().sum::<u64>() as f64 / 41.0;
        assert!((shown[1] - mean).abs() <= 1.0, "{line}: {mean}");
        // The rows are rounded to milliseconds before they can be read here.
        let median = (values[20] + values[21]) as f64 / 2.0;
        assert!((shown[3] - median).abs() <= 1.0, "{line}: {median}");
        let squares: f64 = values.iter().map(|value| (*value as f64 - mean).powi(2)).sum();
        let deviation = (squares / 40.0).sqrt();
        // Rounding moves each value by half a millisecond at most.
        assert!((shown[2] - deviation).abs() <= 0.6, "{line}: {deviation}");
    }
    let totals: Vec<u64> = rows.iter().map(|row| row[2]).collect();
    for share in [50, 66, 75, 80, 90, 95, 98, 99] {
        let line = text.lines().find(|line| line.trim_start().starts_with(&format!("{share}%"))).unwrap();
        let shown: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        assert_eq!(shown, totals[41 * share / 100], "{line}");
    }
    // The file of -e: each percent of the same rows.
    let table = String::from_utf8(sandbox.read("e.csv")).unwrap();
    let shares: Vec<f64> =
        table.lines().skip(1).map(|line| line.split(',').nth(1).unwrap().parse().unwrap()).collect();
    assert_eq!(shares.len(), 101);
    for (percent, shown) in shares.iter().enumerate() {
        let index = (0.5 + 41.0 * percent as f64 / 100.0) as usize;
        let total = totals[if percent == 100 { 40 } else { index.min(40) * usize::from(percent > 0) }];
        assert!((shown - total as f64).abs() <= 0.5, "{percent}: {shown} {total}");
    }
}

#[test]
fn other_forms_have_their_figures() {
    let server = Server::start(|_, wire| hello(wire));
    let sandbox = Sandbox::new();
    let of = |form: &str| {
        stdout(bench(&sandbox, &["-n", "20", "--format", form, &server.url("x")]).run().succeeds())
    };
    let csv = of("csv");
    assert_eq!(csv.lines().count(), 2);
    assert!(csv.lines().nth(1).unwrap().contains(",20,"), "{csv}");
    let hdr = of("hdr");
    assert!(hdr.contains("Percentile") && hdr.contains("#[Max"), "{hdr}");
    // Twenty that take a moment are nothing to judge by.
    let own = of("weir").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(own.contains("not judged: too short a run") || own.contains("limit: "), "{own}");
    let latency = own.split("latency: ").nth(1).unwrap().split(')').next().unwrap();
    assert!(latency.starts_with("median ") && !latency.contains("99 %"), "{own}");
    assert_eq!(bench(&sandbox, &["-n", "5", "-q", &server.url("x")]).run().succeeds().stdout, b"");
}
