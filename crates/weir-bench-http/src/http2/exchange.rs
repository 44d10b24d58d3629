//! One request and its answer over a stream.

use std::cell::Cell;
use std::fmt::Write;
use std::rc::Rc;

use bytes::Bytes;
use h2::Error;
use h2::client::SendRequest;

use super::Hub;
use super::session::Session;
use crate::reason::Reason;
use crate::tally::Times;

/// A whole answer.
struct Answer {
    head: http::response::Parts,
    body: u64,
    /// When the request was with the connection, and when the answer's head had come.
    written: u64,
    first_byte: u64,
}

/// Asks once and counts what comes of it. `planned`: when it should have been asked.
pub(super) async fn ask(hub: &Rc<Hub>, session: &Rc<Session>, planned: Option<u64>) {
    let mut begun = None;
    let mut again = true;
    loop {
        let wanted = hub.now();
        let Some(lease) = session.lease(hub).await else {
            return hub.spend(|time| &mut time.resting, wanted);
        };
        hub.spend(|time| &mut time.connecting, wanted);
        let sent = hub.now();
        let begun = *begun.get_or_insert(sent);
        let (received, head_came) = (session.received(), Cell::new(false));
        hub.asking.begin(sent);
        let answer = hub.in_time(exchange(hub, lease.client, &head_came)).await;
        hub.asking.end(sent);
        match answer {
            Some(Ok(answer)) => {
                session.answered();
                return count(hub, &answer, (planned.unwrap_or(begun), begun), lease.connect);
            }
            Some(Err(error)) => {
                hub.spend(|time| &mut time.failed, sent);
                if !error.is_reset() {
                    session.forget(lease.generation);
                }
                // Once: a server that never takes it would be asked for ever.
                if std::mem::take(&mut again) && is_unprocessed(&error) {
                    continue;
                }
                session.failed();
                let reason = Reason::of_http2(&error, head_came.get());
                hub.meter.borrow_mut().tally.failed(reason, 1);
            }
            None => {
                hub.spend(|time| &mut time.failed, sent);
                // A connection over which nothing came at all is replaced, as in HTTP/1.1; a slow stream is
                // only given up.
                if session.received() == received {
                    session.forget(lease.generation);
                }
                session.failed();
                let reason = if head_came.get() { Reason::Slow } else { Reason::Silent };
                hub.meter.borrow_mut().tally.failed(reason, 1);
            }
        }
        return;
    }
}

/// The server says that it has not looked at the request: it ended the connection in order, or has too many
/// streams (RFC 9113 section 8.7).
fn is_unprocessed(error: &Error) -> bool {
    match error.reason() {
        Some(h2::Reason::NO_ERROR) => error.is_go_away() && error.is_remote(),
        Some(h2::Reason::REFUSED_STREAM) => error.is_reset(),
        _ => false,
    }
}

async fn exchange(
    hub: &Hub,
    mut client: SendRequest<Bytes>,
    head_came: &Cell<bool>,
) -> Result<Answer, Error> {
    let question = &hub.question;
    let (answer, mut stream) = client.send_request(question.head.clone(), question.body.is_none())?;
    if let Some(body) = &question.body {
        stream.send_data(body.clone(), true)?;
    }
    let written = hub.now();
    let (head, mut content) = answer.await?.into_parts();
    let first_byte = hub.now();
    head_came.set(true);
    let mut body = 0;
    while let Some(piece) = content.data().await {
        let length = piece?.len();
        body += length as u64;
        content.flow_control().release_capacity(length)?;
    }
    Ok(Answer { head, body, written, first_byte })
}

fn count(hub: &Hub, answer: &Answer, (planned, begun): (u64, u64), connect: Option<(u64, u64)>) {
    let ended = hub.now();
    hub.spend(|time| &mut time.answered, begun);
    let tally = &mut hub.meter.borrow_mut().tally;
    if tally.answered(answer.head.status.as_u16(), answer.body, true) {
        tally.first_head = told(&answer.head).into_bytes();
    }
    let times = Times {
        planned,
        begun,
        written: answer.written,
        first_byte: Some(answer.first_byte),
        ended,
        connect,
    };
    tally.timed(&times, hub.shared.settings.rows);
}

/// The head in HTTP/1.1's words, for reports that show a part of it.
fn told(head: &http::response::Parts) -> String {
    let mut text = format!("HTTP/1.1 {} \r\n", head.status.as_u16());
    for (name, value) in &head.headers {
        let _ = write!(text, "{name}: {}\r\n", String::from_utf8_lossy(value.as_bytes()));
    }
    text + "\r\n"
}
