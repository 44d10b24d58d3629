//! How a client goes over HTTP/2: what is known of an origin, its session, and when that is left.

use std::time::{Duration, Instant};

use url::Url;
use weir_http::head::ResponseHead;

use super::{Client, Version};
use crate::error::GetError;
use crate::http::h2_session::{H2Session, H2Stream};
use crate::http::request::{Ask, Origin};
use weir_observe::stage_clock::Stage;

/// A server that connects faster than this is so near that HTTP/2 does not pay: a few HTTP/1.1 connections,
/// each with its own lane, cost less than handing every stream to the session's thread and back (measured on
/// loopback: 1000 x 1 KiB in 48 against 66 ms). Farther away the round trips that HTTP/2 overlaps are what
/// counts.
const NEAR: Duration = Duration::from_millis(1);

/// What is known of an origin's HTTP/2.
#[derive(Default)]
pub(super) enum Known {
    #[default]
    Unknown,
    /// So near that HTTP/1.1 is better, whether or not it speaks HTTP/2.
    Near,
    /// It chose HTTP/1.1, or its HTTP/2 failed.
    No,
    /// Beside it: sessions in a row before it that ended without a whole answer.
    Session(H2Session, u32),
    /// Such a session has ended.
    Ended(u32),
}

/// Sessions in a row without a whole answer after which HTTP/2 is left: one may have met a restart.
const BARREN: u32 = 2;

impl Client<'_> {
    /// `None`: the server chose HTTP/1.1, or, where it `may_choose`, it is so near that HTTP/1.1 is better.
    pub(super) fn ask_http2(
        &mut self,
        url: &Url,
        origin: &Origin,
        ask: &Ask<'_>,
        may_choose: bool,
    ) -> Result<Option<(ResponseHead, H2Stream)>, GetError> {
        match self.try_http2(url, origin, ask, may_choose) {
            // A server ends a session after so many requests (nginx: 1000), and refuses those it had not
            // begun.
            Err(GetError::Broken { .. }) => self.try_http2(url, origin, ask, may_choose),
            other => other,
        }
    }

    fn try_http2(
        &mut self,
        url: &Url,
        origin: &Origin,
        ask: &Ask<'_>,
        may_choose: bool,
    ) -> Result<Option<(ResponseHead, H2Stream)>, GetError> {
        let known = self.http.known(origin);
        // Whoever finds another lane at it waits for its connection.
        self.clock.enter(Stage::Connecting);
        let request = {
            let mut known = known.lock();
            self.leave_what_fails(&mut known, origin, may_choose);
            if let Known::Unknown | Known::Ended(_) = *known {
                self.begin_session(url, origin, &mut known, may_choose)?;
            }
            match &*known {
                Known::Session(session, _) => session.send(url, origin, ask)?,
                _ if self.http.version == Version::Http2 => {
                    return Err(GetError::Refused(format!(
                        "{} does not speak HTTP/2; leave out --http2",
                        origin.host
                    )));
                }
                _ => return Ok(None),
            }
        };
        (self.on_socket)(None);
        request.head(self.clock, &self.dial).map(Some)
    }

    /// What is known of `origin` is brought up to what became of its sessions.
    fn leave_what_fails(&mut self, known: &mut Known, origin: &Origin, may_choose: bool) {
        if let Known::Session(session, barren) = &*known
            && !session.is_open()
        {
            *known = Known::Ended(if session.carries() { 0 } else { barren + 1 });
        }
        let may_leave = self.http.version == Version::Auto && may_choose;
        let is_barren = matches!(*known, Known::Ended(barren) if barren >= BARREN);
        let fails = matches!(&*known, Known::Session(session, _) if session.only_fails());
        if may_leave && (is_barren || fails) {
            *known = Known::No;
            let note = "HTTP/1.1 in place of HTTP/2: its sessions ended without a whole answer";
            tracing::info!("{}: {note}", origin.host);
            self.notes.push(note.to_owned());
        }
        if matches!(*known, Known::Near) && !may_choose {
            *known = Known::Unknown;
        }
    }

    /// A session with `origin`, or what was learnt in place of one.
    fn begin_session(
        &mut self,
        url: &Url,
        origin: &Origin,
        known: &mut Known,
        may_choose: bool,
    ) -> Result<(), GetError> {
        let barren = if let Known::Ended(barren) = *known { barren } else { 0 };
        self.connects += 1;
        let began = Instant::now();
        let way = self.way();
        let line = self.dial_through(origin, self.http.proxies.for_url(url)?, &way)?;
        if may_choose && began.elapsed() < NEAR {
            // Known before its handshake, which may fail: all others would wait for it, one after another.
            *known = Known::Near;
            let connection = self.secure(origin, line, way.deadline)?;
            self.kept = Some((origin.clone(), Box::new(connection)));
            return Ok(());
        }
        if line.outer.is_some() && !origin.tls {
            return Err(GetError::Refused(format!(
                "cannot speak HTTP/2 with http://{} through an https:// proxy, which reads the requests itself; \
                 leave out --http2",
                origin.host
            )));
        }
        let config = if origin.tls { Some(self.http.clients_for(origin)?.http2) } else { None };
        let stage = if origin.tls { Stage::Securing } else { Stage::Connecting };
        let start = || H2Session::start(origin, line, config, &self.dial, way.deadline);
        *known = self.clock.step(stage, start)?.map_or(Known::No, |session| Known::Session(session, barren));
        Ok(())
    }

    /// HTTP/2 failed for a request that goes on over HTTP/1.1, and so do all others of its origin, unless its
    /// session has carried some.
    pub(super) fn leave_http2(&mut self, origin: &Origin, error: &GetError) {
        let known = self.http.known(origin);
        let mut known = known.lock();
        let carries = match &*known {
            Known::Session(session, _) => session.carries() && !matches!(error, GetError::OnlyHttp1 { .. }),
            _ => false,
        };
        let note = format!("HTTP/1.1 in place of HTTP/2: {error:#}");
        tracing::info!("{}: {note}", origin.host);
        if !carries {
            *known = Known::No;
        }
        self.notes.push(note);
    }
}
