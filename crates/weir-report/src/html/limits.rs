//! How a limit looks: a colour for the place it sits at, a pattern that tells it from others of that place,
//! its words.
//!
//! Twenty-eight colours could be told apart by nobody. Six can, by people with any colour vision; nine
//! patterns do the rest, and every picture names its limits in words, too.

use weir_model::fleet::{NO_WORK, NOT_JUDGED};
use weir_model::limit::Limit;

use super::markup::Markup;

/// Where on the pipeline a limit sits. The names are the style sheet's classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PipelinePlace {
    /// The program at the far end, or a limit that someone set.
    Source,
    /// What the sending host does to the bytes.
    Sender,
    /// Between the hosts.
    Path,
    /// What the receiving host's sockets do.
    Receiver,
    /// Processors.
    Core,
    /// Memory and disk that the bytes end in.
    Store,
    /// A limit that this version does not know.
    Unknown,
}

impl PipelinePlace {
    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            PipelinePlace::Source => "the far program",
            PipelinePlace::Sender => "the sending host",
            PipelinePlace::Path => "the path",
            PipelinePlace::Receiver => "the receiving host",
            PipelinePlace::Core => "a processor",
            PipelinePlace::Store => "memory and disk",
            PipelinePlace::Unknown => "–",
        }
    }
}

/// How it looks and what it means.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// Its place.
    pub place: PipelinePlace,
    /// Its class in the style sheet, which is also its pattern's name.
    pub class: &'static str,
    /// The pattern as a reference.
    pub fill: &'static str,
    /// What it means.
    pub meaning: &'static str,
}

macro_rules! look {
    ($place:ident, $name:literal, $meaning:literal) => {
        Look {
            place: PipelinePlace::$place,
            class: concat!("l-", $name),
            fill: concat!("url(#l-", $name, ")"),
            meaning: $meaning,
        }
    };
}

/// How a limit of that name looks.
pub fn look(name: &str) -> Look {
    match name {
        NO_WORK => return look!(Unknown, "unknown", "a host of a fleet had no batch"),
        NOT_JUDGED => return look!(Unknown, "unknown", "at work, where nobody watched the stages"),
        _ => {}
    }
    let Some(limit) = Limit::parse(name) else {
        return look!(Unknown, "unknown", "a limit that this version of weir does not know");
    };
    match limit {
        Limit::Application => {
            look!(Source, "application", "the far program has nothing to send, or is slow to answer")
        }
        Limit::SourceDisk => look!(Source, "source-disk", "reading the source is slow"),
        Limit::RateLimit => look!(Source, "rate-limit", "a limit that someone set"),
        Limit::Compress => look!(Sender, "compress", "compressing is slower than all else"),
        Limit::Encrypt => look!(Sender, "encrypt", "the cipher is slower than all else"),
        Limit::SendBuffer => {
            look!(Sender, "send-buffer", "the sender's socket buffer is too small for the path")
        }
        Limit::PathBandwidth => look!(Path, "path-bandwidth", "the narrowest link is full"),
        Limit::PathLoss => look!(Path, "path-loss", "lost packets keep the sender's window small"),
        Limit::Latency => {
            look!(Path, "latency", "round trips, not bytes: handshakes, one request after another")
        }
        Limit::SenderOrPath => {
            look!(
                Path,
                "sender-or-path",
                "the sender or the path; from the receiver alone they look the same"
            )
        }
        Limit::ReceiveWindow => {
            look!(Receiver, "receive-window", "the receive buffer is too small for the path")
        }
        Limit::Reader => look!(Receiver, "reader", "the receiving program does not read in time"),
        Limit::CpuCore => look!(Core, "cpu-core", "one thread fills one core"),
        Limit::Decompress => look!(Core, "decompress", "decompressing is slower than all else"),
        Limit::Verify => look!(Core, "verify", "the digest is slower than the data"),
        Limit::DirtyThrottle => {
            look!(Store, "dirty-throttle", "memory for unwritten pages is full: writes are paced to the disk")
        }
        Limit::Disk => look!(Store, "disk", "the disk takes no more"),
        Limit::RequestResponse => {
            look!(
                Path,
                "request-response",
                "each request waits for the answer before it: the path rests between"
            )
        }
        Limit::ProtocolWindow => {
            look!(Receiver, "protocol-window", "a window of HTTP/2 or SSH is too small for the path")
        }
        Limit::Nagle => look!(Sender, "nagle", "a small rest waits for a delayed acknowledgement"),
        Limit::PathMtu => look!(Path, "path-mtu", "segments of full size never pass"),
        Limit::Timeouts => look!(Path, "timeouts", "nothing moves until a timer fires"),
        Limit::Connect => look!(Path, "connect", "connections take long to be made"),
        Limit::Dns => look!(Path, "dns", "a name server is silent or slow"),
        Limit::ThinkTime => look!(Receiver, "think-time", "the program itself computes, sleeps or waits"),
        Limit::Upstream => look!(Source, "upstream", "what feeds the relay is slow"),
        Limit::Downstream => look!(Receiver, "downstream", "what the relay feeds is slow"),
        Limit::Memory => look!(Store, "memory", "copies wait for memory"),
    }
}

/// A name of our vocabulary as people read it; another's as it is.
pub fn title(name: &str) -> String {
    if Limit::parse(name).is_some() || name == "mixed" { name.replace('-', " ") } else { name.to_owned() }
}

/// The marks of a pattern, in a cell of eight by eight.
fn marks(name: &str) -> &'static str {
    match Limit::parse(name) {
        Some(
            Limit::Application
            | Limit::SendBuffer
            | Limit::PathBandwidth
            | Limit::ReceiveWindow
            | Limit::CpuCore
            | Limit::Disk,
        ) => "",
        Some(
            Limit::RateLimit
            | Limit::Compress
            | Limit::PathLoss
            | Limit::Reader
            | Limit::Verify
            | Limit::DirtyThrottle,
        ) => "M-2 2L2 -2M-2 10L10 -2M6 10L10 6",
        Some(
            Limit::SourceDisk
            | Limit::Encrypt
            | Limit::Latency
            | Limit::Decompress
            | Limit::ProtocolWindow
            | Limit::Memory,
        ) => "M2 3h3M6 7h3M-2 7h3",
        Some(Limit::SenderOrPath | Limit::Nagle | Limit::Upstream | Limit::Downstream) => "M0 4H8M4 0V8",
        Some(Limit::RequestResponse) => "M0 4H8",
        Some(Limit::Timeouts) => "M4 0V8",
        Some(Limit::Connect | Limit::ThinkTime) => "M-2 6L2 10M-2 -2L10 10M6 -2L10 2",
        Some(Limit::Dns) => "M0 6L4 2L8 6",
        Some(Limit::PathMtu) => "M2 4h4M4 2v4",
        None => "M-2 10L10 -2M-2 -2L10 10",
    }
}

/// The patterns of all limits, to be referred to by [`Look::fill`]: once in a page, before the first picture.
pub fn patterns(page: &mut Markup) {
    page.within(
        "svg",
        &[("class", "patterns"), ("width", "0"), ("height", "0"), ("aria-hidden", "true")],
        |page| {
            page.within("defs", &[], |page| {
                for name in Limit::ALL.iter().map(|limit| limit.name()).chain(["unknown"]) {
                    let look = look(name);
                    let size = [("id", look.class), ("class", look.class), ("width", "8"), ("height", "8")];
                    let size = [&size[..], &[("patternUnits", "userSpaceOnUse")]].concat();
                    page.within("pattern", &size, |page| {
                        page.empty("rect", &[("class", "ground"), ("width", "8"), ("height", "8")]);
                        if !marks(name).is_empty() {
                            page.empty("path", &[("class", "marks"), ("d", marks(name))]);
                        }
                    });
                }
            });
        },
    );
}

/// A small square that shows how a limit looks beside its name.
pub fn swatch(page: &mut Markup, name: &str) {
    let frame = [
        ("class", "swatch"),
        ("viewBox", "0 0 16 16"),
        ("width", "16"),
        ("height", "16"),
        ("aria-hidden", "true"),
    ];
    page.within("svg", &frame, |page| {
        page.empty("rect", &[("width", "16"), ("height", "16"), ("rx", "3"), ("fill", look(name).fill)]);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_limits_look_the_same() {
        let looks = Limit::ALL.map(|limit| {
            let look = look(limit.name());
            (format!("{:?}", look.place), marks(limit.name()))
        });
        assert_eq!(looks.iter().collect::<BTreeSet<_>>().len(), Limit::ALL.len(), "{looks:?}");
        assert_eq!(look("<b>").class, "l-unknown");
    }
}
