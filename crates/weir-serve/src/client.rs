//! What belongs to one connection that a task serves?

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::activity::Activity;
use crate::allowance::Allowance;
use crate::pacer::SharedPacer;
use crate::site::Site;

/// Who is served, and what its connection has of the server; clones are of the same connection.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) site: Arc<Site>,
    pub(crate) address: SocketAddr,
    pub(crate) activity: Arc<Activity>,
    pub(crate) allowance: Arc<Allowance>,
    pub(crate) pacer: SharedPacer,
}

impl Client {
    pub(crate) fn new(site: Arc<Site>, address: SocketAddr, activity: Arc<Activity>) -> Client {
        let pacer = site.pacer().map(|pacer| Arc::new(Mutex::new(pacer)));
        let allowance = Arc::new(Allowance::new(site.pot.clone()));
        Client { site, address, activity, allowance, pacer }
    }

    /// Body bytes are about to leave.
    pub(crate) fn count(&self, bytes: u64) {
        self.activity.offer(bytes);
        self.site.count_sent(bytes);
    }
}
