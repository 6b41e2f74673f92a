//! Small numbers that are given out and come back: slots of processes, bits of a ready map. The lowest free one is found without a search,
//! so that the numbers in use stay low, and room is taken only for those that ever were.

/// Which numbers below 4,096 are taken.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    /// A bit for each number: it is taken.
    taken: Vec<u64>,
    /// A bit for each word above: all of its numbers are taken.
    full: u64,
}

impl Numbers {
    /// The lowest number that is free, if there is one below `limit`.
    pub(crate) fn take(&mut self, limit: u16) -> Option<u16> {
        let word = self.full.trailing_ones() as usize;
        let bits = self.taken.get(word).copied().unwrap_or(0);
        let number = (word * 64) as u16 + bits.trailing_ones() as u16;
        if number >= limit {
            return None;
        }
        if word == self.taken.len() {
            self.taken.push(0);
        }
        self.taken[word] |= 1 << (number % 64);
        if self.taken[word] == u64::MAX {
            self.full |= 1 << word;
        }
        Some(number)
    }

    /// A number is free again.
    pub(crate) fn give(&mut self, number: u16) {
        let word = usize::from(number) / 64;
        debug_assert!(self.taken[word] >> (number % 64) & 1 == 1, "{number} was not taken");
        self.taken[word] &= !(1 << (number % 64));
        self.full &= !(1 << word);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::Numbers;

    #[test]
    fn all_numbers_are_given_out_in_order_and_none_beyond_the_limit() {
        for limit in [1, 64, 100, 4096] {
            let mut numbers = Numbers::default();
            assert!((0..limit).all(|number| numbers.take(limit) == Some(number)));
            assert_eq!(numbers.take(limit), None);
            numbers.give(limit / 2);
            assert_eq!((numbers.take(limit), numbers.take(limit)), (Some(limit / 2), None));
        }
    }

    #[test]
    fn the_lowest_free_number_is_taken_whatever_came_back_before() {
        let (mut numbers, mut model, mut chance) = (Numbers::default(), BTreeSet::new(), 1_u64);
        for _ in 0..50_000 {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let pick = (chance >> 33) as usize;
            // Now it fills, now it empties.
            if (pick % 5 < 2 + (pick >> 20) % 2) && !model.is_empty() {
                let number = *model.iter().nth(pick % model.len()).expect("counted");
                model.remove(&number);
                numbers.give(number);
            } else {
                let lowest = (0..200).find(|number| !model.contains(number));
                assert_eq!(numbers.take(200), lowest);
                model.extend(lowest);
            }
        }
    }
}
