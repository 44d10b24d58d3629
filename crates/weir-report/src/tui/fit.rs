//! Which parts of the view a terminal of this size has room for, and where they lie.

use ratatui_core::layout::Rect;

use super::Snapshot;

/// The parts, from above to below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// What it is, and since when.
    Head,
    /// How far it is.
    Progress,
    /// What holds it, and the time left.
    Limit,
    /// The numbers behind that.
    Reasons,
    /// Each stage with its load.
    Pipeline,
    /// The rate over time.
    Rate,
    /// Connections.
    Lanes,
    /// Files.
    Files,
    /// What was decided.
    Log,
    /// What keys do.
    Keys,
}

/// Parts that have an empty row above them where there are rows left.
const APART: [Part; 5] = [Part::Pipeline, Part::Rate, Part::Lanes, Part::Files, Part::Log];

/// Each part that is drawn with its rectangle, from above to below; the keys on the last row.
pub(super) fn fit(area: Rect, snapshot: &Snapshot) -> Vec<(Part, Rect)> {
    let heights = heights(area.height.into(), snapshot);
    let mut spare = usize::from(area.height) - heights.iter().map(|(_, rows)| rows).sum::<usize>();
    let mut top = area.y;
    let mut placed = Vec::new();
    for (part, rows) in heights {
        // Each at most the frame's height, which is a `u16`.
        let rows = rows as u16;
        if spare > 0 && APART.contains(&part) {
            (spare, top) = (spare - 1, top + 1);
        }
        if part == Part::Keys {
            top = area.bottom() - rows;
        }
        placed.push((part, Rect { y: top, height: rows, ..area }));
        top += rows;
    }
    placed
}

/// Rows for each part, in order of need: the first wishes are met first. A part that has its first row may
/// get more.
fn heights(rows: usize, snapshot: &Snapshot) -> Vec<(Part, usize)> {
    let (lanes, files) = (snapshot.lanes.len(), snapshot.files.len());
    // A list with its title.
    let list = |count: usize, most: usize| if count == 0 { 0 } else { 1 + count.min(most) };
    let wishes = [
        (Part::Progress, 1),
        (Part::Limit, 1),
        (Part::Pipeline, snapshot.stages.len()),
        (Part::Keys, 1),
        (Part::Rate, 1),
        (Part::Lanes, lanes.min(1)),
        (Part::Head, 1),
        (Part::Log, snapshot.log.len().min(1)),
        (Part::Files, files.min(1)),
        (Part::Reasons, snapshot.reasons.len().min(1)),
        (Part::Rate, 3),
        (Part::Lanes, list(lanes, 4)),
        (Part::Files, list(files, 3)),
        (Part::Log, list(snapshot.log.len(), 3)),
        (Part::Reasons, snapshot.reasons.len()),
        (Part::Rate, 6),
        (Part::Lanes, list(lanes, lanes)),
        (Part::Files, list(files, files)),
        (Part::Log, list(snapshot.log.len(), snapshot.log.len())),
        (Part::Rate, 8),
    ];
    let mut left = rows;
    let mut given: Vec<(Part, usize)> = Vec::new();
    for (part, wish) in wishes {
        let has = given.iter().find(|(other, _)| *other == part).map_or(0, |(_, rows)| *rows);
        let mut more = wish.saturating_sub(has).min(left);
        // A pipeline with stages missing would hide the one that holds: it is drawn whole, or in one row.
        if part == Part::Pipeline && more < wish {
            more = more.min(1);
        }
        left -= more;
        match given.iter_mut().find(|(other, _)| *other == part) {
            Some((_, rows)) => *rows += more,
            None if more > 0 => given.push((part, more)),
            None => {}
        }
    }
    given.sort_by_key(|(part, _)| *part);
    given
}
