//! `weir demo`: what does weir do on this machine alone?
//!
//! First the main job, on a slow path of the lab: what limits it, what to change, what that brings. Each
//! other scene starts the embedded server on 127.0.0.1, runs this same program as a child against it, the way
//! a user would, and says in one line what to see in the figures. How a child is run and its summary printed
//! is [`show`]'s. Whatever a scene sets up is undone when it ends, fails or is interrupted; what a killed
//! demo left, the next one or the next run of the lab undoes.

mod capped;
mod disk;
mod large;
mod resume;
mod show;
mod slow_path;
mod small;

use crate::args::{Demo, Scene};
use crate::interrupt::{self, INTERRUPTED};
use crate::voice;
use show::{SceneOutcome, Show};

/// In the order they are shown.
const ALL: [Scene; 6] =
    [Scene::SlowPath, Scene::Large, Scene::Capped, Scene::Disk, Scene::Small, Scene::Resume];

/// Plays the scenes asked for, or all. Returns the exit code: 1 when a scene failed, 0 also when one was
/// skipped.
pub fn run(demo: &Demo) -> anyhow::Result<u8> {
    voice::start_log(false, 0);
    let scenes = if demo.scenes.is_empty() { &ALL[..] } else { &demo.scenes };
    // Before anything else starts a thread: a process with several cannot change its user namespace.
    let no_lab = scenes.contains(&Scene::SlowPath).then(|| weir_lab::privilege::enter().err()).flatten();
    let stop = interrupt::stop_and_undo()?;
    let mut show = Show::open(stop, no_lab)?;
    let mut code = 0;
    for scene in scenes {
        let outcome = play(*scene, &mut show);
        if show.is_stopped() {
            show.leave_live_line();
            return Ok(INTERRUPTED);
        }
        match outcome {
            Ok(SceneOutcome::Shown) => {}
            Ok(SceneOutcome::Skipped(why)) => show.say(&format!("skipped: {why}"))?,
            Err(error) => {
                show.say(&format!("failed: {}", voice::words(&error)))?;
                code = 1;
            }
        }
        show.say("")?;
    }
    Ok(code)
}

fn play(scene: Scene, show: &mut Show) -> anyhow::Result<SceneOutcome> {
    let (name, scene): (_, fn(&mut Show) -> anyhow::Result<SceneOutcome>) = match scene {
        Scene::SlowPath => ("slow-path", slow_path::play),
        Scene::Large => ("large", large::play),
        Scene::Capped => ("capped", capped::play),
        Scene::Disk => ("disk", disk::play),
        Scene::Small => ("small", small::play),
        Scene::Resume => ("resume", resume::play),
    };
    show.enter(name)?;
    let outcome = scene(show);
    show.leave();
    outcome
}
