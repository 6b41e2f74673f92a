//! The native environments by name, with the version that says which rules, and the number of steps after which gymnasium cuts them off.

use super::cart_pole::CartPole;
use super::settings::nearest;
use super::{Config, EnvError, Environment, Setting, Settings, Vector, Vectored};

type Made = Result<Box<dyn Vector>, EnvError>;

struct Entry {
    name: &'static str,
    /// Steps of an episode, unless the setting `max_episode_steps` says otherwise.
    steps_max: Option<u64>,
    build: fn(&mut Settings<'_>, usize, Option<u64>) -> Made,
}

const ENTRIES: &[Entry] = &[
    Entry { name: "CartPole-v0", steps_max: Some(200), build: |s, n, limit| boxed(CartPole::configured(s)?, n, limit) },
    Entry { name: "CartPole-v1", steps_max: Some(500), build: |s, n, limit| boxed(CartPole::configured(s)?, n, limit) },
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
