//! `weir peer`: the far end of `weir cp`, a worker of `weir fleet run`, or the `get` of `weir get
//! --to-hosts`, which ssh starts.

use std::fs::File;
use std::os::fd::AsFd;

use anyhow::Context;
use weir_cp::hand_over::Purpose;
use weir_cp::peer::HandedOver;

use crate::args;
use crate::calibration;
use crate::cmd::fleet;
use crate::growing;
use crate::voice;

/// What another weir knows this build by before it sends it: [`weir_cp::ssh::mark`].
static MARK: &str =
    concat!("weir-build ", env!("CARGO_PKG_VERSION"), " (", env!("WEIR_COMMIT"), ") ", env!("WEIR_TARGET"));

/// Serves one session over stdin and stdout, or only tells whether this program is that of the digest `is`;
/// `command` runs one of weir's commands for another host. Returns the exit code.
pub fn run(is: Option<&str>, command: fn(HandedOver) -> anyhow::Result<u8>) -> anyhow::Result<u8> {
    voice::start_log(false, 0);
    // Kept by the linker since it is used.
    tracing::trace!("{}", std::hint::black_box(MARK));
    if let Some(is) = is {
        anyhow::ensure!(weir_cp::ssh::own_digest()? == is, "this program was changed since it was copied");
        return Ok(0);
    }
    // Duplicates without the standard library's locks and buffers: a thread reads while others write.
    let input = std::io::stdin().as_fd().try_clone_to_owned().context("cannot use stdin")?;
    let output = std::io::stdout().as_fd().try_clone_to_owned().context("cannot use stdout")?;
    // What went wrong was told to the driver, who says it to the user.
    let (input, output, speeds) = (File::from(input), File::from(output), calibration::speeds());
    match weir_cp::peer::serve(input, output, args::VERSION, &speeds, growing::find) {
        Ok(None) => Ok(0),
        Ok(Some(handed)) => match handed.purpose {
            Purpose::Fleet => fleet::far::run(handed),
            Purpose::Command => command(handed),
        },
        Err(_) => Ok(1),
    }
}
