//! The configuration file's text: one flag a line, as in ~/.curlrc and ripgrep's file. Pure.
//!
//! ```text
//! # for every command that has the flag
//! --verbose
//!
//! [get]
//! --limit-rate=10M
//! header = "X-Team: 7"
//! -c 4
//! ```
//!
//! What a name means is left to [`super::flags`].

use super::Problem;

/// A flag, or the start of a section, whose `name` is empty.
#[derive(Debug, PartialEq)]
pub struct Entry {
    /// The command that it stands below, word by word; none at the top.
    pub section: Vec<String>,
    /// Its long name or its letter, without dashes.
    pub name: String,
    /// What follows the name.
    pub value: Option<String>,
    /// From 1 on.
    pub line: usize,
}

/// Reads lines: `[COMMAND]`, `--NAME=VALUE`, `--NAME VALUE`, `-L VALUE`, and as curl has them `NAME = VALUE`
/// and `NAME: "VALUE"`.
pub fn parse(text: &str) -> Result<Vec<Entry>, Problem> {
    let mut section = Vec::new();
    let mut entries = Vec::new();
    for (at, line) in text.trim_start_matches('\u{feff}').lines().map(str::trim).enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, value) = match line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(command) => {
                section = words(command);
                (String::new(), None)
            }
            None => flag(line).map_err(|text| Problem { line: at + 1, text: text.to_owned() })?,
        };
        entries.push(Entry { section: section.clone(), name, value, line: at + 1 });
    }
    Ok(entries)
}

/// The words of a command: `bench net`, `bench.net`, quoted or not.
pub fn words(section: &str) -> Vec<String> {
    let is_between = |char: char| char.is_whitespace() || ".\"'".contains(char);
    section.split(is_between).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Name and value of a line. A letter needs nothing between them.
fn flag(line: &str) -> Result<(String, Option<String>), &'static str> {
    let is_letter = line.starts_with('-') && !line.starts_with("--");
    let line = line.trim_start_matches('-');
    let end = match is_letter {
        true => line.chars().next().map(char::len_utf8),
        false => line.find(|char: char| char.is_whitespace() || char == '=' || char == ':'),
    };
    let (name, rest) = line.split_at(end.unwrap_or(line.len()));
    if name.is_empty() || name.starts_with(['[', '"', '\'']) {
        return Err("a line is a flag, such as --limit-rate=10M, or a [COMMAND]; a comment begins with '#'");
    }
    if rest.starts_with("://") {
        return Err("URLs stay on the command line");
    }
    let given = rest.strip_prefix(':').or(rest.trim_start().strip_prefix('='));
    let value = given.unwrap_or(rest).trim();
    let value = (given.is_some() || !value.is_empty()).then(|| unquoted(value)).transpose()?;
    Ok((name.to_owned(), value))
}

/// A value without its quotes; within double ones `\"` and `\\` stand for the mark and the backslash, as to
/// curl.
fn unquoted(value: &str) -> Result<String, &'static str> {
    let within = |mark: char| value.strip_prefix(mark).and_then(|rest| rest.strip_suffix(mark));
    match within('"') {
        Some(text) => Ok(text.replace("\\\"", "\"").replace("\\\\", "\\")),
        None if value.starts_with('"') => {
            Err("a quoted value ends the line; a comment has a line of its own")
        }
        None => Ok(within('\'').unwrap_or(value).to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_curl_and_ripgrep_read_it() {
        for (line, name, value) in [
            ("--verbose", "verbose", None),
            ("verbose", "verbose", None),
            ("-v", "v", None),
            ("-vv", "v", Some("v")),
            ("--limit-rate=10M", "limit-rate", Some("10M")),
            ("--limit-rate 10M", "limit-rate", Some("10M")),
            ("  --limit-rate = 10M\r", "limit-rate", Some("10M")),
            ("limit-rate=10M", "limit-rate", Some("10M")),
            ("limit-rate: 10M", "limit-rate", Some("10M")),
            ("limit-rate\t\"10M\"", "limit-rate", Some("10M")),
            ("-c 4", "c", Some("4")),
            ("-c4", "c", Some("4")),
            ("-c=4", "c", Some("4")),
            ("--header=X-Team: 7 # kept", "header", Some("X-Team: 7 # kept")),
            ("--header X-Team: 7", "header", Some("X-Team: 7")),
            ("header = \"X: \\\"a\\\" \\\\\"", "header", Some("X: \"a\" \\")),
            ("--header='X: 1'", "header", Some("X: 1")),
            ("-H 'X: 1'", "H", Some("X: 1")),
            ("--proxy=", "proxy", Some("")),
            ("proxy:http://h:1", "proxy", Some("http://h:1")),
            ("proxy = \"\"", "proxy", Some("")),
            ("proxy =", "proxy", Some("")),
            ("--listen :8000", "listen", Some(":8000")),
            ("proto = \"=https\"", "proto", Some("=https")),
            ("--ö", "ö", None),
            ("-ö", "ö", None),
        ] {
            let read = parse(line).unwrap();
            assert_eq!(read.len(), 1, "{line}");
            assert_eq!((read[0].name.as_str(), read[0].value.as_deref()), (name, value), "{line}");
        }
        for line in ["-", "--", "= 3", "--=3", "user = \"me", "user = \"me\" # I", "[get", "[get] # x"] {
            assert!(parse(&format!("# a comment\n\n{line}\n")).is_err_and(|error| error.line == 3), "{line}");
        }
    }

    #[test]
    fn a_url_is_no_flag() {
        for line in ["http://h/x", "s3://bucket/key?a=b c"] {
            let error = parse(line).expect_err("no flag");
            assert_eq!((error.line, error.text.as_str()), (1, "URLs stay on the command line"), "{line}");
        }
    }

    #[test]
    fn a_section_holds_what_follows_it() {
        let read = parse("\u{feff}-v\n[get]\n-k\n[bench.net]\n[\"bench net\"]\n-c h\n").unwrap();
        let places: Vec<(String, &str)> =
            read.iter().map(|entry| (entry.section.join(" "), entry.name.as_str())).collect();
        let expected =
            [("", "v"), ("get", ""), ("get", "k"), ("bench net", ""), ("bench net", ""), ("bench net", "c")];
        assert_eq!(places, expected.map(|(section, name)| (section.to_owned(), name)));
        assert_eq!(read[5].line, 6);
    }
}
