//! The list of names that are to be copied (`--files-from`): the driver reads it, and a sender elsewhere asks
//! for it piece by piece, so that neither holds more than a piece.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use weir_tree::{Name, filter};

use crate::control::Outlet;
use crate::error::CopyError;
use crate::events::Events;
use crate::threads;
use crate::wire::driver::{FromDriver, ToDriver};
use crate::wire::message::{Failure, MAX_NAMES, Problem};

/// Bytes of names in one piece, and one name more: a quarter of what a message takes.
const PIECE: usize = 256 << 10;

/// A list of names, relative to the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List {
    /// The file; none for standard input.
    path: Option<PathBuf>,
    /// Names end with NUL rather than with a line.
    nul: bool,
    spool: Option<Spool>,
}

/// What came through a pipe, which can be read only once.
#[derive(Debug, Clone)]
struct Spool(Arc<File>);

impl PartialEq for Spool {
    fn eq(&self, other: &Spool) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Spool {}

/// Names to be copied, one after another.
pub struct Names(Box<dyn Iterator<Item = Name> + Send>);

impl List {
    /// The list in the file at `path`, or in standard input; `nul`: names end with NUL.
    pub fn new(path: Option<PathBuf>, nul: bool) -> List {
        List { path, nul, spool: None }
    }

    /// The file; `None` for standard input.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The same list as one that can be opened more than once: what is no regular file is read now, into a
    /// file without a name.
    ///
    /// # Errors
    /// It cannot be read, or not be kept.
    pub fn kept(self) -> io::Result<List> {
        let mut from: Box<dyn Read> = match &self.path {
            None => Box::new(io::stdin()),
            Some(path) if fs::metadata(path)?.is_file() => return Ok(self),
            Some(path) => Box::new(File::open(path)?),
        };
        let mut file = tempfile::tempfile()?;
        io::copy(&mut from, &mut file)?;
        Ok(List { spool: Some(Spool(Arc::new(file))), ..self })
    }

    /// Its names. What is none is told as a problem, and left out.
    pub(crate) fn open(&self, events: &Events) -> Result<Names, CopyError> {
        let from: Box<dyn BufRead + Send> = match (&self.spool, &self.path) {
            (Some(Spool(file)), _) => Box::new(BufReader::new(FromStart { file: Arc::clone(file), at: 0 })),
            (None, None) => Box::new(BufReader::new(io::stdin())),
            (None, Some(path)) => open(path).map_err(|error| {
                let why = weir_units::plain(&error);
                CopyError::Refused(Failure::local(format_args!("cannot read {}: {why}", path.display())))
            })?,
        };
        let shown = self.path.clone().unwrap_or_else(|| "standard input".into());
        let (mut names, events) = (filter::names(from, shown, self.nul), events.clone());
        let mut broken = false;
        Ok(Names(Box::new(std::iter::from_fn(move || {
            while !broken {
                match names.next()? {
                    Ok(name) => return Some(name),
                    Err(error) => {
                        // One that cannot be read will not be read better.
                        broken = matches!(error, weir_tree::TreeError::Path { .. });
                        let failure = Failure::local(error);
                        events.problem(Problem { name: Name::root(), failure, harmless: false });
                    }
                }
            }
            None
        }))))
    }
}

fn open(path: &Path) -> io::Result<Box<dyn BufRead + Send>> {
    let kind = fs::metadata(path)?.file_type();
    if kind.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if kind.is_fifo() {
        return Ok(Box::new(BufReader::new(Pipe { path: path.to_owned(), file: None })));
    }
    Ok(Box::new(BufReader::new(File::open(path)?)))
}

/// A file that others read as well, each from its start.
struct FromStart {
    file: Arc<File>,
    at: u64,
}

impl Read for FromStart {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// A named pipe, opened by whoever reads it: to open it waits for a writer, and there may be none.
struct Pipe {
    path: PathBuf,
    file: Option<File>,
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let file = match self.file.take() {
            Some(file) => file,
            None => File::open(&self.path)?,
        };
        self.file.insert(file).read(buffer)
    }
}

impl Names {
    /// Names that the driver has: each piece is asked for when the one before is used up. The driver's
    /// answers come through the channel.
    pub(crate) fn asked_of(driver: Outlet<ToDriver>) -> (Names, Sender<Vec<Name>>) {
        let (inbox, answers) = channel::<Vec<Name>>();
        let mut piece = Vec::new().into_iter();
        let names = std::iter::from_fn(move || {
            if let Some(name) = piece.next() {
                return Some(name);
            }
            driver.send(&ToDriver::MoreNames);
            piece = answers.recv().unwrap_or_default().into_iter();
            piece.next()
        });
        // After its end nothing more is asked for.
        (Names(Box::new(names.fuse())), inbox)
    }

    /// Tells them to a sender elsewhere, a piece whenever the returned channel says that it asked for one. On
    /// a thread of its own: standard input may be a person.
    pub(crate) fn tell(self, to: Outlet<FromDriver>) -> Result<Sender<()>, CopyError> {
        let (asked, asks): (Sender<()>, Receiver<()>) = channel();
        let mut names = self.0;
        let work = move || {
            while asks.recv().is_ok() {
                let (mut piece, mut size) = (Vec::new(), 0);
                while size < PIECE
                    && piece.len() < MAX_NAMES
                    && let Some(name) = names.next()
                {
                    size += name.as_bytes().len();
                    piece.push(name);
                }
                to.send(&FromDriver::Names(piece));
            }
        };
        threads::start("list", work).map_err(|source| CopyError::Threads { source })?;
        Ok(asked)
    }
}

impl Iterator for Names {
    type Item = Name;

    fn next(&mut self) -> Option<Name> {
        self.0.next()
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Names")
    }
}
