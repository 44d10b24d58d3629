//! The text of a list of hosts: from a file, or from stdin.

use std::fs::File;
use std::io::Read;

use anyhow::Context;
use weir_fleet::launch::hosts::MAX_LIST;
use weir_units::Bytes;

use crate::voice::Usage;

/// Reads the file at `path`, or stdin where that is `-`. Returns the text and the name of the list in errors.
pub(super) fn read(path: &str) -> anyhow::Result<(String, &str)> {
    let shown = if path == "-" { "stdin" } else { path };
    let cannot = || format!("cannot read the hosts in {shown}");
    let from: Box<dyn Read> = match path {
        "-" => Box::new(std::io::stdin()),
        path => Box::new(File::open(path).with_context(cannot)?),
    };
    let mut text = String::new();
    from.take(MAX_LIST + 1).read_to_string(&mut text).with_context(cannot)?;
    if text.len() as u64 > MAX_LIST {
        let most = Bytes(MAX_LIST);
        return Err(Usage(format!("{}: more than {most}; is it a list of hosts?", cannot())).into());
    }
    Ok((text, shown))
}
