//! `--tui` on a terminal, driven as a user drives it: by keys and sizes, in tmux. What is drawn is
//! weir-report's to test; here it is that a run draws at all, that keys end it, and that the terminal comes
//! back as it was.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use support::net::NetServer;
use support::{MIB, Sandbox, Serving, Sshd, TIMEOUT, WEIR, pattern, skip, unfolded, wait_for};

/// A minute for the whole file, so that no view ends before it is looked at; a journal has something in it
/// long before.
const SLOW: &str = "--limit-rate 1M";

/// A shell in a terminal of its own.
pub(super) struct Screen<'a> {
    sandbox: &'a Sandbox,
}

impl<'a> Screen<'a> {
    /// `None` where there is no tmux.
    pub(super) fn new(sandbox: &'a Sandbox) -> Option<Screen<'a>> {
        if Command::new("tmux").arg("-V").stdout(Stdio::null()).status().is_err() {
            skip("there is no tmux");
            return None;
        }
        let screen = Screen { sandbox };
        let shell = ["env", "PS1=ready> ", "bash", "--norc", "--noprofile", "-i"];
        screen.tmux(&[&["new-session", "-d", "-x", "120", "-y", "40"][..], &shell].concat());
        screen.until("a prompt", |text| text.contains("ready>"));
        Some(screen)
    }

    pub(super) fn tmux(&self, args: &[&str]) -> String {
        let mut command = self.sandbox.weir("tmux", ["-u", "-S"]).command;
        command.arg(self.sandbox.path("tmux")).args(["-f", "/dev/null"]).args(args).env("LC_ALL", "C.UTF-8");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// What is to be seen, wrapped lines as one.
    fn text(&self) -> String {
        plain(&self.tmux(&["capture-pane", "-p", "-J"]))
    }

    /// The same with what has gone out at the top.
    pub(super) fn whole(&self) -> String {
        plain(&self.tmux(&["capture-pane", "-p", "-J", "-S", "-"]))
    }

    /// Rows as they are, without the empty ones below.
    fn rows(&self) -> Vec<String> {
        let text = self.tmux(&["capture-pane", "-p"]);
        text.trim_end().lines().map(str::to_owned).collect()
    }

    /// Types a line.
    fn types(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.press("Enter");
    }

    pub(super) fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    /// Waits until the screen is as it should be, and returns it.
    #[track_caller]
    pub(super) fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let text = self.text();
            if is_so(&text) {
                return text;
            }
            assert!(Instant::now() < deadline, "no {what}:\n{text}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Runs `weir` with these arguments, between two looks at the terminal's modes, and waits for the view.
    fn view(&self, args: &str) -> String {
        self.view_until(args, |text| text.contains("limit: ") && text.contains("▶ "))
    }

    /// The same of a view that looks otherwise.
    #[track_caller]
    pub(super) fn view_until(&self, args: &str, is_drawn: impl Fn(&str) -> bool) -> String {
        self.types(&format!(
            "stty -g > before; echo $$ > shell; {WEIR} {args}; echo code=$?; stty -g > after"
        ));
        self.until("live view", is_drawn)
    }

    /// The command has ended with this code; the terminal is as it was before.
    #[track_caller]
    pub(super) fn is_over(&self, code: i32) -> String {
        // The command's own line has `code=$?`.
        let text = self.until("end of the view", |text| {
            text.contains(&format!("code={code}\n")) && text.trim_end().ends_with("ready>")
        });
        assert_eq!(self.sandbox.read("before"), self.sandbox.read("after"), "the modes of the terminal");
        assert_eq!(
            self.tmux(&["display", "-p", "#{cursor_flag} #{alternate_on}"]).trim(),
            "1 0",
            "cursor and screen"
        );
        text
    }

    /// Sends a signal to the process that the shell waits for.
    fn signal(&self, signal: Signal) {
        let shell = String::from_utf8(self.sandbox.read("shell")).unwrap();
        let shell = shell.trim();
        let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
        let child = Pid::from_raw(children.trim().parse().unwrap()).unwrap();
        kill_process(child, signal).unwrap();
    }
}

impl Drop for Screen<'_> {
    fn drop(&mut self) {
        let mut command = self.sandbox.weir("tmux", ["-S"]).command;
        let _ = command.arg(self.sandbox.path("tmux")).arg("kill-server").status();
    }
}

/// Lines without the spaces at their ends.
fn plain(text: &str) -> String {
    text.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// The colours that are asked for, by their numbers.
fn colours(text: &str) -> Vec<u32> {
    let asked = text.split("\x1b[").filter_map(|part| part.split_once('m'));
    let numbers = asked.flat_map(|(numbers, _)| numbers.split(';').filter_map(|number| number.parse().ok()));
    numbers.filter(|number| matches!(number, 30..=38 | 90..=97)).collect()
}

/// A server with a file that takes a minute at that rate.
fn serve(sandbox: &Sandbox) -> Serving {
    std::fs::create_dir(sandbox.path("www")).unwrap();
    sandbox.write("www/big.bin", pattern(60 * MIB, 7));
    sandbox.serve("www", &[])
}

/// The same command, without a view, completes what came, and begins not at the beginning.
fn goes_on(sandbox: &Sandbox, server: &Serving) {
    let run = sandbox.get([&server.url("big.bin"), "-o", "out", "--json"]).run();
    let record = run.succeeds().json();
    assert!(record["files"][0]["resumed_from"].as_u64().unwrap() > 0, "{record}");
    assert!(sandbox.read("out") == pattern(60 * MIB, 7), "other bytes");
}

#[test]
fn a_get_is_drawn_resized_and_ended_by_a_key() {
    let sandbox = Sandbox::new();
    let Some(screen) = Screen::new(&sandbox) else { return };
    let server = serve(&sandbox);
    screen.view(&format!("get {} -o out --tui {SLOW}", server.url("big.bin")));
    let whole = screen.until("whole picture", |text| {
        text.contains("limit: rate-limit ") && text.contains("s left") && text.contains("rate up to")
    });
    for part in
        ["weir get http://127.0.0.1", "▶ Source", "│ Store", "1 connection", "files", "big.bin", "q ends it"]
    {
        assert!(whole.contains(part), "no {part}:\n{whole}");
    }
    screen.tmux(&["resize-window", "-x", "40", "-y", "12"]);
    // On a busy machine a look may fall between two pictures, or another limit show for a moment.
    screen.until("picture of 40 x 12", |_| {
        let rows = screen.rows();
        rows.len() == 12
            && rows[0].starts_with("weir get")
            && rows[2].starts_with("limit: rate-limit")
            && rows[3..8].iter().any(|row| row.starts_with("▶ Source"))
            && rows[11].starts_with("q ends it")
    });
    screen.tmux(&["set-buffer", "a q that is pasted"]);
    screen.tmux(&["paste-buffer", "-p"]);
    let before = screen.rows();
    screen.until("picture after the paste", |_| screen.rows() != before);
    // All of it in one go: a busy machine reads it so.
    screen.tmux(&["send-keys", "x", "Up", "q"]);
    screen.is_over(130);
    let text = unfolded(&screen.whole());
    assert!(text.contains("are kept, run the same command again to resume"), "{text}");
    assert!(!text.contains("▶ Source"), "the view is left on the screen:\n{text}");
    goes_on(&sandbox, &server);
}

#[test]
fn after_sigkill_the_same_command_goes_on() {
    let sandbox = Sandbox::new();
    let Some(screen) = Screen::new(&sandbox) else { return };
    let server = serve(&sandbox);
    screen.view(&format!("get {} -o out --tui {SLOW}", server.url("big.bin")));
    wait_for("a journal", || sandbox.journalled("out") > 0);
    screen.signal(Signal::KILL);
    screen.until("end", |text| text.contains("code=137"));
    goes_on(&sandbox, &server);
}

#[test]
fn signals_give_the_terminal_back() {
    let sandbox = Sandbox::new();
    let Some(screen) = Screen::new(&sandbox) else { return };
    let server = serve(&sandbox);
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        screen.types("clear");
        screen.view(&format!("get {} -o out --tui {SLOW}", server.url("big.bin")));
        screen.signal(signal);
        screen.is_over(130);
    }
    screen.types("clear");
    screen.view(&format!("get {} -o out --tui {SLOW}", server.url("big.bin")));
    screen.press("C-c");
    screen.is_over(130);
}

#[test]
fn a_second_signal_ends_at_once_and_gives_the_terminal_back() {
    let sandbox = Sandbox::new();
    let Some(screen) = Screen::new(&sandbox) else { return };
    sandbox.write("big.bin", pattern(60 * MIB, 7));
    // A far end that hangs: the first signal is heard, but that end is waited for, two seconds (FAREWELL of
    // weir-cp's ssh). A machine that needs more than one of them to show a word has not asked in time, and
    // shows nothing.
    let in_time = (0..20).any(|_| {
        screen.view(&format!("cp big.bin copy --tui {SLOW}"));
        let hangs = far_end(&sandbox);
        kill_process(hangs, Signal::STOP).unwrap();
        let asked = Instant::now();
        screen.press("C-c");
        screen.until("word that it ends", |text| {
            text.contains("asked once more it ends at once") || text.contains("code=130\n")
        });
        // Within a quarter of a second it would be the same wish: from when it was heard, which is before it
        // is to be seen.
        std::thread::sleep(Duration::from_millis(260));
        let in_time = asked.elapsed() < Duration::from_secs(1);
        if in_time {
            screen.press("C-c");
        }
        screen.is_over(130);
        // It goes on when the one that started it has ended, as what was stopped in an orphaned group does
        // (exit(3)), and may be gone.
        let _ = kill_process(hangs, Signal::KILL);
        let whole = screen.whole();
        assert!(!in_time || !whole.contains("incomplete"), "it ended in order:\n{whole}");
        if !in_time {
            screen.types("clear; tmux clear-history; rm -rf copy*");
        }
        in_time
    });
    assert!(in_time, "this machine is too slow to ask twice within two seconds");
}

/// The far end that a copy in this sandbox has started on this machine.
fn far_end(sandbox: &Sandbox) -> Pid {
    let here = sandbox.path("").canonicalize().unwrap();
    let is_ours = |process: &std::path::Path| {
        std::fs::read(process.join("cmdline")).is_ok_and(|line| line.ends_with(b"\0peer\0"))
            && std::fs::read_link(process.join("cwd")).is_ok_and(|folder| folder == here)
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let found = processes
        .filter(|process| is_ours(process))
        .find_map(|process| Pid::from_raw(process.file_name()?.to_str()?.parse().ok()?));
    found.expect("a far end")
}

#[test]
fn a_stopped_view_comes_back_in_the_foreground() {
    let sandbox = Sandbox::new();
    let Some(screen) = Screen::new(&sandbox) else { return };
    let server = serve(&sandbox);
    // A job of its own, without what comes behind it.
    screen.types(&format!("stty -g > before; {WEIR} get {} -o out --tui {SLOW}", server.url("big.bin")));
    screen.until("live view", |text| text.contains("▶ Source"));
    screen.press("C-z");
    screen.until("prompt", |text| text.contains("Stopped") && text.trim_end().ends_with("ready>"));
    screen.types("stty -g > after; fg; echo code=$?");
    screen.until("live view again", |text| text.contains("▶ Source"));
    screen.press("q");
    screen.is_over(130);
}

/// Looks at a port that nobody uses, until it is told to end.
const WATCH: &str = "why --watch --port 9";

#[test]
fn a_watch_gives_the_terminal_back() {
    let sandbox = Sandbox::new();
    let Some(screen) = Screen::new(&sandbox) else { return };
    let watch = || {
        screen.types("clear");
        screen.view_until(WATCH, |text| text.contains("not known yet"));
    };
    for signal in [Signal::HUP, Signal::TERM, Signal::INT] {
        watch();
        screen.signal(signal);
        screen.is_over(1);
    }
    watch();
    // SIGQUIT would end it without a word.
    screen.tmux(&["send-keys", "C-\\", "q"]);
    screen.is_over(1);
}

#[test]
fn a_watch_in_the_background_comes_to_its_end() {
    let sandbox = Sandbox::new();
    let Some(screen) = Screen::new(&sandbox) else { return };
    screen.types(&format!("{WEIR} {WATCH} --report page.html"));
    screen.until("watch", |text| text.contains("not known yet"));
    screen.press("C-z");
    screen.until("prompt", |text| text.contains("Stopped") && text.trim_end().ends_with("ready>"));
    // A job that the terminal stopped once more would have 128 and SIGTTOU.
    screen.types("bg; kill -INT %1; wait $!; echo code=$?");
    screen.until("end", |text| text.contains("code=1\n"));
    assert!(sandbox.path("page.html").exists(), "{:?}", sandbox.names());
}

#[test]
fn keys_come_from_the_terminal_though_stdin_is_data() {
    let sandbox = Sandbox::new();
    let Some(screen) = Screen::new(&sandbox) else { return };
    let server = serve(&sandbox);
    sandbox.write("list", format!("{}\tone\n{}\ttwo\n", server.url("big.bin"), server.url("big.bin")));
    let whole = screen.view(&format!("get -i - -o all/ --tui {SLOW} < list"));
    assert!(whole.contains("get 2 files"), "{whole}");
    screen.press("q");
    screen.is_over(130);
}

#[test]
fn without_colours_no_colour_is_sent() {
    let sandbox = Sandbox::new();
    let Some(screen) = Screen::new(&sandbox) else { return };
    let server = serve(&sandbox);
    screen.view(&format!("get {} -o out --tui {SLOW}", server.url("big.bin")));
    assert!(
        !colours(&screen.tmux(&["capture-pane", "-p", "-e"])).is_empty(),
        "colours are told apart from none"
    );
    screen.press("q");
    screen.is_over(130);
    screen.types("clear; export NO_COLOR=1");
    screen.view(&format!("get {} -o out --tui {SLOW}", server.url("big.bin")));
    let sent = screen.tmux(&["capture-pane", "-p", "-e"]);
    assert_eq!(colours(&sent), [0; 0], "{sent}");
    screen.press("q");
    screen.is_over(130);
}

#[test]
fn a_dumb_terminal_gets_the_usual_line() {
    let sandbox = Sandbox::new();
    let Some(screen) = Screen::new(&sandbox) else { return };
    let server = serve(&sandbox);
    screen
        .types(&format!("TERM=dumb {WEIR} get {} -o out --tui {SLOW}; echo code=$?", server.url("big.bin")));
    let text = screen.until("usual line", |text| text.contains(" %  ") && text.contains("rate-limit"));
    assert!(text.contains("no live view: TERM") && !text.contains("▶"), "{text}");
    screen.press("C-c");
    screen.until("end", |text| text.contains("code=130\n"));
}

#[test]
fn without_a_terminal_it_is_as_without_the_flag() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("www")).unwrap();
    sandbox.write("www/x", pattern(MIB, 1));
    let server = sandbox.serve("www", &[]);
    let run = sandbox.get([&server.url("x"), "-o", "out", "--tui"]).run();
    run.succeeds().says(&["no live view: stdout is not a terminal", "received 1.05 MB"]);
    assert!(run.stdout.is_empty() && !run.stderr.contains('\x1b'), "{run:?}");
    assert_eq!(sandbox.read("out"), sandbox.read("www/x"));
}

#[test]
fn long_work_tells_how_far_it_is() {
    let sandbox = Sandbox::new();
    let Some(screen) = Screen::new(&sandbox) else { return };
    screen.types(&format!("{WEIR} bench codec --generate text; echo code=$?"));
    screen.until("line of steps", |text| {
        text.lines()
            .any(|line| line.starts_with("measuring ") && line.contains("(3 of ") && line.ends_with(" left"))
    });
    screen.press("C-c");
    screen.until("end", |text| text.contains("code=130\n"));
}

#[test]
fn another_programs_transfer_is_drawn_and_its_output_kept() {
    let sandbox = Sandbox::new();
    let Some(screen) = Screen::new(&sandbox) else { return };
    let server = serve(&sandbox);
    let get = format!("{WEIR} get {} -o out -v {SLOW}", server.url("big.bin"));
    let text = screen.view(&format!("why --tui -- sh -c 'echo here it begins; exec {get}'"));
    assert!(text.contains("weir why sh (pid ") && !text.contains("here it begins\n"), "{text}");
    screen.until("lanes by their ends", |text| text.contains("from 127.0.0.1:"));
    screen.press("q");
    let text = screen.is_over(130);
    assert!(
        text.contains("here it begins\n") && text.contains("are kept") && text.contains("carried "),
        "{text}"
    );
}

#[test]
fn a_copy_is_drawn_once_its_session_stands() {
    let sandbox = Sandbox::new();
    let Some(sshd) = Sshd::start() else { return };
    let Some(screen) = Screen::new(&sandbox) else { return };
    sandbox.write("big.bin", pattern(60 * MIB, 7));
    let (config, to) = (sshd.path("ssh_config"), sandbox.path("copy"));
    let text = screen.view(&format!("cp -F {} big.bin far:{} --tui {SLOW}", config.display(), to.display()));
    assert!(text.contains("weir cp big.bin to "), "{text}");
    // Enough for a part that a later run goes on from.
    let percent = |text: &str| -> Option<u32> {
        let row = text.lines().nth(1)?;
        row.split(" %").next()?.split_whitespace().next_back()?.parse().ok()
    };
    screen.until("a fifth", |text| percent(text).is_some_and(|percent| percent >= 20));
    screen.press("q");
    screen.is_over(130);
    let run = sshd.cp(&sandbox, &["big.bin", &format!("far:{}", to.display()), "--json"]).run();
    let record = run.succeeds().json();
    assert!(record["resumed"].as_u64().unwrap() > 0, "{record}");
    assert_eq!(sandbox.read("copy"), sandbox.read("big.bin"));
}

#[test]
fn a_measurement_is_drawn_and_its_lines_are_kept() {
    let sandbox = Sandbox::new();
    let Some(screen) = Screen::new(&sandbox) else { return };
    let server = NetServer::weir(&["--one-off"]);
    let port = server.port;
    screen.view(&format!("bench net -c 127.0.0.1 -p {port} -t 30 -b 80M --tui"));
    let text = screen.until("stream", |text| text.contains("stream 1 to 127.0.0.1"));
    assert!(text.contains("bench net, TCP to 127.0.0.1") && text.contains("s left"), "{text}");
    screen.press("q");
    let text = screen.is_over(130);
    assert!(text.contains("connected to 127.0.0.1"), "{text}");
}
