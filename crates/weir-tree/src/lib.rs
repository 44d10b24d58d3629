//! Trees of files on this machine: reading one as a stream of entries, writing one entry by entry, comparing,
//! and finding what differs in a changed file. Safe against hostile names and against links that others swap
//! in.
//!
//! No network: what another machine says arrives as an [`Entry`] (checked when it is read off the wire) and
//! bytes.
//!
//! * [`entry`]: what one thing in a tree is, and its [`Name`].
//! * [`walk`]: a tree as a stream, in memory that does not grow with it; [`filter`]: what the stream leaves
//!   out.
//! * [`destination`]: a tree being written, every step beneath its root.
//! * [`compare`]: is this entry the one that is already there?
//! * [`pages`]: memory for what is written next, where that is slow to come.
//! * [`delta`]: which parts of a file another version of it already holds.
//!
//! ```
//! use std::io::Read;
//! use weir_tree::{Filter, Kind, Step, Target, Walk, destination, walk};
//! # let (source, copy) = (tempfile::tempdir()?, tempfile::tempdir()?);
//! # std::fs::write(source.path().join("x"), "hello")?;
//! let target = Target::open(copy.path(), destination::Options::default())?;
//! let root = walk::Root::content_of(source.path());
//! for step in Walk::new(vec![root], Filter::default(), walk::Wanted::default()) {
//!     match step {
//!         Step::Found(entry, source) => match &entry.kind {
//!             Kind::Directory => target.directory(&entry.name)?,
//!             Kind::File { .. } => {
//!                 let mut content = Vec::new();
//!                 source.open(&entry)?.read_to_end(&mut content)?;
//!                 target.small(&entry, &content)?;
//!             }
//!             Kind::Symlink { .. } => target.symlink(&entry)?,
//!             Kind::HardLink { .. } => target.hard_link(&entry)?,
//!             Kind::Special(_) => {}
//!         },
//!         Step::Leave(directory) => target.finish_directory(&directory)?,
//!         Step::Failed(name, error) => eprintln!("{name}: {error}"),
//!     }
//! }
//! assert_eq!(std::fs::read(copy.path().join("x"))?, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod bad_rule;
pub mod compare;
pub mod delta;
pub mod destination;
pub mod entry;
mod error;
pub mod filter;
mod name;
pub mod pages;
pub mod room;
pub mod source;
pub mod walk;
pub mod xattr;

pub use destination::{Pending, Target, umask};
pub use entry::{Entry, Kind, Name};
pub use error::TreeError;
pub use filter::Filter;
pub use source::Source;
pub use walk::{Step, Walk};
