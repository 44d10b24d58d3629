//! Under which headings help lists the flags of commands that have many: the same words in each of them.

/// None of its own: clap's "Options". A flag behind flattened ones would stand under the heading of those.
pub(super) const OPTIONS: Option<&str> = None;
/// How fast, and over how many connections.
pub(super) const SPEED: &str = "Speed";
/// What is asked of a server, and how it is reached.
pub(super) const REQUESTS: &str = "Requests";
/// What proves that the bytes are the right ones.
pub(super) const VERIFICATION: &str = "Verification";
/// What happens when a server or a path fails.
pub(super) const FAILURES: &str = "Failures and deadlines";
/// Which files a copy takes.
pub(super) const SELECTION: &str = "Selection";
/// What files and objects are beside their bytes: owners, modes, types.
pub(super) const ATTRIBUTES: &str = "Attributes";
/// The way of a copy's data.
pub(super) const NETWORK: &str = "Network";
/// One source to many hosts.
pub(super) const MANY_HOSTS: &str = "Many hosts";
/// How object stores are asked.
pub(super) const STORES: &str = "Object stores";
/// How ssh is called.
pub(super) const SSH: &str = "ssh";
/// What is printed, and what is kept of the run.
pub(super) const OUTPUT: &str = "Output";
/// What others have to be asked for.
pub(super) const COMPATIBILITY: &str = "Accepted for compatibility";
