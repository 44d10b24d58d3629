//! What `weir get` is asked to fetch: what a URL, a line of a list and `-o` mean.

use std::path::{Component, Path, PathBuf};

use anyhow::Context;
use url::{ParseError, Url};
use weir_get::job::Output;
use weir_get::list::text::{Line, MAX_LINE};
use weir_get::object;
use weir_get::sink::links;
use weir_store::buckets::Buckets;

use crate::args::{Get, MAKES_FOLDERS, is_stdout};
use crate::cmd::get_hubs::{self, Found, HubPart, Named};
use crate::cmd::stores;
use crate::schemes;
use crate::voice::Usage;

/// A URL and what names its file: a list, or an `-o` of its own.
pub struct Wanted {
    /// What is asked for.
    pub url: Url,
    /// Of a link-local address.
    pub zone: Option<Zone>,
    /// Of its file, where a list gives one.
    pub name: Option<String>,
    /// An `-o` of its own.
    pub output: Option<String>,
    /// What of it is a hub's.
    pub hub: Option<HubPart>,
}

impl Wanted {
    /// Only the URL.
    pub fn of(url: Url) -> Wanted {
        Wanted { url, zone: None, name: None, output: None, hub: None }
    }

    /// What it names at a hub, as long as that is not looked up.
    pub fn named(&self) -> Option<&Named> {
        match &self.hub {
            Some(HubPart::Named(named)) => Some(named),
            _ => None,
        }
    }

    /// What a hub has named.
    pub fn found(&self) -> Option<&Found> {
        match &self.hub {
            Some(HubPart::Found(found)) => Some(found),
            _ => None,
        }
    }
}

/// A line of a list that names something.
pub enum Parsed {
    /// A file.
    File(Box<Wanted>),
    /// This text is for a hub to say, and what comes of it is called so.
    OfHub(String, Option<String>),
}

/// The zone of a link-local address: the host as a URL writes it, and the interface.
pub type Zone = (String, String);

/// What the command line names, apart from its list; what hubs have is not looked up.
pub fn named(get: &Get, buckets: &Buckets) -> anyhow::Result<Vec<Wanted>> {
    let outputs = own_outputs(get)?;
    let own = |(index, text): (usize, &String)| {
        let one = match get.hubs.lfs.is_some() || get_hubs::names_hub(text) {
            true => get_hubs::parse(text, get)?,
            false => parse_named(text, buckets)?,
        };
        Ok(Wanted { output: outputs.get(index).cloned(), ..one })
    };
    get.urls.iter().enumerate().map(own).collect()
}

/// Several `-o`: one for each URL, in their order, as curl has it.
fn own_outputs(get: &Get) -> Result<&[String], Usage> {
    let (outputs, urls) = (get.output.len(), get.urls.len());
    if outputs < 2 {
        return Ok(&[]);
    }
    if let Some(list) = get.list.first() {
        return Err(Usage(format!(
            "-o is given {outputs} times, and the list {list} has names of its own (URL<TAB>NAME); give one folder, \
             with a '/' at its end"
        )));
    }
    if outputs != urls {
        return Err(Usage(format!(
            "-o is given {outputs} times for {urls} urls: give one for each, or one folder, with a '/' at its end"
        )));
    }
    Ok(&get.output)
}

/// A link, or an object of a store.
pub fn parse_named(text: &str, buckets: &Buckets) -> Result<Wanted, Usage> {
    match stores::object_address(text, buckets) {
        Some(address) => address.map(Wanted::of),
        None => parse_link(text).map(|(url, zone)| Wanted { zone, ..Wanted::of(url) }),
    }
}

/// The URL that `text` is, with http before a bare host.
pub fn parse_url(text: &str) -> Result<Url, Usage> {
    parse_link(text).map(|(url, _)| url)
}

/// The same, and the zone that its address names.
pub fn parse_link(text: &str) -> Result<(Url, Option<Zone>), Usage> {
    let (text, zone) = without_zone(text);
    let url = parse_without_zone(&text)?;
    let host = object::host_of(&url);
    Ok((url, zone.map(|zone| (host, zone))))
}

/// `[fe80::1%25eth0]` (RFC 6874) or `[fe80::1%eth0]`: the zone is for this machine alone, and no part of a
/// URL any more.
fn without_zone(text: &str) -> (String, Option<String>) {
    let authority = text.find("://").map_or(0, |at| at + 3);
    let end = text[authority..].find(['/', '?', '#']).map_or(text.len(), |at| authority + at);
    let found = || {
        let open = authority + text[authority..end].rfind('[')?;
        let percent = open + text[open..end].find('%')?;
        let close = percent + text[percent..end].find(']')?;
        let zone = &text[percent + 1..close];
        let zone = zone.strip_prefix("25").unwrap_or(zone);
        // The names of interfaces, and their numbers; nothing that ends a name or a host.
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-._~:@".contains(c);
        let is_legal = !zone.is_empty() && zone.len() < 16 && zone.chars().all(is_name);
        is_legal.then(|| (format!("{}{}", &text[..percent], &text[close..]), Some(zone.to_owned())))
    };
    found().unwrap_or_else(|| (text.to_owned(), None))
}

fn parse_without_zone(text: &str) -> Result<Url, Usage> {
    // As curl does: a bare host or host/path means http.
    let looks_bare =
        !text.contains("://") && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[');
    let full = if looks_bare { format!("http://{text}") } else { text.to_owned() };
    // What is quoted may hold a password: only its beginning is shown.
    let shown: String = text.split('@').next_back().unwrap_or(text).chars().take(120).collect();
    // The parser drops tabs and line breaks, so that two lines would become one url.
    if let Some(found) = weir_units::control(text) {
        let (shown, hint) = (shown.escape_debug(), if text.contains('\0') { " (is it UTF-16?)" } else { "" });
        return Err(Usage(format!("invalid url '{shown}': it holds {found}{hint}")));
    }
    if let Some(refusal) = schemes::refusal(text) {
        return Err(Usage(refusal));
    }
    if text.starts_with("//") {
        return Err(Usage(format!("invalid url '{shown}': it has no scheme; put https: before it")));
    }
    // The parser takes one slash for two, or none: a user and password would then be part of a path, and
    // shown.
    let scheme = text.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase()).unwrap_or_default();
    if matches!(scheme.as_str(), "http" | "https") && !text[scheme.len()..].starts_with("://") {
        return Err(Usage(format!("invalid url '{shown}': expected {scheme}:// at its start")));
    }
    if is_a_number(text) {
        return Err(Usage(format!(
            "invalid url '{shown}': a number names no host; -s and -k take none here (-c N sets how many \
             connections a file gets)"
        )));
    }
    let url = Url::parse(&full).map_err(|error| {
        let why = match error {
            ParseError::RelativeUrlWithoutBase => "expected https://HOST/FILE".to_owned(),
            error => error.to_string(),
        };
        Usage(format!("invalid url '{shown}': {why}"))
    })?;
    match url.scheme() {
        "http" | "https" if url.host_str().is_some() => Ok(url),
        scheme => Err(Usage(format!("cannot fetch '{shown}': weir speaks http and https, not {scheme}"))),
    }
}

/// `4`, `1M`: the value of a flag that takes one in another program. As a host it would be an address of four
/// bytes.
fn is_a_number(text: &str) -> bool {
    let digits = text.strip_suffix(['k', 'K', 'm', 'M', 'g', 'G']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// A line up to a `#` at its start or behind the blanks after its URL; within a URL it begins a fragment, and
/// a name may hold one. A first column that `holds_blanks` ends at a TAB alone.
fn without_remark(line: &str, holds_blanks: bool) -> &str {
    let url = line.trim_start();
    let ends = |letter: char| letter == '\t' || letter == ' ' && !holds_blanks;
    let end = if url.starts_with('#') { 0 } else { url.find(ends).unwrap_or(url.len()) };
    let rest = &url[end..];
    let start = line.len() - url.len();
    if end == 0 || rest.trim_start().starts_with('#') { line[..start + end].trim() } else { line.trim_end() }
}

/// What a line of a list names; `None`: it is empty, or a remark. `is_pointer`: each line is a file of this
/// machine.
pub fn parse_entry(line: &Line<'_>, buckets: &Buckets, is_pointer: bool) -> Option<Result<Parsed, Usage>> {
    // A line that is not UTF-8 costs that line.
    let text = String::from_utf8_lossy(line.bytes);
    let holds_blanks = is_pointer || get_hubs::holds_blanks(&text);
    let text = without_remark(&text, holds_blanks);
    if text.is_empty() {
        return None;
    }
    if line.is_too_long {
        return Some(Err(Usage(format!("it is longer than {MAX_LINE} bytes"))));
    }
    let is_of_hub = |text: &str| is_pointer || get_hubs::names_hub(text);
    Some(split_line(text, holds_blanks).and_then(|(text, name)| match is_of_hub(text) {
        true => Ok(Parsed::OfHub(text.to_owned(), name)),
        false => parse_named(text, buckets).map(|one| Parsed::File(Box::new(Wanted { name, ..one }))),
    }))
}

/// The first column of a line, and the name behind it. Blanks part nothing in one that `holds_blanks`.
fn split_line(line: &str, holds_blanks: bool) -> Result<(&str, Option<String>), Usage> {
    if line.contains(char::REPLACEMENT_CHARACTER) {
        return Err(Usage("it is not UTF-8 text".to_owned()));
    }
    let bare = line.trim_start();
    let line = if bare.starts_with("http://") || bare.starts_with("https://") { bare } else { line };
    if let Some(why) = other_form(line).filter(|_| !holds_blanks) {
        return Err(Usage(why.to_owned()));
    }
    if line.starts_with(char::is_whitespace) {
        let why = "a line begins with a url; options of other programs' lists mean nothing here";
        return Err(Usage(why.to_owned()));
    }
    let (url, name) = match line.split_once('\t') {
        Some((url, name)) => (url.trim(), Some(name.trim().to_owned())),
        None if line.contains(' ') && !holds_blanks => {
            return Err(Usage("a name is parted from its url by a TAB, not by a space".to_owned()));
        }
        None => (line, None),
    };
    if let Some(name) = &name {
        if name.contains("://") {
            let why = "behind the TAB stands a url where the file's name would be; a line takes one url";
            return Err(Usage(why.to_owned()));
        }
        let inside = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
        if !inside || name.is_empty() || name.contains(char::is_control) {
            return Err(Usage(format!("name '{}' would not stay in the folder", name.escape_debug())));
        }
    }
    Ok((url, name))
}

/// What a line is in place of a URL, as its beginning shows.
fn other_form(line: &str) -> Option<&'static str> {
    let is_config = line.strip_prefix("url").is_some_and(|rest| rest.trim_start().starts_with('='));
    match line.chars().next() {
        Some('<') => Some("a web page, XML or a metalink is no list of urls, which has one a line"),
        Some('"' | '\'') => Some("a url stands without quotes"),
        _ if is_config => Some("it is a line of curl's --config; a list has the url alone"),
        _ => None,
    }
}

/// What `-o` means.
pub enum OutputOption {
    /// This file.
    File(PathBuf),
    /// Files in this folder.
    Folder(PathBuf),
    /// Stdout.
    Stdout,
}

impl OutputOption {
    /// Of an `-o` for `count` URLs.
    pub fn of(get: &Get, output: Option<&str>, count: usize) -> anyhow::Result<OutputOption> {
        let many = count != 1 || !get.list.is_empty();
        match output.map(|text| if is_stdout(text) { "-" } else { text }) {
            None => Ok(OutputOption::Folder(PathBuf::from("."))),
            Some("-") => Ok(OutputOption::Stdout),
            Some("") => {
                Err(Usage("-o needs a file, a folder with a '/' at its end, or '-'".to_owned()).into())
            }
            Some(text) if text.ends_with('/') || (many && Path::new(text).is_dir()) => {
                let folder = PathBuf::from(text);
                if Path::new(text.trim_end_matches('/')).is_file() {
                    return Err(Usage(format!("-o {text} names a folder, but a file is there")).into());
                }
                std::fs::create_dir_all(&folder)
                    .with_context(|| format!("cannot create the folder {text}"))?;
                Ok(OutputOption::Folder(folder))
            }
            Some(text) if many && count > 1 => {
                Err(Usage(format!("-o {text} is one file, {count} urls were given; add a '/' for a folder"))
                    .into())
            }
            Some(text) => OutputOption::file(text),
        }
    }

    /// A link that the user names means the file behind it; one that leads nowhere, or is another user's
    /// bait, is replaced.
    fn file(text: &str) -> anyhow::Result<OutputOption> {
        let path = Path::new(text);
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(missing) = folder.filter(|folder| !folder.exists()) {
            let missing = missing.display();
            return Err(Usage(format!(
                "cannot write {text}: no folder {missing}; create it, or pass -o '{missing}/' to have it created"
            ))
            .into());
        }
        let (behind, is_foreign) = links::end_of(path);
        if is_foreign {
            tracing::warn!("{} is a link of another user; it is replaced, not followed", behind.display());
        }
        Ok(OutputOption::File(behind))
    }

    /// Where the file of `wanted` goes; its folders are made.
    pub fn output(&self, wanted: &Wanted, in_folders: bool) -> anyhow::Result<Output> {
        if let Some(own) = wanted.found().and_then(Found::place) {
            return Ok(Output::to(own.to_owned()));
        }
        Ok(match (self, &wanted.name) {
            (OutputOption::File(_) | OutputOption::Stdout, _) if in_folders => {
                return Err(Usage(MAKES_FOLDERS.to_owned()).into());
            }
            (OutputOption::File(path), _) => Output::to(path.clone()),
            (OutputOption::Stdout, _) => Output::Stdout,
            (OutputOption::Folder(folder), None) if in_folders => {
                let own = folder.join(folders_of(&wanted.url));
                make_below(folder, &own)?;
                Output::Folder(own)
            }
            (OutputOption::Folder(folder), None) => Output::Folder(folder.clone()),
            (OutputOption::Folder(folder), Some(name)) if names_folder(name) => {
                let own = folder.join(name);
                make_below(folder, &own)?;
                Output::Folder(own)
            }
            (OutputOption::Folder(folder), Some(name)) => {
                let path = folder.join(name);
                if let Some(parent) = path.parent() {
                    make_below(folder, parent)?;
                }
                Output::to(path)
            }
        })
    }
}

/// The name that a list gives is that of a folder, in which the file has its own.
pub fn names_folder(name: &str) -> bool {
    name.ends_with('/')
}

/// `HOST/PATH/OF/URL`, as wget has it: with the port where it is not the scheme's own, and without the last
/// part, which is the file's.
pub fn folders_of(url: &Url) -> PathBuf {
    let host = url.host_str().unwrap_or_default();
    let mut folders = PathBuf::from(match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    });
    let mut parts: Vec<&str> = url.path_segments().into_iter().flatten().collect();
    parts.pop();
    // A part is a name like any other: no `..`, nothing that moves the cursor.
    folders.extend(parts.into_iter().filter_map(weir_http::filename::from_url));
    folders
}

/// Makes the folder `own` below `folder`.
fn make_below(folder: &Path, own: &Path) -> anyhow::Result<()> {
    no_bait_on_the_way(folder, own)?;
    std::fs::create_dir_all(own).with_context(|| format!("cannot create the folder {}", own.display()))
}

/// Between `folder` and `parent` there is no link of another user, who would choose where files go.
fn no_bait_on_the_way(folder: &Path, parent: &Path) -> anyhow::Result<()> {
    let below = parent.ancestors().take_while(|one| *one != folder);
    match below.into_iter().find(|one| links::end_of(one).1) {
        Some(link) => anyhow::bail!("cannot save into {}: it is a link of another user", link.display()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_hosts_are_http() {
        assert_eq!(parse_url("h:81/x").unwrap().as_str(), "http://h:81/x");
        assert_eq!(parse_url("[::1]:81/x").unwrap().as_str(), "http://[::1]:81/x");
        for bad in
            ["http://h/a\tb", "http://h/a\n", "\rhttp://h/", "http://h\u{7f}/", "http://h/\u{85}", "h\0/"]
        {
            let said = parse_url(bad).map(drop).unwrap_err().to_string();
            assert!(said.contains(" at position "), "{bad:?}: {said}");
        }
        for bad in ["http:/me:secret@h/x", "HTTP:h/x", "https:\\\\h\\x"] {
            let error = parse_url(bad).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
        for number in ["4", "16", "1M", "8k"] {
            let said = parse_url(number).unwrap_err().to_string();
            assert!(said.starts_with(&format!("invalid url '{number}': a number names no host")), "{said}");
        }
        for host in ["4a", "m", "k/", "1.2.3.4", "4:80", "http://4/"] {
            assert!(parse_url(host).is_ok(), "{host}");
        }
        for bad in ["", "ftp://h/x", "file:///x", "http://", "http://[::1", "mailto:a"] {
            assert!(parse_url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn zones_are_taken_out() {
        for (text, url, zone) in [
            ("http://[fe80::1%25eth0]:81/x", "http://[fe80::1]:81/x", Some("eth0")),
            ("http://u:p@[fe80::1%eth0]/x", "http://u:p@[fe80::1]/x", Some("eth0")),
            ("[fe80::1%252]/x", "http://[fe80::1]/x", Some("2")),
            ("http://h/[a%25b]", "http://h/[a%25b]", None),
            ("http://[::1]/a%20b", "http://[::1]/a%20b", None),
        ] {
            let (found, own) = parse_link(text).unwrap();
            assert_eq!((found.as_str(), own.map(|own| own.1).as_deref()), (url, zone), "{text}");
        }
        for bad in ["http://[fe80::1%25]/", "http://[fe80::1%25a b]/", "http://[fe80::1%25a/b]/"] {
            assert!(parse_link(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_in_a_list_stay_in_the_folder() {
        for bad in ["../x", "/x", "a/../../x", "", "a\u{1}b", "/", "../", "http://h/x"] {
            assert!(split_line(&format!("http://h/x\t{bad}"), false).is_err(), "{bad}");
        }
        for bad in ["http://h/x a", "  out=x", "\tx"] {
            assert!(split_line(bad, false).is_err(), "{bad}");
        }
        for (line, why) in [
            ("http://h/x\thttp://mirror/x", "a line takes one url"),
            ("<a href=\"http://h/x\">x</a>", "is no list of urls"),
            ("\"http://h/x\"", "without quotes"),
            ("url = \"http://h/x\"", "curl's --config"),
        ] {
            let said = split_line(line, false).unwrap_err().to_string();
            assert!(said.contains(why), "{line}: {said}");
        }
        assert_eq!(split_line("http://h/x\ta/b", false).unwrap().1.as_deref(), Some("a/b"));
        assert_eq!(split_line("\t http://h/x", false).unwrap().0, "http://h/x");
    }

    #[test]
    fn a_path_at_a_hub_may_hold_blanks() {
        for (line, path, name) in [
            ("hf://o/r/a b.bin", "hf://o/r/a b.bin", None),
            ("hf://o/r/a #1.bin", "hf://o/r/a #1.bin", None),
            ("hf://o/r/a b.bin\tc d.bin  ", "hf://o/r/a b.bin", Some("c d.bin")),
            ("a b.bin\t# why", "a b.bin", None),
            ("a b.bin  ", "a b.bin", None),
        ] {
            let (found, own) = split_line(without_remark(line, true), true).unwrap();
            assert_eq!((found, own.as_deref()), (path, name), "{line:?}");
        }
        assert_eq!(without_remark("  # all", true), "");
        assert!(get_hubs::holds_blanks("hf://o/r/a b") && !get_hubs::holds_blanks("oci://h/a b"));
    }

    #[test]
    fn a_remark_stands_behind_blanks() {
        for (line, left) in [
            ("# all", ""),
            ("  # all", ""),
            ("http://h/x # why", "http://h/x"),
            ("http://h/x\t#why", "http://h/x"),
            ("http://h/x#part", "http://h/x#part"),
            ("http://h/x\tTrack #1", "http://h/x\tTrack #1"),
            (" out=x", " out=x"),
            ("http://h/x  ", "http://h/x"),
        ] {
            assert_eq!(without_remark(line, false), left, "{line:?}");
        }
    }

    #[test]
    fn folders_are_the_host_s_and_the_path_s() {
        for (url, folders) in [
            ("http://h/a/b/c.bin?q", "h/a/b"),
            ("http://h:81/c.bin", "h:81"),
            ("https://[::1]/a%20b/..%2f..%2fetc/x", "[::1]/a b/etc"),
            ("http://h/a//b/%2e%2e/%00/x", "h/a"),
        ] {
            assert_eq!(folders_of(&Url::parse(url).unwrap()), Path::new(folders), "{url}");
        }
    }
}
