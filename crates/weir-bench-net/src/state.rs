//! The one-byte words of the control connection.

/// What an end says or waits for. Numbers that no version uses are no state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
pub enum TestState {
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

impl TestState {
    /// Every state.
    pub const ALL: [TestState; 14] = [
        TestState::TestStart,
        TestState::TestRunning,
        TestState::TestEnd,
        TestState::ParamExchange,
        TestState::CreateStreams,
        TestState::ServerTerminate,
        TestState::ClientTerminate,
        TestState::ExchangeResults,
        TestState::DisplayResults,
        TestState::IperfStart,
        TestState::IperfDone,
        TestState::Transactions,
        TestState::AccessDenied,
        TestState::ServerError,
    ];

    /// As it goes over the wire.
    pub fn byte(self) -> u8 {
        (self as i8).cast_unsigned()
    }

    /// The state of a byte, or the byte as the number it stands for.
    pub fn parse(byte: u8) -> Result<TestState, i8> {
        TestState::ALL.into_iter().find(|state| state.byte() == byte).ok_or(byte.cast_signed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_is_one_state_or_none() {
        let known = (0..=u8::MAX).filter(|byte| TestState::parse(*byte).is_ok()).count();
        assert_eq!(known, TestState::ALL.len());
        assert!(TestState::ALL.iter().all(|state| TestState::parse(state.byte()) == Ok(*state)));
        assert_eq!((TestState::parse(0xff), TestState::parse(0xfd)), (Ok(TestState::AccessDenied), Err(-3)));
    }
}
