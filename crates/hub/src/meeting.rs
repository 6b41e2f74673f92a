//! Who is told of a process's death: those who have had to do with it. To tell everyone would be a square: of 1,500 actors that end, each
//! would hear of all others.
//!
//! Two have met once they were to have rings, or one of them was handed a message of the other's. Whoever comes across a name by another
//! way (a reference that came through a ring, a share that somebody else registered) says so, and is answered at once if that process is
//! dead already. Deaths of those that left something are told to all, because all count them.
//!
//! - **MEET-1** whoever has said that it knows a process hears of its death, whichever comes first.

use model::{ProcId, WorkerExit};
use wire::control::FromNodeOf;

use crate::body::{Body, Step};
use crate::hub::Hub;
use crate::procs::Kind;

impl<B: Body> Hub<B> {
    /// Each of the two has to hear of the other's death.
    pub(crate) fn meet(&mut self, one: ProcId, other: ProcId) {
        match (self.is_here(one), self.is_here(other)) {
            (true, true) => {}
            (true, false) => return self.meet_abroad(one, other),
            (false, true) => return self.meet_abroad(other, one),
            (false, false) => return,
        }
        if one == other || self.procs.get(other).is_none() {
            return;
        }
        if self.procs.get_mut(one).is_some_and(|proc| proc.meets(other))
            && let Some(proc) = self.procs.get_mut(other)
        {
            proc.meets(one);
        }
    }

    /// A process has come across a name.
    pub(crate) fn on_met(&mut self, step: &mut Step<'_, B>, who: ProcId, name: ProcId) {
        if !self.is_here(name) {
            return self.on_met_abroad(step, who, name);
        }
        if self.procs.get(name).is_some() {
            self.meet(who, name);
        } else if !self.estates.has_heir(name) {
            // One that has an heir was told of to all who were there, and to those who came later when they came.
            self.tell(step, who, FromNodeOf::PeerDied { peer: name, exit: WorkerExit::Unknown, heir: None });
        }
    }

    /// Who hears that this process is dead; from now on nobody has met it.
    ///
    /// tour(retry) 3: who that is: those with rings to it, and those who have come across its name.
    pub(crate) fn take_mourners(&mut self, dead: ProcId, kind: &Kind, has_heir: bool) -> Vec<ProcId> {
        let met = self.procs.take_met(dead);
        for other in &met {
            if let Some(proc) = self.procs.get_mut(*other) {
                proc.forgets(dead);
            }
        }
        let is_for_all = has_heir || matches!(kind, Kind::Driver { .. } | Kind::Keeper);
        if is_for_all {
            return self.everyone_who_hears();
        }
        // The keeper waits for deaths, whoever dies.
        let keeper = self.estates.keeper().filter(|keeper| !met.contains(keeper));
        met.into_iter().chain(keeper).collect()
    }
}
