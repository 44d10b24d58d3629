//! What `weir put` is asked to send: files, folders and stdin become jobs with keys.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use url::Url;
use weir_store::address::StoreUrl;
use weir_store::upload::job::{Job, Source};
use weir_store::upload::{Attributes, kinds};
use weir_tree::entry::{Entry, Kind, Name};
use weir_tree::filter::Filter;
use weir_tree::walk::{Root, Step, Walk, Wanted};
use weir_units::counted;

use crate::args::Put;
use crate::voice::Usage;

/// Where objects go.
pub enum PutPlace {
    /// A bucket.
    Store(StoreUrl),
    /// A server that takes PUT; keys stand behind it.
    Plain(Url),
}

/// What there is to do.
pub struct Plan {
    /// Where to.
    pub place: PutPlace,
    /// What is sent, as what.
    pub jobs: Vec<Job>,
    /// What could not be looked at, or has a name that no key holds: name, and why.
    pub failed: Vec<(String, String)>,
    /// What was left out.
    pub notes: Vec<String>,
}

impl Plan {
    /// What a person calls the target.
    pub fn target(&self) -> String {
        match &self.place {
            PutPlace::Store(url) => url.to_string(),
            PutPlace::Plain(url) => weir_get::object::shown(url),
        }
    }
}

/// What `put` names.
pub fn plan(put: &Put) -> anyhow::Result<Plan> {
    let (place, prefix) = place(put)?;
    let mut plan = Plan { place, jobs: Vec::new(), failed: Vec::new(), notes: Vec::new() };
    let is_folder = |source: &String| source != "-" && Path::new(source).is_dir();
    let many = put.sources.len() > 1;
    let is_prefix = prefix.is_empty() || prefix.ends_with('/');
    if many && !is_prefix {
        return Err(Usage(format!(
            "cannot send {} sources to the one object {}; a '/' at its end makes it a prefix",
            put.sources.len(),
            put.target
        ))
        .into());
    }
    let mut left_out = LeftOut::default();
    for source in &put.sources {
        if source == "-" {
            if is_prefix && !is_whole_url(&plan.place) {
                return Err(
                    Usage(format!("stdin has no name: name the object, as in {}NAME", put.target)).into()
                );
            }
            plan.jobs.push(job(put, Source::Stdin, prefix.clone(), None));
        } else if is_folder(source) {
            if is_whole_url(&plan.place) {
                return Err(Usage(format!(
                    "cannot send the folder {source} to one URL; a '/' at its end makes it a folder"
                ))
                .into());
            }
            folder(put, source, &prefix, &mut plan, &mut left_out)?;
        } else {
            let path = Path::new(source);
            let data = std::fs::metadata(path).with_context(|| format!("cannot read {source}"))?;
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let as_prefix = is_prefix && !is_whole_url(&plan.place);
            let key = if as_prefix { format!("{prefix}{name}") } else { prefix.clone() };
            plan.jobs.push(job(put, Source::File(path.to_owned()), key, Some(data.len())));
        }
    }
    if put.sources.iter().filter(|source| *source == "-").count() > 1 {
        return Err(Usage("stdin is named twice; it can be sent once".to_owned()).into());
    }
    plan.notes.extend(left_out.notes());
    no_twins(&plan.jobs)?;
    Ok(plan)
}

/// What a person calls a source.
pub fn shown(source: &Source) -> String {
    match source {
        Source::File(path) => path.display().to_string(),
        Source::Stdin => "-".to_owned(),
        Source::Elsewhere(object) => object.shown.clone(),
    }
}

/// Where `put` sends to, and what its keys begin with, or are.
fn place(put: &Put) -> anyhow::Result<(PutPlace, String)> {
    let text = &put.target;
    match StoreUrl::parse(text) {
        Some(Ok(StoreUrl { version: Some(_), .. })) => {
            Err(Usage(format!("cannot put {text}: a version of an object stays as it is; leave it out"))
                .into())
        }
        Some(Ok(url)) => {
            let given = [
                (put.user.is_some(), "-u"),
                (!put.headers.is_empty(), "-H"),
                (!put.login.cookies.is_empty() || !put.login.load_cookies.is_empty(), "--cookie"),
            ];
            if let Some((_, flag)) = given.into_iter().find(|(is_given, _)| *is_given) {
                return Err(Usage(format!(
                    "{flag} is for a plain PUT; a store's credentials come from the environment or --profile"
                ))
                .into());
            }
            let key = url.key.clone();
            Ok((PutPlace::Store(url), key))
        }
        Some(Err(error)) => Err(Usage(error.to_string()).into()),
        None => plain(put).map(|url| {
            let prefix = String::new();
            (PutPlace::Plain(url), prefix)
        }),
    }
}

/// A target of http or https.
fn plain(put: &Put) -> anyhow::Result<Url> {
    let text = &put.target;
    let shown: String = text.split('@').next_back().unwrap_or(text).chars().take(120).collect();
    let wrong = |why: &str| Usage(format!("cannot put '{}': {why}", shown.escape_debug()));
    let is_http = ["http://", "https://"]
        .iter()
        .any(|scheme| text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)));
    if !is_http {
        return Err(wrong(
            "expected s3://BUCKET/KEY, gs://, az:// or an http or https URL; weir cp copies to hosts",
        )
        .into());
    }
    if let Some(found) = weir_units::control(text) {
        return Err(wrong(&format!("it holds {found}")).into());
    }
    let mut url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
    url.set_fragment(None);
    let given = [
        (!put.metadata.is_empty(), "--metadata"),
        (!put.tag.is_empty(), "--tag"),
        (put.storage_class.is_some(), "--storage-class"),
        (put.sse.is_some() || put.sse_kms_key_id.is_some(), "--sse"),
        (put.part_size.is_some(), "--part-size"),
        (put.checksum.is_some(), "--checksum"),
    ];
    match given.into_iter().find(|(is_given, _)| *is_given) {
        Some((_, flag)) => Err(wrong(&format!("{flag} is for object stores; leave it out")).into()),
        None => Ok(url),
    }
}

/// A URL that is one object.
fn is_whole_url(place: &PutPlace) -> bool {
    matches!(place, PutPlace::Plain(url) if !url.path().ends_with('/'))
}

fn job(put: &Put, source: Source, key: String, size: Option<u64>) -> Job {
    let named = if key.is_empty() { put.target.split('?').next().unwrap_or_default() } else { key.as_str() };
    let attributes = Attributes {
        content_type: put.content_type.clone().or_else(|| kinds::of(named).map(str::to_owned)),
        content_encoding: put.content_encoding.clone(),
        content_disposition: put.content_disposition.clone(),
        cache_control: put.cache_control.clone(),
        metadata: put.metadata.clone(),
        storage_class: put.storage_class.clone(),
        encryption: put.sse.clone().or_else(|| put.sse_kms_key_id.as_ref().map(|_| "aws:kms".to_owned())),
        encryption_key: put.sse_kms_key_id.clone(),
        tags: put.tag.clone(),
        ..Attributes::default()
    };
    Job { source, key, size, attributes, share: None }
}

/// What a tree holds beside files.
#[derive(Default)]
struct LeftOut {
    links: u64,
    special: u64,
}

impl LeftOut {
    fn notes(&self) -> Vec<String> {
        let links = format!(
            "left out {}: no store holds them; -L sends their targets",
            counted(self.links, "symbolic link")
        );
        let special = format!("{} pipes, sockets or devices were left out", self.special);
        let all = [(self.links, links), (self.special, special)];
        all.into_iter().filter(|(count, _)| *count > 0).map(|(_, note)| note).collect()
    }
}

/// The files of a folder. As everywhere in weir, `DIR/` is what is in it, and `DIR` it with its name.
fn folder(
    put: &Put,
    source: &str,
    prefix: &str,
    plan: &mut Plan,
    left_out: &mut LeftOut,
) -> anyhow::Result<()> {
    let path = Path::new(source);
    let root = Root::from_argument(path).with_context(|| format!("cannot read {source}"))?;
    let own = String::from_utf8_lossy(root.name.as_bytes()).into_owned();
    let slash = if prefix.is_empty() || prefix.ends_with('/') { "" } else { "/" };
    let base = match own.as_str() {
        "" => format!("{prefix}{slash}"),
        own => format!("{prefix}{slash}{own}/"),
    };
    let root = Root { name: Name::root(), follow: true, ..root };
    let wanted = Wanted { referents: put.copy_links, ..Wanted::default() };
    for step in Walk::new(vec![root], Filter::default(), wanted) {
        match step {
            Step::Found(entry, _) => found(put, path, &base, &entry, plan, left_out),
            Step::Leave(_) => {}
            Step::Failed(name, error) => {
                let at = path_of(path, &name).display().to_string();
                plan.failed.push((at, format!("{error:#}")));
            }
        }
    }
    Ok(())
}

fn found(put: &Put, root: &Path, base: &str, entry: &Entry, plan: &mut Plan, left_out: &mut LeftOut) {
    let at = path_of(root, &entry.name);
    match &entry.kind {
        Kind::Directory => {}
        Kind::Symlink { .. } => left_out.links += 1,
        Kind::Special(_) => left_out.special += 1,
        Kind::File { .. } | Kind::HardLink { .. } => {
            let size = if let Kind::File { size, .. } = entry.kind { Some(size) } else { None };
            match std::str::from_utf8(entry.name.as_bytes()) {
                Ok(name) => plan.jobs.push(job(put, Source::File(at), format!("{base}{name}"), size)),
                Err(_) => plan.failed.push((
                    at.display().to_string(),
                    "cannot be a key: its name is not UTF-8; rename it".to_owned(),
                )),
            }
        }
    }
}

fn path_of(root: &Path, name: &Name) -> PathBuf {
    root.join(std::ffi::OsStr::from_bytes(name.as_bytes()))
}

/// Two sources must not become one object.
fn no_twins(jobs: &[Job]) -> Result<(), Usage> {
    let mut keys = std::collections::HashMap::new();
    for job in jobs {
        if let Some(other) = keys.insert(job.key.as_str(), job) {
            if job.key.is_empty() {
                return Err(Usage(format!(
                    "{} and {} for one URL; a '/' at its end makes it a folder",
                    shown(&other.source),
                    shown(&job.source)
                )));
            }
            return Err(Usage(format!(
                "{} and {} would be the same object, {}; send them in two runs",
                shown(&other.source),
                shown(&job.source),
                job.key.escape_debug()
            )));
        }
    }
    Ok(())
}
