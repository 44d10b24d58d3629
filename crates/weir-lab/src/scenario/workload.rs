//! What is done over the path: a program that downloads or copies, a pair of plain sockets, or iperf3.

use serde::Deserialize;
use weir_bench::corpus::Kind;
use weir_units::{Bytes, Rate};

use super::text::{Span, Text};

/// Bytes go from far to near in downloads, from near to far in copies.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// `weir get`.
    Get(Download),
    /// `curl`.
    Curl(Download),
    /// `wget`.
    Wget(Download),
    /// Threads of the lab itself with sockets as an application would set them.
    Socket(Socket),
    /// `iperf3 -R`.
    Iperf3(Iperf3),
    /// `weir cp`.
    Cp(Transfer),
    /// `scp`, watched by `weir why`.
    Scp(Transfer),
    /// `gzip -c | ssh gunzip`, watched by `weir why`.
    Gzip(Transfer),
}

/// Files over HTTP, by a program.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Download {
    /// Of each file.
    pub bytes: Text<Bytes>,
    /// How many.
    #[serde(default = "one")]
    pub files: u32,
    /// Over https.
    #[serde(default)]
    pub tls: bool,
    /// A new connection for each file (curl).
    #[serde(default)]
    pub fresh: bool,
    /// Files at once (curl); 1 is one after another.
    #[serde(default = "one")]
    pub at_once: u32,
    /// Further arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// The far end.
    #[serde(default)]
    pub server: ServerConfig,
}

/// How the far end's HTTP server behaves.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct ServerConfig {
    /// For each connection.
    pub rate: Option<Text<Rate>>,
    /// Before the first byte of each answer.
    pub delay: Option<Text<Span>>,
    /// SO_SNDBUF.
    pub send_buffer: Option<Text<Bytes>>,
    /// Answers so many requests at once, and any other with 503 and a page that says so.
    pub refuse_above: Option<u32>,
}

/// A sender and a reader.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Socket {
    /// Of each answer.
    pub bytes: Text<Bytes>,
    /// Questions, one after another.
    #[serde(default = "one")]
    pub requests: u32,
    /// Ask all of them on one connection.
    #[serde(default)]
    pub kept: bool,
    /// SO_SNDBUF of the sender; without it the kernel sizes the buffer.
    #[serde(default)]
    pub send_buffer: Setting,
    /// SO_RCVBUF of the reader; without it the kernel sizes the buffer.
    #[serde(default)]
    pub receive_buffer: Setting,
    /// Bytes of one write.
    #[serde(default = "message")]
    pub message: Text<Bytes>,
    /// TCP_NODELAY of the sender: each write leaves at once.
    #[serde(default)]
    pub no_delay: bool,
    /// The sender has so much to send.
    pub send_rate: Option<Text<Rate>>,
    /// The reader reads so much, in pieces of `message`, and sleeps in between.
    pub read_rate: Option<Text<Rate>>,
    /// The sender thinks so long before each answer.
    pub delay: Option<Text<Span>>,
}

/// A socket option that may be left to the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub enum Setting {
    /// Not set: `"kernel"`.
    #[default]
    Kernel,
    /// Set to this many bytes.
    Bytes(u64),
}

impl TryFrom<String> for Setting {
    type Error = String;

    fn try_from(text: String) -> Result<Setting, String> {
        match text.as_str() {
            "kernel" => Ok(Setting::Kernel),
            text => match text.parse::<Bytes>() {
                Ok(Bytes(bytes)) if (1..1 << 30).contains(&bytes) => Ok(Setting::Bytes(bytes)),
                _ => Err(format!(
                    "invalid buffer '{text}': expected kernel, or a size below 1 GiB such as 16KiB"
                )),
            },
        }
    }
}

/// The measuring program.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Iperf3 {
    /// To be sent.
    pub bytes: Text<Bytes>,
    /// Connections.
    #[serde(default = "one")]
    pub streams: u32,
    /// Further arguments of the client.
    #[serde(default)]
    pub args: Vec<String>,
}

/// A file copied to a host with a real sshd.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Transfer {
    /// Of the file.
    pub bytes: Text<Bytes>,
    /// What it holds.
    #[serde(default)]
    pub data: Data,
    /// Further arguments.
    #[serde(default)]
    pub args: Vec<String>,
}

/// What a file holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Data {
    /// As prose and logs.
    #[default]
    Text,
    /// As programs' records.
    Binary,
    /// Nothing that shrinks.
    Random,
}

impl Data {
    /// As the measurements name it.
    pub(crate) fn kind(self) -> Kind {
        match self {
            Data::Text => Kind::Text,
            Data::Binary => Kind::Binary,
            Data::Random => Kind::Random,
        }
    }
}

fn one() -> u32 {
    1
}

fn message() -> Text<Bytes> {
    Text(Bytes(64 << 10))
}

impl Workload {
    /// Payload in all.
    pub fn bytes(&self) -> u64 {
        match self {
            Workload::Get(download) | Workload::Curl(download) | Workload::Wget(download) => {
                download.bytes.0.0 * u64::from(download.files)
            }
            Workload::Socket(socket) => socket.bytes.0.0 * u64::from(socket.requests),
            Workload::Iperf3(iperf3) => iperf3.bytes.0.0,
            Workload::Cp(copy) | Workload::Scp(copy) | Workload::Gzip(copy) => copy.bytes.0.0,
        }
    }

    /// Whether the bytes go from near to far.
    pub fn goes_up(&self) -> bool {
        matches!(self, Workload::Cp(_) | Workload::Scp(_) | Workload::Gzip(_))
    }

    /// Files, or answers.
    pub fn objects(&self) -> u64 {
        match self {
            Workload::Get(download) | Workload::Curl(download) | Workload::Wget(download) => {
                u64::from(download.files)
            }
            Workload::Socket(socket) => u64::from(socket.requests),
            Workload::Iperf3(_) | Workload::Cp(_) | Workload::Scp(_) | Workload::Gzip(_) => 1,
        }
    }

    /// The program, for people.
    pub fn program(&self) -> &'static str {
        match self {
            Workload::Get(_) => "weir get",
            Workload::Curl(_) => "curl",
            Workload::Wget(_) => "wget",
            Workload::Socket(_) => "plain sockets",
            Workload::Iperf3(_) => "iperf3",
            Workload::Cp(_) => "weir cp",
            Workload::Scp(_) => "scp",
            Workload::Gzip(_) => "gzip | ssh gunzip",
        }
    }

    /// Refuses what cannot be done: the field and why not.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        // A terabyte is more than any run of the lab can wait for, and keeps sums within their types.
        let most = 1 << 40;
        let counted = match self {
            Workload::Get(download) | Workload::Curl(download) | Workload::Wget(download) => [
                (download.bytes.0.0, "bytes"),
                (u64::from(download.files), "files"),
                (u64::from(download.at_once), "at-once"),
            ],
            Workload::Socket(socket) => [
                (socket.bytes.0.0, "bytes"),
                (u64::from(socket.requests), "requests"),
                (socket.message.0.0, "message"),
            ],
            Workload::Iperf3(iperf3) => {
                [(iperf3.bytes.0.0, "bytes"), (u64::from(iperf3.streams), "streams"), (1, "")]
            }
            Workload::Cp(copy) | Workload::Scp(copy) | Workload::Gzip(copy) => {
                [(copy.bytes.0.0, "bytes"), (1, ""), (1, "")]
            }
        };
        for (count, field) in counted {
            if count == 0 {
                return Err((field, "must be at least 1".to_owned()));
            }
            if count > most || self.bytes() > most {
                return Err((field, "more than a terabyte in all".to_owned()));
            }
        }
        Ok(())
    }
}
