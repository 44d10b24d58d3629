//! Puts the commit and the target into the binary, for `--version`, and Lua's interface into its table of
//! dynamic symbols, for C modules.

use std::path::Path;
use std::process::Command;

fn main() {
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_else(|| "no commit".to_owned());
    println!("cargo::rustc-env=WEIR_COMMIT={commit}");
    println!("cargo::rustc-env=WEIR_TARGET={}", std::env::var("TARGET").unwrap_or_default());
    println!("cargo::rerun-if-changed=build.rs");
    follow_head();
    export_lua();
}

/// What git says in one line.
fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Another commit is another build: watches HEAD and its branch, wherever this tree has them (a linked
/// worktree keeps its HEAD elsewhere, and a branch may be packed). Cargo builds anew for a watched file that
/// is missing.
fn follow_head() {
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    for name in [Some("HEAD"), branch.as_deref(), Some("packed-refs")].into_iter().flatten() {
        let path = git(&["rev-parse", "--git-path", name]).filter(|path| Path::new(path).exists());
        if let Some(path) = path {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

/// C modules of Lua are linked against no library: they find `lua_*` in the program that loads them. A static
/// program loads none, and says so (`weir-bench-http/src/script/prelude.lua`).
fn export_lua() {
    const SYMBOLS: &str = "lua.symbols";
    println!("cargo::rerun-if-changed={SYMBOLS}");
    let set = |name: &str| std::env::var(name).unwrap_or_default();
    // Programs for musl are static as they come; the linker that crosses to another machine takes none of
    // this.
    let is_static = set("CARGO_CFG_TARGET_ENV") == "musl"
        || set("CARGO_CFG_TARGET_FEATURE").split(',').any(|feature| feature == "crt-static");
    if !is_static && set("CARGO_CFG_TARGET_OS") == "linux" {
        let folder = set("CARGO_MANIFEST_DIR");
        println!("cargo::rustc-link-arg-bins=-Wl,--dynamic-list={folder}/{SYMBOLS}");
    }
}
