//! What of the sources `weir cp` copies, over what, and what becomes of what was there: rsync's flags, with
//! rsync's meaning.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use clap::{ArgMatches, Args, Command, FromArgMatches};
use weir_cp::wire::modes::{self, ModeChange};
use weir_cp::wire::owners::{Mapping, parse_maps};
use weir_cp::wire::selection::{Backup, Selection};

use crate::voice::Usage;

use super::headings::{ATTRIBUTES, OPTIONS, SELECTION};

/// What is left out of the sources, and what is not.
#[derive(Debug, Default)]
pub struct Patterns {
    /// In the order of the command line, since the first that matches decides.
    pub rules: Vec<(Given, OsString)>,
    /// What CVS leaves out is, too.
    pub cvs_exclude: bool,
}

/// By which flag a rule came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Given {
    /// A pattern, or a file of such, of what is left out.
    Exclude,
    /// The file.
    ExcludeFrom,
    /// Of what is taken.
    Include,
    /// The file.
    IncludeFrom,
    /// A rule.
    Filter,
}

/// As the command line has them.
#[derive(Debug, Args)]
#[command(next_help_heading = SELECTION)]
struct PatternArgs {
    /// Exclude files that match PATTERN, named sources too (as rsync: *, **, ?, [..]; a leading / anchors, a
    /// trailing / means folders).
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    exclude: Vec<OsString>,
    /// Include files that match PATTERN even if a later --exclude matches them; the first match decides.
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    include: Vec<OsString>,
    /// Read exclude patterns from FILE ('-' reads stdin), one a line, with # and ; comments.
    #[arg(long, value_name = "FILE")]
    exclude_from: Vec<OsString>,
    /// Read include patterns from FILE ('-' reads stdin).
    #[arg(long, value_name = "FILE")]
    include_from: Vec<OsString>,
    /// Add a filter rule as rsync: '- PATTERN', '+ PATTERN', 'P PATTERN' (protect at the target), 'R PATTERN'
    /// (risk), '. FILE' (merge), ': FILE' (dir-merge, a file in each folder), '!' (clear), with modifiers
    /// (rsync's -F is ': /.rsync-filter').
    #[arg(short = 'f', long, value_name = "RULE", allow_hyphen_values = true)]
    filter: Vec<OsString>,
    /// Exclude what CVS ignores (*.o, *~, .git/ and so on, ~/.cvsignore, $CVSIGNORE, .cvsignore files);
    /// rsync's -C.
    #[arg(long)]
    cvs_exclude: bool,
}

impl Args for Patterns {
    fn augment_args(command: Command) -> Command {
        PatternArgs::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        PatternArgs::augment_args_for_update(command)
    }
}

impl FromArgMatches for Patterns {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Patterns, clap::Error> {
        let mut patterns = Patterns::default();
        patterns.update_from_arg_matches(matches)?;
        Ok(patterns)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        const FLAGS: [(&str, Given); 5] = [
            ("exclude", Given::Exclude),
            ("exclude_from", Given::ExcludeFrom),
            ("include", Given::Include),
            ("include_from", Given::IncludeFrom),
            ("filter", Given::Filter),
        ];
        let mut placed: Vec<(usize, Given, &OsString)> = Vec::new();
        for (id, given) in FLAGS {
            let values = matches.get_many::<OsString>(id).into_iter().flatten();
            let places = matches.indices_of(id).into_iter().flatten();
            placed.extend(places.zip(values).map(|(place, text)| (place, given, text)));
        }
        placed.sort_unstable();
        self.rules = placed.into_iter().map(|(_, given, text)| (given, text.clone())).collect();
        self.cvs_exclude = matches.get_flag("cvs_exclude");
        Ok(())
    }
}

/// What is chosen beside the patterns.
#[derive(Debug, Args)]
#[command(next_help_heading = SELECTION)]
pub struct Choice {
    /// Delete as --delete, and also excluded files at the target, unless a P rule protects them.
    #[arg(long)]
    pub delete_excluded: bool,
    /// Delete at most N entries at the target; fail if there are more.
    #[arg(long, value_name = "N", value_parser = parse_most, allow_negative_numbers = true)]
    pub max_delete: Option<u64>,
    /// Delete even if something at the source could not be read, except in folders that could not be read.
    #[arg(long)]
    pub ignore_errors: bool,
    /// Skip files larger than SIZE (as rsync: 1M and 1MiB are 1024 * 1024 bytes, 1MB a million).
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub max_size: Option<u64>,
    /// Skip files smaller than SIZE.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub min_size: Option<u64>,
    /// Skip files that exist at the target, whatever they contain.
    #[arg(long)]
    pub ignore_existing: bool,
    /// Create nothing new at the target; update existing files only.
    #[arg(long, alias = "ignore-non-existing")]
    pub existing: bool,
    /// Skip files that have the same size at the target, whatever their times.
    #[arg(long)]
    pub size_only: bool,
    /// Stay on the sources' file systems; a mount point below them becomes an empty folder.
    #[arg(short = 'x', long)]
    pub one_file_system: bool,
    /// Create missing folders on the way to DST.
    #[arg(long)]
    pub mkpath: bool,
    /// Copy the targets of symbolic links instead of the links.
    #[arg(short = 'L', long)]
    pub copy_links: bool,
    /// Treat a symbolic link to a folder at the target as that folder.
    #[arg(short = 'K', long)]
    pub keep_dirlinks: bool,
    /// Skip symbolic links that point outside the copied tree.
    #[arg(long)]
    pub safe_links: bool,
    /// Remove files, links and devices at the source once the target has them on disk; folders and files that
    /// changed meanwhile stay.
    #[arg(long, conflicts_with = "copy_links")]
    pub remove_source_files: bool,
    /// Hard-link unchanged files to those in DIR, an earlier copy (relative to DST; may be repeated).
    #[arg(long, value_name = "DIR")]
    pub link_dest: Vec<OsString>,
    /// Change modes during the copy (D755,F644, u+rwX, go-w; D for folders, F for other entries).
    #[arg(long, value_name = "CHANGES", help_heading = ATTRIBUTES)]
    pub chmod: Vec<String>,
    /// Keep owners by number instead of by name, where owners are kept (-a, or a map).
    #[arg(long, help_heading = ATTRIBUTES)]
    pub numeric_ids: bool,
    /// Set the owner to USER and GROUP of the target, also without -a; either may be omitted.
    #[arg(long, value_name = "USER:GROUP", conflicts_with_all = ["usermap", "groupmap"], help_heading = ATTRIBUTES)]
    pub chown: Option<String>,
    /// Map owners, also without -a: FROM:TO,..., where FROM is a name, with *, or numbers (1000-1999).
    #[arg(long, value_name = "MAP", help_heading = ATTRIBUTES)]
    pub usermap: Option<String>,
    /// Map groups, as --usermap maps owners.
    #[arg(long, value_name = "MAP", help_heading = ATTRIBUTES)]
    pub groupmap: Option<String>,
    /// Print a line for each change, as rsync (its -i is ssh's key here); -v prints names only.
    #[arg(long, help_heading = OPTIONS)]
    pub itemize_changes: bool,
    /// Keep overwritten and deleted files at the target as NAME~.
    #[arg(short = 'b', long)]
    pub backup: bool,
    /// Keep them in DIR instead, relative to DST (implies --backup).
    #[arg(long, value_name = "DIR")]
    pub backup_dir: Option<OsString>,
    /// Append this suffix to backup names [default: ~, nothing with --backup-dir].
    #[arg(long, value_name = "TEXT")]
    pub suffix: Option<OsString>,
}

impl Choice {
    /// What both ends are told of it.
    pub fn selection(&self) -> Result<Selection, Usage> {
        Ok(Selection {
            max_size: self.max_size,
            min_size: self.min_size,
            ignore_existing: self.ignore_existing,
            existing: self.existing,
            size_only: self.size_only,
            one_file_system: self.one_file_system,
            mkpath: self.mkpath,
            copy_links: self.copy_links,
            keep_dirlinks: self.keep_dirlinks,
            safe_links: self.safe_links,
            max_delete: self.max_delete,
            remove_source_files: self.remove_source_files,
            backup: self.backup()?,
            link_dest: self.link_dest.iter().map(|folder| folder.as_bytes().to_vec()).collect(),
            itemize: false,
            silence: None,
            modes: self.modes()?,
            owners: self.owners()?,
            ignore_errors: self.ignore_errors,
        })
    }

    fn modes(&self) -> Result<Vec<ModeChange>, Usage> {
        let parsed = self.chmod.iter().map(|text| modes::parse(text, weir_tree::umask()));
        let changes: Result<Vec<_>, String> = parsed.collect();
        Ok(changes.map_err(Usage)?.into_iter().flatten().collect())
    }

    fn owners(&self) -> Result<Mapping, Usage> {
        let maps = |text: &Option<String>| text.as_deref().map_or(Ok(Vec::new()), parse_maps).map_err(Usage);
        let (mut users, mut groups) = (maps(&self.usermap)?, maps(&self.groupmap)?);
        if let Some(chown) = &self.chown {
            let (user, group) = chown.split_once(':').unwrap_or((chown, ""));
            for (name, into) in [(user, &mut users), (group, &mut groups)] {
                if !name.is_empty() {
                    into.extend(parse_maps(&format!("*:{name}")).map_err(Usage)?);
                }
            }
        }
        Ok(Mapping { numeric: self.numeric_ids, users, groups })
    }

    fn backup(&self) -> Result<Option<Backup>, Usage> {
        if !self.backup && self.backup_dir.is_none() {
            return match self.suffix {
                Some(_) => Err(Usage("--suffix is for backups: give --backup or --backup-dir too".into())),
                None => Ok(None),
            };
        }
        let folder = self.backup_dir.as_ref().map(|folder| folder.as_bytes().to_vec());
        let default = if folder.is_some() { &b""[..] } else { b"~" };
        let suffix = self.suffix.as_ref().map_or(default, |suffix| suffix.as_bytes()).to_vec();
        if suffix.contains(&b'/') || suffix.is_empty() && folder.is_none() {
            return Err(Usage(
                "--suffix needs a text without slashes, and without --backup-dir not an empty one".into(),
            ));
        }
        Ok(Some(Backup { folder, suffix }))
    }
}

/// How many entries may be deleted; rsync's -1 is none, too.
fn parse_most(text: &str) -> Result<u64, String> {
    if text == "-1" { Ok(0) } else { text.parse::<u64>().map_err(|error| error.to_string()) }
}

/// A size as rsync reads them (rsync(1), --max-size): +1 or -1 at the end shifts it by a byte.
fn parse_size(text: &str) -> Result<u64, String> {
    let bad = || {
        format!(
            "invalid size '{text}': expected digits and perhaps k, M, G, T or P, such as 1.5M, 10MB or 1M-1"
        )
    };
    let (rest, shift) = match (text.strip_suffix("+1"), text.strip_suffix("-1")) {
        (Some(rest), _) => (rest, 1),
        (_, Some(rest)) => (rest, -1),
        _ => (text, 0),
    };
    // Below 2^53, as all sizes of files that people bound are, this is exact.
    let bytes = rsync_bytes(rest, "kmgtp", 0).ok_or_else(bad)? as u64;
    bytes.checked_add_signed(shift).ok_or_else(bad)
}

/// Bytes as rsync reads them: digits, perhaps with a fraction; one of `letters`, alone or with iB behind it,
/// stands for a power of 1024, with B for a power of 1000. A bare number is multiplied by 1024 to the power
/// of `bare`.
pub(super) fn rsync_bytes(text: &str, letters: &str, bare: i32) -> Option<f64> {
    let end = text.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.to_ascii_lowercase();
    let (letter, base) = match (unit.strip_suffix("ib"), unit.strip_suffix('b')) {
        (Some(letter), _) => (letter, 1024_f64),
        (None, Some(letter)) => (letter, 1000.0),
        (None, None) => (&*unit, 1024.0),
    };
    let power = match letter {
        "" if unit.is_empty() => bare,
        "" => 0,
        _ => letters.chars().zip(1..).find(|(one, _)| letter.chars().eq([*one]))?.1,
    };
    Some(number.parse::<f64>().ok()? * base.powi(power))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_deletion_has_two_names() {
        assert_eq!(["0", "-1", "7"].map(parse_most), [Ok(0), Ok(0), Ok(7)]);
        assert!(parse_most("-2").is_err());
    }

    #[test]
    fn sizes_as_rsync_has_them() {
        for (text, bytes) in [
            ("0", 0),
            ("100", 100),
            ("1k", 1024),
            ("1K", 1024),
            ("1kb", 1000),
            ("1KiB", 1024),
            ("1.5mb", 1_500_000),
            ("1.5M", 1_572_864),
            ("1M-1", (1 << 20) - 1),
            ("2G+1", (2 << 30) + 1),
            ("7b", 7),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "M", "1x", "-1", "1.2.3", "0-1", "1 M"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
