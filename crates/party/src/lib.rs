//! What a driver, worker or keeper decides beside its own tasks: whom it tells of references that it gives away, what it takes out of values
//! that come in, what it says of the dead and takes over from them, what it records for whoever takes over from it.
//!
//! A [`Party`] gets messages and frames of `wire` and works through a [`Body`], which has the rings, sockets and pins. `runtime` is one
//! body, the simulator the other. Whoever hands an event in applies the owner's effects next, and then calls [`Party::say`] (RUN-2):
//! what a step says of its own effects is true only once they are applied.
//!
//! - `giving`: values that go to another process for good. `taking`: values that come in. `sharing`: who is counted for what.
//! - `replies`: what came of a call, on its way back. `places`: whose bytes lie where.
//! - `deaths`: a process is dead. `testimony`: what its heir must hear. `keeper`: what the heir does.
//! - `knowing`: what it knew of deaths when it said something. `messages`: what other processes say. `records`: what is written down for an heir. `meeting`: of whose deaths we hear.

mod body;
mod deaths;
mod giving;
mod keeper;
mod knowing;
mod meeting;
mod messages;
mod places;
mod records;
mod replies;
mod sharing;
mod taking;
mod testimony;
#[cfg(test)]
mod tests;
mod words;

use model::{ActorId, Dead, ProcId};
use owner::{Effect, Gifts, Heirs, Keeping, Owner};
use rustc_hash::{FxHashMap, FxHashSet};
use wire::control::ToNode;
use wire::peer::Peer;

pub use body::{Body, NoPin, Progress};
pub use giving::Cargo;
pub use keeper::Inherited;
pub use knowing::view;
pub use replies::{Call, Unsent, discard};
pub use taking::Sent;

use crate::places::Places;
use crate::words::Words;

/// One process's part in all that concerns several.
pub struct Party<P> {
    me: ProcId,
    is_keeper: bool,
    /// Its tasks and objects. Its events are handed in by whoever has them.
    pub owner: Owner,
    /// What the owner asks for: to be applied after each event, and by `on_effect` what is not the body's alone.
    pub effects: Vec<Effect>,
    /// Who stands for processes that are dead.
    heirs: Heirs,
    /// What we keep of those, if we are the one.
    keeping: Keeping,
    gifts: Gifts,
    /// Who wants to know how many gifts of whom have come, whose death we have not heard of.
    asked_too_early: Vec<(ProcId, ProcId)>,
    /// Calls of ours that have certainly not started, by process of another node of whose death we are about to hear.
    unstarted: FxHashMap<ProcId, Vec<u64>>,
    dead: Dead,
    /// Processes of whose death the node will tell us.
    met: FxHashSet<ProcId>,
    places: Places<P>,
    /// Actors that the node tells us of.
    watched: FxHashSet<ActorId>,
    words: Words,
}

impl<P> Party<P> {
    /// One that knows of these deaths.
    #[must_use]
    pub fn new(me: ProcId, is_keeper: bool, heirs: Heirs) -> Self {
        Self {
            me,
            is_keeper,
            owner: Owner::new(),
            effects: Vec::new(),
            heirs,
            keeping: Keeping::default(),
            gifts: Gifts::default(),
            asked_too_early: Vec::new(),
            unstarted: FxHashMap::default(),
            dead: Dead::default(),
            met: FxHashSet::default(),
            places: Places::default(),
            watched: FxHashSet::default(),
            words: Words::default(),
        }
    }

    /// Whether this process is known to be dead.
    #[must_use]
    pub fn is_dead(&self, process: ProcId) -> bool {
        self.dead.has(process)
    }

    /// Who stands for this process, if it is dead and has left something.
    #[must_use]
    #[inline]
    pub fn heir_of(&self, process: ProcId) -> Option<ProcId> {
        self.heirs.get(process)
    }

    /// Who answers for this process: itself, if it lives or left nothing.
    #[must_use]
    #[inline]
    pub fn living(&self, process: ProcId) -> ProcId {
        self.heirs.living(process)
    }

    /// As `living`; none if that is this process.
    #[must_use]
    #[inline]
    pub fn other_owner(&self, process: ProcId) -> Option<ProcId> {
        let living = self.heirs.living(process);
        (living != self.me).then_some(living)
    }

    /// What it keeps of the dead.
    #[must_use]
    pub fn keeping(&self) -> &Keeping {
        &self.keeping
    }

    /// The node tells us of this actor from now on. False if it did already.
    pub fn watch(&mut self, actor: ActorId) -> bool {
        self.watched.insert(actor)
    }

    /// It does not any more.
    pub fn unwatch(&mut self, actor: &ActorId) {
        self.watched.remove(actor);
    }

    /// Whether something is to be said now that all effects are applied.
    #[inline]
    pub fn has_to_say(&self) -> bool {
        self.words.has_some()
    }

    /// Says what had to wait until all effects are applied.
    #[cold]
    pub fn say(&mut self, body: &mut impl Body<Pin = P>) {
        self.words.say(body);
    }

    /// Does what an effect asks for, unless that is the body's: then it comes back.
    pub fn on_effect(&mut self, body: &mut impl Body<Pin = P>, effect: Effect) -> Option<Effect> {
        match effect {
            Effect::Discarded(bulk) => self.free_bulk(body, bulk),
            Effect::Want { owner, object } => body.relay(owner, Peer::Want { object }),
            Effect::Have { to, object, value } => self.answer_want(body, to, object, &value),
            Effect::Borrowed { owner, object, borrower, count } => self.tell_of_shares(owner, object, borrower, count),
            Effect::AskFree { owner, object } => body.relay(owner, Peer::Free { object }),
            Effect::Unreadable { to, object, bytes } => body.relay(to, Peer::Unreadable { object, bytes }),
            Effect::Record(what) => self.record(body, what),
            Effect::Erase(cell) => body.erase_record(cell),
            Effect::Note(key) => self.note_progress(body, key),
            Effect::AskActor(actor) => {
                self.watched.insert(actor);
                body.watch_actor(actor);
            }
            Effect::ActorUnreachable(actor) => body.tell_node(ToNode::ActorOutOfScope { actor }),
            effect => return Some(effect),
        }
        None
    }
}
