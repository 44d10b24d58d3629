//! What `weir get` fetches from hubs: `hf://`, `oci://` and pointers of git-lfs become files with digests,
//! and complete files become what other programs read.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use url::Url;
use weir_get::error::GetError;
use weir_get::http::authority::Authorizer;
use weir_get::http::credentials::Credentials;
use weir_get::http::exchange::Http;
use weir_get::job::{FileReport, Job, JobOutcome, Options, Output, Pinned};
use weir_get::list::order::Survey;
use weir_get::source::Bad;
use weir_get::verify::{Expectation, Whose};
use weir_http::netrc::Login;
use weir_store::StoreError;
use weir_store::caller::Caller;
use weir_store::hub::hugging_face::{HfUrl, HuggingFace};
use weir_store::hub::lfs::{LfsServer, MAX_POINTER, Pointer};
use weir_store::hub::oci::{OciUrl, Registry, login_of};
use weir_store::hub::{Ending, HubFile, Listing, Way, cache, here};
use weir_tree::Name;
use weir_units::Bytes;

use crate::args::Get;
use crate::cmd::asked_store::own_variable as environment;
use crate::cmd::get_jobs::Wanted;
use crate::cmd::get_list::Asked;
use crate::cmd::get_who;
use crate::voice::Usage;

/// What a text names at a hub.
pub enum Named {
    /// In a repository.
    HuggingFace(HfUrl),
    /// An image.
    Oci(OciUrl),
    /// The object of a pointer that lies here; `None`: that file is no pointer, or not any more.
    Lfs(PathBuf, Option<Pointer>),
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
    /// Which of the listings it is of: two images may have a layer in common, two commits a file.
    groups: Vec<usize>,
    /// It keeps its place below a folder.
    in_tree: bool,
    /// In its place is a file that is no pointer to it: there is nothing to fetch.
    is_no_pointer: bool,
}

impl Found {
    /// Where it goes, if that is not for `-o` to say.
    pub fn place(&self) -> Option<&Path> {
        self.place.as_deref()
    }
}

/// Files that go to one place and have one content are one.
type HubPlace = (Option<PathBuf>, Option<String>, Option<String>, String);

/// How files of hubs are taken.
pub struct Taking {
    whose: Whose,
    /// Only parts of them, which have no digest.
    of_parts: bool,
    /// What is here is looked at.
    may_be_here: bool,
}

impl Taking {
    /// As the user has it.
    pub fn new(get: &Get) -> Taking {
        let of_parts = get.range.is_some();
        Taking {
            whose: if get.ignore_digest { Whose::Ignored } else { Whose::Server },
            of_parts,
            may_be_here: !get.force && !of_parts && get.checksum.is_empty(),
        }
    }

    /// What `found` must be.
    pub fn expectations(&self, found: &Found) -> Vec<Expectation> {
        let proof = found.file.proof(found.file.size).filter(|_| !self.of_parts);
        let one = |(expected, before)| {
            let origin = "the server's list of files".to_owned();
            Expectation { expected, origin, whose: self.whose, parts: None, before }
        };
        proof.map(one).into_iter().collect()
    }

    /// The size of `found`. A digest alone does not tell that a list is wrong about it, as whoever reads the
    /// manifest of an image would find.
    pub fn pinned(&self, found: &Found) -> Option<Pinned> {
        let is_all = !self.of_parts && self.whose != Whose::Ignored;
        let size = found.file.size.filter(|_| is_all)?;
        Some(Pinned { size: Some(size), ..Pinned::default() })
    }

    /// The report of `job` if the file of `found` is here already as the hub has it, or stays whatever it is.
    pub fn here(&self, found: &Found, job: &Job, over: &AtomicBool) -> Option<FileReport> {
        if found.is_no_pointer {
            return Some(left_alone(job));
        }
        let path = path_of(job).filter(|_| self.may_be_here)?;
        if !here::is_here(&found.file, &path, over).unwrap_or_default() {
            return None;
        }
        let bytes = std::fs::metadata(&path).map(|there| there.len()).unwrap_or_default();
        // Git's id of the blob is not a digest that a person could compare the file with.
        let (digest, outcome) = (found.file.digest.clone(), JobOutcome::Unchanged);
        Some(FileReport { path: Some(path), bytes, digest, outcome, ..job.blank_report() })
    }
}

/// The report of a file that stays, since it is no pointer. An earlier run may have put the object there.
fn left_alone(job: &Job) -> FileReport {
    let path = path_of(job);
    let there = path.as_deref().and_then(|path| std::fs::metadata(path).ok());
    FileReport {
        bytes: there.map(|there| there.len()).unwrap_or_default(),
        path,
        outcome: JobOutcome::Skipped,
        notes: vec!["it is no git-lfs pointer, and stays as it is; it may be the object already".to_owned()],
        ..job.blank_report()
    }
}

/// The file that a job of a hub becomes, whatever the server calls it.
fn path_of(job: &Job) -> Option<PathBuf> {
    match &job.output {
        Output::File(_) | Output::Folder(_) => job.target(),
        Output::Pipe(_) | Output::Stdout | Output::Memory(_) => None,
    }
}

/// `text` has the scheme of a hub.
pub fn names_hub(text: &str) -> bool {
    HfUrl::parse(text).is_some() || OciUrl::parse(text).is_some()
}

/// `text` has a scheme behind which a path may hold blanks.
pub fn holds_blanks(text: &str) -> bool {
    HfUrl::parse(text).is_some()
}

/// What `text`, which is for a hub to say, names there.
pub fn parse(text: &str, get: &Get) -> Result<Wanted, Usage> {
    let bad = |error: weir_store::hub::hugging_face::BadHubUrl| Usage(error.to_string());
    let named = match (get.hubs.lfs.is_some(), HfUrl::parse(text), OciUrl::parse(text)) {
        (false, Some(url), _) => Named::HuggingFace(url.map_err(bad)?),
        (false, None, Some(url)) => Named::Oci(url.map_err(bad)?),
        _ => Named::Lfs(text.into(), pointer(Path::new(text), get)?),
    };
    let first = named.first(get)?;
    Ok(Wanted { hub: Some(HubPart::Named(named)), ..Wanted::of(first) })
}

/// The pointer in the file at `path`; `None`: it is none, and the object would take its place, as that of an
/// earlier run has. What has to have a digest of the user's is not left unread.
fn pointer(path: &Path, get: &Get) -> Result<Option<Pointer>, Usage> {
    let cannot = |why: String| Usage(format!("cannot fetch the object of {}: {why}", path.display()));
    let bytes = match weir_units::read_file(path, Bytes(MAX_POINTER)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => Vec::new(),
        Err(error) => return Err(cannot(weir_units::plain(&error))),
    };
    let stays = get.output.is_empty() && get.checksum.is_empty() && path.is_file();
    match Pointer::parse(&bytes) {
        None if !stays => Err(cannot(
            "it is no git-lfs pointer; it may be the object already (--lfs takes pointers alone)".to_owned(),
        )),
        pointer => Ok(pointer),
    }
}

impl Named {
    /// What is asked first for it.
    fn first(&self, get: &Get) -> Result<Url, Usage> {
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
        max_wait: options.max_wait,
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
#[derive(Default)]
pub struct Resolved {
    /// Files, each once.
    pub found: Vec<Wanted>,
    /// What could not be looked up.
    pub unknown: Vec<Unknown>,
    /// Files that came by one text, what is said of it, and what ends it.
    pub groups: Vec<Group>,
    places: HashMap<HubPlace, usize>,
}

/// What a hub does not have, or a line for it that names nothing.
#[derive(Clone)]
pub struct Unknown {
    /// What, and why.
    pub bad: Bad,
    /// The exit code that it makes.
    pub code: u8,
}

impl Unknown {
    /// What is at `place`, which its hub does not give because of `error`.
    fn of(place: String, error: &StoreError) -> Unknown {
        let code = match error {
            StoreError::Http(error) if error.is_verification() => 3,
            error if error.is_for_later() => 4,
            _ => 1,
        };
        Unknown { bad: Bad { place, error: error.to_string() }, code }
    }
}

/// What one text has led to.
pub struct Group {
    said: String,
    ending: Ending,
}

impl Hubs {
    /// Those that are asked for.
    pub fn open(get: &Get, asked: &Asked<Survey>, asking: Asking) -> anyhow::Result<Hubs> {
        let Asking { way, user, fields } = asking;
        let several = asked.hubs().len() + asked.others() > 1;
        let mut hubs = Hubs { hugging_face: None, registries: Vec::new(), lfs: None, way, several };
        let mut cached = asked.others() == 0;
        for one in asked.hubs() {
            cached &= matches!(one.named(), Some(Named::HuggingFace(_)));
            match one.named() {
                Some(Named::HuggingFace(_)) if hubs.hugging_face.is_none() => {
                    let lower = fields.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone()));
                    let hub = HuggingFace::new(&environment, lower.collect()).map_err(failure)?;
                    hubs.hugging_face = Some(hub);
                }
                Some(Named::Oci(wanted)) => hubs.open_registry(get, wanted, user.clone())?,
                Some(Named::Lfs(_, Some(_))) if hubs.lfs.is_none() => {
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
        let login = user.or_else(|| login_of(&host, &wanted.name, &environment, &self.way.stop));
        self.registries.push(Registry::new(wanted.clone(), platform, login, self.way.clone()));
        Ok(())
    }

    /// Who speaks for requests to them.
    pub fn authorizers(&self) -> Vec<Arc<dyn Authorizer>> {
        let registries = self.registries.iter().map(Registry::authorizer);
        let others = self.hugging_face.iter().map(HuggingFace::authorizer);
        registries.chain(others).chain(self.lfs.iter().map(LfsServer::authorizer)).collect()
    }

    /// Looks up what is `wanted`.
    pub fn resolve(&self, get: &Get, wanted: &[Wanted], http: &Http) -> anyhow::Result<Resolved> {
        self.way.ask(http, |caller| self.look_up(get, wanted, caller)).map_err(failure)
    }

    fn look_up(&self, get: &Get, wanted: &[Wanted], caller: &mut Caller<'_>) -> Result<Resolved, StoreError> {
        let mut resolved = Resolved::default();
        let mut registries = self.registries.iter();
        let (mut objects, no_objects) = match self.list_pointers(wanted, caller) {
            Ok(objects) => (objects.into_iter(), None),
            Err(error @ StoreError::Http(GetError::Interrupted)) => return Err(error),
            Err(error) => (Vec::new().into_iter(), Some(error)),
        };
        for one in wanted {
            let Some(named) = one.named() else { continue };
            let (place, listing) = match named {
                Named::HuggingFace(url) => (url.to_string(), self.list_repo(get, url, caller)),
                Named::Oci(url) => {
                    let registry = registries.next().ok_or_else(missing);
                    (url.to_string(), registry.and_then(|registry| registry.list(caller)))
                }
                Named::Lfs(path, None) => {
                    resolved.add_no_pointer(path, one);
                    continue;
                }
                Named::Lfs(path, Some(_)) => {
                    let place = path.display().to_string();
                    if let Some(error) = &no_objects {
                        resolved.unknown.push(Unknown::of(place, error));
                        continue;
                    }
                    (place, objects.next().unwrap_or_else(|| Err(missing())))
                }
            };
            match listing {
                Ok(listing) => self.take(get, one, listing, &mut resolved),
                Err(error @ StoreError::Http(GetError::Interrupted)) => return Err(error),
                Err(error) => resolved.unknown.push(Unknown::of(place, &error)),
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
    fn list_pointers(
        &self,
        wanted: &[Wanted],
        caller: &mut Caller<'_>,
    ) -> Result<Vec<Result<Listing, StoreError>>, StoreError> {
        let pointers = wanted.iter().filter_map(|one| match one.named() {
            Some(Named::Lfs(path, Some(pointer))) => Some((last_name(path), pointer.clone())),
            _ => None,
        });
        let pointers: Vec<(Name, Pointer)> = pointers.collect();
        let Some(server) = self.lfs.as_ref().filter(|_| !pointers.is_empty()) else { return Ok(Vec::new()) };
        let (folder, pin) = (String::new(), String::new());
        let alone = |file| Listing {
            files: vec![file],
            is_tree: false,
            folder: folder.clone(),
            pin: pin.clone(),
            ending: Ending::None,
        };
        Ok(server.list(caller, &pointers)?.into_iter().map(|file| file.map(alone)).collect())
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
            let found = Found { file, place, groups: vec![group], in_tree, is_no_pointer: false };
            resolved.add(found, name, output);
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

/// What a file is called, without its folders.
fn last_name(path: &Path) -> Name {
    let name = path.file_name().map(|name| name.as_encoded_bytes().to_owned()).unwrap_or_default();
    Name::new(name).unwrap_or_else(|_| Name::root())
}

impl Resolved {
    /// The file at `path`, which `one` names, stays as it is. No group waits for it.
    fn add_no_pointer(&mut self, path: &Path, one: &Wanted) {
        let url = one.url.clone();
        let file = HubFile { url, name: last_name(path), size: None, digest: None, id: String::new() };
        let place = Some(path.to_owned());
        let found = Found { file, place, groups: Vec::new(), in_tree: false, is_no_pointer: true };
        self.add(found, one.name.clone(), None);
    }

    fn add(&mut self, mut found: Found, name: Option<String>, output: Option<String>) {
        let content = if found.file.id.is_empty() { found.file.url.as_str() } else { &found.file.id };
        let place = (found.place.clone(), output.clone(), name.clone(), content.to_owned());
        let known = self.places.get(&place).and_then(|index| self.found.get_mut(*index));
        if let Some(HubPart::Found(known)) = known.and_then(|one| one.hub.as_mut()) {
            known.groups.append(&mut found.groups);
            return;
        }
        self.places.insert(place, self.found.len());
        let url = found.file.url.clone();
        self.found.push(Wanted { name, output, hub: Some(HubPart::Found(found)), ..Wanted::of(url) });
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

/// The common `-o`, where hubs have named `found`.
pub fn common_output(text: &str, found: &[Wanted]) -> String {
    folder_if(found.iter().any(|one| one.found().is_some_and(|found| found.in_tree)), text)
}

/// How complete what was asked for is, and what ends it.
pub struct Endings(Mutex<EndingsState>);

struct EndingsState {
    groups: Vec<GroupState>,
    /// The groups of files that have begun, by the numbers of their jobs.
    begun: HashMap<usize, Vec<usize>>,
}

struct GroupState {
    group: Group,
    /// Files that are not complete.
    lacking: usize,
    /// The number of a job whose file was kept without a look at what it holds (`--no-clobber`).
    kept: Option<usize>,
    /// Of the first file that began: the folder that it keeps its place in, and the number of its job.
    first: Option<(Option<PathBuf>, usize)>,
}

impl Group {
    /// What is said of a file that was kept and is not known to be the hub's.
    fn lacks_what_is_kept(&self) -> String {
        let ends = match self.ending {
            Ending::None => "",
            Ending::Cache(_) => "; the cache gets no snapshot",
            Ending::Layout(_) => "; index.json does not name the image",
        };
        format!("--no-clobber keeps it, and it is not known to be what the hub has{ends}")
    }
}

impl Endings {
    /// Of `groups`, whose files are `found`.
    pub fn new(groups: Vec<Group>, found: &[Wanted]) -> Endings {
        let begin = |group| GroupState { group, lacking: 0, kept: None, first: None };
        let mut groups: Vec<GroupState> = groups.into_iter().map(begin).collect();
        for index in found.iter().filter_map(Wanted::found).flat_map(|found| &found.groups) {
            groups[*index].lacking += 1;
        }
        Endings(Mutex::new(EndingsState { groups, begun: HashMap::new() }))
    }

    /// Job `number` is for `found`.
    pub fn begun(&self, number: usize, found: &Found, job: &Job) {
        let mut state = self.0.lock();
        // What is below the folder is the file's own place in it.
        let depth = found.file.name.components().count();
        let folder = path_of(job).and_then(|path| path.ancestors().nth(depth).map(Path::to_owned));
        for index in &found.groups {
            state.groups[*index].first.get_or_insert_with(|| (folder.clone(), number));
        }
        state.begun.insert(number, found.groups.clone());
    }

    /// Job `number` has ended with this report.
    pub fn ended(&self, number: usize, report: &FileReport) {
        let mut state = self.0.lock();
        for index in state.begun.remove(&number).unwrap_or_default() {
            let group = &mut state.groups[index];
            match report.outcome {
                // What the hub has would have been unchanged.
                JobOutcome::Skipped if !report.verified => group.kept = group.kept.or(Some(number)),
                JobOutcome::Complete | JobOutcome::Skipped | JobOutcome::Unchanged => group.lacking -= 1,
                JobOutcome::Partial(_) | JobOutcome::Failed(_) => {}
            }
        }
    }

    /// What is complete becomes what other programs read. Returns what is to be said of it, each beside the
    /// number of a job.
    pub fn finish(&self, stop: &AtomicBool) -> Result<Vec<(usize, String)>, StoreError> {
        let mut said: Vec<(usize, String)> = Vec::new();
        for GroupState { group, first, lacking, kept } in &self.0.lock().groups {
            said.extend(kept.map(|number| (number, group.lacks_what_is_kept())));
            let Some((folder, number)) = first.as_ref().filter(|_| *lacking == 0) else { continue };
            let text = match (&group.ending, folder) {
                (Ending::Layout(image), Some(folder)) => {
                    let called = image.finish(folder, stop)?.map_or_else(String::new, |name| {
                        format!("; the image is called {name} there, since another one has its tag")
                    });
                    let folder = folder.strip_prefix(".").unwrap_or(folder);
                    format!("{} is {}{called}", folder.display(), group.said)
                }
                (Ending::Layout(_), None) => continue,
                (Ending::Cache(snapshot), _) => {
                    snapshot.finish()?;
                    group.said.clone()
                }
                (Ending::None, _) => group.said.clone(),
            };
            let is_new = !text.is_empty() && said.iter().all(|(_, other)| *other != text);
            if is_new {
                said.push((*number, text));
            }
        }
        Ok(said)
    }
}

/// A pointer of git-lfs weighs more: its three lines without the size's digits.
const LEAST_POINTER: u64 = 120;

/// Says of a file that is a pointer of git-lfs what it is: the file itself is elsewhere.
pub fn note_pointer(report: &mut FileReport) {
    let is_small = (LEAST_POINTER..=MAX_POINTER).contains(&report.bytes);
    let Some(path) = report.path.as_deref().filter(|_| is_small) else { return };
    if !matches!(report.outcome, JobOutcome::Complete) || !path.is_file() {
        return;
    }
    let read = weir_units::read_file(path, Bytes(MAX_POINTER)).ok();
    if let Some(pointer) = read.and_then(|bytes| Pointer::parse(&bytes)) {
        report.notes.push(format!(
            "it is a git-lfs pointer to a file of {}, not the file itself; weir get --lfs REPOSITORY-URL {} \
             fetches that",
            Bytes(pointer.size),
            path.strip_prefix(".").unwrap_or(path).display()
        ));
    }
}
