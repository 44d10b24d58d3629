//! A control frame as a far end may send it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_peer::wire::frame;

fuzz_target!(|bytes: &[u8]| {
    if let Some((head, body)) = bytes.split_first_chunk() {
        let _ = frame::parse_head(*head);
        let _ = frame::parse_message(body);
    }
    if let Ok(message) = frame::parse_message(bytes) {
        // What was understood is written as something that is understood.
        let written = frame::to_frame(&message);
        assert!(frame::parse_message(&written[frame::HEAD..]).is_ok());
    }
});
