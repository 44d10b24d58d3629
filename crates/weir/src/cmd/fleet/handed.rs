//! What a launcher hands to workers: their words, without any secret, and the secrets apart from them.

use std::path::PathBuf;

use weir_fleet::ledger::LedgerPlace;

use crate::args::FleetRun;
use crate::voice::Usage;

/// The variable that a database's password is in (PostgreSQL: libpq, 34.15).
pub const PASSWORD: &str = "PGPASSWORD";

/// See the module.
pub struct Handed {
    /// Arguments of weir.
    pub words: Vec<String>,
    /// The ledger, where it is a file: its whole path.
    pub file: Option<PathBuf>,
    /// The ledger as people name it, without a password.
    pub shown: String,
    /// The password that was in its address.
    pub password: Option<String>,
}

impl Handed {
    /// Of what the user said. `proxy_instead`: how workers get a proxy's password.
    pub fn of(run: &FleetRun, proxy_instead: &str) -> anyhow::Result<Handed> {
        let place = LedgerPlace::parse(&run.ledger).map_err(Usage)?;
        let (ledger, file, password) = match &place {
            LedgerPlace::File(path) => {
                let path = std::path::absolute(path)?;
                let text = path.to_str().map(str::to_owned);
                let text =
                    text.ok_or_else(|| Usage("the ledger's path is no UTF-8; name it by a link".to_owned()))?;
                (text, Some(path), None)
            }
            LedgerPlace::Database(url) => {
                let (address, password) = url.without_password();
                (address.to_owned(), None, password.map(str::to_owned))
            }
        };
        let worker = run.worker.words();
        if let Some(word) = worker.iter().find(|word| has_password(word)) {
            let option = word.split('=').next().unwrap_or_default();
            let why = format!(
                "cannot hand {option} to workers: all could read the password in it; {proxy_instead}"
            );
            return Err(Usage(why).into());
        }
        let shown = match &place {
            LedgerPlace::File(path) => path.display().to_string(),
            LedgerPlace::Database(url) => url.to_string(),
        };
        let words = ["fleet", "work"].map(str::to_owned).into_iter();
        let words = words.chain([format!("--ledger={ledger}")]).chain(worker).collect();
        Ok(Handed { words, file, shown, password })
    }
}

/// Whether a URL in `word` has a password.
fn has_password(word: &str) -> bool {
    let Some((_, rest)) = word.split_once("://") else { return false };
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    authority.rsplit_once('@').is_some_and(|(login, _)| login.contains(':'))
}

#[cfg(test)]
mod tests {
    use super::has_password;

    #[test]
    fn a_password_in_a_url_is_seen() {
        for with in ["--proxy=http://u:p@h:1", "--endpoint=https://a:b@h/x", "--proxy=socks5h://u:p@@h"] {
            assert!(has_password(with), "{with}");
        }
        for without in
            ["--proxy=http://h:1/", "--proxy=http://u@h", "--endpoint=http://h/a:b@c", "--region=a:b@c"]
        {
            assert!(!has_password(without), "{without}");
        }
    }
}
