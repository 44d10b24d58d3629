//! Maps of what a machine has tens of thousands of: sockets, descriptors.

/// With a hash that is seeded anew in each process and takes a fraction of the standard library's time: of
/// ten thousand connections a scan puts each into six maps. The keys are the kernel's numbers, or addresses
/// that only a scan sees.
pub(crate) type Map<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;

/// The same, of keys alone.
pub(crate) type Set<K> = std::collections::HashSet<K, foldhash::fast::RandomState>;

/// Keys that were met, some of which will be met no more.
#[derive(Debug)]
pub(crate) struct Remembered<K> {
    old: Set<K>,
    /// Since the last call of [`Remembered::sweep`].
    young: Set<K>,
}

impl<K> Default for Remembered<K> {
    fn default() -> Remembered<K> {
        Remembered { old: Set::default(), young: Set::default() }
    }
}

impl<K: Eq + std::hash::Hash> Remembered<K> {
    /// `true` when it was not there.
    pub(crate) fn insert(&mut self, key: K) -> bool {
        !self.old.contains(&key) && self.young.insert(key)
    }

    pub(crate) fn contains(&self, key: &K) -> bool {
        self.old.contains(key) || self.young.contains(key)
    }

    /// Forgets those that are not `there` any more, unless they came since the last call: what is still to be
    /// told of them comes soon.
    pub(crate) fn sweep(&mut self, there: impl Fn(&K) -> bool) {
        self.old.retain(there);
        self.old.extend(self.young.drain());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_is_remembered_until_the_second_sweep() {
        let mut met = Remembered::default();
        assert!(met.insert(1) && met.insert(2) && !met.insert(1));
        met.sweep(|_| false);
        assert!(met.contains(&1) && !met.insert(2), "both are young");
        met.sweep(|key| *key == 1);
        assert!(met.contains(&1) && !met.contains(&2));
        assert!(met.insert(2), "as if it had never been there");
    }
}
