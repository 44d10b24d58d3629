//! `--metrics`: a fleet's figures for Prometheus.

use std::io::ErrorKind::{AddrInUse, AddrNotAvailable, PermissionDenied};
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use weir_report::fleet::FleetView;
use weir_report::fleet::metrics::{MEDIA_TYPE, exposition};
use weir_serve::{Config, Content, Handle, LiveText, ServeError, Server};

use crate::voice;

/// Connections at once: a scraper takes one, and its twin another. Beyond it the longest idle one gives way.
const CONNECTIONS: usize = 32;

/// What was seen last; `None`: the ledger does not answer.
pub type Latest = Arc<Mutex<Option<FleetView>>>;

/// Answers `/metrics` until the handle is dropped.
pub fn serve(address: SocketAddr, latest: &Latest) -> anyhow::Result<Handle> {
    let latest = Arc::clone(latest);
    let make = Arc::new(move || {
        let view = latest.lock().clone();
        exposition(view.as_ref())
    });
    let text = LiveText { name: "metrics".to_owned(), media_type: MEDIA_TYPE, make };
    let config = Config {
        max_connections: Some(CONNECTIONS),
        ..Config::new(Content::Live(vec![text])).listen(address)
    };
    Server::bind(config).and_then(Server::spawn).map_err(with_way_out)
}

/// What may help, behind what went wrong.
fn with_way_out(error: ServeError) -> anyhow::Error {
    let way_out = match &error {
        ServeError::Listen { source, .. } => match source.kind() {
            AddrInUse => "choose another port, or :0 for any that is free",
            AddrNotAvailable => "name an address of this host",
            PermissionDenied => "ports below 1024 need root",
            _ => return error.into(),
        },
        _ => return error.into(),
    };
    anyhow::anyhow!("{}; {way_out}", voice::words(&error.into()))
}
