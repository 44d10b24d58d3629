//! `weir fleet run --kubernetes`: its options.

use clap::Args;
use weir_fleet::launch::kubernetes::{ClaimMount, MOST_WORKERS};

/// Workers as an indexed Job of Kubernetes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Kubernetes")]
pub struct FleetKubernetes {
    /// Print the manifest of an indexed Job of N workers, as YAML or (--json) JSON.
    #[arg(long, value_name = "N", group = "launcher", requires = "image", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_WORKERS)))]
    pub kubernetes: Option<u32>,
    /// Apply the manifest by kubectl instead of printing it.
    #[arg(long, requires = "kubernetes")]
    pub apply: bool,
    /// Run this image, which has weir in its PATH.
    #[arg(long, value_name = "IMAGE", requires = "kubernetes")]
    pub image: Option<String>,
    /// Call the Job so.
    #[arg(long, value_name = "NAME", requires = "kubernetes", default_value = "weir-fleet")]
    pub job_name: String,
    /// Make it in this namespace [default: that of kubectl].
    #[arg(long, value_name = "NAME", requires = "kubernetes")]
    pub namespace: Option<String>,
    /// Give pods the keys of this Secret as variables (PGPASSWORD, AWS_ACCESS_KEY_ID, ...); repeatable.
    #[arg(long = "secret", value_name = "NAME", requires = "kubernetes")]
    pub secrets: Vec<String>,
    /// Mount the volume of this claim at FOLDER of each pod; repeatable.
    #[arg(long = "claim", value_name = "NAME:FOLDER", requires = "kubernetes")]
    pub claims: Vec<ClaimMount>,
    /// Ask for so many cores for each pod.
    #[arg(long, value_name = "CORES", requires = "kubernetes", default_value = "500m")]
    pub cpu: String,
    /// Ask for so much memory for each pod, and hold it to that.
    #[arg(long, value_name = "BYTES", requires = "kubernetes", default_value = "256Mi")]
    pub memory: String,
    /// Give pods the rights of this service account.
    #[arg(long, value_name = "NAME", requires = "kubernetes")]
    pub service_account: Option<String>,
}
