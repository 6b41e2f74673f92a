//! Carries the decisions about links out.

use model::{ProcId, Tick};
use wire::control::{FromNode, Quiet};

use crate::links::{Effect, Level};
use crate::looped::Node;

impl Node {
    /// `a` is going to call `b`: both are told of their rings, now or when there are some. False: they never will be.
    pub(crate) fn link(&mut self, a: ProcId, b: ProcId) -> bool {
        let can_talk = self.procs.get(a).is_some() && self.procs.get(b).is_some();
        if can_talk {
            self.meet(a, b);
            self.with_links(|links, now, out| links.want(now, a, b, out));
        }
        can_talk
    }

    pub(crate) fn on_idle(&mut self, who: ProcId, peer: ProcId, quiet: Option<Quiet>) {
        self.with_links(|links, now, out| links.answered(now, who, peer, quiet, out));
    }

    pub(crate) fn on_link_closed(&mut self, who: ProcId, peer: ProcId) {
        self.with_links(|links, now, out| links.let_go(now, who, peer, out));
        self.bury();
    }

    /// A process is dead, and its peers have been told.
    pub(crate) fn part_from(&mut self, dead: ProcId) {
        self.with_links(|links, now, out| links.died(now, dead, out));
        self.bury();
    }

    pub(crate) fn look_for_idle_links(&mut self, now: Tick) {
        if self.links.next_look().is_some_and(|next| next <= now) {
            let segment = self.segment.clone();
            let level = |ring| {
                let (tail, head) = segment.ring_level(ring);
                Level { tail, head }
            };
            self.with_links(|links, now, out| links.look(now, level, out));
        }
    }

    fn with_links(&mut self, change: impl FnOnce(&mut crate::links::Links, Tick, &mut Vec<Effect>)) {
        let mut effects = Vec::new();
        change(&mut self.links, net::clock::now(), &mut effects);
        for effect in effects {
            match effect {
                Effect::Linked { to, peer, rings } => self.tell(to, &FromNode::Linked { peer, rings }),
                Effect::Ask { to, peer } => self.tell(to, &FromNode::MayUnlink { peer }),
                Effect::Keep { to, peer } => self.tell(to, &FromNode::Keep { peer }),
                Effect::Unlink { to, peer } => self.tell(to, &FromNode::Unlink { peer }),
                Effect::Reset(ring) => self.segment.reset_ring(ring),
            }
        }
    }
}
