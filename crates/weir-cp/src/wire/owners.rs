//! Owners and groups by name: what the source's numbers are called, and whom the target gives it to (rsync's
//! `--usermap`, `--groupmap`, `--chown`).

use serde::{Deserialize, Serialize};

/// Users, or groups, that a source tells of: more than a machine's own files hold, and with names of 32
/// bytes, which is what useradd takes, a quarter of a message.
pub(crate) const MAX_NAMED: usize = 16384;

/// Bytes of a name, at most: with numbers they fit into one message.
pub(crate) const MAX_OWNER: usize = 64;

/// Numbers of the source, and their names there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owners {
    /// Users.
    pub users: Vec<(u32, String)>,
    /// Groups.
    pub groups: Vec<(u32, String)>,
}

/// How owners are to be mapped.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapping {
    /// Numbers stay what they are, where nothing else says otherwise.
    pub numeric: bool,
    /// Of users; the first that matches decides.
    pub users: Vec<Map>,
    /// Of groups.
    pub groups: Vec<Map>,
}

/// From whom to whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Map {
    /// Whose it is at the source.
    pub from: From,
    /// Whose it is to be: a name at the target, or a number.
    pub to: String,
}

/// Whom a map is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum From {
    /// Of these numbers.
    Numbers(u32, u32),
    /// Of a name like this: `*` stands for any bytes.
    Name(String),
    /// Of no name.
    Nameless,
}

impl Owners {
    /// Those of this machine's own files.
    pub fn here() -> Owners {
        Owners { users: named("/etc/passwd"), groups: named("/etc/group") }
    }

    pub(super) fn is_sound(&self) -> bool {
        let few = |named: &[(u32, String)]| {
            named.len() <= MAX_NAMED && named.iter().all(|(_, name)| name.len() <= MAX_OWNER)
        };
        few(&self.users) && few(&self.groups)
    }
}

/// The numbers and names of passwd(5) or group(5): the third field and the first one. A file that cannot be
/// read has none.
fn named(path: &str) -> Vec<(u32, String)> {
    const LONGEST: weir_units::Bytes = weir_units::Bytes(4 << 20);
    let text = weir_units::read_file(std::path::Path::new(path), LONGEST).unwrap_or_default();
    parse_named(&String::from_utf8_lossy(&text))
}

fn parse_named(text: &str) -> Vec<(u32, String)> {
    let entry = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| (1..=MAX_OWNER).contains(&name.len()))?;
        Some((fields.nth(1)?.parse().ok()?, name.to_owned()))
    };
    text.lines().filter_map(entry).take(MAX_NAMED).collect()
}

/// Finds whom something is given to.
#[derive(Debug)]
pub struct Given {
    mapping: Mapping,
    there: Owners,
    here: Owners,
}

impl Given {
    /// By this mapping, of a source that has these names.
    pub fn new(mapping: Mapping, there: Owners) -> Given {
        Given { mapping, there, here: Owners::here() }
    }

    /// What the maps name and this machine does not have.
    pub fn unknown(&self) -> Option<&str> {
        let maps = self.mapping.users.iter().map(|map| (map, &self.here.users));
        let mut maps = maps.chain(self.mapping.groups.iter().map(|map| (map, &self.here.groups)));
        maps.find(|(map, here)| number_of(&map.to, here).is_none()).map(|(map, _)| &*map.to)
    }

    /// The user's number here.
    pub fn user(&self, uid: u32) -> u32 {
        give(uid, (&self.mapping.users, self.mapping.numeric), &self.there.users, &self.here.users)
    }

    /// The group's number here.
    pub fn group(&self, gid: u32) -> u32 {
        give(gid, (&self.mapping.groups, self.mapping.numeric), &self.there.groups, &self.here.groups)
    }
}

fn give(id: u32, (maps, numeric): (&[Map], bool), there: &[(u32, String)], here: &[(u32, String)]) -> u32 {
    let name = there.iter().find(|(own, _)| *own == id).map(|(_, name)| &**name);
    let is_for = |from: &From| match from {
        From::Numbers(first, last) => (*first..=*last).contains(&id),
        From::Name(pattern) => {
            pattern == "*" || name.is_some_and(|name| is_like(name.as_bytes(), pattern.as_bytes()))
        }
        From::Nameless => name.is_none(),
    };
    if let Some(map) = maps.iter().find(|map| is_for(&map.from)) {
        return number_of(&map.to, here).unwrap_or(id);
    }
    // rsync(1): root is root, whatever the numbers are called.
    match name.filter(|_| !numeric && id != 0) {
        Some(name) => here.iter().find(|(_, own)| own == name).map_or(id, |(own, _)| *own),
        None => id,
    }
}

fn number_of(text: &str, here: &[(u32, String)]) -> Option<u32> {
    match here.iter().find(|(_, name)| name == text) {
        Some((id, _)) => Some(*id),
        None => text.parse().ok(),
    }
}

/// Whether a name is like a pattern in which `*` stands for any bytes and `?` for one.
fn is_like(name: &[u8], pattern: &[u8]) -> bool {
    let (mut at, mut to) = (0, 0);
    let mut star = None;
    while at < name.len() {
        match pattern.get(to) {
            Some(b'*') => {
                star = Some((to, at));
                to += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[at] => (at, to) = (at + 1, to + 1),
            _ => match star {
                Some((pattern_at, name_at)) => {
                    star = Some((pattern_at, name_at + 1));
                    (at, to) = (name_at + 1, pattern_at + 1);
                }
                None => return false,
            },
        }
    }
    pattern[to..].iter().all(|byte| *byte == b'*')
}

/// The maps of one flag: `FROM:TO`, several with commas between (rsync(1), --usermap). FROM is a name,
/// perhaps with `*`, a number, a range of them, or nothing for those without a name.
pub fn parse_maps(text: &str) -> Result<Vec<Map>, String> {
    let bad = |part: &str| {
        format!("invalid map '{part}': expected FROM:TO, such as alice:bob, 1000-1999:1 or *:nobody")
    };
    let parse = |part: &str| {
        let (from, to) = part.split_once(':').ok_or_else(|| bad(part))?;
        if to.is_empty() || to.len() > MAX_OWNER || from.len() > MAX_OWNER {
            return Err(bad(part));
        }
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = |text: &str| text.parse::<u32>().map_err(|_| bad(part));
        let from = match from.split_once('-') {
            _ if from.is_empty() => From::Nameless,
            Some((first, last)) if is_number(first) && is_number(last) => {
                From::Numbers(number(first)?, number(last)?)
            }
            _ if is_number(from) => From::Numbers(number(from)?, number(from)?),
            _ => From::Name(from.to_owned()),
        };
        Ok(Map { from, to: to.to_owned() })
    };
    text.split(',').map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> Vec<(u32, String)> {
        parse_named(text)
    }

    #[test]
    fn owners_by_name_by_map_and_by_number() {
        let there = Owners {
            users: named("root:x:0:0::/:\nalice:x:1000:1000::/:\nbob:x:1001:1::\nbroken\nx:y:z\n"),
            groups: named("staff:x:50:\n"),
        };
        let here = Owners {
            users: named("root:x:0:0\nbob:x:1:1\nalice:x:77:1\nnobody:x:65534:1\n"),
            groups: named("staff:x:20:\n"),
        };
        let given = |maps: &str, numeric| {
            let users = if maps.is_empty() { Vec::new() } else { parse_maps(maps).unwrap() };
            let mapping = Mapping { numeric, users, groups: Vec::new() };
            Given { mapping, there: there.clone(), here: here.clone() }
        };
        for (maps, numeric, uid, expected) in [
            ("", false, 1000, 77),
            ("", false, 1001, 1),
            ("", true, 1001, 1001),
            ("", false, 4242, 4242),
            ("", false, 0, 0),
            ("alice:bob", false, 1000, 1),
            ("al*:5", false, 1000, 5),
            ("al*:5", false, 1001, 1),
            ("1000-1001:nobody", true, 1001, 65534),
            (":9,*:nobody", false, 4242, 9),
            (":9,*:nobody", false, 0, 65534),
            ("0:bob", true, 0, 1),
        ] {
            assert_eq!(given(maps, numeric).user(uid), expected, "{maps} {uid}");
        }
        assert_eq!(given("", false).group(50), 20);
        assert_eq!(given("a:none,b:7", false).unknown(), Some("none"));
        for bad in ["x", "a:", "1-99999999999:x", "a:b,,c:d"] {
            assert!(parse_maps(bad).is_err(), "{bad}");
        }
    }
}
