//! What a dead process has left becomes its heir's: the objects with their values, the tasks that had not ended, and those that can make
//! lost values again.
//!
//! The body reads the records, pins what lies in memory and takes files over; here it is decided what of it counts.

use std::sync::Arc;

use model::{Filed, ObjectId, ProcId, TaskId, TaskKey, Template};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::{Effect, Heirloom, Heirs, Owner, Slot, Spec, Target, Value};

/// A reference: which object, and who owned it when it was written down.
pub type Ref = (ObjectId, ProcId);

/// What there is of a recorded object.
#[derive(Clone, Debug)]
pub enum Left {
    /// Its task had not ended.
    Due,
    /// It had a value, which is not there any more.
    Lost,
    /// Its value, and the references in it.
    Value(Value, Vec<Ref>),
}

/// The objects that a dead process has recorded, for its heir, who reads them.
#[derive(Debug)]
pub struct Will {
    /// Who is dead.
    pub of: ProcId,
    /// Who has it now: this process.
    pub heir: ProcId,
    /// Which objects there are.
    pub objects: Vec<(ObjectId, Left)>,
}

/// A task in a dead process's records.
#[derive(Clone, Debug)]
pub struct Bequest {
    /// What its replies call it; none if it has ended and can run again.
    pub request: Option<u64>,
    /// The task.
    pub id: TaskId,
    /// What it shares with other calls.
    pub template: Arc<Template>,
    /// Where it runs.
    pub target: Target,
    /// Whether calls on its actor keep their order.
    pub is_ordered: bool,
    /// Arguments, encoded.
    pub payload: Vec<u8>,
    /// Where they lie, if not here.
    pub filed: Option<Filed>,
    /// Arguments that are references.
    pub deps: Vec<Ref>,
    /// References inside arguments.
    pub contains: Vec<Ref>,
    /// The objects that it makes; none for those that nobody held any more.
    pub returns: Vec<Option<ObjectId>>,
    /// Runs that are left after a failure.
    pub retries_left: i32,
    /// Runs that are left after its worker was killed for want of memory.
    pub oom_retries_left: i32,
    /// The process that it was sent to.
    pub sent_to: Option<ProcId>,
}

/// A task of the dead process's that has not ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Orphan {
    /// What its owner called it.
    pub(crate) request: u64,
    pub(crate) key: TaskKey,
    /// It was sent to somebody.
    pub(crate) is_sent: bool,
}

/// All that a dead process has left, held until it is known who holds what.
#[derive(Debug)]
pub struct Estate {
    me: ProcId,
    pub(crate) slots: FxHashMap<ObjectId, Slot>,
    /// Objects that had no value yet.
    due: FxHashSet<ObjectId>,
    /// In the order of submission.
    pub(crate) tasks: Vec<Orphan>,
    /// Objects that the estate names and whose owners are dead too, with heirs elsewhere. Nobody may have told those that the dead one held
    /// them: so we claim a share of each.
    claims: FxHashMap<ObjectId, ProcId>,
}

/// Whether a share is to be claimed of an object that belonged to `of`, for whom `living` stands now. One of each.
fn claims_one(claims: &mut FxHashMap<ObjectId, ProcId>, id: ObjectId, of: ProcId, living: ProcId, me: ProcId) -> bool {
    living != of && living != me && claims.insert(id, living).is_none()
}

impl Estate {
    /// We are the heir: takes the objects over. From now on the dead one's name means us.
    pub fn new(will: Will, heirs: &mut Heirs, owner: &mut Owner, out: &mut Vec<Effect>) -> Self {
        let Will { of, heir: me, objects } = will;
        let counted = heirs.on_death(of, me).counted;
        // First their names: values and tasks speak of each other.
        let slots = objects.iter().map(|(id, _)| (*id, owner.on_inherited(*id))).collect();
        let claims = FxHashMap::default();
        let mut estate = Self { me, slots, due: FxHashSet::default(), tasks: Vec::new(), claims };
        for (id, left) in objects {
            let (value, refs) = match left {
                Left::Due => {
                    estate.due.insert(id);
                    continue;
                }
                Left::Lost => continue,
                Left::Value(value, refs) => (value, refs),
            };
            // Shares of those that others own were counted for the dead, and will be told of.
            let claims = &mut estate.claims;
            let take = |(id, of): Ref| {
                let living = heirs.living(of);
                let claimed = i32::from(claims_one(claims, id, of, living, me));
                owner.on_contained(id, (living != me).then_some(living), claimed)
            };
            let contains = refs.into_iter().map(take).collect();
            owner.on_value_inherited(estate.slots[&id], value, contains, out);
        }
        // Whoever gave us these had heard of the death before we had, and has registered them with us for us.
        for (id, count) in counted.into_iter().filter(|(id, _)| estate.slots.contains_key(id)) {
            owner.on_shares(&id, me, -count, out);
        }
        estate
    }

    /// The slots of the objects in it.
    pub fn slots(&self) -> impl Iterator<Item = Slot> {
        self.slots.values().copied()
    }

    /// What we claim, and of whom: to be told them.
    pub fn take_claims(&mut self) -> Vec<(ProcId, ObjectId)> {
        let mut claims: Vec<_> = self.claims.drain().map(|(id, heir)| (heir, id)).collect();
        claims.sort_unstable();
        claims
    }

    /// Whether a recorded task is of any use. Its record may be older than those of what it made.
    #[must_use]
    pub fn wants(&self, is_pending: bool, returns: &[Option<ObjectId>], owner: &Owner) -> bool {
        if is_pending {
            return returns.iter().flatten().any(|id| self.due.contains(id));
        }
        returns.iter().any(|id| self.made(id, owner).is_some())
    }

    /// An object that a task which has ended can make again: a large one, or one that is lost.
    fn made(&self, id: &Option<ObjectId>, owner: &Owner) -> Option<Slot> {
        let slot = *self.slots.get(id.as_ref()?)?;
        let object = owner.object(slot).filter(|object| object.maker().is_none())?;
        object.value.as_ref().is_none_or(|value| value.as_bulk().is_some()).then_some(slot)
    }

    /// Takes a task over that is of use. Those that have not ended come first, in the order of submission. The actor that it calls is to be
    /// watched, also if it has ended: it may run again.
    pub fn take(&mut self, task: Bequest, heirs: &Heirs, owner: &mut Owner, out: &mut Vec<Effect>) {
        let Bequest { request, is_ordered, retries_left, oom_retries_left, filed, .. } = task;
        let me = self.me;
        let returns: SmallVec<[Slot; 1]> = match request {
            None => task.returns.iter().map(|id| self.made(id, owner).unwrap_or(Slot::MAX)).collect(),
            Some(_) => {
                let slots = &mut self.slots;
                let mut take = |id: &ObjectId| *slots.entry(*id).or_insert_with(|| owner.on_inherited(*id));
                task.returns.iter().flatten().map(&mut take).collect()
            }
        };
        let claims = &mut self.claims;
        let mut name = |(id, of): Ref| {
            let living = heirs.living(of);
            let claimed = i32::from(claims_one(claims, id, of, living, me));
            owner.on_named(id, (living != me).then_some(living), claimed)
        };
        let spec = Spec {
            id: task.id,
            template: task.template,
            target: task.target,
            payload: task.payload,
            deps: task.deps.into_iter().map(&mut name).collect(),
            contains: task.contains.into_iter().map(&mut name).collect(),
        };
        if let Target::Actor(actor) = spec.target {
            owner.on_handle_made(actor, is_ordered);
        }
        let heirloom = Heirloom { spec, filed, returns, retries_left, oom_retries_left };
        match request {
            Some(request) => {
                let key = owner.on_task_inherited(heirloom);
                self.tasks.push(Orphan { request, key, is_sent: task.sent_to.is_some() });
            }
            None => owner.on_made_inherited(heirloom, out),
        }
    }
}
