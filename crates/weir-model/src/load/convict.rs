//! The conditions under which each of the holders is named.
//!
//! The connections' time is divided first: what of it passed in no request (a pause after a failure,
//! connecting, a script's `delay()`) or in a standstill needs no guess. What held the requests themselves is
//! decided by the first condition that holds.

use super::Holder;
use super::figures::{FEWEST, FULL, Figures, QUARTER};
use super::words::{acks, connecting, little, paused, short, waited};
use crate::limit::Limit;
use crate::words::{percent, rate, seconds};
use weir_units::counted;

/// The asked rate counts as reached at this share: the last requests of a run are under way when it ends.
const REACHED: f64 = 0.98;

/// What takes so much of the time holds the run alone.
const HALF: f64 = 0.5;

/// Number of connections over latency comes near the figure if so much of their time passes in answers.
const LITTLE: f64 = 0.8;

/// A thread this busy is what more connections meet first: they could bring a third more.
const NEARLY_FULL: f64 = 0.75;

/// No verdict that needs an idle server is surer than this where its processors were not seen: it may as well
/// be computing all the time.
const UNSEEN: f64 = 0.6;

/// Making connections holds a run that does little else: half as long as the answers take, and this share of
/// all time. What the server does for a new connection is part of its answer's time as well.
const CONNECTING: f64 = 0.3;

/// A serialised server's threads come to about one processor, not to more.
const ONE_PROCESSOR: std::ops::Range<f64> = FULL..1.2;

/// Others that take less of the processors' time than this are what any machine does beside.
const OTHERS: f64 = 0.1;

/// Hastened answers that make an experiment.
const EXPERIMENT: u32 = 3;

/// The shortest time-out after which TCP sends again what was lost, seconds (TCP_RTO_MIN of
/// include/net/tcp.h).
const RTO: f64 = 0.2;

/// A conviction.
pub(super) struct Conviction {
    pub holder: Holder,
    pub limit: Limit,
    /// How sure, 0 to 1.
    pub strength: f64,
    /// Of the connections' time, 0 to 1.
    pub share: f64,
    pub evidence: String,
}

impl Conviction {
    fn new(holder: Holder, limit: Limit, strength: f64, evidence: String) -> Conviction {
        Conviction { holder, limit, strength: strength.clamp(0.0, 1.0), share: 1.0, evidence }
    }

    /// Of a part of the connections' time, which is as sure as it is large.
    fn of_time(holder: Holder, limit: Limit, share: f64, evidence: String) -> Conviction {
        Conviction { share, ..Conviction::new(holder, limit, 0.5 + 0.5 * share, evidence) }
    }
}

/// Who held the run: one, or several that took a part each. None where that cannot be told.
pub(super) fn convictions(figures: &Figures<'_>) -> Vec<Conviction> {
    if let Some(rate) = rate_reached(figures) {
        return vec![rate];
    }
    let parts: Vec<Conviction> = [no_ports(figures), stall(figures), script(figures), delay(figures)]
        .into_iter()
        .chain([connecting_most(figures)])
        .flatten()
        .filter(|part| part.share >= QUARTER)
        .collect();
    if let Some(main) = parts.iter().position(|part| part.share >= HALF) {
        return parts.into_iter().nth(main).into_iter().collect();
    }
    let share = 1.0 - parts.iter().map(|part| part.share).sum::<f64>();
    let is_told = share >= QUARTER && figures.seen.requests >= FEWEST;
    let asked = if is_told { of_requests(figures) } else { Vec::new() };
    asked.into_iter().map(|one| Conviction { share, ..one }).chain(parts).collect()
}

/// What held the requests, in the order of the conditions.
fn of_requests(figures: &Figures<'_>) -> Vec<Conviction> {
    let full = full(figures);
    if !full.is_empty() {
        return full;
    }
    let first = connecting_often(figures)
        .or_else(|| processor(figures))
        .or_else(|| serialised(figures))
        .or_else(|| nagle(figures))
        .or_else(|| path_full(figures))
        .or_else(|| path_loses(figures))
        .or_else(|| queue(figures))
        .or_else(|| slow_answers(figures))
        .or_else(|| nearly_full(figures))
        .or_else(|| too_few_connections(figures));
    first.into_iter().collect()
}

/// Condition 1: The asked rate was reached: whatever was busy had room enough. Of a short run's requests some
/// are under way at its end: they count where connections had time left. Requests that fail are no rate that
/// the server carries.
fn rate_reached(figures: &Figures<'_>) -> Option<Conviction> {
    let (seen, asked) = (figures.seen, figures.seen.rate?);
    let planned = REACHED * asked * seen.span.as_secs_f64();
    let had_time = seen.time.share(seen.time.idle) >= QUARTER;
    let under_way = if had_time { seen.under_way } else { 0 };
    let fails = seen.failed as f64 > (1.0 - REACHED) * (seen.requests + seen.failed) as f64;
    if fails || ((seen.requests + under_way) as f64) < planned {
        return None;
    }
    let (asked, answered) = (short(asked), short(figures.rate));
    let evidence = format!("{asked} requests/s were asked for (--rate) and {answered} answered");
    Some(Conviction::new(Holder::Rate, Limit::RateLimit, 1.0, evidence))
}

/// Condition 2: Connections waited for a local port: most of the attempts that failed had none.
fn no_ports(figures: &Figures<'_>) -> Option<Conviction> {
    let (time, connects) = (&figures.seen.time, &figures.seen.connects);
    let share = time.share(time.resting);
    (connects.no_port > connects.refused && connects.no_port > 0).then(|| {
        let evidence = format!(
            "{} found no free local port to connect from (EADDRNOTAVAIL), and the pauses after them took {} \
             of the time: {} left theirs in TIME_WAIT",
            counted(connects.no_port, "attempt"),
            percent(share),
            counted(connects.made, "connection")
        );
        Conviction::of_time(Holder::Ports, Limit::Connect, share, evidence)
    })
}

/// Condition 3: A standstill: no answers at all for far longer than one takes, or requests that failed and
/// the pauses after them.
///
/// Wrong where a server works in turns of half a second and more: it is then the server's own pace.
fn stall(figures: &Figures<'_>) -> Option<Conviction> {
    let time = &figures.seen.time;
    let lost = if no_ports(figures).is_some() { time.failed } else { time.failed + time.resting };
    let share = time.share(lost.max(time.still));
    // On this machine there is no path that could be silent, and a refusal is the server's machine's own
    // word.
    let servers = figures.server().is_some() || figures.seen.connects.refused > 0;
    let limit = if servers { Limit::Application } else { Limit::SenderOrPath };
    let evidence = paused(figures);
    (share > 0.0).then(|| Conviction::of_time(Holder::Stall, limit, share, evidence))
}

/// Condition 4: The script's functions hold the loop: meanwhile it takes no answer.
fn script(figures: &Figures<'_>) -> Option<Conviction> {
    let held = &figures.scripted;
    let share = held.in_script().min(1.0);
    // What the loop neither ran nor wanted to run of it was slept through.
    let slept = (share - held.thread.busy()).max(0.0);
    let sleeps = slept > share / 2.0;
    let limit = if sleeps { Limit::ThinkTime } else { Limit::CpuCore };
    let how = match sleeps {
        true => format!("slept or waited through {} of it", percent(slept)),
        false => format!(
            "computed: the loop ran {} of the time{}",
            percent(held.thread.running()),
            waited(&held.thread)
        ),
    };
    let evidence = format!(
        "the script's functions held weir's loop {} of the time, and {how}: the figure is the script's, not \
         the server's",
        percent(share)
    );
    (share > 0.0).then(|| Conviction::of_time(Holder::Script, limit, share, evidence))
}

/// Condition 5: The script's `delay()` before requests.
fn delay(figures: &Figures<'_>) -> Option<Conviction> {
    let time = &figures.seen.time;
    let share = time.share(time.delayed);
    let evidence = format!("the script's delay() took {} of the connections' time", percent(share));
    (share > 0.0).then(|| Conviction::of_time(Holder::Delay, Limit::ThinkTime, share, evidence))
}

/// Condition 6: Making connections took most of the time, whatever it is that makes it long.
fn connecting_most(figures: &Figures<'_>) -> Option<Conviction> {
    let time = &figures.seen.time;
    let share = time.share(time.connecting);
    (share >= HALF)
        .then(|| Conviction::of_time(Holder::Connecting, Limit::Connect, share, connecting(figures)))
}

/// Condition 7: A full thread, on either side. One that waited for longer than it ran is held by whoever had
/// the processors; so are two that waited half as long as they ran.
fn full(figures: &Figures<'_>) -> Vec<Conviction> {
    let client = client_busy(figures, FULL);
    let server = server_busy(figures, FULL);
    if client.is_some() && server.is_some() {
        let running =
            figures.client.running() + figures.server().map_or(0.0, |server| server.busiest.running());
        if figures.waiting() > running / 2.0 {
            return vec![waits(figures, figures.waiting() / (figures.waiting() + running))];
        }
    }
    client.into_iter().chain(server).collect()
}

/// The client's fullest loop was busy for this share of the time.
fn client_busy(figures: &Figures<'_>, share: f64) -> Option<Conviction> {
    let client = &figures.client;
    if client.busy() < share {
        return None;
    }
    if client.waited > client.cpu {
        return Some(waits(figures, client.waiting()));
    }
    let evidence = format!(
        "weir's own loop ran {} of the time{}: the figure is the client's, not the server's",
        percent(client.running()),
        waited(client)
    );
    Some(Conviction::new(Holder::Client, Limit::CpuCore, client.busy(), evidence))
}

/// So was a thread of the server's.
fn server_busy(figures: &Figures<'_>, share: f64) -> Option<Conviction> {
    let server = figures.server().filter(|server| server.busiest.busy() >= share)?;
    let busiest = &server.busiest;
    if busiest.waited > busiest.cpu {
        return Some(waits(figures, busiest.waiting()));
    }
    let evidence = format!(
        "the server's thread in {} ran {} of the time{}, {} a request",
        server.name,
        percent(busiest.running()),
        waited(busiest),
        seconds(figures.server_cost().unwrap_or_default())
    );
    Some(Conviction::new(Holder::ServerCpu, Limit::CpuCore, busiest.busy(), evidence))
}

/// Threads waited for a processor.
fn waits(figures: &Figures<'_>, share: f64) -> Conviction {
    let server = figures.server().map_or_else(String::new, |server| {
        format!(", the server's in {} {}", server.name, percent(server.busiest.waiting()))
    });
    let others = match figures.others() {
        Some(others) if others >= OTHERS => {
            format!("; others than weir and the server took {} of all processors' time", percent(others))
        }
        Some(_) => "; weir and the server shared them between themselves".to_owned(),
        None => String::new(),
    };
    let evidence = format!(
        "weir's loop waited {} of the time for a processor{server}{others}: the figure is this busy \
         machine's",
        percent(figures.client.waiting())
    );
    Conviction::new(Holder::Processor, Limit::CpuCore, 0.5 + 0.5 * share, evidence)
}

/// Condition 8: Requests make connections of their own, which takes at least half as long as their answers.
fn connecting_often(figures: &Figures<'_>) -> Option<Conviction> {
    let (time, seen) = (&figures.seen.time, figures.seen);
    let share = time.share(time.connecting);
    let often = seen.connects.made * 2 >= seen.requests;
    (often && share >= CONNECTING && time.connecting * 2 >= time.answered)
        .then(|| Conviction::new(Holder::Connecting, Limit::Connect, 0.5 + 0.5 * share, connecting(figures)))
}

/// Condition 9: Waiting for a processor is most of a request's time: by what each end's queue makes of its
/// wait, or where both ends together were busy nearly all the time and waited for most of that.
fn processor(figures: &Figures<'_>) -> Option<Conviction> {
    let parts = figures.parts();
    let likely = parts.waiting / parts.latency;
    let ends = figures.waiting();
    let in_turns = parts.uncovered() <= QUARTER && ends >= HALF;
    (likely >= HALF || in_turns).then(|| waits(figures, likely.max(ends).min(1.0)))
}

/// Condition 10: The server's threads ran one after another, as those of an interpreter with one lock do, and
/// none was idle in between; or wanted to, and waited for a processor for longer than they ran.
///
/// Wrong where independent threads come to one processor by chance.
fn serialised(figures: &Figures<'_>) -> Option<Conviction> {
    let server = figures.server().filter(|server| server.threads > 1)?;
    let all = server.all_busy();
    (figures.places() >= 2.0 && ONE_PROCESSOR.contains(&all)).then(|| {
        if server.waited > server.total {
            return waits(figures, all.min(1.0) / 2.0);
        }
        let evidence = format!(
            "the {} threads of {} ran one processor's time between them ({}), {} a request, as under one \
             lock",
            server.threads,
            server.name,
            percent(all),
            seconds(figures.server_cost().unwrap_or_default())
        );
        Conviction::new(Holder::ServerCpu, Limit::CpuCore, 0.75, evidence)
    })
}

/// Condition 11: The rest of an answer waits for an acknowledgement that this end delays: where it is given
/// at once, the rest comes at once.
fn nagle(figures: &Figures<'_>) -> Option<Conviction> {
    let seen = &figures.seen.acks;
    let (plain, hastened) = (seen.plain.mean(), seen.hastened.mean());
    let share = (plain - hastened) / figures.parts().latency;
    let told = seen.hastened.count >= EXPERIMENT && hastened <= plain / 2.0;
    (told && share >= HALF)
        .then(|| Conviction::new(Holder::Nagle, Limit::Nagle, 0.6 + 0.4 * share.min(1.0), acks(seen)))
}

/// Condition 12: Most of a request's time passes inside its answer, at a flat rate, and a queue stands or
/// overflows; or the link's rate is known and reached.
///
/// Without the queue it may as well be a server that sends at a pace of its own. One on this machine is known
/// to have no path before it that could be full, but for a queue that shows it.
fn path_full(figures: &Figures<'_>) -> Option<Conviction> {
    let (inside, bytes) = (figures.inside(), figures.bytes());
    let at_link = figures.seen.link_rate.is_some_and(|link| bytes >= 0.85 * link);
    if inside < HALF && !at_link {
        return None;
    }
    let (scatter, queue) = (figures.scatter(), figures.queue());
    let flat = scatter.is_some_and(|(_, flat)| flat);
    let sure = at_link || (flat && (queue.is_some() || figures.overflows()));
    if !sure && figures.server().is_some() {
        return None;
    }
    let mut evidence = format!(
        "{} of a request's time passes inside its answer, at {} in all",
        percent(inside),
        rate(bytes)
    );
    if let Some((scatter, _)) = scatter {
        evidence.push_str(&format!(", give or take {}", percent(scatter)));
    }
    if let (Some(_), Some(path)) = (queue, figures.path()) {
        let (rtt, min) = (seconds(path.rtt.as_secs_f64()), seconds(path.min_rtt.as_secs_f64()));
        evidence.push_str(&format!("; the round trip is {rtt}, at its smallest {min}: a queue stands"));
    } else if let Some(path) = figures.path().filter(|_| figures.overflows()) {
        let share = percent(path.disordered);
        evidence.push_str(&format!("; {share} of the segments came out of order: a queue overflows"));
    }
    let strength = if at_link { 0.95 } else { 0.6 + 0.3 * inside.min(1.0) };
    Some(match sure {
        true => Conviction::new(Holder::Path, Limit::PathBandwidth, strength, evidence),
        false => Conviction::new(Holder::ServerOrPath, Limit::SenderOrPath, strength, evidence),
    })
}

/// Condition 13: Segments were sent again, and their time-outs alone make most of the requests' time.
fn path_loses(figures: &Figures<'_>) -> Option<Conviction> {
    let path = figures.path().filter(|path| path.retransmits > 0)?;
    let each = path.retransmits as f64 / f64::from(path.sockets.max(1));
    let lost = each * RTO * f64::from(figures.seen.connections);
    let share = lost / figures.seen.time.total().as_secs_f64().max(1e-9);
    (share >= HALF).then(|| {
        let evidence = format!(
            "{} sent again over {}, each after {} or more: that is most of the requests' time",
            counted(path.retransmits, "segment"),
            counted(path.sockets.into(), "connection"),
            seconds(RTO)
        );
        Conviction::new(Holder::Path, Limit::PathLoss, 0.6, evidence)
    })
}

/// Condition 14: The asked rate was not reached, and all connections were under way: planned requests waited
/// here for a free one.
fn queue(figures: &Figures<'_>) -> Option<Conviction> {
    let asked = figures.seen.rate?;
    let had_room = figures.busiest() < NEARLY_FULL && !figures.stood_still();
    (figures.answering() >= LITTLE && had_room).then(|| {
        let evidence = format!(
            "{}, of {} asked for (--rate): planned requests waited in weir's own queue for a free \
             connection, and {} never got one",
            little(figures),
            short(asked),
            figures.seen.unsent
        );
        Conviction::new(Holder::Queue, Limit::Latency, 0.5 + 0.45 * figures.answering(), evidence)
    })
}

/// Condition 15: Most of a request's time is explained by neither path nor processors, queues before them
/// included. The server's it is where that was seen: its threads neither ran nor wanted to, or its machine
/// acknowledged long before it answered. Else it may be the path's.
fn slow_answers(figures: &Figures<'_>) -> Option<Conviction> {
    let parts = figures.parts();
    if parts.unexplained() < HALF {
        return None;
    }
    let latency = seconds(parts.latency);
    let explained = seconds(parts.explained);
    let most = 0.5 + 0.48 * parts.unexplained();
    if let Some(server) = figures.server() {
        let evidence = format!(
            "an answer takes {latency}, of which path and processors explain {explained}: the server waits \
             for something; {} ran only \
             {} of the time",
            server.name,
            percent(server.busiest.running())
        );
        // Both ends took turns with batches of requests, or that cannot be ruled out.
        return (parts.uncovered() >= QUARTER)
            .then(|| Conviction::new(Holder::Server, Limit::Application, most, evidence));
    }
    let acknowledged = figures.path().map(|path| path.rtt.as_secs_f64());
    Some(match acknowledged.filter(|rtt| *rtt > 0.0 && *rtt <= HALF * parts.latency) {
        Some(rtt) => {
            let evidence = format!(
                "an answer takes {latency}, of which path and client explain {explained}; the server's \
                 machine acknowledges within {}: \
                 the answer comes late",
                seconds(rtt)
            );
            // Unseen, the server may as well be computing all the time.
            Conviction::new(Holder::Server, Limit::Application, most.min(0.7), evidence)
        }
        None => {
            let evidence = format!(
                "an answer takes {latency}, of which path and client explain {explained}: the rest is the \
                 server's or the path's"
            );
            Conviction::new(Holder::ServerOrPath, Limit::SenderOrPath, most.min(0.7), evidence)
        }
    })
}

/// Condition 16: A thread had little room left: more connections would soon meet it.
fn nearly_full(figures: &Figures<'_>) -> Option<Conviction> {
    let (client, server) =
        (figures.client.busy(), figures.server().map_or(0.0, |server| server.busiest.busy()));
    match client >= server {
        true => client_busy(figures, NEARLY_FULL),
        false => server_busy(figures, NEARLY_FULL),
    }
}

/// Condition 17: Nobody is busy, what an answer takes is explained, and the connections' number over it is
/// the figure.
///
/// Of a server that was not seen nobody knows that it is idle, and where all of this machine's processors are
/// full it may be what fills them.
fn too_few_connections(figures: &Figures<'_>) -> Option<Conviction> {
    let told = figures.answering() >= LITTLE && figures.parts().unexplained() < HALF;
    if !told || figures.stood_still() {
        return None;
    }
    let (strength, who) = match figures.server().is_some() {
        true => ((1.0 - 0.4 * figures.busiest()).clamp(0.6, 0.95), "neither end is busy all the time"),
        false if figures.machine_full() => return None,
        false => (UNSEEN, "weir is not busy all the time; the server's processors are not seen"),
    };
    let evidence = format!("{}; {who}", little(figures));
    Some(Conviction::new(Holder::Connections, Limit::Latency, strength, evidence))
}
