//! What `weir get` is asked to fetch: URLs, lists and `-o` become jobs.

use std::collections::{HashMap, HashSet};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use url::Url;
use weir_codec::digest::Expected;
use weir_get::engine;
use weir_get::http::exchange::Http;
use weir_get::http::window::Window;
use weir_get::job::{Job, JobOutcome, Options, Output};
use weir_get::object;
use weir_get::sink::links;
use weir_get::verify::{Expectation, Whose};
use weir_http::checksums::{Checksums, algorithm_of};
use weir_units::Bytes;

use crate::args::Get;
use crate::cmd::get_hubs::{self, Found, HubPart, Named};
use crate::schemes;
use crate::voice::Usage;

/// A list of a million URLs is about 100 MB.
const MAX_LIST: Bytes = Bytes(256_000_000);

/// Two hundred thousand names with their digests.
const MAX_CHECKSUMS: Bytes = Bytes(16_000_000);

/// A URL and what names its file: a list, or an `-o` of its own.
pub struct Wanted {
    pub(super) url: Url,
    pub(super) zone: Option<Zone>,
    pub(super) name: Option<String>,
    pub(super) output: Option<String>,
    pub(super) hub: Option<HubPart>,
}

/// The zone of a link-local address: the host as a URL writes it, and the interface.
pub type Zone = (String, String);

impl Wanted {
    /// Only the URL.
    pub(super) fn of(url: Url) -> Wanted {
        Wanted { url, zone: None, name: None, output: None, hub: None }
    }

    /// What is asked for.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// What it names at a hub, as long as that is not looked up.
    pub(super) fn named(&self) -> Option<&Named> {
        match &self.hub {
            Some(HubPart::Named(named)) => Some(named),
            _ => None,
        }
    }

    /// What a hub has named.
    pub(super) fn found(&self) -> Option<&Found> {
        match &self.hub {
            Some(HubPart::Found(found)) => Some(found),
            _ => None,
        }
    }
}

/// A line of a list that names nothing to fetch. It costs that line, and the exit code tells.
pub struct Bad {
    /// `LIST, line 3`.
    pub place: String,
    /// What is wrong with it.
    pub error: String,
    /// The exit code that it makes.
    pub code: u8,
}

/// The jobs that `get` names, checked as far as that is possible before anything is fetched.
pub fn resolve(
    get: &Get,
    wanted: &[Wanted],
    http: &Http,
    options: &Options,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<Vec<Job>> {
    let common = match &get.output[..] {
        [] => Some(OutputOption::of(get, None, wanted.len())?),
        [all] => {
            let all = get_hubs::common_output(all, wanted);
            Some(OutputOption::of(get, Some(&all), wanted.len())?)
        }
        _ => None,
    };
    let mut jobs = Vec::with_capacity(wanted.len());
    for one in wanted {
        let own = one.found().and_then(Found::place);
        let output = match (own, &common) {
            (Some(own), _) => Output::to(own.to_owned()),
            (None, Some(place)) => place.output(one, get.force_directories)?,
            (None, None) => {
                OutputOption::of(get, one.output.as_deref(), 1)?.output(one, get.force_directories)?
            }
        };
        let mut url = one.url.clone();
        // No server sees it, and here it names a window.
        url.set_fragment(get.range.as_ref().map(Window::fragment).as_deref());
        let expectations = one.found().map_or_else(Vec::new, |found| found.expectations(get));
        jobs.push(Job { url, home: None, output, name: None, expectations });
    }
    number_equal_names(&mut jobs, wanted)?;
    expect_digests(get, &mut jobs, http, options, stop)?;
    Ok(jobs)
}

/// What the command line and its list name, each once, and the lines that name nothing.
pub fn wanted(get: &Get) -> anyhow::Result<(Vec<Wanted>, Vec<Bad>)> {
    let mut wanted = Vec::new();
    let outputs = own_outputs(get)?;
    for (index, text) in get.urls.iter().enumerate() {
        let one = parse_wanted(get, text)?;
        wanted.push(Wanted { output: outputs.get(index).cloned(), ..one });
    }
    let mut bad = Vec::new();
    if let Some(list) = &get.list {
        bad = read_list(get, list, &mut wanted)?;
        if let (true, Some(Bad { place, error, .. })) = (wanted.is_empty(), bad.first()) {
            return Err(Usage(format!("{place}: {error}")).into());
        }
        if wanted.is_empty() {
            return Err(Usage(format!("the list {list} names no url; it takes one a line")).into());
        }
    }
    Ok((each_once(wanted), bad))
}

/// Several `-o`: one for each URL, in their order, as curl has it.
fn own_outputs(get: &Get) -> Result<&[String], Usage> {
    let (outputs, urls) = (get.output.len(), get.urls.len());
    if outputs < 2 {
        return Ok(&[]);
    }
    if let Some(list) = &get.list {
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
    if get.output.iter().filter(|output| is_stdout(output)).count() > 1 {
        return Err(Usage("-o - takes one url, and is given for several".to_owned()));
    }
    Ok(&get.output)
}

/// Whatever stdout is, a file opened for appending too: its name must not become another file's.
fn is_stdout(output: &str) -> bool {
    matches!(output, "-" | "/dev/stdout")
}

/// What is named twice, by the same URL and for the same name, is fetched once.
fn each_once(wanted: Vec<Wanted>) -> Vec<Wanted> {
    let mut seen = HashSet::new();
    let mut once = Vec::with_capacity(wanted.len());
    for one in wanted {
        let mut url = one.url.clone();
        url.set_fragment(None);
        if seen.insert((url, one.name.clone(), one.output.clone())) {
            once.push(one);
        } else {
            tracing::warn!("{} is named twice; it is fetched once", object::shown(&one.url));
        }
    }
    once
}

/// The zones that the URLs name. One address of two interfaces cannot be told apart by what a URL says of it
/// later.
pub fn zones(get: &Get, wanted: &[Wanted]) -> Result<HashMap<String, String>, Usage> {
    let list = get.checksum_from.as_deref().and_then(|list| parse_link(list).ok()?.1);
    let mut zones: HashMap<String, String> = HashMap::new();
    for (host, zone) in wanted.iter().filter_map(|one| one.zone.clone()).chain(list) {
        let other = zones.insert(host.clone(), zone.clone()).filter(|other| *other != zone);
        if let Some(other) = other {
            return Err(Usage(format!(
                "{host} is asked for over {other} and over {zone}; run weir once for each"
            )));
        }
    }
    Ok(zones)
}

/// A link, or what a hub has.
fn parse_wanted(get: &Get, text: &str) -> Result<Wanted, Usage> {
    match get_hubs::named(text, get.hubs.lfs.as_deref())? {
        Some(named) => {
            let first = named.first(get)?;
            Ok(Wanted { hub: Some(HubPart::Named(named)), ..Wanted::of(first) })
        }
        None => parse_link(text).map(|(url, zone)| Wanted { zone, ..Wanted::of(url) }),
    }
}

fn parse_url(text: &str) -> Result<Url, Usage> {
    parse_link(text).map(|(url, _)| url)
}

fn parse_link(text: &str) -> Result<(Url, Option<Zone>), Usage> {
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
    // The parser takes one slash for two, or none: a user and password would then be part of a path, and shown.
    let scheme = text.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase()).unwrap_or_default();
    if matches!(scheme.as_str(), "http" | "https") && !text[scheme.len()..].starts_with("://") {
        return Err(Usage(format!("invalid url '{shown}': expected {scheme}:// at its start")));
    }
    let url = Url::parse(&full).map_err(|error| Usage(format!("invalid url '{shown}': {error}")))?;
    match url.scheme() {
        "http" | "https" if url.host_str().is_some() => Ok(url),
        scheme => Err(Usage(format!("cannot fetch '{shown}': weir speaks http and https, not {scheme}"))),
    }
}

/// Adds what the lines name to `wanted`. Returns those that name nothing.
fn read_list(get: &Get, list: &str, wanted: &mut Vec<Wanted>) -> anyhow::Result<Vec<Bad>> {
    let read = match list {
        "-" => weir_units::read_up_to(std::io::stdin().lock(), MAX_LIST),
        path => weir_units::read_file(Path::new(path), MAX_LIST),
    };
    let bytes = read.with_context(|| format!("cannot read the list {list}"))?;
    // A line that is not UTF-8 costs that line.
    let text = weir_units::list_bytes(&bytes).map(String::from_utf8_lossy);
    let text = text.with_context(|| format!("cannot read the list {list}"))?;
    let mut bad = Vec::new();
    for (number, line) in weir_units::lines(&text) {
        let line = without_remark(line);
        if line.is_empty() {
            continue;
        }
        let one = parse_line(line).and_then(|(text, name)| {
            let one = parse_wanted(get, text)?;
            Ok(Wanted { name, ..one })
        });
        match one {
            Ok(one) => wanted.push(one),
            Err(Usage(error)) => bad.push(Bad { place: format!("{list}, line {number}"), error, code: 1 }),
        }
    }
    Ok(bad)
}

/// A line up to a `#` at its start or behind the blanks after its URL; within a URL it begins a fragment, and a name
/// may hold one.
fn without_remark(line: &str) -> &str {
    let url = line.trim_start();
    let end = if url.starts_with('#') { 0 } else { url.find([' ', '\t']).unwrap_or(url.len()) };
    let rest = &url[end..];
    let start = line.len() - url.len();
    if end == 0 || rest.trim_start().starts_with('#') { line[..start + end].trim() } else { line.trim_end() }
}

/// What a line names, and the name behind it.
fn parse_line(line: &str) -> Result<(&str, Option<String>), Usage> {
    if line.contains(char::REPLACEMENT_CHARACTER) {
        return Err(Usage("it is not UTF-8 text".to_owned()));
    }
    if line.starts_with(char::is_whitespace) {
        let why = "a line begins with a url; options of other programs' lists mean nothing here";
        return Err(Usage(why.to_owned()));
    }
    let (url, name) = match line.split_once('\t') {
        Some((url, name)) => (url.trim(), Some(name.trim().to_owned())),
        None if line.contains(' ') => {
            return Err(Usage("a name is parted from its url by a TAB, not by a space".to_owned()));
        }
        None => (line, None),
    };
    if let Some(name) = &name {
        let inside = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
        if !inside || name.is_empty() || name.contains(char::is_control) {
            return Err(Usage(format!("name '{}' would not stay in the folder", name.escape_debug())));
        }
    }
    Ok((url, name))
}

/// What `-o` means.
enum OutputOption {
    File(PathBuf),
    Folder(PathBuf),
    Stdout,
}

impl OutputOption {
    /// Of an `-o` for `count` URLs.
    fn of(get: &Get, output: Option<&str>, count: usize) -> anyhow::Result<OutputOption> {
        let many = count != 1 || get.list.is_some();
        match output.map(|text| if is_stdout(text) { "-" } else { text }) {
            None => Ok(OutputOption::Folder(PathBuf::from("."))),
            Some("-") if get.voice.json => Err(Usage("--json and -o - both want stdout".to_owned()).into()),
            Some("-") if count == 1 => Ok(OutputOption::Stdout),
            Some("-") => Err(Usage(format!("-o - takes one url, {count} were given")).into()),
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

    /// A link that the user names means the file behind it; one that leads nowhere, or is another user's bait, is replaced.
    fn file(text: &str) -> anyhow::Result<OutputOption> {
        let path = Path::new(text);
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(missing) = folder.filter(|folder| !folder.exists()) {
            let missing = missing.display();
            return Err(Usage(format!(
                "cannot write {text}: no folder {missing}; create it, or pass -o {missing}/ to have it created"
            ))
            .into());
        }
        let (behind, is_foreign) = links::end_of(path);
        if is_foreign {
            tracing::warn!("{} is a link of another user; it is replaced, not followed", behind.display());
        }
        Ok(OutputOption::File(behind))
    }

    fn output(&self, wanted: &Wanted, in_folders: bool) -> anyhow::Result<Output> {
        Ok(match (self, &wanted.name) {
            (OutputOption::File(_) | OutputOption::Stdout, _) if in_folders => {
                return Err(Usage(
                    "-x makes folders; leave -o out, or name a folder by a '/' at its end".to_owned(),
                )
                .into());
            }
            (OutputOption::File(path), _) => Output::to(path.clone()),
            (OutputOption::Stdout, _) => Output::Stdout,
            (OutputOption::Folder(folder), None) if in_folders => {
                let own = folder.join(folders_of(&wanted.url));
                make_below(folder, &own)?;
                Output::Folder(own)
            }
            (OutputOption::Folder(folder), None) => Output::Folder(folder.clone()),
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

/// `HOST/PATH/OF/URL`, as wget has it: with the port where it is not the scheme's own, and without the last part, which is
/// the file's.
fn folders_of(url: &Url) -> PathBuf {
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

/// Two URLs that would be saved under one name would overwrite each other: the later one gets a number behind its name,
/// the same in each run of the same command. Files of hubs with one content are one.
fn number_equal_names(jobs: &mut [Job], wanted: &[Wanted]) -> Result<(), Usage> {
    let is_same = |one: usize, other: usize| {
        let (one, other) = (wanted[one].found(), wanted[other].found());
        one.zip(other).is_some_and(|(one, other)| one.is_same(other))
    };
    let of = |job: &Job| match &job.output {
        Output::File(path) | Output::Pipe(path) => Some(path.clone()),
        Output::Folder(folder) => Some(folder.join(object::name_from_url(&job.url))),
        Output::Stdout | Output::Memory(_) => None,
    };
    let mut taken: HashMap<PathBuf, usize> = HashMap::new();
    for index in 0..jobs.len() {
        let Some(path) = of(&jobs[index]) else { continue };
        let Some(owner) = taken.get(&path).copied() else {
            taken.insert(path, index);
            continue;
        };
        if is_same(owner, index) {
            continue;
        }
        let (first, second) = (object::shown(&jobs[owner].url), object::shown(&jobs[index].url));
        let free = (1..=jobs.len()).map(|number| weir_http::filename::numbered(&path, number));
        let free =
            free.into_iter().find(|numbered| !taken.contains_key(numbered)).unwrap_or_else(|| path.clone());
        match &mut jobs[index].output {
            Output::Folder(_) => {
                let name = free.file_name().map(|name| name.to_string_lossy().into_owned());
                jobs[index].name = name;
            }
            Output::File(own) => own.clone_from(&free),
            _ => return Err(Usage(format!("{first} and {second} would both go to {}", path.display()))),
        }
        tracing::info!("{second} is saved as {}, since {first} has its name", free.display());
        taken.insert(free, index);
    }
    Ok(())
}

fn expect_digests(
    get: &Get,
    jobs: &mut [Job],
    http: &Http,
    options: &Options,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<()> {
    if !get.checksum.is_empty() && jobs.len() != 1 {
        return Err(Usage("--checksum is of one file; for several use --checksum-from".to_owned()).into());
    }
    if !get.checksum.is_empty() && get.range.as_ref().is_some_and(Window::is_several) {
        let why = "--checksum is of bytes that are always the same, and a server divides the parts of several ranges by \
                   another line each time; ask for one range (-r) at a time";
        return Err(Usage(why.to_owned()).into());
    }
    for text in &get.checksum {
        let expected: Expected = text.parse().map_err(|error| Usage(format!("{error}")))?;
        jobs[0].expectations.push(Expectation {
            expected,
            origin: "--checksum".to_owned(),
            whose: Whose::User,
        });
    }
    if let Some(list) = &get.checksum_from {
        let checksums = fetch_checksums(list, jobs.first().map(|job| &job.url), http, options, stop)?;
        let list = match parse_url(list) {
            Ok(url) if list.contains("://") => object::shown(&url),
            _ => list.clone(),
        };
        for job in jobs {
            let name = name_in_list(job);
            let expected =
                checksums.find(&name).with_context(|| format!("cannot verify {name} by {list}"))?;
            let (expected, origin) = (expected.clone(), list.clone());
            let expectation = Expectation { expected, origin, whose: Whose::User };
            job.expectations.push(expectation);
        }
    }
    Ok(())
}

/// A list names the file as it lies on the server, whatever it is called here.
fn name_in_list(job: &Job) -> String {
    object::name_from_url(&job.url)
}

/// The list as a file of this machine, if that is what was named.
fn read_checksums(list: &str) -> anyhow::Result<Option<Vec<u8>>> {
    if list.contains("://") || !Path::new(list).is_file() {
        return Ok(None);
    }
    let text = weir_units::read_file(Path::new(list), MAX_CHECKSUMS);
    Ok(Some(text.with_context(|| format!("cannot read the checksums {list}"))?))
}

fn fetch_checksums(
    list: &str,
    of: Option<&Url>,
    http: &Http,
    options: &Options,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<Checksums> {
    if let Some(text) = read_checksums(list)? {
        let name = Path::new(list).file_name().and_then(|name| name.to_str()).unwrap_or_default();
        return Checksums::parse(&text, algorithm_of(name))
            .with_context(|| format!("cannot read the checksums {list}"));
    }
    let url = parse_url(list)?;
    let hint = algorithm_of(&object::name_from_url(&url));
    // -u and -H were given for the files; a list that lies elsewhere gets them only if it has a user of its own.
    let own_user = !url.username().is_empty() || url.password().is_some();
    let home = of.filter(|_| !own_user).cloned();
    let output = Output::Memory(MAX_CHECKSUMS.0 as usize);
    let job = Job { url, home, output, name: None, expectations: Vec::new() };
    let options = Options { rate_cap: None, ..options.clone() };
    let mut report = engine::run(std::slice::from_ref(&job), &options, http, stop, &mut ());
    let file = report.files.swap_remove(0);
    match file.outcome {
        JobOutcome::Failed(error) | JobOutcome::Partial(error) => {
            Err(anyhow::Error::new(error).context(format!("cannot fetch the checksums {}", file.url)))
        }
        _ => Checksums::parse(&file.body.unwrap_or_default(), hint)
            .with_context(|| format!("cannot read the checksums {}", file.url)),
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
        for bad in ["../x", "/x", "a/../../x", "", "a\u{1}b"] {
            assert!(parse_line(&format!("http://h/x\t{bad}")).is_err(), "{bad}");
        }
        for bad in ["http://h/x a", "  out=x", "\tx"] {
            assert!(parse_line(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_line("http://h/x\ta/b").unwrap().1.as_deref(), Some("a/b"));
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
            assert_eq!(without_remark(line), left, "{line:?}");
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
