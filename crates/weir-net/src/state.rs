//! The one-byte words of the control connection.

/// What an end says or waits for. Numbers that no version uses are no state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
pub enum State {
    /// The server's: timers start.
    TestStart = 1,
    /// The server's: data may flow.
    TestRunning = 2,
    /// The client's: data have flown.
    TestEnd = 4,
    /// The server's: tell me what to test.
    ParamExchange = 9,
    /// The server's: make the data connections.
    CreateStreams = 10,
    /// The server gives up.
    ServerTerminate = 11,
    /// The client gives up.
    ClientTerminate = 12,
    /// The server's: tell me your results.
    ExchangeResults = 13,
    /// The server's: that was all.
    DisplayResults = 14,
    /// Never seen on the wire, but a state of the protocol.
    IperfStart = 15,
    /// The client's: farewell.
    IperfDone = 16,
    /// Weir's own, to a client that asked for transactions: they can be made; a frame follows.
    Transactions = 64,
    /// The server is busy, or does not let this client in.
    AccessDenied = -1,
    /// The server failed; two numbers follow.
    ServerError = -2,
}

impl State {
    /// Every state.
    pub const ALL: [State; 14] = [
        State::TestStart,
        State::TestRunning,
        State::TestEnd,
        State::ParamExchange,
        State::CreateStreams,
        State::ServerTerminate,
        State::ClientTerminate,
        State::ExchangeResults,
        State::DisplayResults,
        State::IperfStart,
        State::IperfDone,
        State::Transactions,
        State::AccessDenied,
        State::ServerError,
    ];

    /// As it goes over the wire.
    pub fn byte(self) -> u8 {
        (self as i8).cast_unsigned()
    }

    /// The state of a byte, or the byte as the number it stands for.
    pub fn parse(byte: u8) -> Result<State, i8> {
        State::ALL.into_iter().find(|state| state.byte() == byte).ok_or(byte.cast_signed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_is_one_state_or_none() {
        let known = (0..=u8::MAX).filter(|byte| State::parse(*byte).is_ok()).count();
        assert_eq!(known, State::ALL.len());
        assert!(State::ALL.iter().all(|state| State::parse(state.byte()) == Ok(*state)));
        assert_eq!((State::parse(0xff), State::parse(0xfd)), (Ok(State::AccessDenied), Err(-3)));
    }
}
