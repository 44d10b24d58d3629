//! Who `weir get` is to servers, and through which proxies it comes.

use std::path::PathBuf;

use clap::Args;

use super::headings::REQUESTS;

/// Logins, cookies, certificates; hosts that need no proxy.
#[derive(Debug, Args)]
#[command(next_help_heading = REQUESTS)]
pub struct Login {
    /// Log in with Digest only (RFC 7616), which never sends the password [default: Basic, or Digest if
    /// asked].
    #[arg(long, conflicts_with_all = ["basic", "anyauth"])]
    pub digest: bool,
    /// Log in with Basic only.
    #[arg(long, conflicts_with = "anyauth", hide_short_help = true)]
    pub basic: bool,
    /// Send no login until the server asks, then use the scheme it offers.
    #[arg(long, hide_short_help = true)]
    pub anyauth: bool,
    /// Also send -u, -H and --cookie to hosts that a redirect names, but never from https to http.
    #[arg(long, hide_short_help = true)]
    pub location_trusted: bool,
    /// Read logins from FILE instead of $NETRC or ~/.netrc.
    #[arg(long, value_name = "FILE", conflicts_with = "no_netrc")]
    pub netrc_file: Option<PathBuf>,
    /// Read no netrc file.
    #[arg(long)]
    pub no_netrc: bool,

    /// Send cookies: NAME=VALUE to the URL's host, or those in FILE (cookies.txt) to their hosts.
    #[arg(short = 'b', long = "cookie", value_name = "NAME=VALUE|FILE", value_parser = super::habits::parse_cookie)]
    pub cookies: Vec<String>,
    /// Send the cookies in FILE (Netscape's cookies.txt) to their hosts; '-' reads stdin.
    #[arg(long, value_name = "FILE")]
    pub load_cookies: Vec<PathBuf>,
    /// Write all cookies to FILE at the end, readable only by you.
    #[arg(long, value_name = "FILE", alias = "cookie-jar")]
    pub save_cookies: Option<PathBuf>,

    /// The client certificate.
    #[command(flatten)]
    pub certificate: Certificate,

    /// Use no proxy for these hosts, in place of $no_proxy: names and their subdomains, addresses, blocks
    /// (10.0.0.0/8), optionally with :PORT; '*' for all.
    #[arg(long, value_name = "LIST")]
    pub noproxy: Option<String>,
}

/// Who we are to a server that asks for a certificate.
#[derive(Debug, Args)]
#[command(next_help_heading = REQUESTS)]
pub struct Certificate {
    /// Present this client certificate: PEM with its chain, DER, or PKCS#12 (.p12, .pfx).
    #[arg(long, value_name = "FILE[:PASSWORD]", alias = "certificate")]
    pub cert: Option<String>,
    /// Use this private key (PEM or DER) if the certificate's file does not hold it.
    #[arg(long, value_name = "FILE", alias = "private-key")]
    pub key: Option<PathBuf>,
    /// Read the password of the key or PKCS#12 file from FILE's first line [default: weir asks].
    #[arg(long, value_name = "FILE")]
    pub pass_file: Option<PathBuf>,
}
