//! What a user sets about an environment, by name. A name that nobody asks for is an error.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::EnvError;

/// Settings by name: `env_config`.
pub type Config = BTreeMap<String, Setting>;

/// One value, as JSON or Python would have it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Setting {
    /// Not set.
    Nothing,
    /// True or false.
    Flag(bool),
    /// A whole number.
    Whole(i64),
    /// A number.
    Real(f64),
    /// Text.
    Text(String),
    /// Several values.
    List(Vec<Setting>),
}

/// The settings of one environment while it is built. It remembers what was asked for.
pub struct Settings<'a> {
    name: &'a str,
    config: &'a Config,
    known: Vec<&'static str>,
}

impl<'a> Settings<'a> {
    /// The settings for the environment of that name.
    #[must_use]
    pub fn new(name: &'a str, config: &'a Config) -> Self {
        Self { name, config, known: Vec::new() }
    }

    /// The value under a name, unless it is not set.
    pub fn get(&mut self, key: &'static str) -> Option<&'a Setting> {
        self.known.push(key);
        self.config.get(key).filter(|setting| **setting != Setting::Nothing)
    }

    /// It is said that there is no value.
    #[must_use]
    pub fn is_nothing(&self, key: &str) -> bool {
        self.config.get(key) == Some(&Setting::Nothing)
    }

    /// True or false.
    pub fn flag(&mut self, key: &'static str, default: bool) -> Result<bool, EnvError> {
        match self.get(key) {
            None => Ok(default),
            Some(Setting::Flag(flag)) => Ok(*flag),
            Some(other) => Err(self.refuse(key, "true or false", other)),
        }
    }

    /// A finite number.
    pub fn number(&mut self, key: &'static str, default: f64) -> Result<f64, EnvError> {
        match self.get(key) {
            None => Ok(default),
            Some(setting) => setting.number().ok_or_else(|| self.refuse(key, "a finite number", setting)),
        }
    }

    /// A number from 0 to 1.
    pub fn probability(&mut self, key: &'static str, default: f64) -> Result<f64, EnvError> {
        let number = self.number(key, default)?;
        match self.config.get(key) {
            Some(setting) if !(0.0..=1.0).contains(&number) => Err(self.refuse(key, "between 0 and 1", setting)),
            _ => Ok(number),
        }
    }

    /// A whole number from 1 on.
    pub fn count(&mut self, key: &'static str, default: u64) -> Result<u64, EnvError> {
        match self.get(key) {
            None => Ok(default),
            Some(Setting::Whole(count @ 1..)) => Ok(count.unsigned_abs()),
            Some(other) => Err(self.refuse(key, "a whole number from 1 on", other)),
        }
    }

    /// The error that a value is.
    #[must_use]
    pub fn refuse(&self, key: &str, expected: &str, found: &Setting) -> EnvError {
        let found = format!("{found}");
        EnvError::Value { name: self.name.to_owned(), key: key.to_owned(), expected: expected.to_owned(), found }
    }

    /// Says whether everything that is set was asked for.
    pub fn finish(&self) -> Result<(), EnvError> {
        match self.config.keys().find(|key| !self.known.contains(&key.as_str())) {
            None => Ok(()),
            Some(key) => Err(EnvError::Setting {
                name: self.name.to_owned(),
                key: key.clone(),
                nearest: nearest(key, self.known.iter().copied()).map(str::to_owned),
            }),
        }
    }
}

impl Setting {
    /// A finite number, whole or not.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Whole(whole) => Some(*whole as f64),
            Self::Real(real) if real.is_finite() => Some(*real),
            _ => None,
        }
    }
}

impl std::fmt::Display for Setting {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nothing => write!(out, "null"),
            Self::Flag(flag) => write!(out, "{flag}"),
            Self::Whole(whole) => write!(out, "{whole}"),
            Self::Real(real) => write!(out, "{real}"),
            Self::Text(text) => write!(out, "{text:?}"),
            Self::List(list) => {
                write!(out, "[")?;
                for (index, item) in list.iter().enumerate() {
                    write!(out, "{}{item}", if index == 0 { "" } else { ", " })?;
                }
                write!(out, "]")
            }
        }
    }
}

/// The name that is most like another, if any is like it: fewer than half of the letters have to change, whatever their case.
pub(super) fn nearest<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let name = name.to_lowercase();
    let ranked = names.map(|other| (distance(&name, &other.to_lowercase()), other));
    let (changes, other) = ranked.min_by_key(|(changes, _)| *changes)?;
    (2 * changes < name.chars().count().max(other.chars().count())).then_some(other)
}

/// How many letters have to be put in, taken out or changed to make one word of another.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, letter) in from.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for at in 0..to.len() {
            let changed = diagonal + usize::from(to[at] != letter);
            diagonal = row[at + 1];
            row[at + 1] = changed.min(diagonal + 1).min(row[at] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_counted_letter_by_letter() {
        for (from, to, changes) in
            [("", "", 0), ("", "abc", 3), ("kitten", "sitting", 3), ("abc", "", 3), ("flaw", "lawn", 2)]
        {
            assert_eq!(distance(from, to), changes, "{from} {to}");
        }
    }

    #[test]
    fn the_nearest_name_is_found_or_none() {
        let names = ["CartPole-v1", "Pendulum-v1", "MountainCar-v0"];
        assert_eq!(nearest("cartpole-v1", names.into_iter()), Some("CartPole-v1"));
        assert_eq!(nearest("Pendulum-v0", names.into_iter()), Some("Pendulum-v1"));
        assert_eq!(nearest("Breakout", names.into_iter()), None);
    }
}
