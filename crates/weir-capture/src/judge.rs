//! The same judge as for live connections, and of what it acquits only what a capture can show.

use weir_model::evidence::Evidence;
use weir_model::limit::Limit;
use weir_model::verdict::{Verdict, explain};

use crate::evidence::NOT_VISIBLE;

/// What packets alone can acquit. The rest lies in threads, disks, buffers and programs, which no packet
/// shows: a limit that was never looked for is not ruled out.
const VISIBLE: [Limit; 8] = [
    Limit::Application,
    Limit::RequestResponse,
    Limit::Timeouts,
    Limit::Latency,
    Limit::ReceiveWindow,
    Limit::Reader,
    Limit::PathLoss,
    Limit::PathBandwidth,
];

/// What is said in one line in place of many.
const UNSEEN: &str =
    "not visible in a capture: send buffer, congestion window and control, threads, processors, disks";

/// Judges what a capture shows.
pub fn judge(evidence: &Evidence, notes: &[String]) -> Verdict {
    let mut verdict = explain(evidence);
    let visible = |line: &String| {
        line.split(':').next().and_then(Limit::parse).is_some_and(|limit| VISIBLE.contains(&limit))
    };
    verdict.innocent.retain(visible);
    verdict.missing.retain(|line| !line.ends_with(NOT_VISIBLE));
    for line in &mut verdict.missing {
        // What a live watch lacks is an old kernel's; a capture lacks the SYN. Not all rules name the kernel
        // that reports it.
        let unread = "this kernel does not report it";
        *line = line.replace(" (Linux 5.4 does)", "").replace(unread, "its scale was not captured");
    }
    verdict.missing.push(UNSEEN.to_owned());
    verdict.missing.splice(0..0, notes.iter().cloned());
    verdict
}
