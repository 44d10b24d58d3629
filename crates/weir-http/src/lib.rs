//! The grammar of HTTP as a downloader and a file server need it: bytes and text in, values out.
//!
//! Pure: no socket, no file, no clock (functions that need the time take `now`). Every parser of foreign
//! bytes has a size cap, never panics, and is walked by a fuzz target or a property test.
//!
//! A response, in the order in which a lane asks about it:
//!
//! * [`head`]: status line and fields out of a byte buffer; [`fields`]: the fields themselves.
//! * [`body`]: where the body ends; [`chunked`]: taking a chunked one apart without copying.
//! * [`content_range`]: which bytes a 206 carries; [`range_request`]: asking for them, and a server's
//!   reading;
//!   [`multipart`]: several ranges in one body.
//! * [`validator`]: whether it is still the same object.
//! * [`encoding`] and [`content_type`]: whether the body is the file at all, or something in its place.
//! * [`retry_after`]: how long a server wants to be left alone; [`problem`]: what it says of its error.
//! * [`digest_field`] and [`checksums`]: what the whole file must hash to.
//! * [`content_disposition`] and [`filename`]: a safe local name for it.
//! * [`netrc`]: who to log in as; [`challenge`]: how a server wants that shown; [`digest_login`]: without the
//!   password.
//! * [`signed_link`]: which parts of a link sign it.
//!
//! * [`index_page`]: what a server lists of a folder.
//!
//! A request, as a server meets it: [`request`] says whether it may be answered at all, [`request_target`]
//! what it names, [`authority`] whether it says properly whom it is for, [`precondition`] and
//! [`range_request`] what to send.
//!
//! ```
//! use weir_http::{body::Framing, content_range::ContentRange, head};
//!
//! let bytes = b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-3/10\r\nContent-Length: 4\r\n\r\nweir";
//! let (response, body_at) = head::parse_response(bytes).unwrap().unwrap();
//! assert_eq!(response.framing("GET").unwrap(), Framing::Length(4));
//! let range: ContentRange = response.header("content-range").unwrap().parse().unwrap();
//! assert!(range.answers(0, 3, Some(10)).is_ok());
//! assert_eq!(&bytes[body_at..], b"weir");
//! ```
#![forbid(unsafe_code)]

pub mod authority;
pub mod body;
pub mod challenge;
pub mod checksums;
pub mod chunked;
pub mod content_disposition;
pub mod content_range;
pub mod content_type;
pub mod digest_field;
pub mod digest_login;
pub mod encoding;
mod field_lines;
pub mod fields;
pub mod filename;
mod grammar;
pub mod head;
pub mod index_page;
pub mod multipart;
pub mod netrc;
pub mod precondition;
pub mod problem;
pub mod range_request;
pub mod request;
pub mod request_target;
pub mod retry_after;
pub mod signed_link;
pub mod validator;

pub use body::Framing;
pub use chunked::ChunkedDecoder;
pub use content_range::ContentRange;
pub use fields::Fields;
pub use head::{RequestHead, ResponseHead};
pub use request_target::RequestTarget;
pub use validator::Validators;
