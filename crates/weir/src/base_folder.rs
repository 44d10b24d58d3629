//! weir's folders among a user's own, as the XDG Base Directory Specification has it.

use std::ffi::OsString;
use std::path::PathBuf;

/// Where the configuration lies.
pub fn config(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    of_weir("XDG_CONFIG_HOME", ".config", variable)
}

/// Where lies what can be found out again.
pub fn cache(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    of_weir("XDG_CACHE_HOME", ".cache", variable)
}

/// `None` for whoever has no home. Relative paths are none, there as here: they would mean another folder in
/// each folder.
fn of_weir(own: &str, at_home: &str, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute(own).or_else(|| Some(absolute("HOME")?.join(at_home)))?;
    Some(base.join("weir"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folders_are_absolute_or_none() {
        let place = |variables: &'static [(&str, &str)]| {
            let find = |wanted: &str| variables.iter().find(|(name, _)| *name == wanted);
            config(|name| find(name).map(|(_, value)| value.into()))
        };
        let at = |path: &str| Some(PathBuf::from(path));
        assert_eq!(place(&[("HOME", "/h")]), at("/h/.config/weir"));
        assert_eq!(place(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "/x")]), at("/x/weir"));
        assert_eq!(place(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "x")]), at("/h/.config/weir"));
        assert_eq!(place(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "")]), at("/h/.config/weir"));
        assert_eq!(place(&[("HOME", "h")]), None);
        assert_eq!(place(&[]), None);
        let variable = |name: &str| (name == "XDG_CACHE_HOME").then(|| "/c".into());
        assert_eq!((cache(variable), config(variable)), (at("/c/weir"), None));
    }
}
