//! A control frame as a far end may send it.

use weir_peer::wire::frame;

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    if let Some((head, body)) = bytes.split_first_chunk() {
        let _ = frame::parse_head(*head);
        let _ = frame::parse_message(body);
    }
    let message = frame::parse_message(bytes);
    if let Ok(message) = &message {
        // What was understood is written as something that is understood.
        let written = frame::to_frame(message);
        assert!(frame::parse_message(&written[frame::HEAD..]).is_ok());
    }
    message.is_ok()
}
