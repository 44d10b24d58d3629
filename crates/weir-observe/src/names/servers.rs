//! Name servers that the user names, asked in place of this host's resolver. They know DNS alone: of what
//! nsswitch.conf(5) names, only the hosts file is looked at before them.
//!
//! Blocks, like getaddrinfo(3), so that one thread and one budget fit both.

use std::net::SocketAddr;
use std::time::Instant;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts, ServerOrderingStrategy,
};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;

use super::{Found, NameError};

/// What its futures need on their way down, unoptimised ones too.
pub(super) const STACK: usize = 2 << 20;

/// Asks `servers` for the addresses of `host`.
pub(super) fn ask(host: &str, servers: &[SocketAddr]) -> Found {
    let began = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| NameError::Passing(weir_units::plain(&error)))?;
    let found = runtime.block_on(async {
        let (config, provider) = (config(servers), TokioRuntimeProvider::default());
        let resolver =
            TokioResolver::builder_with_config(config, provider).with_options(options()).build()?;
        resolver.lookup_ip(host).await
    });
    // A question that is still on its way is not waited for.
    runtime.shutdown_background();
    let named: Vec<String> = servers.iter().map(SocketAddr::to_string).collect();
    let named = named.join(", ");
    match found {
        Ok(found) => Ok(found.iter().map(|address| SocketAddr::new(address, 0)).collect()),
        Err(NetError::Timeout) => Err(NameError::Silent(began.elapsed())),
        Err(error) if error.is_nx_domain() => Err(NameError::Missing(format!("{named} knows no such name"))),
        Err(error) if error.is_no_records_found() => {
            Err(NameError::Missing(format!("{named} knows no address of it")))
        }
        Err(error) => Err(NameError::Passing(format!("{named}: {error}"))),
    }
}

fn config(servers: &[SocketAddr]) -> ResolverConfig {
    let server = |address: &SocketAddr| {
        let at = |mut connection: ConnectionConfig| {
            connection.port = address.port();
            connection
        };
        let ways = vec![at(ConnectionConfig::udp()), at(ConnectionConfig::tcp())];
        NameServerConfig::new(address.ip(), true, ways)
    };
    ResolverConfig::from_parts(None, Vec::new(), servers.iter().map(server).collect())
}

/// As resolv.conf(5) has it by default: five seconds, twice.
fn options() -> ResolverOpts {
    let mut options = ResolverOpts::default();
    options.use_hosts_file = ResolveHosts::Always;
    options.server_ordering_strategy = ServerOrderingStrategy::UserProvidedOrder;
    options.try_tcp_on_error = true;
    options
}
