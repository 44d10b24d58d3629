//! One run as a row of a table, seconds and bytes throughout.

use std::io::{self, Write};

use super::LoadRecord;

/// Writes a header and a row.
pub fn render(record: &LoadRecord, received: u64, seconds: f64, out: &mut dyn Write) -> io::Result<()> {
    let names = columns(record, received, seconds).map(|(name, _)| name);
    writeln!(out, "{}", names.join(","))?;
    render_row(record, received, seconds, out)
}

/// Writes a row alone.
pub fn render_row(record: &LoadRecord, received: u64, seconds: f64, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", columns(record, received, seconds).map(|(_, value)| value).join(","))
}

fn columns(record: &LoadRecord, received: u64, seconds: f64) -> [(&'static str, String); 20] {
    let (latency, errors) = (&record.latency, &record.errors);
    [
        ("url", quoted(&record.url)),
        ("connections", record.connections.to_string()),
        ("threads", record.threads.to_string()),
        ("rate_asked", record.rate_asked.map(|rate| rate.to_string()).unwrap_or_default()),
        ("seconds", format!("{seconds:.6}")),
        ("requests", record.requests.to_string()),
        ("requests_rate", format!("{:.3}", record.requests_rate)),
        ("bytes", received.to_string()),
        ("latency_mean", format!("{:.9}", latency.mean)),
        ("latency_p50", format!("{:.9}", latency.p50)),
        ("latency_p90", format!("{:.9}", latency.p90)),
        ("latency_p99", format!("{:.9}", latency.p99)),
        ("latency_max", format!("{:.9}", latency.max)),
        ("errors_connect", errors.connect.to_string()),
        ("errors_read", errors.read.to_string()),
        ("errors_write", errors.write.to_string()),
        ("errors_timeout", errors.timeout.to_string()),
        ("errors_status", errors.status.to_string()),
        ("client_cpu", format!("{:.9}", record.client_cpu)),
        ("held_by", record.held_by.clone().unwrap_or_default()),
    ]
}

/// As RFC 4180 quotes what may hold a comma.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_and_row_have_the_same_columns() {
        let record = LoadRecord { url: "http://h/?a=1,2".to_owned(), requests: 7, ..LoadRecord::default() };
        let mut text = Vec::new();
        render(&record, 700, 2.0, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let (header, row) = text.split_once('\n').unwrap();
        assert_eq!(header.split(',').count() + 1, row.trim_end().split(',').count());
        assert!(row.starts_with("\"http://h/?a=1,2\",0,0,,2.000000,7,"), "{row}");
    }
}
