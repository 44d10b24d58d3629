//! One table laid over another: how a scenario says what `then` changes.

use toml::{Table, Value};

/// Puts `change` into `base`: tables are merged, everything else is replaced.
pub(super) fn over(base: &mut Table, change: Table) {
    for (key, value) in change {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => over(below, above),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}
