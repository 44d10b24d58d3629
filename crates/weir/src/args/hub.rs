//! Flags of hubs: repositories of models, registries of images, git-lfs.

use clap::Args;
use weir_store::hub::oci::Platform;

/// What is fetched from hubs (hf://, oci://), and where it goes.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Hubs")]
pub struct HubArgs {
    /// Put files of hf:// into the cache of the hub's Python library (HF_HUB_CACHE, or HF_HOME/hub), where it
    /// finds them.
    #[arg(long, conflicts_with_all = ["output", "directory_prefix", "range", "force_directories"])]
    pub hf_cache: bool,
    /// Take the image for this platform where oci:// has several [default: linux and this host's processor].
    #[arg(long, value_name = "OS/ARCH")]
    pub platform: Option<Platform>,
    /// Read the git-lfs pointers in these files and fetch their objects from this repository; without -o each
    /// takes its pointer's place.
    #[arg(long, value_name = "URL", conflicts_with = "hf_cache")]
    pub lfs: Option<String>,
}
