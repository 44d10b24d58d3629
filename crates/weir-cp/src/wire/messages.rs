//! What messages of every direction have in common. Each begins with its number, which it keeps for good;
//! the caps of its sequences are checked when it is read. An end reads its own directions and no other,
//! so that nothing reaches it that it cannot handle.

/// The highest number in use. A message with a higher one is of another protocol; one with a lower one
/// that is none of the reader's has come where it does not belong.
pub(super) const LAST: u8 = 45;

/// Messages of one direction.
pub trait Message: Sized {
    /// The message at the beginning of `body`, and what is behind it; none where its number is of another
    /// direction.
    fn take(body: &[u8]) -> Option<postcard::Result<(Self, &[u8])>>;

    /// Whether it keeps to the caps that a parser of sequences does not know.
    fn is_sound(&self) -> bool;
}

/// What may come from two sides over one connection: from the driver, or to it, and from the other end of
/// a copy.
#[derive(Debug)]
pub enum Heard<D, P> {
    /// Between driver and peer.
    Driver(D),
    /// From the other end of the copy.
    Partner(P),
}

impl<D: Message, P: Message> Message for Heard<D, P> {
    fn take(body: &[u8]) -> Option<postcard::Result<(Self, &[u8])>> {
        let driver = D::take(body).map(|taken| taken.map(|(said, rest)| (Heard::Driver(said), rest)));
        let partner = || P::take(body).map(|taken| taken.map(|(said, rest)| (Heard::Partner(said), rest)));
        driver.or_else(partner)
    }

    fn is_sound(&self) -> bool {
        match self {
            Heard::Driver(said) => said.is_sound(),
            Heard::Partner(said) => said.is_sound(),
        }
    }
}

/// An enum of messages, each with the bytes that it begins with on the wire. The type says by
/// `keeps_caps` which of them is sound.
macro_rules! messages {
    (
        $(#[$about:meta])*
        $name:ident {
            $($(#[$doc:meta])* [$($number:literal),+] $variant:ident $(($($field:ident: $type:ty),+))?,)+
        }
    ) => {
        $(#[$about])*
        #[derive(Debug)]
        pub enum $name {
            $($(#[$doc])* $variant $(($($type),+))?,)+
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                match self {
                    $($name::$variant $(($($field),+))? => {
                        let number: [u8; [$($number),+].len()] = [$($number),+];
                        (number, $($($field),+)?).serialize(to)
                    })+
                }
            }
        }

        impl $crate::wire::messages::Message for $name {
            fn take(body: &[u8]) -> Option<postcard::Result<($name, &[u8])>> {
                $(if let Some(rest) = body.strip_prefix(&[$($number),+]) {
                    let taken = postcard::take_from_bytes::<($($($type,)+)?)>(rest);
                    return Some(taken.map(|(($($($field,)+)?), rest)| ($name::$variant $(($($field),+))?, rest)));
                })+
                None
            }

            fn is_sound(&self) -> bool {
                self.keeps_caps()
            }
        }
    };
}

pub(super) use messages;

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::*;
    use crate::wire::driver::{FromDriver, ToDriver};
    use crate::wire::frame::{HEAD, Malformed, parse_message, to_frame};
    use crate::wire::measure::Found;
    use crate::wire::to_receiver::ToReceiver;
    use crate::wire::to_sender::ToSender;

    fn bytes(message: &(impl Message + Serialize)) -> Vec<u8> {
        to_frame(message)[HEAD..].to_vec()
    }

    /// As protocol 7 has had them from the beginning, when one type had all of them.
    #[test]
    fn messages_are_written_as_ever() {
        assert_eq!(bytes(&ToSender::Ack(3, 300)), [15, 3, 0xac, 2]);
        assert_eq!(bytes(&ToSender::LaneLost(1, "x".into())), [17, 1, 1, b'x']);
        assert_eq!(bytes(&ToReceiver::LaneLost(1, "x".into())), [17, 1, 1, b'x']);
        assert_eq!(bytes(&ToDriver::MoreNames), [26]);
        assert_eq!(bytes(&ToDriver::Found(Box::new(Found::Known))), [24, 2, 9]);
        assert_eq!(bytes(&FromDriver::Alive), [29]);
    }

    #[test]
    fn an_end_reads_its_own_directions_alone() {
        let landed = bytes(&ToSender::Ack(3, 300));
        assert!(matches!(parse_message::<ToSender>(&landed), Ok(Some(ToSender::Ack(3, 300)))));
        assert!(matches!(parse_message::<ToReceiver>(&landed), Ok(None)));
        assert!(matches!(parse_message::<Heard<ToDriver, ToReceiver>>(&landed), Ok(None)));
        type Both = Heard<FromDriver, ToSender>;
        assert!(matches!(parse_message::<Both>(&landed), Ok(Some(Heard::Partner(ToSender::Ack(3, 300))))));
        assert!(matches!(parse_message::<Both>(&[29]), Ok(Some(Heard::Driver(FromDriver::Alive)))));
        for nonsense in [&[][..], &[LAST + 1], &[15, 3], &[29, 0]] {
            assert!(matches!(parse_message::<Both>(nonsense), Err(Malformed::Message)), "{nonsense:?}");
        }
    }

    /// What a number means must not hang on whose messages are tried first.
    #[test]
    fn no_number_is_of_both_sides_that_an_end_hears() {
        // A message takes no more than these zeros where its number is of the direction.
        let has = |take: fn(&[u8]) -> bool| -> Vec<u8> {
            let body = |number: u8| [vec![number], vec![0; 64]].concat();
            (0..=LAST).filter(|number| take(&body(*number))).collect()
        };
        let driver =
            [has(|body| FromDriver::take(body).is_some()), has(|body| ToDriver::take(body).is_some())];
        let partner =
            [has(|body| ToSender::take(body).is_some()), has(|body| ToReceiver::take(body).is_some())];
        assert_eq!((partner[0].len(), partner[1].len()), (13, 6));
        for number in driver.iter().flatten() {
            assert!(partner.iter().all(|partner| !partner.contains(number)), "{number}");
        }
    }
}
