//! `weir fleet run`: its options. How workers are started is a group of options for each launcher, in a file
//! of its own; one of them must be named.

use clap::{ArgGroup, Args};

use super::{FleetHosts, FleetKubernetes, FleetSlurm, Voice, WorkerArgs};

const RUN_EXAMPLES: &str = "\
Examples:
  weir fleet run --ledger plan.db --hosts a,b,me@c:2222            a worker on each host, by ssh
  weir fleet run --ledger plan.db --hosts hosts.txt --workers-per-host 2 -i ~/.ssh/fleet
  weir fleet run --ledger plan.db --hosts localhost,a              and one here, without ssh
  weir fleet run --ledger postgres://fleet@db/fleet --slurm 16 --sbatch=--partition=io
  weir fleet run --ledger postgres://fleet@db/fleet --kubernetes 8 --image weir:1 --secret fleet | kubectl apply -f -
By ssh weir is copied to hosts that do not have this version. Use keys or an agent. Workers ask the
ledger over that connection. A worker that dies is started again, a host that refuses is named, and
the others go on. Ctrl-C lets workers end what they hold within 20 s; a second one gives it back.
Exit codes: 0 the plan is done; 1 it is done and objects were given up, or the ledger cannot be
used; 2 bad arguments; 4 it is not done and no worker is left; 130 a signal.";

/// `weir fleet run`.
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES, group(ArgGroup::new("launcher").required(true)))]
pub struct FleetRun {
    /// The ledger: a file, or postgres://USER@HOST/DATABASE.
    #[arg(long, value_name = "FILE|URL", required = true)]
    pub ledger: String,
    /// How much is said.
    #[command(flatten)]
    pub voice: Voice,

    /// How workers move.
    #[command(flatten)]
    pub worker: WorkerArgs,
    /// Workers on hosts, by ssh.
    #[command(flatten)]
    pub on: FleetHosts,
    /// Workers in an array of Slurm.
    #[command(flatten)]
    pub slurm: FleetSlurm,
    /// Workers in a Job of Kubernetes.
    #[command(flatten)]
    pub kubernetes: FleetKubernetes,
}

/// Who starts the workers.
pub enum FleetLauncher<'a> {
    /// ssh, on these hosts.
    Hosts(&'a str),
    /// Slurm, in an array of so many tasks.
    Slurm(u32),
    /// Kubernetes, in a Job of so many pods.
    Kubernetes(u32),
}

impl FleetRun {
    /// The one that is named; the parser takes no command line with none or with two.
    pub fn launcher(&self) -> Option<FleetLauncher<'_>> {
        let hosts = self.on.hosts.as_deref().map(FleetLauncher::Hosts);
        let slurm = || self.slurm.slurm.map(FleetLauncher::Slurm);
        hosts.or_else(slurm).or_else(|| self.kubernetes.kubernetes.map(FleetLauncher::Kubernetes))
    }
}
