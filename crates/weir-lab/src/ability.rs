//! Can a path be emulated here? Found out by making what a [`Bed`](crate::bed::Bed) is made of, once, in a
//! process that ends.

use weir_model::ability::{Ability, Finding};
use weir_observe::host::Probe;
use weir_units::plain;

use crate::bed::INTERFACE;
use crate::error::LabError;
use crate::netns::Namespace;
use crate::path::Fidelity;
use crate::privilege::{self, Privilege};
use crate::tun::Tun;

/// The probes of this crate. Each changes its process's namespaces, and fails in one with several threads.
pub const PROBES: [Probe; 2] = [
    Probe { ability: Ability::Namespaces, apart: true, find: namespaces },
    Probe { ability: Ability::Tun, apart: true, find: tun },
];

fn namespaces() -> Finding {
    let origin = "unshare(CLONE_NEWUSER, CLONE_NEWNET)";
    match namespace() {
        Ok((Privilege::Own, _)) => Finding::ok("a network namespace was made", "unshare(CLONE_NEWNET)"),
        Ok((Privilege::UserNamespace, _)) => {
            Finding::limited("a network namespace was made inside a user namespace", origin)
        }
        Err(error) => missing(&error, origin),
    }
}

fn tun() -> Finding {
    let origin = "/dev/net/tun and ioctl(TUNSETIFF)";
    let made = namespace().map(|(_, namespace)| namespace.run(|| Tun::open(INTERFACE, Fidelity::Packet)));
    match made {
        Ok(Ok(Ok(_device))) => Finding::ok("a device was made in a new namespace", origin),
        Ok(Ok(Err(error)) | Err(error)) => missing(&error, origin),
        Err(_) if std::path::Path::new("/dev/net/tun").exists() => {
            Finding::missing("not tried: there is no namespace to try it in", "/dev/net/tun")
                .with_way_out("as for namespaces, above")
        }
        Err(_) => Finding::missing("there is none", "/dev/net/tun"),
    }
}

fn namespace() -> Result<(Privilege, Namespace), LabError> {
    Ok((privilege::enter()?, Namespace::new()?))
}

/// What was attempted and the system's word, with the error's own way out where it has one.
fn missing(error: &LabError, origin: &str) -> Finding {
    match error {
        LabError::Refused { attempt, cause, way_out } => {
            Finding::missing(format!("{attempt}: {}", plain(cause)), origin).with_way_out(*way_out)
        }
        LabError::System { attempt, source } => {
            Finding::missing(format!("{attempt}: {}", plain(source)), origin)
        }
        other => Finding::missing(other.to_string(), origin),
    }
}
