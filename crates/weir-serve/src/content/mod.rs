//! What does a target name? One file a kind of content; each answers with an [`Entry`].

mod beneath;
mod dir;
pub(crate) mod generated;
pub(crate) mod listing;
mod live;
mod media_type;

use std::io;
use std::time::{Duration, SystemTime};

use weir_http::request_target::Path as Target;
use weir_http::validator::http_time;

use crate::source::Source;
use crate::{Config, Content, ServeError};

/// A kind of content. To add one: its file here, a variant of [`Content`], an arm of [`open`].
pub(crate) trait Resolve: Send + Sync {
    /// Finds what a target names. May wait for the disk to find it, but reads none of its bytes, or one to
    /// see whether there are any.
    fn resolve(&self, target: &Target) -> Entry;

    /// What is in the directory that [`resolve`](Resolve::resolve) found: [`Entry::Listing`], or what keeps
    /// it from being one. May take as long as the directory is large.
    fn list(&self, target: &Target) -> Entry;

    /// Opens again what was opened by its path, which may lead elsewhere by now. Where that fails, all stays
    /// as it was.
    fn reopen(&self) -> Result<(), ServeError> {
        Ok(())
    }
}

/// What a target names, with everything that an answer needs to know about it.
#[derive(Debug)]
pub(crate) enum Entry {
    /// A file, open.
    File(File),
    /// A directory asked for with a final slash, to be listed in its turn: there is no `index.html` in it, or
    /// who asks prefers the list.
    Folder,
    /// What is in it.
    Listing(Vec<Item>),
    /// A text that was made for this request.
    Text {
        /// Its `Content-Type`.
        media_type: &'static str,
        /// The text.
        text: String,
    },
    /// A directory asked for without its final slash.
    Slashless,
    /// Nothing there, or nothing that may be served: the client cannot tell which.
    Absent,
    /// There, but the server's user may not read it.
    Forbidden,
    /// Could not be found out, or not now.
    Failed(io::Error),
}

/// A regular file as it was when the request came.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) source: Source,
    /// Bytes.
    pub(crate) len: u64,
    /// `None` where the system gives a time that HTTP cannot express.
    pub(crate) modified: Option<SystemTime>,
    /// Whether `modified` proves a version: no later change can have put it back.
    pub(crate) date_proves: bool,
    /// A strong entity tag, quotes included: equal tags promise equal bytes.
    pub(crate) tag: String,
    pub(crate) media_type: &'static str,
}

impl File {
    /// Whether it may be one that somebody appends to, such as a log: one that was written to within a day,
    /// in the future, or nobody knows when.
    pub(crate) fn may_grow(&self, now: SystemTime) -> bool {
        const DAY: Duration = Duration::from_secs(86_400);
        let age = self.modified.and_then(|modified| now.duration_since(modified).ok());
        age.is_none_or(|age| age <= DAY)
    }
}

/// One line of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    /// As the file system has it, which need not be UTF-8.
    pub(crate) name: Vec<u8>,
    pub(crate) is_directory: bool,
    /// Bytes; 0 for a directory.
    pub(crate) size: u64,
    pub(crate) modified: Option<SystemTime>,
}

/// Opens what the configuration names.
pub(crate) fn open(config: &Config) -> Result<Box<dyn Resolve>, ServeError> {
    Ok(match &config.content {
        Content::Dir(root) => Box::new(
            dir::Dir::open(root, config.follow_links)
                .map_err(|source| ServeError::Root { path: root.clone(), source: source.into() })?,
        ),
        Content::Live(texts) => Box::new(live::Live(texts.clone())),
        Content::Generated(files) => {
            Box::new(generated::Generated::new(files).map_err(ServeError::start("generated content"))?)
        }
    })
}

/// Directories first, then by name, as people look for them.
fn sort(items: &mut [Item]) {
    items.sort_by(|a, b| b.is_directory.cmp(&a.is_directory).then_with(|| a.name.cmp(&b.name)));
}

#[cfg(test)]
mod trees {
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    /// root/{plain, sub/inner, in -> sub/inner, out -> ../secret, up -> ..} beside secret; the folder that
    /// holds both, and the root.
    pub(super) fn with_links() -> (tempfile::TempDir, PathBuf) {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("root");
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::write(outer.path().join("secret"), "secret").unwrap();
        std::fs::write(root.join("plain"), "plain").unwrap();
        std::fs::write(root.join("sub/inner"), "inner").unwrap();
        symlink("sub/inner", root.join("in")).unwrap();
        symlink("../secret", root.join("out")).unwrap();
        symlink("..", root.join("up")).unwrap();
        (outer, root)
    }
}
