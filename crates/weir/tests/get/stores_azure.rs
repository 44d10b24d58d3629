//! What is Azure's alone: folders that answer as blobs do, and uploads that nobody has to end.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::support;

use support::{Run, Sandbox, Server, base64};

/// weir, asked for what `server` holds.
fn run(sandbox: &Sandbox, server: &Server, args: &[&str]) -> Run {
    let endpoint = format!("{}/acc", server.url("").trim_end_matches('/'));
    let weir = sandbox.weir(support::WEIR, [args, &["--endpoint", &endpoint]].concat());
    weir.env("AZURE_STORAGE_ACCOUNT", "acc").env("AZURE_STORAGE_KEY", base64(b"a-key-of-tests")).run()
}

/// In an account with a hierarchy a folder has a head as an empty blob has one.
#[test]
fn a_folder_is_copied_with_what_is_in_it() {
    let server = Server::start(|request, wire| {
        let is_list = request.target.contains("comp=list");
        match (request.method.as_str(), request.path()) {
            ("HEAD", "/acc/c/data") => {
                wire.answer("200 OK", &[("x-ms-resource-type", "directory"), ("ETag", "\"d\"")], b"")
            }
            ("GET", _) if is_list => {
                let list = "<EnumerationResults><Blobs><Blob><Name>data/x</Name><Properties><Etag>x</Etag>\
                            <Content-Length>3</Content-Length></Properties></Blob></Blobs><NextMarker/>\
                            </EnumerationResults>";
                wire.answer("200 OK", &[("Content-Type", "application/xml")], list.as_bytes())
            }
            ("GET", "/acc/c/data") => {
                wire.answer("200 OK", &[("x-ms-resource-type", "directory"), ("ETag", "\"d\"")], b"")
            }
            ("GET", "/acc/c/data/x") => wire.answer("200 OK", &[("ETag", "\"x\"")], b"abc"),
            _ => wire.answer("404 Not Found", &[], b""),
        }
    });
    let sandbox = Sandbox::new();
    run(&sandbox, &server, &["cp", "az://c/data", "out"]).succeeds();
    assert_eq!(sandbox.read("out/data/x"), b"abc");
    run(&sandbox, &server, &["get", "az://c/data", "-o", "file"])
        .fails(1, &["c/data is a folder", "with / at"]);
    assert!(!sandbox.path("file").exists());
}

/// Nothing is asked for that would remove blocks, and nothing is said to be removed.
#[test]
fn what_cannot_be_removed_is_not_said_to_be() {
    let server = Server::start(|request, wire| {
        match request.method == "GET" && request.target.contains("comp=blocklist") {
            true => {
                let name = base64(b"00000000000000ff-00001");
                let list = format!(
                    "<BlockList><CommittedBlocks/><UncommittedBlocks><Block><Name>{name}</Name><Size>5</Size>\
                     </Block></UncommittedBlocks></BlockList>"
                );
                wire.answer("200 OK", &[("Content-Type", "application/xml")], list.as_bytes())
            }
            false => wire.answer("404 Not Found", &[], b""),
        }
    });
    let sandbox = Sandbox::new();
    run(&sandbox, &server, &["put", "--abort", "-", "az://c/k"]).succeeds().says(&[
        "1 unfinished upload of az://",
        "cannot be removed from here: Azure drops blocks",
        "removed 0 unfinished uploads; nothing was sent",
    ]);
    assert!(server.requests().iter().all(|seen| matches!(seen.request.method.as_str(), "GET" | "HEAD")));
}
