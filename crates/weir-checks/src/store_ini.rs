//! The files of `~/.aws`: a bad line is named and not quoted, and what is read can be found.

use weir_store::credentials::ini::Ini;

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    match Ini::parse(&text) {
        Ok(ini) => {
            let names: Vec<&str> = ini.names().collect();
            for name in &names {
                let section = ini.section(name).expect("a section that is named is there");
                for value in
                    [section.get("region"), section.within("s3", "endpoint_url")].into_iter().flatten()
                {
                    assert!(!value.is_empty() && !value.contains('\n'), "{value:?}");
                }
            }
            !names.is_empty()
        }
        Err(bad) => {
            assert!((1..=text.lines().count()).contains(&bad.line), "line {}", bad.line);
            let said = bad.to_string();
            let longest =
                text.lines().map(str::trim).filter(|line| line.len() > 40).max_by_key(|line| line.len());
            assert!(longest.is_none_or(|line| !said.contains(line)), "{said}");
            false
        }
    }
}
