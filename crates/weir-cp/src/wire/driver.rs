//! What the driver and a peer say to each other, whatever the roles of the two.

use weir_tree::Name;

use super::measure::{self, Ask};
use super::message::{
    Deed, Failure, Found, Hello, Listening, MAX_ADDRESSES, MAX_NAMES, MAX_SAMPLE, Problem, Start, Totals,
    Transport,
};
use super::messages::messages;
use crate::secret::Secret;

messages! {
    /// From the driver to a peer.
    FromDriver {
        /// The first one.
        [0] Hello(hello: Hello),
        /// What the session is to do.
        [1] Start(start: Box<Start>),
        /// Connect there, to the driver or to the other far end, as this lane.
        [3] Dial(at: Listening, lane: u32),
        /// The lane stands, at the driver's end.
        [5] Open(lane: u32, transport: Transport),
        /// The lane is to take no more records; for a sender.
        [18] Retire(lane: u32),
        /// The session ends.
        [23] Abort(failure: Failure),
        /// In place of [`FromDriver::Start`]: the same, to measure and not to copy.
        [24, 0] Measure(start: Box<Start>),
        /// One thing is to be measured.
        [24, 1] Ask(ask: Ask),
        /// The next names of the list, for a sender; none at its end.
        [27] Names(names: Vec<Name>),
        /// The driver is there.
        [29] Alive,
        /// In place of [`FromDriver::Start`]: from here on the connection is for a worker of a fleet, which
        /// has words of its own.
        [33] Fleet,
        /// In place of [`FromDriver::Start`]: this process keeps what comes to its host for those who pass it
        /// on, and serves the sessions of others that come with this word.
        [34] Hold(word: Secret),
        /// In place of [`FromDriver::Hello`]: the connection goes to the process of this host that holds
        /// under this word, which says its hello then.
        [35] Join(word: Secret),
        /// What is sent goes on to other hosts while it comes; for a sender.
        [36] PassedOn,
        /// In place of [`FromDriver::Start`]: from here on the connection is for one command of weir that
        /// runs here, which has words of its own.
        [37] Command,
        /// Before [`FromDriver::Hold`]: the process that held here under this word was given up, and is ended
        /// if it is there still.
        [38] Evict(word: Secret),
        /// In place of [`FromDriver::Start`], of a sender: the same, of one file that another program may
        /// still write; the second says that it is complete.
        [40] Grows(start: Box<Start>, is_whole: bool),
        /// A peer that holds says the same at once: how long the way there and back takes.
        [39] Echo(number: u32),
        /// To a peer that holds: all hosts have all, so that the same command is not given again.
        [41] AllHave,
        /// Before [`FromDriver::Start`], to a sender: what the source lacks is removed although not all of it
        /// could be read.
        [43] IgnoreErrors,
    }
}

messages! {
    /// From a peer to the driver.
    ToDriver {
        /// The first one.
        [0] Hello(hello: Hello),
        /// Where lanes are accepted.
        [2] Listening(at: Listening),
        /// How connecting went: the lane, and why not.
        [4] Dialled(lane: u32, why: Option<String>),
        /// What a dry run would do, or what was done; from a receiver.
        [12] Would(deed: Deed, name: Name),
        /// A path that could not be read or written.
        [19] Problem(problem: Problem),
        /// The same, as the receiver told it; from a sender.
        [44] ProblemThere(problem: Problem),
        /// The model's interval, as JSON.
        [20] Sample(json: String),
        /// The session ends.
        [23] Abort(failure: Failure),
        /// What was measured.
        [24, 2] Found(found: Box<measure::Found>),
        /// A peer that holds is there.
        [29] Alive,
        /// How far this end is.
        [25] Tally(totals: Totals, found: Found),
        /// The next names of the list are wanted; from a sender.
        [26] MoreNames,
        /// Connections to this end's port for lanes that were none of the session's, so far.
        [31] Strangers(count: u64),
        /// As the driver said; of one that holds.
        [39] Echo(number: u32),
    }
}

impl FromDriver {
    fn keeps_caps(&self) -> bool {
        match self {
            FromDriver::Hello(hello) => hello.is_sound(),
            FromDriver::Start(start) | FromDriver::Measure(start) | FromDriver::Grows(start, _) => {
                start.is_sound()
            }
            FromDriver::Dial(at, _) => at.addresses.len() <= MAX_ADDRESSES,
            FromDriver::Ask(ask) => ask.is_sound(),
            FromDriver::Names(names) => names.len() <= MAX_NAMES,
            _ => true,
        }
    }
}

impl ToDriver {
    fn keeps_caps(&self) -> bool {
        match self {
            ToDriver::Hello(hello) => hello.is_sound(),
            ToDriver::Listening(at) => at.addresses.len() <= MAX_ADDRESSES,
            ToDriver::Sample(json) => json.len() <= MAX_SAMPLE,
            ToDriver::Found(found) => found.is_sound(),
            _ => true,
        }
    }
}
