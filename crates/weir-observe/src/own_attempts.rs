//! For how long has a lane of our own been at a step of a handshake? Its stage clock says, and it is told as
//! other programs' attempts are.

use weir_model::around::{Attempt, Step};

use crate::stage_clock::{Stage, StageClock, StageTimes};

/// Whom the attempts are to, for words: a clock does not say.
const PEER: &str = "the server";

/// One lane's attempts to connect, from looks at its clock.
#[derive(Debug, Default)]
pub struct OwnAttempts {
    /// The clock when the lane was last found at anything else.
    before: StageTimes,
    /// The longest of this interval.
    longest: Option<Attempt>,
}

impl OwnAttempts {
    /// Looks at the clock of `lane`.
    pub fn look(&mut self, lane: u32, clock: &StageClock) {
        let (stage, age) = clock.current();
        let step = match stage {
            Stage::Dialling => Step::Syn,
            Stage::Securing => Step::Tls,
            stage if stage.connects() => return,
            _ => {
                self.before = clock.read();
                return;
            }
        };
        if self.longest.as_ref().is_some_and(|longest| longest.age >= age) {
            return;
        }
        // What came before took a round trip; with a proxy in between, which connects meanwhile, one to the
        // server as well.
        let passed = clock.read().since(&self.before);
        let rtt = passed.wall(Stage::Dialling) + passed.wall(Stage::Connecting);
        let rtt = Some(rtt).filter(|_| step == Step::Tls);
        self.longest = Some(Attempt { lane, peer: PEER.to_owned(), step, age, rtt, ..Attempt::default() });
    }

    /// The longest since the last call.
    pub fn interval(&mut self) -> Option<Attempt> {
        self.longest.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_step_is_as_old_as_the_lane_has_been_at_it() {
        let clock = StageClock::new(Instant::now());
        let mut attempts = OwnAttempts::default();
        attempts.look(3, &clock);
        assert_eq!(attempts.interval(), None, "it does not connect");
        clock.enter(Stage::Dialling);
        attempts.look(3, &clock);
        let first = attempts.interval().unwrap();
        assert_eq!((first.lane, first.step, first.rtt), (3, Step::Syn, None));
        attempts.look(3, &clock);
        assert!(attempts.interval().unwrap().age >= first.age);
        // The handshake of TCP was one round trip of what TLS has to be held against.
        clock.enter(Stage::Securing);
        while clock.current().1.is_zero() {}
        attempts.look(3, &clock);
        let second = attempts.interval().unwrap();
        assert_eq!(second.step, Step::Tls);
        assert!(second.rtt.is_some_and(|rtt| rtt >= first.age), "{second:?}");
        clock.enter(Stage::FirstByte);
        attempts.look(3, &clock);
        assert_eq!(attempts.interval(), None);
    }
}
