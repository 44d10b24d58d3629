//! Maps of what a machine has tens of thousands of: sockets, descriptors.

/// With a hash that is seeded anew in each process and takes a fraction of the standard library's time: of
/// ten thousand connections a scan puts each into six maps. The keys are the kernel's numbers, or addresses
/// that only a scan sees.
pub(crate) type Map<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;

/// The same, of keys alone.
pub(crate) type Set<K> = std::collections::HashSet<K, foldhash::fast::RandomState>;
