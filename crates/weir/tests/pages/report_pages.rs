//! `weir report`'s pages in a real browser: every kind of record in docs/gallery at two widths, light and
//! dark. No console message, nothing asked of the network, no text cut or overlapping, contrast, names,
//! headings.

use crate::support;

use std::path::{Path, PathBuf};

use support::browser::Browser;
use support::{Sandbox, WEIR, skip};

/// The records that the gallery is made from.
fn records() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/gallery/records");
    let entries = std::fs::read_dir(folder).expect("the gallery's records");
    let mut records: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    records.sort();
    records
}

/// A page of these records, made by the program itself.
fn page(sandbox: &Sandbox, name: &str, records: &[&Path]) -> PathBuf {
    let page = sandbox.path(name);
    let mut weir = sandbox.weir(WEIR, ["report"]);
    weir.command.args(records).arg("-o").arg(&page);
    weir.run().succeeds();
    page
}

/// What is wrong with a page in any of the four ways to look at it.
pub(super) fn look(browser: &mut Browser, page: &Path, shots: &Path) -> Vec<String> {
    let checks = include_str!("checks.js");
    let name = page.file_stem().expect("a name").to_string_lossy().into_owned();
    let mut wrong = Vec::new();
    for width in [1280, 380] {
        for mode in ["light", "dark"] {
            browser.open(page, width, mode);
            let found = browser.evaluate(checks);
            let found = found
                .as_array()
                .expect("a list")
                .iter()
                .map(|line| line.as_str().unwrap_or_default().to_owned());
            let said = found.chain(browser.complaints.clone());
            wrong.extend(said.map(|line| format!("{name} at {width}, {mode}: {line}")));
            browser.screenshot(&shots.join(format!("{name}-{width}-{mode}.png")));
        }
        // With every table open, too.
        browser.evaluate("document.querySelectorAll('details').forEach((one) => one.open = true)");
        let found = browser.evaluate(checks);
        let found =
            found.as_array().expect("a list").iter().map(|line| line.as_str().unwrap_or_default().to_owned());
        wrong.extend(found.map(|line| format!("{name} at {width}, tables open: {line}")));
    }
    wrong
}

pub(super) fn shots() -> PathBuf {
    let shots = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages");
    std::fs::create_dir_all(&shots).expect("a folder for pictures");
    shots
}

#[test]
fn every_kind_of_page_reads_well_in_a_browser() {
    let mut browser = match Browser::start() {
        Ok(browser) => browser,
        Err(why) => return skip(&why),
    };
    let sandbox = Sandbox::new();
    let mut wrong = Vec::new();
    let records = records();
    for record in &records {
        let name = format!("{}.html", record.file_stem().expect("a name").to_string_lossy());
        let page = page(&sandbox, &name, &[record]);
        wrong.extend(look(&mut browser, &page, &shots()));
    }
    let runs = ["get-window.json", "get-window-mended.json"].map(|name| records[0].with_file_name(name));
    let compared = page(&sandbox, "compared.html", &[&runs[0], &runs[1]]);
    wrong.extend(look(&mut browser, &compared, &shots()));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
