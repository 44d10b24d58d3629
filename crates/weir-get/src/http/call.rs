//! Requests that are no download: of any method, with a body that is read while it is sent, and an answer
//! that fits into memory.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use url::{Position, Url};
use weir_http::head::ResponseHead;
use weir_observe::stage_clock::Stage;

use crate::error::GetError;
use crate::http::Exchange;
use crate::http::authority::{Authorizer, MAX_MENDED, Mend};
use crate::http::connection::Connection;
use crate::http::exchange::{
    Client, Downgrade, is_at_home, is_redirect, login, may_be_refused, names_region, origin_of, redirect,
};
use crate::http::logins::{MAX_ANSWERS, Sent, Space};
use crate::http::request::{Origin, USER_AGENT, add_cookies, head_of, safe_elsewhere};
use crate::http::said;
use crate::object;

/// A request.
#[derive(Debug, Clone)]
pub struct Call<'a> {
    /// In capitals.
    pub method: &'a str,
    /// Where to.
    pub url: Url,
    /// Its fields, names in lower case, without `Host`, `Content-Length` and what an authorizer adds.
    pub fields: Vec<(String, String)>,
    /// The most bytes of its answer's body; a longer one is an error.
    pub most: usize,
    /// What the body costs is worth a round trip first (`Expect: 100-continue`, RFC 9110 section 10.1.1).
    pub asks_first: bool,
}

/// What a request carries.
pub trait Content {
    /// Its bytes.
    fn length(&self) -> u64;

    /// Back to its first byte: the request is sent anew.
    fn rewind(&mut self) -> Result<(), GetError>;

    /// The next bytes into `buffer`, as many as there are and fit; called when those before are with the
    /// kernel.
    fn next(&mut self, buffer: &mut [u8]) -> Result<usize, GetError>;
}

/// Content that is at hand.
#[derive(Debug, Clone, Default)]
pub struct AtHand<'a> {
    bytes: &'a [u8],
    sent: usize,
}

impl<'a> AtHand<'a> {
    /// These bytes.
    pub fn new(bytes: &'a [u8]) -> AtHand<'a> {
        AtHand { bytes, sent: 0 }
    }
}

impl Content for AtHand<'_> {
    fn length(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn rewind(&mut self) -> Result<(), GetError> {
        self.sent = 0;
        Ok(())
    }

    fn next(&mut self, buffer: &mut [u8]) -> Result<usize, GetError> {
        let length = buffer.len().min(self.bytes.len() - self.sent);
        buffer[..length].copy_from_slice(&self.bytes[self.sent..self.sent + length]);
        self.sent += length;
        Ok(length)
    }
}

/// An answer, whatever its status.
#[derive(Debug)]
pub struct Reply {
    /// Status and fields.
    pub head: ResponseHead,
    /// All of its body.
    pub body: Vec<u8>,
    /// What an error says of itself.
    pub said: Option<String>,
}

impl Reply {
    /// The error that it is for whoever wanted a success from `url`.
    pub fn error(&self, url: &Url) -> GetError {
        let now = std::time::SystemTime::now();
        let error = GetError::Status {
            host: object::host_of(url),
            status: self.head.status,
            reason: object::printable(&self.head.reason),
            retry_after: weir_http::retry_after::wait(&self.head.fields, now),
            hint: "",
        };
        error.with_words(self.said.as_deref())
    }
}

/// The user as a call shows them.
struct ShownUser {
    headers: Vec<(String, String)>,
    space: Option<Space>,
    sent: Option<Sent>,
    cookies: Option<String>,
}

/// What comes after an answer to the user's own call.
enum AsUser {
    Over,
    Again,
    At(Box<Url>),
}

/// How long a server is given to say `100 Continue`: one that does not know the field says nothing (curl
/// waits as long).
const CONTINUE: Duration = Duration::from_secs(1);

/// What is read and sent at once: four times what the send buffer of a fresh socket takes, so that a send is
/// few system calls, and it stays in a core's cache.
const PIECE: usize = 256 << 10;

impl<'a> Client<'a> {
    /// Raises `received` by the bytes of each piece of a body, when it comes, of calls that succeed.
    pub fn counts(mut self, received: &'a AtomicU64) -> Client<'a> {
        self.received = Some(received);
        self
    }
}

impl Client<'_> {
    /// Sends `call` with `content` and reads its answer. Redirects are not followed but by
    /// [`Client::follows`]; a refusal that an authorizer can mend is asked again. For a call of the user's
    /// own see [`Client::as_user`].
    pub fn call(&mut self, call: &Call<'_>, content: &mut dyn Content) -> Result<Reply, GetError> {
        let (home, mut call) = (call.url.clone(), call.clone());
        let (mut mended, mut answers, mut led) = (0, 0, 0);
        loop {
            let origin = origin_of(&call.url)?;
            let authorizer = self.http.authorizer(&call.url).cloned();
            let user = self.user(&home, &call).filter(|_| authorizer.is_none());
            let (fields, secrets) =
                self.all_fields(&call, user.as_ref(), authorizer.as_deref(), content.length())?;
            let (head, connection) = self.exchange(&call, &origin, &fields, content)?;
            let mut reply = self.read_reply(&call, head, connection)?;
            if let Some(user) = user {
                match self.next_as_user(&call, &user, &reply.head)? {
                    AsUser::Again if answers < MAX_ANSWERS => {
                        answers += 1;
                        content.rewind()?;
                        continue;
                    }
                    // One that leads into a store is refused below.
                    AsUser::At(next)
                        if led < self.http.max_redirects() && self.http.authorizer(&next).is_none() =>
                    {
                        led += 1;
                        call.url = *next;
                        content.rewind()?;
                        continue;
                    }
                    _ => {}
                }
            }
            if let Some(next) = self.leads_to(&call, &reply.head, (authorizer.is_none(), led))? {
                (led, call.url) = (led + 1, next);
                continue;
            }
            let refused = may_be_refused(&reply.head);
            if refused {
                let secret = said::secrets(&call.url, secrets.iter().map(String::as_str));
                reply.said = said::of_body(&reply.head, &reply.body, &secret);
            }
            let is_asked = refused || names_region(&reply.head);
            let Some(authorizer) = authorizer.filter(|_| is_asked) else { return Ok(reply) };
            let mend = match mended < MAX_MENDED {
                true => authorizer.mends(&call.url, &reply.head, reply.said.as_deref())?,
                false => Mend::No,
            };
            match mend {
                Mend::Again => {}
                Mend::At(next) => call.url = *next,
                Mend::No => {
                    let explained = authorizer.explains(&call.url, &reply.head, reply.said.as_deref());
                    reply.said = explained.or(reply.said);
                    return Ok(reply);
                }
            }
            mended += 1;
            content.rewind()?;
        }
    }

    /// Where an answer leads to, if that is to be followed ([`Client::follows`]).
    fn leads_to(
        &self,
        call: &Call<'_>,
        head: &ResponseHead,
        (is_free, led): (bool, usize),
    ) -> Result<Option<Url>, GetError> {
        let refused =
            |why: &str| Err(GetError::Redirect { host: object::host_of(&call.url), detail: why.to_owned() });
        let follows = self.follows && is_free && matches!(call.method, "GET" | "HEAD");
        if !follows || !is_redirect(head.status) || head.header("location").is_none() {
            return Ok(None);
        }
        let next = redirect(&call.url, head, Downgrade::Refused)?;
        match self.http.authorizer(&next) {
            Some(_) => refused("it leads into a store that is asked with credentials"),
            None if led >= self.http.max_redirects() => refused("it leads on without end"),
            None => Ok(Some(next)),
        }
    }

    /// The fields of a call with a body of so many bytes, and what is secret in them.
    #[allow(clippy::type_complexity, reason = "names and values, and values alone")]
    fn all_fields(
        &self,
        call: &Call<'_>,
        user: Option<&ShownUser>,
        authorizer: Option<&dyn Authorizer>,
        length: u64,
    ) -> Result<(Vec<(String, String)>, Vec<String>), GetError> {
        let mut fields = self.own_fields(call, user);
        if let Some(authorizer) = authorizer {
            let added = authorizer.fields(call.method, &call.url, &fields)?;
            fields.extend(added);
        }
        // Servers repeat a token without its scheme, too.
        let bare = fields.iter().filter(|(name, _)| name == "authorization");
        let bare = bare.filter_map(|(_, value)| Some(value.rsplit_once(' ')?.1));
        let secrets: Vec<String> =
            fields.iter().map(|(_, value)| value.as_str()).chain(bare).map(str::to_owned).collect();
        if length > 0 || !matches!(call.method, "GET" | "HEAD" | "DELETE") {
            fields.push(("content-length".to_owned(), length.to_string()));
        }
        if call.asks_first {
            fields.push(("expect".to_owned(), "100-continue".to_owned()));
        }
        if let Some(authorizer) = authorizer {
            authorizer.seals(call.method, &call.url, &mut fields);
        }
        Ok((fields, secrets))
    }

    /// What the user shows to the host of `call`; `None` for calls that are not the user's own.
    fn user(&self, home: &Url, call: &Call<'_>) -> Option<ShownUser> {
        if !self.as_user {
            return None;
        }
        let at_home = is_at_home(self.http, home, &call.url);
        let headers = match at_home {
            true => self.http.headers().to_vec(),
            false => safe_elsewhere(self.http.headers()),
        };
        let login = login(self.http, home, &call.url, &headers);
        let target = &call.url[Position::BeforePath..Position::AfterQuery];
        let sent = login
            .as_ref()
            .and_then(|(space, login)| self.http.logins().authorization(space, login, call.method, target));
        let cookies = self.http.jar().field(&call.url, at_home);
        Some(ShownUser { headers, space: login.map(|(space, _)| space), sent, cookies })
    }

    /// The fields of a call, with the user's in place of weir's own.
    fn own_fields(&self, call: &Call<'_>, user: Option<&ShownUser>) -> Vec<(String, String)> {
        let mut fields = vec![("user-agent".to_owned(), USER_AGENT.to_owned())];
        fields.retain(|(own, _)| !call.fields.iter().any(|(name, _)| name == own));
        fields.extend(call.fields.iter().cloned());
        let Some(user) = user else { return fields };
        fields.extend(user.sent.iter().map(|sent| ("authorization".to_owned(), sent.value.clone())));
        let is_given = |own: &str| user.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(own));
        let removed = self.http.removed();
        fields.retain(|(own, _)| !is_given(own) && !removed.iter().any(|name| name == own));
        fields.extend(user.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone())));
        if let Some(cookies) = &user.cookies {
            add_cookies(&mut fields, cookies);
        }
        fields
    }

    /// What an answer to the user's own call leads to.
    fn next_as_user(
        &self,
        call: &Call<'_>,
        user: &ShownUser,
        head: &ResponseHead,
    ) -> Result<AsUser, GetError> {
        self.http.jar().take(&call.url, &head.fields);
        if let Some(space) = &user.space {
            self.http.logins().hears_answer(space, &head.fields);
            let is_asked = head.status == space.asker.status()
                && self.http.logins().hears_challenge(space, &head.fields, user.sent.as_ref());
            if is_asked {
                return Ok(AsUser::Again);
            }
        }
        // Others may change a method to GET, but these two (RFC 9110 section 15.4).
        let is_followed = match call.method {
            "GET" | "HEAD" => is_redirect(head.status),
            _ => matches!(head.status, 307 | 308),
        };
        match is_followed && head.header("location").is_some() {
            true => Ok(AsUser::At(Box::new(redirect(&call.url, head, Downgrade::Refused)?))),
            false => Ok(AsUser::Over),
        }
    }

    /// The head of the answer to one request, over a kept connection or a new one.
    fn exchange(
        &mut self,
        call: &Call<'_>,
        origin: &Origin,
        fields: &[(String, String)],
        content: &mut dyn Content,
    ) -> Result<(ResponseHead, Box<Connection>), GetError> {
        let proxy = self.http.proxy_for(&call.url)?;
        let reader = proxy.filter(|proxy| proxy.takes_requests() && !origin.tls);
        let target = &call.url[Position::BeforePath..Position::AfterQuery];
        let mut answers = 0;
        loop {
            let sent = reader.and_then(|proxy| self.http.for_proxy(proxy, call.method, target));
            let shown = sent.as_ref().map(|sent| sent.value.as_str());
            let request = head_of(call.method, &call.url, origin, proxy.map(|proxy| (proxy, shown)), fields);
            let mut connection = self.connection(origin, proxy)?;
            let was_used = !connection.is_fresh();
            self.count_request();
            match self.send_and_hear(call, &mut connection, &request, content) {
                Ok(head)
                    if answers < MAX_ANSWERS
                        && reader.is_some_and(|proxy| self.http.can_answer(proxy, &head, sent.as_ref())) =>
                {
                    // Answered, if not by who was asked.
                    self.uncount_request();
                    answers += 1;
                }
                Ok(head) => return Ok((head, connection)),
                // A kept connection may have been closed by the server while it was idle: once more, afresh.
                Err(GetError::Broken { .. }) if was_used => {}
                Err(error) => {
                    self.close();
                    return Err(error);
                }
            }
            content.rewind()?;
        }
    }

    fn send_and_hear(
        &mut self,
        call: &Call<'_>,
        connection: &mut Connection,
        request: &[u8],
        content: &mut dyn Content,
    ) -> Result<ResponseHead, GetError> {
        connection.send(request, self.clock, &self.dial)?;
        if call.asks_first {
            self.clock.enter(Stage::FirstByte);
            if let Some(head) = connection.await_continue(call.method, CONTINUE, self.clock, &self.dial)? {
                return Ok(head);
            }
        }
        let mut buffer = vec![0; PIECE.min(usize::try_from(content.length()).unwrap_or(PIECE))];
        let mut left = content.length();
        while left > 0 {
            let piece = buffer.len().min(usize::try_from(left).unwrap_or(buffer.len()));
            self.clock.enter(Stage::Read);
            let length = content.next(&mut buffer[..piece])?;
            if length == 0 {
                self.close();
                return Err(GetError::Refused(format!(
                    "the source of {} ended {left} bytes before its size; it changed meanwhile, run the same \
                     command again",
                    object::shown(&call.url)
                )));
            }
            left -= length as u64;
            self.clock.enter(Stage::Send);
            // What a server that refuses says before it closes is lost with the close: it is heard first.
            if let Some(head) = connection.early_answer(call.method, self.clock, &self.dial)? {
                return Ok(head);
            }
            let sent = connection.send_on(&buffer[..length], self.clock, &self.dial);
            if let Err(error) = sent {
                return self.heard_before(call, connection, error);
            }
        }
        self.clock.enter(Stage::FirstByte);
        connection.read_head(call.method, self.clock, &self.dial)
    }

    /// A body could not be sent: what the server said before, if it did.
    fn heard_before(
        &self,
        call: &Call<'_>,
        connection: &mut Connection,
        error: GetError,
    ) -> Result<ResponseHead, GetError> {
        if !matches!(error, GetError::Broken { .. }) {
            return Err(error);
        }
        connection.leave();
        connection.read_head(call.method, self.clock, &self.dial).map_err(|_| error)
    }

    fn read_reply(
        &mut self,
        call: &Call<'_>,
        head: ResponseHead,
        connection: Box<Connection>,
    ) -> Result<Reply, GetError> {
        self.clock.enter(Stage::Receive);
        let mut body = Exchange::Http1(connection);
        let mut bytes = Vec::new();
        let received = self.received.filter(|_| matches!(head.status, 200..300));
        while !body.is_end() {
            let got = body.fill(PIECE, self.clock, &self.dial)?;
            let before = bytes.len();
            body.pieces().for_each(|piece| bytes.extend_from_slice(piece));
            if let Some(received) = received {
                received.fetch_add((bytes.len() - before) as u64, Relaxed);
            }
            if bytes.len() > call.most {
                self.close();
                return Err(GetError::Malformed {
                    host: object::host_of(&call.url),
                    detail: format!("an answer of more than {} bytes to {}", call.most, call.method),
                });
            }
            if got == 0 && !body.is_end() {
                return Err(GetError::Broken {
                    host: object::host_of(&call.url),
                    source: io::ErrorKind::UnexpectedEof.into(),
                });
            }
        }
        self.keep(&call.url, body);
        self.clock.enter(Stage::Other);
        Ok(Reply { head, body: bytes, said: None })
    }
}
