//! Servers that play stores, each from where `scripts/need` puts it, and other programs that speak with them.
//!
//! An ordinary run has those that are there in seconds. `WEIR_STORES=all` (`make stores-check`) has all, and
//! fails where one is missing.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use super::http_servers::{Program, moto};
use super::net::free_port;
use super::{Sandbox, Weir, skip};

/// The bucket of each.
pub(crate) const BUCKET: &str = "bucket-of-tests";

/// Who signs where signatures are checked: a key, and a secret that is nobody's.
const SIGNER: (&str, &str) = ("AKIDEXAMPLE", "a-secret-of-tests");

/// Azurite's account, as its documentation has it.
const ACCOUNT: (&str, &str) = (
    "devstoreaccount1",
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
);

/// moto lets in whoever has any signature.
const SIGNED: &str = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Expires=600&X-Amz-Signature=of-tests";

/// Which server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreServer {
    /// Amazon's conditions and checksums, in memory.
    Moto,
    /// Checks signatures.
    S3sFs,
    /// Another one that speaks as S3 does.
    Gofakes3,
    /// Azure's.
    Azurite,
    /// Google's, without parts, pages, conditions and entity tags.
    GcpEmulator,
}

/// A server with an empty bucket.
pub(crate) struct PlayedStore {
    pub(crate) server: StoreServer,
    program: Program,
    _folder: TempDir,
}

/// All servers are asked for.
pub(crate) fn all_are_wanted() -> bool {
    std::env::var("WEIR_STORES").as_deref() == Ok("all")
}

/// Those of this run, one after another.
pub(crate) fn played() -> impl Iterator<Item = PlayedStore> {
    let ordinary = [StoreServer::Moto, StoreServer::GcpEmulator];
    let rest = [StoreServer::Gofakes3, StoreServer::S3sFs, StoreServer::Azurite];
    let servers = ordinary.into_iter().chain(rest.into_iter().filter(|_| all_are_wanted()));
    servers.filter_map(PlayedStore::start)
}

impl PlayedStore {
    /// Starts it; `None`, and a word, where it is not installed.
    pub(crate) fn start(server: StoreServer) -> Option<PlayedStore> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let Some(program) = server.start(folder.path()) else {
            assert!(!all_are_wanted(), "{server:?} is missing: scripts/need stores");
            skip(&format!("no {server:?}: scripts/need test"));
            return None;
        };
        println!("{server:?}");
        let store = PlayedStore { server, program, _folder: folder };
        store.make_bucket();
        Some(store)
    }

    fn make_bucket(&self) {
        match self.server {
            StoreServer::Moto => {
                let url = format!("{}/{BUCKET}?{SIGNED}", self.endpoint());
                let curl = Command::new("curl")
                    .args(["-sSf", "-X", "PUT", "-H", "Content-Length: 0", &url])
                    .output();
                assert!(curl.as_ref().is_ok_and(|output| output.status.success()), "{curl:?}");
            }
            StoreServer::Azurite => drop(self.rclone(&["mkdir", &format!("peer:{BUCKET}")])),
            _ => {}
        }
    }

    /// Where it listens.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.program.port)
    }

    /// The address of a key, as weir reads it.
    pub(crate) fn url(&self, key: &str) -> String {
        let scheme = match self.server {
            StoreServer::Azurite => "az",
            StoreServer::GcpEmulator => "gs",
            _ => "s3",
        };
        format!("{scheme}://{BUCKET}/{key}")
    }

    /// weir, to be run in the sandbox, with this for its store.
    pub(crate) fn weir(&self, sandbox: &Sandbox, args: &[&str]) -> Weir {
        let weir = sandbox.weir(super::WEIR, args);
        match self.server {
            StoreServer::Azurite => {
                let (account, key) = ACCOUNT;
                let endpoint = format!("{}/{account}", self.endpoint());
                let said = format!("AccountName={account};AccountKey={key};BlobEndpoint={endpoint};");
                weir.env("AZURE_STORAGE_CONNECTION_STRING", said)
            }
            StoreServer::GcpEmulator => weir.env("STORAGE_EMULATOR_HOST", self.endpoint()),
            _ => (weir.env("AWS_ACCESS_KEY_ID", SIGNER.0).env("AWS_SECRET_ACCESS_KEY", SIGNER.1))
                .env("AWS_ENDPOINT_URL", self.endpoint())
                .env("AWS_REGION", "us-east-1"),
        }
    }

    /// rclone, whose `peer:` this is; it must succeed.
    #[track_caller]
    pub(crate) fn rclone(&self, args: &[&str]) -> Output {
        let endpoint = self.endpoint();
        let azure = format!("{endpoint}/{}", ACCOUNT.0);
        let google = format!("{endpoint}/storage/v1/");
        let settings = match self.server {
            StoreServer::Azurite => {
                vec![("TYPE", "azureblob"), ("ACCOUNT", ACCOUNT.0), ("KEY", ACCOUNT.1), ("ENDPOINT", &azure)]
            }
            StoreServer::GcpEmulator => vec![("TYPE", "gcs"), ("ANONYMOUS", "true"), ("ENDPOINT", &google)],
            _ => vec![
                ("TYPE", "s3"),
                ("PROVIDER", "Other"),
                ("ACCESS_KEY_ID", SIGNER.0),
                ("SECRET_ACCESS_KEY", SIGNER.1),
                ("ENDPOINT", &endpoint),
            ],
        };
        let mut rclone = Command::new(peer("rclone").expect("rclone: scripts/need stores"));
        rclone.args(["--config", "/dev/null"]).args(args);
        for (name, value) in settings {
            rclone.env(format!("RCLONE_CONFIG_PEER_{name}"), value);
        }
        succeeds(rclone)
    }

    /// s5cmd with this for its store; it must succeed. Of S3 alone.
    #[track_caller]
    pub(crate) fn s5cmd(&self, args: &[&str]) -> Output {
        let mut s5cmd = Command::new(peer("s5cmd").expect("s5cmd: scripts/need stores"));
        s5cmd.args(["--endpoint-url", &self.endpoint()]).args(args);
        s5cmd
            .env("AWS_ACCESS_KEY_ID", SIGNER.0)
            .env("AWS_SECRET_ACCESS_KEY", SIGNER.1)
            .env("AWS_REGION", "us-east-1");
        succeeds(s5cmd)
    }

    /// It speaks as S3 does.
    pub(crate) fn is_s3(&self) -> bool {
        !matches!(self.server, StoreServer::Azurite | StoreServer::GcpEmulator)
    }

    /// Uploads that nobody has ended, as the server lists them: none may be left. `None` where it has no list
    /// of them.
    pub(crate) fn has_uploads(&self, sandbox: &Sandbox) -> Option<bool> {
        if !matches!(self.server, StoreServer::Moto | StoreServer::Gofakes3) {
            return None;
        }
        let url = format!("{}/{BUCKET}?uploads&{SIGNED}", self.endpoint());
        let run = sandbox.get([&url, "-o", "uploads", "--any-type", "--force", "-q"]).run();
        // So gofakes3 says that there is none.
        if run.stderr.contains("404 Not Found (NoSuchUpload)") {
            return Some(false);
        }
        run.succeeds();
        let listed = String::from_utf8(sandbox.read("uploads")).expect("a text");
        assert!(listed.contains("ListMultipartUploadsResult"), "{listed}");
        std::fs::remove_file(sandbox.path("uploads")).expect("a file");
        Some(listed.contains("<UploadId>"))
    }
}

impl StoreServer {
    fn start(self, folder: &Path) -> Option<Program> {
        let port = free_port();
        let (number, here) = (port.to_string(), folder.to_str()?);
        match self {
            StoreServer::Moto => moto(),
            StoreServer::S3sFs => {
                std::fs::create_dir(folder.join(BUCKET)).ok()?;
                let program = found("s3s-fs", &[".cargo/bin"])?;
                let signer = ["--access-key", SIGNER.0, "--secret-key", SIGNER.1];
                let args = [&["--host", "127.0.0.1", "--port", &number][..], &signer, &[here]].concat();
                Program::start("s3s-fs", program.to_str()?, port, &args)
            }
            StoreServer::Gofakes3 => {
                let program = found("gofakes3", &["go/bin"])?;
                let host = format!("127.0.0.1:{port}");
                let files = ["-backend", "fs", "-fs.path", here, "-fs.create"];
                let args = [&["-quiet", "-host", &host, "-initialbucket", BUCKET][..], &files].concat();
                Program::start("gofakes3", program.to_str()?, port, &args)
            }
            StoreServer::Azurite => {
                let main = cached("azurite/node_modules/azurite/dist/src/blob/main.js")?;
                let place = ["--blobHost", "127.0.0.1", "--blobPort", &number, "--location", here];
                let manner = ["--silent", "--disableTelemetry", "--skipApiVersionCheck"];
                let args = [&["node", main.to_str()?][..], &place, &manner].concat();
                Program::start("azurite", "/usr/bin/env", port, &args)
            }
            StoreServer::GcpEmulator => {
                let modules = format!("PYTHONPATH={}", cached("gcp-storage-emulator")?.display());
                let module = [
                    "python3",
                    "-m",
                    "gcp_storage_emulator",
                    "-d",
                    here,
                    "start",
                    "-q",
                    "-M",
                    "-H",
                    "127.0.0.1",
                ];
                let place = ["--port", &number, "--default-bucket", BUCKET];
                let args = [&[modules.as_str()][..], &module, &place].concat();
                Program::start("gcp-storage-emulator", "/usr/bin/env", port, &args)
            }
        }
    }
}

/// What `scripts/need` keeps, if it is there.
fn cached(name: &str) -> Option<PathBuf> {
    let path = Path::new(&std::env::var_os("HOME")?).join(".cache/weir-test").join(name);
    path.exists().then_some(path)
}

/// Another program that speaks with stores.
fn peer(name: &str) -> Option<PathBuf> {
    cached(&format!("peers/bin/{name}"))
}

/// A program of the path, or of one of these folders of the user's.
fn found(name: &str, folders: &[&str]) -> Option<PathBuf> {
    let home = PathBuf::from(std::env::var_os("HOME")?);
    let path = std::env::var_os("PATH")?;
    let own = folders.iter().map(|folder| home.join(folder));
    std::env::split_paths(&path).chain(own).map(|folder| folder.join(name)).find(|path| path.is_file())
}

#[track_caller]
fn succeeds(mut command: Command) -> Output {
    let output = command.stdin(Stdio::null()).output().expect("a program that starts");
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    output
}
