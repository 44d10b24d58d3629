//! Commands of other programs, and slips of the finger: what weir has in their place. Their flags are in
//! [`super::foreign`].

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};

use super::Cli;

/// Words that other programs have for commands, and what to do instead.
type Row = (&'static [&'static str], &'static str);

/// One row for what has one answer.
const TABLE: &[Row] = &[
    (
        &["sync", "mirror", "rsync"],
        "'weir cp --update SRC/ DST/' copies what has changed, and --delete removes the rest",
    ),
    (&["copy", "scp", "pcp"], "it is 'weir cp SRC DST'"),
    (&["mv", "move", "rename"], "'weir cp --remove-source-files SRC DST' moves files"),
    (
        &["rm", "rb", "del", "delete", "remove", "purge"],
        "weir deletes only by 'weir cp --delete SRC/ DST/', what the source lacks; the store's own tool removes objects",
    ),
    (
        &["mb", "mkdir", "mkbucket", "create-bucket"],
        "the store's own tool makes buckets, as 'aws s3 mb' does",
    ),
    (&["presign", "sign", "share"], "the store's own tool makes such links, as 'aws s3 presign' does"),
    (&["cat", "pipe", "rcat"], "'weir get URL -o -' prints a file, and 'weir put - URL' sends a stream"),
    (&["download", "fetch", "wget", "curl", "aria2c", "pull", "clone"], "it is 'weir get URL'"),
    (&["upload", "push", "send"], "it is 'weir put FILE TARGET'"),
    (
        &["list", "dir", "lsd", "lsl", "find", "tree"],
        "it is 'weir ls URL', and 'weir ls -r URL' for all below",
    ),
    (&["du", "size"], "'weir ls -r --summarize URL' counts objects and bytes"),
    (&["stat", "head", "info"], "'weir ls -l URL' shows size and time"),
    (&["iperf", "iperf3", "speedtest", "netperf"], "it is 'weir bench net -c HOST'"),
    (&["wrk", "ab", "hey", "oha"], "it is 'weir bench http URL'"),
    (&["fio", "dd"], "it is 'weir bench disk FOLDER'"),
    (&["doctor", "check", "selfcheck"], "it is 'weir self-check'"),
    (&["httpd", "server", "http"], "it is 'weir serve DIR'"),
];

/// What there is to say of the error of a command line with a command that weir does not have; `None` where
/// nothing better is known than what the error says by itself.
pub fn answer(path: &[String], error: &clap::Error) -> Option<String> {
    if error.kind() == ErrorKind::UnknownArgument && path.is_empty() {
        let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return None };
        return (flag == "-v").then(|| {
            "weir alone has no -v: 'weir --version' prints the version, and -v behind a command its decisions".to_owned()
        });
    }
    let given = wrong(error).filter(|_| path.is_empty())?;
    let (_, way) = TABLE.iter().find(|(names, _)| names.contains(&given))?;
    Some(format!("there is no 'weir {given}': {way}"))
}

/// Puts into an error which command of those at `path` was meant.
pub fn mend(path: &[String], error: &mut clap::Error) {
    let Some(given) = wrong(error) else { return };
    let mut whole = Cli::command();
    whole.build();
    let above = path.iter().try_fold(&whole, |above, word| above.find_subcommand(word)).unwrap_or(&whole);
    let near = near(above, given);
    match near.is_empty() {
        true => error.remove(ContextKind::SuggestedSubcommand),
        false => error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(near)),
    };
}

/// The command that there is not.
fn wrong(error: &clap::Error) -> Option<&str> {
    match (error.kind(), error.get(ContextKind::InvalidSubcommand)) {
        (ErrorKind::InvalidSubcommand, Some(ContextValue::String(given))) => Some(given),
        _ => None,
    }
}

/// The commands below `above` that `given` is a slip of the finger of, or a beginning; none is guessed among
/// several.
fn near(above: &Command, given: &str) -> Vec<String> {
    let names = above.get_subcommands().filter(|below| !below.is_hide_set()).map(Command::get_name);
    // Of a word of four letters most others are two slips away.
    let slips = if given.len() > 4 { 2 } else { 1 };
    let is_near = |name: &&str| {
        strsim::osa_distance(given, name) <= slips.min(name.len() - 1)
            || given.len() > 1 && name.starts_with(given)
    };
    names.filter(is_near).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_told_and_no_command_has_a_row() {
        let whole = Cli::command();
        for (given, meant) in [
            ("gte", &["get"][..]),
            ("gett", &["get"]),
            ("benhc", &["bench"]),
            ("self", &["self-check"]),
            ("pla", &["plan"]),
            ("nonsense", &[]),
        ] {
            assert_eq!(near(&whole, given), meant, "{given}");
        }
        for name in TABLE.iter().flat_map(|(names, _)| names.iter()) {
            assert!(whole.find_subcommand(name).is_none(), "there is a weir {name}");
        }
    }
}
