//! Of which class a failure is: what the ledger decides about another attempt by.

use std::io;

use weir_get::GetError;
use weir_store::StoreError;

use crate::class::FailureClass;

/// What stores say of an object in an archive, which nobody reads before somebody has it restored.
const AT_REST: [&str; 4] =
    ["InvalidObjectState", "ObjectNotInActiveTierError", "BlobArchived", "BlobBeingRehydrated"];

/// A failure of the engine of downloads.
pub(super) fn class_of(error: &GetError) -> FailureClass {
    match error {
        GetError::Status { reason, .. } if AT_REST.iter().any(|code| reason.contains(code)) => {
            FailureClass::Invalid
        }
        GetError::Status { status, retry_after, .. } => class_of_status(*status, retry_after.is_some()),
        GetError::ComeBack { .. } => FailureClass::Busy,
        GetError::NotPinned { .. } | GetError::Changed { .. } => FailureClass::Changed,
        GetError::Digest { .. } | GetError::NoDigest { .. } => FailureClass::Digest,
        GetError::Differs { .. } | GetError::Exists { .. } | GetError::IsDirectory { .. } => {
            FailureClass::Name
        }
        GetError::Local { source, .. } => class_of_io(source),
        GetError::Locked { .. } => FailureClass::Local,
        GetError::Refused(_) | GetError::Redirect { .. } | GetError::WebPage { .. } => FailureClass::Invalid,
        // A certificate that this host does not trust; others may.
        GetError::Tls { permanent: true, .. } | GetError::Credentials(_) => FailureClass::Denied,
        GetError::Malformed { .. }
        | GetError::WrongPart { .. }
        | GetError::Unproven { .. }
        | GetError::EmptyRange { .. }
        | GetError::NoParts { .. }
        | GetError::Crumbs { .. } => FailureClass::Server,
        GetError::Resolve { .. }
        | GetError::NamePending(_)
        | GetError::Connect { .. }
        | GetError::Tls { .. }
        | GetError::OnlyHttp2 { .. }
        | GetError::OnlyHttp1 { .. }
        | GetError::Proxy { .. }
        | GetError::Socks { .. }
        | GetError::Broken { .. }
        | GetError::Truncated { .. }
        | GetError::Unclean { .. }
        | GetError::Stalled { .. } => FailureClass::Network,
        GetError::OutputClosed { .. } | GetError::Interrupted | GetError::Dropped => FailureClass::Other,
    }
}

/// RFC 9110, section 15. GitHub says 403 for 429, with the time when to come back.
fn class_of_status(status: u16, is_for_later: bool) -> FailureClass {
    match status {
        404 | 410 => FailureClass::Missing,
        408 | 425 | 429 | 503 => FailureClass::Busy,
        403 if is_for_later => FailureClass::Busy,
        401 | 403 | 407 => FailureClass::Denied,
        412 => FailureClass::Changed,
        500..=599 => FailureClass::Server,
        _ => FailureClass::Invalid,
    }
}

/// A failure of a store.
pub(super) fn class_of_store(error: &StoreError) -> FailureClass {
    match error {
        StoreError::Http(error) => class_of(error),
        StoreError::Answered { answer, .. } => class_of(answer),
        StoreError::Refused { code, .. } => class_of_code(code),
        StoreError::Answer { .. } => FailureClass::Server,
        StoreError::Key { .. } => FailureClass::Name,
        StoreError::Credentials(_) => FailureClass::Denied,
        StoreError::Local(_) | StoreError::Source(_) => FailureClass::Local,
        StoreError::Absent(_) => FailureClass::Missing,
        StoreError::Changed(_) => FailureClass::Changed,
        // Of what weir asks for by itself only the condition that nothing is there can fail so.
        StoreError::Usage(_) => FailureClass::Name,
    }
}

/// The codes of S3, GCS and Azure.
fn class_of_code(code: &str) -> FailureClass {
    match code {
        "NoSuchKey" | "NoSuchBucket" | "NoSuchVersion" | "BlobNotFound" | "ContainerNotFound" => {
            FailureClass::Missing
        }
        "AccessDenied"
        | "AllAccessDisabled"
        | "AccountProblem"
        | "InvalidAccessKeyId"
        | "InvalidToken"
        | "SignatureDoesNotMatch"
        | "ExpiredToken"
        | "RequestTimeTooSkewed"
        | "AuthenticationFailed"
        | "AuthorizationFailure" => FailureClass::Denied,
        code if AT_REST.contains(&code) => FailureClass::Invalid,
        "SlowDown" | "ServerBusy" | "ServiceUnavailable" | "RequestTimeout" | "TooManyRequests"
        | "OperationAborted" => FailureClass::Busy,
        "InternalError" | "OperationTimedOut" => FailureClass::Server,
        "PreconditionFailed" | "ConditionNotMet" | "TargetConditionNotMet" | "BlobAlreadyExists" => {
            FailureClass::Name
        }
        "SourceConditionNotMet" => FailureClass::Changed,
        "EntityTooLarge" | "InvalidArgument" | "InvalidRequest" | "KeyTooLongError" => FailureClass::Invalid,
        "BadDigest" | "XAmzContentSHA256Mismatch" | "Md5Mismatch" => FailureClass::Network,
        "QuotaExceeded" | "InsufficientStorage" => FailureClass::Space,
        _ => FailureClass::Other,
    }
}

/// A failure of a file or a disk here.
pub(super) fn class_of_io(error: &io::Error) -> FailureClass {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => FailureClass::Space,
        io::ErrorKind::InvalidFilename
        | io::ErrorKind::NotADirectory
        | io::ErrorKind::IsADirectory
        | io::ErrorKind::AlreadyExists
        | io::ErrorKind::FileTooLarge => FailureClass::Name,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => FailureClass::Denied,
        _ => FailureClass::Local,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_status_decides_about_another_attempt() {
        for (status, class) in [
            (404, FailureClass::Missing),
            (403, FailureClass::Denied),
            (400, FailureClass::Invalid),
            (503, FailureClass::Busy),
            (502, FailureClass::Server),
        ] {
            let of = |retry_after| GetError::Status {
                host: "h".to_owned(),
                status,
                reason: String::new(),
                retry_after,
                hint: "",
            };
            assert_eq!(class_of(&of(None)), class, "{status}");
        }
        assert_eq!(class_of_status(403, true), FailureClass::Busy);
        let at_rest = GetError::Status {
            host: "h".to_owned(),
            status: 403,
            reason: "Forbidden (InvalidObjectState: The operation is not valid)".to_owned(),
            retry_after: None,
            hint: "",
        };
        assert_eq!(class_of(&at_rest), FailureClass::Invalid, "no host can read it");
        for code in AT_REST {
            assert_eq!(class_of_code(code), FailureClass::Invalid);
        }
        let later = GetError::Stalled {
            host: "h".to_owned(),
            what: "nothing".to_owned(),
            after: Duration::from_secs(60),
            way_out: "",
            is_slow: false,
        };
        assert_eq!(class_of(&later), FailureClass::Network);
        let without = GetError::Credentials("no credentials".to_owned());
        assert_eq!(class_of(&without), FailureClass::Denied, "others may have some");
    }

    #[test]
    fn a_full_disk_is_no_fault_of_the_object() {
        let of = |code: i32| class_of_io(&io::Error::from_raw_os_error(code));
        assert_eq!(of(rustix::io::Errno::NOSPC.raw_os_error()), FailureClass::Space);
        assert_eq!(of(rustix::io::Errno::NAMETOOLONG.raw_os_error()), FailureClass::Name);
        assert_eq!(of(rustix::io::Errno::IO.raw_os_error()), FailureClass::Local);
        assert_eq!(class_of_code("SlowDown"), FailureClass::Busy);
    }
}
