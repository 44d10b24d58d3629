//! One rule, as rsync's `--filter` writes it, and the files that hold many of them.

use serde::{Deserialize, Serialize};

use super::pattern::Pattern;
use super::{BadRule, Side};
use crate::name::quoted;

/// Rules of one set, with those of the files that they name: more than people write, and a set of the longest
/// patterns still fits into a message.
pub(super) const MAX_RULES: usize = 1 << 14;

/// Bytes of all patterns of a set: with what a pattern takes besides, 512 KiB stay below half of a message.
pub(super) const MAX_BYTES: usize = 512 << 10;

/// Files that name files that name files: one that names itself ends here.
const MAX_DEPTH: u8 = 16;

/// What rsync leaves out with `-C` (rsync(1), --cvs-exclude).
const CVS: &str = "RCS SCCS CVS CVS.adm RCSLOG cvslog.* tags TAGS .make.state .nse_depinfo *~ #* .#* ,* _$* *$ *.old *.bak \
                   *.BAK *.orig *.rej .del-* *.a *.olb *.o *.obj *.so *.exe *.Z *.elc *.ln core .svn/ .git/ .hg/ .bzr/";

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Rule {
    pub(super) what: What,
    sides: Sides,
    perishable: bool,
}

/// What a rule does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum What {
    /// Decides about what the pattern matches, or where it is negated about all else.
    Match { take: bool, negated: bool, against: Against, pattern: Pattern },
    /// Stands for the rules in files of this name, folder by folder.
    Merge(Merge),
}

/// What a pattern is held against.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Against {
    /// The name in the tree.
    #[default]
    Name,
    /// The path from the system's root (the modifier `/`).
    Path,
    /// The name of an extended attribute (`x`).
    Xattr,
}

/// A file of rules in each folder (`dir-merge`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Merge {
    /// Tells its rules from those of others.
    pub(super) id: u32,
    /// What the file is called.
    pub(super) file: Box<[u8]>,
    /// Rules of a folder hold in those below it too.
    pub(super) inherit: bool,
    /// Those of the folders that the tree is in count as well: of the path up to here.
    pub(super) parents: Option<Box<[u8]>>,
    pub(super) form: Form,
}

/// How the lines of a file are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Form {
    plain: Option<Plain>,
    /// Words rather than lines.
    words: bool,
    sides: Sides,
    perishable: bool,
    /// Patterns are of whole paths.
    whole: bool,
}

/// What is said of patterns without the beginning of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Plain {
    take: bool,
    /// As in `--exclude` and its files: `+ ` or `- ` before a pattern says it otherwise.
    prefixes: bool,
}

/// Who goes by a rule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
enum Sides {
    #[default]
    Both,
    /// What is copied, not what is protected.
    Sender,
    /// What is protected, not what is copied.
    Receiver,
}

impl Rule {
    /// Whether it is asked on this side; of what goes with a folder that is removed some are not.
    pub(super) fn is_asked(&self, side: Side) -> bool {
        match side {
            Side::Sender => self.sides != Sides::Receiver,
            Side::Receiver { doomed } => self.sides != Sides::Sender && !(doomed && self.perishable),
        }
    }
}

impl Form {
    /// Lines of patterns alone, as `--exclude-from` has them, or `--include-from`.
    pub(super) fn patterns(take: bool) -> Form {
        Form { plain: Some(Plain { take, prefixes: true }), ..Form::default() }
    }
}

/// Opens the file that a rule names.
pub(super) type Opening<'a> = &'a mut dyn FnMut(&[u8]) -> Result<Vec<u8>, String>;

/// Rules as they are read.
pub(super) struct Reading<'a> {
    pub(super) rules: Vec<Rule>,
    /// All that were before it were given up (`!`): also those of the folders above.
    pub(super) cleared: bool,
    /// Rules that say nothing of sides are the sender's alone (`--delete-excluded`).
    delete_excluded: bool,
    /// What the user leaves out of CVS.
    cvs_own: &'a [u8],
    pub(super) next_id: &'a mut u32,
    pub(super) open: Opening<'a>,
    depth: u8,
}

impl<'a> Reading<'a> {
    /// No rules yet. By the first two: see [`Filter::new`](super::Filter::new) and
    /// [`Filter::with_cvs_words`](super::Filter::with_cvs_words).
    pub(super) fn new(
        (delete_excluded, cvs_own): (bool, &'a [u8]),
        next_id: &'a mut u32,
        open: Opening<'a>,
    ) -> Reading<'a> {
        Reading { rules: Vec::new(), cleared: false, delete_excluded, cvs_own, next_id, open, depth: 0 }
    }

    /// All rules of a file. `nul`: they end with NUL rather than with a line.
    pub(super) fn file(&mut self, content: &[u8], form: Form, nul: bool) -> Result<(), BadRule> {
        let ends = |byte: &u8| match (form.words, nul) {
            (true, _) => byte.is_ascii_whitespace() || nul && *byte == 0,
            (false, true) => *byte == 0,
            (false, false) => matches!(byte, b'\n' | b'\r'),
        };
        for line in content.split(ends) {
            let is_comment = !form.words && matches!(line.first(), Some(b'#' | b';'));
            if !line.is_empty() && !is_comment {
                self.rule(line, form)?;
            }
        }
        Ok(())
    }

    /// One rule.
    pub(super) fn rule(&mut self, text: &[u8], form: Form) -> Result<(), BadRule> {
        let bad = |why: &str| BadRule::of(text, why);
        let Form { sides, perishable, whole, .. } = form;
        let mut rule = Begun { sides, perishable, whole, ..Begun::default() };
        let rest = match form.plain {
            Some(plain) => rule.begin_plain(text, plain),
            None => rule.begin(text, form.sides).map_err(|why| bad(&why))?,
        };
        if rule.clear {
            self.rules.clear();
            self.cleared = true;
            return Ok(());
        }
        let plain = rule.cvs && rest.is_empty();
        if rule.merge.is_none() && plain {
            return self.cvs(rule);
        }
        match rule.merge {
            None => {
                let pattern = Pattern::parse(rest)?;
                let Begun { take, negated, .. } = rule;
                self.push(rule, What::Match { take, negated, against: rule.against(), pattern })
            }
            Some(merge) => {
                let file = if plain { &b".cvsignore"[..] } else { rest };
                self.merge(text, file, rule, merge)
            }
        }
    }

    fn merge(&mut self, text: &[u8], file: &[u8], rule: Begun, merge: Merging) -> Result<(), BadRule> {
        let bad = |why: &str| BadRule::of(text, why);
        let last = file.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if last.is_empty() || file.contains(&0) {
            return Err(bad("it names no file"));
        }
        if merge.own_name_left_out {
            let pattern = Pattern::parse(&literally(last))?;
            let own = Begun { sides: Sides::Both, ..Begun::default() };
            self.push(own, What::Match { take: false, negated: false, against: Against::Name, pattern })?;
        }
        let form = Form {
            // CVS's own files take a `!` too; words hold no prefix.
            plain: merge.plain.map(|take| Plain { take, prefixes: rule.cvs }),
            words: merge.words,
            sides: rule.sides,
            perishable: rule.perishable,
            whole: rule.whole,
        };
        if !merge.in_each_folder {
            let content = (self.open)(file).map_err(|why| BadRule::file(file, why))?;
            if self.depth >= MAX_DEPTH {
                return Err(bad("files of rules that name each other without end"));
            }
            self.depth += 1;
            self.file(&content, form, false).map_err(|error| error.within(file))?;
            self.depth -= 1;
            return Ok(());
        }
        let parents = match file.len() - last.len() {
            0 => None,
            _ if file.starts_with(b"/") => Some(file[..file.len() - last.len()].into()),
            _ => return Err(bad("a file in each folder is named without folders (or from the root: /NAME)")),
        };
        let id = *self.next_id;
        *self.next_id += 1;
        let merge = Merge { id, file: last.into(), inherit: merge.inherit, parents, form };
        self.push(rule, What::Merge(merge))
    }

    /// `-C` alone: what CVS leaves out, and what the user does besides, where a `!` gives up all before it.
    fn cvs(&mut self, rule: Begun) -> Result<(), BadRule> {
        let usual = Begun { perishable: true, ..rule };
        let mut words: Vec<(&[u8], Begun)> = CVS.split(' ').map(|word| (word.as_bytes(), usual)).collect();
        let own = self.cvs_own.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        for word in own {
            match word {
                b"!" => words.clear(),
                word => words.push((word, rule)),
            }
        }
        for (word, rule) in words {
            let pattern = Pattern::parse(word)?;
            self.push(rule, What::Match { take: false, negated: false, against: rule.against(), pattern })?;
        }
        Ok(())
    }

    fn push(&mut self, rule: Begun, what: What) -> Result<(), BadRule> {
        let is_pattern = matches!(what, What::Match { .. });
        let sides = match rule.sides {
            Sides::Both if self.delete_excluded && is_pattern => Sides::Sender,
            sides => sides,
        };
        self.rules.push(Rule { what, sides, perishable: rule.perishable });
        check_size(&self.rules)
    }
}

/// That a set of rules is one that people could have written, and that fits into a message.
pub(super) fn check_size(rules: &[Rule]) -> Result<(), BadRule> {
    let weight = |rule: &Rule| match &rule.what {
        What::Match { pattern, .. } => pattern.weight(),
        What::Merge(merge) => merge.file.len(),
    };
    match rules.len() > MAX_RULES || rules.iter().map(weight).sum::<usize>() > MAX_BYTES {
        true => Err(BadRule::too_many()),
        false => Ok(()),
    }
}

/// A rule of which the beginning was read.
#[derive(Debug, Clone, Copy, Default)]
struct Begun {
    take: bool,
    negated: bool,
    clear: bool,
    cvs: bool,
    sides: Sides,
    perishable: bool,
    whole: bool,
    xattr: bool,
    merge: Option<Merging>,
}

/// What a merge rule says of its file.
#[derive(Debug, Clone, Copy)]
struct Merging {
    in_each_folder: bool,
    inherit: bool,
    own_name_left_out: bool,
    words: bool,
    /// Its lines are patterns alone.
    plain: Option<bool>,
}

impl Begun {
    fn against(&self) -> Against {
        match (self.xattr, self.whole) {
            (true, _) => Against::Xattr,
            (false, true) => Against::Path,
            (false, false) => Against::Name,
        }
    }

    /// Of a line in a file of patterns. What is left of it is the pattern.
    fn begin_plain<'t>(&mut self, text: &'t [u8], plain: Plain) -> &'t [u8] {
        self.take = plain.take;
        match text {
            _ if !plain.prefixes => {}
            b"!" => self.clear = true,
            [b'-', b' ', rest @ ..] => {
                self.take = false;
                return rest;
            }
            [b'+', b' ', rest @ ..] => {
                self.take = true;
                return rest;
            }
            _ => {}
        }
        text
    }

    /// Of a rule: its name or sign, and its modifiers. What is left of it is a pattern, or a file's name.
    /// `of_file`: what the rule that named the file says of sides.
    fn begin<'t>(&mut self, text: &'t [u8], of_file: Sides) -> Result<&'t [u8], String> {
        let (sign, mut rest) = sign_of(text)?;
        let merging = |in_each_folder| Merging {
            in_each_folder,
            inherit: true,
            own_name_left_out: false,
            words: false,
            plain: None,
        };
        match sign {
            b'+' => self.take = true,
            b'-' => {}
            b'.' => self.merge = Some(merging(false)),
            b':' => self.merge = Some(merging(true)),
            b'H' | b'S' => (self.take, self.sides) = (sign == b'S', self.one_side(Sides::Sender, of_file)?),
            b'P' | b'R' => (self.take, self.sides) = (sign == b'R', self.one_side(Sides::Receiver, of_file)?),
            _ => {
                self.clear = true;
                return match rest.is_empty() {
                    true => Ok(rest),
                    false => Err("'!' stands alone: it gives up the rules before it".to_owned()),
                };
            }
        }
        let says_side = matches!(sign, b'H' | b'S' | b'P' | b'R');
        while let [modifier, after @ ..] = rest {
            rest = after;
            if matches!(modifier, b' ' | b'_') {
                break;
            }
            self.modify(*modifier, says_side, of_file)?;
        }
        match rest.is_empty() && !self.cvs {
            true => Err("it ends before its pattern or file".to_owned()),
            false => Ok(rest),
        }
    }

    fn modify(&mut self, modifier: u8, says_side: bool, of_file: Sides) -> Result<(), String> {
        match (modifier, &mut self.merge) {
            (b'!', None) => self.negated = true,
            (b'C', _) if says_side => return Err(unfit(modifier)),
            (b'C', None) => self.cvs = true,
            (b'C', Some(merge)) => {
                self.cvs = true;
                (merge.plain, merge.words, merge.inherit) = (Some(false), true, false);
            }
            (b'-', Some(merge)) => merge.plain = Some(false),
            (b'+', Some(merge)) => merge.plain = Some(true),
            (b'e', Some(merge)) => merge.own_name_left_out = true,
            (b'n', Some(merge)) => merge.inherit = false,
            (b'w', Some(merge)) => merge.words = true,
            (b'p', _) => self.perishable = true,
            (b's', _) if !says_side => self.sides = self.one_side(Sides::Sender, of_file)?,
            (b'r', _) if !says_side => self.sides = self.one_side(Sides::Receiver, of_file)?,
            (b'/', _) => self.whole = true,
            (b'x', _) => self.xattr = true,
            _ => return Err(unfit(modifier)),
        }
        Ok(())
    }

    /// Both modifiers together mean both sides, as none does.
    fn one_side(&self, side: Sides, of_file: Sides) -> Result<Sides, String> {
        match (of_file, self.sides) {
            (Sides::Both, Sides::Both) => Ok(side),
            (Sides::Both, other) if other != side => Ok(Sides::Both),
            (Sides::Both, _) => Ok(side),
            _ => Err("the file's own rule says which side it is for; say it in one place".to_owned()),
        }
    }
}

fn unfit(modifier: u8) -> String {
    format!("the modifier '{}' does not fit there", modifier.escape_ascii())
}

/// A rule's sign, also where it is written as a word, and what follows: modifiers, and after a space or `_`
/// the rest.
fn sign_of(text: &[u8]) -> Result<(u8, &[u8]), String> {
    const WORDS: [(&str, u8); 9] = [
        ("clear", b'!'),
        ("dir-merge", b':'),
        ("exclude", b'-'),
        ("hide", b'H'),
        ("include", b'+'),
        ("merge", b'.'),
        ("protect", b'P'),
        ("risk", b'R'),
        ("show", b'S'),
    ];
    for (word, sign) in WORDS {
        if let Some(rest) = text.strip_prefix(word.as_bytes())
            && matches!(rest.first(), None | Some(b' ' | b'_' | b','))
        {
            // A comma parts the word from its modifiers.
            return Ok((sign, rest.strip_prefix(b",").unwrap_or(rest)));
        }
    }
    match text {
        [sign, rest @ ..] if b"!:-H+.PRS".contains(sign) => {
            Ok((*sign, rest.strip_prefix(b",").unwrap_or(rest)))
        }
        _ => {
            let words: Vec<&str> = WORDS.iter().map(|(word, _)| *word).collect();
            Err(format!("a rule begins with + - P R H S . : ! or one of {}", words.join(", ")))
        }
    }
}

/// The pattern of exactly this name.
fn literally(name: &[u8]) -> Vec<u8> {
    // rsync(1): a backslash is one by itself where the pattern has no wildcards.
    if !name.iter().any(|byte| b"*?[".contains(byte)) {
        return name.to_vec();
    }
    let escaped = name.iter().flat_map(|byte| match b"*?[\\".contains(byte) {
        true => vec![b'\\', *byte],
        false => vec![*byte],
    });
    escaped.collect()
}

impl BadRule {
    fn of(text: &[u8], why: &str) -> BadRule {
        BadRule::Rule { rule: quoted(text), why: why.to_owned() }
    }

    fn file(path: &[u8], why: String) -> BadRule {
        BadRule::File { path: quoted(path), why }
    }

    pub(super) fn within(self, path: &[u8]) -> BadRule {
        BadRule::Within { path: quoted(path), error: Box::new(self) }
    }

    fn too_many() -> BadRule {
        BadRule::TooMany
    }
}
