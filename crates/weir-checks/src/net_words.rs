//! What a peer of `weir bench net` may send: parameters, results, transactions, heads of datagrams, cookies,
//! states.

use weir_bench_net::asked::{Asked, MOST_SIZE, Part};
use weir_bench_net::cookie::Cookie;
use weir_bench_net::datagram::{self, Head};
use weir_bench_net::frame;
use weir_bench_net::parameters::{MOST_BLOCK, MOST_STREAMS, Parameters};
use weir_bench_net::results::Results;
use weir_bench_net::state::TestState;

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    let mut understood = false;
    if let Some(head) = bytes.get(..4) {
        let length = frame::parse_length([head[0], head[1], head[2], head[3]], frame::PARAMETERS);
        assert!(length.is_err() || length.is_ok_and(|length| length <= frame::PARAMETERS));
    }
    if let Ok(value) = frame::parse_text(bytes) {
        if let Ok(parameters) = Parameters::parse(&value) {
            assert!((1..=MOST_STREAMS).contains(&parameters.parallel) && parameters.block <= MOST_BLOCK);
            assert_eq!(Parameters::parse(&parameters.to_json()), Ok(parameters));
            understood = true;
        }
        if let Ok(results) = Results::parse(&value) {
            assert!(results.streams.len() <= 256);
            understood = true;
        }
        if let Ok(Some(asked)) = Asked::parse(&value) {
            assert!((2..=u64::from(2 * MOST_SIZE)).contains(&asked.bytes()));
        }
        let _ = Part::parse(&value);
    }
    for wide in [false, true] {
        assert_eq!(Head::parse(wide, bytes).is_some(), bytes.len() >= Head::length(wide));
    }
    let _ = (datagram::is_hello(bytes), datagram::is_welcome(bytes));
    if let Some(cookie) = bytes.get(..Cookie::LENGTH).and_then(|bytes| Cookie::parse(bytes.try_into().ok()?))
    {
        assert_eq!(cookie.to_string().len(), Cookie::LENGTH - 1);
    }
    for byte in bytes.iter().take(1) {
        assert!(
            TestState::parse(*byte).is_ok_and(|state| state.byte() == *byte)
                || TestState::parse(*byte).is_err()
        );
    }
    understood
}
