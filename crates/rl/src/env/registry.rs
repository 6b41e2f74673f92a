//! The native environments by name, with the version that says which rules, and the number of steps after which gymnasium cuts them off.

use super::acrobot::Acrobot;
use super::cart_pole::CartPole;
use super::catch::Catch;
use super::corridor::Corridor;
use super::frozen_lake::FrozenLake;
use super::mountain_car::{MountainCar, MountainCarContinuous};
use super::pendulum::Pendulum;
use super::settings::nearest;
use super::taxi::Taxi;
use super::{Config, EnvError, Environment, Setting, Settings, Vector, Vectored};

type Made = Result<Box<dyn Vector>, EnvError>;
type Build = fn(&mut Settings<'_>, usize, Option<u64>) -> Made;

struct Entry {
    name: &'static str,
    /// Steps of an episode, unless the setting `max_episode_steps` says otherwise.
    steps_max: Option<u64>,
    build: Build,
}

const fn entry(name: &'static str, steps_max: Option<u64>, build: Build) -> Entry {
    Entry { name, steps_max, build }
}

const ENTRIES: &[Entry] = &[
    entry("CartPole-v0", Some(200), |s, n, limit| boxed(CartPole::configured(s)?, n, limit)),
    entry("CartPole-v1", Some(500), |s, n, limit| boxed(CartPole::configured(s)?, n, limit)),
    entry("Pendulum-v1", Some(200), |s, n, limit| boxed(Pendulum::configured(s)?, n, limit)),
    entry("MountainCar-v0", Some(200), |s, n, limit| boxed(MountainCar::configured(s)?, n, limit)),
    entry("MountainCarContinuous-v0", Some(999), |s, n, limit| boxed(MountainCarContinuous::configured(s)?, n, limit)),
    entry("Acrobot-v1", Some(500), |_, n, limit| boxed(Acrobot, n, limit)),
    entry("FrozenLake-v1", Some(100), |s, n, limit| boxed(FrozenLake::configured(s, "4x4")?, n, limit)),
    entry("FrozenLake8x8-v1", Some(200), |s, n, limit| boxed(FrozenLake::configured(s, "8x8")?, n, limit)),
    // What the two differ in is rain, which only the newer has here.
    entry("Taxi-v3", Some(200), |_, n, limit| boxed(Taxi::plain(), n, limit)),
    entry("Taxi-v4", Some(200), |s, n, limit| boxed(Taxi::configured(s)?, n, limit)),
    entry("Corridor-v0", None, |s, n, limit| boxed(Corridor::configured(s)?, n, limit)),
    entry("Catch-v0", None, |_, n, limit| boxed(Catch, n, limit)),
];

/// So many environments of that name, before their first reset.
pub fn make(name: &str, count: usize, config: &Config) -> Result<Box<dyn Vector>, EnvError> {
    let Some(entry) = ENTRIES.iter().find(|entry| entry.name == name) else {
        return Err(EnvError::Unknown { name: name.to_owned(), nearest: nearest(name, names()).map(str::to_owned) });
    };
    let mut settings = Settings::new(name, config);
    let limit = match settings.get("max_episode_steps") {
        None => entry.steps_max,
        Some(Setting::Whole(-1)) => None,
        Some(Setting::Whole(limit @ 1..)) => Some(limit.unsigned_abs()),
        Some(other) => {
            return Err(settings.refuse("max_episode_steps", "a whole number from 1 on, or -1 for no end", other));
        }
    };
    let vector = (entry.build)(&mut settings, count, limit)?;
    settings.finish()?;
    Ok(vector)
}

/// All names, with versions.
pub fn names() -> impl Iterator<Item = &'static str> {
    ENTRIES.iter().map(|entry| entry.name)
}

fn boxed<E: Environment + 'static>(rules: E, count: usize, limit: Option<u64>) -> Made {
    Ok(Box::new(Vectored::new(rules, count, limit)))
}
