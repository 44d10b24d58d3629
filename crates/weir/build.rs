//! Puts the commit and the target into the binary, for `--version`, and Lua's interface into its table of
//! dynamic symbols, for C modules.

use std::process::Command;

fn main() {
    let commit = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output();
    let commit = match commit {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        _ => "no commit".to_owned(),
    };
    println!("cargo::rustc-env=WEIR_COMMIT={commit}");
    println!("cargo::rustc-env=WEIR_TARGET={}", std::env::var("TARGET").unwrap_or_default());
    println!("cargo::rerun-if-changed=../../.git/HEAD");
    println!("cargo::rerun-if-changed=../../.git/refs/heads");
    println!("cargo::rerun-if-changed=build.rs");
    export_lua();
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
