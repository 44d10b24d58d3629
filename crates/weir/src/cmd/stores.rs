//! The object stores of a run: one registry of buckets, from the flags and the environment.

use std::sync::Arc;

use url::Url;
use weir_get::object;
use weir_store::address::StoreUrl;
use weir_store::buckets::Buckets;
use weir_store::network::Network;
use weir_store::settings::StoreFlags;

use crate::args::StoreArgs;
use crate::cmd::asked_store;
use crate::voice::Usage;

/// No bucket yet; over `network` whoever gives credentials is asked.
pub fn buckets(args: &StoreArgs, network: Network) -> anyhow::Result<Arc<Buckets>> {
    let flags = StoreFlags { network, ..args.flags()? };
    Ok(Arc::new(Buckets::new(flags, Box::new(asked_store::own_variable))))
}

/// The address of the object that `text` names; `None` where it names none of a store.
pub fn object_address(text: &str, buckets: &Buckets) -> Option<Result<Url, Usage>> {
    let parsed = StoreUrl::parse(text)?;
    Some(parsed.map_err(|error| Usage(error.to_string())).and_then(|url| {
        if url.is_prefix() {
            let url = weir_report::escape::escape(text);
            return Err(Usage(format!("cannot fetch '{url}': it names no object; put its key behind it")));
        }
        buckets.object(&url).map_err(|error| Usage(error.to_string()))
    }))
}

/// `url` as its user named it, without what is secret.
pub fn shown(url: &Url, buckets: &Buckets) -> String {
    buckets.named(url).map_or_else(|| object::shown(url), |named| named.to_string())
}
