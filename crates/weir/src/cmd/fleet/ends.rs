//! What a plan moves to where, and how an end is listed.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::Context;
use url::Url;
use weir_fleet::ledger::PlanEnds;
use weir_fleet::plan::Listing;
use weir_fleet::plan::index::IndexListing;
use weir_fleet::plan::list::TargetNames;
use weir_fleet::plan::prefix::PrefixListing;
use weir_fleet::plan::tree::TreeListing;
use weir_observe::stage_clock::StageClock;
use weir_store::address::StoreUrl;
use weir_store::caller::Caller;
use weir_store::environment::End;
use weir_store::listing::{self, PagesSetup};

use crate::args::{StoreArgs, StoreEndArgs, StoreNetworkArgs};
use crate::cmd::asked_store::{self, StoreWay};
use crate::cmd::store_ends::{EndWords, Kinship, StoreEnds};
use crate::schemes;
use crate::voice::Usage;

/// One end of a plan.
pub enum PlannedEnd {
    /// All keys that begin so.
    Store(StoreUrl),
    /// A server, whose objects a list names.
    Web(String),
    /// A folder, or a file alone.
    Path(PathBuf),
}

impl PlannedEnd {
    /// What a person names. A path becomes absolute: workers are started elsewhere.
    pub fn of(text: &OsString) -> Result<PlannedEnd, Usage> {
        let shown = || weir_report::escape::escape(&text.to_string_lossy()).into_owned();
        if let Some(url) = text.to_str().and_then(StoreUrl::parse) {
            let url = url.map_err(|bad| Usage(bad.to_string()))?;
            return match url.is_prefix() {
                true => Ok(PlannedEnd::Store(url)),
                false => Err(Usage(format!(
                    "cannot plan '{}': a fleet moves prefixes, which end with a '/'; write {}/ for all below it",
                    shown(),
                    shown()
                ))),
            };
        }
        match text.to_str().filter(|text| schemes::is_link(text)) {
            Some(link) if link.starts_with("http://") || link.starts_with("https://") => {
                let end = if link.ends_with('/') { "" } else { "/" };
                Ok(PlannedEnd::Web(format!("{link}{end}")))
            }
            Some(_) => Err(Usage(format!(
                "cannot plan '{}': expected a folder, a store (s3://BUCKET/PREFIX/), or a URL with --list",
                shown()
            ))),
            None if text.to_str().is_none() => Err(Usage(format!(
                "cannot plan '{}': its name is no UTF-8, which a ledger keeps; name it by a link",
                shown()
            ))),
            None => {
                let path = std::path::absolute(text)
                    .map_err(|error| Usage(format!("cannot plan '{}': {error}", shown())))?;
                // What the slash at the end says is kept.
                let is_content =
                    text.as_bytes().ends_with(b"/") && !path.as_os_str().as_bytes().ends_with(b"/");
                Ok(PlannedEnd::Path(if is_content { path.join("") } else { path }))
            }
        }
    }

    /// As the ledger keeps it.
    pub fn shown(&self) -> String {
        match self {
            PlannedEnd::Store(url) => url.to_string(),
            PlannedEnd::Web(url) => url.clone(),
            PlannedEnd::Path(path) => path.display().to_string(),
        }
    }

    /// `/dev/null`: as a target it keeps nothing, and objects are counted alone.
    pub fn keeps_nothing(&self) -> bool {
        matches!(self, PlannedEnd::Path(path) if path.as_os_str() == PlanEnds::NOWHERE)
    }

    /// The prefix of a store that it is, if it is one.
    pub fn store(&self) -> Option<&StoreUrl> {
        match self {
            PlannedEnd::Store(url) => Some(url),
            PlannedEnd::Web(_) | PlannedEnd::Path(_) => None,
        }
    }

    /// What it takes as names.
    pub fn names(&self) -> TargetNames {
        match self {
            PlannedEnd::Store(url) => TargetNames::Keys(url.key.len()),
            PlannedEnd::Web(_) | PlannedEnd::Path(_) => TargetNames::Paths,
        }
    }
}

/// The two ends of a plan.
pub struct Planned {
    /// From where.
    pub source: PlannedEnd,
    /// To where.
    pub target: PlannedEnd,
}

impl Planned {
    /// Those that a ledger keeps.
    pub fn of(ends: &PlanEnds) -> Result<Planned, Usage> {
        let of = |text: &String| PlannedEnd::of(&OsString::from(text));
        Ok(Planned { source: of(&ends.source)?, target: of(&ends.target)? })
    }

    /// The target, wherever links lead, is the source or lies below it: a listing would find what is moved.
    pub fn lies_in_itself(&self) -> bool {
        let (PlannedEnd::Path(source), PlannedEnd::Path(target)) = (&self.source, &self.target) else {
            return false;
        };
        let there = target.ancestors().find_map(|path| path.canonicalize().ok());
        let both = source.canonicalize().ok().zip(there);
        !self.target.keeps_nothing() && both.is_some_and(|(source, there)| there.starts_with(source))
    }

    /// As a ledger keeps them.
    pub fn ends(&self) -> PlanEnds {
        PlanEnds { source: self.source.shown(), target: self.target.shown() }
    }
}

/// How stores are asked.
pub struct Asking<'a> {
    /// The flags.
    pub store: &'a StoreArgs,
    /// What is said of one of two.
    pub ends: &'a StoreEndArgs,
    /// The way to them.
    pub network: &'a StoreNetworkArgs,
    /// Set by a signal.
    pub stop: &'a Arc<AtomicBool>,
}

impl Asking<'_> {
    /// Nothing is said of an end that is no store.
    pub fn fits(&self, planned: &Planned) -> Result<(), Usage> {
        for (end, at) in [(End::Source, &planned.source), (End::Target, &planned.target)] {
            if at.store().is_none() {
                self.ends.refuse_of(end)?;
            }
        }
        Ok(())
    }

    /// Both ends are one service, which copies by itself, as a worker that is told the same will find.
    pub fn copies_itself(&self, planned: &Planned) -> bool {
        let (Some(from), Some(to)) = (planned.source.store(), planned.target.store()) else { return false };
        let words = EndWords { both: self.store, ends: self.ends, network: self.network };
        match StoreEnds::open(words, Some(from), Some(to), self.stop) {
            Ok(StoreEnds::Both { kinship, .. }) => kinship == Kinship::One,
            // What this host lacks its workers may have: by their names they are one, or two.
            _ => from.is_of_service(to),
        }
    }
}

/// Hands the listing of an end, which is that `side` of the plan, to `use_it`. `names` are what the other end
/// takes.
pub fn listed<T>(
    (end, side): (&PlannedEnd, End),
    names: TargetNames,
    asking: &Asking<'_>,
    use_it: impl FnOnce(&mut dyn Listing) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    match end {
        PlannedEnd::Web(url) => {
            let root = Url::parse(url).map_err(|error| Usage(format!("cannot list {url}: {error}")))?;
            if root.query().is_some() || root.fragment().is_some() {
                let why = "a list of files is a folder's, without a query; name its files by --list FILE";
                return Err(Usage(format!("cannot list {url}: {why}")).into());
            }
            let way = StoreWay::of(asking.network, asking.stop)?;
            let http = way.http(&[]);
            let clock = StageClock::new(Instant::now());
            let caller = Caller::new(asked_store::caller(&http, &clock, asking.stop));
            use_it(&mut IndexListing::new(caller, root, names)?)
        }
        PlannedEnd::Path(_) if end.keeps_nothing() => {
            let why = "it keeps nothing; as a target it takes objects that are to be counted alone";
            Err(Usage(format!("cannot list {}: {why}", PlanEnds::NOWHERE)).into())
        }
        PlannedEnd::Path(path) => {
            path.metadata().with_context(|| format!("cannot read {}", path.display()))?;
            use_it(&mut TreeListing::new(path)?)
        }
        PlannedEnd::Store(url) => {
            let way = StoreWay::of_end((asking.ends, side), asking.network, asking.stop)?;
            let store = way.open_by(asking.ends.flags(side, asking.store)?, url)?;
            let http = way.http(&[&store]);
            let clock = StageClock::new(Instant::now());
            let caller = asked_store::caller(&http, &clock, asking.stop);
            let setup = PagesSetup {
                lists: store.lists(),
                prefix: url.key.clone(),
                delimiter: None,
                versions: false,
                shown: url.with_key("").to_string().trim_end_matches('/').to_owned(),
            };
            std::thread::scope(|scope| {
                let pages = listing::ahead(scope, setup, caller)?;
                use_it(&mut PrefixListing::new(pages, url, names))
            })
        }
    }
}
