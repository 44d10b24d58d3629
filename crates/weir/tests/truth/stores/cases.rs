//! The cases: which way, over which path, what the store does, what this end is like, and what may be said.

use std::time::Duration;

use weir_model::limit::Limit;

/// Which command moves the objects, and whither.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// `weir get` of an object, or of all below a prefix.
    Get,
    /// `weir put` of a file, or of a folder.
    Put,
    /// `weir put -`: another program writes so many bytes a second.
    Stdin(u64),
    /// `weir put - < FILE`.
    FileAsStdin,
    /// `weir cp` of a folder to a prefix.
    Up,
    /// `weir cp` of a prefix to a folder.
    Down,
}

impl StoreCase {
    /// It takes this machine's processors or disks, so that no other may run beside it.
    pub(crate) fn is_alone(&self) -> bool {
        self.objects.0 * self.objects.1 >= 4 * MIB || self.objects.1 >= MIB || self.here != Here::Whole
    }
}

impl Way {
    /// The objects are at the store to begin with.
    pub(crate) fn comes(self) -> bool {
        matches!(self, Way::Get | Way::Down)
    }
}

/// Between here and the store.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Road {
    /// The loopback.
    Loopback,
    /// An emulated path: milliseconds there and back, Mbit/s, packets lost of a million each way.
    Path(u64, Option<u64>, u64),
}

/// What the store does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Doing {
    /// Its work.
    Good,
    /// It takes and gives so many bytes a second on each connection.
    Caps(u64),
    /// The same of all connections together.
    CapsAll(u64),
    /// It refuses each request twice, by this status and code.
    Refuses(&'static str, &'static str),
    /// The same of requests whose target holds the text.
    RefusesFor(&'static str, &'static str, &'static str),
    /// Each answer takes so long.
    Late(Duration),
    /// The answers to requests whose target holds the text do.
    LateFor(&'static str, Duration),
    /// Its kernel takes no more than so many bytes that nobody has read.
    SmallBuffer(u64),
}

/// What this end is like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Here {
    /// As it is.
    Whole,
    /// The source, or what comes, lies on a disk that gives so many bytes a second.
    Disk(f64),
    /// weir may use this share of one core.
    Quota(f64),
    /// It sends under this congestion control.
    Sends(&'static str),
}

/// What a verdict may say.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Says {
    /// One of these, alone or together.
    One(&'static [Limit]),
    /// Whatever it finds, but none of these.
    Never(&'static [Limit]),
    /// That it cannot be told.
    NotTold,
    /// What the link's counters show: loss below a link that is not full, or the link.
    LossOrLink,
}

/// One cause, and the ways on which it is planted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoreCase {
    pub(crate) name: &'static str,
    pub(crate) ways: &'static [Way],
    pub(crate) road: Road,
    pub(crate) store: Doing,
    pub(crate) here: Here,
    /// How many objects, of how many bytes.
    pub(crate) objects: (usize, usize),
    pub(crate) args: &'static [&'static str],
    pub(crate) says: Says,
    /// What its record holds, in its evidence, its advice or its notes.
    pub(crate) words: &'static [&'static str],
    /// Connections that it came to, at the least.
    pub(crate) lanes: u32,
    /// It runs so many times, each time with other packets lost: what ten losses strike is chance.
    pub(crate) draws: u64,
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// A case to begin with: nothing is in the way.
const PLAIN: StoreCase = StoreCase {
    name: "",
    ways: &[],
    road: Road::Loopback,
    store: Doing::Good,
    here: Here::Whole,
    objects: (1, 8 * MIB),
    args: &[],
    says: Says::Never(&[]),
    words: &[],
    lanes: 1,
    draws: 1,
};

/// Of 0.01 % 60 MB have four losses, of half a per cent 3 MB have ten.
const LOSSY: Road = Road::Path(60, Some(100), 5000);

const AFAR: Road = Road::Path(100, None, 0);

use Limit::*;

/// Every case.
pub(crate) const CASES: &[StoreCase] = &[
    StoreCase {
        name: "a cap for each connection",
        ways: &[Way::Get],
        road: Road::Path(20, None, 0),
        store: Doing::Caps(500_000),
        objects: (1, 16 * MIB),
        says: Says::One(&[RateLimit]),
        words: &["whatever their number"],
        lanes: 8,
        ..PLAIN
    },
    StoreCase {
        name: "a cap for each connection",
        ways: &[Way::Put],
        // A part takes three seconds: there are parts left when the trial's lanes come. What sockets hold of
        // them blurs the trial's rates, so that it may stay with a store that does not read in time.
        store: Doing::Caps(2_000_000),
        objects: (1, 75 * MIB),
        args: &["--part-size", "5MiB", "--checksum", "none"],
        says: Says::One(&[RateLimit, Reader]),
        ..PLAIN
    },
    StoreCase {
        name: "a cap for all connections together",
        ways: &[Way::Put],
        store: Doing::CapsAll(8_000_000),
        objects: (1, 25 * MIB),
        args: &["--part-size", "5MiB", "--checksum", "none"],
        says: Says::One(&[Reader]),
        words: &["ask who runs the store"],
        ..PLAIN
    },
    StoreCase {
        name: "SlowDown",
        ways: &[Way::Get, Way::Put, Way::Up, Way::Down],
        store: Doing::Refuses("503 Slow Down", "SlowDown"),
        objects: (40, 16 * KIB),
        says: Says::One(&[RateLimit]),
        words: &["SlowDown: Please reduce your request rate"],
        ..PLAIN
    },
    StoreCase {
        name: "429",
        ways: &[Way::Get, Way::Put],
        store: Doing::Refuses("429 Too Many Requests", "TooManyRequests"),
        objects: (40, 16 * KIB),
        says: Says::One(&[RateLimit]),
        words: &["TooManyRequests: Please reduce your request rate"],
        ..PLAIN
    },
    StoreCase {
        name: "SlowDown in the middle",
        ways: &[Way::Get, Way::Put],
        store: Doing::RefusesFor("object-0", "503 Slow Down", "SlowDown"),
        objects: (1, 12 * MIB),
        says: Says::Never(NOT_OF_A_REFUSAL),
        words: &["SlowDown: Please reduce your request rate"],
        ..PLAIN
    },
    StoreCase {
        name: "faults of the store",
        ways: &[Way::Put, Way::Up],
        store: Doing::Refuses("500 Internal Server Error", "InternalError"),
        objects: (40, 16 * KIB),
        says: Says::One(&[Application]),
        words: &["the server failed, and requests waited", "InternalError"],
        ..PLAIN
    },
    StoreCase {
        name: "faults of the store, its list too",
        ways: &[Way::Get, Way::Down],
        store: Doing::Refuses("500 Internal Server Error", "InternalError"),
        objects: (40, 16 * KIB),
        says: Says::Never(NOT_OF_A_REFUSAL),
        words: &["the server failed, and requests waited", "InternalError"],
        ..PLAIN
    },
    StoreCase {
        name: "a list that is late",
        ways: &[Way::Get, Way::Down],
        store: Doing::LateFor("list-type", Duration::from_millis(1200)),
        objects: (8, 16 * KIB),
        says: Says::NotTold,
        words: &["the list of what to move was waited for"],
        ..PLAIN
    },
    StoreCase {
        name: "small objects, four at once, 100 ms",
        ways: &[Way::Get, Way::Put, Way::Up, Way::Down],
        road: AFAR,
        objects: (64, 8 * KIB),
        args: &["-j", "4"],
        says: Says::One(&[Latency, RequestResponse]),
        words: &["at once", "round trips"],
        ..PLAIN
    },
    StoreCase {
        name: "small objects, 100 ms",
        ways: &[Way::Get, Way::Put, Way::Up, Way::Down],
        road: AFAR,
        objects: (200, 12 * KIB),
        says: Says::One(&[Latency, RequestResponse]),
        ..PLAIN
    },
    StoreCase {
        name: "small objects one by one, 100 ms",
        ways: &[Way::Get, Way::Put],
        road: AFAR,
        // The list before them takes two round trips.
        objects: (16, 2 * KIB),
        args: &["-j", "1"],
        says: Says::One(&[Latency, RequestResponse]),
        ..PLAIN
    },
    StoreCase {
        name: "answers of 30 ms, 100 ms",
        ways: &[Way::Get, Way::Put],
        road: AFAR,
        store: Doing::Late(Duration::from_millis(30)),
        objects: (48, 8 * KIB),
        args: &["-j", "4"],
        says: Says::One(&[Latency, RequestResponse]),
        ..PLAIN
    },
    StoreCase {
        name: "answers of 500 ms, 100 ms",
        ways: &[Way::Get, Way::Put],
        road: AFAR,
        store: Doing::Late(Duration::from_millis(500)),
        objects: (16, 8 * KIB),
        args: &["-j", "4"],
        says: Says::One(&[Application]),
        ..PLAIN
    },
    StoreCase {
        name: "answers of 300 ms, 20 ms",
        ways: &[Way::Get, Way::Put, Way::Up, Way::Down],
        road: Road::Path(20, None, 0),
        store: Doing::Late(Duration::from_millis(300)),
        objects: (24, 8 * KIB),
        args: &["-j", "4"],
        says: Says::One(&[Application]),
        ..PLAIN
    },
    StoreCase {
        name: "the only answer is late",
        ways: &[Way::Get, Way::Put],
        store: Doing::Late(Duration::from_millis(1500)),
        objects: (1, 2 * KIB),
        says: Says::One(&[Application]),
        ..PLAIN
    },
    StoreCase {
        name: "a part takes long to be kept",
        ways: &[Way::Put],
        store: Doing::LateFor("partNumber=", Duration::from_millis(1000)),
        objects: (1, 20 * MIB),
        args: &["--part-size", "5MiB", "-c", "2", "--checksum", "none"],
        says: Says::One(&[Application]),
        words: &["use more connections"],
        ..PLAIN
    },
    StoreCase {
        name: "an upload takes long to be completed",
        ways: &[Way::Put],
        store: Doing::LateFor("?uploadId=", Duration::from_millis(2000)),
        objects: (1, 9 * MIB),
        args: &["--part-size", "5MiB", "--checksum", "none"],
        says: Says::One(&[Application]),
        ..PLAIN
    },
    StoreCase {
        name: "the user's own limit",
        ways: &[Way::Get],
        objects: (1, 6 * MIB),
        args: &["--limit-rate", "4MiB"],
        says: Says::One(&[RateLimit]),
        words: &["our own limit"],
        ..PLAIN
    },
    StoreCase {
        name: "the user's own limit",
        ways: &[Way::Put],
        objects: (1, 6 * MIB),
        args: &["--limit-rate", "4MiB", "--checksum", "none"],
        says: Says::One(&[RateLimit]),
        words: &["our own limit"],
        ..PLAIN
    },
    StoreCase {
        name: "the source's disk",
        ways: &[Way::Put, Way::FileAsStdin],
        here: Here::Disk(8e6),
        objects: (1, 16 * MIB),
        args: &["--checksum", "none"],
        says: Says::One(&[SourceDisk]),
        ..PLAIN
    },
    StoreCase {
        name: "the source's disk",
        ways: &[Way::Up],
        here: Here::Disk(8e6),
        objects: (1, 16 * MIB),
        says: Says::One(&[SourceDisk]),
        ..PLAIN
    },
    StoreCase {
        name: "the target's disk",
        ways: &[Way::Get, Way::Down],
        here: Here::Disk(8e6),
        objects: (1, 16 * MIB),
        says: Says::One(&[Disk, DirtyThrottle]),
        ..PLAIN
    },
    StoreCase {
        name: "the program that writes standard input",
        ways: &[Way::Stdin(8_000_000)],
        objects: (1, 20 * MIB),
        args: &["--part-size", "5MiB", "--checksum", "none"],
        says: Says::One(&[Upstream]),
        words: &["weir why --pid"],
        ..PLAIN
    },
    StoreCase {
        name: "a store's small receive buffer",
        ways: &[Way::Put],
        road: Road::Path(40, None, 0),
        store: Doing::SmallBuffer(64 << 10),
        objects: (1, 3 * MIB),
        args: &["-c", "1", "--checksum", "none"],
        says: Says::One(&[ReceiveWindow]),
        // It is of one part: more connections would bring nothing.
        words: &["ask who runs the store for larger receive buffers"],
        ..PLAIN
    },
    StoreCase {
        name: "60 ms and 0.01 % loss",
        ways: &[Way::Get],
        road: Road::Path(60, Some(100), 100),
        objects: (1, 24 * MIB),
        says: Says::LossOrLink,
        ..PLAIN
    },
    StoreCase {
        name: "60 ms and 0.01 % loss",
        ways: &[Way::Put],
        road: Road::Path(60, Some(100), 100),
        objects: (1, 24 * MIB),
        args: &["--checksum", "none"],
        says: Says::LossOrLink,
        ..PLAIN
    },
    StoreCase {
        name: "60 ms and 0.5 % loss, one connection",
        ways: &[Way::Get],
        road: LOSSY,
        objects: (1, 3 * MIB),
        args: &["-c", "1"],
        says: Says::LossOrLink,
        draws: 4,
        ..PLAIN
    },
    // BBR hardly minds: without any loss the same takes as long, nearly all of it the start.
    StoreCase {
        name: "60 ms and 0.5 % loss, one connection, bbr",
        ways: &[Way::Put],
        road: LOSSY,
        here: Here::Sends("bbr"),
        objects: (1, 3 * MIB),
        args: &["-c", "1", "--checksum", "none"],
        says: Says::LossOrLink,
        draws: 6,
        ..PLAIN
    },
    // CUBIC gives up three tenths of its window at each loss: about 0.6 MB/s of the link's 12.5.
    StoreCase {
        name: "20 ms and 2 % loss, one connection, cubic",
        ways: &[Way::Put],
        road: Road::Path(20, Some(100), 20_000),
        here: Here::Sends("cubic"),
        objects: (1, 2 * MIB),
        args: &["-c", "1", "--checksum", "none"],
        says: Says::One(&[PathLoss]),
        draws: 2,
        ..PLAIN
    },
    StoreCase {
        name: "nothing but this machine",
        ways: &[Way::Get, Way::Put],
        objects: (1, 32 * MIB),
        says: Says::Never(NOT_OF_A_MACHINE),
        ..PLAIN
    },
    StoreCase {
        name: "nothing but this machine, small objects",
        ways: &[Way::Get, Way::Put, Way::Up, Way::Down],
        objects: (300, 8 * KIB),
        says: Says::Never(&[
            RateLimit,
            PathLoss,
            PathBandwidth,
            SendBuffer,
            ReceiveWindow,
            Reader,
            SourceDisk,
            Disk,
            DirtyThrottle,
            Upstream,
        ]),
        ..PLAIN
    },
    StoreCase {
        name: "this end's processor",
        ways: &[Way::Put],
        here: Here::Quota(0.15),
        objects: (1, 100 * MIB),
        says: Says::One(&[CpuCore, Verify]),
        ..PLAIN
    },
];

/// What holds no run that the store refuses or fails for a time.
const NOT_OF_A_REFUSAL: &[Limit] =
    &[Latency, RequestResponse, PathLoss, PathBandwidth, SendBuffer, SourceDisk, Reader];

/// What holds no large object between two programs of one machine.
const NOT_OF_A_MACHINE: &[Limit] = &[
    RateLimit,
    PathBandwidth,
    PathLoss,
    SendBuffer,
    SourceDisk,
    DirtyThrottle,
    Disk,
    Latency,
    RequestResponse,
    Upstream,
];
