//! What the lock guards: the owner's brain, the links, the calls that came in.

use model::{Bulk, FileId, ProcId, TaskKey};
use owner::{Effect, Owner};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::execute::Build;
use crate::lanes::Lanes;
use crate::links::Links;

/// Processes known to be dead: of each slot the latest, since a slot is used again only after the one before has ended.
#[derive(Default)]
pub(crate) struct Dead {
    epochs: FxHashMap<u16, u32>,
}

impl Dead {
    pub(crate) fn insert(&mut self, id: ProcId) {
        let epoch = self.epochs.entry(id.slot).or_default();
        *epoch = id.epoch.max(*epoch);
    }

    pub(crate) fn contains_key(&self, id: &ProcId) -> bool {
        self.epochs.get(&id.slot).is_some_and(|epoch| id.epoch <= *epoch)
    }
}

pub(crate) struct State {
    pub(crate) owner: Owner,
    pub(crate) effects: Vec<Effect>,
    pub(crate) links: Links,
    /// Calls that came in and have not started.
    pub(crate) incoming: Lanes,
    /// An actor to build, before any call.
    pub(crate) build: Option<Build>,
    /// How many threads of this worker wait in the middle of a task: calls that come in meanwhile are given back.
    pub(crate) blocked: u32,
    /// This worker serves an actor: nothing is given back.
    pub(crate) is_actor: bool,
    /// The node asked this process to end; `true`: with its exit handlers.
    pub(crate) exit: Option<bool>,
    /// The node does not need this worker any more.
    pub(crate) is_retired: bool,
    /// This worker has served as many calls as it may.
    pub(crate) has_served_all: bool,
    /// Values that lie in another process's extents: that process, and the pin that keeps them.
    pub(crate) stored_elsewhere: FxHashMap<u64, (ProcId, store::View)>,
    /// Values in our extents that belong to others, by offset: whose, and where.
    pub(crate) given: FxHashMap<u64, (ProcId, store::Place)>,
    /// Shares that changed, by owner: told when all effects are applied.
    pub(crate) untold: FxHashMap<ProcId, Vec<wire::peer::Shares>>,
    /// Where refs were made, if that is recorded.
    pub(crate) sites: FxHashMap<owner::Slot, Box<str>>,
    /// Files with values of ours, and how many of those each has.
    files: FxHashMap<FileId, u32>,
    /// Tasks that others asked us to interrupt.
    pub(crate) interrupted: FxHashSet<model::TaskId>,
    /// Whose call was taken last.
    pub(crate) last_caller: Option<ProcId>,
    /// Tasks that run here now: for whom, and what that calls them.
    pub(crate) running: FxHashMap<model::TaskId, (ProcId, u64)>,
    /// Where what we give away is recorded; none if our death is our node's.
    pub(crate) journal: Option<store::Journal>,
    /// Who stands for processes that are dead.
    pub(crate) heirs: owner::Heirs,
    /// What we keep of those, if we are the one.
    pub(crate) keeping: owner::Keeping,
    /// What the dead have recorded, if we are.
    pub(crate) journals: Option<store::Journals>,
    /// Generators that run here, by caller and request: what is known of who reads them.
    pub(crate) generating: FxHashMap<(ProcId, u64), crate::stream::Readership>,
    /// Of each running task: what it submitted, for recursive cancelling.
    pub(crate) children: FxHashMap<model::TaskId, Vec<TaskKey>>,
    pub(crate) bodies: Vec<Vec<u8>>,
    pub(crate) scratch: Vec<u8>,
    /// Something that is neither object nor call came since waiting threads were last told; and whether it is for all of them.
    pub(crate) has_news: bool,
    pub(crate) is_for_all: bool,
    /// Groups of methods that calls came for since then, one entry a call.
    pub(crate) called: Vec<u16>,
    /// Objects that were resolved since then, and whether one of them failed.
    pub(crate) resolved: Vec<owner::Slot>,
    pub(crate) has_failed: bool,
    /// Processes known to be dead.
    pub(crate) dead: Dead,
    pub(crate) gifts: owner::Gifts,
    /// What the lease in force assigned to this worker.
    pub(crate) assigned: Option<crate::execute::Assignment>,
    /// Requests for leases that have not gone out yet, by number.
    pub(crate) held_back: Vec<(u64, wire::control::ToNode)>,
    /// Calls waiting on an actor of which the user was last told.
    pub(crate) calls_told: FxHashMap<model::ActorId, usize>,
    /// Actors whose handles we hold as weak ones or borrowed ones were announced to the node.
    pub(crate) watched: FxHashSet<model::ActorId>,
    /// Of detached actors that we made: what holds their arguments while they may be built again.
    pub(crate) detached_args: FxHashMap<model::ActorId, owner::Slot>,
    /// Placement groups of ours that had their bundles at once, and that nobody else knows yet: nobody can have removed them.
    pub(crate) fresh_groups: FxHashSet<model::GroupId>,
    /// Of those, the ones in which nothing of ours was placed and of which no handle was given away. That they are there was told perhaps.
    pub(crate) unused_groups: FxHashSet<model::GroupId>,
    /// Objects that get their value once a placement group has its bundles.
    pub(crate) groups_awaited: FxHashMap<model::GroupId, Vec<(owner::Slot, owner::Value)>>,
}

impl State {
    pub(crate) fn new() -> Self {
        Self {
            owner: Owner::new(),
            effects: Vec::new(),
            links: Links::default(),
            incoming: Lanes::default(),
            build: None,
            blocked: 0,
            is_actor: false,
            exit: None,
            is_retired: false,
            has_served_all: false,
            stored_elsewhere: FxHashMap::default(),
            given: FxHashMap::default(),
            untold: FxHashMap::default(),
            sites: FxHashMap::default(),
            files: FxHashMap::default(),
            interrupted: FxHashSet::default(),
            last_caller: None,
            running: FxHashMap::default(),
            journal: None,
            heirs: owner::Heirs::default(),
            keeping: owner::Keeping::default(),
            journals: None,
            generating: FxHashMap::default(),
            children: FxHashMap::default(),
            bodies: Vec::new(),
            scratch: Vec::new(),
            has_news: false,
            is_for_all: false,
            called: Vec::new(),
            resolved: Vec::new(),
            has_failed: false,
            dead: Dead::default(),
            gifts: owner::Gifts::default(),
            assigned: None,
            held_back: Vec::new(),
            calls_told: FxHashMap::default(),
            watched: FxHashSet::default(),
            detached_args: FxHashMap::default(),
            fresh_groups: FxHashSet::default(),
            unused_groups: FxHashSet::default(),
            groups_awaited: FxHashMap::default(),
        }
    }

    /// Every thread that waits must look.
    pub(crate) fn tell_all(&mut self) {
        (self.has_news, self.is_for_all) = (true, true);
    }

    /// A value of ours lies there.
    pub(crate) fn hold_file(&mut self, bulk: Bulk) {
        if let Bulk::Filed(filed) = bulk {
            *self.files.entry(filed.file).or_default() += 1;
        }
    }

    pub(crate) fn files_count(&self) -> usize {
        self.files.len()
    }

    /// One value fewer in the file. True if it was the last one.
    pub(crate) fn let_go_of_file(&mut self, file: FileId) -> bool {
        match self.files.get_mut(&file) {
            Some(count) if *count > 1 => {
                *count -= 1;
                false
            }
            _ => {
                self.files.remove(&file);
                true
            }
        }
    }

    /// A buffer for a frame's body, from the last ones used.
    pub(crate) fn body(&mut self) -> Vec<u8> {
        self.bodies.pop().unwrap_or_default()
    }

    pub(crate) fn recycle(&mut self, mut body: Vec<u8>) {
        if self.bodies.len() < 64 && body.capacity() <= 16 * 1024 {
            body.clear();
            self.bodies.push(body);
        }
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
        assert!((1..100).all(|epoch| dead.contains_key(&id(epoch))));
        assert!(!dead.contains_key(&id(100)) && !dead.contains_key(&ProcId { slot: 4, epoch: 1 }));
        assert_eq!(dead.epochs.len(), 1);
    }
}
