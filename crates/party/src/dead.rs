//! Processes known to be dead: of each slot the latest, since a slot is used again only after the one before has ended.

use model::ProcId;
use rustc_hash::FxHashMap;

#[derive(Default)]
pub(crate) struct Dead {
    epochs: FxHashMap<u16, u32>,
}

impl Dead {
    pub(crate) fn insert(&mut self, id: ProcId) {
        let epoch = self.epochs.entry(id.slot).or_default();
        *epoch = id.epoch.max(*epoch);
    }

    pub(crate) fn contains(&self, id: ProcId) -> bool {
        self.epochs.get(&id.slot).is_some_and(|epoch| id.epoch <= *epoch)
    }
}

#[cfg(test)]
mod tests {
    use model::ProcId;

    use super::Dead;

    /// One entry was kept for every process that had ever died.
    #[test]
    fn the_dead_of_one_slot_take_the_room_of_one() {
        let id = |epoch| ProcId { slot: 3, epoch };
        let mut dead = Dead::default();
        (1..100).for_each(|epoch| dead.insert(id(epoch)));
        dead.insert(id(5));
        assert!((1..100).all(|epoch| dead.contains(id(epoch))));
        assert!(!dead.contains(id(100)) && !dead.contains(ProcId { slot: 4, epoch: 1 }));
        assert_eq!(dead.epochs.len(), 1);
    }
}
