//! What `weir get` fetches from hubs: `hf://`, `oci://` and pointers of git-lfs become files with digests, and
//! complete files become what other programs read.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use url::Url;
use weir_get::error::GetError;
use weir_get::http::authority::Authorizer;
use weir_get::http::credentials::Credentials;
use weir_get::http::exchange::Http;
use weir_get::job::{Job, JobOutcome, Options, Output, RunReport};
use weir_get::object;
use weir_get::verify::{Expectation, Whose};
use weir_http::netrc::Login;
use weir_report::schema::{DigestRecord, FileRecord};
use weir_store::StoreError;
use weir_store::caller::Caller;
use weir_store::hub::hugging_face::{HfUrl, HuggingFace};
use weir_store::hub::lfs::{LfsServer, MAX_POINTER, Pointer};
use weir_store::hub::oci::{OciUrl, Registry, login_of};
use weir_store::hub::{Ending, HubFile, Listing, Way, cache, here};
use weir_tree::Name;
use weir_units::Bytes;

use crate::args::Get;
use crate::cmd::get_jobs::{Bad, Wanted};
use crate::cmd::get_who;
use crate::voice::Usage;

/// What a text names at a hub.
pub enum Named {
    /// In a repository.
    HuggingFace(HfUrl),
    /// An image.
    Oci(OciUrl),
    /// The object of a pointer that lies here.
    Lfs(PathBuf, Pointer),
}

/// What of a wanted file is a hub's.
pub enum HubPart {
    /// It is to be looked up.
    Named(Named),
    /// It has been.
    Found(Found),
}

/// A file that a hub has named.
pub struct Found {
    file: HubFile,
    /// Its own place, whatever `-o` says.
    place: Option<PathBuf>,
    /// Which of the listings it is of.
    group: usize,
    /// It keeps its place below a folder.
    in_tree: bool,
}

impl Found {
    /// Where it goes, if that is not for `-o` to say.
    pub fn place(&self) -> Option<&Path> {
        self.place.as_deref()
    }

    /// It has the content of `other`, so that one of them will do for a name.
    pub fn is_same(&self, other: &Found) -> bool {
        !self.file.id.is_empty() && self.file.id == other.file.id
    }

    /// What it must be. A part of it has no digest.
    pub fn expectations(&self, get: &Get) -> Vec<Expectation> {
        let whose = if get.ignore_digest { Whose::Ignored } else { Whose::Server };
        let digest = self.file.digest.clone().filter(|_| get.range.is_none());
        let one = |expected| Expectation { expected, origin: "the server's list of files".to_owned(), whose };
        digest.map(one).into_iter().collect()
    }
}

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// What `text` names at a hub; `None` of anything else.
pub fn named(text: &str, lfs: Option<&str>) -> Result<Option<Named>, Usage> {
    if lfs.is_some() {
        return pointer(Path::new(text)).map(|pointer| Some(Named::Lfs(text.into(), pointer)));
    }
    let bad = |error: weir_store::hub::hugging_face::BadHubUrl| Usage(error.to_string());
    if let Some(url) = HfUrl::parse(text) {
        return url.map(|url| Some(Named::HuggingFace(url))).map_err(bad);
    }
    OciUrl::parse(text).map(|url| url.map(Named::Oci)).transpose().map_err(bad)
}

fn pointer(path: &Path) -> Result<Pointer, Usage> {
    let cannot = |why: String| Usage(format!("cannot fetch the object of {}: {why}", path.display()));
    let bytes = match weir_units::read_file(path, Bytes(MAX_POINTER)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => Vec::new(),
        Err(error) => return Err(cannot(weir_units::plain(&error))),
    };
    Pointer::parse(&bytes).ok_or_else(|| {
        cannot(
            "it is no git-lfs pointer; it may be the object already (--lfs takes pointers alone)".to_owned(),
        )
    })
}

impl Named {
    /// What is asked first for it.
    pub fn first(&self, get: &Get) -> Result<Url, Usage> {
        let url = match self {
            Named::HuggingFace(wanted) => HuggingFace::first(&environment, wanted),
            Named::Oci(wanted) => wanted.manifest(),
            Named::Lfs(path, _) => {
                let mut url = lfs_repo(get)?;
                url.set_query(Some(&path.to_string_lossy()));
                Ok(url)
            }
        };
        url.map_err(|error| Usage(error.to_string()))
    }
}

fn lfs_repo(get: &Get) -> Result<Url, Usage> {
    let text = get.hubs.lfs.as_deref().unwrap_or_default();
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let shown = text.split('@').next_back().unwrap_or(text);
    url.ok_or_else(|| {
        Usage(format!("cannot use --lfs '{shown}': expected the repository's http or https address"))
    })
}

/// The way of requests for tokens and lists; `plain` is the network without the user's logins.
pub fn way(plain: Http, options: &Options, stop: &Arc<AtomicBool>) -> Way {
    Way {
        http: Arc::new(plain),
        stop: Arc::clone(stop),
        timeout: options.timeout,
        connect_timeout: options.connect_timeout,
        retries: options.retries,
    }
}

/// As whom hubs are asked, and over which network.
pub struct Asking {
    /// Of requests for tokens and lists.
    pub way: Way,
    /// The user of `-u`.
    pub user: Option<Login>,
    /// The user's own fields (`-H`).
    pub fields: Vec<(String, String)>,
}

/// The hubs that this run asks.
pub struct Hubs {
    hugging_face: Option<HuggingFace>,
    registries: Vec<Registry>,
    lfs: Option<LfsServer>,
    way: Way,
    several: bool,
}

/// What hubs have named.
pub struct Resolved {
    /// Files, in place of what named them.
    pub wanted: Vec<Wanted>,
    /// What could not be looked up.
    pub bad: Vec<Bad>,
    /// By group: what is to be said of it, and what ends it.
    pub groups: Vec<Group>,
}

/// What one text has led to.
pub struct Group {
    said: String,
    ending: Ending,
}

impl Hubs {
    /// Those that `wanted` is of.
    pub fn open(get: &Get, wanted: &[Wanted], asking: Asking) -> anyhow::Result<Hubs> {
        let Asking { way, user, fields } = asking;
        let mut hubs =
            Hubs { hugging_face: None, registries: Vec::new(), lfs: None, way, several: wanted.len() > 1 };
        let mut cached = true;
        for one in wanted {
            cached &= matches!(one.named(), Some(Named::HuggingFace(_)));
            match one.named() {
                Some(Named::HuggingFace(_)) if hubs.hugging_face.is_none() => {
                    let lower = fields.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone()));
                    let hub = HuggingFace::new(&environment, lower.collect()).map_err(failure)?;
                    hubs.hugging_face = Some(hub);
                }
                Some(Named::Oci(wanted)) => hubs.open_registry(get, wanted, user.clone())?,
                Some(Named::Lfs(..)) if hubs.lfs.is_none() => {
                    let repo = lfs_repo(get)?;
                    let login = login(get, &repo, user.clone());
                    hubs.lfs = Some(LfsServer::new(&repo, login, hubs.way.clone()).map_err(failure)?);
                }
                _ => {}
            }
        }
        if get.hubs.hf_cache && !cached {
            return Err(
                Usage("--hf-cache takes hf:// alone; fetch the rest by another run".to_owned()).into()
            );
        }
        Ok(hubs)
    }

    fn open_registry(&mut self, get: &Get, wanted: &OciUrl, user: Option<Login>) -> anyhow::Result<()> {
        if get.range.is_some() {
            return Err(Usage(format!("-r fetches a part of a file, and {wanted} is an image")).into());
        }
        let platform = get.hubs.platform.clone();
        let host = wanted.registry.host_str().unwrap_or_default();
        let host = wanted.registry.port().map_or(host.to_owned(), |port| format!("{host}:{port}"));
        let login = user.or_else(|| login_of(&host, &environment));
        self.registries.push(Registry::new(wanted.clone(), platform, login, self.way.clone()));
        Ok(())
    }

    /// Who speaks for requests to them.
    pub fn authorizers(&self) -> Vec<Arc<dyn Authorizer>> {
        let registries = self.registries.iter().map(Registry::authorizer);
        let others = self.hugging_face.iter().map(HuggingFace::authorizer);
        registries.chain(others).chain(self.lfs.iter().map(LfsServer::authorizer)).collect()
    }

    /// Looks up what is named.
    pub fn resolve(&self, get: &Get, wanted: Vec<Wanted>, http: &Http) -> anyhow::Result<Resolved> {
        self.way.ask(http, |caller| self.look_up(get, wanted, caller)).map_err(failure)
    }

    fn look_up(
        &self,
        get: &Get,
        wanted: Vec<Wanted>,
        caller: &mut Caller<'_>,
    ) -> Result<Resolved, StoreError> {
        let mut resolved =
            Resolved { wanted: Vec::with_capacity(wanted.len()), bad: Vec::new(), groups: Vec::new() };
        let mut registries = self.registries.iter();
        let mut objects = self.list_pointers(&wanted, caller).into_iter();
        for one in wanted {
            let Some(named) = one.named() else {
                resolved.wanted.push(one);
                continue;
            };
            let (place, listing) = match named {
                Named::HuggingFace(url) => (url.to_string(), self.list_repo(get, url, caller)),
                Named::Oci(url) => {
                    let registry = registries.next().ok_or_else(missing);
                    (url.to_string(), registry.and_then(|registry| registry.list(caller)))
                }
                Named::Lfs(path, _) => {
                    let listing = objects.next().unwrap_or_else(|| Err(missing()));
                    (path.display().to_string(), listing)
                }
            };
            match listing {
                Ok(listing) => self.take(get, &one, listing, &mut resolved),
                Err(error @ StoreError::Http(GetError::Interrupted)) => return Err(error),
                Err(error) => {
                    let is_digest = matches!(&error, StoreError::Http(error) if error.is_verification());
                    let code = if is_digest { 3 } else { 1 };
                    resolved.bad.push(Bad { place, error: error.to_string(), code });
                }
            }
        }
        Ok(resolved)
    }

    fn list_repo(&self, get: &Get, url: &HfUrl, caller: &mut Caller<'_>) -> Result<Listing, StoreError> {
        let hub = self.hugging_face.as_ref().ok_or_else(missing)?;
        let mut listing = hub.list(caller, url)?;
        if get.hubs.hf_cache {
            let cache = cache::folder(&environment)?;
            let snapshot = cache::Snapshot::new(&cache, url, &listing.pin, &mut listing.files)?;
            listing.ending = Ending::Cache(snapshot);
        }
        Ok(listing)
    }

    /// The objects of all pointers among `wanted`, in their order: one request is for a hundred of them.
    fn list_pointers(&self, wanted: &[Wanted], caller: &mut Caller<'_>) -> Vec<Result<Listing, StoreError>> {
        let pointers = wanted.iter().filter_map(|one| match one.named() {
            Some(Named::Lfs(path, pointer)) => {
                let name =
                    path.file_name().map(|name| name.as_encoded_bytes().to_owned()).unwrap_or_default();
                Some((Name::new(name).unwrap_or_else(|_| Name::root()), pointer.clone()))
            }
            _ => None,
        });
        let pointers: Vec<(Name, Pointer)> = pointers.collect();
        let Some(server) = self.lfs.as_ref().filter(|_| !pointers.is_empty()) else { return Vec::new() };
        let (folder, pin) = (String::new(), String::new());
        let alone = |file| Listing {
            files: vec![file],
            is_tree: false,
            folder: folder.clone(),
            pin: pin.clone(),
            ending: Ending::None,
        };
        match server.list(caller, &pointers) {
            Ok(found) => found.into_iter().map(|file| file.map(alone)).collect(),
            Err(StoreError::Http(GetError::Interrupted)) => {
                vec![Err(StoreError::Http(GetError::Interrupted))]
            }
            Err(error) => {
                let said = error.to_string();
                pointers.iter().map(|_| Err(StoreError::Usage(said.clone()))).collect()
            }
        }
    }

    /// The files of `listing` in place of `one`.
    fn take(&self, get: &Get, one: &Wanted, listing: Listing, resolved: &mut Resolved) {
        let Listing { files, is_tree, folder, pin, ending } = listing;
        let group = resolved.groups.len();
        // A tree goes into the folder that the user names, several each into their own in it.
        let has_own = one.output.is_some() || get.output.len() == 1 && !self.several;
        let folder = one.name.clone().or((!has_own).then_some(folder));
        for file in files {
            let path = file.name.as_path();
            let place = match (&ending, one.named()) {
                (Ending::Cache(snapshot), _) => Some(snapshot.blobs().join(path)),
                (_, Some(Named::Lfs(pointer, _))) if get.output.is_empty() => Some(pointer.clone()),
                _ => None,
            };
            let name = match (is_tree, &folder) {
                (true, Some(folder)) => Some(format!("{folder}/{}", path.display())),
                (true, None) => Some(path.display().to_string()),
                (false, _) => one.name.clone(),
            };
            let name = name.or_else(|| path.file_name().map(|name| name.to_string_lossy().into_owned()));
            let in_tree = is_tree && place.is_none();
            let output = one.output.as_ref().map(|text| folder_if(in_tree, text));
            let url = file.url.clone();
            let part = HubPart::Found(Found { file, place, group, in_tree });
            resolved.wanted.push(Wanted { name, output, hub: Some(part), ..Wanted::of(url) });
        }
        let said = match &ending {
            Ending::Layout(_) => format!("an OCI image layout; its manifest is {pin}"),
            Ending::Cache(snapshot) => format!("the snapshot is {}", snapshot.path().display()),
            // A lesser hub names no commit.
            Ending::None if here::is_object_id(&pin) => format!("as of commit {pin}"),
            Ending::None => String::new(),
        };
        resolved.groups.push(Group { said, ending });
    }
}

/// Nothing that is asked for here is without its hub.
fn missing() -> StoreError {
    StoreError::Usage("no hub was opened for it".to_owned())
}

fn failure(error: StoreError) -> anyhow::Error {
    match error {
        StoreError::Usage(text) => Usage(text).into(),
        StoreError::Http(error) => error.into(),
        other => other.into(),
    }
}

/// The user's login for `url`: the address's own, `-u`, or the netrc file's.
fn login(get: &Get, url: &Url, user: Option<Login>) -> Option<Login> {
    Credentials::new(user, get_who::netrc_of(&get.login), false).of(url, Some(url))
}

/// `-o` of files that keep their places is a folder, with a slash behind it or not.
fn folder_if(in_tree: bool, text: &str) -> String {
    let is_folder = text.is_empty() || text.ends_with('/') || text == "-";
    if in_tree && !is_folder { format!("{text}/") } else { text.to_owned() }
}

/// The common `-o` of what is `wanted`.
pub fn common_output(text: &str, wanted: &[Wanted]) -> String {
    folder_if(wanted.iter().any(|one| one.found().is_some_and(|found| found.in_tree)), text)
}

/// What a run fetches, and what is here already.
pub struct Fetching {
    /// What is fetched.
    pub jobs: Vec<Job>,
    /// The groups that want each.
    groups: Vec<Vec<usize>>,
    /// What needs no fetching.
    pub here: Vec<FileRecord>,
    endings: Vec<(Group, Option<PathBuf>)>,
}

/// Leaves out of `jobs`, one for each of `wanted`, what is here already as the hub has it.
pub fn leave_here(
    get: &Get,
    jobs: Vec<Job>,
    wanted: &[Wanted],
    groups: Vec<Group>,
    stop: &AtomicBool,
) -> anyhow::Result<Fetching> {
    let may_be_here = !get.force && get.range.is_none() && get.checksum.is_empty();
    let mut endings: Vec<(Group, Option<PathBuf>)> = groups.into_iter().map(|group| (group, None)).collect();
    let mut fetching =
        Fetching { jobs: Vec::new(), groups: Vec::new(), here: Vec::new(), endings: Vec::new() };
    let mut seen: HashMap<PathBuf, Option<usize>> = HashMap::new();
    for (job, one) in jobs.into_iter().zip(wanted) {
        let Some(found) = one.found() else {
            fetching.jobs.push(job);
            fetching.groups.push(Vec::new());
            continue;
        };
        let path = match &job.output {
            Output::File(path) => Some(path.clone()),
            Output::Folder(folder) => job.name.as_ref().map(|name| folder.join(name)),
            _ => None,
        };
        let depth = found.file.name.components().count();
        let folder = path.as_ref().and_then(|path| path.ancestors().nth(depth)).map(Path::to_owned);
        if let Some((_, known)) = endings.get_mut(found.group) {
            known.get_or_insert(folder.unwrap_or_default());
        }
        // Two images with a layer in common, two commits with a file: it comes once, for both.
        if let Some(known) = path.as_ref().and_then(|path| seen.get(path)) {
            known.iter().for_each(|index| fetching.groups[*index].push(found.group));
            continue;
        }
        let digest = match path.as_deref().filter(|_| may_be_here) {
            Some(path) => here::is_here(&found.file, path, stop).unwrap_or_default(),
            None => None,
        };
        if let Some(path) = &path {
            seen.insert(path.clone(), digest.is_none().then_some(fetching.jobs.len()));
        }
        match (digest, path) {
            (Some(digest), Some(path)) => fetching.here.push(FileRecord {
                url: object::shown(&job.url),
                bytes: std::fs::metadata(&path).map(|there| there.len()).unwrap_or_default(),
                path: path.display().to_string(),
                digest: Some(DigestRecord { alg: digest.algorithm().name().to_owned(), hex: digest.hex() }),
                unchanged: true,
                ..FileRecord::default()
            }),
            _ => {
                fetching.jobs.push(job);
                fetching.groups.push(vec![found.group]);
            }
        }
    }
    fetching.endings = endings;
    Ok(fetching)
}

impl Fetching {
    /// What is complete becomes what other programs read. Returns what is to be said of the run.
    pub fn finish(&self, report: &RunReport) -> Result<Vec<String>, StoreError> {
        let mut said = Vec::new();
        for (index, (group, folder)) in self.endings.iter().enumerate() {
            let of_group = self.groups.iter().zip(&report.files).filter(|(of, _)| of.contains(&index));
            let is_whole = of_group.into_iter().all(|(_, file)| {
                matches!(file.outcome, JobOutcome::Complete | JobOutcome::Skipped | JobOutcome::Unchanged)
            });
            if !is_whole {
                continue;
            }
            match (&group.ending, folder) {
                (Ending::Cache(snapshot), _) => snapshot.finish()?,
                (Ending::Layout(image), Some(folder)) => image.finish(folder)?,
                _ => {}
            }
            match folder {
                Some(folder) if matches!(group.ending, Ending::Layout(_)) => {
                    let folder = folder.strip_prefix(".").unwrap_or(folder);
                    said.push(format!("{} is {}", folder.display(), group.said));
                }
                _ if !group.said.is_empty() && !said.contains(&group.said) => said.push(group.said.clone()),
                _ => {}
            }
        }
        Ok(said)
    }
}

/// A pointer of git-lfs weighs more: its three lines without the size's digits.
const LEAST_POINTER: u64 = 120;

/// Says of files that are pointers of git-lfs what they are: the file itself is elsewhere.
pub fn note_pointers(report: &mut RunReport) {
    for file in &mut report.files {
        let is_small = (LEAST_POINTER..=MAX_POINTER).contains(&file.bytes);
        let Some(path) = file.path.as_deref().filter(|_| is_small) else { continue };
        if !matches!(file.outcome, JobOutcome::Complete) || !path.is_file() {
            continue;
        }
        let read = weir_units::read_file(path, Bytes(MAX_POINTER)).ok();
        if let Some(pointer) = read.and_then(|bytes| Pointer::parse(&bytes)) {
            file.notes.push(format!(
                "it is a git-lfs pointer to a file of {}, not the file itself; weir get --lfs REPOSITORY-URL {} \
                 fetches that",
                Bytes(pointer.size),
                path.strip_prefix(".").unwrap_or(path).display()
            ));
        }
    }
}
