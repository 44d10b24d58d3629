//! Why a test that a client asks for is not made.

/// A test that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Not an object.
    #[error("the parameters are no JSON object")]
    NotAnObject,
    /// A transport that weir does not speak.
    #[error("SCTP was asked for; weir tests TCP and UDP")]
    Sctp,
    /// Beyond iperf3's own bounds.
    #[error("{name} of {value} was asked for: expected {least} to {most}")]
    Bound {
        /// The member.
        name: &'static str,
        /// As asked for.
        value: u64,
        /// The smallest allowed.
        least: u64,
        /// The largest allowed.
        most: u64,
    },
}
