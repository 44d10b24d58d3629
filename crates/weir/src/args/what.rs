//! What of its sources a copy takes, and over what: the same flags for `weir cp` and for `weir plan`, which
//! foretells the copy.

use std::ffi::OsString;

use clap::Args;

use super::selection::{Choice, Patterns};

/// What is copied.
#[derive(Debug, Args)]
pub struct What {
    /// Keep owners, extended attributes and hard links too, and where root receives devices and named pipes
    /// (modes, times and symbolic links always are; set-user-id bits only with owners).
    #[arg(short, long)]
    pub archive: bool,
    /// Devices and named pipes.
    #[command(flatten)]
    pub nodes: Nodes,
    /// Copy folders with all that is in them: always done, but for folders that --files-from names.
    #[arg(short, long)]
    pub recursive: bool,
    /// Leave files alone that have the same size and time at the target; others are replaced, newer ones too.
    #[arg(short, long)]
    pub update: bool,
    /// With -u: times up to so many seconds apart are the same (a target's own coarse times are known without
    /// it).
    #[arg(long, value_name = "SECONDS", default_value_t = 0, hide_default_value = true)]
    pub modify_window: u32,
    /// Tell files that are the same by their content, whatever their times.
    #[arg(long)]
    pub checksum: bool,
    /// Remove at the target what the source folders do not have, or have as another kind (a file, now a
    /// folder), but for what patterns leave out.
    #[arg(long)]
    pub delete: bool,
    /// What is left out.
    #[command(flatten)]
    pub patterns: Patterns,
    /// What else is chosen.
    #[command(flatten)]
    pub choice: Choice,
    /// Copy only what FILE names (- for standard input), a path relative to SRC on each line; folders on the
    /// way come along.
    #[arg(long, value_name = "FILE")]
    pub files_from: Option<OsString>,
    /// The names of --files-from, and the lines of --exclude-from and --include-from, end with NUL (as find
    /// -print0 writes them).
    #[arg(short = '0', long)]
    pub from0: bool,
}

/// What has no content and is made anew.
#[derive(Debug, Args)]
pub struct Nodes {
    /// Make devices and named pipes as the source has them (rsync's --devices --specials): a part of -a where
    /// root receives.
    #[arg(short = 'D')]
    pub nodes: bool,
    /// Make devices: root alone can.
    #[arg(long, hide_short_help = true)]
    pub devices: bool,
    /// Make named pipes, for others than root too. Sockets are their programs' to make.
    #[arg(long, hide_short_help = true)]
    pub specials: bool,
}
