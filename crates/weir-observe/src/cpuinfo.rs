//! Which processor is this, and how many of them?
//!
//! `/proc/cpuinfo`: a paragraph for each processor that is online. Its words differ by architecture: x86 has
//! `model name`, arm64 only numbers (`CPU implementer`, `CPU part`), s390 a line for each processor and none
//! of the rest.

use crate::error::{Malformed, ObserveError};
use crate::proc_file::read_once;

/// A name is cut here: it is a name.
const LONGEST: usize = 120;

/// The machine's processors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Processors {
    /// What the first one calls itself; empty where it does not.
    pub model: String,
    /// How many are online.
    pub count: u32,
}

/// Reads what the file says.
pub fn parse(text: &str) -> Result<Processors, Malformed> {
    let entries = || {
        text.lines().filter_map(|line| line.split_once(':')).map(|(key, value)| (key.trim(), value.trim()))
    };
    let count = entries().filter(|(key, _)| key.strip_prefix("processor").is_some_and(is_number)).count();
    if count == 0 {
        return Err(Malformed("no processors".to_owned()));
    }
    let first = |wanted: &str| {
        entries().find(|(key, value)| *key == wanted && !value.is_empty()).map(|(_, value)| value)
    };
    let named =
        first("model name").or_else(|| first("cpu")).or_else(|| first("Processor")).map(str::to_owned);
    let numbered = || Some(format!("implementer {} part {}", first("CPU implementer")?, first("CPU part")?));
    let model = named.or_else(numbered).unwrap_or_default();
    let model = model.chars().filter(|letter| !letter.is_control()).take(LONGEST).collect();
    Ok(Processors { model, count: u32::try_from(count).unwrap_or(u32::MAX) })
}

/// Nothing, or the number that s390 writes into the key: `processor 0`.
fn is_number(rest: &str) -> bool {
    rest.trim().chars().all(|letter| letter.is_ascii_digit())
}

/// This machine's.
pub fn read() -> Result<Processors, ObserveError> {
    read_once("/proc/cpuinfo", parse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_in_their_own_words() {
        for (text, model, count) in [
            (
                "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Some CPU @ 2.00GHz\n\nprocessor\t: 1\nmodel name\t: Some CPU @ 2.00GHz\n",
                "Some CPU @ 2.00GHz",
                2,
            ),
            (
                "processor\t: 0\nBogoMIPS\t: 50.00\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n\nprocessor\t: 1\n",
                "implementer 0x41 part 0xd0c",
                2,
            ),
            (
                "vendor_id       : IBM/S390\n# processors    : 1\nprocessor 0: version = FF,  identification = 1\n",
                "",
                1,
            ),
            ("processor\t: 0\ncpu\t\t: POWER9, altivec supported\n", "POWER9, altivec supported", 1),
            ("processor : 0\nmodel name : a\u{1b}[2Jb\n", "a[2Jb", 1),
        ] {
            assert_eq!(parse(text), Ok(Processors { model: model.into(), count }), "{text}");
        }
        assert!(parse("").is_err());
        assert_eq!(
            parse(&format!("processor: 0\nmodel name: {}", "x".repeat(9999))).unwrap().model.len(),
            LONGEST
        );
    }

    #[test]
    fn this_machine_has_processors() {
        assert!(read().unwrap().count > 0);
    }
}
