//! Making lanes: from here to there, else from there to here, else inside ssh. Between two far ends: from the
//! sender to the receiver, else from the receiver to the sender, else through here, else through here inside
//! both ssh connections.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use weir_model::decision::Restart;
use weir_units::backoff::doubled;

use crate::addresses;
use crate::control::Outlet;
use crate::end::{Context, End};
use crate::error::CopyError;
use crate::events::{Event, Events};
use crate::lane::dial::dial;
use crate::lane::listen::Listener;
use crate::lane::way::{LaneOptions, TIMEOUT, Way};
use crate::ssh::Host;
use crate::threads;
use crate::wire::driver::FromDriver;
use crate::wire::message::{Listening, Ports, Role, Transport};

/// How long the far end is waited for that was asked to connect: its own timeout (2.5 s), and ssh's way there
/// and back.
const ANSWER: Duration = Duration::from_secs(10);

/// Lanes that break one after another without a byte between them.
const HOPELESS: u32 = 8;

/// Before the second of them is followed by another; each further time twice as long. All together are 13 s:
/// what a router or a firewall takes to start again.
const REST: Duration = Duration::from_millis(100);

/// Makes the lanes of a session, and makes others when they break.
#[derive(Debug)]
pub struct LaneManager {
    options: LaneOptions,
    context: Context,
    end: End,
    peer: Outlet<FromDriver>,
    far: Listening,
    local: bool,
    listener: Option<Listener>,
    way: Way,
    next_id: u32,
    standing: u32,
    making: u32,
    /// Those that stand, the youngest last.
    up: Vec<u32>,
    /// Those that were said to be lost, by one end or both; perhaps before it was said that they stand.
    gone: HashSet<u32>,
    first: Option<Instant>,
    /// When the far end was asked to connect.
    asked: Option<Instant>,
    /// The first lane of the way that is tried: what is said of those before it does not count.
    since: u32,
    /// How often lanes broke without a byte between; several that were made before the last time are one
    /// loss.
    lost: u32,
    lost_at: u32,
    /// When lanes are to be made in place of those that broke, and how many.
    due: Option<(Instant, u32)>,
    /// What had been moved when a lane broke last.
    moved: u64,
    why: Vec<String>,
    /// Connections to the port for lanes that were none of this session's, as far as is known.
    strangers: u64,
}

impl LaneManager {
    /// For lanes between `end` and a far one that listens at `far`.
    pub fn new(
        options: LaneOptions,
        context: Context,
        end: End,
        peer: Outlet<FromDriver>,
        far: Listening,
        host: &Host,
    ) -> LaneManager {
        let way = match (options.transport, far.port) {
            (Some(Transport::Ssh), _) => Way::Ssh,
            _ if options.through_here => Way::Relay,
            (_, 0) => Way::Back,
            _ => Way::There,
        };
        LaneManager {
            options,
            context,
            end,
            peer,
            far,
            local: host.name.is_none(),
            listener: None,
            way,
            next_id: 1,
            standing: 0,
            making: 0,
            up: Vec::new(),
            gone: HashSet::new(),
            first: None,
            asked: None,
            since: 1,
            lost: 0,
            lost_at: 0,
            due: None,
            moved: 0,
            why: Vec::new(),
            strangers: 0,
        }
    }

    /// Begins to make the first lanes.
    pub fn begin(&mut self) {
        let count = if self.way == Way::Ssh { 1 } else { self.options.count.unwrap_or(1) };
        (0..count).for_each(|_| self.make());
    }

    /// What lanes tell.
    pub fn handle(&mut self, event: Event) -> Result<(), CopyError> {
        match event {
            Event::LaneUp(id) => {
                self.standing += 1;
                self.making = self.making.saturating_sub(1);
                self.up.push(id);
                self.first.get_or_insert_with(Instant::now);
                if self.gone.remove(&id) {
                    return self.handle(Event::LaneLost(id, "it broke at once".to_owned()));
                }
            }
            // One that was let go has ended, as it was to.
            Event::LaneLost(id, _) if !self.up.contains(&id) => drop(self.gone.insert(id)),
            Event::LaneLost(id, why) => {
                self.up.retain(|up| *up != id);
                tracing::warn!("{}", Restart::BrokenLane { lane: id, why: why.clone() });
                self.standing = self.standing.saturating_sub(1);
                let moved = self.end.totals().bytes;
                if moved > self.moved {
                    (self.lost, self.lost_at) = (1, self.next_id);
                } else if id >= self.lost_at {
                    (self.lost, self.lost_at) = (self.lost + 1, self.next_id);
                }
                self.moved = moved;
                if self.lost > HOPELESS {
                    return Err(self.no_lane(format!("lanes break again and again: {why}")));
                }
                self.make_soon();
            }
            Event::Strangers(count) => self.strangers = self.strangers.max(count),
            Event::Dialled(_, None) => {}
            Event::Dialled(id, _) if id < self.since => {}
            Event::Dialled(_, Some(why)) => {
                self.making = self.making.saturating_sub(1);
                // Of several that were tried at once the last one tells.
                if self.making == 0 || self.first.is_some() {
                    return self.next_way(why);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Makes what is due, and looks whether the far end has connected as it was asked to.
    pub fn look(&mut self) -> Result<(), CopyError> {
        if let Some((_, count)) = self.due.take_if(|(at, _)| *at <= Instant::now()) {
            (0..count).for_each(|_| self.make());
        }
        let late = self.first.is_none() && self.asked.is_some_and(|asked| asked.elapsed() > ANSWER);
        if late { self.next_way("it did not say that it tried".to_owned()) } else { Ok(()) }
    }

    /// Makes lanes, or lets the youngest end, until there are this many.
    pub fn want(&mut self, count: u32) {
        while self.expected() < count {
            self.make();
        }
        while self.expected() > count {
            let Some(youngest) = self.up.pop() else { return };
            self.standing = self.standing.saturating_sub(1);
            match &self.end {
                End::Sender(sender) => sender.retire(youngest),
                End::Receiver(_) => self.peer.send(&FromDriver::Retire(youngest)),
                End::Meter(meter) => meter.retire(youngest),
                End::Relay(relay, _) => relay.retire(youngest),
            }
        }
    }

    /// Lanes that stand or are being made.
    fn expected(&self) -> u32 {
        self.standing + self.making + self.due.map_or(0, |(_, count)| count)
    }

    /// Above the number of every lane that was begun.
    pub fn made(&self) -> u32 {
        self.next_id
    }

    /// Lanes stand, and none is being made.
    pub fn is_settled(&self) -> bool {
        self.standing > 0 && self.making == 0
    }

    /// Lanes that stand.
    pub fn standing(&self) -> u32 {
        self.standing
    }

    /// Connections of strangers to the port for lanes, as far as is known.
    pub fn strangers(&self) -> u64 {
        self.strangers
    }

    /// Why the ways that were tried first did not work.
    pub fn tried(&self) -> &[String] {
        &self.why
    }

    /// How lanes are made, once one stands.
    pub fn way(&self) -> Option<Way> {
        self.first.map(|_| self.way)
    }

    /// Since the first lane stood.
    pub(crate) fn since_first(&self) -> Option<Duration> {
        self.first.map(|first| first.elapsed())
    }

    /// Where lanes tell.
    pub fn events(&self) -> &Events {
        &self.context.events
    }

    /// One lane more, the way that is known to work or is tried.
    fn make(&mut self) {
        let id = self.next_id;
        self.next_id += 1;
        self.making += 1;
        if let (End::Relay(relay, _), Way::There | Way::Back | Way::Relay) = (&self.end, self.way) {
            return relay.make(self.way, id, &self.context.events);
        }
        match self.way {
            Way::There | Way::Relay => self.dial(id),
            Way::Back => self.call_back(id),
            Way::Ssh => {
                // The end to which its records come has to have the lane first: they may follow the word at
                // once.
                let receives = self.context.role == Role::Receiver;
                if receives {
                    self.end.add_ssh_lane(0);
                }
                self.peer.send(&FromDriver::Open(0, Transport::Ssh));
                if !receives {
                    self.end.add_ssh_lane(0);
                }
                self.context.events.send(Event::LaneUp(0));
            }
        }
    }

    fn dial(&self, id: u32) {
        let (far, context, end) = (self.far.clone(), self.context.clone(), self.end.clone());
        let events = context.events.clone();
        let started =
            threads::start("dial", move || match dial(&far, id, &context.keyring, context.role, TIMEOUT) {
                Ok(lane) => {
                    end.add_lane(lane);
                    context.events.send(Event::LaneUp(id));
                }
                Err(why) => context.events.send(Event::Dialled(id, Some(why))),
            });
        if let Err(why) = started {
            let why = threads::words(&why);
            events.send(Event::Dialled(id, Some(why)));
        }
    }

    fn call_back(&mut self, id: u32) {
        if self.listener.is_none() {
            let ports = self.options.ports.unwrap_or(Ports { first: 0, last: 0 });
            let (end, events) = (self.end.clone(), self.context.events.clone());
            let tell = events.clone();
            let up = move |lane: crate::lane::Lane| {
                let id = lane.id;
                end.add_lane(lane);
                events.send(Event::LaneUp(id));
            };
            let strangers = move |count| tell.send(Event::Strangers(count));
            match Listener::start(ports, self.context.keyring.clone(), self.context.role, up, strangers) {
                Ok(listener) => self.listener = Some(listener),
                Err(error) => {
                    let why = format!("cannot listen here: {}", weir_units::plain(&error));
                    return self.context.events.send(Event::Dialled(id, Some(why)));
                }
            }
        }
        let port = self.listener.as_ref().map_or(0, Listener::port);
        self.asked.get_or_insert_with(Instant::now);
        let towards = || self.far.addresses.iter().filter_map(|far| addresses::towards(*far));
        let addresses = match self.local {
            true => addresses::HERE.to_vec(),
            false => towards().chain([addresses::WHERE_SSH_CAME_FROM]).collect(),
        };
        self.peer.send(&FromDriver::Dial(Listening { port, addresses }, id));
    }

    /// The way that was tried does not work.
    fn next_way(&mut self, why: String) -> Result<(), CopyError> {
        let (next, tried) = match (&self.end, self.way) {
            (End::Relay(relay, _), Way::There) => (Way::Back, relay.sender_side()),
            (End::Relay(relay, _), Way::Back) => (Way::Relay, relay.receiver_side()),
            (_, Way::There) => (Way::Back, "to it".to_owned()),
            (_, Way::Back) => (Way::Ssh, "from it".to_owned()),
            (_, Way::Relay) => (Way::Ssh, "from here to both".to_owned()),
            (_, Way::Ssh) => return Err(self.no_lane(why)),
        };
        if self.first.is_some() {
            // The way works; one lane more does not, or not now.
            tracing::info!("no further connection {tried}: {why}");
            return if self.expected() > 0 { Ok(()) } else { self.retry(why) };
        }
        tracing::info!("no connection {tried}: {why}");
        self.why.push(format!("{tried}: {why}"));
        if next == Way::Ssh && self.options.transport == Some(Transport::Tcp) {
            return Err(self.no_lane(self.why.join("; ")));
        }
        self.way = next;
        self.asked = None;
        self.since = self.next_id;
        self.making = 0;
        self.begin();
        Ok(())
    }

    /// All lanes are gone and the way that worked does not.
    fn retry(&mut self, why: String) -> Result<(), CopyError> {
        self.lost += 1;
        if self.lost > HOPELESS {
            return Err(self.no_lane(why));
        }
        self.make_soon();
        Ok(())
    }

    /// A lane in place of one that broke: at once the first time, after a rest where that did not help.
    fn make_soon(&mut self) {
        let rest = match self.lost {
            0 | 1 => return self.make(),
            lost => doubled(REST, lost - 2, Duration::MAX),
        };
        let (at, count) = self.due.unwrap_or((Instant::now() + rest, 0));
        self.due = Some((at, count + 1));
    }

    fn no_lane(&self, why: String) -> CopyError {
        let way_out = "open a port for it (--port-range) or go through ssh (--transport ssh)";
        CopyError::NoLane { host: self.context.events.host().to_owned(), why: format!("{why}; {way_out}") }
    }
}
