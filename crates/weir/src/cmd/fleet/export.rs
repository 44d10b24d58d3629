//! `weir fleet export`: every object and what became of it.

use std::io::{BufWriter, Write};

use anyhow::Context;
use weir_fleet::FleetError;
use weir_fleet::ledger::ObjectRow;

use crate::args::{ExportFormat, FleetExport};
use crate::interrupt;
use crate::voice::Printed;

/// Why it ended.
enum Ended {
    Ledger(FleetError),
    Print(anyhow::Error),
}

impl From<FleetError> for Ended {
    fn from(error: FleetError) -> Ended {
        Ended::Ledger(error)
    }
}

/// Prints them. Returns the exit code.
pub fn run(export: &FleetExport) -> anyhow::Result<u8> {
    let stop = interrupt::stop()?;
    let mut ledger = super::open(&export.ledger, &stop)?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    if export.format == ExportFormat::Csv {
        writeln!(out, "source,target,size,state,batch,host,class,reason").printed("the objects")?;
    }
    let ended = ledger.each_row(&mut |_, row| {
        if export.state.as_deref().is_some_and(|state| state != row.state) {
            return Ok(());
        }
        let line = match export.format {
            ExportFormat::Csv => csv(row),
            ExportFormat::Json => {
                serde_json::to_string(row).context("cannot write JSON").map_err(Ended::Print)?
            }
        };
        writeln!(out, "{line}").printed("the objects").map_err(Ended::Print)
    });
    match ended {
        Ok(()) => out.flush().printed("the objects").map(|()| 0),
        Err(Ended::Ledger(error)) => Err(error.into()),
        Err(Ended::Print(error)) => Err(error),
    }
}

/// A line of RFC 4180, without its end.
fn csv(row: &ObjectRow) -> String {
    let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
    let text = |text: &Option<String>| field(text.as_deref().unwrap_or_default());
    [
        field(&row.source),
        field(&row.target),
        number(row.size),
        row.state.to_owned(),
        row.batch.to_string(),
        text(&row.host),
        text(&row.class),
        text(&row.reason),
    ]
    .join(",")
}

/// With an apostrophe before what a spreadsheet would take for a formula: names and reasons are others'
/// words.
fn field(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if is_formula { format!("'{text}") } else { text.to_owned() };
    match text.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_with_a_comma_is_quoted() {
        assert_eq!(field("a b"), "a b");
        assert_eq!(field("a,\"b\"\n"), "\"a,\"\"b\"\"\n\"");
    }

    #[test]
    fn no_field_is_a_formula() {
        for (text, written) in [("=1+1", "'=1+1"), ("-a", "'-a"), ("@x,y", "\"'@x,y\""), ("a=b", "a=b")] {
            assert_eq!(field(text), written);
        }
    }
}
