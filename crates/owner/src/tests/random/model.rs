//! What must be, counted a second time and more simply: who holds which object, and what became of each task.

use std::collections::{BTreeMap, BTreeSet};

use model::{ActorId, Failure, ObjectId, ProcId, TaskKey};

use crate::{Owner, Slot, Value};

/// An object, as the surroundings know it.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) id: Option<ObjectId>,
    /// Objects name older ones only, so that no two name each other.
    pub(super) birth: u64,
    pub(super) owner: Option<ProcId>,
    pub(super) handles: u32,
    pub(super) borrowers: BTreeMap<ProcId, i32>,
    pub(super) shares: i32,
    pub(super) guests: u32,
    pub(super) lent: Vec<ProcId>,
    pub(super) names: Vec<Slot>,
    pub(super) maker: Option<TaskKey>,
    pub(super) is_there: bool,
    /// Its value is one of somebody else's, and large.
    pub(super) is_large: bool,
    pub(super) is_asked: bool,
    pub(super) wanted_by: BTreeSet<ProcId>,
    pub(super) actor: Option<ActorId>,
}

/// A call that has not ended.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) number: u64,
    pub(super) actor: Option<usize>,
    pub(super) uses: Vec<Slot>,
    pub(super) returns: Vec<Slot>,
    pub(super) retries_max: i32,
    pub(super) starts: i32,
    pub(super) is_cancelled: bool,
}

impl Pending {
    /// OWN-4: no run that the retries promise is missing.
    fn check_failure(&self, failure: &Failure) {
        let is_spent = self.retries_max >= 0 && self.starts > self.retries_max;
        let is_right = match failure {
            Failure::WorkerDied(_) => is_spent,
            Failure::Retryable(_) => is_spent || self.is_cancelled,
            Failure::ActorUnavailable { .. } => is_spent || self.retries_max == 0,
            Failure::Cancelled => self.is_cancelled,
            _ => true,
        };
        assert!(is_right, "OWN-4: {failure:?} after {} starts with {} retries", self.starts, self.retries_max);
    }
}

#[derive(Default)]
pub(super) struct Model {
    pub(super) objects: BTreeMap<Slot, Held>,
    pub(super) tasks: BTreeMap<TaskKey, Pending>,
    births: u64,
}

impl Model {
    pub(super) fn born(&mut self, slot: Slot, held: Held) {
        self.births += 1;
        let old = self.objects.insert(slot, Held { birth: self.births, ..held });
        assert!(old.is_none(), "OWN-2: slot {slot} is given out while it is held: {old:?}");
    }

    /// OWN-1: a value comes once, and a call ends when its values are there.
    pub(super) fn resolved(&mut self, slot: Slot, value: Option<&Value>) {
        let object = self.objects.get_mut(&slot).expect("OWN-1: resolved, but nobody knows it");
        assert!(!object.is_there, "OWN-1: {slot} gets a second value");
        object.is_there = true;
        if let (Some(task), Some(Value::Failed(failure))) = (object.maker.and_then(|key| self.tasks.get(&key)), value) {
            task.check_failure(failure);
        }
    }

    /// After an event: calls that have ended hold nothing any more; what nobody holds must be what was freed.
    pub(super) fn compare(&mut self, owner: &Owner, freed: &[Slot]) {
        let ended: Vec<TaskKey> = self.tasks.keys().copied().filter(|key| owner.task(*key).is_none()).collect();
        for key in ended {
            let task = self.tasks.remove(&key).expect("seen above");
            for slot in task.returns {
                let object = self.objects.get_mut(&slot).expect("OWN-2: a call's value is freed before it ends");
                assert!(object.is_there, "OWN-1: a call ended without a value");
                object.maker = None;
            }
        }
        let mut gone = BTreeSet::new();
        while let Some(slot) = self.objects.keys().copied().find(|slot| !self.is_held(*slot)) {
            self.objects.remove(&slot);
            gone.insert(slot);
        }
        let freed: BTreeSet<Slot> = freed.iter().copied().collect();
        assert_eq!(freed, gone, "OWN-2: what is freed (left) is not what nobody holds (right)");
        assert_eq!(owner.objects_kept(), self.objects.len());
        assert_eq!(owner.tasks_pending(), self.tasks.len());
    }

    fn is_held(&self, slot: Slot) -> bool {
        let object = &self.objects[&slot];
        self.is_used(slot)
            || object.maker.is_some()
            || object.guests > 0
            || object.borrowers.values().any(|count| *count > 0)
    }

    pub(super) fn is_used(&self, slot: Slot) -> bool {
        self.objects[&slot].handles > 0
            || self.tasks.values().any(|task| task.uses.contains(&slot))
            || self.objects.values().any(|other| other.names.contains(&slot))
    }
}
