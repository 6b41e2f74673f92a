//! Large values that lie on other nodes, or were there first, as the real body reads them: its node brings them, which takes its time, and may
//! not find them.

use std::collections::BTreeMap;

use model::{Bulk, Place};
use owner::Slot;
use wire::asking::NotFetched;
use wire::control::Question;

use crate::env::Env;
use crate::looks::Look;
use crate::network::Item;
use crate::process::{Process, ToNode};
use crate::refs::Number;

/// What cannot be had now is asked for again after this long.
const AGAIN_US: u64 = 50_000;
/// How often somebody asks again who looks for what another one misses.
const PROBES_MAX: u32 = 60;

/// What a process waits for.
#[derive(Clone, Debug)]
pub(crate) enum Want {
    /// A value, for who reads these objects and perhaps for a call that is about to start.
    Value { bulk: Bulk, slots: Vec<Slot> },
    /// Whether it is there still, for a look.
    Probe { look: u64, slot: Slot, bulk: Bulk, times: u32 },
}

/// A look that waits for what other nodes say.
pub(crate) struct Looking {
    number: u64,
    look: Look,
    lost: Vec<(Slot, Bulk)>,
    open: usize,
}

/// What a process knows of values that only its node can find.
#[derive(Default)]
pub(crate) struct Away {
    /// Where copies lie, as the node has said.
    near: BTreeMap<Bulk, Bulk>,
    wants: BTreeMap<u64, Want>,
    lookings: Vec<Looking>,
}

impl Away {
    pub(crate) fn is_idle(&self) -> bool {
        self.lookings.is_empty()
    }
}

impl Process {
    /// Whether only the node knows where it is.
    pub(crate) fn is_away(&self, bulk: Bulk) -> bool {
        bulk.node() != self.pid.1.node()
    }

    /// Looks where the value is, or where the node has said that a copy is.
    pub(crate) fn look_near(&mut self, env: &mut Env, bulk: Bulk) -> Option<(Number, Option<Place>)> {
        let here = if self.is_away(bulk) { None } else { self.look_at(env, bulk) };
        let near = self.holdings.away.near.get(&bulk).copied();
        here.or_else(|| self.look_at(env, near?))
    }

    /// Whether the node may find what does not lie where its name says: it is on another node, or is kept here for one.
    pub(crate) fn may_be_brought(&self, slot: Slot, bulk: Bulk) -> bool {
        let owner = self.party.owner.object(slot).and_then(|object| object.owner);
        self.is_away(bulk) || owner.is_some_and(|owner| owner.node() != self.pid.1.node())
    }

    fn ask_fetch(&mut self, env: &mut Env, bulk: Bulk, is_probe: bool, want: Want) {
        let request = env.new_run();
        self.holdings.away.wants.insert(request, want);
        env.tell_node(self.pid, ToNode::Ask { request, question: Question::Fetch { bulk, is_probe } });
    }

    /// The node is to bring a value.
    pub(crate) fn bring(&mut self, env: &mut Env, bulk: Bulk, slot: Option<Slot>) {
        for want in self.holdings.away.wants.values_mut() {
            if let Want::Value { bulk: wanted, slots } = want
                && *wanted == bulk
            {
                slots.extend(slot.filter(|slot| !slots.contains(slot)));
                return;
            }
        }
        env.counts.fetched += 1;
        self.ask_fetch(env, bulk, false, Want::Value { bulk, slots: slot.into_iter().collect() });
    }

    /// The node answers.
    pub(crate) fn on_fetched(&mut self, env: &mut Env, request: u64, found: &Result<Bulk, NotFetched>) {
        // What was asked for again waits under its own number.
        let Some(want) = self.holdings.away.wants.remove(&request) else { return };
        match (want, found) {
            (want, Err(NotFetched::Later(_))) => {
                self.holdings.away.wants.insert(request, want);
                env.later(AGAIN_US, Item::AskAgain { process: self.pid, request });
            }
            (Want::Value { bulk, .. }, Ok(here)) if !self.is_lost_here(env, bulk, *here) => {
                self.holdings.away.near.insert(bulk, *here);
                self.go_on_with_arguments(env, bulk, true);
            }
            (Want::Value { bulk, slots }, _) => {
                self.holdings.away.near.remove(&bulk);
                for slot in slots {
                    if self.lies_at(slot, bulk) {
                        self.not_found(env, slot, bulk);
                    }
                }
                self.go_on_with_arguments(env, bulk, false);
            }
            (Want::Probe { look, slot, bulk, .. }, found) => {
                self.probed(env, look, found.is_err().then_some((slot, bulk)));
            }
        }
    }

    /// Whether it is kept on this very node for another one, in a file that was harmed. Copies are not.
    fn is_lost_here(&self, env: &Env, bulk: Bulk, here: Bulk) -> bool {
        !self.is_away(bulk) && matches!(here, Bulk::Filed(filed) if env.memories[self.pid.0].map(&filed).is_none())
    }

    /// What could not be had is asked for again.
    pub(crate) fn on_ask_again(&mut self, env: &mut Env, request: u64) {
        match self.holdings.away.wants.remove(&request) {
            Some(Want::Probe { look, slot, bulk, times }) if times >= PROBES_MAX => {
                self.probed(env, look, Some((slot, bulk)));
            }
            Some(Want::Probe { look, slot, bulk, times }) => {
                self.ask_fetch(env, bulk, true, Want::Probe { look, slot, bulk, times: times + 1 });
            }
            Some(Want::Value { bulk, slots }) => self.ask_fetch(env, bulk, false, Want::Value { bulk, slots }),
            None => {}
        }
        self.apply(env);
    }

    /// These were looked for on other nodes before it is said which are lost.
    pub(crate) fn probe(&mut self, env: &mut Env, look: Look, lost: Vec<(Slot, Bulk)>, away: Vec<(Slot, Bulk)>) {
        if away.is_empty() {
            return self.seen(env, look, lost);
        }
        let number = env.new_run();
        self.holdings.away.lookings.push(Looking { number, look, lost, open: away.len() });
        for (slot, bulk) in away {
            self.ask_fetch(env, bulk, true, Want::Probe { look: number, slot, bulk, times: 0 });
        }
    }

    fn probed(&mut self, env: &mut Env, number: u64, lost: Option<(Slot, Bulk)>) {
        let lookings = &mut self.holdings.away.lookings;
        let Some(at) = lookings.iter().position(|looking| looking.number == number) else { return };
        lookings[at].open -= 1;
        lookings[at].lost.extend(lost);
        if lookings[at].open == 0 {
            let Looking { look, lost, .. } = lookings.swap_remove(at);
            self.seen(env, look, lost);
        }
    }
}
