//! What a copy with a store asks for: parts, requests, and what those cost. Pure.
//!
//! Stores bill requests in two classes: those that write or list (Amazon's PUT, COPY, POST, LIST; Google's
//! class A), and those that read (GET, HEAD; class B). Deletions are free. What leaves a store is billed by
//! the byte as well, by contracts that no table here knows.

use crate::address::StoreKind;
use crate::credentials::aws::AMAZON;
use crate::error::StoreError;
use crate::gcs;
use crate::listing::PAGE;
use crate::store::Service;
use crate::upload::Bounds;
use crate::upload::plan::{PART, Plan, SINGLE};

/// Objects, and the requests for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Requests {
    /// Objects.
    pub objects: u64,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Objects that go in parts.
    pub in_parts: u64,
    /// Those parts together.
    pub parts: u64,
    /// The smallest and the largest size of parts that was chosen, bytes; 0: none.
    pub part_sizes: (u64, u64),
    /// Requests of the class of writing and listing.
    pub writes: u64,
    /// Requests of the class of reading.
    pub reads: u64,
}

/// Which way objects go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From this machine into a store.
    Up,
    /// From a store to this machine.
    Down,
    /// From one store to another, through this machine.
    Through,
    /// Within a store, by itself.
    Within,
}

/// The largest object that a store copies in one request, and its parts beyond, bytes (Amazon's CopyObject).
const COPIED: (u64, u64) = (5 << 30, 512 << 20);

impl Requests {
    /// One object more, of `size` bytes, into a store with these bounds.
    pub fn add(&mut self, direction: Direction, size: u64, bounds: &Bounds) -> Result<(), StoreError> {
        self.objects += 1;
        self.bytes = self.bytes.saturating_add(size);
        match direction {
            // Each further connection is a request more; how many there are is known when it runs.
            Direction::Down => self.reads += 1,
            Direction::Within => {
                let (most, part) = COPIED;
                self.writes += if size > most { 2 + size.div_ceil(part) } else { 1 };
            }
            Direction::Up | Direction::Through => {
                if direction == Direction::Through {
                    // A look at its attributes, and a request for each piece.
                    self.reads += 1 + size.div_ceil(PART);
                }
                if size <= SINGLE || bounds.parts < 2 {
                    self.writes += 1;
                    return Ok(());
                }
                let plan = Plan::of_size(size, bounds, None)?;
                let (parts, each) = (u64::from(plan.parts(size)), plan.length(1));
                self.in_parts += 1;
                self.parts += parts;
                let (least, most) = self.part_sizes;
                self.part_sizes = (if least == 0 { each } else { least.min(each) }, most.max(each));
                // Its beginning, a list of others that were begun, its end.
                self.writes += parts + 3;
            }
        }
        Ok(())
    }

    /// A list of as many objects.
    pub fn add_list(&mut self, objects: u64) {
        self.writes += objects.div_ceil(u64::from(PAGE)).max(1);
    }

    /// All requests.
    pub fn all(&self) -> u64 {
        self.writes + self.reads
    }
}

/// What a thousand requests of one class cost.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassPrice {
    /// US dollars.
    pub usd: f64,
    /// Whose word it is, for what, and of when.
    pub origin: String,
}

/// What requests cost; `None`: it is not known of that class.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Price {
    /// Those that write or list.
    pub write: Option<ClassPrice>,
    /// Those that read.
    pub read: Option<ClassPrice>,
}

/// The list price of the usual storage class at `service`. None at another service than the vendor's own, and
/// of a store whose price hangs on more than that (Azure's on the tier and the redundancy of the account).
///
/// * Amazon: <https://aws.amazon.com/s3/pricing/>, S3 Standard, us-east-1.
/// * Google: <https://cloud.google.com/storage/pricing-examples>, Standard, one region.
pub fn list_price(kind: StoreKind, service: &Service) -> Price {
    let price = |origin: &str| {
        let class = |usd| Some(ClassPrice { usd, origin: origin.to_owned() });
        Price { write: class(0.005), read: class(0.0004) }
    };
    match kind {
        StoreKind::S3 if service.address == AMAZON => {
            price("Amazon's list price of 2025, S3 Standard, us-east-1")
        }
        StoreKind::Gcs if service.address.trim_end_matches('/') == gcs::ENDPOINT => {
            price("Google's list price of 2025, Standard, one region")
        }
        StoreKind::S3 | StoreKind::Gcs | StoreKind::Azure => Price::default(),
    }
}

impl Price {
    /// Of these requests, US dollars; `None` where there are some of a class whose price is not known.
    pub fn of(&self, requests: &Requests) -> Option<f64> {
        let cost = |count: u64, price: &Option<ClassPrice>| match (count, price) {
            (0, _) => Some(0.0),
            (count, Some(price)) => Some(count as f64 * price.usd / 1000.0),
            (_, None) => None,
        };
        Some(cost(requests.writes, &self.write)? + cost(requests.reads, &self.read)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        parts: 10_000,
        least_part: 5 << 20,
        most_part: 5 << 30,
        most_single: 5 << 30,
        most: 5 << 40,
    };

    fn of(direction: Direction, size: u64) -> Requests {
        let mut requests = Requests::default();
        requests.add(direction, size, &BOUNDS).unwrap();
        requests
    }

    #[test]
    fn requests_are_those_that_are_sent() {
        assert_eq!(of(Direction::Up, 0).writes, 1);
        assert_eq!(of(Direction::Up, 8 << 20).writes, 1);
        let two = of(Direction::Up, (8 << 20) + 1);
        assert_eq!((two.writes, two.parts, two.in_parts, two.part_sizes), (5, 2, 1, (8 << 20, 8 << 20)));
        // As many parts as a store takes, and not one more.
        let largest = of(Direction::Up, 5 << 40);
        assert!(largest.parts <= 10_000 && largest.part_sizes.0 >= 500 << 20, "{largest:?}");
        assert!(Requests::default().add(Direction::Up, (5 << 40) + 1, &BOUNDS).is_err());
        assert_eq!((of(Direction::Down, 1 << 40).reads, of(Direction::Down, 1 << 40).writes), (1, 0));
        assert_eq!(of(Direction::Within, 6 << 30).writes, 14);
        let through = of(Direction::Through, 9 << 20);
        assert_eq!((through.reads, through.writes), (3, 5));
        let mut huge = Requests::default();
        for _ in 0..3 {
            huge.add(Direction::Down, u64::MAX / 2, &BOUNDS).unwrap();
        }
        assert_eq!((huge.bytes, huge.reads), (u64::MAX, 3));
        let mut listed = Requests::default();
        listed.add_list(2500);
        assert_eq!(listed.writes, 3);
    }

    fn at(address: &str) -> Service {
        Service { address: address.to_owned(), has_one_namespace: true }
    }

    #[test]
    fn a_price_is_of_both_classes() {
        let requests = Requests { writes: 2000, reads: 10_000, ..Requests::default() };
        let listed = list_price(StoreKind::S3, &at("amazonaws.com"));
        let cost = listed.of(&requests).unwrap();
        assert!((cost - 0.014).abs() < 1e-12, "{cost}");
        let writes_alone = Price { read: None, ..listed };
        assert_eq!(writes_alone.of(&requests), None);
        assert_eq!(writes_alone.of(&Requests { reads: 0, ..requests }), Some(0.01));
    }

    #[test]
    fn a_list_price_is_of_the_vendor_alone() {
        let is_known = |kind, address| list_price(kind, &at(address)) != Price::default();
        assert!(is_known(StoreKind::Gcs, "https://storage.googleapis.com/"));
        for (kind, address) in [
            (StoreKind::S3, "https://minio.example.org/"),
            (StoreKind::S3, "amazonaws.com.cn"),
            (StoreKind::Gcs, "http://127.0.0.1:4443/"),
            (StoreKind::Azure, "https://acc.blob.core.windows.net/ acc"),
        ] {
            assert!(!is_known(kind, address), "{address}");
        }
    }
}
