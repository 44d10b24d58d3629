use weir_http::Fields;

use super::tail::Found;
use super::*;

fn window(text: &str) -> Window {
    text.parse().unwrap()
}

fn span(text: &str) -> Span {
    match window(text).kind {
        Kind::Span(span) => span,
        other => panic!("{text} is {other:?}"),
    }
}

fn several(text: &str) -> Several {
    match window(text).kind {
        Kind::Several(several) => several,
        other => panic!("{text} is {other:?}"),
    }
}

fn url() -> Url {
    Url::parse("http://h/x").unwrap()
}

fn head(status: u16, lines: &[&str]) -> ResponseHead {
    let mut fields = Fields::new();
    lines.iter().for_each(|line| fields.push_line(line).unwrap());
    ResponseHead { status, minor: 1, reason: String::new(), fields }
}

/// An answer with this `Content-Range` and length.
fn answer(status: u16, range: Option<&str>, length: u64) -> ResponseHead {
    let range = range.map(|range| format!("Content-Range: {range}"));
    let length = format!("Content-Length: {length}");
    head(status, &range.iter().map(String::as_str).chain([&*length]).collect::<Vec<_>>())
}

#[test]
fn forms() {
    assert_eq!(span("5-9"), Span { first: 5, last: Some(9) });
    assert_eq!(span("bytes=5-"), Span { first: 5, last: None });
    assert_eq!(window("5-").fragment(), "bytes=5-");
    assert_eq!((window("-5").kind, window("-5").fragment()), (Kind::Tail(5), "bytes=-5".to_owned()));
    assert_eq!(window("0-10, 12-15,-1").to_string(), "0-10,12-15,-1");
    assert!(matches!(window("0-1,5-").kind, Kind::Several(_)));
    let most = vec!["0-0"; MOST_RANGES].join(",");
    assert!(most.parse::<Window>().is_ok());
    for bad in [
        "",
        "-",
        "-0",
        "5",
        "9-5",
        "a-b",
        "1-2,",
        "1-2,x",
        "1-2,-0",
        "+1-2",
        "1-2;4-5",
        "0-9223372036854775807",
        "9223372036854775807-",
        "-99999999999999999999",
        "http://h/x",
        &format!("{most},0-0"),
    ] {
        assert!(bad.parse::<Window>().is_err(), "{bad}");
    }
}

#[test]
fn requests_are_moved_and_end_with_the_span() {
    let ask = |range| Ask {
        range,
        set: None,
        if_range: None,
        pins: false,
        headers: &[],
        authorization: None,
        cookies: None,
        removed: &[],
        unless: None,
        codings: None,
        sealed_by: None,
    };
    for (text, range, outer) in [
        ("100-200", None, (100, Some(201))),
        ("100-200", Some((0, None)), (100, Some(201))),
        ("100-200", Some((10, Some(20))), (110, Some(120))),
        ("100-200", Some((10, Some(500))), (110, Some(201))),
        ("100-", Some((10, None)), (110, None)),
    ] {
        assert_eq!(span(text).outer(&ask(range)).range, Some(outer), "{text} {range:?}");
    }
    let tail = window("-5");
    let fields = tail.outer(&ask(Some((0, None)))).fields();
    assert!(fields.contains(&("range".to_owned(), "bytes=-5".to_owned())), "{fields:?}");
}

#[test]
fn answers_are_of_the_span() {
    let inner = |text: &str, status: u16, field: Option<&str>, length: u64| {
        let mut head = answer(status, field, length);
        let done = span(text).inner(&mut head, false, &url());
        done.map(|_| head.header("content-range").map(str::to_owned)).map_err(|error| error.to_string())
    };
    for (text, field, moved) in [
        ("100-200", "bytes 100-200/3527", "bytes 0-100/101"),
        ("100-200", "bytes 150-160/3527", "bytes 50-60/101"),
        ("100-200", "bytes 100-149/150", "bytes 0-49/50"),
        ("100-200", "bytes 100-200/*", "bytes 0-100/101"),
        ("100-200", "bytes 100-150/*", "bytes 0-50/*"),
        ("100-", "bytes 100-199/200", "bytes 0-99/100"),
    ] {
        assert_eq!(inner(text, 206, Some(field), 1), Ok(Some(moved.to_owned())), "{text} {field}");
    }
    for field in ["bytes 99-200/3527", "bytes 100-201/3527", "bytes 0-9/10", "bytes odd"] {
        assert!(inner("100-200", 206, Some(field), 1).unwrap_err().contains("the wrong part"), "{field}");
    }
    assert!(inner("100-200", 200, None, 3527).unwrap_err().contains("leave that out"));
    assert!(inner("0-99", 200, None, 101).is_err());
    assert_eq!(inner("0-99", 200, None, 100), Ok(None));
    assert_eq!(inner("0-", 200, None, 100), Ok(None));
    assert_eq!(inner("100-200", 404, None, 10), Ok(None));
    // 416 is believed where it says of a size that explains it.
    let said = inner("100-200", 416, Some("bytes */100"), 0).unwrap_err();
    assert!(said.contains("the object has 100 bytes, and 100-200 (--range) begins behind them"), "{said}");
    assert_eq!(inner("100-200", 416, Some("bytes */101"), 0), Ok(None));
    assert_eq!(inner("100-200", 416, None, 0), Ok(None));
}

/// curl's test 1117: 13 bytes from byte 10 on, as asked for, whose `Content-Range` ends at another one.
#[test]
fn as_many_bytes_as_were_asked_for_are_meant() {
    for (text, range, length, takes) in [
        ("10-22", "bytes 10-18/155", 13, true),
        ("10-22", "bytes 10-23/155", 13, true),
        ("10-22", "bytes 10-18/*", 13, true),
        // Another beginning, another length, an end that is not there.
        ("10-22", "bytes 9-18/155", 13, false),
        ("10-22", "bytes 10-18/155", 12, false),
        ("10-22", "bytes 10-18/22", 13, false),
        ("10-", "bytes 10-18/155", 13, false),
    ] {
        let mut head = answer(206, Some(range), length);
        let note = span(text).inner(&mut head, true, &url());
        let taken = matches!(&note, Ok(Some(note)) if note.contains("that were asked for"));
        assert_eq!((taken, head.status), (takes, if takes { 200 } else { 206 }), "{text} {range}: {note:?}");
        // Of a part of a part nothing says what was meant.
        let mut head = answer(206, Some(range), length);
        assert!(!matches!(span(text).inner(&mut head, false, &url()), Ok(Some(_))), "{range}");
    }
}

#[test]
fn a_tail_is_found_by_what_its_answer_says() {
    let find = |status, range: Option<&str>, length| tail::find(5, &answer(status, range, length), &url());
    let here = |first, last| Found::Here(Span { first, last: Some(last) });
    for (status, range, length, found) in [
        (206, Some("bytes 95-99/100"), 5, here(95, 99)),
        (200, Some("bytes 95-99/100"), 5, here(95, 99)),
        (206, Some("bytes 95-99/*"), 5, here(95, 99)),
        (206, Some("bytes 95-96/100"), 2, here(95, 99)),
        // An object that is shorter.
        (206, Some("bytes 0-3/4"), 4, here(0, 3)),
        (200, None, 4, Found::Other),
        (200, None, 0, Found::Other),
        (416, Some("bytes */0"), 0, Found::Other),
        // Another part: of the beginning, too little, too much, or without a word of where the end is.
        (206, Some("bytes 0-5/100"), 6, Found::Misread(Some(100))),
        (206, Some("bytes 97-99/100"), 3, Found::Misread(Some(100))),
        (206, Some("bytes 90-99/100"), 10, Found::Misread(Some(100))),
        (206, Some("bytes 95-98/*"), 4, Found::Misread(None)),
        (206, None, 5, Found::Misread(None)),
        (200, None, 100, Found::Misread(None)),
        (416, Some("bytes */100"), 0, Found::Misread(Some(100))),
        (416, None, 0, Found::Misread(None)),
        (501, None, 0, Found::Misread(None)),
        (302, None, 0, Found::Other),
        (401, None, 0, Found::Other),
        (404, None, 0, Found::Other),
    ] {
        assert_eq!(find(status, range, length).unwrap(), found, "{status} {range:?}");
    }
    assert!(find(206, Some("bytes odd"), 5).is_err());
    assert_eq!(tail::span_of(5, 100), Span { first: 95, last: Some(99) });
    assert_eq!(tail::span_of(5, 3), Span { first: 0, last: Some(2) });
    let tails = tail::Tails::default();
    tails.keep(&url(), tail::span_of(5, 100));
    assert_eq!(tails.of(&url()), Some(tail::span_of(5, 100)));
    assert_eq!(tails.of(&Url::parse("http://h/y").unwrap()), None);
}

#[test]
fn several_come_in_one_body() {
    let taken = |text: &str, mut head: ResponseHead| {
        let note = several(text).inner(&mut head, &url()).map_err(|error| error.to_string());
        assert!(note.is_err() || head.header("content-range").is_none());
        note.map(|note| (head.status, note.unwrap_or_default()))
    };
    let multipart = head(206, &["Content-Type: multipart/byteranges; boundary=B", "Content-Length: 187"]);
    assert!(matches!(taken("0-10,12-15", multipart), Ok((200, note)) if note.contains("several parts")));
    for (text, range, length) in [
        // Joined, one of them, those that are there, to the end.
        ("0-10,12-15", "bytes 0-15/3781", 16),
        ("0-10,12-15", "bytes 12-15/3781", 4),
        ("0-10,12-15", "bytes 0-10/*", 11),
        ("0-10,12-150", "bytes 12-99/100", 88),
        ("0-10,90-,200-300", "bytes 90-99/100", 10),
        ("0-10,-5", "bytes 95-99/100", 5),
        ("0-10,-5", "bytes 95-99/*", 5),
    ] {
        let note = taken(text, answer(206, Some(range), length)).map(|(status, note)| {
            assert!(note.contains("in place of several"), "{note}");
            status
        });
        assert_eq!(note, Ok(200), "{text} {range}");
    }
    for (text, range, length) in [
        ("0-10,12-15", "bytes 0-9/3781", 10),
        ("0-10,12-15", "bytes 1-15/3781", 15),
        ("0-10,12-15", "bytes 0-15/3781", 15),
        ("0-10,12-15", "bytes 20-30/3781", 11),
        ("0-10,12-150", "bytes 12-99/*", 88),
        ("0-10,50-", "bytes 50-99/*", 50),
        ("0-10,-5", "bytes 95-98/*", 4),
        ("0-10,12-15", "bytes odd", 4),
    ] {
        assert!(taken(text, answer(206, Some(range), length)).is_err(), "{text} {range}");
    }
    assert!(taken("0-4,5-9", answer(206, None, 10)).unwrap_err().contains("without parts"));
    let nothing = head(206, &["Content-Type: multipart/byteranges; boundary=B", "Content-Length: 0"]);
    assert!(taken("0-4,5-9", nothing).is_err());
    // All of it, where that is what the ranges are.
    assert_eq!(taken("0-4,5-9", answer(200, None, 10)), Ok((200, String::new())));
    assert_eq!(taken("-5,0-99", answer(200, None, 10)), Ok((200, String::new())));
    assert!(taken("0-4,6-9", answer(200, None, 10)).unwrap_err().contains("leave that out"));
    assert!(taken("0-4,5-9", answer(200, None, 11)).is_err());
    let said = taken("100-110,200-", answer(416, Some("bytes */100"), 0)).unwrap_err();
    assert!(said.contains("100 bytes, and each of 100-110,200- (--range) begins behind them"), "{said}");
    assert_eq!(taken("0-10,200-", answer(416, Some("bytes */100"), 0)), Ok((416, String::new())));
    assert_eq!(taken("0-10,200-", answer(404, None, 5)), Ok((404, String::new())));
}
