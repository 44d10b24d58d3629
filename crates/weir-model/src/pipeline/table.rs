//! Codec figures as a table of text: `codec,ratio,compress[,decompress]`, one codec a line.
//!
//! The ratio is a fraction (0.358 where 1000 bytes become 358); speeds are MB/s of original bytes on one
//! core. Empty lines and lines that begin with `#` are skipped.

use std::collections::HashSet;

use weir_units::Rate;

use super::Figure;

/// Codecs in one table, at most: more is no table that someone means.
const ROWS: usize = 1000;

/// MB/s beyond which a speed is a mistake of unit: no memory moves 1 PB/s.
const FASTEST: f64 = 1e9;

/// Ratios beyond these are a percentage taken for a fraction, or no compressor.
const RATIOS: std::ops::RangeInclusive<f64> = 1e-6..=2.0;

/// What is wrong with a table, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableError {
    /// The first line is not the header.
    Header {
        /// What it says, cut where it is long.
        found: String,
    },
    /// No codec follows the header.
    Empty,
    /// A line holds too few or too many fields.
    Fields {
        /// Counted from 1.
        line: usize,
        /// Fields on it.
        found: usize,
        /// Fields that the header announces.
        expected: usize,
    },
    /// A field does not hold what it must.
    Field {
        /// Counted from 1.
        line: usize,
        /// The header's name of the field.
        field: &'static str,
        /// What it says, cut where it is long.
        found: String,
        /// What it must say.
        expected: &'static str,
    },
    /// A codec is there twice.
    Twice {
        /// Counted from 1.
        line: usize,
        /// The codec.
        name: String,
    },
    /// More codecs than anybody has.
    Long,
}

impl std::fmt::Display for TableError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TableError::Header { found } => {
                write!(
                    f,
                    "line 1: header is '{found}': expected codec,ratio,compress or codec,ratio,compress,decompress"
                )
            }
            TableError::Empty => {
                write!(f, "no codec in the table: expected a line such as lz4,0.48,600 after the header")
            }
            TableError::Fields { line, found, expected } => {
                write!(f, "line {line}: {found} fields where the header has {expected}")
            }
            TableError::Field { line, field, found, expected } => {
                write!(f, "line {line}: {field} is '{found}': expected {expected}")
            }
            TableError::Twice { line, name } => write!(f, "line {line}: codec '{name}' is there already"),
            TableError::Long => write!(f, "more than {ROWS} codecs in the table"),
        }
    }
}

impl std::error::Error for TableError {}

/// The figures of a table, in its order.
pub fn parse(text: &str) -> Result<Vec<Figure>, TableError> {
    let mut lines = (text.trim_start_matches('\u{feff}').lines().enumerate())
        .map(|(index, line)| (index + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let columns = header(lines.next().map_or("", |(_, line)| line))?;
    let mut figures = Vec::new();
    let mut names = HashSet::new();
    for (line, text) in lines {
        let figure = row(line, text, columns)?;
        if !names.insert(figure.name.clone()) {
            return Err(TableError::Twice { line, name: figure.name });
        }
        if figures.len() == ROWS {
            return Err(TableError::Long);
        }
        figures.push(figure);
    }
    if figures.is_empty() { Err(TableError::Empty) } else { Ok(figures) }
}

/// How many columns there are.
fn header(line: &str) -> Result<usize, TableError> {
    let names: Vec<String> = line.split(',').map(|name| name.trim().to_ascii_lowercase()).collect();
    match names.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["codec", "ratio", "compress"] => Ok(3),
        ["codec", "ratio", "compress", "decompress"] => Ok(4),
        _ => Err(TableError::Header { found: cut(line) }),
    }
}

fn row(line: usize, text: &str, columns: usize) -> Result<Figure, TableError> {
    let fields: Vec<&str> = text.split(',').map(str::trim).collect();
    if fields.len() != columns {
        return Err(TableError::Fields { line, found: fields.len(), expected: columns });
    }
    let wrong = |field, found: &str, expected| TableError::Field { line, field, found: cut(found), expected };
    let name = fields[0];
    if name.is_empty() || name.chars().count() > 40 || name.chars().any(char::is_control) {
        return Err(wrong("codec", name, "a name of 1 to 40 characters"));
    }
    let ratio = number(fields[1]).filter(|ratio| RATIOS.contains(ratio));
    let ratio = ratio.ok_or_else(|| {
        wrong("ratio", fields[1], "compressed / original as a fraction from 0.000001 to 2, such as 0.358")
    })?;
    let speed = |field, text: &str| {
        let speed = number(text).filter(|speed| *speed > 0.0 && *speed <= FASTEST);
        speed.map(|speed| Rate(speed * 1e6)).ok_or_else(|| wrong(field, text, "MB/s above 0, such as 101.7"))
    };
    let compress = speed("compress", fields[2])?;
    let decompress = match fields.get(3) {
        None | Some(&"") => None,
        Some(text) => Some(speed("decompress", text)?),
    };
    Ok(Figure { name: name.to_owned(), ratio, compress, decompress })
}

/// A plain decimal number: `inf`, `nan` and units are not.
fn number(text: &str) -> Option<f64> {
    let plain = !text.is_empty()
        && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'-' | b'+' | b'e' | b'E'));
    plain.then(|| text.parse().ok()).flatten().filter(|value: &f64| value.is_finite())
}

/// Text of a stranger's file for an error line.
fn cut(text: &str) -> String {
    text.chars().take(40).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_table_with_and_without_decompression() {
        let figures =
            parse("codec,ratio,compress\r\nZLIB, 0.3580 ,9.6\n\n# quick ones\nLZO,0.544,101.7\n").unwrap();
        assert_eq!(figures.len(), 2);
        assert_eq!(
            (figures[0].ratio, figures[0].compress, figures[0].decompress),
            (0.358, Rate(9.6e6), None)
        );
        let figures = parse("Codec,Ratio,Compress,Decompress\na,1,2,3\nb,1,2,\n").unwrap();
        assert_eq!(figures[0].decompress, Some(Rate(3e6)));
        assert_eq!(figures[1].decompress, None);
    }

    #[test]
    fn each_mistake_is_named_with_its_place() {
        for (text, said) in [
            ("", "line 1: header is ''"),
            ("name,ratio,compress\n", "line 1: header is 'name,ratio,compress'"),
            ("codec,ratio,compress\n", "no codec in the table"),
            ("codec,ratio,compress\na,1\n", "line 2: 2 fields where the header has 3"),
            (
                "codec,ratio,compress\n\na,35.8,9.6\n",
                "line 3: ratio is '35.8': expected compressed / original as a fraction",
            ),
            ("codec,ratio,compress\na,0,9.6\n", "line 2: ratio is '0'"),
            ("codec,ratio,compress\na,NaN,9.6\n", "line 2: ratio is 'NaN'"),
            ("codec,ratio,compress\na,.5,-1\n", "line 2: compress is '-1': expected MB/s above 0"),
            ("codec,ratio,compress\na,.5,inf\n", "line 2: compress is 'inf'"),
            ("codec,ratio,compress\na,.5,9e99\n", "line 2: compress is '9e99'"),
            ("codec,ratio,compress\na,.5,9 MB/s\n", "line 2: compress is '9 MB/s'"),
            ("codec,ratio,compress,decompress\na,.5,9,x\n", "line 2: decompress is 'x'"),
            ("codec,ratio,compress\n,.5,9\n", "line 2: codec is ''"),
            ("codec,ratio,compress\na,.5,9\na,.6,8\n", "line 3: codec 'a' is there already"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(said), "{text:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_table_or_an_error(text in "(codec,ratio,compress(,decompress)?\n)?[a-z0-9.,\n#-]{0,80}") {
            if let Ok(figures) = parse(&text) {
                for figure in figures {
                    prop_assert!(figure.ratio > 0.0 && figure.ratio <= 2.0);
                    prop_assert!(figure.compress.0 > 0.0 && figure.compress.0.is_finite());
                }
            }
        }
    }
}
