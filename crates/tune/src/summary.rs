//! Of each metric that a trial reported: the largest, smallest, average and last value.

use rustc_hash::FxHashMap;

/// What is kept of one metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stat {
    /// The largest; what is no number is larger than nothing and smaller than any number.
    pub max: f64,
    /// The smallest.
    pub min: f64,
    /// The average of all.
    pub avg: f64,
    /// The latest.
    pub last: f64,
    /// How many there were.
    pub count: u64,
}

impl Stat {
    fn new(value: f64) -> Self {
        Self { max: value, min: value, avg: value, last: value, count: 1 }
    }

    fn note(&mut self, value: f64) {
        // `max` and `min` pass over what is no number.
        self.max = self.max.max(value);
        self.min = self.min.min(value);
        self.count += 1;
        self.avg += (value - self.avg) / self.count as f64;
        self.last = value;
    }
}

/// All metrics of a trial, by name.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    stats: FxHashMap<Box<str>, Stat>,
}

impl Summary {
    /// A metric was reported.
    pub fn note(&mut self, name: &str, value: f64) {
        match self.stats.get_mut(name) {
            Some(stat) => stat.note(value),
            None => drop(self.stats.insert(name.into(), Stat::new(value))),
        }
    }

    /// What is kept of a metric.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Stat> {
        self.stats.get(name).copied()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Stat)> {
        self.stats.iter().map(|(name, stat)| (&**name, stat))
    }
}

#[cfg(test)]
mod tests {
    use super::Summary;

    #[test]
    fn what_is_no_number_is_passed_over_where_there_is_one() {
        let mut summary = Summary::default();
        for value in [f64::NAN, 3.0, 1.0, f64::NAN, 2.0] {
            summary.note("loss", value);
        }
        let stat = summary.get("loss").expect("it was noted");
        assert_eq!((stat.max, stat.min, stat.last, stat.count), (3.0, 1.0, 2.0, 5));
        assert!(stat.avg.is_nan() && summary.get("other").is_none());
    }

    #[test]
    fn the_average_is_of_all() {
        let mut summary = Summary::default();
        (1..=100).for_each(|value| summary.note("x", f64::from(value)));
        assert!((summary.get("x").expect("it was noted").avg - 50.5).abs() < 1e-9);
    }
}
