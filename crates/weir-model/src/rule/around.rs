//! What a program did while no byte moved, over the judged window and those beside it.

use super::Context;
use crate::around::Around;
use crate::evidence::Window;

/// Seconds on each side of a window that are looked at with it: two windows.
const BESIDE: f64 = 0.2;

/// Samples of one kind as a share of all in this window and those beside it, 0 to 1: turns of about a window's length fall
/// into one of five samples here and into four of them there.
pub(crate) fn share_near(window: &Window, context: &Context<'_>, of: impl Fn(&Around) -> u32) -> f64 {
    let near = context.around(window, BESIDE);
    let (mut found, mut all) = (0.0, 0.0);
    for window in near {
        found += f64::from(of(&window.around).min(window.around.samples));
        all += f64::from(window.around.samples);
    }
    if all > 0.0 { found / all } else { 0.0 }
}
