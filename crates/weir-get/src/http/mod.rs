//! HTTP as a downloader needs it: connections that lanes block on, one answer at a time.
//!
//! HTTP/1.1 is ours, because its bytes are the byte path; HTTP/2 is the `h2` crate behind the same [`Exchange`].

pub mod address;
pub mod authority;
pub mod call;
mod carried;
pub mod connection;
pub mod credentials;
pub mod decoded;
mod dialling;
pub mod exchange;
pub mod h2_session;
pub mod identity;
pub mod jar;
pub mod ladder;
pub mod logins;
pub mod offer;
pub mod parts;
pub mod proxy;
pub mod reach;
pub mod request;
pub mod said;
pub mod sockets;
mod socks;
pub mod speed;
pub mod tls;
mod tls_words;
pub mod trust;
pub mod waiting;
pub mod window;

pub use connection::Connection;
pub use exchange::Exchange;
