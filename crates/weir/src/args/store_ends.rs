//! Flags that say of one end of a copy how its store is asked, where the two differ.

use std::path::PathBuf;

use clap::Args;
use weir_store::environment::End;
use weir_store::settings::{Own, StoreFlags};

use super::headings::STORES;
use super::store::read_key;
use super::{StoreArgs, StoreNetworkArgs};
use crate::voice::Usage;

/// What is said of one end alone; what is not is as for both (`--endpoint`, `--profile`, the environment).
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = STORES)]
pub struct StoreEndArgs {
    /// Ask this service for the source [default: --endpoint].
    #[arg(long, alias = "source-endpoint-url", value_name = "URL")]
    pub source_endpoint: Option<String>,
    /// Ask this service for the target [default: --endpoint].
    #[arg(long, aliases = ["target-endpoint-url", "destination-endpoint"], value_name = "URL")]
    pub target_endpoint: Option<String>,
    /// Take the credentials of this profile of ~/.aws for the source, and its endpoint [default: --profile].
    #[arg(long, value_name = "NAME")]
    pub source_profile: Option<String>,
    /// Take the credentials of this profile of ~/.aws for the target, and its endpoint [default: --profile].
    #[arg(long, alias = "destination-profile", value_name = "NAME")]
    pub target_profile: Option<String>,
    /// Sign for this region at the source [default: --region].
    #[arg(long, value_name = "REGION", hide_short_help = true)]
    pub source_region: Option<String>,
    /// Sign for this region at the target [default: --region].
    #[arg(long, alias = "destination-region", value_name = "REGION", hide_short_help = true)]
    pub target_region: Option<String>,
    /// Sign nothing at the source: its bucket is public.
    #[arg(long, conflicts_with = "source_profile", hide_short_help = true)]
    pub source_no_sign: bool,
    /// Sign nothing at the target.
    #[arg(long, conflicts_with = "target_profile", hide_short_help = true)]
    pub target_no_sign: bool,
    /// Put the source's bucket before the key, not into the host.
    #[arg(long, conflicts_with = "source_virtual_host", hide_short_help = true)]
    pub source_path_style: bool,
    /// Put the source's bucket into the host.
    #[arg(long, hide_short_help = true)]
    pub source_virtual_host: bool,
    /// Put the target's bucket before the key, not into the host.
    #[arg(long, conflicts_with = "target_virtual_host", hide_short_help = true)]
    pub target_path_style: bool,
    /// Put the target's bucket into the host.
    #[arg(long, hide_short_help = true)]
    pub target_virtual_host: bool,
    /// The source's objects are encrypted with the key in this file, 32 bytes (SSE-C).
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub source_sse_c_key: Option<PathBuf>,
    /// Encrypt the target's objects with the key in this file, 32 bytes (SSE-C).
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub target_sse_c_key: Option<PathBuf>,
    /// Trust only the authorities in this PEM file at the source [default: --cacert].
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub source_cacert: Option<PathBuf>,
    /// Trust only the authorities in this PEM file at the target [default: --cacert].
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub target_cacert: Option<PathBuf>,
}

/// What they say of one end.
struct Said<'a> {
    endpoint: Option<&'a String>,
    profile: Option<&'a String>,
    region: Option<&'a String>,
    no_sign: bool,
    path_style: Option<bool>,
    key: Option<&'a PathBuf>,
    cacert: Option<&'a PathBuf>,
}

impl StoreEndArgs {
    fn said(&self, end: End) -> Said<'_> {
        let style = |path: bool, host: bool| (path || host).then_some(path);
        match end {
            End::Source => Said {
                endpoint: self.source_endpoint.as_ref(),
                profile: self.source_profile.as_ref(),
                region: self.source_region.as_ref(),
                no_sign: self.source_no_sign,
                path_style: style(self.source_path_style, self.source_virtual_host),
                key: self.source_sse_c_key.as_ref(),
                cacert: self.source_cacert.as_ref(),
            },
            End::Target => Said {
                endpoint: self.target_endpoint.as_ref(),
                profile: self.target_profile.as_ref(),
                region: self.target_region.as_ref(),
                no_sign: self.target_no_sign,
                path_style: style(self.target_path_style, self.target_virtual_host),
                key: self.target_sse_c_key.as_ref(),
                cacert: self.target_cacert.as_ref(),
            },
        }
    }

    /// What is said of `end`, as words of a command line.
    fn words_of(&self, end: End) -> Vec<String> {
        let said = self.said(end);
        let path = |path: &PathBuf| path.to_string_lossy().into_owned();
        let value =
            |name: &str, value: Option<String>| value.map(|value| format!("--{}-{name}={value}", end.name()));
        let flag = |name: &str, is_given: bool| is_given.then(|| format!("--{}-{name}", end.name()));
        let words = [
            value("endpoint", said.endpoint.cloned()),
            value("profile", said.profile.cloned()),
            value("region", said.region.cloned()),
            flag("no-sign", said.no_sign),
            flag("path-style", said.path_style == Some(true)),
            flag("virtual-host", said.path_style == Some(false)),
            value("sse-c-key", said.key.map(path)),
            value("cacert", said.cacert.map(path)),
        ];
        words.into_iter().flatten().collect()
    }

    /// The same as words of a command line.
    pub fn words(&self) -> Vec<String> {
        [End::Source, End::Target].into_iter().flat_map(|end| self.words_of(end)).collect()
    }

    /// The first flag that says something of `end`.
    pub fn first(&self, end: End) -> Option<String> {
        let word = self.words_of(end).into_iter().next()?;
        Some(word.split('=').next().unwrap_or_default().to_owned())
    }

    /// Nothing of them is for a copy of which `end` is no store.
    pub fn refuse_of(&self, end: End) -> Result<(), Usage> {
        let why = |flag| {
            format!("{flag} is for a store, and the {} of this copy is none; leave it out", end.name())
        };
        self.first(end).map_or(Ok(()), |flag| Err(Usage(why(flag))))
    }

    /// Nothing of them is for a copy without a store.
    pub fn refuse_all(&self) -> Result<(), Usage> {
        self.refuse_of(End::Source).and_then(|()| self.refuse_of(End::Target))
    }

    /// An endpoint was named for one end at least.
    pub fn has_endpoint(&self) -> bool {
        self.source_endpoint.is_some() || self.target_endpoint.is_some()
    }

    /// How the store of `end` is asked, where `both` is said of both.
    pub fn flags(&self, end: End, both: &StoreArgs) -> anyhow::Result<StoreFlags> {
        let (said, both) = (self.said(end), both.flags()?);
        let own = Own { endpoint: said.endpoint.is_some(), profile: said.profile.is_some() };
        let flag = format!("--{}-sse-c-key", end.name());
        let key = said.key.map(|path| read_key(&flag, path)).transpose()?;
        Ok(StoreFlags {
            endpoint: said.endpoint.cloned().or(both.endpoint),
            region: said.region.cloned().or(both.region),
            profile: said.profile.cloned().or(both.profile),
            // Whoever names a profile for this end wants to be known there.
            no_sign: said.no_sign || both.no_sign && !own.profile,
            path_style: said.path_style.or(both.path_style),
            encryption_key: key.or(both.encryption_key),
            end: Some(end),
            own,
            ..both
        })
    }

    /// The way to the store of `end`, where `both` is said of both.
    pub fn network(&self, end: End, both: &StoreNetworkArgs) -> StoreNetworkArgs {
        let cacert = self.said(end).cacert.cloned().or_else(|| both.cacert.clone());
        StoreNetworkArgs { cacert, ..both.clone() }
    }
}
