//! Programs that print credentials (`credential_process`, `az`): run without a shell, within a deadline, and
//! no longer than the user wants.

use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use weir_get::GetError;
use weir_units::program::{self, ProgramFailure, ProgramLimits};
use weir_units::{human_duration, plain};

use crate::error::StoreError;
use crate::network::no_credentials;

/// The most bytes that a program may print: credentials with a token take 4 KiB.
const MOST: u64 = 256 << 10;

/// How long a program may take. Some open a browser, and wait for a person.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Words of a line as a shell has them, but for what a shell would do with them: quotes and backslashes.
pub fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            c if c.is_whitespace() => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next()? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next()? {
                        '"' => break,
                        '\\' => match letters.next()? {
                            c @ ('"' | '\\' | '$' | '`') => word.push(c),
                            c => word.extend(['\\', c]),
                        },
                        c => word.push(c),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(letters.next()?),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Some(words)
}

/// What `words` prints, as credentials from `source`.
pub fn output(
    words: &[String],
    source: &str,
    limit: Duration,
    stop: &AtomicBool,
) -> Result<Vec<u8>, StoreError> {
    answer(words, "", source, limit, stop)
}

/// The same of a program that is told `input`, which a pipe holds, on its stdin.
pub fn answer(
    words: &[String],
    input: &str,
    source: &str,
    limit: Duration,
    stop: &AtomicBool,
) -> Result<Vec<u8>, StoreError> {
    let cannot = |cause: String| StoreError::Credentials(no_credentials(source, cause, ""));
    let (program, arguments) = words.split_first().ok_or_else(|| cannot("it names no program".to_owned()))?;
    let mut command = Command::new(program);
    command.args(arguments);
    let limits = ProgramLimits { time: limit, output: MOST, stop };
    let ended = program::run(command, input.as_bytes(), limits).map_err(|failure| match failure {
        ProgramFailure::Io(error) => cannot(format!("cannot run {program}: {}", plain(&error))),
        ProgramFailure::TookLonger => cannot(format!("{program} took longer than {}", human_duration(limit))),
        ProgramFailure::Interrupted => GetError::Interrupted.into(),
    })?;
    if !ended.status.success() {
        // Some complain on stdout.
        let said = [&ended.err, &ended.out].map(|bytes| harmless(&String::from_utf8_lossy(bytes)));
        let words = said.into_iter().find(|words| !words.is_empty()).unwrap_or_default();
        let words = if words.is_empty() { String::new() } else { format!(": {words}") };
        return Err(cannot(format!("{program} failed ({}){words}", ended.status)));
    }
    match ended.out.len() as u64 > MOST {
        true => Err(cannot(format!("{program} printed more than {MOST} bytes"))),
        false => Ok(ended.out),
    }
}

/// The most letters of a program's complaint.
const MOST_WORDS: usize = 200;

/// A word at least so long may be a secret: no key is shorter, and few words are as long.
const SECRET: usize = 16;

/// The last line of what a program complains, without what may be a secret in it.
fn harmless(text: &str) -> String {
    let line = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    let is_secret = |word: &str| word.split(['/', '-', '.', ':', '_']).any(|part| part.len() >= SECRET);
    let shown = line.split_whitespace().map(|word| if is_secret(word) { "REDACTED" } else { word });
    shown.collect::<Vec<_>>().join(" ").chars().filter(|c| !c.is_control()).take(MOST_WORDS).collect()
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Instant;

    use super::*;

    const POLL_INTERVAL: Duration = Duration::from_millis(10);

    fn run(line: &str, limit: Duration) -> Result<Vec<u8>, String> {
        let stop = AtomicBool::new(false);
        output(&words(line).unwrap(), "the profile 'x'", limit, &stop).map_err(|error| error.to_string())
    }

    #[test]
    fn a_line_is_words_and_nothing_is_expanded() {
        let of = |line| words(line).unwrap_or_default();
        assert_eq!(of(r#" /a\ b/c "d e" '$x"'f \"g ''"#), ["/a b/c", "d e", "$x\"f", "\"g", ""]);
        assert_eq!(of("a;b $(c) | d"), ["a;b", "$(c)", "|", "d"]);
        assert_eq!(of(r#""\$\x""#), [r"$\x"]);
        assert_eq!((words("'a"), words("\"a"), words("a\\")), (None, None, None));
    }

    #[test]
    fn what_a_program_prints_is_taken_and_its_failure_told() {
        assert_eq!(run("sh -c 'echo hi'", LIMIT).unwrap(), b"hi\n");
        assert_eq!(
            run("sh -c 'echo log in first, wJalrXUtnFEMI0K7MDENGbPxRfiCY >&2; exit 3'", LIMIT).unwrap_err(),
            "cannot get credentials from the profile 'x': sh failed (exit status: 3): log in first, REDACTED"
        );
        assert!(run("/nowhere/x", LIMIT).unwrap_err().contains("no such file"));
        assert!(run("sh -c 'yes'", LIMIT / 600).is_err());
        assert!(run("head -c 1000000 /dev/zero", LIMIT).unwrap_err().contains("more than"));
    }

    #[test]
    fn a_program_that_hangs_is_ended_with_what_it_started() {
        let dir = tempfile::tempdir().unwrap();
        let pid = dir.path().join("pid");
        let line = format!("sh -c 'sleep 1000 & echo $! > {}; wait'", pid.display());
        let began = Instant::now();
        let error = run(&line, Duration::from_secs(3)).unwrap_err();
        assert!(error.contains("took longer than 3.0 s"), "{error}");
        assert!(began.elapsed() < Duration::from_secs(100));
        let child: i32 = std::fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
        let is_over = || {
            let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            stat.is_empty() || stat.rsplit(')').next().unwrap().trim_start().starts_with('Z')
        };
        let deadline = Instant::now() + Duration::from_secs(30);
        while !is_over() {
            assert!(Instant::now() < deadline, "{child} still runs");
            thread::sleep(POLL_INTERVAL);
        }
    }

    #[test]
    fn output_that_a_child_holds_open_is_not_waited_for() {
        let began = Instant::now();
        let _ = run("sh -c 'sleep 30 & echo x'", LIMIT);
        assert!(began.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn the_user_ends_it() {
        let stop = AtomicBool::new(true);
        let error = output(&words("sleep 1000").unwrap(), "x", LIMIT, &stop).unwrap_err();
        assert!(matches!(error, StoreError::Http(GetError::Interrupted)));
    }
}
