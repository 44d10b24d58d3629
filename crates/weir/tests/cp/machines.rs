//! Far hosts of another architecture: which build of weir they get, and what is said where there is none.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::{MIB, Run, Sandbox, Sshd, pattern};

fn program(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// A host whose `uname -sm` says this.
fn host_of(sshd: &Sshd, words: &str) {
    program(&sshd.path("bin/uname"), &format!("#!/bin/sh\necho {words}\n"));
}

/// This weir as another build: its digest is not the program's. Another program appends the byte, since it
/// runs ([`support::copy_program`]).
fn build(path: &Path) -> PathBuf {
    support::copy_program(support::WEIR, path);
    let appended = Command::new("sh").args(["-c", "printf x >>\"$1\"", "sh"]).arg(path).status();
    assert!(appended.unwrap().success());
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.to_owned()
}

/// Bytes of the program in the far cache.
fn cached(sshd: &Sshd) -> Vec<u64> {
    let versions = std::fs::read_dir(sshd.path("cache/weir")).into_iter().flatten().flatten();
    versions.map(|version| version.path().join("weir").metadata().unwrap().len()).collect()
}

/// A copy there and back by `weir`, with flags.
fn there_and_back(sshd: &Sshd, weir: &str, flags: &[&str]) {
    let sandbox = Sandbox::new();
    sandbox.write("a", pattern(3 * MIB + 5, 1));
    let (config, far) =
        (sshd.path("ssh_config").display().to_string(), sandbox.path("b").display().to_string());
    for (from, to) in [("a", format!("far:{far}").as_str()), (format!("far:{far}").as_str(), "c")] {
        sandbox.weir(weir, ["cp", "-F", &config]).args(flags).args(&[from, to]).run().succeeds();
    }
    assert!(sandbox.read("a") == sandbox.read("b") && sandbox.read("a") == sandbox.read("c"));
}

/// Linux's own word is x86_64; a host that calls the same machine by its other name is another machine to the
/// far shell.
fn other_words() -> Option<&'static str> {
    match std::env::consts::ARCH {
        "x86_64" => Some("Linux amd64"),
        "aarch64" => Some("Linux arm64"),
        _ => None,
    }
}

#[test]
fn a_host_of_another_machine_gets_its_build() {
    let (Some(sshd), Some(words)) = (Sshd::without_weir(), other_words()) else { return };
    host_of(&sshd, words);
    let sandbox = Sandbox::new();
    let named = build(&sandbox.path("named"));
    let size = std::fs::metadata(&named).unwrap().len();
    there_and_back(&sshd, support::WEIR, &["--far-binary", &named.display().to_string()]);
    assert_eq!(cached(&sshd), [size], "found there by its digest the second time");
    // As a package has it: below lib beside bin.
    std::fs::remove_dir_all(sshd.path("cache/weir")).unwrap();
    let (bin, lib) = (sandbox.path("bin"), sandbox.path("lib/weir"));
    std::fs::create_dir_all(&bin).unwrap();
    std::fs::create_dir_all(&lib).unwrap();
    let weir = build(&bin.join("weir")).display().to_string();
    let sibling = lib.join(format!("weir-{}", std::env::consts::ARCH));
    build(&sibling);
    there_and_back(&sshd, &weir, &[]);
    assert_eq!(cached(&sshd), [size]);
    // A sibling that others may write, and one that is not what its manifest says.
    std::fs::remove_dir_all(sshd.path("cache/weir")).unwrap();
    let refused = |texts: &[&str]| {
        let config = sshd.path("ssh_config").display().to_string();
        sandbox.write("a", "text");
        let run = sandbox.weir(&weir, ["cp", "-F", &config, "a", "far:/nonexistent/b"]).run();
        run.fails(1, &["cannot reach far: it has no weir", &format!("{} is not used", sibling.display())]);
        run.says(texts);
        assert!(!sshd.path("cache/weir").exists());
    };
    std::fs::set_permissions(&sibling, std::fs::Permissions::from_mode(0o777)).unwrap();
    refused(&["others may write it"]);
    std::fs::set_permissions(&sibling, std::fs::Permissions::from_mode(0o755)).unwrap();
    let name = sibling.file_name().unwrap().to_string_lossy();
    std::fs::write(lib.join("SHA256SUMS"), format!("{}  {name}\n", "0".repeat(64))).unwrap();
    refused(&["its SHA-256 is not the one in", "SHA256SUMS; fetch the release again"]);
    std::fs::write(lib.join("SHA256SUMS"), format!("{}  weir-vax\n", "0".repeat(64))).unwrap();
    refused(&["SHA256SUMS does not list weir-"]);
    std::fs::remove_file(lib.join("SHA256SUMS")).unwrap();
    std::fs::write(&sibling, &std::fs::read(&sibling).unwrap()[..4096]).unwrap();
    refused(&["it is not weir", "use the build of this version"]);
}

#[test]
fn the_build_for_this_machine_may_be_named() {
    let Some(sshd) = Sshd::without_weir() else { return };
    let sandbox = Sandbox::new();
    let named = build(&sandbox.path("named"));
    there_and_back(&sshd, support::WEIR, &["--far-binary", &named.display().to_string()]);
    assert_eq!(cached(&sshd), [std::fs::metadata(&named).unwrap().len()]);
}

#[test]
fn a_host_without_a_build_is_said() {
    let Some(sshd) = Sshd::without_weir() else { return };
    let sandbox = Sandbox::new();
    sandbox.write("a", "text");
    sandbox.write("script", "#!/bin/sh\n");
    let to = format!("far:{}", sandbox.path("b").display());
    let copies = |flags: &[&str]| -> Run { sshd.cp(&sandbox, flags).args(&["a", &to]).run() };
    copies(&["--far-binary", "script"])
        .fails(1, &["cannot use script as --far-binary: it is no program for", "name a static build"]);
    copies(&["--far-binary", "none"]).fails(1, &["cannot use none as --far-binary: no such file"]);
    copies(&["--far-binary", "script", "--far-program", "weir"]).fails(2, &["cannot be used with"]);
    host_of(&sshd, "Linux riscv64");
    let run = copies(&[]);
    run.fails(1, &["while it is Linux riscv64; install weir there, or name it by --far-program"]);
    let other = if std::env::consts::ARCH == "aarch64" { "x86_64" } else { "aarch64" };
    host_of(&sshd, &format!("Linux {other}"));
    let run = copies(&[]);
    run.fails(
        1,
        &["cannot reach far: it has no weir", "this one is for Linux", &format!("while it is Linux {other}")],
    );
    let put = format!("put weir-{other} of this version into");
    run.says(&[&put, "name it by --far-binary", "install weir there"]);
    assert!(!sshd.path("cache/weir").exists());
    // One that is installed there serves.
    std::os::unix::fs::symlink(support::WEIR, sshd.path("bin/weir")).unwrap();
    copies(&[]).succeeds();
    assert_eq!(sandbox.read("a"), sandbox.read("b"));
}

/// What the kernel needs to know to run programs of aarch64 by QEMU: their head, and which of its bits count.
const ARM: &str = "\\x7fELF\\x02\\x01\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02\\x00\\xb7\\x00";
const MASK: &str =
    "\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\x00\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xfe\\xff\\xff\\xff";

/// An ssh whose far host runs programs of aarch64, and says that it is one: a user namespace has formats of
/// its own.
fn arm_host(sandbox: &Sandbox, qemu: &str) -> String {
    let folder = sandbox.path("ssh.arm");
    std::fs::create_dir_all(folder.join("bin")).unwrap();
    program(&folder.join("bin/uname"), "#!/bin/sh\necho Linux aarch64\n");
    let (ssh, here) = (folder.join("ssh"), folder.display());
    let formats = "/proc/sys/fs/binfmt_misc";
    let text = format!(
        "#!/bin/sh\nfor command; do :; done\n\
         export SSH_CONNECTION='127.0.0.1 1 127.0.0.1 22' XDG_CACHE_HOME={here}/cache PATH={here}/bin:/usr/bin:/bin\n\
         exec unshare --user --map-root-user --mount sh -c '\n\
         mount -t binfmt_misc none {formats} || exit\n\
         printf \"%s\\n\" \"$2\" >{formats}/register || exit\n\
         exec sh -c \"$1\"' sh \"$command\" ':arm:M::{ARM}:{MASK}:{qemu}:F'\n"
    );
    program(&ssh, &text);
    ssh.display().to_string()
}

/// WEIR_AARCH64 is the static build for aarch64, WEIR_X86_64 the other, WEIR_QEMU what runs the first.
#[test]
#[ignore = "wants builds for two machines: make arm-check"]
fn copies_between_machines() {
    let path = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("no {name}: make arm-check"));
    let (arm, x86, qemu) = (path("WEIR_AARCH64"), path("WEIR_X86_64"), path("WEIR_QEMU"));
    let sandbox = Sandbox::new();
    let ssh = arm_host(&sandbox, &qemu);
    std::fs::create_dir_all(sandbox.path("tree/deep")).unwrap();
    sandbox.write("tree/text", "the same words again and again\n".repeat(100_000));
    sandbox.write("tree/deep/noise", pattern(20 * MIB + 3, 7));
    sandbox.write("tree/empty", "");
    let same = |other: &str| {
        for name in ["text", "deep/noise", "empty"] {
            assert!(
                sandbox.read(&format!("tree/{name}")) == sandbox.read(&format!("{other}/{name}")),
                "{name}"
            );
        }
    };
    let far = |name: &str| format!("far:{}", sandbox.path(name).display());
    for (round, flags) in
        [&[][..], &["--codec", "zstd"], &["--codec", "lz4"], &["--transport", "ssh"], &["--plain", "-c", "3"]]
            .into_iter()
            .enumerate()
    {
        let (there, back) = (format!("there{round}"), format!("back{round}"));
        let copy = |from: &str, to: &str| {
            let words = ["cp", "--json", "-S", &ssh, "--far-binary", &arm];
            let run = sandbox.weir(&x86, words).args(flags).args(&[from, to]).run();
            assert_eq!(run.succeeds().json()["outcome"], "complete");
        };
        copy("tree", &far(&there));
        same(&there);
        copy(&far(&there), &back);
        same(&back);
    }
    // The driver is the one that is emulated.
    let plain = sandbox.path("ssh.plain");
    let text = "#!/bin/sh\nfor command; do :; done\nexport SSH_CONNECTION='127.0.0.1 1 127.0.0.1 22' \
                XDG_CACHE_HOME=\"${0%/*}/cache\" PATH=/usr/bin:/bin\nexec sh -c \"$command\"\n";
    program(&plain, text);
    let plain = plain.display().to_string();
    for (from, to) in [("tree", far("from-arm")), (far("from-arm").as_str(), "to-arm".to_owned())] {
        let words = [&arm, "cp", "-S", &plain, "--far-binary", &x86, from, &to];
        sandbox.weir(&qemu, words).run().succeeds();
    }
    same("from-arm");
    same("to-arm");
    // Its sibling is beside it: no question, no flag.
    std::fs::create_dir(sandbox.path("package")).unwrap();
    let (weir, sibling) = (sandbox.path("package/weir"), sandbox.path("package/weir-aarch64"));
    support::copy_program(&x86, &weir);
    std::fs::copy(&arm, sibling).unwrap();
    std::fs::remove_dir_all(sandbox.path("ssh.arm/cache")).unwrap();
    sandbox.weir(weir.display().to_string(), ["cp", "-S", &ssh, "tree", &far("unasked")]).run().succeeds();
    same("unasked");
}
