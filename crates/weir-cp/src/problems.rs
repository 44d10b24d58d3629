//! What could not be done, path by path.

use crate::wire::message::{Failure, FailureKind, Problem};

/// Of each kind, paths that are kept in words; a million of them would say no more.
const KEPT: usize = 100;

/// Paths that could not be read or written. Every one counts; the first of them are kept in words. Those that
/// take nothing from the copy are kept apart: however many they are, what failed is told.
#[derive(Debug, Clone, Default)]
pub struct Problems {
    failed: ReportedProblems,
    notes: ReportedProblems,
    kinds: Vec<FailureKind>,
}

/// The first of them, and how many there were.
#[derive(Debug, Clone, Default)]
pub struct ReportedProblems {
    /// In the order in which they came.
    pub first: Vec<Problem>,
    /// All of them.
    pub count: u64,
}

impl Problems {
    /// One more.
    pub fn add(&mut self, mut problem: Problem) {
        let kind = problem.failure.kind;
        // The other end wrote them, and may have written a message full.
        problem.failure = Failure::new(kind, problem.failure.words);
        let told = if problem.harmless {
            &mut self.notes
        } else {
            if !self.kinds.contains(&kind) {
                self.kinds.push(kind);
            }
            &mut self.failed
        };
        told.count += 1;
        if told.first.len() < KEPT {
            told.first.push(problem);
        }
    }

    /// What is not at the target as it is at the source.
    pub fn failed(&self) -> &ReportedProblems {
        &self.failed
    }

    /// What the user may want to know: a socket that was left out, an owner that could not be kept.
    pub fn notes(&self) -> &ReportedProblems {
        &self.notes
    }

    /// How paths failed: each kind once, of all that failed.
    pub fn kinds(&self) -> &[FailureKind] {
        &self.kinds
    }
}

impl ReportedProblems {
    /// Those beyond the ones kept in words.
    pub fn more(&self) -> u64 {
        self.count - self.first.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_however_much_came_before_it() {
        let mut problems = Problems::default();
        let problem = |kind, harmless| Problem {
            name: "x".parse().unwrap(),
            failure: Failure::new(kind, "words"),
            harmless,
        };
        for _ in 0..3 * KEPT {
            problems.add(problem(FailureKind::Local, true));
        }
        assert!(problems.kinds().is_empty() && problems.failed().count == 0);
        for _ in 0..2 * KEPT {
            problems.add(problem(FailureKind::Local, false));
        }
        problems.add(problem(FailureKind::Verification, false));
        assert_eq!(problems.kinds(), [FailureKind::Local, FailureKind::Verification]);
        assert_eq!((problems.failed().first.len(), problems.failed().more()), (KEPT, KEPT as u64 + 1));
        assert_eq!((problems.notes().first.len(), problems.notes().count), (KEPT, 3 * KEPT as u64));
    }
}
