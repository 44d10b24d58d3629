//! A control frame as a far end may send it, and as each direction reads it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_peer::wire::driver::{FromDriver, ToDriver};
use weir_peer::wire::frame::{self, HEAD};
use weir_peer::wire::to_receiver::ToReceiver;
use weir_peer::wire::to_sender::ToSender;

/// What was understood is written as something that is understood.
macro_rules! read_as {
    ($bytes:expr, $($direction:ty),+) => {
        $(if let Ok(Some(message)) = frame::parse_message::<$direction>($bytes) {
            let written = frame::to_frame(&message);
            assert!(matches!(frame::parse_message::<$direction>(&written[HEAD..]), Ok(Some(_))));
        })+
    };
}

fuzz_target!(|bytes: &[u8]| {
    if let Some((head, body)) = bytes.split_first_chunk() {
        let _ = frame::parse_head(*head);
        read_as!(body, FromDriver, ToDriver, ToSender, ToReceiver);
    }
    read_as!(bytes, FromDriver, ToDriver, ToSender, ToReceiver);
});
