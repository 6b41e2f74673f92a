//! Many environments of one kind, one after the other in one loop.
//!
//! HOT: once per step of every environment. No allocation and nothing called through a table: the loop is made for each kind.

use serde::{Deserialize, Serialize};

use super::{Columns, EnvError, Environment, Vector};
use crate::chance::Chance;
use crate::space::Spaces;

/// Environments of one kind, each with an episode and chance of its own.
pub struct Vectored<E: Environment> {
    rules: E,
    spaces: Spaces,
    observed_size: usize,
    acted_size: usize,
    /// An episode is cut off after so many steps.
    limit: u64,
    places: Vec<Place<E::State>>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Place<S> {
    state: S,
    steps: u64,
    chance: Chance,
}

impl<E: Environment> Vectored<E> {
    /// So many environments, whose episodes are cut off after `limit` steps.
    #[must_use]
    pub fn new(rules: E, count: usize, limit: Option<u64>) -> Self {
        let spaces = rules.spaces();
        let places = (0..count as u64).map(|index| {
            let mut chance = Chance::seeded(index);
            Place { state: rules.reset(&mut chance), steps: 0, chance }
        });
        let places = places.collect();
        let (observed_size, acted_size) = (spaces.observed.size(), spaces.acted.size());
        Self { rules, spaces, observed_size, acted_size, limit: limit.unwrap_or(u64::MAX), places }
    }
}

impl<E: Environment> Vector for Vectored<E> {
    fn count(&self) -> usize {
        self.places.len()
    }

    fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    fn reset(&mut self, seed: Option<u64>, observed: &mut [f32]) {
        for (place, index) in self.places.iter_mut().zip(0_u64..) {
            if let Some(seed) = seed {
                place.chance = Chance::seeded(seed.wrapping_add(index));
            }
            place.state = self.rules.reset(&mut place.chance);
            place.steps = 0;
        }
        self.observe(observed);
    }

    fn step_into(&mut self, actions: &[f32], into: Columns<'_>) {
        let (count, size) = (self.places.len(), self.observed_size);
        assert_eq!(actions.len(), count * self.acted_size, "an action for each environment");
        assert_eq!((into.observed.len(), into.last.len()), (count * size, count * size), "room for each observation");
        assert_eq!((into.rewards.len(), into.terminated.len(), into.truncated.len()), (count, count, count), "and end");

        let rows = into.observed.chunks_exact_mut(size).zip(into.last.chunks_exact_mut(size));
        let ends = into.rewards.iter_mut().zip(into.terminated.iter_mut()).zip(into.truncated.iter_mut());
        let places = self.places.iter_mut().zip(actions.chunks_exact(self.acted_size));
        for (((place, action), (observed, last)), ((reward, terminated), truncated)) in places.zip(rows).zip(ends) {
            let outcome = self.rules.step(&mut place.state, action, &mut place.chance);
            place.steps += 1;
            *reward = outcome.reward as f32;
            *terminated = outcome.terminated;
            *truncated = place.steps >= self.limit;
            if *terminated || *truncated {
                self.rules.observe(&place.state, last);
                place.state = self.rules.reset(&mut place.chance);
                place.steps = 0;
            }
            self.rules.observe(&place.state, observed);
        }
    }

    fn observe(&self, observed: &mut [f32]) {
        assert_eq!(observed.len(), self.places.len() * self.observed_size, "room for each observation");
        for (place, into) in self.places.iter().zip(observed.chunks_exact_mut(self.observed_size)) {
            self.rules.observe(&place.state, into);
        }
    }

    fn state(&self, index: usize) -> Vec<f64> {
        self.rules.numbers(&self.places[index].state)
    }

    fn set_state(&mut self, index: usize, numbers: &[f64]) -> Result<(), EnvError> {
        let state = self.rules.state(numbers).ok_or_else(|| EnvError::NoState(numbers.to_vec()))?;
        self.places[index].state = state;
        Ok(())
    }

    fn save(&self) -> Vec<u8> {
        // The spaces tell environments of another kind. Plain numbers into memory: nothing in it can fail.
        postcard::to_stdvec(&(&self.spaces, &self.places)).expect("states can be written down")
    }

    fn restore(&mut self, saved: &[u8]) -> Result<(), EnvError> {
        let unfit = |why: String| Err(EnvError::Unfit(why));
        let (spaces, rest) = match postcard::take_from_bytes::<Spaces>(saved) {
            Ok(read) => read,
            Err(error) => return unfit(error.to_string()),
        };
        if spaces != self.spaces {
            return unfit("their spaces differ".to_owned());
        }
        let places: Vec<Place<E::State>> = match postcard::from_bytes(rest) {
            Ok(places) => places,
            Err(error) => return unfit(error.to_string()),
        };
        if places.len() != self.places.len() {
            return unfit(format!("{} were saved, {} are here", places.len(), self.places.len()));
        }
        // Damaged bytes may name a state that the rules would stumble over.
        for place in &places {
            if place.steps >= self.limit {
                return unfit(format!("an episode of {} steps goes on beyond {}", place.steps, self.limit));
            }
            let numbers = self.rules.numbers(&place.state);
            if self.rules.state(&numbers).is_none() {
                return unfit(format!("{numbers:?} is no state of them"));
            }
        }
        self.places = places;
        Ok(())
    }
}
