//! When all processes of several nodes have been heard of a death, and when nothing is under way between them that was sent before (CUT-1).
//!
//! On one node the keeper hears its witnesses itself. Other nodes are one witness each: such a node says that all its processes have testified,
//! and how much it had sent to every other node by then. So whatever was registered with the dead by one who had not heard of the death is
//! behind those positions. When all have testified, each node is told the positions that concern it; once it has got so far its processes take
//! up what has come, claim what they find there, and it says so.

use std::collections::{BTreeMap, BTreeSet};

use model::ProcId;
use rustc_hash::FxHashMap;
use wire::abroad::Between;
use wire::control::FromNodeOf;

use crate::body::{Body, Step};
use crate::hub::Hub;

/// How much a node had sent to each other node.
type Positions = Vec<(u32, u64)>;

#[derive(Default)]
pub(crate) struct Cuts {
    /// Of dead processes of this node.
    ours: FxHashMap<ProcId, Cut>,
    /// Dead processes of other nodes, and who has what they left, as long as not all nodes have testified.
    open: BTreeMap<ProcId, ProcId>,
    /// Of dead processes of other nodes: who here has not testified, or not settled.
    theirs: FxHashMap<ProcId, Awaited>,
    /// What is asked of the carrier.
    tickets: FxHashMap<u64, Ticket>,
    last: u64,
}

/// Who has not done yet what is to be said then.
struct Awaited {
    who: BTreeSet<ProcId>,
    then: fn(ProcId) -> Ticket,
}

#[derive(Default)]
struct Cut {
    /// What each node had sent when it had testified.
    sent: FxHashMap<u32, Positions>,
    /// The nodes that are to settle, once the keeper has said so.
    nodes: Vec<u32>,
}

enum Ticket {
    /// Processes of that node have testified: the keeper hears of it when all that they said has come.
    Testified { of: ProcId, node: u32 },
    /// The same when they have settled.
    Settled { of: ProcId, node: u32 },
    /// All here have testified for a dead process of another node.
    WeTestified { of: ProcId },
    /// All nodes have testified for one of ours.
    AllTestified { of: ProcId },
    /// What was under way to us, when all had testified for a dead process of another node, has come.
    MaySettle { of: ProcId },
    /// All here have settled.
    WeSettled { of: ProcId },
}

impl Cuts {
    pub(crate) fn is_empty(&self) -> bool {
        self.ours.is_empty() && self.open.is_empty() && self.theirs.is_empty() && self.tickets.is_empty()
    }

    /// A node is dead: nothing of its is asked any more, and it answers nothing. Dead processes of ours for which it was a witness.
    fn node_gone(&mut self, node: u32) {
        self.open.retain(|of, _| of.node() != node);
        self.theirs.retain(|of, _| of.node() != node);
        self.tickets.retain(|_, ticket| match ticket {
            Ticket::Testified { node: of, .. } | Ticket::Settled { node: of, .. } => *of != node,
            Ticket::WeTestified { of } | Ticket::MaySettle { of } | Ticket::WeSettled { of } => of.node() != node,
            Ticket::AllTestified { .. } => true,
        });
        self.ours.values_mut().for_each(|cut| cut.nodes.retain(|other| *other != node));
    }

    fn ticket(&mut self, ticket: Ticket) -> u64 {
        self.last += 1;
        self.tickets.insert(self.last, ticket);
        self.last
    }
}

impl<B: Body> Hub<B> {
    /// A process of another node is dead, and these have been told: they will testify.
    pub(crate) fn await_testimony(&mut self, step: &mut Step<'_, B>, of: ProcId, heir: ProcId, told: Vec<ProcId>) {
        self.cuts.open.insert(of, heir);
        self.hear_all(step, of, told, |of| Ticket::WeTestified { of });
    }

    /// A process has come in: of those deaths it was told as of others long ago. Once it can be told things.
    pub fn tell_of_open_cuts(&mut self, step: &mut Step<'_, B>, who: ProcId) {
        for (of, heir) in self.cuts.open.clone() {
            self.tell(step, who, FromNodeOf::Testify { of, heir });
        }
    }

    /// All have testified.
    pub(crate) fn cut_is_made(&mut self, of: ProcId) {
        self.cuts.open.remove(&of);
    }

    fn hear_all(&mut self, step: &mut Step<'_, B>, of: ProcId, told: Vec<ProcId>, then: fn(ProcId) -> Ticket) {
        self.cuts.theirs.insert(of, Awaited { who: told.into_iter().collect(), then });
        self.look_at_cut(step, of);
    }

    /// A process here has testified for one of another node, or has taken up what had come.
    pub(crate) fn was_heard(&mut self, step: &mut Step<'_, B>, who: ProcId, of: ProcId) {
        if self.cuts.theirs.get_mut(&of).is_some_and(|awaited| awaited.who.remove(&who)) {
            self.look_at_cut(step, of);
        }
    }

    /// If nobody here is awaited any more, all that was said is sent on.
    fn look_at_cut(&mut self, step: &mut Step<'_, B>, of: ProcId) {
        if self.cuts.theirs.get(&of).is_some_and(|awaited| awaited.who.is_empty())
            && let Some(awaited) = self.cuts.theirs.remove(&of)
        {
            let ticket = self.cuts.ticket((awaited.then)(of));
            step.body.flush(ticket);
        }
    }

    /// A process here is dead: nothing is awaited of it.
    pub(crate) fn cuts_without(&mut self, step: &mut Step<'_, B>, dead: ProcId) {
        let concerned = self.cuts.theirs.iter().filter(|(_, awaited)| awaited.who.contains(&dead));
        let mut concerned: Vec<ProcId> = concerned.map(|(of, _)| *of).collect();
        concerned.sort_unstable();
        concerned.into_iter().for_each(|of| self.was_heard(step, dead, of));
    }

    /// Another node has heard all its processes for a dead process of ours.
    pub(crate) fn on_node_testified(&mut self, step: &mut Step<'_, B>, node: u32, of: ProcId, sent: Positions) {
        let to_us = position_for(&sent, self.options.number);
        self.cuts.ours.entry(of).or_default().sent.insert(node, sent);
        let ticket = self.cuts.ticket(Ticket::Testified { of, node });
        step.body.reach(ticket, &[(node, to_us)]);
    }

    /// The keeper has heard all.
    pub(crate) fn settle_abroad(&mut self, step: &mut Step<'_, B>, of: ProcId, nodes: Vec<u32>) {
        let (nodes, gone): (Vec<u32>, Vec<u32>) = nodes.into_iter().partition(|node| self.abroad.has(*node));
        let keeper = self.estates.keeper();
        for node in gone {
            keeper.into_iter().for_each(|to| self.tell(step, to, FromNodeOf::NodeSettled { of, node }));
        }
        self.cuts.ours.entry(of).or_default().nodes = nodes;
        let ticket = self.cuts.ticket(Ticket::AllTestified { of });
        step.body.flush(ticket);
    }

    /// Another node has heard all nodes for a dead process of its own.
    pub(crate) fn on_settle_asked(&mut self, step: &mut Step<'_, B>, of: ProcId, reach: &[(u32, u64)]) {
        self.cut_is_made(of);
        let ticket = self.cuts.ticket(Ticket::MaySettle { of });
        step.body.reach(ticket, reach);
    }

    pub(crate) fn on_node_settled(&mut self, step: &mut Step<'_, B>, node: u32, of: ProcId, sent: u64) {
        let ticket = self.cuts.ticket(Ticket::Settled { of, node });
        step.body.reach(ticket, &[(node, sent)]);
    }

    /// It is known what a dead process of ours has left.
    pub(crate) fn tell_nodes_settled(&mut self, step: &mut Step<'_, B>, of: ProcId, serving: &[ProcId]) {
        self.cuts.ours.remove(&of);
        for node in self.abroad.nodes() {
            step.body.send(node, Between::Settled { of, serving: serving.to_vec() });
        }
    }

    /// A node is dead: as a witness it has nothing more to say.
    pub(crate) fn cuts_without_node(&mut self, step: &mut Step<'_, B>, node: u32) {
        self.cuts.node_gone(node);
        let Some(keeper) = self.estates.keeper() else { return };
        let unsettled: BTreeSet<ProcId> = self.estates.unsettled().collect();
        for of in unsettled {
            self.tell(step, keeper, FromNodeOf::NodeTestified { of, node });
            self.tell(step, keeper, FromNodeOf::NodeSettled { of, node });
        }
    }

    /// All that lay in rings when this was asked for is sent; so much has been by now.
    pub fn flushed(&mut self, step: &mut Step<'_, B>, ticket: u64, sent: Positions) {
        match self.cuts.tickets.remove(&ticket) {
            Some(Ticket::WeTestified { of }) => step.body.send(of.node(), Between::Testified { of, sent }),
            Some(Ticket::WeSettled { of }) => {
                let sent = position_for(&sent, of.node());
                step.body.send(of.node(), Between::HasSettled { of, sent });
            }
            Some(Ticket::AllTestified { of }) => {
                let Some(cut) = self.cuts.ours.get_mut(&of) else { return };
                let nodes = std::mem::take(&mut cut.nodes);
                cut.sent.insert(self.options.number, sent);
                for node in nodes {
                    let others = cut.sent.iter().filter(|(from, _)| **from != node);
                    let mut reach: Positions = others.map(|(from, sent)| (*from, position_for(sent, node))).collect();
                    reach.sort_unstable();
                    step.body.send(node, Between::Settle { of, reach });
                }
            }
            Some(Ticket::Testified { .. } | Ticket::Settled { .. } | Ticket::MaySettle { .. }) | None => {}
        }
    }

    /// All that was waited for with this ticket has come.
    pub fn reached(&mut self, step: &mut Step<'_, B>, ticket: u64) {
        let keeper = self.estates.keeper();
        match self.cuts.tickets.remove(&ticket) {
            Some(Ticket::Testified { of, node }) => {
                keeper.into_iter().for_each(|to| self.tell(step, to, FromNodeOf::NodeTestified { of, node }));
            }
            Some(Ticket::Settled { of, node }) => {
                keeper.into_iter().for_each(|to| self.tell(step, to, FromNodeOf::NodeSettled { of, node }));
            }
            Some(Ticket::MaySettle { of }) => {
                let told = self.everyone_who_hears();
                told.iter().for_each(|to| self.tell(step, *to, FromNodeOf::Settle { of }));
                self.hear_all(step, of, told, |of| Ticket::WeSettled { of });
            }
            Some(Ticket::WeTestified { .. } | Ticket::WeSettled { .. } | Ticket::AllTestified { .. }) | None => {}
        }
    }
}

fn position_for(sent: &[(u32, u64)], node: u32) -> u64 {
    sent.iter().find(|(to, _)| *to == node).map_or(0, |(_, position)| *position)
}
