//! How a worker of a fleet moves, whoever starts it: options of `weir fleet work`, which `weir fleet run`
//! hands on to the workers that it starts.

use std::time::Duration;

use clap::Args;
use weir_units::Rate;

use super::headings::{OPTIONS, SPEED};
use super::values::{RateLimit, parse_rate_limit, time_within};
use super::{StoreArgs, StoreEndArgs, StoreNetworkArgs, parse_lanes};

/// How a worker moves.
#[derive(Debug, Clone, Args)]
pub struct WorkerArgs {
    /// Fix the number of connections, or of copies at once [default: as many as help].
    #[arg(short = 'c', long, value_name = "N", value_parser = parse_lanes, help_heading = SPEED)]
    pub lanes: Option<u32>,
    /// Limit a worker to RATE (such as 50M), whatever the fleet allows; 0 for no limit.
    #[arg(long, value_name = "RATE", default_value = "0", hide_default_value = true, value_parser = parse_rate_limit, help_heading = SPEED)]
    pub limit_rate: RateLimit,
    /// Hold a batch for so long without a sign of life; a shorter time gives it to others sooner.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_lease, help_heading = OPTIONS)]
    pub lease: Duration,
    /// How object stores are asked.
    #[command(flatten)]
    pub store: StoreArgs,
    /// How one of two is asked.
    #[command(flatten)]
    pub ends: StoreEndArgs,
    /// How they are reached.
    #[command(flatten)]
    pub network: StoreNetworkArgs,
}

/// Three renewals in it, each an answer of a busy database; and no longer than anybody waits for a dead host.
fn parse_lease(text: &str) -> Result<Duration, String> {
    let sensible = Duration::from_secs(1)..=Duration::from_secs(3600);
    time_within(text, sensible, "expected a time from 1s to 3600s")
}

impl WorkerArgs {
    /// The same as words of a command line.
    pub fn words(&self) -> Vec<String> {
        let WorkerArgs { lanes, limit_rate, lease, store, ends, network } = self;
        let StoreArgs { endpoint, region, profile, .. } = store;
        let StoreArgs { no_sign, sign, path_style, virtual_host, request_payer, sse_c_key, .. } = store;
        let StoreNetworkArgs { proxy, noproxy, cacert } = network;
        let path = |path: &std::path::PathBuf| path.to_string_lossy().into_owned();
        let values = [
            ("--lanes", lanes.map(|lanes| lanes.to_string())),
            ("--limit-rate", limit_rate.0.map(|Rate(bytes)| format!("{bytes:.0}"))),
            ("--lease", Some(format!("{}ms", lease.as_millis()))),
            ("--endpoint", endpoint.clone()),
            ("--region", region.clone()),
            ("--profile", profile.clone()),
            ("--sse-c-key", sse_c_key.as_ref().map(path)),
            ("--proxy", proxy.clone()),
            ("--noproxy", noproxy.clone()),
            ("--cacert", cacert.as_ref().map(path)),
        ];
        let flags = [
            ("--no-sign", *no_sign),
            ("--sign", *sign),
            ("--path-style", *path_style),
            ("--virtual-host", *virtual_host),
            ("--request-payer", *request_payer),
        ];
        let values = values.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value?)));
        let flags = flags.into_iter().filter(|(_, given)| *given).map(|(name, _)| name.to_owned());
        values.chain(flags).chain(ends.words()).collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Whole {
        #[command(flatten)]
        worker: WorkerArgs,
    }

    #[test]
    fn words_say_the_same_again() {
        let all = [
            "-c4 --limit-rate 50M --lease 2s --endpoint http://h:1 --region r --profile p --path-style",
            "--no-sign --virtual-host --request-payer --sse-c-key /k --proxy= --noproxy * --cacert /c",
            "--sign",
            "--source-endpoint http://s:1 --source-profile old --source-region a --source-path-style --source-cacert /s",
            "--target-endpoint http://t:1 --target-no-sign --target-region b --target-virtual-host --target-sse-c-key /k",
            "",
        ];
        for words in all {
            let parsed = |words: Vec<String>| {
                let words = ["weir".to_owned()].into_iter().chain(words);
                Whole::try_parse_from(words).map(|whole| whole.worker).unwrap()
            };
            let given = parsed(words.split_whitespace().map(str::to_owned).collect());
            assert_eq!(format!("{:?}", parsed(given.words())), format!("{given:?}"), "{words}");
        }
    }
}
