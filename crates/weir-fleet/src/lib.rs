//! A transfer by many hosts: what there is to move, who moves which part of it, and what became of it.
//!
//! A *manifest* names the objects. It is cut into *batches*, and the [`ledger`] hands each batch to one
//! worker at a time: by a *lease*, which ends by the ledger's own clock, and a *fence*, a number that rises
//! with every lease of a batch. Who comes back with an older fence changes nothing. The ledger is a file
//! (SQLite) or a database (PostgreSQL); both hold the same tables and are asked in the same words.
//!
//! The ledger does not move bytes and trusts no worker to be alive: what it says is done was reported under
//! the lease that it gave. That an object is at its target once is made there, by a rename or a conditional
//! PUT of a verified part, and the row in the ledger comes after that.
#![forbid(unsafe_code)]

pub mod class;
pub mod error;
pub mod history;
pub mod launch;
pub mod ledger;
pub mod object;
pub mod pace;
pub mod plan;
mod reading;
pub mod shell;
pub mod verdict;
pub mod worker;

pub use error::FleetError;
