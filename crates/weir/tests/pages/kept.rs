//! Records and a calibration of version 0.1 still load: `../kept/0.1` has them as it wrote them, one of each
//! command.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use std::path::PathBuf;

use support::{Sandbox, WEIR};

fn kept() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/kept/0.1")
}

#[test]
fn records_of_0_1_are_drawn() {
    let sandbox = Sandbox::new();
    let mut names: Vec<_> =
        std::fs::read_dir(kept().join("records")).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    assert!(names.len() >= 12, "{names:?}");
    for path in &names {
        let record = weir_report::json::parse(&std::fs::read_to_string(path).unwrap());
        let command = record.unwrap_or_else(|error| panic!("{}: {error}", path.display())).command;
        let run = sandbox.weir(WEIR, ["report", "-q", path.to_str().unwrap(), "-o", "page.html"]).run();
        run.succeeds();
        let page = String::from_utf8(sandbox.read("page.html")).unwrap();
        assert!(page.contains("<html") && page.contains(&command), "{}", path.display());
        // A member that did not load would be left out, and said to be.
        assert!(
            !page.contains("cannot be shown") && run.stderr.is_empty(),
            "{}: {}",
            path.display(),
            run.stderr
        );
    }
}

#[test]
fn the_version_tells_what_this_program_speaks_and_reads() {
    let sandbox = Sandbox::new();
    let said = |args: &[&str]| sandbox.weir(WEIR, args).run().succeeds().stdout.clone();
    let short = said(&["--version"]);
    assert!(short.starts_with(concat!("weir ", env!("CARGO_PKG_VERSION"), " (").as_bytes()), "{short:?}");
    assert_eq!(short.iter().filter(|byte| **byte == b'\n').count(), 1);
    assert_eq!(said(&["version"]), short);
    let told = sandbox.weir(WEIR, ["version", "--json"]).run().json();
    assert_eq!(told["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(told["protocols"]["cp"], weir_cp::wire::message::PROTOCOL);
    assert_eq!(
        (&told["record"], &told["journal"], &told["part_log"]),
        (&"weir.run/1".into(), &2.into(), &2.into())
    );
    for list in ["features", "codecs", "ciphers", "digests"] {
        assert!(told[list].as_array().is_some_and(|names| names.len() >= 3), "{list}: {told}");
    }
    assert!(told["target"].as_str().unwrap().contains("-linux-"), "{told}");
    for args in [["--version", "--json"], ["--json", "--version"], ["-V", "--json"]] {
        assert_eq!(sandbox.weir(WEIR, args).run().json(), told);
    }
}
