//! Folders that others may write: weir neither writes nor believes nor waits for what somebody else puts
//! beside a download or in its place.
//!
//! The cases are data: every name beside a target, every kind of bait, before a run, between two runs and
//! during one, as root and as an ordinary user, in a sticky folder and in a stranger's folder with mode 777,
//! for small and large objects. The kernel's `fs.protected_*` settings would hide some faults in sticky
//! folders; they do not apply to the others.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, makedev, mkfifoat, mknodat};
use rustix::process::Signal;
use support::{MIB, Object, Run, Running, Sandbox, Server, WEIR, skip};
use weir_get::journal::Journal;

const NOBODY: u32 = 65534;

/// Who puts things into other people's folders.
const STRANGER: u32 = 54_321;

/// Counts what is staged, for names.
static STAGED: AtomicU64 = AtomicU64::new(0);

/// A run that has not ended by then hangs: a good one takes a fiftieth of a second.
const HANGS: Duration = Duration::from_secs(20);

const SMALL: usize = 100_000;
const LARGE: usize = 2 * MIB;

/// What is put under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bait {
    Link,
    LinkToNothing,
    Pipe,
    Device,
    Socket,
    Folder,
    /// A stranger's file, readable by all.
    Foreign,
    /// The user's own file, which all may write.
    OpenToAll,
    /// Another name of the victim's file.
    HardLink,
}

const BAITS: [Bait; 9] = [
    Bait::Link,
    Bait::LinkToNothing,
    Bait::Pipe,
    Bait::Device,
    Bait::Socket,
    Bait::Folder,
    Bait::Foreign,
    Bait::OpenToAll,
    Bait::HardLink,
];

/// Endings behind the target's name. The last is a part together with a journal that vouches for all of it.
const NAMES: [&[&str]; 5] = [&[".part"], &[".weir"], &[".weir~"], &[""], &[".part", ".weir"]];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Before,
    Between,
    During,
}

#[derive(Debug, Clone, Copy)]
struct Size {
    path: &'static str,
    args: &'static [&'static str],
}

const SIZES: [Size; 3] = [
    Size { path: "small", args: &[] },
    Size { path: "large", args: &["-c", "1"] },
    Size { path: "large", args: &["-c", "4"] },
];

/// Who runs weir where.
#[derive(Debug, Clone, Copy)]
struct FolderUser {
    user: u32,
    mode: u32,
    owner: u32,
}

const STICKY: u32 = 0o1777;

/// What an interrupted run left, to be put before others.
struct Left {
    part: Vec<u8>,
    journal: Journal,
}

/// A server, a shared folder, and somebody's precious file elsewhere.
struct Stage {
    place: FolderUser,
    sandbox: Sandbox,
    server: Server,
    hook: Hook,
    small: Arc<Vec<u8>>,
    large: Arc<Vec<u8>>,
}

type Hook = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

const PRECIOUS: &str = "nobody's but the victim's";

impl Stage {
    /// `None` where this test cannot be two users.
    fn new(place: FolderUser) -> Option<Stage> {
        if !rustix::process::geteuid().is_root() {
            skip("only root can be several users");
            return None;
        }
        let (small, large) = (Object::new(SMALL), Object::new(LARGE));
        let (small_bytes, large_bytes) = (small.bytes.clone(), large.bytes.clone());
        let hook = Hook::default();
        let at_half = Arc::clone(&hook);
        let server = Server::start(move |request, wire| {
            let object = if request.path() == "/small" { &small } else { &large };
            let answer = object.answer(request);
            wire.head(answer.status, &answer.fields)?;
            let half = answer.part.start + answer.part.len() / 2;
            wire.body(&object.bytes[answer.part.start..half])?;
            // While it is at work no other connection brings the rest.
            let mut hook = at_half.lock().unwrap();
            if let Some(hook) = hook.take() {
                hook();
            }
            drop(hook);
            wire.body(&object.bytes[half..answer.part.end])
        });
        let sandbox = Sandbox::new();
        let stage = Stage { place, sandbox, server, hook, small: small_bytes, large: large_bytes };
        let version = stage.command(&["--version"]).wait_for(HANGS);
        if !version.status.success() {
            skip("root cannot run the binary as another user here");
            return None;
        }
        Some(stage)
    }

    /// Everything anew: the folder empty, the precious file as it was.
    fn set_up(&self) {
        for folder in ["shared", "victim"] {
            let _ = fs::remove_dir_all(self.sandbox.path(folder));
            fs::create_dir(self.sandbox.path(folder)).unwrap();
        }
        give(&self.sandbox.path("."), 0, 0o755);
        give(&self.sandbox.path("victim"), self.place.user, 0o755);
        give(&self.sandbox.write("victim/precious", PRECIOUS), self.place.user, 0o640);
        give(&self.sandbox.path("shared"), self.place.owner, self.place.mode);
    }

    fn shared(&self, name: &str) -> PathBuf {
        self.sandbox.path("shared").join(name)
    }

    fn command(&self, args: &[&str]) -> Running {
        let mut weir = self.sandbox.weir(WEIR, args);
        weir.command.uid(self.place.user).gid(self.place.user);
        weir.spawn()
    }

    fn get(&self, size: Size, output: &str) -> Running {
        let url = self.server.url(size.path);
        let args = [&["get", &url, "-o", output, "--retries", "1"], size.args].concat();
        self.command(&args)
    }

    fn bytes(&self, size: Size) -> &[u8] {
        if size.path == "small" { &self.small } else { &self.large }
    }

    /// A run that is cut off when half has come, and a journal stored that says so: the first may be stored
    /// before a byte has come.
    fn left(&self) -> Left {
        self.set_up();
        let (killed, held) = std::sync::mpsc::channel::<()>();
        *self.hook.lock().unwrap() = Some(Box::new(move || _ = held.recv_timeout(HANGS)));
        let running = self.get(SIZES[1], "shared/large");
        let stored = || {
            let text = fs::read(self.shared("large.weir")).ok()?;
            Journal::parse(&text).ok().filter(|journal| !journal.written.is_empty())
        };
        let start = Instant::now();
        while stored().is_none() {
            assert!(start.elapsed() < HANGS);
            std::thread::sleep(Duration::from_millis(5));
        }
        running.signal(Signal::KILL);
        running.wait();
        drop(killed);
        let part = fs::read(self.shared("large.part")).unwrap();
        Left { part, journal: stored().unwrap() }
    }

    /// Puts down what an earlier run of this user left.
    fn lay_out(&self, left: &Left) {
        give(&self.sandbox.write("shared/large.part", &left.part), self.place.user, 0o600);
        give(&self.sandbox.write("shared/large.weir", left.journal.to_text()), self.place.user, 0o600);
    }

    fn victim_is_unharmed(&self, context: &str) {
        let precious = self.sandbox.path("victim/precious");
        let stat = precious.symlink_metadata().unwrap();
        assert_eq!(fs::read_to_string(&precious).unwrap(), PRECIOUS, "{context}");
        assert_eq!((stat.mode() & 0o7777, stat.uid()), (0o640, self.place.user), "{context}");
        assert_eq!(fs::read_dir(self.sandbox.path("victim")).unwrap().count(), 1, "{context}");
    }
}

fn give(path: &Path, user: u32, mode: u32) {
    chown(path, Some(user), Some(user)).unwrap();
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// Puts the bait in place by one rename, since weir may look at any moment. `false` if the folder's sticky
/// bit forbids it.
fn plant(bait: Bait, path: &Path, victim: &Path, text: &[u8], place: FolderUser) -> bool {
    let at = path.parent().unwrap().with_file_name(format!("staged-{}", STAGED.fetch_add(1, Relaxed)));
    match bait {
        Bait::Link => symlink(victim.join("precious"), &at).unwrap(),
        Bait::LinkToNothing => symlink(victim.join("new"), &at).unwrap(),
        Bait::Pipe => {
            mkfifoat(CWD, &at, Mode::RUSR).unwrap();
            fs::set_permissions(&at, PermissionsExt::from_mode(0o666)).unwrap();
        }
        Bait::Device => {
            mknodat(CWD, &at, FileType::CharacterDevice, Mode::from_raw_mode(0o666), makedev(1, 3)).unwrap();
        }
        Bait::Socket => drop(UnixListener::bind(&at).unwrap()),
        Bait::Folder => fs::create_dir(&at).unwrap(),
        Bait::HardLink => fs::hard_link(victim.join("precious"), &at).unwrap(),
        Bait::Foreign | Bait::OpenToAll => fs::write(&at, text).unwrap(),
    }
    match bait {
        Bait::OpenToAll => give(&at, place.user, 0o666),
        Bait::Foreign => give(&at, STRANGER, 0o666),
        Bait::HardLink => {}
        _ => lchown(&at, Some(STRANGER), Some(STRANGER)).unwrap(),
    }
    if let Ok(there) = path.symlink_metadata() {
        if place.mode == STICKY {
            return false;
        }
        let _ = if there.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    }
    fs::rename(&at, path).is_ok()
}

/// What the stranger writes under a name: their bytes, and a journal that says that those are the object's.
fn text(ending: &str, left: &Left) -> Vec<u8> {
    match ending {
        ".weir" => Journal { written: vec![(0, LARGE as u64)], ..left.journal.clone() }.to_text(),
        _ => vec![b'!'; LARGE],
    }
}

/// All cases of one place.
fn every_bait(user: u32, mode: u32, owner: u32) {
    let place = FolderUser { user, mode, owner };
    let Some(stage) = Stage::new(place) else { return };
    let left = Arc::new(stage.left());
    for endings in NAMES {
        for bait in BAITS {
            let both = endings.len() > 1;
            if both && !matches!(bait, Bait::Foreign | Bait::OpenToAll) {
                continue;
            }
            for when in [When::Before, When::Between, When::During] {
                for size in SIZES {
                    let is_target = endings == [""];
                    if when == When::Between && size.path == "small" {
                        continue;
                    }
                    // The sticky bit keeps strangers from what is there already.
                    let is_there = match when {
                        When::Before => false,
                        When::Between => endings.iter().any(|ending| [".part", ".weir"].contains(ending)),
                        When::During => endings.contains(&".part") && size.path == "large",
                    };
                    if mode == STICKY && is_there {
                        continue;
                    }
                    for output in ["shared/", "shared/NAME"] {
                        // The name makes a difference to what becomes of the target itself alone.
                        if is_target || output == "shared/NAME" {
                            one_case(&stage, &left, endings, bait, when, size, output);
                        }
                    }
                }
            }
        }
    }
}

fn one_case(
    stage: &Stage,
    left: &Arc<Left>,
    endings: &'static [&'static str],
    bait: Bait,
    when: When,
    size: Size,
    output: &str,
) {
    let place = stage.place;
    let context = format!("{endings:?} {bait:?} {when:?} {size:?} {output} {place:?}");
    // Shown where it fails.
    println!("{context}");
    stage.set_up();
    if when == When::Between {
        stage.lay_out(left);
    }
    let put = {
        let (left, victim) = (Arc::clone(left), stage.sandbox.path("victim"));
        let names: Vec<_> =
            endings.iter().map(|ending| (*ending, stage.shared(&format!("{}{ending}", size.path)))).collect();
        let part = stage.shared(&format!("{}.part", size.path));
        move || -> bool {
            let start = Instant::now();
            while when == When::During
                && size.path == "large"
                && !part.exists()
                && start.elapsed() < Duration::from_secs(2)
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            let planted =
                names.iter().map(|(ending, path)| plant(bait, path, &victim, &text(ending, &left), place));
            planted.fold(false, |any, one| any | one)
        }
    };
    let is_planted = match when {
        When::During => {
            *stage.hook.lock().unwrap() = Some(Box::new(move || _ = put()));
            false
        }
        _ => put(),
    };
    let name = size.path;
    let running = stage.get(size, &output.replace("NAME", name));
    let is_target = endings == [""];
    if is_target && bait == Bait::Pipe && when != When::During && output.ends_with("NAME") {
        // A pipe that the user names waits for a reader; a signal ends the wait.
        let start = Instant::now();
        while !running.catches(Signal::INT) && start.elapsed() < HANGS {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(50));
        running.signal(Signal::INT);
        running.wait_for(HANGS).exits(130);
        return stage.victim_is_unharmed(&context);
    }
    let run = running.wait_for(HANGS);
    stage.victim_is_unharmed(&context);
    judge(stage, &run, bait, size, is_target, &context);
    if is_planted && !is_target && size.path == "large" && endings != [".weir~"] {
        // Whoever wonders where the file of that name went is told.
        let told =
            ["; renamed to shared/", "cannot be resumed"].iter().any(|words| run.stderr.contains(words));
        assert!(told, "{context}\n{}", run.stderr);
    }
}

/// Either the file is whole and this user's, or the run says why not and nothing foreign has its name.
fn judge(stage: &Stage, run: &Run, bait: Bait, size: Size, is_target: bool, context: &str) {
    let said = &run.stderr;
    assert!(!said.contains("panicked"), "{context}\n{said}");
    let target = stage.shared(size.path);
    let there = target.symlink_metadata();
    if run.status.code() == Some(0) {
        let there = there.unwrap();
        if is_target && bait == Bait::Device && there.file_type().is_char_device() {
            // A device that the user names takes the bytes as it is.
            return;
        }
        assert!(there.is_file(), "{context}\n{said}");
        assert!(fs::read(&target).unwrap() == stage.bytes(size), "{context}: wrong bytes\n{said}");
        assert_eq!(there.uid(), stage.place.user, "{context}\n{said}");
        let writers = there.mode() & 0o022;
        // The user's own file keeps the mode that they gave it.
        assert!(
            writers == 0 || is_target && bait == Bait::OpenToAll,
            "{context}: {:o}\n{said}",
            there.mode()
        );
        return;
    }
    assert!(matches!(run.status.code(), Some(1 | 4)), "{context}: {:?}\n{said}", run.status);
    assert!(said.contains("cannot") || said.contains("directory"), "{context}\n{said}");
    if let Ok(there) = there {
        assert!(is_target, "{context}: {:?} is there\n{said}", there.file_type());
        let as_planted = match bait {
            Bait::Link | Bait::LinkToNothing => there.is_symlink(),
            Bait::Folder => there.is_dir(),
            Bait::Foreign => there.uid() == STRANGER && fs::read(&target).unwrap()[..] == [b'!'; LARGE],
            Bait::Pipe | Bait::Device | Bait::Socket => !there.is_file(),
            Bait::OpenToAll | Bait::HardLink => false,
        };
        assert!(as_planted, "{context}: {:?}\n{said}", there.file_type());
    }
}

#[test]
fn root_in_a_sticky_folder() {
    every_bait(0, STICKY, 0);
}

#[test]
fn root_in_a_strangers_folder() {
    every_bait(0, 0o777, STRANGER);
}

#[test]
fn a_user_in_a_sticky_folder() {
    every_bait(NOBODY, STICKY, 0);
}

#[test]
fn a_user_in_a_strangers_folder() {
    every_bait(NOBODY, 0o777, STRANGER);
}

/// Starts several runs at once in a stranger's folder. The server sends half of each file, calls `act` with
/// the file's number, and sends the rest a little later.
fn in_a_strangers_folder(
    user: u32,
    runs: usize,
    act: impl Fn(&Path, usize) + Send + Sync + 'static,
    end: impl Fn(&Stage, usize),
) {
    let place = FolderUser { user, mode: 0o777, owner: STRANGER };
    let Some(stage) = Stage::new(place) else { return };
    stage.set_up();
    let object = Object::new(LARGE);
    let folder = stage.sandbox.path(".");
    let server = Server::start(move |request, wire| {
        let number: usize = request.path().trim_start_matches("/f").parse().unwrap();
        let answer = object.answer(request);
        wire.head(answer.status, &answer.fields)?;
        let half = answer.part.start + answer.part.len() / 2;
        wire.body(&object.bytes[answer.part.start..half])?;
        if request.start() == 0 {
            act(&folder, number);
            // Two journals are kept meanwhile.
            std::thread::sleep(Duration::from_millis(600));
        }
        wire.body(&object.bytes[half..answer.part.end])
    });
    let all: Vec<Running> = (0..runs)
        .map(|number| {
            let (url, output) = (server.url(&format!("f{number}")), format!("shared/f{number}"));
            stage.command(&["get", &url, "-o", &output, "-c", "1"])
        })
        .collect();
    for (number, running) in all.into_iter().enumerate() {
        running.wait_for(HANGS).succeeds();
        end(&stage, number);
    }
}

#[test]
fn journals_that_are_swapped_while_they_are_kept() {
    for user in [0, NOBODY] {
        let place = FolderUser { user, mode: 0o777, owner: STRANGER };
        let act = move |folder: &Path, number: usize| {
            let path = folder.join(format!("shared/f{number}{}", [".weir", ".weir~"][number % 2]));
            let start = Instant::now();
            let journal = folder.join(format!("shared/f{number}.weir"));
            while !journal.exists() && start.elapsed() < Duration::from_secs(5) {
                std::thread::sleep(Duration::from_millis(5));
            }
            plant(BAITS[number / 2], &path, &folder.join("victim"), &[b'!'; 1000], place);
        };
        in_a_strangers_folder(user, 2 * BAITS.len(), act, |stage, number| {
            let target = stage.shared(&format!("f{number}"));
            assert!(fs::read(&target).unwrap() == *stage.large, "{number}");
            assert_eq!(target.symlink_metadata().unwrap().uid(), user);
            stage.victim_is_unharmed(&format!("{number} {user}"));
        });
    }
}

#[test]
fn a_signal_is_heard_whatever_is_in_the_place_of_the_journal() {
    let place = FolderUser { user: NOBODY, mode: 0o777, owner: STRANGER };
    let Some(stage) = Stage::new(place) else { return };
    for bait in BAITS {
        for ending in [".weir", ".weir~"] {
            stage.set_up();
            let (path, victim) = (stage.shared(&format!("large{ending}")), stage.sandbox.path("victim"));
            let journal = stage.shared("large.weir");
            let (planted, is_planted) = std::sync::mpsc::channel::<()>();
            let (ended, is_ended) = std::sync::mpsc::channel::<()>();
            *stage.hook.lock().unwrap() = Some(Box::new(move || {
                let start = Instant::now();
                while !journal.exists() && start.elapsed() < HANGS {
                    std::thread::sleep(Duration::from_millis(5));
                }
                plant(bait, &path, &victim, b"!", place);
                planted.send(()).unwrap();
                let _ = is_ended.recv_timeout(HANGS);
            }));
            let running = stage.get(SIZES[1], "shared/large");
            is_planted.recv_timeout(HANGS).unwrap();
            let start = Instant::now();
            running.signal(Signal::INT);
            running.wait_for(HANGS).exits(130);
            assert!(start.elapsed() < HANGS / 2, "{bait:?} {ending}: {:?}", start.elapsed());
            ended.send(()).unwrap();
            stage.victim_is_unharmed(&format!("{bait:?} {ending}"));
            stage.get(SIZES[1], "shared/large").wait_for(HANGS).succeeds();
            assert!(fs::read(stage.shared("large")).unwrap() == *stage.large);
        }
    }
}

#[test]
fn root_goes_on_with_what_the_folders_owner_began_in_a_file_of_its_own() {
    let place = FolderUser { user: NOBODY, mode: 0o755, owner: NOBODY };
    let Some(stage) = Stage::new(place) else { return };
    let left = stage.left();
    for user in [0, NOBODY] {
        stage.set_up();
        stage.lay_out(&left);
        let theirs = stage.shared("large.part").metadata().unwrap().ino();
        let before = stage.server.requests().len();
        let mut weir = stage.sandbox.get([&*stage.server.url("large"), "-o", "shared/large"]);
        weir.command.uid(user).gid(user);
        weir.run().succeeds();
        let target = stage.shared("large");
        assert!(fs::read(&target).unwrap() == *stage.large);
        let there = target.metadata().unwrap();
        assert_eq!((there.uid(), there.ino() == theirs), (user, user == NOBODY));
        assert!(stage.server.requests_from(before)[0].start() > 0, "it went on");
        assert_eq!(fs::read_dir(stage.shared("")).unwrap().count(), 1);
    }
}

#[test]
fn what_root_left_is_not_a_users_to_go_on_with() {
    let place = FolderUser { user: NOBODY, mode: 0o755, owner: NOBODY };
    let Some(stage) = Stage::new(place) else { return };
    let left = stage.left();
    stage.lay_out(&left);
    for ending in [".part", ".weir"] {
        give(&stage.shared(&format!("large{ending}")), 0, 0o600);
    }
    let run = stage.get(SIZES[1], "shared/large").wait_for(HANGS);
    run.succeeds().says(&["shared/large.part belongs to another user; renamed to shared/large.part.aside-1"]);
    assert!(fs::read(stage.shared("large")).unwrap() == *stage.large);
    assert_eq!(fs::read(stage.shared("large.part.aside-1")).unwrap(), left.part);
}

#[test]
fn a_folder_that_is_swapped_for_a_link_during_a_run() {
    for user in [0, NOBODY] {
        let Some(stage) = Stage::new(FolderUser { user, mode: 0o777, owner: STRANGER }) else { return };
        for (size, output) in
            SIZES.into_iter().flat_map(|size| [(size, "shared/sub/"), (size, "shared/sub/NAME")])
        {
            stage.set_up();
            fs::create_dir(stage.shared("sub")).unwrap();
            give(&stage.shared("sub"), user, 0o755);
            let (sub, away, victim) =
                (stage.shared("sub"), stage.shared("away"), stage.sandbox.path("victim"));
            *stage.hook.lock().unwrap() = Some(Box::new(move || {
                fs::rename(&sub, away).unwrap();
                symlink(victim, &sub).unwrap();
                lchown(&sub, Some(STRANGER), Some(STRANGER)).unwrap();
            }));
            let run = stage.get(size, &output.replace("NAME", size.path)).wait_for(HANGS);
            stage.victim_is_unharmed(&format!("{user} {output}"));
            if run.status.success() {
                let there = stage.shared("away").join(size.path);
                assert!(fs::read(there).unwrap() == stage.bytes(size), "{}", run.stderr);
            }
        }
    }
}

#[test]
fn a_folder_that_is_a_strangers_link() {
    for user in [0, NOBODY] {
        for mode in [0o777, STICKY] {
            let Some(stage) = Stage::new(FolderUser { user, mode, owner: STRANGER }) else { return };
            stage.set_up();
            symlink(stage.sandbox.path("victim"), stage.shared("to")).unwrap();
            lchown(stage.shared("to"), Some(STRANGER), Some(STRANGER)).unwrap();
            let list =
                format!("{}\tto/x\n{}\tto/deep/x\n", stage.server.url("small"), stage.server.url("large"));
            stage.sandbox.write("list", list);
            for args in [&["-o", "shared/to/"][..], &["-o", "shared/to/x"], &["-i", "list", "-o", "shared/"]]
            {
                let url = stage.server.url("small");
                let url = if args[0] == "-i" { &[][..] } else { &[&*url][..] };
                let run = stage.command(&[&["get"], url, args].concat()).wait_for(HANGS);
                assert!(!run.status.success(), "{args:?}");
                stage.victim_is_unharmed(&format!("{user} {mode:o} {args:?}"));
            }
        }
    }
}

#[test]
fn a_pipe_in_the_place_of_a_file_that_stays() {
    let Some(stage) = Stage::new(FolderUser { user: NOBODY, mode: 0o777, owner: STRANGER }) else { return };
    stage.set_up();
    plant(Bait::Pipe, &stage.shared("small"), &stage.sandbox.path("victim"), b"", stage.place);
    let url = stage.server.url("small");
    let sum = "0".repeat(64);
    let args = ["get", &url, "-o", "shared/", "--no-clobber", "--checksum", &format!("sha256:{sum}")];
    stage.command(&args).wait_for(HANGS).fails(1, &["shared/small", "it is not a regular file"]);
}

#[test]
fn an_immutable_part() {
    let Some(stage) = Stage::new(FolderUser { user: 0, mode: 0o777, owner: STRANGER }) else { return };
    stage.set_up();
    let part = stage.shared("large.part");
    fs::write(&part, "for ever").unwrap();
    give(&part, 0, 0o600);
    let chattr = |flag: &str| std::process::Command::new("chattr").arg(flag).arg(&part).status();
    if !chattr("+i").is_ok_and(|status| status.success()) {
        return skip("no immutable files here");
    }
    let run = stage.get(SIZES[1], "shared/large").wait_for(HANGS);
    chattr("-i").unwrap();
    run.succeeds().says(&["shared/large.part cannot be opened", "cannot be resumed"]);
    assert!(fs::read(stage.shared("large")).unwrap() == *stage.large);
    assert_eq!(fs::read(&part).unwrap(), b"for ever");
}

/// A stranger swaps every name all the time. A download may fail, but it ends and harms nobody.
#[test]
fn a_stranger_who_never_stops() {
    const RUNS: usize = 20;
    for user in [0, NOBODY] {
        let place = FolderUser { user, mode: 0o777, owner: STRANGER };
        let Some(stage) = Stage::new(place) else { return };
        stage.set_up();
        let over = Arc::new(AtomicBool::new(false));
        let stranger = {
            let (over, shared, victim) = (over.clone(), stage.shared(""), stage.sandbox.path("victim"));
            std::thread::spawn(move || {
                // Not by chance, so that each bait meets each name at each moment sooner or later.
                for number in 0.. {
                    if over.load(Relaxed) {
                        return;
                    }
                    let name = ["small", "large"][number % 2];
                    let ending = ["", ".part", ".weir", ".weir~"][number / 2 % 4];
                    let path = shared.join(format!("{name}{ending}"));
                    plant(BAITS[number % BAITS.len()], &path, &victim, b"!", place);
                }
            })
        };
        for number in 0..RUNS {
            let size = SIZES[number % SIZES.len()];
            let run = stage.get(size, "shared/").wait_for(HANGS);
            assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
            assert!(matches!(run.status.code(), Some(0 | 1 | 4)), "{:?} {}", run.status, run.stderr);
        }
        over.store(true, Relaxed);
        stranger.join().unwrap();
        stage.victim_is_unharmed(&format!("{user}"));
    }
}

/// Other files that a run writes: a page and the evidence.
#[test]
fn pages_and_evidence() {
    for (user, mode) in [(0, STICKY), (0, 0o777), (NOBODY, STICKY), (NOBODY, 0o777)] {
        let place = FolderUser { user, mode, owner: STRANGER };
        let Some(stage) = Stage::new(place) else { return };
        for bait in BAITS {
            for flag in ["--report", "--evidence"] {
                stage.set_up();
                let path = stage.shared("it");
                plant(bait, &path, &stage.sandbox.path("victim"), b"!", place);
                let url = stage.server.url("small");
                let run = stage.command(&["get", &url, "-o", "-", flag, "shared/it"]).wait_for(HANGS);
                let context = format!("{bait:?} {flag} {place:?}\n{}", run.stderr);
                stage.victim_is_unharmed(&context);
                let there = path.symlink_metadata().unwrap();
                if run.status.success() && bait != Bait::Device {
                    assert!(there.is_file() && there.uid() == user && there.len() > 1, "{context}");
                } else if bait != Bait::Device {
                    assert!(run.stderr.contains("cannot write"), "{context}");
                }
            }
        }
    }
}
