//! How are files offered over HTTP so that the server is never the slow stage of a transfer?
//!
//! One accept loop takes connections. A plain one gets its own thread, which answers HTTP/1.1 with
//! `sendfile(2)`, so that few of the bytes visit user space; HTTPS and HTTP/2 are tasks on a tokio runtime.
//! Requests are read by `weir-http`, and what is answered is decided for all by one pure function,
//! `answer::decide`. The server can also be made slow on purpose (a rate, a delay, a small send buffer, few
//! connections at once), so that the lab and the demo can show such servers.
//!
//! ```
//! use std::io::{Read, Write};
//! use weir_serve::{Config, Content, Server};
//!
//! let content = Content::Generated(vec![("sample.bin".into(), 1_000_000)]);
//! let server = Server::bind(Config::new(content).listen("127.0.0.1:0".parse()?))?.spawn()?;
//! let mut client = std::net::TcpStream::connect(server.addresses()[0])?;
//! client.write_all(b"GET /sample.bin HTTP/1.0\r\nRange: bytes=0-9\r\n\r\n")?;
//! let mut answer = Vec::new();
//! client.read_to_end(&mut answer)?;
//! assert!(answer.starts_with(b"HTTP/1.1 206 Partial Content\r\n"));
//! server.stop();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A byte's way: `server` accepts → `plain` (or `secure`: `http1`, `http2`) reads a head → `site` resolves
//! the target to an entry of `content` → `answer` decides status, headers and ranges → `source` sends those
//! ranges, paced by `pacer`; what passes through user space does so in pieces (`payload`) that are leased
//! (`allowance`). A connection ends once its client has the last answer (`linger`). All the while
//! `connections` knows what each connection does (`activity`), and ends those that had their time.

mod acknowledged;
mod activity;
mod allowance;
mod answer;
mod certificate;
mod client;
mod config;
mod connections;
mod content;
mod error;
mod exchange;
mod http1;
mod http2;
mod limits;
mod linger;
mod listings;
mod pacer;
mod payload;
mod plain;
mod secure;
mod server;
mod shutdown;
mod signal;
mod site;
mod source;
mod stream;
mod tasks;

pub use config::{Config, Content, LiveText, TlsSource};
pub use content::generated::{PATTERN_PERIOD, fill_pattern};
pub use error::ServeError;
pub use server::{Handle, Server};
pub use shutdown::Shutdown;
pub use site::Stats;
