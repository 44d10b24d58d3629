//! Which links does this host have, and what is the rate of each?

use std::fs;
use std::path::Path;

use weir_units::Rate;

use super::speed;

/// Where the kernel lists interfaces.
const INTERFACES: &str = "/sys/class/net";

/// Interfaces that are told: a host with more of them has them for its guests.
const MOST: usize = 64;

/// The hardware links that are up and whose driver knows their speed, by name. A driver that does not know
/// says -1 or refuses; what no hardware makes up (`/sys/class/net/IF/device` is missing) tells a speed that
/// is made up.
pub fn links() -> Vec<(String, Rate)> {
    links_in(Path::new(INTERFACES))
}

fn links_in(folder: &Path) -> Vec<(String, Rate)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut links: Vec<(String, Rate)> = entries.filter_map(|entry| link(&entry.path())).take(MOST).collect();
    links.sort_by(|a, b| a.0.cmp(&b.0));
    links
}

fn link(interface: &Path) -> Option<(String, Rate)> {
    let name = interface.file_name()?.to_str().filter(|name| *name != "lo")?.to_owned();
    let up = fs::read_to_string(interface.join("operstate")).is_ok_and(|state| state.trim() == "up");
    let real = interface.join("device").exists();
    let rate = speed(interface)?;
    (up && real).then_some((name, rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_links_that_are_up_and_known() {
        let folder = tempfile::tempdir().unwrap();
        for (name, state, speed, real) in [
            ("eth1", "up", "10000\n", true),
            ("eth0", "up", "1000\n", true),
            ("down", "down", "1000\n", true),
            ("unknown", "up", "-1\n", true),
            ("odd", "up", "fast\n", true),
            ("zero", "up", "0\n", true),
            ("veth0", "up", "10000\n", false),
            ("lo", "up", "1000\n", true),
        ] {
            let at = folder.path().join(name);
            fs::create_dir(&at).unwrap();
            fs::write(at.join("operstate"), format!("{state}\n")).unwrap();
            fs::write(at.join("speed"), speed).unwrap();
            if real {
                fs::create_dir(at.join("device")).unwrap();
            }
        }
        fs::write(folder.path().join("bonding_masters"), "").unwrap();
        assert_eq!(
            links_in(folder.path()),
            [("eth0".to_owned(), Rate(125e6)), ("eth1".to_owned(), Rate(1.25e9))]
        );
        assert_eq!(links_in(&folder.path().join("none")), []);
    }
}
