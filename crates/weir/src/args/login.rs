//! Who `weir get` is to servers, and through which proxies it comes.

use std::path::PathBuf;

use clap::Args;

/// Logins, cookies, certificates; hosts that need no proxy.
#[derive(Debug, Args)]
pub struct Login {
    /// Log in by Digest only (RFC 7616), so that the password is never sent; without it weir sends Basic, and
    /// Digest where the server asks for it.
    #[arg(long, conflicts_with_all = ["basic", "anyauth"])]
    pub digest: bool,
    /// Log in by Basic only.
    #[arg(long, conflicts_with = "anyauth", hide_short_help = true)]
    pub basic: bool,
    /// Send no login before the server asks for one, then by the scheme that it offers.
    #[arg(long, hide_short_help = true)]
    pub anyauth: bool,
    /// Send -u, -H and --cookie to other hosts too, wherever a redirect leads.
    #[arg(long, hide_short_help = true)]
    pub location_trusted: bool,
    /// Read logins from FILE instead of $NETRC or ~/.netrc.
    #[arg(long, value_name = "FILE", conflicts_with = "no_netrc")]
    pub netrc_file: Option<PathBuf>,
    /// Read no netrc file.
    #[arg(long)]
    pub no_netrc: bool,

    /// Send cookies: NAME=VALUE to the host of the URL, or those of a FILE (cookies.txt) to their hosts.
    #[arg(short = 'b', long = "cookie", value_name = "NAME=VALUE|FILE", value_parser = super::habits::parse_cookie)]
    pub cookies: Vec<String>,
    /// Send the cookies in FILE (Netscape's cookies.txt) to their hosts; '-' for stdin.
    #[arg(long, value_name = "FILE")]
    pub load_cookies: Vec<PathBuf>,
    /// Write all cookies into FILE at the end, readable for you alone.
    #[arg(long, value_name = "FILE", alias = "cookie-jar")]
    pub save_cookies: Option<PathBuf>,

    /// The client certificate.
    #[command(flatten)]
    pub certificate: Certificate,

    /// Go to these hosts without a proxy, in place of $no_proxy: names with those below them, addresses,
    /// blocks (10.0.0.0/8), each with :PORT if need be; '*' for all.
    #[arg(long, value_name = "LIST")]
    pub noproxy: Option<String>,
}

/// Who we are to a server that asks for a certificate.
#[derive(Debug, Args)]
pub struct Certificate {
    /// Show this client certificate to servers that ask for one: PEM with its chain, or PKCS#12 (.p12, .pfx).
    #[arg(long, value_name = "FILE[:PASSWORD]", alias = "certificate")]
    pub cert: Option<String>,
    /// The certificate's private key, PEM or DER, where it is not in the same file.
    #[arg(long, value_name = "FILE", alias = "private-key")]
    pub key: Option<PathBuf>,
    /// Read the password of the key or of the PKCS#12 file from FILE's first line; else weir asks for it.
    #[arg(long, value_name = "FILE")]
    pub pass_file: Option<PathBuf>,
}
