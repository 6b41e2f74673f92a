//! The death of a whole node, as the others see it: each of its processes that somebody here knows is dead, and has no heir.

use std::collections::{BTreeMap, BTreeSet};

use model::ProcId;
use wire::control::FromNodeOf;

use crate::abroad::{Gone, LastFrames};
use crate::body::{Body, Step};
use crate::hub::Hub;

impl<B: Body> Hub<B> {
    /// Answers `Body::part`: the session with that node is over, and this is what its processes had written last, which is to be read before
    /// they are dead.
    pub fn parted(&mut self, step: &mut Step<'_, B>, node: u32, last: Vec<(ProcId, LastFrames)>) {
        let Some(exit) = self.take_verdict(node) else { return };
        for (peer, frames) in last {
            self.hand_over_last(step, peer, frames);
        }
        let mut gone = self.known_of(node);
        self.note_for_all(node, &mut gone);
        let keeper = self.estates.keeper();
        for (peer, Gone { was_dead, watchers }) in &gone {
            // The keeper waits for deaths, whoever dies.
            let keeper = keeper.filter(|keeper| !was_dead && !watchers.contains(keeper));
            for to in watchers.iter().copied().chain(keeper) {
                self.tell(step, to, FromNodeOf::PeerDied { peer: *peer, exit: exit.clone(), heir: None });
            }
        }
        self.cuts_without_node(step, node);
        self.overflow.global.gone(node);
        if self.is_head() {
            self.reserve_news(step, scheduler::GroupNews::NodeGone(node));
        }
        self.functions.node_gone(node);
        self.last_words_without(step, node);
        for worker in self.estates.serving_for(node) {
            self.on_served(step, worker);
        }
        for job in self.jobs.of_node(node) {
            self.job_ended_there(step, job);
        }
        for (peer, Gone { was_dead, .. }) in gone {
            self.end_leases_of(step, peer);
            self.forget_there(step, peer, exit.clone());
            if !was_dead {
                self.abroad.mourn(peer);
                self.part_from(step, peer);
            }
        }
        // Behind the deaths, of which whoever had a worker there hears first.
        self.routes_without(step, node);
        self.lodgings_without(step, node);
        self.inventories_without_node(step, node);
    }

    /// All processes of a node that any room here knows.
    fn known_of(&mut self, node: u32) -> BTreeMap<ProcId, Gone> {
        let is_there = |peer: &ProcId| peer.node() == node;
        let mut named: BTreeSet<ProcId> = self.leases.scheduler().owners().filter(is_there).collect();
        let of_actors = self.actors.table().iter().flat_map(|record| [Some(record.creation.owner), record.worker()]);
        named.extend(of_actors.flatten().filter(is_there));
        named.extend(self.actors.waiting().chain(self.groups.waiting()).copied().filter(is_there));
        let was_dead: Vec<(ProcId, bool)> = named.into_iter().map(|peer| (peer, self.abroad.is_dead(peer))).collect();
        let mut gone = self.abroad.node_gone(node);
        for (peer, was_dead) in was_dead {
            gone.entry(peer).or_default().was_dead = was_dead;
        }
        gone
    }

    /// Those of whose deaths everyone hears: drivers, and who had taken over from others.
    fn note_for_all(&mut self, node: u32, gone: &mut BTreeMap<ProcId, Gone>) {
        let mut for_all = self.estates.heirs_gone(node);
        for_all.extend(self.jobs.drivers_of_node(node));
        let everyone: BTreeSet<ProcId> = self.everyone_who_hears().into_iter().collect();
        for peer in for_all {
            gone.entry(peer).or_default().watchers.clone_from(&everyone);
        }
    }
}
