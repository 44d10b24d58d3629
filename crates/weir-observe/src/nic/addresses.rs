//! Which addresses do this host's interfaces have?

use std::net::IpAddr;

use crate::error::ObserveError;
use crate::netlink::{Netlink, attributes};

/// Message types (include/uapi/linux/rtnetlink.h).
const NEW_ADDRESS: u16 = 20;
const GET_ADDRESS: u16 = 22;

/// The size of `struct ifaddrmsg` (include/uapi/linux/if_addr.h).
const ADDRESS_FIXED: usize = 8;

/// The addresses of all interfaces in the calling thread's network namespace, those of the loopback among
/// them; needs no privilege.
///
/// # Errors
/// What the system says, where it has no `NETLINK_ROUTE`.
pub fn own() -> Result<Vec<IpAddr>, ObserveError> {
    let failed = |cause| ObserveError::unreadable("the addresses of interfaces (NETLINK_ROUTE)", cause);
    let mut netlink = Netlink::open(None, 0).map_err(failed)?;
    let mut found = Vec::new();
    netlink
        .ask(GET_ADDRESS, true, &[0; ADDRESS_FIXED], |message| {
            if message.kind == NEW_ADDRESS {
                found.extend(parse(message.payload));
            }
        })
        .map_err(failed)?;
    Ok(found)
}

/// `IFA_LOCAL`, type 2; without it `IFA_ADDRESS`, type 1, which on a link of two ends is the other one's.
fn parse(bytes: &[u8]) -> Option<IpAddr> {
    let mut found = None;
    for (kind, value) in attributes(bytes.get(ADDRESS_FIXED..)?) {
        match kind {
            2 => return address(value),
            1 => found = address(value),
            _ => {}
        }
    }
    found
}

fn address(value: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(value).map(IpAddr::from);
    four.or_else(|_| <[u8; 16]>::try_from(value).map(IpAddr::from)).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::netlink::push_attribute;

    #[test]
    fn the_near_end_of_a_link_is_told() {
        let mut bytes = vec![0; ADDRESS_FIXED];
        push_attribute(&mut bytes, 1, &[10, 0, 0, 1]);
        assert_eq!(parse(&bytes), Some(IpAddr::from([10, 0, 0, 1])));
        push_attribute(&mut bytes, 2, &[10, 0, 0, 2]);
        assert_eq!(parse(&bytes), Some(IpAddr::from([10, 0, 0, 2])));
        let mut six = vec![0; ADDRESS_FIXED];
        push_attribute(&mut six, 1, &[0xfe; 16]);
        assert_eq!(parse(&six), Some(IpAddr::from([0xfe; 16])));
        push_attribute(&mut six, 2, &[1, 2, 3]);
        assert_eq!(parse(&six), None);
    }

    #[test]
    fn this_host_has_a_loopback() {
        assert!(own().unwrap().contains(&IpAddr::from([127, 0, 0, 1])));
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_address_or_none(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = parse(&bytes);
        }
    }
}
