//! Who has it from whom: the nearest before it in the order of the list that has it or gets it, and feeds
//! nobody else.

/// The state of a host that the choice of its feeder looks at.
#[derive(Debug, Clone, Default)]
pub(super) struct Stand {
    /// Which of the chains that begin here it is in.
    pub(super) chain: usize,
    /// It was not lost, and may be up in a moment.
    pub(super) comes: bool,
    /// Others can have it from this one: its process is there and it receives, or has all.
    pub(super) feeds: bool,
    /// It was taken out of its place once, and is behind the others since.
    pub(super) demoted: bool,
    /// From whom it gets it now: `Some(None)` from here.
    pub(super) fed_by: Option<Option<usize>>,
    /// From whom it could not have it.
    pub(super) avoids: Vec<Option<usize>>,
}

/// From whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    /// From nobody for now.
    Wait,
    /// From here.
    Here,
    /// From that host.
    Host(usize),
}

/// Hosts that were taken out and come back may all hang on the last one.
const MOST_DEMOTED: usize = 4;

/// From whom the host with this number is to have it.
pub(super) fn feeder_of(stands: &[Stand], index: usize) -> Choice {
    let own = &stands[index];
    let is_first_choice = |other: &usize| stands[*other].chain == own.chain;
    let is_free = |feeder: Option<usize>| {
        let fed = stands.iter().enumerate().filter(|(other, stand)| {
            *other != index && stand.fed_by == Some(feeder) && (feeder.is_some() || stand.chain == own.chain)
        });
        match own.demoted && feeder.is_some() {
            true => fed.clone().all(|(_, stand)| stand.demoted) && fed.count() < MOST_DEMOTED,
            false => fed.count() == 0,
        }
    };
    let can = |other: &usize| {
        let stand = &stands[*other];
        let is_sound =
            stand.feeds && !own.avoids.contains(&Some(*other)) && !is_behind(stands, *other, index);
        is_sound && is_free(Some(*other))
    };
    if own.demoted {
        // The end of the chain, where it keeps nobody waiting.
        let others = || (0..stands.len()).rev().filter(|other| *other != index).filter(can);
        let is_idle = |other: &usize| stands.iter().all(|stand| stand.fed_by != Some(Some(*other)));
        // Rather one that has all and feeds nobody any more than to share.
        return match others().find(is_idle).or_else(|| others().next()) {
            Some(last) => Choice::Host(last),
            None if is_free(None) && is_alone(stands, index) => Choice::Here,
            None => Choice::Wait,
        };
    }
    for before in (0..index).rev().filter(is_first_choice) {
        if can(&before) {
            return Choice::Host(before);
        }
        if stands[before].comes {
            return Choice::Wait;
        }
    }
    if is_free(None) && !own.avoids.contains(&None) {
        return Choice::Here;
    }
    // One that comes late: whoever feeds nobody, the last one first.
    let others = (0..stands.len()).rev().filter(|other| *other != index);
    let same_chain = others.clone().filter(is_first_choice).find(can);
    same_chain.or_else(|| others.clone().find(can)).map_or(Choice::Wait, Choice::Host)
}

/// Whether `index` is on the way from here to `other`.
fn is_behind(stands: &[Stand], other: usize, index: usize) -> bool {
    let mut at = other;
    for _ in 0..stands.len() {
        match stands[at].fed_by {
            _ if at == index => return true,
            Some(Some(before)) => at = before,
            Some(None) | None => return at == index,
        }
    }
    true
}

/// No other host receives, or will, that could feed it later.
fn is_alone(stands: &[Stand], index: usize) -> bool {
    stands.iter().enumerate().all(|(other, stand)| other == index || !(stand.comes || stand.feeds))
}

/// In which chain each of `hosts` is, where there are so many: hosts of one group stay in one where groups
/// allow that.
pub(super) fn chains(groups: &[Option<String>], fanout: usize) -> Vec<usize> {
    let count = groups.len().max(1);
    let fanout = fanout.clamp(1, count);
    let share = count.div_ceil(fanout);
    let mut chains = Vec::with_capacity(groups.len());
    let (mut chain, mut filled) = (0, 0);
    for (number, group) in groups.iter().enumerate() {
        let is_new_group = number == 0 || groups[number - 1] != *group;
        // A boundary of groups near the due place is the better one.
        let is_due = filled >= share || is_new_group && filled * 2 >= share && group.is_some();
        if is_due && chain + 1 < fanout {
            (chain, filled) = (chain + 1, 0);
        }
        chains.push(chain);
        filled += 1;
    }
    chains
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hosts in one chain, of which these are fed already, by whom.
    fn stands(count: usize, fed: &[(usize, Option<usize>)]) -> Vec<Stand> {
        let mut stands = vec![Stand { comes: true, ..Stand::default() }; count];
        for (index, by) in fed {
            stands[*index] = Stand { feeds: true, fed_by: Some(*by), ..Stand::default() };
        }
        stands
    }

    #[test]
    fn each_has_it_from_the_one_before() {
        assert_eq!(feeder_of(&stands(3, &[]), 0), Choice::Here);
        assert_eq!(feeder_of(&stands(3, &[]), 1), Choice::Wait, "the first may be up in a moment");
        assert_eq!(feeder_of(&stands(3, &[(0, None)]), 1), Choice::Host(0));
        assert_eq!(feeder_of(&stands(3, &[(0, None), (1, Some(0))]), 2), Choice::Host(1));
    }

    #[test]
    fn those_behind_a_lost_one_go_on_from_the_nearest() {
        let mut chain = stands(4, &[(0, None), (1, Some(0)), (3, Some(2))]);
        chain[2] = Stand { demoted: true, ..Stand::default() };
        chain[3] = Stand::default();
        assert_eq!(feeder_of(&chain, 3), Choice::Host(1));
        chain[3] = Stand { feeds: true, fed_by: Some(Some(1)), ..Stand::default() };
        assert_eq!(feeder_of(&chain, 2), Choice::Host(3), "it comes back at the end");
        let mut chain = stands(2, &[(1, None)]);
        chain[0] = Stand { demoted: true, ..Stand::default() };
        assert_eq!(feeder_of(&chain, 0), Choice::Host(1), "also the first");
    }

    #[test]
    fn one_that_comes_late_keeps_nobody_waiting() {
        let mut chain = stands(4, &[(1, None), (2, Some(1)), (3, Some(2))]);
        chain[0] = Stand::default();
        assert_eq!(feeder_of(&chain, 0), Choice::Host(3));
        chain[0].avoids = vec![Some(3)];
        assert_eq!(feeder_of(&chain, 0), Choice::Wait, "all others feed one already");
    }

    #[test]
    fn those_that_were_taken_out_share_only_where_they_have_to() {
        let mut chain = stands(5, &[(0, None), (1, Some(0)), (2, Some(1)), (3, Some(2))]);
        chain[4] = Stand { demoted: true, ..Stand::default() };
        chain[3].demoted = true;
        chain[3].feeds = false;
        assert_eq!(feeder_of(&chain, 4), Choice::Host(2), "with the other one");
        chain[1].fed_by = None;
        assert_eq!(feeder_of(&chain, 4), Choice::Host(0), "which feeds nobody any more");
    }

    #[test]
    fn nobody_has_it_from_one_behind_it() {
        let mut chain = stands(3, &[(1, Some(0)), (2, Some(1))]);
        chain[0] = Stand { demoted: true, ..Stand::default() };
        // Both hang on the first: neither can feed it, and it is the only one that others wait for.
        assert_eq!(feeder_of(&chain, 0), Choice::Wait);
        assert!(is_behind(&chain, 2, 0) && !is_behind(&chain, 0, 2));
    }

    #[test]
    fn alone_it_has_it_from_here_whatever_it_was_taken_out_for() {
        let mut chain = stands(2, &[]);
        chain[0] = Stand { demoted: true, ..Stand::default() };
        chain[1] = Stand::default();
        assert_eq!(feeder_of(&chain, 0), Choice::Here);
    }

    #[test]
    fn chains_keep_groups_together() {
        let groups = |text: &str| text.chars().map(|group| Some(group.to_string())).collect::<Vec<_>>();
        assert_eq!(chains(&groups("aaabbb"), 2), [0, 0, 0, 1, 1, 1]);
        assert_eq!(chains(&groups("aabbbb"), 2), [0, 0, 1, 1, 1, 1]);
        assert_eq!(chains(&groups("aaaa"), 2), [0, 0, 1, 1]);
        assert_eq!(chains(&vec![None; 5], 2), [0, 0, 0, 1, 1]);
        assert_eq!(chains(&vec![None; 2], 9), [0, 1]);
        assert_eq!(chains(&[], 3), [0; 0]);
    }
}
