//! Hosts that `weir cp` cannot reach, that ask for something first, or that cannot hold or run a weir: each
//! is said, with a way out.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use support::{MIB, Run, Sandbox, Special, Sshd, pattern, skip};

/// `weir cp a far:.../b` with these flags.
fn copies(sshd: &Sshd, sandbox: &Sandbox, flags: &[&str]) -> Run {
    sandbox.write("a", pattern(MIB, 1));
    let to = format!("far:{}", sandbox.path("b").display());
    sshd.cp(sandbox, flags).args(&["a", &to]).run()
}

fn program(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_host_that_does_not_answer_is_said() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    let (_closed, refuses) = support::net::refusing();
    copies(&sshd, &sandbox, &["-P", &refuses.port().to_string()]).fails(
        1,
        &["Connection refused", "cannot reach far", "ssh could not connect", "by hand: ssh ", " far true"],
    );
    copies(&sshd, &sandbox, &["-o", "HostName=nowhere.invalid"])
        .fails(1, &["nowhere.invalid", "cannot reach far"]);
    // A name that ssh might take for a flag.
    sshd.cp(&sandbox, &["--", "a", "-oProxyCommand=touch evil:b"]).run().fails(1, &["cannot reach"]);
    assert_eq!(sandbox.names(), ["a"]);
    // In a network without any other host.
    let config = sshd.path("ssh_config").display().to_string();
    let args = ["-rn", support::WEIR, "cp", "-F", &config, "a", "far:b"];
    let run = sandbox.weir("unshare", args).run();
    if run.stderr.contains("unshare") {
        return skip("no network of its own can be made here");
    }
    run.fails(1, &["unreachable", "cannot reach far"]);
}

#[test]
fn a_host_with_another_key_is_left_alone() {
    let Some(sshd) = Sshd::start() else { return };
    let sandbox = Sandbox::new();
    let key = std::fs::read_to_string(sshd.path("key.pub")).unwrap();
    std::fs::write(sshd.path("known"), format!("[127.0.0.1]:{} {key}", sshd.port())).unwrap();
    copies(&sshd, &sandbox, &[])
        .fails(1, &["REMOTE HOST IDENTIFICATION HAS CHANGED", "cannot reach far", "ssh could not"]);
    assert_eq!(sandbox.names(), ["a"]);
}

#[test]
fn without_ssh_it_says_what_is_missing() {
    let sandbox = Sandbox::new();
    sandbox.write("a", "text");
    let run = sandbox.weir(support::WEIR, ["cp", "a", "far:b"]).env("PATH", "/nonexistent").run();
    run.fails(1, &["cannot start ssh: no such file", "install OpenSSH's client, or name another with -S"]);
}

/// An sshd that only lets in who knows the words of a key.
fn sshd_with_a_locked_key(words: &str) -> Option<(Sshd, String)> {
    let sshd = Sshd::start()?;
    let key = sshd.path("locked").display().to_string();
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", words, "-f", &key]).status();
    assert!(made.unwrap().success());
    std::fs::copy(format!("{key}.pub"), sshd.path("authorized")).unwrap();
    Some((sshd, key))
}

#[test]
fn ssh_may_ask_on_the_terminal() {
    let Some((sshd, key)) = sshd_with_a_locked_key("open sesame") else { return };
    let sandbox = Sandbox::new();
    sandbox.write("a", pattern(MIB, 1));
    let to = format!("far:{}", sandbox.path("b").display());
    let config = sshd.path("ssh_config").display().to_string();
    let (near, terminal) = support::terminal();
    // setsid makes its stdin the controlling terminal, on which ssh asks.
    let args = ["-c", "-w", support::WEIR, "cp", "-F", &config, "-o", "BatchMode=no", "-i", &key, "a", &to];
    let mut command = sandbox.weir("setsid", args).command;
    command.env_remove("SSH_ASKPASS").env_remove("SSH_AUTH_SOCK");
    command.stdin(terminal.try_clone().unwrap()).stdout(terminal.try_clone().unwrap()).stderr(terminal);
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut near = std::fs::File::from(near);
    let mut seen = Vec::new();
    let mut answered = false;
    let mut buffer = [0; 4096];
    // Ends with EIO when the last of them has closed the terminal.
    while let Ok(read @ 1..) = near.read(&mut buffer) {
        seen.extend_from_slice(&buffer[..read]);
        let asked = String::from_utf8_lossy(&seen).contains("Enter passphrase for key");
        if asked && !std::mem::replace(&mut answered, true) {
            near.write_all(b"open sesame\n").unwrap();
        }
    }
    let seen = String::from_utf8_lossy(&seen);
    assert!(child.wait().unwrap().success(), "{seen}");
    assert!(answered && !seen.contains("sesame"), "{seen}");
    assert_eq!(sandbox.read("a"), sandbox.read("b"));
}

#[test]
fn ssh_may_ask_by_its_helper() {
    let Some((sshd, key)) = sshd_with_a_locked_key("open sesame") else { return };
    let sandbox = Sandbox::new();
    let helper = sshd.path("askpass");
    program(&helper, "#!/bin/sh\necho open sesame\n");
    sandbox.write("a", pattern(MIB, 1));
    let to = format!("far:{}", sandbox.path("b").display());
    let ask = |helper: &Path| {
        let cp = sshd.cp(&sandbox, &["-o", "BatchMode=no", "-i", &key, "a", &to]);
        cp.env("SSH_ASKPASS", helper).env("SSH_ASKPASS_REQUIRE", "force").env("DISPLAY", ":0").run()
    };
    ask(&helper).succeeds();
    assert_eq!(sandbox.read("a"), sandbox.read("b"));
    program(&helper, "#!/bin/sh\necho wrong\n");
    ask(&helper).fails(1, &["cannot reach far", "ssh could not connect or log in"]);
}

#[test]
fn an_account_that_runs_nothing_is_said() {
    let sandbox = Sandbox::new();
    let refuses = |config: &str, texts: &[&str]| {
        if let Some(sshd) = Sshd::special(Special { config, ..Special::default() }) {
            copies(&sshd, &sandbox, &[]).fails(1, texts);
        }
    };
    refuses(
        "ForceCommand echo This account is currently not available.; exit 1",
        &["the far shell ended with code 1", "and said: This account is currently not available."],
    );
    refuses("ForceCommand /nonexistent/shell", &["no shell ran there", "needs one (sh)"]);
    assert_eq!(sandbox.names(), ["a"]);
}

/// Files in the cache folder as the far side sees it, but for the folders of versions.
fn cached(sshd: &Sshd) -> Vec<String> {
    let versions =
        std::fs::read_dir(sshd.seen(&sshd.path("cache")).join("weir")).into_iter().flatten().flatten();
    let files = versions.flat_map(|version| std::fs::read_dir(version.path()).unwrap().flatten());
    files.map(|file| file.file_name().into_string().unwrap()).collect()
}

/// What weir left in the folders for temporary files.
fn left_in_passing() -> usize {
    let of = |folder: &str| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let all = ["/dev/shm", "/tmp", "/var/tmp"].into_iter().flat_map(of);
    let ours = |file: &std::fs::DirEntry| file.file_name().to_string_lossy().starts_with("weir.");
    all.filter(ours).count()
}

/// As a home of the usual small quota, one that is mounted without programs, one that cannot be written.
const OF_NO_USE: [(&str, &str); 3] = [
    ("-o size=1m,mode=700", "No space left on device"),
    ("-o size=900m,mode=700,noexec", "Permission denied"),
    ("-o ro,mode=700", "Read-only file system"),
];

/// One after another: both look for what is left in folders that all share.
#[test]
fn caches_that_are_passed_over() {
    a_cache_folder_of_no_use_is_passed_over();
    a_program_that_others_may_have_put_there_is_not_run();
}

fn a_cache_folder_of_no_use_is_passed_over() {
    for (options, why) in OF_NO_USE {
        let script = format!("mount -t tmpfs {options} none \"$CACHE\"");
        let within = Some(("-m", script.as_str()));
        let Some(sshd) = Sshd::special(Special { without_weir: true, within, ..Special::default() }) else {
            return;
        };
        let sandbox = Sandbox::new();
        copies(&sshd, &sandbox, &[]).succeeds();
        assert_eq!(sandbox.read("a"), sandbox.read("b"));
        assert_eq!(cached(&sshd), [""; 0], "half a program is not left behind");
        // Where no other folder can be made either, it is told what was tried.
        program(&sshd.path("bin/mktemp"), "#!/bin/sh\nexit 1\n");
        let run = copies(&sshd, &sandbox, &[]);
        run.fails(1, &["cannot reach far: weir could not be copied there", why]);
        run.says(&["set XDG_CACHE_HOME there", "name it by --far-program"]);
        assert_eq!(cached(&sshd), [""; 0], "half a program is not left behind");
    }
    assert_eq!(left_in_passing(), 0);
}

/// A cache in which others may write can have their program, whoever owns the folder.
fn a_program_that_others_may_have_put_there_is_not_run() {
    let Some(sshd) = Sshd::without_weir() else { return };
    let sandbox = Sandbox::new();
    copies(&sshd, &sandbox, &[]).succeeds();
    let version = std::fs::read_dir(sshd.path("cache/weir")).unwrap().next().unwrap().unwrap().path();
    let (planted, mark) = (version.join("weir"), sandbox.path("planted-ran"));
    std::fs::remove_file(&planted).unwrap();
    let allow = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let refused = |what: &str| {
        copies(&sshd, &sandbox, &[]).succeeds();
        assert_eq!(sandbox.read("a"), sandbox.read("b"));
        assert!(!mark.exists(), "{what}");
    };
    let bait = format!("#!/bin/sh\ntouch {}\n", mark.display());
    for folder in [sshd.path("cache"), sshd.path("cache/weir"), version.clone()] {
        program(&planted, &bait);
        allow(&folder, 0o777);
        refused("a folder that others may write");
        assert_eq!(std::fs::read(&planted).unwrap(), bait.as_bytes(), "nor is it touched");
        allow(&folder, 0o755);
    }
    allow(&planted, 0o777);
    refused("a program that others may write");
    if rustix::process::geteuid().is_root() {
        program(&planted, &bait);
        std::os::unix::fs::chown(&planted, Some(65534), None).unwrap();
        refused("a program of another");
    }
    std::fs::remove_file(&planted).unwrap();
    let elsewhere = sandbox.path("elsewhere");
    program(&elsewhere, &bait);
    std::os::unix::fs::symlink(&elsewhere, &planted).unwrap();
    refused("a link");
    assert_eq!(left_in_passing(), 0);
}

/// Login scripts that print without an end of line, that read, and a configuration under which nothing would
/// run.
#[test]
fn login_scripts_do_not_hold_it_up() {
    let sandbox = Sandbox::new();
    for words in [
        "printf '\\033]0;host\\007'",
        "echo -n hi",
        "read -t 1 x",
        "printf 'name? '; read -t 1 x; echo \"hello $x\"",
        "head -c 5000 /dev/zero",
        "(sleep 0.2; printf late) & printf 'weir-peer\\n'; wait",
    ] {
        let config = format!("ForceCommand {words}; eval \"$SSH_ORIGINAL_COMMAND\"");
        let Some(sshd) = Sshd::special(Special { config: &config, ..Special::default() }) else { return };
        copies(&sshd, &sandbox, &[]).succeeds();
        assert_eq!(sandbox.read("a"), sandbox.read("b"), "{words}");
        std::fs::remove_file(sandbox.path("b")).unwrap();
    }
    let Some(sshd) = Sshd::start() else { return };
    copies(&sshd, &sandbox, &["-o", "SessionType=none", "-o", "StdinNull=yes"]).succeeds();
}

/// A minute, so only in soaks: a login script that waits for what will not come.
#[test]
fn a_login_script_that_hangs_is_said() {
    if std::env::var_os("WEIR_SOAK").is_none() {
        return;
    }
    let config = "ForceCommand printf 'which project? '; read x";
    let Some(sshd) = Sshd::special(Special { config, ..Special::default() }) else { return };
    let run = copies(&sshd, &Sandbox::new(), &[]);
    run.fails(
        1,
        &["it is logged in and said: which project?", "nothing more for 60 s", "try ssh ", " far true"],
    );
}

#[test]
fn the_far_program_may_be_named() {
    let Some(sshd) = Sshd::without_weir() else { return };
    let sandbox = Sandbox::new();
    let named = format!("env NICE=1 {}", support::WEIR);
    copies(&sshd, &sandbox, &["--far-program", &named]).succeeds();
    assert_eq!(sandbox.read("a"), sandbox.read("b"));
    assert!(!sshd.path("cache/weir").exists(), "none is copied");
    let run = copies(&sshd, &sandbox, &["--far-program", "/nonexistent/weir"]);
    run.fails(1, &["cannot reach far", "/nonexistent/weir"]);
    copies(&sshd, &sandbox, &["--far-program", "echo no"]).fails(1, &["and said: no peer"]);
}

#[test]
fn a_program_in_the_cache_that_does_not_run_is_replaced() {
    let Some(sshd) = Sshd::without_weir() else { return };
    let sandbox = Sandbox::new();
    copies(&sshd, &sandbox, &[]).succeeds();
    let cache =
        std::fs::read_dir(sshd.path("cache/weir")).unwrap().next().unwrap().unwrap().path().join("weir");
    let whole = std::fs::metadata(&cache).unwrap().len();
    std::fs::remove_file(&cache).unwrap();
    program(&cache, "no program");
    copies(&sshd, &sandbox, &[]).succeeds();
    assert_eq!(std::fs::metadata(&cache).unwrap().len(), whole);
    assert_eq!(cached(&sshd), ["weir"]);
}

#[test]
fn what_a_far_weir_is_not_fit_for_is_said() {
    let Some(sshd) = Sshd::without_weir() else { return };
    let sandbox = Sandbox::new();
    // Another version: it is left alone, and one of this version runs from the cache.
    program(&sshd.path("bin/weir"), "#!/bin/sh\necho weir 0.0.1\n");
    copies(&sshd, &sandbox, &[]).succeeds();
    assert_eq!(sandbox.read("a"), sandbox.read("b"));
    // Another architecture.
    std::fs::remove_dir_all(sshd.path("cache/weir")).unwrap();
    program(&sshd.path("bin/uname"), "#!/bin/sh\necho Plan9 vax\n");
    copies(&sshd, &sandbox, &[]).fails(
        1,
        &["it has no weir", "this one is for Linux", "while it is Plan9 vax", "install weir there"],
    );
    assert!(!sshd.path("cache/weir").exists());
}

/// `ulimit -u`: fewer threads, or a clear error at once; never a panic, and never a minute of nothing.
#[test]
fn a_limit_of_threads_is_said_or_lived_with() {
    if !rustix::process::geteuid().is_root() {
        return skip("only root becomes another user, whose processes are counted");
    }
    let sandbox = Sandbox::new();
    let bytes = pattern(5 * MIB, 1);
    // Where everybody may run the binary and write.
    let weir = sandbox.path("weir");
    support::copy_program(support::WEIR, &weir);
    sandbox.write("a", &bytes);
    std::fs::set_permissions(sandbox.path("."), std::fs::Permissions::from_mode(0o777)).unwrap();
    for limit in [8, 12, 16, 20, 24, 30] {
        let script = format!("ulimit -u {limit}; exec ./weir cp a b");
        // A number of its own, of which no other process is.
        let ids = ["--reuid=64123", "--regid=64123", "--clear-groups", "bash", "-c", &script];
        let run = sandbox.weir("setpriv", ids).spawn().wait_for(std::time::Duration::from_secs(30));
        assert!(!run.stderr.contains("panicked"), "{limit}: {}", run.stderr);
        match run.status.code() {
            Some(0) => assert!(sandbox.read("b") == bytes, "{limit}"),
            Some(1 | 4) => {
                run.says(&["resource temporarily unavailable"]);
            }
            other => panic!("{limit}: {other:?}: {}", run.stderr),
        }
        let _ = std::fs::remove_file(sandbox.path("b"));
    }
}
