//! `weir completions` and `weir man`: from the same source as the parser.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use clap::builder::Resettable;
use clap::{Arg, Command, CommandFactory, Id};

use crate::args::Cli;
use crate::voice::Printed;

/// Prints completions for `shell`.
pub fn completions(shell: clap_complete::Shell) -> anyhow::Result<u8> {
    // To memory first: what writes it takes a closed pipe for a fault of its own.
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut shown(&Cli::command()), "weir", &mut text);
    std::io::stdout().lock().write_all(&text).printed("the completions")?;
    Ok(0)
}

/// The command without what its help hides. Completions offer all that there is.
fn shown(command: &Command) -> Command {
    let args = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let below = command.get_subcommands().filter(|below| !below.is_hide_set());
    let mut whole = Command::new(command.get_name().to_owned())
        .disable_help_flag(command.is_disable_help_flag_set())
        .args(args.map(|arg| among_shown(arg, command)))
        .subcommands(below.map(shown));
    if let Some(version) = command.get_version() {
        whole = whole.version(version.to_owned());
    }
    if let Some(about) = command.get_about() {
        whole = whole.about(about.clone());
    }
    whole
}

/// An argument that names none which is hidden.
fn among_shown(arg: &Arg, command: &Command) -> Arg {
    let beside = command.get_arg_conflicts_with(arg).into_iter().filter(|other| !other.is_hide_set());
    let nothing = || Resettable::<Id>::Reset;
    let alone = arg.clone().conflicts_with(nothing()).overrides_with(nothing());
    let alone = alone.requires(nothing()).required_unless_present(nothing());
    alone.conflicts_with_all(beside.map(|other| other.get_id().clone()))
}

/// Writes `weir.1`, `weir-get.1` and so on into `folder`.
pub fn pages(folder: &Path) -> anyhow::Result<u8> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    clap_mangen::generate_to(Cli::command(), folder)
        .with_context(|| format!("cannot write man pages into {}", folder.display()))?;
    Ok(0)
}
