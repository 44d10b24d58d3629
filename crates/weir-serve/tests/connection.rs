//! Does a connection survive what it should, and end when it should?
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::fs;
use std::io::{Read, Seek, Write};
use std::time::Duration;

use support::{Client, pattern, serve, serve_dir, wait_for};
use weir_serve::{Config, Content};
use weir_units::{Bytes, Rate};

fn generated(size: u64) -> Config {
    Config::new(Content::Generated(vec![("data.bin".into(), size)]))
}

#[test]
fn requests_follow_each_other_on_one_connection() {
    let server = serve(generated(100_000));
    let mut client = Client::new(&server);
    for _ in 0..3 {
        let reply = client.get("/data.bin", &[]);
        assert_eq!(reply.body, pattern(0, 100_000));
        assert_eq!(reply.field("Connection"), Some("keep-alive"));
    }
    assert_eq!(server.stats().connections, 1);
    let stats = server.stop();
    assert_eq!((stats.requests, stats.bytes_sent, stats.connections), (3, 300_000, 0));
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = serve(generated(10_000_000));
    let mut client = Client::new(&server);
    let starts = [0, 1_048_000, 5, 9_999_000];
    let requests = starts.map(|start| {
        format!("GET /data.bin HTTP/1.1\r\nHost: test\r\nRange: bytes={start}-{}\r\n\r\n", start + 999)
    });
    // Cut in an odd place, so that one head arrives in two pieces.
    let bytes = requests.concat();
    client.send(&bytes[..bytes.len() - 10]);
    for start in &starts[..3] {
        assert_eq!(client.read_reply(true).body, pattern(*start, 1000));
    }
    client.send(&bytes[bytes.len() - 10..]);
    assert_eq!(client.read_reply(true).body, pattern(starts[3], 1000));
}

#[test]
fn a_half_closed_client_still_gets_its_answer() {
    let server = serve(generated(3_000_000));
    let mut client = Client::new(&server);
    client.send("GET /data.bin HTTP/1.1\r\nHost: test\r\n\r\n");
    client.finish();
    assert_eq!(client.read_reply(true).body, pattern(0, 3_000_000));
    assert_eq!(client.read_rest(), b"");
}

#[test]
fn http_1_0_closes_unless_asked_to_stay() {
    let server = serve(generated(10));
    let mut client = Client::new(&server);
    client.send("GET /data.bin HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(client.read_reply(true).field("Connection"), Some("keep-alive"));
    client.send("GET /data.bin HTTP/1.0\r\n\r\n");
    assert_eq!(client.read_reply(true).field("Connection"), Some("close"));
    assert_eq!(client.read_rest(), b"");
}

#[test]
fn connection_close_is_obeyed() {
    let server = serve(generated(10));
    let mut client = Client::new(&server);
    let reply = client.get("/data.bin", &["Connection: close"]);
    assert_eq!(reply.field("Connection"), Some("close"));
    assert_eq!(client.read_rest(), b"");
}

#[test]
fn other_methods_are_refused_and_their_bodies_are_no_requests() {
    let server = serve(generated(10));
    let mut client = Client::new(&server);
    let reply = client.ask("DELETE", "/data.bin", &[]);
    assert_eq!((reply.status, reply.field("Allow")), (405, Some("GET, HEAD")));
    let smuggled = "GET /data.bin HTTP/1.1\r\nHost: test\r\n\r\n";
    client.send(format!(
        "POST /data.bin HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n\r\n{smuggled}",
        smuggled.len()
    ));
    assert_eq!(client.read_reply(true).status, 405);
    client.finish();
    assert_eq!(client.read_rest(), b"");
    // Nor is one cut off before it can see the refusal.
    let mut client = Client::new(&server);
    let upload = vec![b'x'; 8 << 20];
    client.send(format!("PUT /up HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n\r\n", upload.len()));
    client.send(upload);
    assert_eq!(client.read_reply(true).status, 405);
    client.finish();
    assert_eq!(client.read_rest(), b"");
}

#[test]
fn bytes_behind_the_last_request_cost_nothing_of_its_answer() {
    const SIZE: usize = 20_000_000;
    let server = serve(generated(SIZE as u64));
    let mut client = Client::narrow(&server);
    client.send("GET /data.bin HTTP/1.0\r\n\r\n");
    assert_eq!(client.read_reply(false).status, 200);
    // The request is read, and this will not be.
    client.send("\r\n");
    let body = client.read_rest();
    assert!(body == pattern(0, SIZE), "{} bytes", body.len());
}

#[test]
fn what_is_no_request_is_refused() {
    let server = serve(generated(10));
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01"[..],
        b"hello world\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : x\r\n\r\n",
        b"GET / HTTP/3.0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n",
        b"GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost:\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a:99999\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: \xff\r\n\r\n",
        b"GET http://a/ HTTP/1.1\r\n\r\n",
        b"GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET * HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0, 0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n",
        b"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n folded: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n",
        b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /\r\n\r\n",
        b"\r\n\r\n\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        let mut client = Client::new(&server);
        client.send(bytes);
        let reply = client.read_reply(true);
        assert_eq!(reply.status, 400, "{}", bytes.escape_ascii());
        assert!(reply.text().starts_with("400 Bad Request: "), "{}", reply.text());
        client.finish();
        assert_eq!(client.read_rest(), b"");
    }
    let mut client = Client::new(&server);
    client.send("GET / HTTP/1.1\r\nHost: a b\r\n\r\n");
    assert_eq!(client.read_reply(true).text(), "400 Bad Request: invalid Host\n");
}

#[test]
fn what_is_odd_but_plain_is_answered() {
    let server = serve(generated(10));
    for bytes in [
        &b"\r\nGET /data.bin HTTP/1.1\r\nHost: a\r\n\r\n"[..],
        b"GET /data.bin HTTP/1.1\nHost: a\n\n",
        b"GET http://b:1/data.bin HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /data.bin HTTP/1.1\r\nHost: [::1]:8000\r\n\r\n",
        b"GET /data.bin HTTP/1.1\r\nHost: a:\r\nContent-Length: 000\r\n\r\n",
        b"GET /data.bin?x=../.. HTTP/1.0\r\n\r\n",
    ] {
        let mut client = Client::new(&server);
        client.send(bytes);
        assert_eq!(client.read_reply(true).status, 200, "{}", bytes.escape_ascii());
    }
    let mut client = Client::new(&server);
    client.send("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n");
    assert_eq!(client.read_reply(true).status, 501);
    let mut client = Client::new(&server);
    client.send("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.read_reply(true).status, 405);
}

#[test]
fn an_oversized_head_is_a_431() {
    let server = serve(generated(10));
    let mut client = Client::new(&server);
    client.send(format!("GET / HTTP/1.1\r\nHost: test\r\nX: {}\r\n\r\n", "x".repeat(64 * 1024)));
    assert_eq!(client.read_reply(true).status, 431);
    let mut client = Client::new(&server);
    client.send(format!("GET / HTTP/1.1\r\nHost: test\r\n{}\r\n", "X: y\r\n".repeat(200)));
    assert_eq!(client.read_reply(true).status, 431);
    let reply = Client::new(&server).get("/data.bin", &[&format!("X: {}", "x".repeat(60 * 1024))]);
    assert_eq!(reply.status, 200);
}

#[test]
fn slow_servers_are_complete_servers() {
    let mut config = generated(300_000);
    config.limit_rate = Some(Rate(10e6));
    config.delay = Duration::from_millis(5);
    config.send_buffer = Some(Bytes(8192));
    let server = serve(config);
    let reply = Client::new(&server).get("/data.bin", &["Range: bytes=1-299998"]);
    assert_eq!(reply.body, pattern(1, 299_998));
}

#[test]
fn connections_beyond_the_limit_wait_for_their_turn() {
    let mut config = generated(10);
    config.connections_at_once = Some(1);
    let server = serve(config);
    let mut first = Client::new(&server);
    assert_eq!(first.get("/data.bin", &[]).status, 200);
    let mut second = Client::new(&server);
    second.send("GET /data.bin HTTP/1.1\r\nHost: test\r\n\r\n");
    assert_eq!(first.get("/data.bin", &[]).status, 200);
    assert_eq!((server.stats().connections, server.stats().requests), (1, 2));
    drop(first);
    assert_eq!(second.read_reply(true).body, pattern(0, 10));
}

#[test]
fn a_client_that_hangs_up_in_the_middle_disturbs_nobody() {
    let server = serve(generated(1 << 40));
    let mut rude = Client::new(&server);
    rude.send("GET /data.bin HTTP/1.1\r\nHost: test\r\n\r\n");
    drop(rude);
    assert_eq!(Client::new(&server).get("/data.bin", &["Range: bytes=0-9"]).body, pattern(0, 10));
    wait_for("the end of both", || server.stats().connections == 0);
}

#[test]
fn stopping_ends_idle_and_busy_connections() {
    let server = serve(generated(1 << 40));
    let mut idle = Client::new(&server);
    assert_eq!(idle.get("/data.bin", &["Range: bytes=0-9"]).status, 206);
    let mut busy = Client::new(&server);
    busy.send("GET /data.bin HTTP/1.1\r\nHost: test\r\n\r\n");
    wait_for("both requests", || server.stats().requests >= 2);
    assert_eq!(server.stop().connections, 0);
    assert_eq!(idle.read_rest(), b"");
}

#[test]
fn answers_that_were_begun_come_to_their_end() {
    const SIZE: usize = 20_000_000;
    let server = serve(Config { drain: Duration::from_secs(20), ..generated(SIZE as u64) });
    let mut idle = Client::new(&server);
    assert_eq!(idle.get("/data.bin", &["Range: bytes=0-9"]).status, 206);
    let mut busy = Client::new(&server);
    busy.send("GET /data.bin HTTP/1.1\r\nHost: test\r\n\r\n");
    wait_for("both requests", || server.stats().requests >= 2);
    let stopping = std::thread::spawn(move || server.stop());
    // The rest of its answer is more than the kernel holds, so the server is there while it is not read.
    assert_eq!(idle.read_rest(), b"", "it answers nothing, and ends at once");
    let body = busy.read_reply(true).body;
    assert!(body == pattern(0, SIZE), "{} bytes", body.len());
    assert_eq!(busy.read_rest(), b"");
    assert_eq!(stopping.join().unwrap().connections, 0);
}

#[test]
fn answers_that_are_cut_are_told_of() {
    let config = Config { drain: Duration::from_millis(100), ..generated(1 << 40) };
    let server = weir_serve::Server::bind(config.listen("127.0.0.1:0".parse().unwrap())).unwrap();
    let mut log = tempfile::tempfile().unwrap();
    let lines = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_ansi(false)
        .with_writer(std::sync::Arc::new(log.try_clone().unwrap()))
        .finish();
    std::thread::scope(|scope| {
        scope.spawn(|| tracing::subscriber::with_default(lines, || server.run()));
        let mut busy = std::net::TcpStream::connect(server.addresses()[0]).unwrap();
        busy.write_all(b"GET /data.bin HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
        wait_for("the request", || server.stats().requests >= 1);
        server.shutdown().stop();
        wait_for("its end", || server.stats().connections == 0);
    });
    let mut said = String::new();
    log.rewind().unwrap();
    log.read_to_string(&mut said).unwrap();
    assert!(said.contains("1 connection cut in the middle of an answer"), "{said}");
}

#[test]
fn a_large_listing_ends_nobodys_download() {
    let root = tempfile::tempdir().unwrap();
    let many = root.path().join("many");
    fs::create_dir(&many).unwrap();
    // A listing of about five megabytes, of which three may wait for their clients.
    for number in 0..10_000 {
        fs::write(many.join(format!("{number:0220}")), "").unwrap();
    }
    fs::File::create(root.path().join("big")).unwrap().set_len(1 << 30).unwrap();
    let mut config = Config::new(Content::Dir(root.path().to_owned()));
    config.send_buffer = Some(Bytes(8192));
    let server = serve(config);
    let mut download = Client::new(&server);
    download.send("GET /big HTTP/1.1\r\nHost: test\r\nRange: bytes=0-33554431\r\n\r\n");
    let held: Vec<Client> = (0..4)
        .map(|_| {
            let mut client = Client::new(&server);
            client.send("GET /many/ HTTP/1.1\r\nHost: test\r\n\r\n");
            client
        })
        .collect();
    wait_for("all requests", || server.stats().requests >= 5);
    // None of them reads. One that holds a listing gives way for another once it has done so for a second.
    wait_for("room for another listing", || Client::new(&server).get("/many/", &[]).status == 200);
    assert_eq!(download.read_reply(true).body.len(), 32 << 20, "it has stalled for longer, and goes on");
    drop(held);
}

#[test]
fn configurations_that_cannot_work_are_refused() {
    let refused = |change: fn(&mut Config)| {
        let mut config = generated(10).listen("127.0.0.1:0".parse().unwrap());
        change(&mut config);
        weir_serve::Server::bind(config).err().map(|err| err.to_string())
    };
    assert!(refused(|_| {}).is_none());
    assert!(refused(|config| config.limit_rate = Some(Rate(0.0))).unwrap().contains("limit rate"));
    assert!(refused(|config| config.connections_at_once = Some(0)).unwrap().contains("zero"));
    assert!(refused(|config| config.listen.clear()).unwrap().contains("no address"));
    let absent = refused(|config| config.content = Content::Dir("/no/such/dir".into())).unwrap();
    assert_eq!(absent, "cannot serve directory /no/such/dir");
}

#[test]
fn an_address_in_use_is_named() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("x"), "x").unwrap();
    let server = serve_dir(root.path());
    let address = server.addresses()[0];
    let config = Config::new(Content::Dir(root.path().to_owned())).listen(address);
    let err = weir_serve::Server::bind(config).err().unwrap();
    assert_eq!(err.to_string(), format!("cannot listen on {address}"));
}
