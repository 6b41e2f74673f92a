//! Who is told of a process's death: those who have had to do with it. To tell everyone would be a square: of 1,500 actors that end, each
//! would hear of all others.
//!
//! Two have met once they were to have rings, or one of them was handed a message of the other's. Whoever comes across a name by another
//! way (a reference that came through a ring, a share that somebody else registered) says so, and is answered at once if that process is
//! dead already. Deaths of those that left something are told to all, because all count them.
//!
//! - **MEET-1** whoever has said that it knows a process hears of its death, whichever comes first.

use model::{ProcId, WorkerExit};
use wire::control::FromNode;

use crate::looped::Node;
use crate::procs::Kind;

impl Node {
    /// Each of the two has to hear of the other's death.
    pub(crate) fn meet(&mut self, one: ProcId, other: ProcId) {
        if one == other || self.procs.get(other).is_none() {
            return;
        }
        let Some(proc) = self.procs.get_mut(one) else { return };
        if proc.met.insert(other)
            && let Some(proc) = self.procs.get_mut(other)
        {
            proc.met.insert(one);
        }
    }

    /// A process has come across a name.
    pub(crate) fn on_met(&mut self, who: ProcId, name: ProcId) {
        if self.procs.get(name).is_some() {
            self.meet(who, name);
        } else if !self.estates.has_heir(name) {
            // One that has an heir was told of to all who were there, and to those who came later when they came.
            self.tell(who, &FromNode::PeerDied { peer: name, exit: WorkerExit::Unknown, heir: None });
        }
    }

    /// Who hears that this process is dead; from now on nobody has met it.
    pub(crate) fn take_mourners(&mut self, dead: ProcId, kind: &Kind, has_heir: bool) -> Vec<ProcId> {
        let met = self.procs.any_mut(dead).map(|proc| std::mem::take(&mut proc.met)).unwrap_or_default();
        for other in &met {
            if let Some(proc) = self.procs.get_mut(*other) {
                proc.met.remove(&dead);
            }
        }
        let is_for_all = has_heir || matches!(kind, Kind::Driver { .. } | Kind::Keeper);
        if is_for_all {
            return self.procs.iter().filter(|other| other.conn.is_some()).map(|other| other.id).collect();
        }
        // The keeper waits for deaths, whoever dies.
        let keeper = self.estates.keeper().filter(|keeper| !met.contains(keeper));
        met.into_iter().chain(keeper).collect()
    }
}

#[cfg(test)]
mod tests {
    use model::{ProcId, WorkerExit};
    use wire::control::{FromNode, ToNode};
    use wire::peer::Peer;

    use crate::tests::{Bench, Driver};

    /// Of whose deaths it has heard since it was last asked.
    fn deaths(process: &mut Driver) -> Vec<ProcId> {
        deaths_in(process.heard())
    }

    fn deaths_in(heard: Vec<FromNode>) -> Vec<ProcId> {
        let died = |message| match message {
            FromNode::PeerDied { peer, .. } => Some(peer),
            _ => None,
        };
        heard.into_iter().filter_map(died).collect()
    }

    #[test]
    fn a_death_is_told_to_those_who_had_to_do_with_the_dead_and_to_nobody_else() {
        let mut bench = Bench::new();
        let dead = bench.add_worker().id;
        let [mut caller, mut told, mut namer, mut stranger] = [(); 4].map(|()| bench.add_worker());
        bench.says(&caller, ToNode::WantLink { peer: dead });
        let message = Peer::CountGifts { from: dead };
        bench.node.on_message(told.conn, ToNode::Relay { to: dead, message });
        bench.says(&namer, ToNode::Met { name: dead });
        bench.says(&namer, ToNode::Met { name: dead });
        bench.node.process_died(dead, WorkerExit::Unknown);
        assert_eq!(
            [&mut caller, &mut told, &mut namer, &mut stranger].map(deaths),
            [vec![dead], vec![dead], vec![dead], vec![]]
        );
        for process in [&caller, &told, &namer, &stranger] {
            assert!(bench.node.procs.get(process.id).unwrap().met.is_empty(), "the dead are not remembered");
        }
    }

    #[test]
    fn meet_1_a_name_that_is_met_after_its_death_is_answered_at_once() {
        let mut bench = Bench::new();
        let [mut late, mut other] = [(); 2].map(|()| bench.add_worker());
        let dead = bench.add_worker().id;
        bench.node.process_died(dead, WorkerExit::Unknown);
        assert!(deaths(&mut late).is_empty());
        bench.says(&late, ToNode::Met { name: dead });
        assert_eq!(deaths(&mut late), [dead]);
        // Its slot has another user by now.
        assert_eq!(bench.add_worker().id.slot(), dead.slot());
        bench.says(&late, ToNode::Met { name: dead });
        bench.says(&other, ToNode::WantLink { peer: dead });
        assert_eq!((deaths(&mut late), deaths(&mut other)), (vec![dead], vec![dead]));
    }

    #[test]
    fn everyone_hears_of_a_drivers_death() {
        let mut bench = Bench::new();
        let driver = bench.join();
        let mut stranger = bench.add_worker();
        bench.says(&driver, ToNode::Bye);
        assert_eq!(deaths(&mut stranger), [driver.id]);
    }

    /// All knew of all: 1,500 actors that end were two million messages.
    #[test]
    fn many_that_die_cost_as_many_messages_as_they_had_peers() {
        let mut bench = Bench::new();
        let mut caller = bench.add_worker();
        let workers: Vec<Driver> = (0..300).map(|_| bench.add_worker()).collect();
        workers.iter().for_each(|worker| bench.says(&caller, ToNode::WantLink { peer: worker.id }));
        workers.iter().for_each(|worker| bench.node.process_died(worker.id, WorkerExit::Unknown));
        let heard: usize = workers.into_iter().map(|mut worker| deaths(&mut worker).len()).sum();
        assert_eq!((deaths_in(caller.hears_all(&mut bench.node)).len(), heard), (300, 0));
    }
}
