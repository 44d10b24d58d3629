//! Who has it from whom: the nearest before it in the order of the chain that has it or gets it, and feeds
//! nobody else. The order is by zone, from the zone of the source on, and within a zone by the list, so that
//! the path between two zones is crossed once.

use std::time::Duration;

/// Hosts whose round trips differ by more than this are in different zones. What a busy machine adds to one
/// is less, and within it a chain loses nothing by going to and fro: a path counts as long from here on
/// ([`crate::tuning`]).
const APART: Duration = Duration::from_millis(20);

/// The state of a host that the choice of its feeder looks at.
#[derive(Debug, Clone, Default)]
pub(super) struct Stand {
    /// Which of the chains that begin here it is in.
    pub(super) chain: usize,
    /// Where it is in the order of zones; none while that is not known.
    pub(super) zone: Option<usize>,
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
    /// Nothing more is to be had from here: what has the sources is lost.
    pub(super) has_no_source: bool,
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
        let others = || nearest(stands, index).into_iter().filter(can);
        let is_idle = |other: &usize| stands.iter().all(|stand| stand.fed_by != Some(Some(*other)));
        // Rather one that has all and feeds nobody any more than to share.
        return match others().find(is_idle).or_else(|| others().next()) {
            Some(last) => Choice::Host(last),
            None if own.has_no_source => Choice::Wait,
            None if is_free(None) && has_no_feeder(stands, index) => Choice::Here,
            None => Choice::Wait,
        };
    }
    for before in before(stands, index).into_iter().filter(is_first_choice) {
        if can(&before) {
            return Choice::Host(before);
        }
        if stands[before].comes {
            return Choice::Wait;
        }
    }
    if is_free(None) && !own.avoids.contains(&None) && !own.has_no_source {
        return Choice::Here;
    }
    // One that comes late: whoever feeds nobody, the last one of its zone first.
    let others = nearest(stands, index);
    let same_chain = others.iter().copied().filter(is_first_choice).find(can);
    same_chain.or_else(|| others.into_iter().find(can)).map_or(Choice::Wait, Choice::Host)
}

/// A host's place in the order of the chain, as the one with this number sees it. One whose zone is not known
/// may be of the source's: those that are farther wait for it.
fn place_of(stands: &[Stand], index: usize) -> impl Fn(&usize) -> (usize, usize) {
    let is_known = stands[index].zone.is_some();
    move |other| (stands[*other].zone.filter(|_| is_known).unwrap_or(0), *other)
}

/// The hosts before one in the order of the chain, the nearest first.
fn before(stands: &[Stand], index: usize) -> Vec<usize> {
    let place = place_of(stands, index);
    let mut before: Vec<usize> = (0..stands.len()).filter(|other| place(other) < place(&index)).collect();
    before.sort_unstable_by_key(|other| std::cmp::Reverse(place(other)));
    before
}

/// All others, those of its zone first, and of each the last one in the order of the chain.
fn nearest(stands: &[Stand], index: usize) -> Vec<usize> {
    let place = place_of(stands, index);
    let mut others: Vec<usize> = (0..stands.len()).filter(|other| *other != index).collect();
    others.sort_unstable_by_key(|other| {
        (stands[*other].zone != stands[index].zone, std::cmp::Reverse(place(other)))
    });
    others
}

/// The zones of hosts that were written in groups: in the order in which groups came first. `None` where none
/// was.
pub(super) fn zones_of_groups(groups: &[Option<String>]) -> Option<Vec<Option<usize>>> {
    let first = |group: &Option<String>| groups.iter().position(|other| other == group);
    groups.iter().any(Option::is_some).then(|| groups.iter().map(first).collect())
}

/// The zones of hosts whose round trips from here are these, the source's zone first: hosts at about the same
/// distance are taken to be near each other. Where they are not, groups say it.
pub(super) fn zones_by_round_trip(round_trips: &[Option<Duration>], source: Duration) -> Vec<Option<usize>> {
    let mut known: Vec<Duration> = round_trips.iter().flatten().copied().chain([source]).collect();
    known.sort_unstable();
    // Where each zone begins. A half more than the one before is less than paths of some length differ by.
    let begins = |pair: &[Duration]| pair[1] > pair[0] + APART.max(pair[0] / 2);
    let starts: Vec<Duration> = known.windows(2).filter(|pair| begins(pair)).map(|pair| pair[1]).collect();
    let number = |round_trip: Duration| starts.partition_point(|start| *start <= round_trip);
    let first = number(source);
    // From the source's on, and those that are nearer to this machine last.
    let zone = |round_trip: Duration| (number(round_trip) + starts.len() + 1 - first) % (starts.len() + 1);
    round_trips.iter().map(|round_trip| round_trip.map(zone)).collect()
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

/// No other host receives, or will, that could feed it later, but those from whom it could not have it.
fn has_no_feeder(stands: &[Stand], index: usize) -> bool {
    let avoids = |other| stands[index].avoids.contains(&Some(other));
    let mut others = stands.iter().enumerate().filter(|(other, _)| *other != index);
    others.all(|(other, stand)| !stand.comes && (!stand.feeds || avoids(other)))
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
    fn without_a_source_it_has_it_from_whoever_has_all() {
        // Two chains: the first host of one has all, that of the other was receiving when the source was
        // lost.
        let mut chain = stands(2, &[]);
        chain[0] = Stand { feeds: true, ..Stand::default() };
        chain[1] = Stand { chain: 1, has_no_source: true, ..Stand::default() };
        assert_eq!(feeder_of(&chain, 1), Choice::Host(0));
        chain[1].has_no_source = false;
        assert_eq!(feeder_of(&chain, 1), Choice::Here);
        // Nobody has anything yet.
        chain[1].has_no_source = true;
        chain[0].feeds = false;
        assert_eq!(feeder_of(&chain, 1), Choice::Wait);
    }

    #[test]
    fn one_that_can_have_it_from_no_host_has_it_from_here() {
        let mut chain = stands(2, &[(0, None)]);
        chain[1] = Stand { demoted: true, avoids: vec![Some(0)], ..Stand::default() };
        assert_eq!(feeder_of(&chain, 1), Choice::Wait, "the first still has it from here");
        chain[0].fed_by = None;
        assert_eq!(feeder_of(&chain, 1), Choice::Here);
    }

    /// Of a list in which near and far hosts take turns.
    #[test]
    fn the_way_between_two_zones_is_crossed_once() {
        let zones = [0, 1, 0, 1, 0, 1];
        let mut chain = stands(6, &[]);
        chain.iter_mut().zip(zones).for_each(|(stand, zone)| stand.zone = Some(zone));
        for (index, from) in [(0, None), (2, Some(0)), (4, Some(2)), (1, Some(4)), (3, Some(1)), (5, Some(3))]
        {
            let choice = from.map_or(Choice::Here, Choice::Host);
            assert_eq!(feeder_of(&chain, index), choice, "{index}");
            let stand = &mut chain[index];
            (stand.comes, stand.feeds, stand.fed_by) = (false, true, Some(from));
        }
        // One that was taken out comes back where it is nearest, though others come later in the chain.
        chain[4] = Stand { zone: Some(0), demoted: true, ..Stand::default() };
        chain[1].fed_by = Some(Some(2));
        chain[0].fed_by = None;
        chain[2].fed_by = None;
        assert_eq!(feeder_of(&chain, 4), Choice::Host(0));
    }

    #[test]
    fn one_whose_zone_is_not_known_may_be_the_next() {
        let mut chain = stands(3, &[(0, None)]);
        chain[0].zone = Some(0);
        chain[2].zone = Some(0);
        assert_eq!(feeder_of(&chain, 2), Choice::Wait);
        chain[1].zone = Some(1);
        assert_eq!(feeder_of(&chain, 2), Choice::Host(0), "it is farther");
        chain[2].zone = None;
        assert_eq!(feeder_of(&chain, 1), Choice::Wait, "another may be nearer");
        (chain[1].zone, chain[2].zone) = (None, Some(0));
        chain[1].comes = false;
        assert_eq!(feeder_of(&chain, 2), Choice::Host(0), "it does not come");
    }

    #[test]
    fn zones_are_found() {
        let groups = |text: &str| text.chars().map(|group| Some(group.to_string())).collect::<Vec<_>>();
        assert_eq!(zones_of_groups(&groups("abab")), Some([0, 1, 0, 1].map(Some).to_vec()));
        assert_eq!(zones_of_groups(&[None, None]), None);
        let zones = |source, round_trips: &[Option<u64>]| {
            let round_trips: Vec<_> = round_trips.iter().map(|ms| ms.map(Duration::from_millis)).collect();
            zones_by_round_trip(&round_trips, Duration::from_millis(source))
        };
        assert_eq!(zones(0, &[Some(1), Some(101), None, Some(100)]), [Some(0), Some(1), None, Some(1)]);
        assert_eq!(zones(0, &[Some(1), Some(15), Some(9)]), [Some(0); 3], "a busy machine");
        assert_eq!(zones(0, &[Some(90), Some(101), Some(130)]), [Some(1); 3], "of one distance");
        assert_eq!(zones(100, &[Some(1), Some(99), Some(210)]), [Some(2), Some(0), Some(1)]);
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
