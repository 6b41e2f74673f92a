//! What the lock guards: the party, the links, the calls that came in.

use model::ProcId;
use owner::Heirs;
use party::Party;
use rustc_hash::FxHashMap;

use crate::execute::Build;
use crate::groups::Groups;
use crate::links::Links;
use crate::news::News;
use crate::records::Records;
use crate::serving::Serving;

pub(crate) struct State {
    /// What is decided, and for the owner done.
    pub(crate) party: Party<store::View>,
    pub(crate) links: Links,
    pub(crate) serving: Serving,
    pub(crate) news: News,
    pub(crate) records: Records,
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
    /// Where refs were made, if that is recorded.
    pub(crate) sites: FxHashMap<owner::Slot, Box<str>>,
    /// Whose call was taken last.
    pub(crate) last_caller: Option<ProcId>,
    pub(crate) bodies: Vec<Vec<u8>>,
    pub(crate) scratch: Vec<u8>,
    /// What the lease in force assigned to this worker.
    pub(crate) assigned: Option<crate::execute::Assignment>,
    /// Requests for leases that have not gone out yet, by number.
    pub(crate) held_back: Vec<(u64, wire::control::ToNode)>,
    /// Calls waiting on an actor of which the user was last told.
    pub(crate) calls_told: FxHashMap<model::ActorId, usize>,
    /// Of detached actors that we made: what holds their arguments while they may be built again.
    pub(crate) detached_args: FxHashMap<model::ActorId, owner::Slot>,
    pub(crate) groups: Groups,
    /// Of living workers of other nodes that we have to do with, for people.
    pub(crate) pids_there: FxHashMap<ProcId, i32>,
}

impl State {
    pub(crate) fn new(me: ProcId, is_keeper: bool, heirs: Heirs) -> Self {
        Self {
            party: Party::new(me, is_keeper, heirs),
            links: Links::default(),
            serving: Serving::default(),
            news: News::default(),
            records: Records::default(),
            build: None,
            blocked: 0,
            is_actor: false,
            exit: None,
            is_retired: false,
            has_served_all: false,
            sites: FxHashMap::default(),
            last_caller: None,
            bodies: Vec::new(),
            scratch: Vec::new(),
            assigned: None,
            held_back: Vec::new(),
            calls_told: FxHashMap::default(),
            detached_args: FxHashMap::default(),
            groups: Groups::default(),
            pids_there: FxHashMap::default(),
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
