//! The rooms, what all of them use, and time.

use model::{NodeId, ProcId, Resources, Tick};
use wire::control::FromNodeOf;

use crate::abroad::Abroad;
use crate::actors::ActorRoom;
use crate::body::{Body, Past, Step};
use crate::cuts::Cuts;
use crate::enquiries::Enquiries;
use crate::estates::Estates;
use crate::functions::Functions;
use crate::groups::GroupRoom;
use crate::inventory::Inventories;
use crate::jobs::Jobs;
use crate::last_words::LastWords;
use crate::leases::Leases;
use crate::links::Links;
use crate::lodging::Lodgings;
use crate::members::Members;
use crate::notices::Told;
use crate::overflow::Overflow;
use crate::post::Post;
use crate::procs::{Proc, Procs};
use crate::reserving::Reserving;
use crate::room::Room;
use crate::watching::Watching;

/// What a node's core is told once.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its number in its cluster: part of the name of each of its processes.
    pub number: u32,
    /// Its id.
    pub id: NodeId,
    /// Pid of the process that hosts it.
    pub pid: i32,
    /// What it has.
    pub total: Resources,
    /// Visible names of its GPUs.
    pub gpu_names: Vec<Box<str>>,
    /// Processes that it may have.
    pub procs_max: u16,
    /// Workers that it may have.
    pub workers_max: u32,
    /// Workers that start at the same time.
    pub starts_max: u32,
    /// Workers to start before anyone asks.
    pub prestart: u32,
    /// An idle worker beyond those is ended after this long.
    pub idle_ms_max: u64,
    /// Rings that there may be at once.
    pub rings_max: u32,
    /// The rings of a pair that had nothing to say for this long are taken back.
    pub link_idle_ms_max: u64,
    /// How long an ending worker may take for its exit handlers before it is killed.
    pub grace_ms_max: u64,
}

/// What a node decides. See the crate's documentation.
pub struct Hub<B: Body> {
    pub(crate) options: Options,
    pub(crate) procs: Procs,
    pub(crate) post: Post<B::Letter>,
    pub(crate) links: Links,
    pub(crate) leases: Leases,
    pub(crate) actors: ActorRoom,
    pub(crate) groups: GroupRoom,
    pub(crate) jobs: Jobs,
    pub(crate) estates: Estates,
    pub(crate) functions: Functions,
    pub(crate) room: Room,
    pub(crate) told: Told,
    pub(crate) inventories: Inventories,
    pub(crate) watching: Watching,
    pub(crate) abroad: Abroad,
    pub(crate) cuts: Cuts,
    pub(crate) members: Members,
    pub(crate) overflow: Overflow,
    pub(crate) reserving: Reserving,
    pub(crate) lodgings: Lodgings,
    pub(crate) enquiries: Enquiries,
    pub(crate) last_words: LastWords,
}

impl<B: Body> Hub<B> {
    /// A node without processes.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            procs: Procs::new(options.number, options.procs_max),
            post: Post::default(),
            links: Links::new(options.number, options.rings_max, options.link_idle_ms_max),
            leases: Leases::new(&options),
            actors: ActorRoom::default(),
            groups: GroupRoom::default(),
            jobs: Jobs::default(),
            estates: Estates::default(),
            functions: Functions::default(),
            room: Room::default(),
            told: Told::default(),
            inventories: Inventories::default(),
            watching: Watching::default(),
            abroad: Abroad::default(),
            cuts: Cuts::default(),
            members: Members::default(),
            overflow: Overflow::default(),
            reserving: Reserving::default(),
            lodgings: Lodgings::default(),
            enquiries: Enquiries::default(),
            last_words: LastWords::default(),
            options,
        }
    }

    /// The first step: workers are started ahead.
    pub fn open(&mut self, step: &mut Step<'_, B>) {
        self.schedule(step, scheduler::Event::Tick);
    }

    /// When time itself changes something next. None: nothing waits.
    #[must_use]
    pub fn next_deadline(&self, now: Tick) -> Option<Tick> {
        let deadlines = [
            self.leases.scheduler().next_tick(now),
            self.actors.table().next_tick(),
            self.functions.next_deadline(),
            self.room.next_deadline(),
            self.inventories.next_deadline(),
            self.watching.next_look(),
            self.estates.next_deadline(),
            self.procs.next_deadline(),
            self.links.next_look(),
            self.told.next_look(),
            self.overflow.next_deadline(),
            self.reserving.next_deadline(),
            self.last_words.next_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Time has passed: what is due is done.
    pub fn on_time(&mut self, step: &mut Step<'_, B>) {
        if self.leases.scheduler().next_tick(step.now).is_some_and(|next| next <= step.now) {
            self.schedule(step, scheduler::Event::Tick);
        }
        if self.actors.table().next_tick().is_some_and(|next| next <= step.now) {
            self.act(step, control::Event::Tick);
        }
        self.expire_functions(step);
        self.look_after_room(step);
        self.end_inventories_that_are_over(step);
        self.look_at_waits(step);
        self.end_late_estates(step);
        self.end_overdue(step);
        self.look_for_idle_links(step);
        self.warn_of_full_node(step);
        self.look_at_load(step);
        self.end_late_last_words(step);
    }

    /// Says something to a process that has joined, or to one of another node.
    pub(crate) fn tell(&self, step: &mut Step<'_, B>, to: ProcId, message: FromNodeOf<B::Letter>) {
        if !self.is_here(to) {
            return self.tell_abroad(step, to, message);
        }
        if self.procs.get(to).is_some_and(Proc::hears) {
            step.body.tell(to, message);
        }
    }

    /// Who is not known to be dead.
    #[must_use]
    pub fn proc(&self, who: ProcId) -> Option<&Proc> {
        self.procs.get(who)
    }

    /// Everyone who is not known to be dead.
    pub fn procs(&self) -> impl Iterator<Item = &Proc> {
        self.procs.iter()
    }

    /// Who this is, also if it is dead and something of it is still needed.
    #[must_use]
    pub fn proc_or_remains(&self, who: ProcId) -> Option<&Proc> {
        self.procs.any(who)
    }

    /// Who has this pid.
    #[must_use]
    pub fn by_pid(&self, pid: i32) -> Option<ProcId> {
        self.procs.by_pid(pid)
    }

    /// Who is in this slot.
    #[must_use]
    pub fn at_slot(&self, slot: u16) -> Option<ProcId> {
        self.procs.at_slot(slot).map(Proc::id)
    }

    /// What a new process is told of those that have died.
    #[must_use]
    pub fn past(&self) -> Past {
        self.estates.past()
    }

    /// The brain that gives leases.
    #[must_use]
    pub fn scheduler(&self) -> &scheduler::Scheduler {
        self.leases.scheduler()
    }

    /// The brain of actors.
    #[must_use]
    pub fn actor_table(&self) -> &control::Actors {
        self.actors.table()
    }

    /// The brain of placement groups.
    #[must_use]
    pub fn group_table(&self) -> &control::Groups {
        self.groups.table()
    }

    /// Panics if an invariant of the core or of its brains does not hold. For tests and the simulator: it looks at everything.
    pub fn check_invariants(&self) {
        self.leases.scheduler().check_invariants();
        self.actors.table().check_invariants();
        self.groups.table().check_invariants();
        let is_living = |who: &ProcId| self.lives(*who);
        let dead = self.leases.owners().find(|who| !is_living(who));
        assert!(dead.is_none(), "NODE-4: a lease of a dead process is kept: {dead:?}");
        assert!(self.actors.waiting().all(is_living), "NODE-4: a dead process is to be told of an actor");
        assert!(self.groups.waiting().all(is_living), "NODE-4: a dead process is to be told of a group");
        assert!(self.functions.waiting().all(is_living), "NODE-4: a dead process is to be told of a function");
        assert!(self.room.waiting().all(is_living), "NODE-4: a dead process is to be given room");
        assert!(self.inventories.awaited().all(is_living), "NODE-4: an answer of a dead process is waited for");
        assert!(
            self.inventories.awaited_nodes().all(|node| self.abroad.has(node)),
            "NODE-4: an answer of a dead node is waited for"
        );
        assert!(self.post.held_for().all(is_living), "NODE-4: letters to a dead process are kept");
        assert!(
            self.procs.iter().flat_map(Proc::met).all(is_living),
            "MEET-1: somebody still waits for a death that was told"
        );
        assert!(self.estates.at_work().all(is_living), "NODE-4: a dead worker is thought to serve");
    }

    /// What is kept of what is over, for tests: empty if no process is here and nothing was left.
    #[must_use]
    pub fn left(&self) -> Vec<&'static str> {
        let rooms = [
            ("processes", self.procs.is_empty()),
            ("letters", self.post.is_empty()),
            ("leases", self.leases.is_empty()),
            ("actors", self.actors.is_empty()),
            ("groups", self.groups.is_empty()),
            ("jobs", self.jobs.is_empty()),
            ("estates", self.estates.is_empty()),
            ("functions", self.functions.is_empty()),
            ("room", self.room.is_empty()),
            ("inventories", self.inventories.is_empty()),
            ("watching", self.watching.is_empty()),
            ("links", self.links.is_empty()),
            ("processes of other nodes", self.abroad.is_empty()),
            ("cuts", self.cuts.is_empty()),
            ("members", self.members.is_at_rest()),
            ("leases of other nodes", self.overflow.is_empty()),
            ("groups over nodes", self.reserving.is_empty()),
            ("lodgings", self.lodgings.is_empty()),
            ("enquiries", self.enquiries.is_empty()),
            ("last words", self.last_words.is_empty()),
        ];
        rooms.into_iter().filter(|(_, is_empty)| !is_empty).map(|(name, _)| name).collect()
    }
}
