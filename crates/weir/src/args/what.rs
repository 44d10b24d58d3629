//! What of its sources a copy takes, and over what: the same flags for `weir cp` and for `weir plan`, which
//! foretells the copy.

use std::ffi::OsString;

use clap::Args;

use super::headings::SELECTION;
use super::selection::{Choice, Patterns};

/// What is copied.
#[derive(Debug, Args)]
pub struct What {
    /// Also keep owners, extended attributes, access lists, hard links, symbolic links that are named and
    /// modes of existing folders, and as root devices and named pipes (other modes and links, and times, are
    /// always kept).
    #[arg(short, long)]
    pub archive: bool,
    /// Devices and named pipes.
    #[command(flatten)]
    pub nodes: Nodes,
    /// Copy folders recursively. Always on, except for folders that --files-from names.
    #[arg(short, long)]
    pub recursive: bool,
    /// Skip files with the same size and time at the target; overwrite all others, newer ones too.
    #[arg(short, long)]
    pub update: bool,
    /// With -u, treat times up to SECONDS apart as equal (coarse file system times are detected without it).
    #[arg(long, value_name = "SECONDS", default_value_t = 0, hide_default_value = true)]
    pub modify_window: u32,
    /// Skip files with the same content at the target, whatever their times.
    #[arg(long)]
    pub checksum: bool,
    /// Delete entries at the target that the source folders lack or have as another kind, except excluded
    /// ones, and devices, pipes and sockets in the way of what is copied.
    #[arg(long)]
    pub delete: bool,
    /// What is left out.
    #[command(flatten)]
    pub patterns: Patterns,
    /// What else is chosen.
    #[command(flatten)]
    pub choice: Choice,
    /// Copy only the paths listed in FILE ('-' reads stdin), relative to SRC, one a line, with their parent
    /// folders.
    #[arg(long, value_name = "FILE", help_heading = SELECTION)]
    pub files_from: Option<OsString>,
    /// End the lines of --files-from, --exclude-from and --include-from with NUL (as find -print0).
    #[arg(short = '0', long, help_heading = SELECTION)]
    pub from0: bool,
}

/// What has no content and is made anew.
#[derive(Debug, Args)]
pub struct Nodes {
    /// Copy devices and named pipes (rsync's --devices --specials). Part of -a when root receives.
    #[arg(short = 'D')]
    pub nodes: bool,
    /// Copy devices; needs root at the receiver.
    #[arg(long, hide_short_help = true)]
    pub devices: bool,
    /// Copy named pipes, also without root. Sockets are not copied.
    #[arg(long, hide_short_help = true)]
    pub specials: bool,
}
