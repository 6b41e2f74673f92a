//! Large values that lie on other nodes, or were there first: this process asks its node, which has one copy for all its processes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use model::Bulk;
use owner::{Slot, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use store::View;
use wire::asking::NotFetched;
use wire::control::{Answer, Question, ToNode};

use crate::{Error, Runtime};

/// Copies that are known by heart. One that is forgotten is asked for again.
const KNOWN_MAX: usize = 8_192;
/// How often a copy may be dropped between the node's word and our look.
const LOOKS_MAX: u32 = 8;
/// What cannot be had now is asked for again after this long.
const AGAIN_AFTER: Duration = Duration::from_millis(50);
/// How long an argument may take to come, besides a second for each 16 MiB.
const ARGUMENT_NS_MAX: u64 = 60_000_000_000;

/// What this process knows of values of other nodes.
#[derive(Default)]
pub(crate) struct Away {
    /// There was one: before that nothing is asked of them.
    has_some: AtomicBool,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Where copies lie here, as the node has said.
    copies: FxHashMap<Bulk, Bulk>,
    /// What the node was asked for that nobody waits for in a call of his own, and the objects that event loops are to hear of then.
    asked: FxHashMap<u64, (Bulk, Vec<Slot>)>,
    /// Of those, what is not to be had: whoever reads it finds out why.
    vain: FxHashSet<Bulk>,
}

impl Away {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("never poisoned")
    }
}

impl Known {
    fn add(&mut self, bulk: Bulk, here: Bulk) {
        if self.copies.len() >= KNOWN_MAX {
            self.copies.clear();
        }
        self.copies.insert(bulk, here);
    }
}

impl Runtime {
    /// Whether only the node knows where it is.
    #[must_use]
    #[inline]
    pub fn is_away(&self, bulk: Bulk) -> bool {
        bulk.node() != self.me.node()
    }

    /// A value is about to be seen by whoever looks without the lock.
    #[inline]
    pub(crate) fn note_away(&self, value: Option<&Value>) {
        if let Some(Value::Bulk(bulk)) = value
            && self.is_away(**bulk)
        {
            self.away.has_some.store(true, Ordering::Relaxed);
        }
    }

    /// The copy of a value of another node, if it is where the node said last.
    pub(crate) fn look_near(&self, bulk: Bulk) -> Option<View> {
        let here = self.away.known().copies.get(&bulk).copied()?;
        self.look_here(here).ok()
    }

    pub(crate) fn look_here(&self, bulk: Bulk) -> Result<View, store::Error> {
        match bulk {
            Bulk::Stored(place) => self.store.pin(place),
            Bulk::Filed(filed) => self.files.map(&filed),
        }
    }

    /// A value that only the node can find. Waits while `goes_on`, which is asked now and then; so it must not be called with the
    /// interpreter's lock held.
    pub(crate) fn bring(&self, bulk: Bulk, goes_on: &mut dyn FnMut() -> bool) -> Result<View, store::Error> {
        if let Some(view) = self.look_near(bulk) {
            return Ok(view);
        }
        let (node, mut looks) = (bulk.node(), 0);
        while looks < LOOKS_MAX {
            match self.ask_fetch(bulk, false, goes_on)? {
                Ok(here) => {
                    self.away.known().add(bulk, here);
                    match self.look_here(here) {
                        Ok(view) => return Ok(view),
                        // It is kept on this very node, and lost. Its owner is to hear of that.
                        Err(why @ store::Error::Lost { .. }) if !self.is_away(bulk) => return Err(why),
                        Err(_) => {}
                    }
                    looks += 1;
                }
                Err(NotFetched::Moved) => return Err(store::Error::Moved),
                Err(NotFetched::Lost(why)) => return Err(store::Error::LostThere(why)),
                Err(NotFetched::Full(why)) => {
                    return Err(store::Error::DiskFull { need: bulk.length(), why: why.into() });
                }
                Err(NotFetched::Later(why)) => {
                    if !goes_on() {
                        return Err(store::Error::NotComing { node, why: why.into() });
                    }
                    std::thread::sleep(AGAIN_AFTER);
                }
            }
        }
        Err(store::Error::NotComing { node, why: ": its copies here are dropped before they are read".into() })
    }

    /// Whether a value that lies on another node is there still, as far as can be known.
    pub(crate) fn is_there(&self, bulk: Bulk, goes_on: &mut dyn FnMut() -> bool) -> Result<(), store::Error> {
        loop {
            match self.ask_fetch(bulk, true, goes_on)? {
                Ok(_) => return Ok(()),
                Err(NotFetched::Moved) => return Err(store::Error::Moved),
                Err(NotFetched::Lost(why)) => return Err(store::Error::LostThere(why)),
                Err(NotFetched::Later(why) | NotFetched::Full(why)) if !goes_on() => {
                    return Err(store::Error::NotComing { node: bulk.node(), why: why.into() });
                }
                Err(NotFetched::Later(_) | NotFetched::Full(_)) => std::thread::sleep(AGAIN_AFTER),
            }
        }
    }

    fn ask_fetch(
        &self,
        bulk: Bulk,
        is_probe: bool,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<Result<Bulk, NotFetched>, store::Error> {
        match self.ask_while(Question::Fetch { bulk, is_probe }, goes_on) {
            Ok(Answer::Fetched(found)) => Ok(found),
            Ok(_) => Err(store::Error::LostThere("the node gave an answer to something else".into())),
            Err(Error::Closed) => Err(store::Error::LostThere("the node is gone".into())),
            Err(_) => Err(store::Error::NotComing { node: bulk.node(), why: String::new() }),
        }
    }

    /// Whether this process has come across a value of another node.
    #[must_use]
    #[inline]
    pub fn has_away(&self) -> bool {
        self.away.has_some.load(Ordering::Relaxed)
    }

    /// Whether a value that is ready lies where this process can read it, for `wait`. If not, its node brings it.
    #[must_use]
    pub fn is_near(&self, slot: Slot) -> bool {
        if !self.has_away() {
            return true;
        }
        let state = self.state.lock().expect("never poisoned");
        let value = state.party.owner.object(slot).and_then(|object| object.value.as_ref());
        let Some(bulk) = value.and_then(Value::as_bulk) else { return true };
        drop(state);
        self.is_near_at(slot, bulk)
    }

    /// As `is_near`, of a value that was looked up.
    pub(crate) fn is_near_at(&self, slot: Slot, bulk: Bulk) -> bool {
        if !self.is_away(bulk) || self.look_near(bulk).is_some() {
            return true;
        }
        let mut known = self.away.known();
        if known.vain.contains(&bulk) {
            return true;
        }
        if let Some((_, slots)) = known.asked.values_mut().find(|(asked, _)| *asked == bulk) {
            if !slots.contains(&slot) {
                slots.push(slot);
            }
            return false;
        }
        let request = self.answers.number();
        known.asked.insert(request, (bulk, vec![slot]));
        drop(known);
        self.send(&ToNode::Ask { request, question: Question::Fetch { bulk, is_probe: false } });
        false
    }

    /// The node has answered a question that nobody waits for. False: it was no such one.
    pub(crate) fn on_fetched(&self, request: u64, answer: &Answer) -> bool {
        let mut known = self.away.known();
        let Some((bulk, slots)) = known.asked.remove(&request) else { return false };
        match answer {
            Answer::Fetched(Ok(here)) => known.add(bulk, *here),
            _ => {
                if known.vain.len() >= KNOWN_MAX {
                    known.vain.clear();
                }
                known.vain.insert(bulk);
            }
        }
        drop(known);
        slots.into_iter().filter(|slot| self.is_ready(*slot)).for_each(|slot| self.tell_loops(slot));
        true
    }

    /// Looks at an argument of a call, wherever it lies.
    pub(crate) fn look_at_argument(&self, bulk: Bulk) -> Result<View, store::Error> {
        let near =
            if self.is_away(bulk) { self.look_near(bulk).ok_or(store::Error::Moved) } else { self.look_here(bulk) };
        match near {
            // It may be kept here for a process of another node, and have been moved.
            Err(store::Error::Moved) => self.bring_argument(bulk),
            Err(lost @ store::Error::Lost { .. }) => self.bring_argument(bulk).map_err(|_| lost),
            other => other,
        }
    }

    fn bring_argument(&self, bulk: Bulk) -> Result<View, store::Error> {
        let end_ns = net::clock::now_ns() + ARGUMENT_NS_MAX + 60 * bulk.length();
        self.bring(bulk, &mut || net::clock::now_ns() < end_ns && !self.is_closed())
    }

    /// Whether looking at a value may take as long as a network does.
    #[must_use]
    pub fn may_take_long(&self, bulk: Bulk) -> bool {
        self.files.is_far() || self.is_away(bulk) && self.look_near(bulk).is_none()
    }

    /// These will be read soon, one after the other: the node brings all that it must at once.
    pub fn will_read(&self, slots: &[Slot]) {
        let state = self.state.lock().expect("never poisoned");
        let away = slots.iter().filter_map(|slot| {
            let bulk = state.party.owner.object(*slot)?.value.as_ref().and_then(Value::as_bulk)?;
            self.is_away(bulk).then_some(bulk)
        });
        let mut away: Vec<Bulk> = away.collect();
        drop(state);
        away.retain(|bulk| self.look_near(*bulk).is_none());
        if !away.is_empty() {
            self.send(&ToNode::Prefetch(away));
        }
    }
}
