//! The stores at the ends of a copy, each asked in its own way, and whether the two are one.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use weir_get::http::exchange::Http;
use weir_store::StoreError;
use weir_store::address::StoreUrl;
use weir_store::environment::{End, has_one_asker};
use weir_store::settings::StoreFlags;
use weir_store::store::Store;

use crate::args::{StoreArgs, StoreEndArgs, StoreNetworkArgs};
use crate::cmd::asked_store::{self, StoreWay};
use crate::voice::Usage;

/// How they are asked.
#[derive(Clone, Copy)]
pub struct EndWords<'a> {
    /// Both.
    pub both: &'a StoreArgs,
    /// One of them.
    pub ends: &'a StoreEndArgs,
    /// The way to them.
    pub network: &'a StoreNetworkArgs,
}

/// The ends that are stores.
pub enum StoreEnds {
    /// Where it is from alone.
    Source(Box<StoreEnd>),
    /// Where it goes alone.
    Target(Box<StoreEnd>),
    /// Both.
    Both {
        /// Where it is from.
        source: Box<StoreEnd>,
        /// Where it goes.
        target: Box<StoreEnd>,
        /// What they are to each other.
        kinship: Kinship,
    },
}

/// A bucket at one end.
pub struct StoreEnd {
    /// It.
    pub store: Arc<dyn Store>,
    /// How it is asked.
    pub http: Http,
    flags: StoreFlags,
}

/// What two ends are to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kinship {
    /// Two services.
    None,
    /// One service, which is asked in two ways, so that it cannot copy by itself.
    Estranged,
    /// One service, which copies by itself whatever its target's credentials may read.
    One,
}

impl StoreEnds {
    /// Opens what is a store of `from` and `to`.
    pub fn open(
        words: EndWords<'_>,
        from: Option<&StoreUrl>,
        to: Option<&StoreUrl>,
        stop: &Arc<AtomicBool>,
    ) -> anyhow::Result<StoreEnds> {
        let open = |end, url| StoreEnd::open(words, end, url, stop);
        match (from, to) {
            (Some(from), Some(to)) => {
                refuse_one_endpoint(words, from, to)?;
                let source = open(End::Source, from).map_err(|error| of_end(error, End::Source))?;
                let mut target = open(End::Target, to).map_err(|error| of_end(error, End::Target))?;
                let kinship = source.kinship(&target);
                if kinship == Kinship::One {
                    // Whoever asks the target speaks for what it is told of the source's bucket, too.
                    let way = StoreWay::of_end((words.ends, End::Target), words.network, stop)?;
                    let other = way.open_by(target.flags.clone(), from)?;
                    target.http = way.http(&[&target.store, &other]);
                }
                Ok(StoreEnds::Both { source, target, kinship })
            }
            (Some(from), None) => {
                words.ends.refuse_of(End::Target)?;
                Ok(StoreEnds::Source(open(End::Source, from)?))
            }
            (None, Some(to)) => {
                words.ends.refuse_of(End::Source)?;
                Ok(StoreEnds::Target(open(End::Target, to)?))
            }
            (None, None) => Err(Usage("neither end is a store".to_owned()).into()),
        }
    }

    /// The end that is filled, or the one that is read alone.
    pub fn main(&self) -> &StoreEnd {
        match self {
            StoreEnds::Source(end) | StoreEnds::Target(end) | StoreEnds::Both { target: end, .. } => end,
        }
    }

    /// The end that is filled, if it is a store.
    pub fn target(&self) -> Option<&StoreEnd> {
        match self {
            StoreEnds::Target(end) | StoreEnds::Both { target: end, .. } => Some(end),
            StoreEnds::Source(_) => None,
        }
    }

    /// The end that is read, if it is a store.
    pub fn source(&self) -> Option<&StoreEnd> {
        match self {
            StoreEnds::Source(end) | StoreEnds::Both { source: end, .. } => Some(end),
            StoreEnds::Target(_) => None,
        }
    }
}

/// One endpoint is none of two kinds of store.
fn refuse_one_endpoint(words: EndWords<'_>, from: &StoreUrl, to: &StoreUrl) -> Result<(), Usage> {
    if from.kind == to.kind || words.both.endpoint.is_none() || words.ends.has_endpoint() {
        return Ok(());
    }
    Err(Usage(format!(
        "--endpoint names one service, and {}:// and {}:// are two: name them by --source-endpoint and \
         --target-endpoint, or set AWS_ENDPOINT_URL, STORAGE_EMULATOR_HOST, AZURE_STORAGE_ENDPOINT",
        from.kind.scheme(),
        to.kind.scheme()
    )))
}

/// An error on the way to one of two stores says to which.
pub fn of_end(error: anyhow::Error, end: End) -> anyhow::Error {
    match error.downcast::<StoreError>() {
        Ok(error) => error.at(end).into(),
        Err(error) => match error.downcast::<Usage>() {
            Ok(Usage(why)) => Usage(format!("{why} (for the {})", end.name())).into(),
            Err(error) => error,
        },
    }
}

impl StoreEnd {
    /// Opens the bucket of `url`, which is this end.
    pub fn open(
        words: EndWords<'_>,
        end: End,
        url: &StoreUrl,
        stop: &Arc<AtomicBool>,
    ) -> anyhow::Result<Box<StoreEnd>> {
        let way = StoreWay::of_end((words.ends, end), words.network, stop)?;
        let flags = words.ends.flags(end, words.both)?;
        let store = way.open_by(flags.clone(), url)?;
        let http = way.http(&[&store]);
        Ok(Box::new(StoreEnd { store, http, flags }))
    }

    fn kinship(&self, target: &StoreEnd) -> Kinship {
        let (one, other) = (&self.flags, &target.flags);
        let (service, its) = (self.store.service(), target.store.service());
        if service != its {
            return Kinship::None;
        }
        let is_one_asker = (&one.profile, one.no_sign) == (&other.profile, other.no_sign)
            && has_one_asker(&asked_store::own_variable);
        let has_one_key = one.encryption_key == other.encryption_key;
        match has_one_key && (is_one_asker || service.has_one_namespace) {
            true => Kinship::One,
            false => Kinship::Estranged,
        }
    }
}
