//! Which actor has which name.

use std::collections::BTreeMap;

use model::ActorId;
use rustc_hash::FxHashMap;

/// Names are unique per namespace.
#[derive(Default)]
pub(crate) struct Names(FxHashMap<Box<str>, BTreeMap<Box<str>, ActorId>>);

impl Names {
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<ActorId> {
        self.0.get(namespace)?.get(name).copied()
    }

    pub(crate) fn insert(&mut self, namespace: &str, name: &str, actor: ActorId) {
        let before = self.0.entry(namespace.into()).or_default().insert(name.into(), actor);
        assert!(before.is_none(), "CTL-1: the name {name} was taken");
    }

    pub(crate) fn remove(&mut self, namespace: &str, name: &str) {
        if let Some(names) = self.0.get_mut(namespace) {
            names.remove(name);
            if names.is_empty() {
                self.0.remove(namespace);
            }
        }
    }

    /// (namespace, name, actor), of one namespace or of all.
    pub(crate) fn iter<'a>(&'a self, of: Option<&'a str>) -> impl Iterator<Item = (&'a str, &'a str, ActorId)> {
        self.0
            .iter()
            .filter(move |(namespace, _)| of.is_none_or(|of| &***namespace == of))
            .flat_map(|(namespace, names)| names.iter().map(move |(name, actor)| (&**namespace, &**name, *actor)))
    }
}
