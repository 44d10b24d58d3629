//! What a web server lists below a folder, as a plan lists it: page after page, each folder by the page that
//! leads to it.
//!
//! A page is a stranger's text. What counts is what lies one step below the page itself, on the same server:
//! links up, to other hosts and to pictures are no entries, so nothing leads out and nothing leads back. What
//! looks like an entry and cannot be moved is told as bad, never left out in silence.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};

use percent_encoding::percent_decode_str;
use url::Url;
use weir_get::GetError;
use weir_get::http::call::{AtHand, Call, Reply};
use weir_http::index_page::{self, IndexLink, IndexPage};
use weir_store::StoreError;
use weir_store::caller::Caller;

use super::list::TargetNames;
use super::{Found, LeftOut, Listing};
use crate::error::FleetError;
use crate::object::FleetObject;

/// Bytes of a page: some 250,000 files of a folder, and memory stays below a plan's 96 MiB.
const PAGE: usize = 32 << 20;

/// Folders within each other: below a link that leads to a folder above it there is no end.
const DEEPEST: usize = 100;

/// Pages of one folder that lead to each other.
const PAGES: usize = 100_000;

/// Redirects of one page, all of them to itself with a slash or without.
const REDIRECTS: usize = 5;

/// Queries by which pages are sorted and shown otherwise, of Apache, Caddy and nginx's fancyindex.
const SORTED_BY: [&str; 10] = ["C", "O", "F", "V", "P", "N", "sort", "order", "layout", "view"];

/// The way on where a server has no list.
const WAY_OUT: &str = "name its files by --list FILE, a name a line";

/// See the module.
pub struct IndexListing<'a> {
    caller: Caller<'a>,
    root: Url,
    /// What the target takes as names.
    names: TargetNames,
    /// Folders that are still to be asked for, below the root: the encoded path, with a slash at its end.
    folders: Vec<String>,
    /// The page that is being read.
    open: Option<OpenPage>,
    hasher: RandomState,
}

/// A page, as far as it has been read.
struct OpenPage {
    /// Its folder, whose names are below it.
    folder: Url,
    body: Vec<u8>,
    /// Bytes of the body that are left; of HTML alone.
    left: usize,
    /// What is left of a list in JSON, as link and size.
    entries: VecDeque<(String, Option<u64>)>,
    /// Names of the folder that came already, by their hashes: an icon and a name lead to the same file.
    seen: HashSet<u64>,
    /// Further pages of the same folder.
    next: VecDeque<Url>,
    /// All pages of it so far.
    pages: HashSet<String>,
}

/// Why a page cannot be read.
enum NoPage {
    /// The plan cannot go on.
    End(FleetError),
    /// This folder cannot be listed.
    Bad(String),
}

impl<'a> IndexListing<'a> {
    /// Of what `root` lists, which ends with a slash.
    ///
    /// # Errors
    /// [`FleetError::Manifest`] where the root itself is no list.
    pub fn new(caller: Caller<'a>, root: Url, names: TargetNames) -> Result<IndexListing<'a>, FleetError> {
        let hasher = RandomState::new();
        let folders = Vec::new();
        let mut listing = IndexListing { caller, root: root.clone(), names, folders, open: None, hasher };
        listing.open = Some(listing.page_of(root).map_err(|why| match why {
            NoPage::End(error) => error,
            NoPage::Bad(why) => FleetError::Manifest(format!("cannot list {why}; {WAY_OUT}")),
        })?);
        Ok(listing)
    }

    /// Asks for the first page of a folder.
    fn page_of(&mut self, folder: Url) -> Result<OpenPage, NoPage> {
        let mut page = OpenPage {
            folder: folder.clone(),
            body: Vec::new(),
            left: 0,
            entries: VecDeque::new(),
            seen: HashSet::new(),
            next: VecDeque::new(),
            pages: HashSet::from([folder.as_str().to_owned()]),
        };
        self.ask(&mut page, folder)?;
        Ok(page)
    }

    /// Reads the page at `url` of the folder of `page`.
    fn ask(&mut self, page: &mut OpenPage, url: Url) -> Result<(), NoPage> {
        let reply = self.reply(&page.folder, url.clone())?;
        let media_type = reply.head.header("content-type").unwrap_or_default().to_ascii_lowercase();
        let Reply { body, .. } = reply;
        match index_page::parse(&media_type, &body) {
            IndexPage::Json(links) => {
                page.entries = links.into_iter().map(|link| (link.href.into_owned(), link.size)).collect();
            }
            IndexPage::Html { title } if is_list(&page.folder, &title, &body) => page.left = body.len(),
            IndexPage::Html { .. } => {
                let why = "its page is no list of files that weir knows, but a page in its place";
                return Err(NoPage::Bad(format!("{url}: {why}")));
            }
            IndexPage::Other => {
                let kind = weir_units::quoted(&media_type);
                return Err(NoPage::Bad(format!("{url}: its answer is no list of files, but '{kind}'")));
            }
        }
        page.body = body;
        Ok(())
    }

    /// The answer of the server itself, which may lead to the same folder under another name alone.
    fn reply(&mut self, folder: &Url, mut url: Url) -> Result<Reply, NoPage> {
        for _ in 0..REDIRECTS {
            let accept = ("accept".to_owned(), "application/json, text/html;q=0.9, */*;q=0.1".to_owned());
            let call =
                Call { method: "GET", url: url.clone(), fields: vec![accept], most: PAGE, asks_first: false };
            let reply = match self.caller.ask(&call, &mut AtHand::default()) {
                Ok(reply) => reply,
                Err(StoreError::Http(GetError::Interrupted)) => {
                    return Err(NoPage::End(FleetError::Stopped));
                }
                Err(error) => {
                    return Err(NoPage::End(FleetError::Manifest(format!("cannot list {url}: {error}"))));
                }
            };
            match (reply.head.status, reply.head.header("location").map(|to| url.join(to))) {
                (200, _)
                    if reply.head.header("content-encoding").is_some_and(|coding| coding != "identity") =>
                {
                    return Err(NoPage::Bad(format!("{url}: its answer is packed, which was not asked for")));
                }
                (200, _) => return Ok(reply),
                (301 | 302 | 303 | 307 | 308, Some(Ok(to))) if is_same(folder, &to) => url = to,
                (301 | 302 | 303 | 307 | 308, Some(Ok(mut to))) => {
                    let _ = to.set_password(None);
                    let why = format!("it leads to {to}, which is no part of it; plan that address instead");
                    return Err(NoPage::Bad(format!("{url}: {why}")));
                }
                _ => return Err(NoPage::Bad(format!("{url}: {}", reply.error(&url)))),
            }
        }
        Err(NoPage::Bad(format!("{url}: it leads from one address to another without end")))
    }

    /// What the next link of the open page is; `None`: the page is read.
    fn step(&mut self) -> Option<Option<Found>> {
        let page = self.open.as_mut()?;
        if let Some((href, size)) = page.entries.pop_front() {
            return Some(self.judge(&href, size, false));
        }
        let body = std::mem::take(&mut page.body);
        let mut links = index_page::links(&body[body.len() - page.left..]);
        let link = links.next();
        page.left = links.left();
        let found = link.map(|IndexLink { href, size, is_next }| self.judge(&href, size, is_next));
        if let Some(page) = &mut self.open {
            page.body = body;
        }
        found
    }

    /// What a link of the open page is; `None`: nothing of the folder.
    fn judge(&mut self, href: &str, size: Option<u64>, is_next: bool) -> Option<Found> {
        let page = self.open.as_mut()?;
        let shown = || format!("{}: its link '{}'", page.folder, weir_units::quoted(href));
        let Ok(mut url) = page.folder.join(href) else {
            return Some(Found::Bad(format!("{} makes no sense", shown())));
        };
        url.set_fragment(None);
        if url.origin() != page.folder.origin() || !url.username().is_empty() {
            return None;
        }
        let rest = url.path().strip_prefix(page.folder.path())?.to_owned();
        let is_view = || url.query_pairs().all(|(name, _)| SORTED_BY.contains(&&*name));
        match (rest.is_empty(), url.query()) {
            (true, None) => return None,
            (true, Some(_)) if is_next => {
                let is_new = page.pages.len() < PAGES && page.pages.insert(url.as_str().to_owned());
                return if is_new {
                    page.next.push_back(url);
                    None
                } else {
                    None
                };
            }
            (true, Some(_)) if is_view() => return None,
            (_, Some(_)) => {
                return Some(Found::Bad(format!(
                    "{} has a query, and may lead to files that are not listed",
                    shown()
                )));
            }
            (false, None) => {}
        }
        let (name, is_folder) = rest.strip_suffix('/').map_or((&*rest, false), |name| (name, true));
        let plain: Vec<u8> = percent_decode_str(name).collect();
        if name.is_empty() || plain.contains(&b'/') || plain.contains(&0) || name.contains('/') {
            return Some(Found::Bad(format!("{} leads to nothing that is in this folder", shown())));
        }
        if !page.seen.insert(self.hasher.hash_one(&plain)) {
            return None;
        }
        let path = format!("{}{rest}", page.folder.path().strip_prefix(self.root.path()).unwrap_or_default());
        if is_folder {
            if path.matches('/').count() > DEEPEST {
                let why =
                    format!("its folders are more than {DEEPEST} deep; a link may lead to one above it");
                return Some(Found::Bad(format!("{url}: {why}")));
            }
            self.folders.push(path);
            return Some(Found::LeftOut(LeftOut::Folder));
        }
        let source: Vec<u8> = percent_decode_str(&path).collect();
        Some(match self.names.check(&source) {
            Ok(()) => {
                Found::Object(FleetObject { target: source.clone(), source, size, ..FleetObject::default() })
            }
            Err(why) => Found::Bad(format!("{url}: {why}")),
        })
    }

    /// The next page: of the same folder, or of another.
    fn turn(&mut self) -> Option<Result<(), NoPage>> {
        if let Some(mut page) = self.open.take()
            && let Some(url) = page.next.pop_front()
        {
            let asked = self.ask(&mut page, url);
            self.open = Some(page);
            return Some(asked);
        }
        let folder = self.folders.pop()?;
        let url = self.root.join(&format!("./{folder}"));
        let url = url.map_err(|error| NoPage::Bad(format!("{folder}: {error}")));
        Some(url.and_then(|url| self.page_of(url)).map(|page| self.open = Some(page)))
    }
}

/// Whether it is the folder itself, whatever its slash.
fn is_same(folder: &Url, to: &Url) -> bool {
    let path = |url: &Url| url.path().trim_end_matches('/').to_owned();
    to.origin() == folder.origin() && path(to) == path(folder) && to.username().is_empty()
}

/// Whether a page is the server's list and no page that somebody wrote: it is called as lists are, or after
/// its folder, or leads to the folder above.
fn is_list(folder: &Url, titles: &[String], body: &[u8]) -> bool {
    let own: Vec<u8> = percent_decode_str(folder.path()).collect();
    let own = String::from_utf8_lossy(&own).trim_matches('/').to_lowercase();
    let is_called = titles.iter().any(|title| {
        let title = title.to_lowercase();
        let lists = ["index of", "directory listing", "listing of", "directory of", "files in"];
        lists.iter().any(|begin| title.starts_with(begin)) || title.trim_matches('/') == own
    });
    let above = || folder.join("../").ok().filter(|above| above.path() != folder.path());
    is_called
        || above().is_some_and(|above| {
            index_page::links(body).any(|link| {
                folder
                    .join(&link.href)
                    .is_ok_and(|to| to.path() == above.path() && to.origin() == above.origin())
            })
        })
}

impl Listing for IndexListing<'_> {
    fn next(&mut self) -> Result<Option<Found>, FleetError> {
        loop {
            match self.step() {
                Some(Some(found)) => return Ok(Some(found)),
                Some(None) => continue,
                None => {}
            }
            match self.turn() {
                None => return Ok(None),
                Some(Ok(())) => {}
                Some(Err(NoPage::End(error))) => return Err(error),
                Some(Err(NoPage::Bad(why))) => return Ok(Some(Found::Bad(why))),
            }
        }
    }

    fn has_own_targets(&self) -> bool {
        true
    }
}
