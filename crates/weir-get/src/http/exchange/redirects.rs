//! Where an answer leads to, and where it may not.

use url::Url;
use weir_http::head::ResponseHead;

use crate::error::GetError;
use crate::http::credentials;
use crate::object;

/// What becomes of a redirect from https to http.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Downgrade {
    /// It is an error.
    #[default]
    Refused,
    /// It is followed where a digest that the user gave proves what comes.
    IfProven,
    /// It is followed.
    Followed,
}

/// From https to http: whoever is on the way reads along, and may have made the redirect.
pub(super) fn is_downgrade(home: &Url, url: &Url) -> bool {
    home.scheme() == "https" && url.scheme() != "https"
}

/// It leads on, by its status.
pub(in crate::http) fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// It leads on where it names a target: 300 (RFC 9110 section 15.4.1), and what is not known, which counts as
/// the first of its class (section 15).
pub(super) fn is_choice(status: u16) -> bool {
    matches!(status, 300 | 306 | 309..400)
}

/// A redirect without a target.
fn leads_nowhere(head: &ResponseHead) -> bool {
    (is_choice(head.status) || is_redirect(head.status)) && head.headers_all("location").all(str::is_empty)
}

/// Makes of an answer that is no file one that is (`--any-type`); what is to be said of that, `None` where it
/// is one. `is_part`: it calls itself a part, though the whole was asked for.
pub(super) fn take_as_file(head: &mut ResponseHead, is_part: bool) -> Option<String> {
    let why = match leads_nowhere(head) {
        true => " and no target",
        false if is_part => ", a part, as if it were all",
        false if object::has_no_file(head.status) => "",
        false => return None,
    };
    let note = format!("saved what came with {}{why}", head.status);
    if is_part {
        head.fields.remove("content-range");
    }
    if head.status == 204 {
        // It has no body, whatever else it says (RFC 9110 section 15.3.5).
        head.fields.remove("transfer-encoding");
        head.fields.remove("content-length");
        let _ = head.fields.push("content-length", "0");
    }
    head.status = 200;
    Some(note)
}

/// The URL that an answer from `from` leads to.
pub(in crate::http) fn redirect(
    from: &Url,
    head: &ResponseHead,
    downgrade: Downgrade,
) -> Result<Url, GetError> {
    let refused = |detail: String| GetError::Redirect { host: object::host_of(from), detail };
    let location = head.fields.single("location").map_err(|_| refused("it names two targets".to_owned()))?;
    let location = location.filter(|location| !location.is_empty());
    let location =
        location.ok_or_else(|| refused("it names no target; --any-type saves its body".to_owned()))?;
    // The parser drops tabs and line breaks, and what is left is another URL.
    if let Some(found) = weir_units::control(location) {
        return Err(refused(format!("its target holds {found}")));
    }
    let next = from.join(location).map_err(|error| refused(format!("its target is not a url ({error})")))?;
    match (from.scheme(), next.scheme()) {
        (_, "https") | ("http", "http") => Ok(next),
        ("https", "http") => downgraded(&next, downgrade).map_err(refused),
        (_, scheme) => {
            Err(refused(format!("it leads to the scheme '{scheme}', and weir speaks http and https")))
        }
    }
}

/// The target `next` of a redirect from https to http, or why it is not followed. A user in it is left out: a
/// password that came over https is not shown to everybody.
fn downgraded(next: &Url, downgrade: Downgrade) -> Result<Url, String> {
    let way_out = match downgrade {
        Downgrade::Followed => return Ok(credentials::without(next)),
        Downgrade::IfProven => "; --allow-http-redirect follows it, as --checksum sha256:HEX does for a file",
        Downgrade::Refused => "",
    };
    let shown = object::shown(next);
    Err(format!("it leads from https to {shown}, where the bytes could be changed on the way{way_out}"))
}
