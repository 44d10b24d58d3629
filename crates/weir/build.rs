//! Puts the commit into the binary, for `--version`.

use std::process::Command;

fn main() {
    let commit = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output();
    let commit = match commit {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        _ => "no commit".to_owned(),
    };
    println!("cargo::rustc-env=WEIR_COMMIT={commit}");
    println!("cargo::rerun-if-changed=../../.git/HEAD");
    println!("cargo::rerun-if-changed=../../.git/refs/heads");
    println!("cargo::rerun-if-changed=build.rs");
}
