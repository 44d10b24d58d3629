//! Which parts of a file another version of it already holds.
//!
//! Both sides cut their version into chunks where the content says so ([`chunks`]), so that an insertion moves the cuts
//! with the bytes. The side with the old version sends its [`Signature`]: lengths and digests of its chunks. The side with
//! the new version answers with a [`Recipe`]: what to copy from the old version, and which bytes are to come.
//!
//! What it costs. A change of E bytes somewhere makes literal the chunks that it touches: E and about half a chunk on
//! either side, together one chunk as met at a random byte. With N changes in a file of S bytes, chunks of L bytes and 18
//! bytes of signature a chunk the cost beyond the changes themselves is N x L + 18 x S / L, least at L = sqrt(18 x S / N):
//! 4.2 KB for a thousand changes in 1 GB. [`SMALLEST`] is therefore 4 KiB: 1000 changes of 10 KB in 1 GB cost 1.0 % for
//! themselves, 0.5 % around them and 0.4 % of signature; a file with few changes costs the signature alone.

mod chunks;
mod recipe;
mod signature;

pub use recipe::{Op, Recipe, missing};
pub use signature::{MAX_CHUNKS, SMALLEST, Signature};
