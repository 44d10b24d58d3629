//! What does the kernel tell of processes: of one's own, and of other users'?

use std::sync::mpsc::channel;
use std::time::Duration;

use weir_model::ability::Finding;

use super::{listed, read};
use crate::process::{self, Pid};
use crate::thread;

/// A sleeping thread is looked at so often, 2 ms apart, before its sleep is called invisible: it falls asleep
/// at once, and only has to get a processor first.
const READINGS: u32 = 100;

/// Entries of /proc among which other users' processes are looked for, and of those the ones looked at: some
/// milliseconds.
const CANDIDATES: usize = 10_000;
const SAMPLE: usize = 16;

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

/// Whether `wchan` names the function in which a thread sleeps: one is put to sleep for it. Some kernels
/// always say 0.
fn sleep_is_seen() -> bool {
    let ((wake, asleep), (tell, told)) = (channel::<()>(), channel());
    let sleeper = std::thread::Builder::new().name("weir-sleeper".to_owned()).spawn(move || {
        // The receiver waits below.
        let _ = tell.send(thread::current_tid());
        let _ = asleep.recv();
    });
    let Ok(sleeper) = sleeper else { return false };
    let seen = told.recv().ok().and_then(|tid| thread::wait_channel(tid).ok()).is_some_and(|mut place| {
        (0..READINGS).any(|_| {
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
    if std::fs::metadata("/proc/self").is_err() {
        return Finding::missing("there is no /proc", "/proc")
            .with_way_out("mount /proc: mount -t proc proc /proc");
    }
    let others = others();
    let seen: Vec<(Pid, ProcessSample)> =
        others.into_iter().filter_map(|pid| Some((pid, ProcessSample::of(pid)?))).collect();
    let Some((pid, first)) = seen.first() else {
        return match std::fs::metadata("/proc/1") {
            Ok(_) => Finding::ok("no process of another user is running", "/proc"),
            Err(_) => Finding::missing("other users' processes are hidden", "/proc (hidepid)").with_way_out(
                "as root: mount -o remount,hidepid=0 /proc, or join the group that its gid= names",
            ),
        };
    };
    let origin = "/proc/PID/{stat,task,wchan,syscall,io,fd}";
    // Without the right to it not one is seen whole; with it there may still be some that are protected.
    let whole = seen.iter().filter(|(_, seen)| seen.hidden.is_empty()).count();
    match (whole, first.visible.is_empty()) {
        (1.., _) => Finding::ok(format!("all of {whole} of {} processes looked at", seen.len()), origin),
        (0, true) => Finding::missing(format!("nothing of {} process {pid}", whose(*pid)), origin),
        (0, false) => {
            let (visible, hidden) = (listed(&first.visible), listed(&first.hidden));
            let reading = format!("{} process {pid} shows {visible}, not {hidden}", whose(*pid));
            Finding::limited(reading, origin)
        }
    }
}

/// What can be seen of a process, by the names of files.
struct ProcessSample {
    visible: Vec<&'static str>,
    hidden: Vec<&'static str>,
}

impl ProcessSample {
    /// `None` when it has ended meanwhile.
    fn of(pid: Pid) -> Option<ProcessSample> {
        let place = read(&format!("/proc/{pid}/wchan"));
        let call = read(&format!("/proc/{pid}/syscall")).is_ok();
        let files = [
            ("stat", process::stat(pid).is_ok()),
            ("task", process::threads(pid).is_ok()),
            // For whoever may not look it reads 0, as for a process that runs.
            ("wchan", call || place.is_ok_and(|name| thread::parse_wait_channel(&name).is_some())),
            ("syscall", call),
            ("io", read(&format!("/proc/{pid}/io")).is_ok()),
            ("fd", std::fs::read_dir(format!("/proc/{pid}/fd")).is_ok()),
        ];
        process::owner(pid).ok()?;
        let names = |wanted: bool| {
            files.iter().filter(|(_, seen)| *seen == wanted).map(|(name, _)| *name).collect::<Vec<_>>()
        };
        Some(ProcessSample { visible: names(true), hidden: names(false) })
    }
}

fn whose(pid: Pid) -> String {
    match process::owner(pid) {
        Ok(0) => "root's".to_owned(),
        Ok(user) => format!("user {user}'s"),
        Err(_) => "another user's".to_owned(),
    }
}

/// Some processes of other users or, for root alone on a machine of root's, of root's.
fn others() -> Vec<Pid> {
    let own_user = rustix::process::geteuid().as_raw();
    let numbers = std::fs::read_dir("/proc").into_iter().flatten().flatten().take(CANDIDATES);
    let processes = numbers.filter_map(|entry| Some(Pid(entry.file_name().to_str()?.parse().ok()?)));
    let all: Vec<Pid> = processes.filter(|pid| pid.0 != std::process::id()).collect();
    let foreign = |pid: &&Pid| process::owner(**pid).is_ok_and(|user| user != own_user);
    let found: Vec<Pid> = all.iter().filter(foreign).take(SAMPLE).copied().collect();
    if found.is_empty() && own_user == 0 { all.into_iter().take(SAMPLE).collect() } else { found }
}
