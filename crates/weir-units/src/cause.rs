//! What the system says of a failure, as part of a sentence of ours.

use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// `permission denied` for the standard library's `Permission denied (os error 13)`.
///
/// ```
/// let refused = std::io::Error::from_raw_os_error(13);
/// assert_eq!(weir_units::plain(&refused), "permission denied");
/// ```
pub fn plain(cause: &io::Error) -> String {
    let text = cause.to_string();
    let text = text.split(" (os error ").next().unwrap_or_default();
    // The resolver's: what went before says "cannot resolve".
    let text = text.strip_prefix("failed to lookup address information: ").unwrap_or(text);
    let mut letters = text.chars();
    // Only a capital before a small letter: "RPC version wrong" keeps its own.
    let text = match (letters.next(), letters.next()) {
        (Some(first), Some(second)) if second.is_lowercase() => {
            first.to_lowercase().chain(text.chars().skip(1)).collect()
        }
        _ => text.to_owned(),
    };
    match Errno::from_io_error(cause) {
        Some(Errno::FBIG) if getrlimit(Resource::Fsize).current.is_some() => {
            format!("{text} (beyond what ulimit -f allows)")
        }
        Some(Errno::MFILE) => format!("{text} (ulimit -n)"),
        _ => text,
    }
}

/// The next step after a connection that did not come about, to follow the cause; nothing where the cause
/// names none.
///
/// ```
/// let refused = std::io::Error::from_raw_os_error(111);
/// assert_eq!(weir_units::unreached(&refused), "; nothing listens there: check the host and the port");
/// ```
pub fn unreached(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::ConnectionRefused => "; nothing listens there: check the host and the port",
        io::ErrorKind::TimedOut => "; the host is down, or a firewall drops what is sent there",
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            "; check the way there: ip route get ADDRESS"
        }
        _ => "",
    }
}

/// The next step after a name without an address, to follow the resolver's words.
pub fn unresolved(cause: &io::Error) -> &'static str {
    // EAI_AGAIN, as glibc and musl put it; the standard library keeps no number.
    let text = cause.to_string().to_lowercase();
    if cause.kind() == io::ErrorKind::TimedOut {
        return "; check the network and /etc/resolv.conf";
    }
    match text.contains("temporary failure") || text.contains("try again") {
        true => "; check the network and /etc/resolv.conf",
        false => "; check the name",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_capital_before_a_small_letter_is_lowered() {
        assert_eq!(plain(&io::Error::from_raw_os_error(5)), "input/output error");
        assert_eq!(plain(&Errno::MFILE.into()), "too many open files (ulimit -n)");
        assert_eq!(plain(&io::Error::other("RPC version wrong")), "RPC version wrong");
        assert_eq!(plain(&io::Error::other("")), "");
        let resolver = io::Error::other("failed to lookup address information: Name or service not known");
        assert_eq!(plain(&resolver), "name or service not known");
    }

    #[test]
    fn a_resolver_that_is_down_is_told_from_a_name_that_is_wrong() {
        let said = |text: &str| {
            unresolved(&io::Error::other(format!("failed to lookup address information: {text}")))
        };
        assert_eq!(said("Temporary failure in name resolution"), "; check the network and /etc/resolv.conf");
        assert_eq!(said("Try again"), "; check the network and /etc/resolv.conf");
        assert_eq!(said("Name or service not known"), "; check the name");
    }
}
