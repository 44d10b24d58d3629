//! What does the kernel tell of processes: of one's own, and of other users'?

use std::os::unix::fs::MetadataExt;
use std::sync::mpsc::channel;
use std::time::Duration;

use weir_model::ability::Finding;

use super::{listed, read};
use crate::process::{self, Pid};
use crate::thread;

/// A sleeping thread is looked at so often, 2 ms apart, before its sleep is called invisible: it falls asleep at once, and
/// only has to get a processor first.
const LOOKS: u32 = 100;

/// Entries of /proc that are looked at for somebody else's process. The first is most often process 1.
const CANDIDATES: usize = 10_000;

pub(super) fn own() -> Finding {
    let origin = "/proc/self/{stat,task,io} and /proc/self/task/TID/{schedstat,wchan,syscall}";
    let own = Pid(std::process::id());
    if let Err(why) = process::stat(own).map(drop).and_then(|()| process::threads(own).map(drop)) {
        return Finding::missing(why.to_string(), origin)
            .with_way_out("mount /proc: mount -t proc proc /proc");
    }
    let thread = format!("/proc/self/task/{}", thread::current_tid());
    let unreadable = |path: &String| read(path).is_err();
    let files = ["schedstat", "wchan", "syscall"].map(|name| format!("{thread}/{name}"));
    let mut lacking: Vec<String> =
        std::iter::once("/proc/self/io".to_owned()).chain(files).filter(unreadable).collect();
    if lacking.is_empty() && !sleep_is_seen() {
        lacking.push("the kernel function in which a thread sleeps".to_owned());
    }
    match lacking.is_empty() {
        true => Finding::ok("time, sleep, system call and written bytes of each thread can be read", origin),
        false => Finding::limited(format!("cannot read {}", listed(&lacking)), origin),
    }
}

/// Whether `wchan` names the function in which a thread sleeps: one is put to sleep for it. Some kernels always say 0.
fn sleep_is_seen() -> bool {
    let ((wake, asleep), (tell, told)) = (channel::<()>(), channel());
    let sleeper = std::thread::Builder::new().name("weir-sleeper".to_owned()).spawn(move || {
        // The receiver waits below.
        let _ = tell.send(thread::current_tid());
        let _ = asleep.recv();
    });
    let Ok(sleeper) = sleeper else { return false };
    let seen = told.recv().ok().and_then(|tid| thread::wait_channel(tid).ok()).is_some_and(|mut place| {
        (0..LOOKS).any(|_| {
            std::thread::sleep(Duration::from_millis(2));
            matches!(place.read(), Ok(Some(_)))
        })
    });
    drop(wake);
    // It has nothing to fail in.
    let _ = sleeper.join();
    seen
}

pub(super) fn foreign() -> Finding {
    let Some(pid) = somebody_else() else {
        return match std::fs::metadata("/proc/1") {
            Ok(_) => Finding::ok("no other user's process is here", "/proc"),
            Err(_) => Finding::missing("other users' processes are hidden", "/proc (hidepid)").with_way_out(
                "as root: mount -o remount,hidepid=0 /proc, or join the group that its gid= names",
            ),
        };
    };
    let origin = format!("/proc/{pid}/{{stat,task,wchan,syscall,io,fd}}");
    let public = [("stat", process::stat(pid).is_ok()), ("task", process::threads(pid).is_ok())];
    let place = read(&format!("/proc/{pid}/wchan"));
    let call = read(&format!("/proc/{pid}/syscall")).is_ok();
    let private = [
        // For whoever may not look it reads 0, as for a process that runs.
        ("wchan", call || place.is_ok_and(|name| thread::parse_wait_channel(&name).is_some())),
        ("syscall", call),
        ("io", read(&format!("/proc/{pid}/io")).is_ok()),
        ("fd", std::fs::read_dir(format!("/proc/{pid}/fd")).is_ok()),
    ];
    let whose = match process::owner(pid) {
        Ok(0) => "root's".to_owned(),
        Ok(user) => format!("user {user}'s"),
        Err(_) => "another user's".to_owned(),
    };
    let (seen, hidden): (Vec<_>, Vec<_>) =
        public.into_iter().chain(private).partition(|(_, readable)| *readable);
    let names =
        |files: &[(&'static str, bool)]| listed(&files.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    match (seen.is_empty(), hidden.is_empty()) {
        (_, true) => Finding::ok(format!("all of {whose} process {pid} can be read"), origin),
        (true, _) => Finding::missing(format!("nothing of {whose} process {pid} can be read"), origin),
        _ => {
            let reading =
                format!("of {whose} process {pid} one sees {}, not {}", names(&seen), names(&hidden));
            Finding::limited(reading, origin)
        }
    }
}

/// A process of another user or, for root alone on a machine of root's, process 1.
fn somebody_else() -> Option<Pid> {
    let own_user = rustix::process::geteuid().as_raw();
    let numbers = std::fs::read_dir("/proc").ok()?.flatten().take(CANDIDATES);
    let processes = numbers.filter_map(|entry| Some((Pid(entry.file_name().to_str()?.parse().ok()?), entry)));
    let other = |entry: &std::fs::DirEntry| entry.metadata().is_ok_and(|found| found.uid() != own_user);
    let found = processes.filter(|(_, entry)| other(entry)).map(|(pid, _)| pid).next();
    found.or_else(|| (own_user == 0 && std::process::id() != 1).then_some(Pid(1)))
}
