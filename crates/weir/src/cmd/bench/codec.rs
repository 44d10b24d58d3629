//! `weir bench codec`: what each codec does to this data, and which one wins on which link.

use std::io::Write;
use std::time::Instant;

use weir_bench::codec::{self, Looked, Row};
use weir_bench::corpus::{BLOCK, Corpus, Kind, MOST, SAMPLE, Take, evenly};
use weir_bench::repeat::Limits;
use weir_codec::codec::Setting;
use weir_model::pipeline::{self, Figure, best, predict};
use weir_report::codecs::{self, CodecRow, CodecsRecord, LinkRecord, PredictionRecord, RegionRecord};
use weir_report::schema::Record;
use weir_report::{chart, json};
use weir_units::{Bytes, Rate};

use super::{Progress, WRONG_DATA, outcome_of, speed};
use crate::args::{BenchCodec, Generated};
use crate::interrupt::INTERRUPTED;
use crate::output;
use crate::page;
use crate::voice::{self, Printed};

/// Measures and reports. Returns the exit code.
pub fn run(bench: &BenchCodec) -> anyhow::Result<u8> {
    voice::start_log(bench.voice.quiet, bench.voice.verbose);
    let start = Instant::now();
    let corpus = corpus(bench)?;
    if let Some(path) = &bench.chart {
        output::check(path)?;
    }
    let chosen = bench.codecs.iter().flat_map(|choice| choice.0.iter().copied());
    let settings: Vec<_> = if bench.codecs.is_empty() { codec::usual() } else { chosen.collect() };
    let progress = Progress::new(&bench.voice)?;
    let sample = Sample::all(&corpus);
    let measured = measure(&settings, &bench.threads, &sample, (&Limits::within(bench.span), &progress));
    drop(progress);
    let (rows, interrupted) = match measured {
        Ok(measured) => measured,
        // A file that cannot be read any more says nothing of a codec, nor does a thread that is refused.
        Err(codec::ErrorError::Corpus(error)) => return Err(error.into()),
        Err(codec::ErrorError::Thread(error)) => return Err(error.into()),
        Err(error) => {
            voice::fatal(&error.into());
            return Ok(WRONG_DATA);
        }
    };
    let member = member(&sample, &rows, &bench.links);
    // A picture of some of them would take the place of one of all.
    if let Some(path) = bench.chart.as_ref().filter(|_| !interrupted) {
        let mut picture = Vec::new();
        chart::render_svg(&member, &mut picture)?;
        output::write(path, &picture)?;
    }
    let code = if interrupted { INTERRUPTED } else { 0 };
    print(bench, &member, code, start.elapsed().as_secs_f64())?;
    Ok(code)
}

fn corpus(bench: &BenchCodec) -> anyhow::Result<Corpus> {
    let take = if bench.whole { Take::Whole } else { Take::Blocks(bench.blocks.unwrap_or(SAMPLE)) };
    let Some(generate) = bench.generate else { return Ok(Corpus::read(&bench.files, take)?) };
    if bench.size.0 > MOST {
        tracing::warn!("generating {} instead of {}: more is not held in memory", Bytes(MOST), bench.size);
    }
    let kind = match generate {
        Generated::Text => Kind::Text,
        Generated::Binary => Kind::Binary,
        Generated::Random => Kind::Random,
    };
    Ok(Corpus::generate(kind, bench.size.0))
}

/// The data, and how many blocks of them go through every codec.
pub(super) struct Sample<'a> {
    corpus: &'a Corpus,
    blocks: usize,
}

impl<'a> Sample<'a> {
    /// Of data whose parts may differ.
    pub(super) fn all(corpus: &'a Corpus) -> Sample<'a> {
        Sample { corpus, blocks: corpus.len() }
    }

    /// Of data whose parts are alike: so many stand for all.
    pub(super) fn of(corpus: &'a Corpus, blocks: usize) -> Sample<'a> {
        Sample { corpus, blocks: blocks.min(corpus.len()) }
    }

    /// Which of all blocks these are; none where they are all.
    fn places(&self) -> Vec<u64> {
        if self.blocks == self.corpus.of {
            return Vec::new();
        }
        let places = evenly(self.corpus.len(), self.blocks).filter_map(|index| self.corpus.place(index));
        places.map(|place| place as u64).collect()
    }
}

/// Measures alone. Returns also whether it was interrupted; the error is of a codec that gave back other
/// data, or of data that cannot be read any more.
pub(super) fn measure(
    settings: &[Setting],
    numbers: &[u16],
    sample: &Sample<'_>,
    (limits, progress): (&Limits, &Progress),
) -> Result<(Vec<Row>, bool), codec::ErrorError> {
    let mut rows: Vec<Row> = Vec::new();
    let count = settings.len() * numbers.len();
    for &setting in settings {
        // Named twice is measured once.
        if rows.iter().any(|row| row.setting == setting) {
            continue;
        }
        let done = rows.len();
        let go_on = |block: usize| {
            progress.next(&format!("{setting}, block {} of {}", block + 1, sample.blocks), done, count)
        };
        let Some(looked) = Looked::at(setting, sample.corpus, sample.blocks, &go_on)? else {
            return Ok((rows, true));
        };
        for &threads in numbers {
            let threads = usize::from(threads);
            if rows.iter().any(|row| (row.setting, row.threads) == (setting, threads)) {
                continue;
            }
            if !progress.next(&setting.to_string(), rows.len(), count) {
                return Ok((rows, true));
            }
            let Some(row) = looked.row(threads, limits, &|| progress.goes_on())? else {
                return Ok((rows, true));
            };
            rows.push(row);
        }
    }
    Ok((rows, false))
}

/// What was found, as the record holds it.
pub(super) fn member(sample: &Sample<'_>, rows: &[Row], links: &[Rate]) -> CodecsRecord {
    let corpus = sample.corpus;
    let figures: Vec<Figure> = rows.iter().map(Row::figure).collect();
    let regions = codec::winners(&figures).into_iter().map(|region| RegionRecord {
        codec: figures[region.index].name.clone(),
        threads: rows[region.index].threads,
        from: region.from.0,
        to: region.to.map(|rate| rate.0),
    });
    CodecsRecord {
        data: corpus.name.clone(),
        whole: corpus.whole,
        // All went through the same blocks.
        held: rows.first().map_or(corpus.taken(), |row| row.bytes),
        blocks: sample.blocks as u64,
        of_blocks: corpus.of as u64,
        places: sample.places(),
        block: BLOCK as u64,
        rows: rows.iter().map(codec_row).collect(),
        links: links.iter().map(|link| link_record(*link, rows, &figures)).collect(),
        regions: regions.collect(),
    }
}

fn codec_row(row: &Row) -> CodecRow {
    CodecRow {
        codec: row.setting.to_string(),
        threads: row.threads,
        ratio: row.ratio,
        compress: speed(row.compress),
        decompress: speed(row.decompress),
        bytes: row.bytes,
    }
}

fn link_record(link: Rate, rows: &[Row], figures: &[Figure]) -> LinkRecord {
    let path = pipeline::Path::of(link);
    let predictions = figures.iter().zip(rows).map(|(figure, row)| {
        let prediction = predict(figure, &path);
        PredictionRecord {
            codec: figure.name.clone(),
            threads: row.threads,
            rate: prediction.rate.0,
            limit: prediction.limit.name().to_owned(),
        }
    });
    LinkRecord {
        link: link.0,
        best: best(figures, &path).map(|(figure, _)| figure.name.clone()).unwrap_or_default(),
        predictions: predictions.collect(),
    }
}

fn print(bench: &BenchCodec, member: &CodecsRecord, code: u8, seconds: f64) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let mut record = Record::new("bench", outcome_of(code), member.held, seconds);
    record.extra.insert("codecs".to_owned(), serde_json::to_value(member)?);
    let printed = if bench.voice.json {
        json::render(&record, &mut out)
    } else if bench.csv {
        codecs::render_csv(member, &mut out)
    } else if bench.voice.quiet {
        Ok(())
    } else {
        codecs::render_data(member, &mut out)
            .and_then(|()| codecs::render_table(member, &mut out))
            .and_then(|()| writeln!(out))
            .and_then(|()| chart::render(member, &mut out))
    };
    printed.printed("the table")?;
    page::keep(&bench.voice, &record)
}
