//! Who held the figure, told apart on a machine that has nothing else to do.

use super::MACHINE;
use super::held::{in_a_lab, python, sandbox_with_server};
use crate::support::http_servers::sandbox_with_www;
use crate::support::{WEIR, undisturbed};

const HEAVY: &str =
    "local n = 0\nfunction request() for i = 1, 2e7 do n = n + i % 7 end return wrk.format() end\n";

#[test]
fn who_held_the_figure_is_told_apart() {
    let _alone = MACHINE.write();
    for (words, args, holders, limit) in [
        (&["sleeps", "30"][..], &["-c", "4"][..], &["server"][..], "application"),
        // It counts as reached where two of these hundred are missing: a tenth of a second at the end.
        (&["quick"], &["-c", "1", "--rate", "20", "-d", "5s"], &["rate"], "rate-limit"),
        // A script that thinks for longer than the server answers.
        (&["quick"], &["-c", "1", "-s", "heavy.lua"], &["script"], "cpu-core"),
        // On a processor all the time, but for the moments of one connection's turns; or waiting for one,
        // where others have it.
        (&["computes", "50"], &["-c", "1"], &["server-cpu", "processor"], "cpu-core"),
    ] {
        let sandbox = sandbox_with_server();
        let Some(server) = python(&sandbox, words) else { return };
        sandbox.write("heavy.lua", HEAVY);
        let run =
            || sandbox.weir(WEIR, ["bench", "http", "--json", "-d", "1s", &server.url]).args(args).run();
        let record = undisturbed(run).succeeds().json();
        let held_by = record["http"]["held_by"].as_str().unwrap_or_default();
        assert!(holders.contains(&held_by) && record["verdict"]["limit"] == limit, "{record}");
    }
}

#[test]
fn a_full_link_and_too_few_connections_are_told_apart() {
    let _alone = MACHINE.write();
    let sandbox = sandbox_with_www();
    sandbox.write("www/large", vec![b'x'; 200_000]);
    sandbox.write("www/small", b"x");
    let run = |path: &[&str], load: &str| undisturbed(|| in_a_lab(&sandbox, path, load));
    let full = "-c 8 -t 1 -d 2s --timeout 10s $WEIR_LAB_URL/large";
    let Some(record) = run(&["--rate", "20Mbit", "--delay", "10ms"], full) else { return };
    // Where no queue shows at this end, the server's pace is not told from the path's.
    let held_by = record["http"]["held_by"].as_str();
    assert!(matches!(held_by, Some("path" | "server-or-path")), "{record}");
    let few = "-c 2 -t 1 -d 1s $WEIR_LAB_URL/small";
    let Some(record) = run(&["--delay", "20ms"], few) else { return };
    assert_eq!(
        (&record["http"]["held_by"], &record["verdict"]["limit"]),
        (&"connections".into(), &"latency".into()),
        "{record}"
    );
}
