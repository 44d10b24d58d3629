//! How an object is cut into parts, within what its store takes. Pure.

use serde::{Deserialize, Serialize};
use weir_units::Bytes;

use super::Bounds;
use crate::error::StoreError;

/// The smallest part that weir chooses: at 100 MB/s it takes as long as the answer to it, 80 ms, so a few
/// lanes fill a path; a kill costs one a lane.
pub const PART: u64 = 8 << 20;

/// An object that is no larger goes in one request: three for one part would take longer.
pub const SINGLE: u64 = PART;

/// Parts of a large object: enough that the last lanes end together.
const PIECES: u64 = 256;

/// The largest part that is chosen for its requests' sake: what is lost where a connection breaks.
pub const LARGE: u64 = 64 << 20;

/// Of a stream, parts after which they are twice as large: with 8 MiB to begin with, 10,000 parts hold
/// 8 GiB x (2^10 - 1), which is more than the 5 TiB of the largest object, and the last has 4 GiB.
const DOUBLES_AFTER: u32 = 1000;

/// Parts of an object, numbered from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The first part, bytes.
    part: u64,
    /// They grow: how much comes is not known.
    grows: bool,
}

impl Plan {
    /// For an object of `size` bytes; in parts of `wish` bytes, if the user has one.
    pub fn of_size(size: u64, bounds: &Bounds, wish: Option<u64>) -> Result<Plan, StoreError> {
        if size > bounds.most {
            return Err(StoreError::Usage(format!(
                "{} are more than the store takes, {} an object; send it in several files (split -b)",
                Bytes(size),
                Bytes(bounds.most)
            )));
        }
        let mib = |bytes: u64| bytes.div_ceil(1 << 20) << 20;
        let least = mib(size.div_ceil(u64::from(bounds.parts))).max(bounds.least_part);
        let part = match wish {
            Some(wish) if wish < least || wish > bounds.most_part => {
                return Err(StoreError::Usage(format!(
                    "cannot use --part-size {}: for {} the store takes {} to {} a part",
                    Bytes(wish),
                    Bytes(size),
                    Bytes(least),
                    Bytes(bounds.most_part)
                )));
            }
            Some(wish) => wish,
            None => mib(size / PIECES).clamp(PART, LARGE).max(least).min(bounds.most_part),
        };
        Ok(Plan { part, grows: false })
    }

    /// Of parts of so many bytes, as whoever began the upload has chosen.
    pub(super) fn of_part(part: u64) -> Plan {
        Plan { part, grows: false }
    }

    /// For a stream of unknown length.
    pub fn of_stream(bounds: &Bounds, wish: Option<u64>) -> Result<Plan, StoreError> {
        match wish {
            Some(wish) if wish < bounds.least_part || wish > bounds.most_part => {
                Err(StoreError::Usage(format!(
                    "cannot use --part-size {}: the store takes {} to {} a part",
                    Bytes(wish),
                    Bytes(bounds.least_part),
                    Bytes(bounds.most_part)
                )))
            }
            Some(wish) => Ok(Plan { part: wish, grows: false }),
            None => Ok(Plan { part: PART, grows: true }),
        }
    }

    /// The length of part `number`, unless it is the last.
    pub fn length(&self, number: u32) -> u64 {
        let doubled = if self.grows { (number.saturating_sub(1) / DOUBLES_AFTER).min(20) } else { 0 };
        self.part << doubled
    }

    /// How many parts hold `size` bytes; one at least. Of parts that do not grow.
    pub fn parts(&self, size: u64) -> u32 {
        u32::try_from(size.div_ceil(self.part)).unwrap_or(u32::MAX).max(1)
    }

    /// Where part `number` of `size` bytes begins, and its length. Of parts that do not grow.
    pub fn range(&self, number: u32, size: u64) -> (u64, u64) {
        let start = u64::from(number.saturating_sub(1)).saturating_mul(self.part).min(size);
        (start, self.part.min(size - start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S3: Bounds = Bounds {
        parts: 10_000,
        least_part: 5 << 20,
        most_part: 5 << 30,
        most_single: 5 << 30,
        most: 5 << 40,
    };

    #[test]
    fn a_stream_of_the_largest_object_fits() {
        let plan = Plan::of_stream(&S3, None).unwrap();
        let lengths: Vec<u64> = (1..=S3.parts).map(|number| plan.length(number)).collect();
        assert!(lengths.iter().sum::<u64>() >= S3.most);
        assert!(lengths.iter().all(|length| (S3.least_part..=S3.most_part).contains(length)));
    }

    #[test]
    fn a_wish_is_held_to_the_store_s_bounds() {
        assert!(Plan::of_size(1 << 40, &S3, Some(8 << 20)).is_err());
        assert!(Plan::of_size(1 << 30, &S3, Some(1 << 20)).is_err());
        assert_eq!(Plan::of_size(1 << 30, &S3, Some(5 << 20)).unwrap().length(1), 5 << 20);
        assert!(Plan::of_size((5 << 40) + 1, &S3, None).is_err());
        assert!(Plan::of_stream(&S3, Some(1)).is_err());
    }

    proptest! {
        #[test]
        fn parts_cover_the_object_once(size in 1..S3.most) {
            let plan = Plan::of_size(size, &S3, None).unwrap();
            let count = plan.parts(size);
            prop_assert!(count <= S3.parts);
            let last = plan.range(count, size);
            prop_assert_eq!(last.0 + last.1, size);
            prop_assert!(last.1 > 0);
            let middle = plan.range(count / 2 + 1, size);
            prop_assert_eq!(middle.0, u64::from(count / 2) * plan.length(1));
            prop_assert!(count < 2 || plan.length(1) >= S3.least_part);
        }
    }
}
