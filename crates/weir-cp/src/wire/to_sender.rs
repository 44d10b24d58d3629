//! What a receiver says to the sender of its copy.

use serde::{Deserialize, Serialize};
use weir_tree::Name;
use weir_tree::source::Identity;

use super::message::{Failure, MAX_NAMES, MAX_ROOTS, Totals};
use super::messages::messages;
use super::to_receiver::MAX_OFFERS;
use crate::subtrees::Digest;

/// Subtrees that an answer may name; a journal with more gaps than that starts again.
pub(crate) const MAX_SUBTREES: usize = 4096;

/// Blocks of one file that are asked for once more in one message.
pub(crate) const MAX_WANTED: usize = 1024;

messages! {
    /// From the receiver to the sender.
    ToSender {
        /// What its sources are to be called.
        [8] Placed(names: Vec<Name>),
        /// What is wanted of its offers, by number.
        [10] Answer(answers: Vec<(u64, Answer)>),
        /// The next piece of the signature of the file that is in the place of this one.
        [11] Signature(file: u64, piece: Vec<u8>),
        /// The file has its name, or why not.
        [14] Stored(file: u64, outcome: Result<Digest, Failure>),
        /// A lane's records up to this sequence are written.
        [15] Ack(lane: u32, through: u64),
        /// A record's content did not fit; lane, sequence, why.
        [16] Again(lane: u32, sequence: u64, why: String),
        /// The lane is over, and why.
        [17] LaneLost(lane: u32, why: String),
        /// All is stored.
        [22] Finished(totals: Totals),
        /// A lane on which nothing comes.
        [28] Waits(wait: Wait),
        /// Blocks of a file that were said to be there, and that were changed since they were written.
        [30] Wanted(file: u64, blocks: Vec<u64>),
        /// Entries of a batch that are not in their places, or not on the disk, for a sender that removes
        /// what is: told before the batch is as written.
        [32] Unplaced(names: Vec<Name>),
        /// Bytes of files that are there which were read so far, to compare them with what is offered.
        [42] Reads(bytes: u64),
        /// The target is this folder of the sender's machine, in a source: not to be walked into. Told before
        /// [`ToSender::Placed`].
        [45] Avoid(folder: Identity),
    }
}

/// What a receiver wants of an offered file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// All of it.
    All,
    /// All but these subtrees: level, first block, value.
    Rest(Vec<(u8, u64, Digest)>),
    /// Nothing: it is there.
    Nothing,
    /// What differs from the file whose signature was sent before, in pieces.
    Differing,
    /// Nothing: it cannot be written.
    Refused(Failure),
    /// Nothing, and it is not there: it is not to be copied over what is there, or is told with the folder
    /// that it would be in.
    LeftOut,
}

impl Answer {
    /// Bytes that it takes in a message with its number, at most.
    pub(crate) fn packed_len(&self) -> usize {
        // Numbers at their longest: two of an answer, two of a subtree.
        const NUMBERS: usize = 20;
        NUMBERS
            + match self {
                Answer::Rest(nodes) => nodes.len() * (NUMBERS + size_of::<Digest>()),
                Answer::Refused(failure) => failure.words.len(),
                Answer::All | Answer::Nothing | Answer::Differing | Answer::LeftOut => 0,
            }
    }
}

/// A lane on which a receiver waits for bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// Which.
    pub lane: u32,
    /// Bytes of it that have come, from the first record after the hello on.
    pub bytes: u64,
    /// The retransmission timeout of its socket, in milliseconds.
    pub rto: u32,
}

impl ToSender {
    fn keeps_caps(&self) -> bool {
        match self {
            ToSender::Placed(names) => names.len() <= MAX_ROOTS,
            ToSender::Unplaced(names) => names.len() <= MAX_NAMES,
            ToSender::Wanted(_, blocks) => blocks.len() <= MAX_WANTED,
            ToSender::Answer(answers) => {
                let few = |answer: &Answer| match answer {
                    Answer::Rest(nodes) => nodes.len() <= MAX_SUBTREES,
                    _ => true,
                };
                answers.len() <= MAX_OFFERS && answers.iter().all(|(_, answer)| few(answer))
            }
            _ => true,
        }
    }
}
