//! What `weir bench codec` adds to a record: a table of codecs, for JSON, for people, and for `weir plan
//! --codec-table`.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use weir_model::pipeline::Figure;
use weir_units::{Bytes, Rate};

use crate::escape::escape;
use crate::figures::binary;

/// The member `codecs` of a record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CodecsRecord {
    /// What was packed: a file's name, `3 files`, `generated text`.
    pub data: String,
    /// Bytes of it in all.
    pub whole: u64,
    /// Bytes of it that every codec packed, evenly over it; equal to `whole` where all were.
    pub held: u64,
    /// Blocks that these are; 0 in records of before.
    pub blocks: u64,
    /// Blocks there are in all.
    pub of_blocks: u64,
    /// Which of all blocks these are, from 0 and over all files; none where they are all.
    pub places: Vec<u64>,
    /// Bytes of a block.
    pub block: u64,
    /// The table.
    pub rows: Vec<CodecRow>,
    /// What the law says of each link that was asked for.
    pub links: Vec<LinkRecord>,
    /// Which codec wins on which links, from slow ones to fast ones.
    pub regions: Vec<RegionRecord>,
}

/// One codec at one level.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CodecRow {
    /// `zstd-3`.
    pub codec: String,
    /// Threads that worked at once.
    pub threads: usize,
    /// Packed bytes over original ones.
    pub ratio: f64,
    /// Original bytes per second, all threads together.
    pub compress: SpeedRecord,
    /// Original bytes per second, all threads together.
    pub decompress: SpeedRecord,
    /// Original bytes that the ratio comes from: the same for every codec.
    pub bytes: u64,
}

/// A measured speed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SpeedRecord {
    /// Bytes per second: the median of the passes.
    pub rate: f64,
    /// Half of what lies between the quartiles, over the median.
    pub spread: f64,
    /// Passes.
    pub passes: usize,
}

/// One link.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkRecord {
    /// Bytes per second on the wire.
    pub link: f64,
    /// The codec that carries most.
    pub best: String,
    /// Each codec's prediction, in the order of the rows.
    pub predictions: Vec<PredictionRecord>,
}

/// What a codec brings on a link.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PredictionRecord {
    /// `zstd-3`.
    pub codec: String,
    /// Threads at each end.
    pub threads: usize,
    /// Original bytes per second.
    pub rate: f64,
    /// What says so: `path-bandwidth`, `compress`, `decompress`.
    pub limit: String,
}

/// Links on which one codec carries most.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RegionRecord {
    /// `zstd-3`.
    pub codec: String,
    /// Threads.
    pub threads: usize,
    /// The slowest link, bytes per second.
    pub from: f64,
    /// The fastest link; `null` where there is none.
    pub to: Option<f64>,
}

impl CodecRow {
    /// As the model wants it, all threads together. Sending bytes as they are costs nothing, though copying
    /// them has a speed.
    pub fn figure(&self) -> Figure {
        if self.codec == "none" {
            return Figure::none();
        }
        Figure {
            name: self.codec.clone(),
            ratio: self.ratio,
            compress: Rate(self.compress.rate),
            decompress: Some(Rate(self.decompress.rate)),
        }
    }
}

/// The line above the table, what it was measured on.
pub fn render_data(codecs: &CodecsRecord, out: &mut dyn Write) -> io::Result<()> {
    let (blocks, of) = (codecs.blocks, codecs.of_blocks);
    let sample = match codecs.held < codecs.whole {
        true => format!("{} sampled evenly from {}", Bytes(codecs.held), Bytes(codecs.whole)),
        false => Bytes(codecs.whole).to_string(),
    };
    let count = match blocks {
        0 => "in blocks".to_owned(),
        _ if blocks < of => format!("{blocks} of {of} blocks"),
        1 => "1 block".to_owned(),
        _ => format!("{blocks} blocks"),
    };
    let same = if blocks > 0 { ", the same for every codec" } else { "" };
    writeln!(out, "{}: {sample}, {count} of {}{same}", escape(&codecs.data), binary(codecs.block))
}

/// The table for people: figures, then a column for each link, where `*` marks the codec that carries most.
pub fn render_table(codecs: &CodecsRecord, out: &mut dyn Write) -> io::Result<()> {
    let with_threads = codecs.rows.iter().any(|row| row.threads > 1);
    let threads = if with_threads { " threads" } else { "" };
    let links: String =
        codecs.links.iter().map(|link| format!("  {:>9} ", Rate(link.link).to_string())).collect();
    let head = format!("{:<12}{threads}  ratio  {:>15}  {:>15}", "codec", "compress", "decompress");
    if !links.is_empty() {
        writeln!(out, "{:width$}  payload over a link of", "", width = head.len())?;
    }
    writeln!(out, "{}", format!("{head}{links}").trim_end())?;
    for (index, row) in codecs.rows.iter().enumerate() {
        let threads = if with_threads { format!(" {:>7}", row.threads) } else { String::new() };
        let cells: String = codecs.links.iter().map(|link| cell(link, index)).collect();
        let (compress, decompress) = (speed(row.compress), speed(row.decompress));
        let line = format!("{:<12}{threads}  {:.3}  {compress}  {decompress}{cells}", row.codec, row.ratio);
        writeln!(out, "{}", line.trim_end())?;
    }
    if !links.is_empty() {
        writeln!(out, "* carries most over that link: min(link / ratio, compress, decompress)")?;
    }
    Ok(())
}

/// `  512 MB/s ± 1 %`.
fn speed(speed: SpeedRecord) -> String {
    format!("{:>9} ±{:>2.0} %", Rate(speed.rate).to_string(), speed.spread * 100.0)
}

fn cell(link: &LinkRecord, index: usize) -> String {
    let Some(prediction) = link.predictions.get(index) else { return String::new() };
    let most = link.predictions.iter().map(|prediction| prediction.rate).fold(0.0, f64::max);
    // The best one by name may be in several rows, one for each number of threads.
    let mark = if prediction.codec == link.best && prediction.rate >= 0.99 * most { '*' } else { ' ' };
    format!("  {:>9}{mark}", Rate(prediction.rate).to_string())
}

/// The table as `weir plan --codec-table` reads it: one core's MB/s. Of rows with several numbers of threads
/// the fewest count, divided by their number.
pub fn render_csv(codecs: &CodecsRecord, out: &mut dyn Write) -> io::Result<()> {
    let fewest = codecs.rows.iter().map(|row| row.threads).min().unwrap_or(1).max(1);
    writeln!(out, "codec,ratio,compress,decompress")?;
    for row in codecs.rows.iter().filter(|row| row.threads == fewest) {
        let megabytes = |speed: SpeedRecord| speed.rate / fewest as f64 / 1e6;
        let (compress, decompress) = (megabytes(row.compress), megabytes(row.decompress));
        writeln!(out, "{},{:.4},{compress:.2},{decompress:.2}", row.codec, row.ratio)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::pipeline::table;

    fn row(codec: &str, threads: usize, ratio: f64, compress: f64, decompress: f64) -> CodecRow {
        let speed = |rate: f64| SpeedRecord { rate: rate * 1e6, spread: 0.014, passes: 12 };
        CodecRow {
            codec: codec.into(),
            threads,
            ratio,
            compress: speed(compress),
            decompress: speed(decompress),
            bytes: 1 << 20,
        }
    }

    fn record() -> CodecsRecord {
        let rows = vec![row("none", 1, 1.0, 9800.0, 9900.0), row("zstd--5", 1, 0.5123, 600.0, 1500.0)];
        let predictions = |rates: [f64; 2]| {
            let with_rate = |(row, rate): (&CodecRow, f64)| PredictionRecord {
                codec: row.codec.clone(),
                threads: row.threads,
                rate,
                limit: "path-bandwidth".into(),
            };
            rows.iter().zip(rates).map(with_rate).collect::<Vec<_>>()
        };
        let links = vec![
            LinkRecord { link: 125e6, best: "zstd--5".into(), predictions: predictions([125e6, 244e6]) },
            LinkRecord { link: 1.25e9, best: "none".into(), predictions: predictions([1.25e9, 600e6]) },
        ];
        CodecsRecord {
            data: "a\nb".into(),
            whole: 3 << 30,
            held: 256 << 20,
            blocks: 256,
            of_blocks: 3072,
            places: vec![0, 12],
            block: 1 << 20,
            rows,
            links,
            regions: Vec::new(),
        }
    }

    fn text(render: impl Fn(&mut dyn Write) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        render(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn table_for_people() {
        let record = record();
        assert_eq!(
            text(|out| render_data(&record, out)),
            "a\\nb: 268 MB sampled evenly from 3.22 GB, 256 of 3072 blocks of 1 MiB, the same for every codec\n"
        );
        let whole = CodecsRecord { held: 3 << 30, blocks: 3072, places: Vec::new(), ..record.clone() };
        let all = "a\\nb: 3.22 GB, 3072 blocks of 1 MiB, the same for every codec\n";
        assert_eq!(text(|out| render_data(&whole, out)), all);
        let before = CodecsRecord { blocks: 0, of_blocks: 0, ..whole };
        assert_eq!(text(|out| render_data(&before, out)), "a\\nb: 3.22 GB, in blocks of 1 MiB\n");
        insta::assert_snapshot!(text(|out| render_table(&record, out)));
    }

    #[test]
    fn plan_reads_what_is_written() {
        let mut record = record();
        record.rows.push(row("zstd--5", 2, 0.5123, 1100.0, 2900.0));
        let csv = text(|out| render_csv(&record, out));
        assert_eq!(
            csv,
            "codec,ratio,compress,decompress\nnone,1.0000,9800.00,9900.00\nzstd--5,0.5123,600.00,1500.00\n"
        );
        let figures = table::parse(&csv).unwrap();
        assert_eq!(figures[1], record.rows[1].figure());
        record.rows.retain(|row| row.threads == 2);
        assert!(text(|out| render_csv(&record, out)).ends_with("zstd--5,0.5123,550.00,1450.00\n"));
    }

    #[test]
    fn json_and_back() {
        let record = record();
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<CodecsRecord>(&text).unwrap(), record);
    }
}
