//! Host to host: the two ends of `weir cp`, from the words between them to the file in its place.
//!
//! A byte's way: the [`sender`]'s walk finds a file and offers it; the [`receiver`] answers what it wants of
//! it; a worker of the sender reads a block, digests, compresses and encrypts it and sends it on a [`lane`];
//! a thread of the receiver opens, decompresses, verifies and writes it; when all blocks are there and their
//! [`subtrees`] join to the sender's digest, the file gets its name.
//!
//! A session: the driver ([`session`]) starts the far end ([`peer`]) through [`ssh`], both say [`hello`], the
//! driver draws a [`secret`], and lanes are made ([`lane_manager`]). What is said between them is in
//! [`wire`], a type for each direction; `docs/protocol.md` is the page to write another end from. A session
//! that only measures, for a prediction: [`measure`]. Over several hosts, one after another: [`chain`]; from
//! a file that another program still writes: [`growth`].
//!
//! Below stand [`wire`], [`secure`] and [`lane`]; on them the ends ([`sender`], [`receiver`], [`meter`],
//! [`relay`]), which say what they have for each other through [`control`] and tell whoever runs them
//! by [`events`]; above, [`end`] is whichever of them this process has, and the driver and the peer run
//! it.

pub mod addresses;
pub mod chain;
pub mod ciphers;
pub mod control;
mod counts;
mod descriptors;
pub mod end;
pub mod error;
pub mod events;
pub mod evidence;
mod failed_names;
mod far_sources;
mod feed;
pub mod growth;
pub mod hand_over;
mod handed_in;
pub mod hello;
mod hold;
mod holes;
pub mod idle_timeout;
pub mod lane;
pub mod lane_manager;
pub mod link;
pub mod list;
pub mod measure;
pub mod meter;
pub mod opening;
pub mod overheard;
pub mod peer;
pub mod problems;
pub mod receiver;
pub mod relay;
pub mod roots;
pub mod secret;
pub mod secure;
pub mod sender;
pub mod session;
pub mod speeds;
pub mod ssh;
pub mod subtrees;
mod threads;
mod tuning;
pub mod vouched;
pub mod watch;
pub mod wire;

pub use error::CopyError;
