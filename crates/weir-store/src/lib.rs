//! Object stores and hubs: where their objects are, who asks for them, what they hold, how they are filled.
//!
//! A large GET is a request on the lanes of `weir-get`; here is what speaks for it ([`s3`]) and what leads to
//! it ([`address`]). All other requests go through a [`caller`], over the same sockets.

#![forbid(unsafe_code)]

pub mod address;
pub mod azure;
pub mod buckets;
pub mod caller;
pub mod condition;
pub mod cost;
pub mod credentials;
pub mod environment;
pub mod error;
pub mod gcs;
pub mod glob;
pub mod hub;
pub mod key;
pub mod links;
pub mod listing;
pub mod measure;
#[cfg(test)]
pub mod mock;
pub mod network;
mod refusal;
pub mod s3;
pub mod settings;
pub mod store;
#[cfg(test)]
mod testing;
pub mod tree;
pub mod upload;
pub mod words;
pub mod xml;

pub use error::StoreError;
