//! Large values that lie on other nodes, or were there first: this process asks its node, which has one copy for all its processes.

use std::sync::Mutex;
use std::time::Duration;

use model::Bulk;
use owner::{Slot, Value};
use rustc_hash::FxHashMap;
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

/// Where copies of others' values lie here, as the node has said.
#[derive(Default)]
pub(crate) struct Away(Mutex<FxHashMap<Bulk, Bulk>>);

impl Runtime {
    /// Whether only the node knows where it is.
    #[inline]
    pub(crate) fn is_away(&self, bulk: Bulk) -> bool {
        bulk.node() != self.me.node()
    }

    /// The copy of a value of another node, if it is where the node said last.
    pub(crate) fn look_near(&self, bulk: Bulk) -> Option<View> {
        let here = self.away.0.lock().expect("never poisoned").get(&bulk).copied()?;
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
        let node = bulk.node();
        for _ in 0..LOOKS_MAX {
            match self.ask_fetch(bulk, false, goes_on)? {
                Ok(here) => {
                    let mut known = self.away.0.lock().expect("never poisoned");
                    if known.len() >= KNOWN_MAX {
                        known.clear();
                    }
                    known.insert(bulk, here);
                    drop(known);
                    match self.look_here(here) {
                        Ok(view) => return Ok(view),
                        // It is kept on this very node, and lost. Its owner is to hear of that.
                        Err(why @ store::Error::Lost { .. }) if !self.is_away(bulk) => return Err(why),
                        Err(_) => {}
                    }
                }
                Err(NotFetched::Moved) => return Err(store::Error::Moved),
                Err(NotFetched::Lost(why)) => return Err(store::Error::LostThere(why)),
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
                Err(NotFetched::Later(why)) if !goes_on() => {
                    return Err(store::Error::NotComing { node: bulk.node(), why: why.into() });
                }
                Err(NotFetched::Later(_)) => std::thread::sleep(AGAIN_AFTER),
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
