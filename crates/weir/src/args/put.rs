//! `weir put`: its options, beside those of [`super::login`], [`super::reach`] and [`super::store`].

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use weir_codec::Algorithm;
use weir_store::upload::job::Check;
use weir_units::Bytes;

use super::get::parse_wait;
use super::headings::{ATTRIBUTES, FAILURES, OUTPUT, REQUESTS, SPEED, VERIFICATION};
use super::values::{RateLimit, parse_rate_limit};
use super::{Login, ReachFlags, StoreArgs, Voice, parse_lanes, parse_seconds};

const PUT_EXAMPLES: &str = "\
Examples:
  weir put disk.img s3://bucket/images/            one file, in parts over several connections
  weir put photos/ s3://bucket/2026/               a folder's files below a prefix
  tar c . | weir put - s3://bucket/home.tar        a stream of unknown length
  weir put --if-absent lock s3://bucket/lock       only if nothing is there
  weir put build.zip https://host/upload/          plain PUT (WebDAV, artefact stores)
The same command resumes an interrupted upload; --abort removes what it left at the store.";

/// `weir put`.
#[derive(Debug, Args)]
#[command(after_help = PUT_EXAMPLES)]
pub struct Put {
    /// The files, the folders (DIR/ means what is in it), or '-' for stdin.
    #[arg(value_name = "FILE|DIR|-", required = true)]
    pub sources: Vec<String>,
    /// Where to: an object, or with a '/' at its end a prefix, of s3://BUCKET, gs://BUCKET, az://CONTAINER,
    /// or of an http or https URL.
    #[arg(value_name = "TARGET", required = true)]
    pub target: String,

    /// Send only if nothing is there (If-None-Match).
    #[arg(long, conflicts_with = "if_match")]
    pub if_absent: bool,
    /// Send only if the object there has this ETag (of gs:// the generation).
    #[arg(long, value_name = "ETAG")]
    pub if_match: Option<String>,
    /// Remove unfinished uploads of the target's objects, and send nothing.
    #[arg(long)]
    pub abort: bool,
    /// Start again, whatever an earlier run left at the store.
    #[arg(long)]
    pub force: bool,
    /// Print what would be sent, and send nothing.
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Send the targets of symbolic links; without it links are left out.
    #[arg(short = 'L', long)]
    pub copy_links: bool,

    /// Store this Content-Type [default: by the ending of the name].
    #[arg(long, value_name = "TYPE", value_parser = parse_value, help_heading = ATTRIBUTES)]
    pub content_type: Option<String>,
    /// Store this Content-Encoding.
    #[arg(long, value_name = "CODING", value_parser = parse_value, help_heading = ATTRIBUTES)]
    pub content_encoding: Option<String>,
    /// Store this Content-Disposition.
    #[arg(long, value_name = "TEXT", value_parser = parse_value, help_heading = ATTRIBUTES)]
    pub content_disposition: Option<String>,
    /// Store this Cache-Control.
    #[arg(long, value_name = "TEXT", value_parser = parse_value, help_heading = ATTRIBUTES)]
    pub cache_control: Option<String>,
    /// Store this with the object; repeat it for more.
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_metadata, help_heading = ATTRIBUTES)]
    pub metadata: Vec<(String, String)>,
    /// Tag the object; repeat it for more.
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_tag, help_heading = ATTRIBUTES)]
    pub tag: Vec<(String, String)>,
    /// Store in this class, by the store's name for it (STANDARD_IA, DEEP_ARCHIVE).
    #[arg(long, value_name = "CLASS", value_parser = parse_value, help_heading = ATTRIBUTES)]
    pub storage_class: Option<String>,
    /// Have the store encrypt it: AES256, aws:kms.
    #[arg(long, value_name = "KIND", value_parser = parse_value, help_heading = ATTRIBUTES)]
    pub sse: Option<String>,
    /// Have it encrypt with this key of its key service.
    #[arg(long, value_name = "ID", value_parser = parse_value, help_heading = ATTRIBUTES)]
    pub sse_kms_key_id: Option<String>,

    /// Use exactly LANES connections for a large file [default: as many as the verdict says help].
    #[arg(short = 'c', long = "lanes", value_name = "LANES", value_parser = parse_lanes, help_heading = SPEED)]
    pub lanes: Option<u32>,
    /// Send N small files at once [default: 16].
    #[arg(short = 'j', long = "jobs", value_name = "N", value_parser = parse_lanes, help_heading = SPEED)]
    pub jobs: Option<u32>,
    /// Limit the total rate to RATE (such as 10M or 100Mbit), 0 for no limit.
    #[arg(long, value_name = "RATE", default_value = "0", hide_default_value = true, value_parser = parse_rate_limit, help_heading = SPEED)]
    pub limit_rate: RateLimit,
    /// Send parts of BYTES [default: 8 MiB to 64 MiB by the file's size].
    #[arg(long, value_name = "BYTES", help_heading = SPEED)]
    pub part_size: Option<Bytes>,
    /// Have the store check what arrives by this digest [default: crc64nvme, or md5 where it refuses that].
    #[arg(long, value_name = "ALG", value_enum, help_heading = VERIFICATION)]
    pub checksum: Option<PartCheck>,
    /// Give up after N attempts in a row for one request.
    #[arg(long, value_name = "N", default_value_t = 10, help_heading = FAILURES)]
    pub retries: u32,
    /// Give up on a connection after SECONDS without a byte, or without an answer.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = parse_seconds, help_heading = FAILURES)]
    pub timeout: Duration,
    /// Give up on connecting after SECONDS [default: --timeout].
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, help_heading = FAILURES)]
    pub connect_timeout: Option<Duration>,
    /// Wait at most SECONDS in a row when a server asks for it (Retry-After).
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = parse_wait, help_heading = FAILURES)]
    pub max_wait: Duration,

    /// Send this header field with each request of a plain PUT, as get does.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE|@FILE", help_heading = REQUESTS)]
    pub headers: Vec<String>,
    /// Log in with this user and password (default: from the URL or ~/.netrc) for a plain PUT.
    #[arg(short = 'u', long, value_name = "USER:PASSWORD", help_heading = REQUESTS)]
    pub user: Option<String>,
    /// Logins, cookies, certificates.
    #[command(flatten)]
    pub login: Login,
    /// Use this proxy (http, https, socks5, socks5h, socks4, socks4a); an empty value means no proxy.
    #[arg(long, value_name = "URL", help_heading = REQUESTS)]
    pub proxy: Option<String>,
    /// How a host is reached.
    #[command(flatten)]
    pub reach: ReachFlags,
    /// Trust only the authorities in this PEM file.
    #[arg(long, value_name = "FILE", help_heading = REQUESTS)]
    pub cacert: Option<PathBuf>,
    /// Accept any certificate.
    #[arg(short = 'k', long, help_heading = REQUESTS)]
    pub insecure: bool,

    /// Write the evidence of the verdict, interval by interval, to FILE, for a bug report.
    #[arg(long, value_name = "FILE", hide_short_help = true, help_heading = OUTPUT)]
    pub evidence: Option<PathBuf>,
    /// Output.
    #[command(flatten)]
    pub voice: Voice,
    /// How object stores are asked.
    #[command(flatten)]
    pub store: StoreArgs,
}

/// `--checksum` of what is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PartCheck {
    /// CRC-64/NVME, which the store checks for the whole object as well.
    Crc64nvme,
    /// CRC-32C.
    Crc32c,
    /// SHA-256.
    Sha256,
    /// SHA-1.
    Sha1,
    /// MD5, which every store knows.
    Md5,
    /// None.
    None,
}

impl Put {
    /// What contents are checked by.
    pub fn check(&self) -> Check {
        match self.checksum {
            None => Check::Preferred,
            Some(PartCheck::Crc64nvme) => Check::Only(Algorithm::CRC64NVME),
            Some(PartCheck::Crc32c) => Check::Only(Algorithm::CRC32C),
            Some(PartCheck::Sha256) => Check::Only(Algorithm::SHA256),
            Some(PartCheck::Sha1) => Check::Only(Algorithm::SHA1),
            Some(PartCheck::Md5) => Check::Only(Algorithm::MD5),
            Some(PartCheck::None) => Check::Nothing,
        }
    }
}

/// What a field can hold, in every store.
fn parse_value(text: &str) -> Result<String, String> {
    let is_field = !text.is_empty() && text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    match is_field && text.trim() == text {
        true => Ok(text.to_owned()),
        false => Err("expected printable ASCII letters, which is what a header field holds".to_owned()),
    }
}

fn parse_pair(text: &str) -> Result<(&str, &str), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    if name.is_empty() { Err("expected a name before '='".to_owned()) } else { Ok((name, value)) }
}

/// `NAME=VALUE`, the name as a part of a field's.
fn parse_metadata(text: &str) -> Result<(String, String), String> {
    let (name, value) = parse_pair(text)?;
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
        return Err(format!(
            "a name has ASCII letters, digits, '-', '_' and '.'; '{}' has others",
            name.escape_debug()
        ));
    }
    let value = if value.is_empty() { String::new() } else { parse_value(value)? };
    Ok((name.to_ascii_lowercase(), value))
}

/// `NAME=VALUE`; what a tag holds is the store's matter.
fn parse_tag(text: &str) -> Result<(String, String), String> {
    let (name, value) = parse_pair(text)?;
    Ok((name.to_owned(), value.to_owned()))
}
