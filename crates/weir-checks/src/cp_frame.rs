//! A control frame as a far end may send it, and as each direction reads it.

use weir_cp::wire::driver::{FromDriver, ToDriver};
use weir_cp::wire::frame::{self, HEAD};
use weir_cp::wire::to_receiver::ToReceiver;
use weir_cp::wire::to_sender::ToSender;

/// Whether one of the directions understood the input. What was understood is written as something that is
/// understood.
macro_rules! read_as {
    ($bytes:expr, $($direction:ty),+) => {{
        let mut understood = false;
        $(if let Ok(Some(message)) = frame::parse_message::<$direction>($bytes) {
            let written = frame::to_frame(&message);
            assert!(matches!(frame::parse_message::<$direction>(&written[HEAD..]), Ok(Some(_))));
            understood = true;
        })+
        understood
    }};
}

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    if let Some((head, body)) = bytes.split_first_chunk() {
        let _ = frame::parse_head(*head);
        read_as!(body, FromDriver, ToDriver, ToSender, ToReceiver);
    }
    read_as!(bytes, FromDriver, ToDriver, ToSender, ToReceiver)
}
