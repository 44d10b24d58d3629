//! What `weir self-check` adds to a record: what this host lets weir do, what each missing thing costs, and
//! the way out.
//!
//! ```text
//! ok       tun                  a device was made in a new namespace (/dev/net/tun and ioctl(TUNSETIFF))
//! missing  packet-sockets       operation not permitted (socket(AF_PACKET, SOCK_RAW))
//!          cost: weir bench pps --via packet cannot send frames
//!          way out: --via udp, or run it as root
//! ```

mod words;

use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use weir_model::ability::{Ability, AbilityState, Finding};

use crate::escape::escape;

/// The member `self_check` of a record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SelfCheckRecord {
    /// `Linux 6.18.44`.
    pub system: String,
    /// The effective user's number.
    pub user: u32,
    /// Of `get`, `cp` and `why`, those that cannot do their work here.
    pub stopped: Vec<String>,
    /// One for each ability, in order.
    pub rows: Vec<AbilityRow>,
}

/// One ability.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AbilityRow {
    /// `tun`.
    pub name: String,
    /// What it is, and what for.
    pub about: String,
    /// `ok`, `limited` or `missing`.
    pub state: String,
    /// What was read or happened.
    pub reading: String,
    /// Where from.
    pub origin: String,
    /// Commands and what they lose, one a line; empty where nothing is lost.
    pub costs: Vec<String>,
    /// What would bring more; `null` where nothing is lost.
    pub way_out: Option<String>,
    /// Of `get`, `cp` and `why`, those that cannot do their work without it.
    pub needed_by: Vec<String>,
}

impl SelfCheckRecord {
    /// Of what was found, each ability with its words.
    pub fn new(system: String, user: u32, found: &[(Ability, Finding)]) -> SelfCheckRecord {
        let mut stopped: Vec<String> = Vec::new();
        let missing = found.iter().filter(|(_, finding)| finding.state == AbilityState::Missing);
        for name in missing.flat_map(|(ability, _)| ability.needed_by()) {
            if !stopped.iter().any(|known| known == name) {
                stopped.push((*name).to_owned());
            }
        }
        let rows = found.iter().map(|(ability, finding)| AbilityRow::new(*ability, finding)).collect();
        SelfCheckRecord { system, user, stopped, rows }
    }
}

impl AbilityRow {
    fn new(ability: Ability, finding: &Finding) -> AbilityRow {
        let words = words::of(ability);
        let costs = match finding.state {
            AbilityState::Ok => &[][..],
            AbilityState::Limited => words.limited,
            AbilityState::Missing => words.missing,
        };
        // Where nothing is lost there is nothing to mend.
        let way_out =
            (!costs.is_empty()).then(|| finding.way_out.clone().unwrap_or_else(|| words.way_out.to_owned()));
        AbilityRow {
            name: ability.name().to_owned(),
            about: words.about.to_owned(),
            state: finding.state.name().to_owned(),
            reading: finding.reading.clone(),
            origin: finding.origin.clone(),
            costs: costs.iter().map(|cost| (*cost).to_owned()).collect(),
            way_out,
            needed_by: ability.needed_by().iter().map(|name| (*name).to_owned()).collect(),
        }
    }
}

/// The list for people; `verbose` also says of each ability what it is for.
pub fn render(check: &SelfCheckRecord, verbose: bool, out: &mut dyn Write) -> io::Result<()> {
    let user = if check.user == 0 { "root".to_owned() } else { format!("user {}", check.user) };
    writeln!(out, "{}, as {user}", escape(&check.system))?;
    for row in &check.rows {
        writeln!(
            out,
            "{:<8} {:<20} {} ({})",
            row.state,
            row.name,
            escape(&row.reading),
            escape(&row.origin)
        )?;
        if verbose {
            writeln!(out, "{:9}what for: {}", "", row.about)?;
        }
        for cost in &row.costs {
            writeln!(out, "{:9}cost: {cost}", "")?;
        }
        match &row.way_out {
            Some(way_out) => writeln!(out, "{:9}way out: {}", "", escape(way_out))?,
            None if row.state != AbilityState::Ok.name() => writeln!(out, "{:9}costs nothing", "")?,
            None => {}
        }
    }
    writeln!(out, "{}", last_line(check))
}

/// What it comes to.
fn last_line(check: &SelfCheckRecord) -> String {
    if check.stopped.is_empty() {
        return "weir get, cp and why have all they need here".to_owned();
    }
    let stops = |row: &&AbilityRow| row.state == AbilityState::Missing.name() && !row.needed_by.is_empty();
    let lacking: Vec<&str> = check.rows.iter().filter(stops).map(|row| row.name.as_str()).collect();
    let commands: Vec<String> = check.stopped.iter().map(|name| format!("weir {name}")).collect();
    format!("{} cannot do without what is missing here: {}", commands.join(", "), lacking.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_says_what_is_lost_and_the_way_out() {
        let found = [
            (Ability::Tun, Finding::ok("a device was made", "/dev/net/tun")),
            (Ability::Ssh, Finding::missing("no program called ssh", "PATH")),
            (Ability::HugePages, Finding::missing("transparent: never; reserved: 0", "/proc/meminfo")),
            (Ability::Namespaces, Finding::missing("no", "unshare").with_way_out("sysctl -w a.b=1")),
        ];
        let record = SelfCheckRecord::new("Linux 6.18".into(), 0, &found);
        let mut out = Vec::new();
        render(&record, false, &mut out).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap());
    }

    #[test]
    fn each_ability_has_words_and_what_stops_a_command_costs_it() {
        for ability in Ability::ALL {
            let words = words::of(ability);
            assert!(!words.about.is_empty(), "{ability}");
            assert!(words.missing.is_empty() || !words.way_out.is_empty(), "{ability}");
            for command in ability.needed_by() {
                let named = words.missing.iter().any(|cost| cost.contains(command));
                assert!(named, "{ability} stops weir {command}, and its costs do not say so");
            }
        }
    }
}
