//! A set of bytes as ranges that never touch each other: what the node knows of free and of orphaned memory.

use std::collections::BTreeMap;

/// Disjoint half-open ranges, neighbours merged.
#[derive(Default)]
pub(crate) struct Ranges {
    ends: BTreeMap<u64, u64>,
    bytes: u64,
}

impl Ranges {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Ranges as `(start, end)`, in order of address.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.ends.iter().map(|(&start, &end)| (start, end))
    }

    /// Adds `start..end`, of which no byte may be in the set.
    pub(crate) fn insert(&mut self, mut start: u64, mut end: u64) {
        if start == end {
            return;
        }
        self.bytes += end - start;
        if let Some((&before, &before_end)) = self.ends.range(..=start).next_back() {
            assert!(before_end <= start, "STORE-2: {start}..{end} returned twice");
            if before_end == start {
                start = before;
            }
        }
        if let Some((&after, &after_end)) = self.ends.range(start + 1..).next() {
            assert!(after >= end, "STORE-2: {start}..{end} returned twice");
            if after == end {
                self.ends.remove(&after);
                end = after_end;
            }
        }
        self.ends.insert(start, end);
    }

    /// Takes out `start..end`, of which every byte must be in the set.
    pub(crate) fn remove(&mut self, start: u64, end: u64) {
        let found = self.ends.range(..=start).next_back().map(|(&start, &end)| (start, end));
        let (range, range_end) = found.expect("STORE-2: taken out of a range that is not there");
        assert!(range_end >= end, "STORE-2: {start}..{end} taken out of {range}..{range_end}");
        self.ends.remove(&range);
        if range < start {
            self.ends.insert(range, start);
        }
        if end < range_end {
            self.ends.insert(end, range_end);
        }
        self.bytes -= end - start;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn store_2_ranges_are_the_set_of_their_bytes(steps in prop::collection::vec((0u64..40, 1u64..9), 1..80)) {
            let mut ranges = Ranges::default();
            let mut model = BTreeSet::new();
            for (start, length) in steps {
                let bytes = start..start + length;
                if bytes.clone().all(|byte| model.contains(&byte)) {
                    ranges.remove(start, start + length);
                    bytes.for_each(|byte| assert!(model.remove(&byte)));
                } else if !bytes.clone().any(|byte| model.contains(&byte)) {
                    ranges.insert(start, start + length);
                    model.extend(bytes);
                }
                let listed: Vec<u64> = ranges.iter().flat_map(|(start, end)| start..end).collect();
                prop_assert!(listed.iter().eq(model.iter()));
                prop_assert_eq!(ranges.bytes(), model.len() as u64);
                let all: Vec<(u64, u64)> = ranges.iter().collect();
                prop_assert!(all.windows(2).all(|pair| pair[0].1 < pair[1].0), "neighbours merged");
            }
        }
    }

    #[test]
    #[should_panic(expected = "STORE-2")]
    fn store_2_a_byte_is_not_returned_twice() {
        let mut ranges = Ranges::default();
        ranges.insert(0, 10);
        ranges.insert(5, 12);
    }
}
