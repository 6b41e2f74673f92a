//! Which number a driver's job gets. One place gives them all, so that no two drivers of a cluster have the same.

use model::JobId;

/// The numbers that were given out.
#[derive(Debug, Default)]
pub struct Jobs {
    last: u32,
}

impl Jobs {
    /// Numbers above this one: whoever gives numbers to several nodes gives each a block of its own.
    #[must_use]
    pub fn above(last: u32) -> Self {
        Self { last }
    }

    /// A number that no job has had before.
    ///
    /// # Panics
    /// If all four billion were given out.
    pub fn allocate(&mut self) -> JobId {
        self.last = self.last.checked_add(1).expect("there are numbers left");
        JobId(self.last.to_le_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::Jobs;

    #[test]
    fn no_two_jobs_have_one_number_and_none_has_that_of_nobody() {
        let mut jobs = Jobs::default();
        let given: Vec<_> = (0..1_000).map(|_| jobs.allocate().0).collect();
        assert!(given.iter().all(|job| *job != [0; 4]) && given.is_sorted_by(|one, other| one != other));
        assert_eq!(given[255], [0, 1, 0, 0]);
    }
}
