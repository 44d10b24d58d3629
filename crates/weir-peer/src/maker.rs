//! Making lanes: from here to there, else from there to here, else inside ssh.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::addresses;
use crate::control::Control;
use crate::end::{Context, End, Event, Events};
use crate::error::Error;
use crate::lane::dial::dial;
use crate::lane::listen::Listener;
use crate::sender::spawn;
use crate::session::LaneOptions;
use crate::ssh::Host;
use crate::wire::message::{Listening, Message, Ports, Transport};

/// How long one direction is tried: a lost SYN is sent again after a second (RFC 6298), so this survives one.
const PATIENCE: Duration = Duration::from_millis(1500);

/// Lanes that break one after another without a byte between them.
const HOPELESS: u32 = 8;

/// How a lane is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// This end connects to the far one.
    There,
    /// The far end connects to this one.
    Back,
    /// Inside ssh.
    Ssh,
}

/// Makes the lanes of a session, and makes others when they break.
#[derive(Debug)]
pub struct LaneMaker {
    options: LaneOptions,
    context: Context,
    end: End,
    control: Arc<Control>,
    far: Listening,
    local: bool,
    listener: Option<Listener>,
    way: Way,
    next_id: u32,
    standing: u32,
    making: u32,
    /// Those that stand, the youngest last.
    up: Vec<u32>,
    first: Option<Instant>,
    lost: u32,
    why: Vec<String>,
}

impl LaneMaker {
    /// For lanes between `end` and a far one that listens at `far`.
    pub fn new(
        options: LaneOptions,
        context: Context,
        end: End,
        control: Arc<Control>,
        far: Listening,
        host: &Host,
    ) -> LaneMaker {
        let way = match (options.transport, far.port) {
            (Some(Transport::Ssh), _) => Way::Ssh,
            (_, 0) => Way::Back,
            _ => Way::There,
        };
        LaneMaker {
            options,
            context,
            end,
            control,
            far,
            local: host.name.is_none(),
            listener: None,
            way,
            next_id: 1,
            standing: 0,
            making: 0,
            up: Vec::new(),
            first: None,
            lost: 0,
            why: Vec::new(),
        }
    }

    /// Begins to make the first lanes.
    pub fn begin(&mut self) {
        let count = if self.way == Way::Ssh { 1 } else { self.options.count.unwrap_or(1) };
        (0..count).for_each(|_| self.make());
    }

    /// What lanes tell.
    pub fn handle(&mut self, event: Event) -> Result<(), Error> {
        match event {
            Event::LaneUp(id) => {
                self.standing += 1;
                self.making = self.making.saturating_sub(1);
                self.up.push(id);
                self.first.get_or_insert_with(Instant::now);
            }
            // One that was let go has ended, as it was to.
            Event::LaneLost(id, _) if !self.up.contains(&id) => {}
            Event::LaneLost(id, why) => {
                self.up.retain(|up| *up != id);
                tracing::warn!("lane {id} broke: {why}");
                self.standing = self.standing.saturating_sub(1);
                self.lost += 1;
                if self.lost > HOPELESS {
                    return Err(self.no_lane(format!("lanes break again and again: {why}")));
                }
                self.make();
            }
            Event::Dialled(_, None) => {}
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
                End::Receiver(_) => self.control.send(&Message::Retire(youngest)),
            }
        }
    }

    /// Lanes that stand or are being made.
    fn expected(&self) -> u32 {
        self.standing + self.making
    }

    /// Lanes that stand.
    pub fn standing(&self) -> u32 {
        self.standing
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
    pub fn since_first(&self) -> Option<Duration> {
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
        match self.way {
            Way::There => self.dial(id),
            Way::Back => self.call_back(id),
            Way::Ssh => {
                self.control.send(&Message::Open(0, Transport::Ssh));
                self.end.add_ssh_lane(0);
                self.context.events.send(Event::LaneUp(0));
            }
        }
    }

    fn dial(&self, id: u32) {
        let (far, context, end) = (self.far.clone(), self.context.clone(), self.end.clone());
        spawn("dial", move || match dial(&far, id, &context.keyring, context.role, PATIENCE) {
            Ok(lane) => {
                end.add_lane(lane);
                context.events.send(Event::LaneUp(id));
            }
            Err(why) => context.events.send(Event::Dialled(id, Some(why))),
        });
    }

    fn call_back(&mut self, id: u32) {
        if self.listener.is_none() {
            let ports = self.options.ports.unwrap_or(Ports { first: 0, last: 0 });
            let (end, events) = (self.end.clone(), self.context.events.clone());
            let up = move |lane: crate::lane::Lane| {
                let id = lane.id;
                end.add_lane(lane);
                events.send(Event::LaneUp(id));
            };
            match Listener::start(ports, self.context.keyring.clone(), self.context.role, up) {
                Ok(listener) => self.listener = Some(listener),
                Err(error) => {
                    let why = format!("cannot listen here: {}", weir_transfer::error::reason(&error));
                    return self.context.events.send(Event::Dialled(id, Some(why)));
                }
            }
        }
        let port = self.listener.as_ref().map_or(0, Listener::port);
        let addresses = if self.local { addresses::HERE.to_vec() } else { self.own_addresses() };
        self.control.send(&Message::Dial(Listening { port, addresses }, id));
    }

    /// The addresses from which this host reaches the far one.
    fn own_addresses(&self) -> Vec<IpAddr> {
        self.far.addresses.iter().filter_map(|far| addresses::towards(*far)).collect()
    }

    /// The way that was tried does not work.
    fn next_way(&mut self, why: String) -> Result<(), Error> {
        let (next, tried) = match self.way {
            Way::There => (Way::Back, "to it"),
            Way::Back => (Way::Ssh, "from it"),
            Way::Ssh => return Err(self.no_lane(why)),
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
        self.make();
        Ok(())
    }

    /// All lanes are gone and the way that worked does not.
    fn retry(&mut self, why: String) -> Result<(), Error> {
        self.lost += 1;
        if self.lost > HOPELESS {
            return Err(self.no_lane(why));
        }
        self.make();
        Ok(())
    }

    fn no_lane(&self, why: String) -> Error {
        let way_out = "open a port for it (--port-range) or go through ssh (--transport ssh)";
        Error::NoLane { host: self.context.events.host().to_owned(), why: format!("{why}; {way_out}") }
    }
}
