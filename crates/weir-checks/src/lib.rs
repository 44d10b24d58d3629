//! What must hold for any foreign bytes: one check for each parser that meets them, as a plain function.
//!
//! A check calls the parser as the program does and asserts what holds whatever the bytes are: bounds, the
//! same result however a body is cut, what was understood is written as something that is understood. It says
//! whether it understood them, so that a corpus of which nothing is understood any more is noticed.
//!
//! Two things call them: the fuzz targets of the same names (`fuzz/`, for hours, by chance), and
//! `tests/corpora.rs`, with every build: the inputs below `corpus/`, those of [`seeds`], and some thousand
//! changes of each that are the same in every run. What a fuzzer finds is kept as `corpus/NAME/found-WHAT`.
#![forbid(unsafe_code)]

use std::borrow::Cow;

pub mod capture;
pub mod challenge;
pub mod chunked;
pub mod codec;
pub mod content_coding;
pub mod content_disposition;
pub mod content_range;
pub mod cookies;
pub mod cp_batch;
pub mod cp_frame;
pub mod cp_greeting;
pub mod cp_lane;
pub mod cp_part_log;
pub mod cp_patch;
pub mod cp_record;
pub mod cp_sample;
pub mod cp_subtrees;
pub mod delta_recipe;
pub mod delta_signature;
pub mod digest_field;
pub mod entry;
pub mod fleet_frame;
pub mod fleet_rows;
pub mod hub_words;
pub mod index_page;
pub mod journal;
pub mod load_answer;
pub mod load_request;
pub mod net_words;
pub mod netrc;
pub mod probe_words;
pub mod put_journal;
pub mod records;
pub mod release_manifest;
pub mod response_head;
pub mod seeds;
pub mod serve_conditions;
pub mod serve_request;
pub mod server_words;
pub mod sock_diag;
pub mod store_answer;
pub mod store_ini;

/// A check: panics where what must hold does not, and says whether the input was understood.
pub type Check = fn(&[u8]) -> bool;

/// All of them, by the names of their files, fuzz targets and corpora.
pub const ALL: &[(&str, Check)] = &[
    ("capture", capture::check),
    ("challenge", challenge::check),
    ("chunked", chunked::check),
    ("codec", codec::check),
    ("content_coding", content_coding::check),
    ("content_disposition", content_disposition::check),
    ("content_range", content_range::check),
    ("cookies", cookies::check),
    ("cp_batch", cp_batch::check),
    ("cp_frame", cp_frame::check),
    ("cp_greeting", cp_greeting::check),
    ("cp_lane", cp_lane::check),
    ("cp_part_log", cp_part_log::check),
    ("cp_patch", cp_patch::check),
    ("cp_record", cp_record::check),
    ("cp_sample", cp_sample::check),
    ("cp_subtrees", cp_subtrees::check),
    ("delta_recipe", delta_recipe::check),
    ("delta_signature", delta_signature::check),
    ("digest_field", digest_field::check),
    ("entry", entry::check),
    ("fleet_frame", fleet_frame::check),
    ("fleet_rows", fleet_rows::check),
    ("hub_words", hub_words::check),
    ("index_page", index_page::check),
    ("journal", journal::check),
    ("load_answer", load_answer::check),
    ("load_request", load_request::check),
    ("net_words", net_words::check),
    ("netrc", netrc::check),
    ("probe_words", probe_words::check),
    ("put_journal", put_journal::check),
    ("records", records::check),
    ("release_manifest", release_manifest::check),
    ("response_head", response_head::check),
    ("serve_conditions", serve_conditions::check),
    ("serve_request", serve_request::check),
    ("server_words", server_words::check),
    ("sock_diag", sock_diag::check),
    ("store_answer", store_answer::check),
    ("store_ini", store_ini::check),
];

/// An input of several parts, front to back. What is not there is zero or empty.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    fn number<const BYTES: usize>(&mut self) -> [u8; BYTES] {
        let mut number = [0; BYTES];
        let (front, rest) = self.0.split_at(BYTES.min(self.0.len()));
        number[..front.len()].copy_from_slice(front);
        self.0 = rest;
        number
    }

    /// One byte.
    pub fn byte(&mut self) -> u8 {
        self.number::<1>()[0]
    }

    /// Two bytes, the lowest first, as all numbers here.
    pub fn half(&mut self) -> u16 {
        u16::from_le_bytes(self.number())
    }

    /// Four bytes.
    pub fn word(&mut self) -> u32 {
        u32::from_le_bytes(self.number())
    }

    /// Eight bytes.
    pub fn long(&mut self) -> u64 {
        u64::from_le_bytes(self.number())
    }

    /// A text up to the byte 0xff, which UTF-8 does not have, or to the end.
    pub fn text(&mut self) -> Cow<'a, str> {
        let end = self.0.iter().position(|byte| *byte == 0xff);
        let (text, rest) = match end {
            Some(end) => (&self.0[..end], &self.0[end + 1..]),
            None => (self.0, &[][..]),
        };
        self.0 = rest;
        String::from_utf8_lossy(text)
    }

    /// All that is left.
    pub fn rest(self) -> &'a [u8] {
        self.0
    }
}
