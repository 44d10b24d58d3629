//! Whose word came last on a connection: who owes the next one?
//!
//! The kernel's clocks of what went and what came (`tcpi_last_data_sent`, `tcpi_last_data_recv`) stand still
//! within a tick of 10 ms at most. Where a question and its answer, or an answer and the next question, fall
//! into one tick, both clocks show the same for as long as nothing else moves. What decides then is, in this
//! order:
//!
//! 1. the path: over a longer one than a tick an answer to what was sent would have taken a round trip, so
//!    what came was answered;
//! 2. the counters of two looks, where only one of them grew;
//! 3. acknowledgements: data carry that of what came before them, and what no data follow is acknowledged by
//!    a segment without any, after 40 ms at the latest. So one that goes out behind the last data says that
//!    the peer spoke last, and none since before they moved says that this end did;
//! 4. that a tick in which both moved held a pair of them, which leaves the turn where it was; but who takes
//!    in more than it sends asks, and has its answer, unless one was awaited: then the pair is that answer
//!    and the next question.
//!
//! Else it is [`LastWord::Unclear`], which counts neither as an answer owed nor as one awaited.
//!
//! Can be wrong: of (4), where two large answers and the question between them fall into one tick, the
//! client's pause after them counts as the server's.

use std::cmp::Ordering;
use std::time::Duration;

use crate::tcp_info::TcpInfo;

/// A tick of the kernel's clock at HZ=100, and a little for a round trip that was measured short.
const LONGEST_TICK: Duration = Duration::from_millis(12);

/// Two ticks at HZ=250: data that flow leave no such gap.
const QUIET: Duration = Duration::from_millis(8);

/// By then what no data acknowledge is acknowledged by itself: 40 ms on paths this short (TCP_DELACK_MIN in
/// tcp_send_delayed_ack), or a round trip where that is more, and two ticks at HZ=100.
const DELAYED: Duration = Duration::from_millis(60);

/// Segments without data that go out later are others: answers to probes, or a window that opens. A delayed
/// acknowledgement is noticed by the next look, of which there is one every 100 ms at least.
const LATEST: Duration = Duration::from_millis(200);

/// Who spoke last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum LastWord {
    /// This end did: the peer owes an answer, or has nothing to ask.
    Own,
    /// The peer did.
    Peer,
    /// Nobody has spoken yet, or it cannot be told.
    #[default]
    Unclear,
}

/// Follows the turns of one connection from look to look.
#[derive(Debug, Default)]
pub(super) struct LastWordProbe {
    last: Option<Count>,
    /// Acknowledgements without data that had gone out before bytes last moved, and at the look that found
    /// them moved.
    bare: (Option<u32>, Option<u32>),
    /// Only one end's bytes moved then, so that there is no doubt.
    one_way: bool,
    word: LastWord,
}

/// One look's counters.
#[derive(Debug, Clone, Copy)]
struct Count {
    came: u64,
    /// Sent for the first time.
    went: u64,
    /// Segments without data that went out so far; `None` before Linux 4.6.
    bare: Option<u32>,
}

impl Count {
    fn of(info: &TcpInfo) -> Count {
        // The peer's FIN counts as one byte: CLOSE_WAIT, LAST_ACK, CLOSING (include/net/tcp_states.h).
        let fin = u64::from(matches!(info.state, Some(8 | 9 | 11)));
        // Before Linux 4.19 what was acknowledged stands for what was sent; the SYN counts as one byte of it.
        let acked = || info.bytes_acked.map(|acked| acked.saturating_sub(1));
        let went = info.bytes_sent.or_else(acked).unwrap_or_default();
        Count {
            came: info.bytes_received.unwrap_or_default().saturating_sub(fin),
            went: went.saturating_sub(info.bytes_retrans.unwrap_or_default()),
            bare: info.segs_out.zip(info.data_segs_out).map(|(all, data)| all.wrapping_sub(data)),
        }
    }
}

impl LastWordProbe {
    /// Takes in a reading. `answers`: the peer spoke first, so that this end is the one that is asked.
    pub(super) fn look(&mut self, info: &TcpInfo, answers: bool) -> LastWord {
        let now = Count::of(info);
        match self.last {
            Some(last) => self.follow(&last, &now, answers),
            None => self.bare = (None, now.bare),
        }
        self.last = Some(now);
        self.word = self.tell(info, &now);
        self.word
    }

    /// As of the last look.
    pub(super) fn word(&self) -> LastWord {
        self.word
    }

    fn follow(&mut self, last: &Count, now: &Count, answers: bool) {
        let (came, went) = (now.came != last.came, now.went != last.went);
        if !came && !went {
            return;
        }
        self.bare = (last.bare, now.bare);
        self.one_way = came != went;
        let acknowledged = last.bare != now.bare;
        let begins = last.came == 0 && last.went == 0;
        self.word = match (came, went) {
            (true, false) => LastWord::Peer,
            (false, _) => LastWord::Own,
            (true, true) if !answers && now.came > now.went && self.word != LastWord::Own => LastWord::Peer,
            // The first data of a connection are acknowledged at once, answered or not.
            (true, true) if self.word == LastWord::Unclear && acknowledged && !begins => LastWord::Peer,
            (true, true) => self.word,
        };
    }

    fn tell(&self, info: &TcpInfo, now: &Count) -> LastWord {
        let (Some(sent), Some(came)) = (info.last_data_sent, info.last_data_recv) else {
            return LastWord::Unclear;
        };
        match (now.came, now.went) {
            (0, 0) => LastWord::Unclear,
            // The clock of what came stands at the handshake's end and may show the request's own
            // millisecond.
            (0, _) => LastWord::Own,
            (_, 0) => LastWord::Peer,
            _ => match sent.cmp(&came) {
                Ordering::Less => LastWord::Own,
                Ordering::Greater => LastWord::Peer,
                Ordering::Equal => self.tied(info, now, sent),
            },
        }
    }

    /// Both moved last in the same tick, so long ago.
    fn tied(&self, info: &TcpInfo, now: &Count, ago: Duration) -> LastWord {
        if self.one_way {
            return self.word;
        }
        if ago >= QUIET && info.min_rtt.is_some_and(|rtt| rtt > LONGEST_TICK) {
            return LastWord::Own;
        }
        let (before, then) = self.bare;
        let since = |earlier: Option<u32>| Some(now.bare?.wrapping_sub(earlier?));
        if since(then).is_some_and(|more| more > 0) && ago <= LATEST {
            LastWord::Peer
        } else if since(before) == Some(0) && ago >= DELAYED + info.rtt.unwrap_or_default() {
            LastWord::Own
        } else {
            self.word
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use LastWord::{Own, Peer, Unclear};

    /// A connection over 40 µs: bytes that came and went, segments without data that went out, and how many
    /// milliseconds ago both moved last.
    fn reading(came: u64, went: u64, bare: u32, ago: u64) -> TcpInfo {
        let clock = Some(Duration::from_millis(ago));
        TcpInfo {
            min_rtt: Some(Duration::from_micros(40)),
            rtt: Some(Duration::from_micros(60)),
            bytes_received: Some(came),
            bytes_sent: Some(went),
            segs_out: Some(100 + bare),
            data_segs_out: Some(100),
            last_data_sent: clock,
            last_data_recv: clock,
            ..TcpInfo::default()
        }
    }

    fn words(looks: &[TcpInfo]) -> Vec<LastWord> {
        let mut probe = LastWordProbe::default();
        looks.iter().map(|info| probe.look(info, false)).collect()
    }

    #[test]
    fn a_fast_server_whose_client_rests_owes_nothing() {
        // The watch begins between two questions; each is answered within its tick, and its acknowledgement
        // rides on the answer.
        let looks = [
            reading(100, 5000, 1, 120),
            reading(200, 10_000, 1, 4),
            reading(200, 10_000, 1, 44),
            reading(200, 10_000, 1, 64),
            reading(200, 10_000, 1, 284),
            reading(300, 15_000, 1, 8),
        ];
        assert_eq!(words(&looks), [Unclear, Unclear, Unclear, Own, Own, Own]);
    }

    #[test]
    fn a_slow_server_that_is_asked_again_at_once_owes_an_answer() {
        // The next question comes in the tick of the answer, and is acknowledged by itself.
        let at_once = [reading(100, 5000, 1, 120), reading(200, 10_000, 2, 4), reading(200, 10_000, 2, 244)];
        assert_eq!(words(&at_once), [Unclear, Peer, Peer]);
        // After many fast answers the kernel delays that acknowledgement, for an answer to ride on.
        let delayed = [
            reading(100, 5000, 1, 120),
            reading(900, 45_000, 1, 4),
            reading(900, 45_000, 2, 44),
            reading(900, 45_000, 2, 244),
        ];
        assert_eq!(words(&delayed), [Unclear, Unclear, Peer, Peer]);
    }

    #[test]
    fn a_turn_that_is_known_stays_where_it_is_in_a_tick_that_holds_a_pair() {
        let mut asked = reading(200, 5000, 2, 4);
        asked.last_data_sent = Some(Duration::from_millis(24));
        // Later looks are too early for an acknowledgement to tell.
        let looks = [asked, reading(300, 10_000, 3, 4), reading(400, 15_000, 4, 8)];
        assert_eq!(words(&looks), [Peer, Peer, Peer]);
        // Where one of them moved alone there is no pair.
        let answered = [reading(200, 5000, 2, 4), reading(200, 10_000, 2, 4), reading(300, 10_000, 2, 4)];
        assert_eq!(words(&answered), [Unclear, Own, Peer]);
    }

    #[test]
    fn who_takes_in_more_than_it_sends_has_its_answer() {
        let looks = [reading(5000, 100, 1, 4), reading(10_000, 200, 3, 4), reading(10_000, 200, 3, 244)];
        assert_eq!(words(&looks), [Unclear, Peer, Peer]);
        // It has asked again in that tick: its question carried the acknowledgement.
        let again = [reading(5000, 100, 1, 4), reading(10_000, 200, 1, 4), reading(10_000, 200, 1, 64)];
        assert_eq!(words(&again), [Unclear, Peer, Own]);
        // A server that takes in more is asked all the same.
        let mut server = LastWordProbe::default();
        server.look(&reading(0, 0, 1, 4), true);
        assert_eq!(server.look(&reading(10_000, 200, 3, 4), true), Unclear, "its first");
        assert_eq!(server.look(&reading(20_000, 400, 3, 4), true), Unclear);
        assert_eq!(server.look(&reading(20_000, 400, 3, 64), true), Own);
    }

    #[test]
    fn who_asks_again_in_the_tick_of_its_answer_awaits_the_next() {
        let (before, asked) = (reading(5000, 100, 1, 4), reading(5000, 190, 1, 4));
        // A small answer and the next question, which carried its acknowledgement.
        let again = [before.clone(), asked.clone(), reading(5213, 280, 1, 4), reading(5213, 280, 1, 190)];
        assert_eq!(words(&again), [Unclear, Own, Own, Own]);
        // A large one, parts of which were acknowledged as they came.
        let large = [before.clone(), asked.clone(), reading(1_005_000, 280, 300, 4)];
        assert_eq!(words(&large), [Unclear, Own, Own]);
        // That question was answered as well, and nothing follows.
        let rests = [before, asked, reading(5426, 280, 1, 4), reading(5426, 280, 2, 44)];
        assert_eq!(words(&rests), [Unclear, Own, Own, Peer]);
    }

    #[test]
    fn over_a_long_path_nothing_comes_back_within_a_tick() {
        let mut info = reading(5000, 100, 1, 20);
        info.min_rtt = Some(Duration::from_millis(40));
        assert_eq!(words(&[info.clone()]), [Own]);
        info.last_data_sent = Some(Duration::from_millis(60));
        assert_eq!(words(&[info]), [Peer]);
    }

    #[test]
    fn the_first_word_is_not_to_be_mistaken() {
        assert_eq!(words(&[reading(0, 0, 1, 4), reading(0, 100, 1, 4)]), [Unclear, Own]);
        assert_eq!(words(&[reading(0, 0, 1, 4), reading(100, 0, 2, 4)]), [Unclear, Peer]);
        // Its end is no word.
        let mut closes = reading(101, 5000, 1, 90);
        closes.state = Some(8);
        let looks = [reading(100, 0, 1, 4), reading(100, 5000, 1, 4), closes];
        assert_eq!(words(&looks), [Peer, Own, Own]);
        // A kernel that counts neither what was sent nor segments: its clocks are all there is.
        let old = TcpInfo {
            bytes_sent: None,
            bytes_acked: Some(101),
            segs_out: None,
            data_segs_out: None,
            ..reading(5000, 0, 0, 30)
        };
        assert_eq!(words(&[old.clone(), old]), [Unclear, Unclear]);
    }
}
