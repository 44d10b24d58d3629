//! Flags of `weir get` and `weir bench http` that say how a host is reached: `--resolve`, `--connect-to`,
//! `--interface`, `-4`,
//! `--unix-socket`.

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::Args;
use weir_get::http::reach::{Family, Given, Instead, Interface, Reach, UnixPlace};

use super::headings::REQUESTS;

/// See the module.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = REQUESTS)]
pub struct ReachFlags {
    /// Use these addresses for HOST and PORT instead of a name server; HOST '*' is every host, -HOST:PORT
    /// removes an entry.
    #[arg(long, value_name = "HOST:PORT:ADDRESS,...", allow_hyphen_values = true, value_parser = parse_given)]
    pub resolve: Vec<Given>,
    /// Connect to HOST2:PORT2 instead of HOST1:PORT1, under the same name; an empty part matches any, or
    /// stays.
    #[arg(long, value_name = "HOST1:PORT1:HOST2:PORT2", value_parser = parse_instead)]
    pub connect_to: Vec<Instead>,
    /// Connect from this network interface or local address.
    #[arg(long, alias = "bind-address", value_name = "NAME|ADDRESS", value_parser = parse_interface)]
    pub interface: Option<Interface>,
    /// Use IPv4 addresses only.
    #[arg(short = '4', long, alias = "inet4-only", conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// Use IPv6 addresses only.
    #[arg(short = '6', long, alias = "inet6-only")]
    pub ipv6: bool,
    /// Ask these name servers instead of this host's.
    #[arg(long, alias = "async-dns-server", value_name = "ADDRESS[:PORT],...", value_delimiter = ',', value_parser = parse_server)]
    pub dns_servers: Vec<SocketAddr>,
    /// Connect to this Unix socket instead of the network.
    #[arg(long, value_name = "PATH", conflicts_with = "proxy")]
    pub unix_socket: Option<PathBuf>,
    /// Connect to this abstract Unix socket instead of the network.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["proxy", "unix_socket"], hide_short_help = true)]
    pub abstract_unix_socket: Option<OsString>,
}

impl ReachFlags {
    /// What they say.
    pub fn reach(&self) -> Reach {
        let family = match (self.ipv4, self.ipv6) {
            (true, _) => Some(Family::V4),
            (_, true) => Some(Family::V6),
            _ => None,
        };
        let path = self.unix_socket.as_deref().map(UnixPlace::path);
        Reach {
            given: self.resolve.clone(),
            instead: self.connect_to.clone(),
            interface: self.interface.clone(),
            family,
            servers: self.dns_servers.clone(),
            unix: path.or(self.abstract_unix_socket.as_deref().map(UnixPlace::abstract_name)),
            ..Reach::default()
        }
    }
}

fn parse_given(text: &str) -> Result<Given, String> {
    text.parse()
}

fn parse_instead(text: &str) -> Result<Instead, String> {
    text.parse()
}

/// `192.0.2.1`, `192.0.2.1:5353`, `2001:db8::1`, `[2001:db8::1]:5353`.
fn parse_server(text: &str) -> Result<SocketAddr, String> {
    /// RFC 1035 section 4.2.
    const DNS: u16 = 53;
    let bare = text.parse::<IpAddr>().ok().map(|address| SocketAddr::new(address, DNS));
    bare.or_else(|| text.parse().ok()).ok_or_else(|| {
        "expected addresses of name servers, such as 192.0.2.1 or [2001:db8::1]:5353; of a name, another server would \
         have to be asked"
            .to_owned()
    })
}

fn parse_interface(text: &str) -> Result<Interface, String> {
    text.parse()
}
