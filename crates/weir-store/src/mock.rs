//! A server on loopback for tests: what it answers, and what it was asked.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;

/// A request as it came.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// `GET`.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Names in lower case.
    pub fields: Vec<(String, String)>,
    /// As text.
    pub body: String,
}

impl Asked {
    /// The value of a field; empty: it has none.
    pub fn field(&self, name: &str) -> &str {
        self.fields.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

/// What is answered.
#[derive(Debug, Clone, Default)]
pub struct Said {
    /// Its status.
    pub status: u16,
    /// Its fields.
    pub fields: Vec<(String, String)>,
    /// Its body.
    pub body: Vec<u8>,
}

/// A status and a text.
pub fn said(status: u16, body: impl Into<Vec<u8>>) -> Said {
    Said { status, fields: Vec::new(), body: body.into() }
}

/// A server; it ends with the test.
pub struct Mock {
    /// `http://127.0.0.1:PORT`.
    pub url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Mock {
    /// Answers with what `answer` makes of each request.
    pub fn new(answer: impl Fn(&Asked) -> Said + Send + Sync + 'static) -> Mock {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (seen, answer) = (Arc::clone(&asked), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                thread::spawn(move || {
                    let mut reader = BufReader::new(stream);
                    while let Some(asked) = read(&mut reader) {
                        seen.lock().push(asked.clone());
                        let said = answer(&asked);
                        let mut head =
                            format!("HTTP/1.1 {} X\r\nContent-Length: {}\r\n", said.status, said.body.len());
                        said.fields
                            .iter()
                            .for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
                        let body = if asked.method == "HEAD" { &[][..] } else { &said.body };
                        let bytes = [head.as_bytes(), b"\r\n", body].concat();
                        if reader.get_mut().write_all(&bytes).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Mock { url, asked }
    }

    /// All that it was asked.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().clone()
    }
}

fn read(reader: &mut impl BufRead) -> Option<Asked> {
    let mut line = String::new();
    let mut next = |reader: &mut dyn BufRead| -> Option<String> {
        line.clear();
        reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
        Some(line.trim_end().to_owned())
    };
    let first = next(reader)?;
    let mut words = first.split(' ');
    let mut asked =
        Asked { method: words.next()?.to_owned(), target: words.next()?.to_owned(), ..Asked::default() };
    while let Some((name, value)) = next(reader)?.split_once(": ") {
        asked.fields.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let length: usize = asked.field("content-length").parse().unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    asked.body = String::from_utf8_lossy(&body).into_owned();
    Some(asked)
}
