//! Answers built by hand, and this machine's own.

use super::*;
use proptest::prelude::*;

fn link(name: &str, kind: Option<&str>) -> Vec<u8> {
    let mut bytes = vec![0; LINK_FIXED];
    push_attribute(&mut bytes, 3, format!("{name}\0").as_bytes());
    push_attribute(&mut bytes, 1, &[2, 0, 0, 0, 0, 9]);
    if let Some(kind) = kind {
        let mut info = Vec::new();
        push_attribute(&mut info, 1, format!("{kind}\0").as_bytes());
        push_attribute(&mut bytes, 18, &info);
    }
    let counters: Vec<u8> = (0..24_u64).flat_map(u64::to_ne_bytes).collect();
    push_attribute(&mut bytes, 23, &counters);
    bytes
}

fn queue(kind: &str, interface: u32, parent: u32) -> Vec<u8> {
    let mut bytes = vec![0; QDISC_FIXED];
    bytes[4..8].copy_from_slice(&interface.to_ne_bytes());
    bytes[12..16].copy_from_slice(&parent.to_ne_bytes());
    push_attribute(&mut bytes, 1, format!("{kind}\0").as_bytes());
    let mut bucket = Vec::new();
    let parameters: Vec<u8> = [0_u32, 0, 12_500_000].into_iter().flat_map(u32::to_ne_bytes).collect();
    push_attribute(&mut bucket, 1, &parameters);
    push_attribute(&mut bytes, 2, &bucket);
    let mut stats = Vec::new();
    let numbers: Vec<u8> = [1_u32, 1500, 7, 0, 0].into_iter().flat_map(u32::to_ne_bytes).collect();
    push_attribute(&mut stats, 3, &numbers);
    push_attribute(&mut bytes, 7, &stats);
    bytes
}

#[test]
fn an_interface_is_read_with_its_kind_and_counters() {
    let found = parse_interface(&link("veth7", Some("veth"))).unwrap();
    assert_eq!((found.name.as_str(), found.kind.as_deref()), ("veth7", Some("veth")));
    let expected = Counters { received: 2, sent: 3, errors: 9, receive_drops: 20, send_drops: 7 };
    assert_eq!(found.counters, expected);
    assert_eq!(found.counters.since(&expected), Counters::default());
    assert_eq!(link_rate(&found).missing(), Some("veth7 is a veth device: the speed it reports is made up"));
    let absent = parse_interface(&link("no-such-0", None)).unwrap();
    assert_eq!(link_rate(&absent).missing(), Some("no-such-0 has no hardware that is to be seen from here"));
}

#[test]
fn the_next_hop_is_the_router_or_the_host_itself() {
    let host = IpAddr::from([10, 0, 0, 9]);
    let mut route = vec![0; ROUTE_FIXED];
    push_attribute(&mut route, 4, &7_u32.to_ne_bytes());
    assert_eq!(parse_hop(&route, host), Some(Hop { interface: 7, address: host }));
    let mut through = route.clone();
    push_attribute(&mut through, 5, &[10, 0, 0, 1]);
    assert_eq!(parse_hop(&through, host), Some(Hop { interface: 7, address: [10, 0, 0, 1].into() }));
    assert_eq!(parse_hop(&through, IpAddr::from([0_u16; 8])), None, "a gateway of another length");
    push_attribute(&mut route, 18, &[0; 18]);
    assert_eq!(parse_hop(&route, host), None, "a router of the other family");
    let mut neighbour = vec![0; NEIGHBOUR_FIXED];
    assert_eq!(parse_neighbour(&neighbour), None);
    push_attribute(&mut neighbour, 2, &[2, 0, 0, 0, 0, 9]);
    assert_eq!(parse_neighbour(&neighbour), Some(vec![2, 0, 0, 0, 0, 9]));
    assert_eq!(parse_neighbour(&neighbour[..9]), None);
}

#[test]
fn the_root_queue_tells_its_drops_and_a_shaper_its_rate() {
    let found = parse_queue(&queue("tbf", 3, ROOT), 3).unwrap();
    assert_eq!(found, Queue { kind: "tbf".into(), backlog: 1500, drops: 7, rate: Some(Rate(12_500_000.0)) });
    assert_eq!(parse_queue(&queue("fq", 3, ROOT), 3).unwrap().rate, None);
    assert_eq!(parse_queue(&queue("tbf", 4, ROOT), 3), None, "another interface");
    assert_eq!(parse_queue(&queue("tbf", 3, 1), 3), None, "below the root");
    assert_eq!(parse_queue(&queue("noqueue", 3, ROOT), 3), None);
}

#[test]
fn loopback_is_found_and_has_no_line_rate() {
    let mut routing = Routing::open().unwrap();
    for peer in ["127.0.0.1", "::1"] {
        let Ok(index) = routing.interface_to(peer.parse().unwrap()) else {
            assert_eq!(peer, "::1", "a machine may have no IPv6");
            continue;
        };
        let found = routing.interface(index).unwrap();
        assert!(found.loopback && found.name == "lo", "{found:?}");
        let why = "lo leads back to this machine: it has no line rate";
        assert_eq!(link_rate(&found).missing(), Some(why));
        routing.queue(index).unwrap();
    }
    assert!(routing.interface(u32::MAX >> 1).is_err());
}

proptest! {
    #[test]
    fn no_bytes_make_it_fail(bytes in prop::collection::vec(any::<u8>(), 0..256), index in 0..4_u32) {
        let _ = (parse_route(&bytes), parse_interface(&bytes), parse_queue(&bytes, index));
    }

    #[test]
    fn every_cut_is_read_as_far_as_it_goes(cut in 0..200_usize) {
        let (link, queue) = (link("eth0", Some("bridge")), queue("tbf", 3, ROOT));
        if let Some(found) = parse_interface(&link[..cut.min(link.len())]) {
            prop_assert_eq!(found.name, "eth0");
        }
        if let Some(found) = parse_queue(&queue[..cut.min(queue.len())], 3) {
            prop_assert_eq!(found.kind, "tbf");
        }
    }
}
