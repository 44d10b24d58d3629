//! Programs of a cluster, and what they say.

use std::process::Command;

use weir_units::plain;
use weir_units::program::{self, ProgramFailure, ProgramLimits};

/// The most letters of a complaint: some lines, of which the first or the last says why.
const MOST: usize = 600;

/// Why a program did not do what it was asked.
pub(super) enum Refusal {
    /// A signal came.
    Interrupted,
    /// In words.
    Why(String),
    /// It said no, in these words of its own.
    Complaint(Vec<u8>),
}

/// What a program prints that was given `input`. `absent` says what to do where it is not installed, `late`
/// where it did not end in time.
pub(super) fn asked(
    command: Command,
    input: &[u8],
    limits: ProgramLimits<'_>,
    (absent, late): (&str, &str),
) -> Result<Vec<u8>, Refusal> {
    let ended = program::run(command, input, limits).map_err(|failure| match failure {
        ProgramFailure::Io(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Refusal::Why(absent.to_owned())
        }
        ProgramFailure::Io(error) => Refusal::Why(plain(&error)),
        ProgramFailure::TookLonger => Refusal::Why(late.to_owned()),
        ProgramFailure::Interrupted => Refusal::Interrupted,
    })?;
    if ended.status.success() { Ok(ended.out) } else { Err(Refusal::Complaint(ended.err)) }
}

/// The lines of a text as one, without what moves a terminal's cursor.
pub(super) fn one_line(bytes: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(bytes)
        .chars()
        .filter(|letter| *letter == '\n' || !letter.is_control())
        .collect();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join("; ").chars().take(MOST).collect()
}
