//! The connections of one end, as lanes of a window. Times are estimates from looks, made as `weir why` makes them: where
//! the thread was found, and whether data lay in the receive queue.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use weir_model::evidence::{LaneWindow, Reading, ThreadWindow};
use weir_observe::flow::{FlowProbe, FlowWindow};
use weir_observe::foreign_lane::share;
use weir_observe::sock_diag::{TcpSocket, TcpState};

use crate::scenario::Side;

/// Every connection of the run that was seen.
pub(super) struct Lanes {
    side: Side,
    /// By cookie.
    lanes: HashMap<u64, Lane>,
    count: u32,
}

struct Lane {
    number: u32,
    probe: FlowProbe,
    born: Instant,
    ended: Option<Instant>,
    looks: u32,
    /// Of them, before the handshake's end.
    connecting: u32,
    objects: u32,
    /// Not part of a window yet.
    fresh: bool,
}

impl Lanes {
    pub(super) fn new(side: Side) -> Lanes {
        Lanes { side, lanes: HashMap::new(), count: 0 }
    }

    /// Takes in what is there now.
    pub(super) fn look(&mut self, sockets: &[TcpSocket]) {
        for socket in sockets {
            let lane = self.lane(socket);
            lane.looks += 1;
            lane.connecting += u32::from(socket.state == TcpState::SYN_SENT);
            lane.probe.look(socket);
        }
    }

    /// Takes in the last counters of connections that closed.
    pub(super) fn end<'a>(&mut self, over: impl Iterator<Item = &'a TcpSocket>) {
        for socket in over {
            let lane = self.lane(socket);
            lane.probe.end(socket);
            lane.ended.get_or_insert_with(Instant::now);
        }
    }

    fn lane(&mut self, socket: &TcpSocket) -> &mut Lane {
        let count = &mut self.count;
        self.lanes.entry(socket.id.cookie).or_insert_with(|| {
            let number = *count;
            *count += 1;
            Lane {
                number,
                probe: FlowProbe::from_its_start(),
                born: Instant::now(),
                ended: None,
                looks: 0,
                connecting: 0,
                objects: 0,
                fresh: true,
            }
        })
    }

    /// What happened since `opened`.
    pub(super) fn window(
        &mut self,
        opened: Instant,
        now: Instant,
        thread: Reading<ThreadWindow>,
    ) -> Vec<LaneWindow> {
        let side = self.side;
        let span = now.saturating_duration_since(opened);
        let mut lanes: Vec<LaneWindow> =
            self.lanes.values_mut().map(|lane| lane.window(side, opened, now, &thread)).collect();
        self.lanes.retain(|_, lane| lane.ended.is_none());
        // A connection that lingers after its last byte is none.
        lanes.retain(|lane| lane.idle < span);
        lanes.sort_by_key(|lane| lane.lane);
        lanes
    }
}

impl Lane {
    fn window(
        &mut self,
        side: Side,
        opened: Instant,
        now: Instant,
        thread: &Reading<ThreadWindow>,
    ) -> LaneWindow {
        let flow = self.probe.window();
        let span = now.saturating_duration_since(opened);
        let looks = std::mem::take(&mut self.looks);
        let connecting = share(std::mem::take(&mut self.connecting), looks);
        let lived = self.ended.unwrap_or(now).saturating_duration_since(self.born.max(opened));
        let fresh = std::mem::take(&mut self.fresh);
        // One look says nothing of how long it lived.
        let mut lane = if looks <= 1 && self.ended.is_some() && fresh {
            self.between_looks(&flow, side, span)
        } else if side == Side::Sender {
            LaneWindow { idle: span.saturating_sub(lived), ..flow.sending(thread.clone()) }
        } else {
            let lane = flow.receiving(thread.clone(), lived, connecting);
            LaneWindow { idle: span.saturating_sub(lived), ..lane }
        };
        lane.lane = self.number;
        lane.connects = u32::from(fresh);
        if side == Side::Receiver && lane.objects == 0 {
            lane.requests = u32::try_from(flow.requests).unwrap_or(u32::MAX);
            // An object is over when the next is asked for, or the connection ends.
            let over = self.objects + lane.requests
                - u32::from(self.ended.is_none() && self.objects + lane.requests > 0);
            lane.objects = over.saturating_sub(self.objects);
            self.objects += lane.objects;
        }
        lane
    }

    /// What it moved is known; when it waited only by its round trips, one for the handshake and one for the answer.
    fn between_looks(&self, flow: &FlowWindow, side: Side, span: Duration) -> LaneWindow {
        let info = self.probe.last().map(|socket| &socket.info);
        let rtt = info.and_then(|info| info.min_rtt.or(info.rtt)).unwrap_or_default().min(span / 2);
        let unseen = || "the connection was over between two looks".to_owned();
        LaneWindow {
            received: if side == Side::Sender { flow.acked } else { flow.received },
            connecting: rtt,
            first_byte: rtt,
            idle: span.saturating_sub(2 * rtt),
            requests: 1,
            objects: 1,
            thread: Reading::Missing(unseen()),
            tcp: flow.receiver.clone(),
            sender: flow.sender.clone(),
            ..LaneWindow::default()
        }
    }
}
