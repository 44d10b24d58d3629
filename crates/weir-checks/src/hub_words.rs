//! What hubs say: lists of repositories, manifests of images, pointers of git-lfs. A file that is to be
//! fetched has a name below its folder and an address at its hub.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use weir_get::http::exchange::{Http, Version, Who};
use weir_get::http::proxy::Proxies;
use weir_get::http::trust::Trust;
use weir_store::hub::hugging_face::{HfUrl, HuggingFace};
use weir_store::hub::lfs::Pointer;
use weir_store::hub::oci::{OciUrl, Registry};
use weir_store::hub::{HubFile, Way};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// Who is asked; by nobody here.
static HUBS: LazyLock<(HfUrl, HuggingFace, Registry)> = LazyLock::new(|| {
    let environment = |name: &str| (name == "HF_ENDPOINT").then(|| "http://hub.example:81/base".to_owned());
    let wanted = HfUrl::parse("hf://org/model").and_then(Result::ok).expect("a repository");
    let hub = HuggingFace::new(&environment, Vec::new()).expect("a hub");
    let image = OciUrl::parse("oci://registry.example:5000/a/b:tag").and_then(Result::ok).expect("an image");
    let http = Http::new(Trust::default(), Proxies::default(), Version::Http1, Vec::new(), Who::default());
    let (timeout, stop) = (Duration::from_secs(1), Arc::new(AtomicBool::new(true)));
    let (http, connect_timeout, max_wait) = (Arc::new(http), timeout, timeout);
    let way = Way { http, stop, timeout, connect_timeout, max_wait, retries: 0 };
    (wanted, hub, Registry::new(image, None, None, way))
});

/// Whether the input was understood.
pub fn check(bytes: &[u8]) -> bool {
    let (wanted, hub, registry) = &*HUBS;
    let mut understood = false;
    if let Ok(files) = hub.files_in(wanted, COMMIT, bytes) {
        for file in &files {
            is_below(file, "http://hub.example:81/base/org/model/resolve/");
        }
        understood |= !files.is_empty();
    }
    if let Ok(files) = registry.files_in(bytes) {
        for file in &files {
            is_below(file, "https://registry.example:5000/v2/a/b/blobs/");
            let digest = file.digest.as_ref().expect("a blob has a digest");
            assert_eq!(file.id, digest.hex());
        }
        understood |= !files.is_empty();
    }
    if let Some(pointer) = Pointer::parse(bytes) {
        assert_eq!(pointer.digest.hex().len(), 64);
        understood = true;
    }
    understood
}

fn is_below(file: &HubFile, base: &str) {
    let name = String::from_utf8_lossy(file.name.as_bytes()).into_owned();
    assert!(!name.is_empty() && !name.starts_with('/') && !name.contains(char::is_control), "{name:?}");
    assert!(name.split('/').all(|part| !matches!(part, "" | "." | "..")), "{name:?}");
    assert!(file.url.as_str().starts_with(base), "{}", file.url);
}
