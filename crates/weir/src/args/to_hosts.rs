//! `weir get --to-hosts`: its options. ssh's own flags mean something else in `get`, so ssh's words are one
//! flag.

use std::path::PathBuf;

use clap::Args;
use weir_cp::idle_timeout::IDLE_TIMEOUT;
use weir_cp::ssh::Host;

use super::Words;
use super::headings::MANY_HOSTS;

/// One host of a list fetches, and all have it.
#[derive(Debug, Args)]
#[command(next_help_heading = MANY_HOSTS)]
pub struct ToHosts {
    /// Fetch the URL on one host of LIST, which all others get it from, each passing on what comes to it: a
    /// file, - for stdin, or a,b,c; PATH is the target on each.
    #[arg(long, value_name = "LIST[:PATH]", allow_hyphen_values = true)]
    pub to_hosts: Option<String>,
    /// Send each block N times from the host that fetched, over as many chains [default: 1].
    #[arg(long, value_name = "N", requires = "to_hosts", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub fanout: Option<u32>,
    /// Run this command with its flags instead of ssh ('ssh -p 2222 -i KEY').
    #[arg(long, value_name = "COMMAND", requires = "to_hosts")]
    pub rsh: Option<Words>,
    /// Start this weir on the hosts, as their shells would ('sudo weir', /opt/weir), instead of copying one
    /// there.
    #[arg(long, value_name = "PROGRAM", requires = "to_hosts")]
    pub far_program: Option<String>,
    /// Copy this static build of weir to hosts whose machine it is for, instead of the one beside this
    /// program (weir-aarch64, weir-x86_64).
    #[arg(long, value_name = "FILE", requires = "to_hosts", conflicts_with = "far_program")]
    pub far_binary: Vec<PathBuf>,
}

impl ToHosts {
    /// How to reach a host.
    pub fn host(&self, name: Option<String>) -> Host {
        let ssh = self.rsh.as_ref().map_or_else(|| vec!["ssh".to_owned()], |Words(words)| words.clone());
        let (program, builds) = (self.far_program.clone(), self.far_binary.clone());
        Host { name, words: None, ssh, program, builds, silence: IDLE_TIMEOUT }
    }
}
