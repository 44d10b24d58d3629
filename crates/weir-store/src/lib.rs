//! Object stores and hubs: where their objects are, who asks for them, what they hold, how they are filled.
//!
//! A large GET is a request on the lanes of `weir-get`; here is what speaks for it ([`s3`]) and what leads to
//! it ([`address`]). All other requests go through a [`caller`], over the same sockets.

#![forbid(unsafe_code)]

pub mod address;
pub mod caller;
pub mod credentials;
pub mod error;
pub mod hub;
pub mod key;
pub mod s3;
pub mod settings;
pub mod store;
pub mod words;

pub use error::StoreError;
