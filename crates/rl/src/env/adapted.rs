//! Environments as networks want them: an index shown as one number per choice, actions between -1 and 1 spread over their bounds.

use super::{Columns, EnvError, Stepped, Vector};
use crate::space::{Acted, Observed, Spaces};

/// How numbers become actions between bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bounded {
    /// As they are.
    Not,
    /// What is beyond a bound becomes the bound.
    Clipped,
    /// From -1 to 1 is from bound to bound, and then clipped.
    Spread,
}

/// Environments with their spaces changed.
pub struct Adapted {
    inner: Box<dyn Vector>,
    spaces: Spaces,
    bounded: Bounded,
    /// Of an index: of how many.
    choices: Option<usize>,
    stepped: Stepped,
    indices: Vec<f32>,
    actions: Vec<f32>,
}

impl Adapted {
    /// Changes what needs to be.
    #[must_use]
    pub fn new(inner: Box<dyn Vector>, bounded: Bounded) -> Self {
        let mut spaces = inner.spaces().clone();
        let choices = match spaces.observed {
            Observed::Discrete(count) => Some(count),
            Observed::Box { .. } => None,
        };
        if let Some(count) = choices {
            spaces.observed = Observed::Box { shape: vec![count], low: vec![0.0; count], high: vec![1.0; count] };
        }
        let indices = vec![0.0; inner.count()];
        Self { inner, spaces, bounded, choices, stepped: Stepped::default(), indices, actions: Vec::new() }
    }

    fn bound(&mut self, actions: &[f32]) {
        self.actions.clear();
        let bounds = match &self.spaces.acted {
            Acted::Box { low, high } if self.bounded != Bounded::Not => low.iter().zip(high),
            Acted::Discrete(_) | Acted::MultiDiscrete(_) | Acted::Box { .. } | Acted::Mixed { .. } => {
                self.actions.extend_from_slice(actions);
                return;
            }
        };
        for (action, (low, high)) in actions.iter().zip(bounds.cycle()) {
            let is_spread = self.bounded == Bounded::Spread && low.is_finite() && high.is_finite();
            let action = if is_spread { low + (action + 1.0) * 0.5 * (high - low) } else { *action };
            self.actions.push(action.clamp(*low, *high));
        }
    }
}

/// One number per choice, of which one is one.
fn spread(indices: &[f32], count: usize, into: &mut [f32]) {
    into.fill(0.0);
    for (row, index) in into.chunks_exact_mut(count).zip(indices) {
        row[*index as usize] = 1.0;
    }
}

impl Vector for Adapted {
    fn count(&self) -> usize {
        self.inner.count()
    }

    fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    fn reset(&mut self, seed: Option<u64>, observed: &mut [f32]) {
        match self.choices {
            None => self.inner.reset(seed, observed),
            Some(count) => {
                self.inner.reset(seed, &mut self.indices);
                spread(&self.indices, count, observed);
            }
        }
    }

    fn step_into(&mut self, actions: &[f32], into: Columns<'_>) {
        self.bound(actions);
        let Some(count) = self.choices else { return self.inner.step_into(&self.actions, into) };
        let Self { inner, stepped, .. } = self;
        inner.step(&self.actions, stepped);
        into.rewards.copy_from_slice(&stepped.rewards);
        into.terminated.copy_from_slice(&stepped.terminated);
        into.truncated.copy_from_slice(&stepped.truncated);
        spread(&stepped.observed, count, into.observed);
        spread(&stepped.last, count, into.last);
    }

    fn observe(&self, observed: &mut [f32]) {
        match self.choices {
            None => self.inner.observe(observed),
            Some(count) => {
                let mut indices = vec![0.0; self.count()];
                self.inner.observe(&mut indices);
                spread(&indices, count, observed);
            }
        }
    }

    fn state(&self, index: usize) -> Vec<f64> {
        self.inner.state(index)
    }

    fn set_state(&mut self, index: usize, numbers: &[f64]) -> Result<(), EnvError> {
        self.inner.set_state(index, numbers)
    }

    fn save(&self) -> Vec<u8> {
        self.inner.save()
    }

    fn restore(&mut self, saved: &[u8]) -> Result<(), EnvError> {
        self.inner.restore(saved)
    }
}

#[cfg(test)]
mod tests {
    use super::{Adapted, Bounded};
    use crate::env::{Stepped, Vector, make};
    use crate::space::Observed;

    #[test]
    fn an_index_is_one_number_per_choice() {
        let mut plain = make("FrozenLake-v1", 3, &Default::default()).unwrap();
        let mut adapted = Adapted::new(make("FrozenLake-v1", 3, &Default::default()).unwrap(), Bounded::Spread);
        assert!(matches!(&adapted.spaces().observed, Observed::Box { shape, .. } if *shape == [16]));
        let (mut index, mut rows) = (vec![0.0; 3], vec![0.0; 48]);
        plain.reset(Some(1), &mut index);
        adapted.reset(Some(1), &mut rows);
        let (mut one, mut other) = (Stepped::default(), Stepped::default());
        for step in 0..200 {
            for (row, index) in rows.chunks_exact(16).zip(&index) {
                assert_eq!(row.iter().sum::<f32>(), 1.0);
                assert_eq!(row[*index as usize], 1.0);
            }
            let actions = [(step % 4) as f32, (step / 4 % 4) as f32, 2.0];
            plain.step(&actions, &mut one);
            adapted.step(&actions, &mut other);
            assert_eq!((&one.rewards, &one.terminated), (&other.rewards, &other.terminated));
            (index, rows) = (one.observed.clone(), other.observed.clone());
        }
        let mut seen = vec![0.0; 48];
        adapted.observe(&mut seen);
        assert_eq!(seen, rows);
    }

    /// Pendulum's torque is between -2 and 2.
    #[test]
    fn actions_are_spread_over_their_bounds_or_clipped() {
        let after = |bounded: Option<Bounded>, action: f32| {
            let inner = make("Pendulum-v1", 1, &Default::default()).unwrap();
            let mut vector: Box<dyn Vector> = match bounded {
                None => inner,
                Some(bounded) => Box::new(Adapted::new(inner, bounded)),
            };
            vector.reset(Some(5), &mut [0.0; 3]);
            let mut stepped = Stepped::default();
            vector.step(&[action], &mut stepped);
            stepped.observed
        };
        assert_eq!(after(Some(Bounded::Spread), 0.5), after(None, 1.0));
        assert_eq!(after(Some(Bounded::Spread), 7.0), after(None, 2.0));
        assert_eq!(after(Some(Bounded::Clipped), 0.5), after(None, 0.5));
        assert_eq!(after(Some(Bounded::Clipped), -9.0), after(None, -2.0));
    }
}
