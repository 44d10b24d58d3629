//! `-H`: fields of each request, as curl has them. `NAME: VALUE` sends one, `NAME:` leaves one out, `NAME;`
//! sends an empty one, `@FILE` holds such lines.

use std::path::Path;

use weir_units::Bytes;

use super::bench_http::parse_field;

/// Servers take 8 to 64 KiB of fields.
const MAX_FILE: Bytes = Bytes(1 << 20);

/// Fields that weir makes for each request from what it needs of the object.
const OWN: [&str; 4] = ["range", "if-range", "content-length", "transfer-encoding"];

/// What all `-H` together say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GivenFields {
    /// To be sent, in order; several may have one name.
    pub sent: Vec<(String, String)>,
    /// Names of those that are not sent, in lower case.
    pub removed: Vec<String>,
}

impl GivenFields {
    /// Reads the values of `-H`.
    pub fn read(lines: &[String]) -> Result<GivenFields, String> {
        let mut given = GivenFields::default();
        for line in lines {
            match line.strip_prefix('@') {
                Some(file) => {
                    for (number, line) in lines_of(file)? {
                        given.take(&line).map_err(|error| format!("{file}, line {number}: {error}"))?;
                    }
                }
                None => given.take(line)?,
            }
        }
        Ok(given)
    }

    fn take(&mut self, line: &str) -> Result<(), String> {
        let has_value = line.split_once(':').is_some_and(|(_, value)| !value.trim().is_empty());
        let empty = line.trim_end().strip_suffix(';').filter(|name| !name.contains(':'));
        // By the same grammar, whatever is asked of the name.
        let (name, value) = parse_field(&empty.map_or_else(|| line.to_owned(), |name| format!("{name}:")))?;
        let lower = name.to_ascii_lowercase();
        if has_value || empty.is_some() {
            if OWN.contains(&lower.as_str()) {
                let way_out = match (lower.as_str(), value.strip_prefix("bytes=")) {
                    ("range", Some(range)) => format!("-r {range} fetches these bytes"),
                    ("range", None) => "-r FIRST-LAST fetches some bytes of an object".to_owned(),
                    _ => "leave it out".to_owned(),
                };
                return Err(format!("cannot send {name} (-H): weir makes that field itself; {way_out}"));
            }
            self.sent.push((name, value));
            return Ok(());
        }
        if lower == "host" {
            return Err(
                "cannot leave out Host (-H): HTTP/1.1 demands it; -H 'Host;' sends an empty one".to_owned()
            );
        }
        // What a file of settings, or an earlier word, gave goes too.
        self.sent.retain(|(own, _)| !own.eq_ignore_ascii_case(&lower));
        self.removed.push(lower);
        Ok(())
    }
}

fn lines_of(file: &str) -> Result<Vec<(usize, String)>, String> {
    let cannot = |error: &dyn std::fmt::Display| format!("cannot read the fields in {file} (-H): {error}");
    let read = match file {
        "-" => weir_units::read_up_to(std::io::stdin().lock(), MAX_FILE),
        path => weir_units::read_file(Path::new(path), MAX_FILE),
    };
    let bytes = read.map_err(|error| cannot(&weir_units::plain(&error)))?;
    let text = weir_units::list_text(&bytes).map_err(|error| cannot(&error))?;
    let lines = weir_units::lines(text).map(|(number, line)| (number, line.trim_end().to_owned()));
    Ok(lines.filter(|(_, line)| !line.is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> Result<GivenFields, String> {
        GivenFields::read(&lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn sent_removed_and_empty_ones() {
        let given = read(&["A: 1", "a: 2", "X-Empty;", "Accept:", "User-Agent: "]).unwrap();
        let sent: Vec<(&str, &str)> = given.sent.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(sent, [("A", "1"), ("a", "2"), ("X-Empty", "")]);
        assert_eq!(given.removed, ["accept", "user-agent"]);
        assert_eq!(read(&["A: 1", "A:", "A: 3"]).unwrap().sent, [("A".to_owned(), "3".to_owned())]);
        assert_eq!(read(&["A: b;"]).unwrap().sent, [("A".to_owned(), "b;".to_owned())]);
        for bad in [
            "A",
            "",
            ":",
            "A B: c",
            "Range: bytes=0-1",
            "If-Range;",
            "Host:",
            "A: b\r\nC: d",
            "@/nowhere/fields",
        ] {
            assert!(read(&[bad]).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_file_holds_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fields");
        std::fs::write(&path, "\u{feff}X-One: 1\r\n\r\nAccept:\nX-Two;\n").unwrap();
        let given = read(&[&format!("@{}", path.display())]).unwrap();
        assert_eq!((given.sent.len(), given.removed.len()), (2, 1));
        std::fs::write(&path, "A: 1\nnonsense\n").unwrap();
        let said = read(&[&format!("@{}", path.display())]).unwrap_err();
        assert!(said.contains("line 2"), "{said}");
    }
}
