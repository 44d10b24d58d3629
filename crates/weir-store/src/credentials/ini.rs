//! The files of Amazon's tools (`~/.aws/config`, `~/.aws/credentials`), read as those tools do: sections,
//! `name = value`, and lines that are indented below a name without a value.
//!
//! As in Python's configparser, on which they stand: `#` and `;` begin a comment at the start of a line
//! alone, `:` divides as `=` does, names are compared in lower case, and the last of two counts.

use std::collections::BTreeMap;

/// A file. Without `Debug`: it holds secrets.
#[derive(Default, Clone)]
pub struct Ini {
    sections: Vec<(String, Section)>,
}

/// What stands below one `[NAME]`.
#[derive(Default, Clone)]
pub struct Section {
    values: BTreeMap<String, Value>,
}

#[derive(Default, Clone)]
struct Value {
    text: String,
    within: BTreeMap<String, String>,
}

/// A line that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} {why}")]
pub struct BadLine {
    /// Counted from one.
    pub line: usize,
    /// What is wrong with it; never what it says.
    pub why: &'static str,
}

impl Ini {
    /// Reads a file.
    pub fn parse(text: &str) -> Result<Ini, BadLine> {
        let mut ini = Ini::default();
        let mut last: Option<String> = None;
        for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
            let bad = |why| BadLine { line: index + 1, why };
            let trimmed = line.trim();
            if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
                continue;
            }
            let is_indented = line.starts_with([' ', '\t']);
            if let Some(value) = ini.value_above(last.as_deref()).filter(|_| is_indented) {
                // Of a value that is not empty such a line is more, which no setting that counts here has.
                if let Some((name, text)) = divided(trimmed) {
                    value.within.insert(name, text);
                }
                continue;
            }
            if let Some(rest) = trimmed.strip_prefix('[') {
                let (name, _) = rest.split_once(']').ok_or(bad("has a '[' without a ']'"))?;
                ini.sections.push((name_of(name), Section::default()));
                last = None;
                continue;
            }
            let (name, text) = divided(trimmed).ok_or(bad("is no 'name = value'"))?;
            let (_, section) = ini.sections.last_mut().ok_or(bad("stands before the first [section]"))?;
            section.values.insert(name.clone(), Value { text, within: BTreeMap::new() });
            last = Some(name);
        }
        Ok(ini)
    }

    fn value_above(&mut self, name: Option<&str>) -> Option<&mut Value> {
        self.sections.last_mut()?.1.values.get_mut(name?)
    }

    /// The names of all sections, as in `profile backup`.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.sections.iter().map(|(name, _)| name.as_str())
    }

    /// What all sections of this name say, the last one's words first.
    pub fn section(&self, name: &str) -> Option<Section> {
        let mut found: Option<Section> = None;
        for (_, section) in self.sections.iter().filter(|(known, _)| known == name) {
            found.get_or_insert_default().add(section);
        }
        found
    }
}

impl Section {
    /// The value of `name`; what is empty counts as absent.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|value| value.text.as_str()).filter(|text| !text.is_empty())
    }

    /// The value of `name` below `group`.
    pub fn within(&self, group: &str, name: &str) -> Option<&str> {
        let text = self.values.get(group)?.within.get(name)?;
        (!text.is_empty()).then_some(text)
    }

    /// Takes over what `other` says.
    pub fn add(&mut self, other: &Section) {
        self.values.extend(other.values.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
}

/// `name = value`.
fn divided(line: &str) -> Option<(String, String)> {
    let (name, text) = line.split_once(['=', ':'])?;
    let name = name.trim().to_ascii_lowercase();
    (!name.is_empty()).then(|| (name, text.trim().to_owned()))
}

/// The name of a section: words with one space between, quotes taken off.
fn name_of(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (kind, name) = words.split_once(' ').unwrap_or(("", &words));
    let bare = |quote| name.strip_prefix(quote).and_then(|rest: &str| rest.strip_suffix(quote));
    let name = bare('"').or_else(|| bare('\'')).unwrap_or(name);
    if kind.is_empty() { name.to_owned() } else { format!("{kind} {name}") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_file_is_read_as_the_aws_tool_reads_it() {
        let text = "\u{feff}# comment\n[default]\nRegion = eu-west-1 ; not a comment\r\nempty =\n\
                    [profile  \"a b\"]\ns3 =\n  endpoint_url = http://h:1/x=y\n\taddressing_style: path\n\
                    role_arn: arn:aws:iam::1:role/x\n; more\n  # and more\nrole_arn=second\n[default]\nx = 1\n";
        let ini = Ini::parse(text).unwrap();
        assert_eq!(ini.names().collect::<Vec<_>>(), ["default", "profile a b", "default"]);
        let default = ini.section("default").unwrap();
        assert_eq!(default.get("region"), Some("eu-west-1 ; not a comment"));
        assert_eq!((default.get("x"), default.get("empty"), default.get("y")), (Some("1"), None, None));
        let other = ini.section("profile a b").unwrap();
        assert_eq!(other.within("s3", "endpoint_url"), Some("http://h:1/x=y"));
        assert_eq!(other.within("s3", "addressing_style"), Some("path"));
        assert_eq!(other.get("role_arn"), Some("second"));
        assert!(ini.section("a b").is_none());
    }

    #[test]
    fn a_bad_line_is_named_and_not_quoted() {
        for (text, line) in [("a = b\n", 1), ("[a]\n\nsecret\n", 3), ("[a]\n[b\n", 2), ("[a]\n= b\n", 2)] {
            let bad = Ini::parse(text).err().unwrap();
            assert_eq!(bad.line, line, "{text}");
            assert!(!bad.to_string().contains("secret"));
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in "[\\[\\]=:#; \t\nab\u{feff}é]{0,200}") {
            if let Ok(ini) = Ini::parse(&text) {
                for name in ini.names() {
                    prop_assert!(ini.section(name).is_some());
                }
            }
        }
    }
}
