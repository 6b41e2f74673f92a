//! How long each object is kept, and who is told when it has a value.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LazyLock};

use model::{ActorId, Failure, ObjectId, ProcId, TaskKey};
use smallvec::SmallVec;

use crate::records::erase;
use crate::{Effect, Owner, Slot, Value};

/// Tasks of whose failure it is noted that the user was told; beyond that one may be told of again.
const TOLD_OF_MAX: usize = 1_024;

/// One object, ours or borrowed. Programs hold millions of small ones, of which nothing but these fields is ever needed.
#[derive(Debug)]
pub struct Object {
    /// Its public id.
    pub id: ObjectId,
    /// Handles in this process.
    pub(crate) handles: u32,
    /// Pending tasks that use it and objects that contain it.
    pub(crate) uses: u32,
    /// Somebody has looked at its value, or its failure has failed others.
    pub(crate) is_read: bool,
    /// Its value, once there is one.
    pub value: Option<Value>,
    /// The key of its maker, which is never zero; or zero.
    maker: u64,
    /// What few objects have.
    rare: Option<Box<Rare>>,
}

const _: () = assert!(size_of::<Option<Object>>() <= 80, "ten million of them must fit in less than one gigabyte");

/// What few objects have: those that cross processes, that others wait for, that are large, or that name others.
#[derive(Debug, Default)]
pub struct Rare {
    /// Who owns it; `None`: we do.
    pub owner: Option<ProcId>,
    /// Of a large value: when it was last looked at.
    pub(crate) touched: u64,
    /// The ended task that made it, and can make it again.
    pub(crate) lineage: Option<u32>,
    /// Ended tasks that need it to run again.
    pub(crate) traced: u32,
    /// Shares that other processes hold of our object. Messages may overtake each other, so a count may pass below zero; that holds
    /// nothing, since whoever is still to tell of those shares has one of its own, and if it dies nobody will ever tell.
    pub(crate) borrowers: SmallVec<[(ProcId, i32); 1]>,
    /// Of a borrowed object: shares that its owner has counted for us.
    pub(crate) shares: i32,
    /// Running calls that it came with: until their reply, whoever called holds it for us.
    pub(crate) guests: u32,
    /// Of a guest: processes that we passed it on to and that keep it. Its owner learns of them by our reply, no later than that the
    /// caller lets go; by way of the node they would come too late.
    pub(crate) lent: SmallVec<[ProcId; 0]>,
    /// Tasks that wait for its value.
    pub(crate) waiting: SmallVec<[TaskKey; 1]>,
    /// Processes that wait for its value.
    pub(crate) wanted_by: SmallVec<[ProcId; 0]>,
    /// Processes that have a copy of our value, or know where it lies.
    pub(crate) told_where: SmallVec<[ProcId; 0]>,
    /// A borrowed object's owner was asked.
    pub(crate) asked: bool,
    /// Objects that its value names.
    pub(crate) contains: SmallVec<[Slot; 0]>,
    /// It stands for an actor that lives as long as this does.
    pub(crate) actor: Option<ActorId>,
    /// Where it is recorded; see `records.rs`.
    pub(crate) cell: u32,
}

static NOTHING: LazyLock<Rare> = LazyLock::new(Rare::default);

impl Deref for Object {
    type Target = Rare;

    #[inline]
    fn deref(&self) -> &Rare {
        self.rare.as_deref().unwrap_or_else(|| &NOTHING)
    }
}

/// Makes room for what is rare: to be used where that is so.
impl DerefMut for Object {
    #[inline]
    fn deref_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }
}

impl Object {
    pub(crate) fn new(id: ObjectId, owner: Option<ProcId>) -> Self {
        let rare = owner.map(|owner| Box::new(Rare { owner: Some(owner), ..Rare::default() }));
        Self { id, handles: 0, uses: 0, is_read: false, value: None, maker: 0, rare }
    }

    /// The task that makes it, while that is under way.
    #[must_use]
    #[inline]
    pub fn maker(&self) -> Option<TaskKey> {
        (self.maker != 0).then_some(TaskKey(self.maker))
    }

    #[inline]
    pub(crate) fn set_maker(&mut self, maker: Option<TaskKey>) {
        self.maker = maker.map_or(0, |key| key.0);
    }

    /// What is rare, if it has any of that.
    #[inline]
    pub(crate) fn rare_mut(&mut self) -> Option<&mut Rare> {
        self.rare.as_deref_mut()
    }

    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.is_used() || self.maker != 0 || self.rare.as_deref().is_some_and(Rare::is_held)
    }

    pub(crate) fn is_used(&self) -> bool {
        self.handles > 0 || self.uses > 0
    }

    /// Other processes that hold shares of it.
    #[must_use]
    pub fn borrowers_count(&self) -> usize {
        self.borrowers.iter().filter(|(_, shares)| *shares > 0).count()
    }

    /// Whether it stands for an actor.
    #[must_use]
    pub fn is_actor(&self) -> bool {
        self.actor.is_some()
    }

    /// The error that goes unread if the object goes now: one of a task's own, not of its actor's or node's end.
    fn unread(&self) -> Option<&Arc<Failure>> {
        match &self.value {
            Some(Value::Failed(failure)) if !self.is_read && self.owner.is_none() => {
                matches!(**failure, Failure::Raised(_) | Failure::Retryable(_) | Failure::WorkerDied(_))
                    .then_some(failure)
            }
            _ => None,
        }
    }

    /// Objects that its value names.
    #[must_use]
    pub fn contained(&self) -> &[Slot] {
        &self.contains
    }

    /// Handles in this process, and pending tasks and containers that use it: what users see as its counts.
    #[must_use]
    pub fn counts(&self) -> (u32, u32) {
        (self.handles, self.uses)
    }
}

impl Rare {
    /// A borrower holds so many more shares.
    pub(crate) fn lend(&mut self, borrower: ProcId, count: i32) {
        match self.borrowers.iter_mut().find(|(who, _)| *who == borrower) {
            Some((_, shares)) => *shares += count,
            None => self.borrowers.push((borrower, count)),
        }
    }

    fn is_held(&self) -> bool {
        self.guests > 0 || self.borrowers.iter().any(|(_, count)| *count > 0)
    }
}

impl Owner {
    /// `put`: a value with one handle on it. `contains` are the objects that the value names.
    pub fn on_put(&mut self, id: ObjectId, value: Value, contains: &[Slot]) -> Slot {
        let mut object = Object::new(id, None);
        object.handles = 1;
        if matches!(value, Value::Bulk(_)) {
            object.touched = self.touches;
        }
        object.value = Some(value);
        if !contains.is_empty() {
            object.contains = contains.into();
        }
        for inner in contains {
            self.hold(*inner);
        }
        self.objects.insert(object).0
    }

    /// An object by slot.
    #[must_use]
    #[inline]
    pub fn object(&self, slot: Slot) -> Option<&Object> {
        self.objects.get(slot)
    }

    /// Whether a task or object of ours is still there.
    #[must_use]
    pub fn owns_something(&self) -> bool {
        self.tasks_pending() > 0 || self.objects().any(|(_, object)| object.owner.is_none())
    }

    /// The same, for after every task: it looks at few slots only, and where there are more says so although all that is there may
    /// be borrowed.
    #[must_use]
    #[inline]
    pub fn may_own_something(&self) -> bool {
        const LOOKS_MAX: usize = 64;
        let may_own = || self.objects.reach() > LOOKS_MAX || self.owns_something();
        self.tasks_pending() > 0 || (self.objects_kept() > 0 && may_own())
    }

    /// Every object.
    pub fn objects(&self) -> impl Iterator<Item = (Slot, &Object)> {
        self.objects.iter().map(|(slot, _, object)| (slot, object))
    }

    /// Somebody looks at the object's failure.
    pub fn on_failure_read(&mut self, slot: Slot) {
        if let Some(object) = self.objects.get_mut(slot) {
            object.is_read = true;
            let id = object.id;
            if id.index() < crate::stream::FIRST_INDEX {
                self.on_end_read(id.task());
            }
        }
    }

    /// One more handle on an object that has one already.
    #[inline]
    pub fn on_handle_added(&mut self, slot: Slot) {
        if let Some(object) = self.objects.get_mut(slot) {
            object.handles += 1;
        }
    }

    /// One handle fewer.
    #[inline]
    pub fn on_handle_dropped(&mut self, slot: Slot, out: &mut Vec<Effect>) {
        if let Some(object) = self.objects.get_mut(slot) {
            object.handles = object.handles.saturating_sub(1);
            if !object.is_held() {
                self.free(slot, out);
            }
        }
    }

    #[inline]
    pub(crate) fn hold(&mut self, slot: Slot) {
        if let Some(object) = self.objects.get_mut(slot) {
            object.uses += 1;
        }
    }

    /// tour(object) 8: the last handle, borrower and task that held it has let go.
    #[inline]
    pub(crate) fn release(&mut self, slot: Slot, out: &mut Vec<Effect>) {
        if let Some(object) = self.objects.get_mut(slot) {
            object.uses = object.uses.saturating_sub(1);
            if !object.is_held() {
                self.free(slot, out);
            }
        }
    }

    pub(crate) fn free_if_unheld(&mut self, slot: Slot, out: &mut Vec<Effect>) {
        if self.objects.get(slot).is_some_and(|object| !object.is_held()) {
            self.free(slot, out);
        }
    }

    /// Whether the user hears of this error that goes unread: once of a task, however many values it was to return.
    fn tells_of(&mut self, object: &ObjectId, failure: &Arc<Failure>) -> bool {
        // Where one failure stands for several values, each has it: the last of them needs no note.
        if Arc::strong_count(failure) == 1 {
            return !self.told_of.remove(&object.task());
        }
        // What is kept elsewhere, as the cause of another failure say, has no last one here.
        if self.told_of.len() >= TOLD_OF_MAX {
            self.told_of.clear();
        }
        self.told_of.insert(object.task())
    }

    /// Frees an object and, without recursion, everything that only it held.
    fn free(&mut self, slot: Slot, out: &mut Vec<Effect>) {
        let mut freeing = std::mem::take(&mut self.freeing);
        freeing.push(slot);
        while let Some(slot) = freeing.pop() {
            let Some(object) = self.objects.get(slot) else { continue };
            debug_assert!(!object.is_held(), "OWN-2: {} freed while held", object.id);
            if object.traced > 0 {
                self.thin(slot, &mut freeing, out);
                continue;
            }
            let Some(object) = self.objects.remove(slot) else { continue };
            if let Some(key) = object.lineage {
                self.forget_made(key, (slot, object.id), &mut freeing, out);
            }
            erase(object.cell, out);
            let shared = object.owner.is_some() || !object.borrowers.is_empty() || object.shares != 0;
            if shared || self.by_id.get(&object.id) == Some(&slot) {
                self.by_id.remove(&object.id);
            }
            for inner in &object.contains {
                if let Some(held) = self.objects.get_mut(*inner) {
                    held.uses = held.uses.saturating_sub(1);
                    if !held.is_held() {
                        freeing.push(*inner);
                    }
                }
            }
            let bulk = match (object.owner, &object.value) {
                (None, Some(Value::Bulk(bulk))) => Some(**bulk),
                _ => None,
            };
            if let (Some(owner), true) = (object.owner, object.shares != 0) {
                // The borrower is this process; the body fills in who that is.
                out.push(Effect::Borrowed { owner, object: object.id, borrower: owner, count: -object.shares });
            }
            if let Some(actor) = object.actor {
                out.push(Effect::ActorUnreachable(actor));
            }
            if let Some(failure) = object.unread()
                && self.tells_of(&object.id, failure)
            {
                out.push(Effect::Unread { object: object.id, failure: failure.clone() });
            }
            out.push(Effect::Freed { slot, bulk });
        }
        self.freeing = freeing;
    }

    /// Gives an object its value; later ones are ignored (OWN-1).
    pub(crate) fn resolve(&mut self, slot: Slot, value: Value, contains: SmallVec<[Slot; 0]>, out: &mut Vec<Effect>) {
        if let Some(object) = self.objects.get_mut(slot) {
            object.set_maker(None);
        }
        self.set_value(slot, value, contains, out);
        self.free_if_unheld(slot, out);
    }

    /// A value that nobody waits for any more.
    pub(crate) fn discard(&mut self, value: Option<&Value>, contains: SmallVec<[Slot; 0]>, out: &mut Vec<Effect>) {
        if let Some(bulk) = value.and_then(Value::as_bulk) {
            out.push(Effect::Discarded(bulk));
        }
        contains.into_iter().for_each(|inner| self.release(inner, out));
    }

    /// The object's first value; whoever waits for it is told.
    pub(crate) fn set_value(&mut self, slot: Slot, value: Value, contains: SmallVec<[Slot; 0]>, out: &mut Vec<Effect>) {
        let Some(object) = self.objects.get_mut(slot).filter(|object| object.value.is_none()) else {
            // A value that we borrow lies where its owner wants it.
            let is_ours = self.objects.get(slot).is_none_or(|object| object.owner.is_none());
            return self.discard(Some(&value).filter(|_| is_ours), contains, out);
        };
        let id = object.id;
        if matches!(value, Value::Bulk(_)) {
            object.touched = self.touches;
        }
        object.value = Some(value.clone());
        if !contains.is_empty() {
            object.contains = contains;
        }
        let (waiting, wanted_by) = match object.rare_mut() {
            Some(rare) => (std::mem::take(&mut rare.waiting), std::mem::take(&mut rare.wanted_by)),
            None => Default::default(),
        };
        if !wanted_by.is_empty() {
            object.told_where.extend(wanted_by.iter().copied());
            object.is_read = true;
        }
        if object.cell != 0 {
            self.record_changed(slot, out);
        }
        out.push(Effect::Resolved(slot));
        for to in wanted_by {
            out.push(Effect::Have { to, object: id, value: value.clone() });
        }
        if !waiting.is_empty() {
            self.readied.extend(waiting);
            self.tell_readied(out);
        }
    }

    /// Not by recursion: a task that an argument's failure ends is itself an argument of the next, in chains of any length.
    pub(crate) fn tell_readied(&mut self, out: &mut Vec<Effect>) {
        if std::mem::replace(&mut self.is_telling, true) {
            return;
        }
        while let Some(task) = self.readied.pop_front() {
            self.on_dependency_ready(task, out);
        }
        self.is_telling = false;
    }

    /// Makes the object that stands for an actor we created: while it is held anywhere, the actor lives.
    pub fn on_actor_made(&mut self, id: ObjectId, actor: ActorId) -> Slot {
        let mut object = Object::new(id, None);
        object.handles = 1;
        object.actor = Some(actor);
        object.value = Some(Value::Inline(crate::Packed::from(&[][..])));
        self.objects.insert(object).0
    }

    /// The object holds these others as long as it lives.
    pub fn on_contains_set(&mut self, slot: Slot, contains: &[Slot]) {
        for inner in contains {
            self.hold(*inner);
        }
        if let Some(object) = self.objects.get_mut(slot) {
            object.contains = contains.into();
        }
    }

    /// The actor's name was taken: the object stands for nothing.
    pub fn on_actor_not_made(&mut self, slot: Slot) {
        if let Some(object) = self.objects.get_mut(slot) {
            object.actor = None;
        }
    }
}
