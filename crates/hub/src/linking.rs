//! Carries the decisions about links out.

use model::{ProcId, Tick};
use wire::control::{FromNodeOf, Quiet};

use crate::body::{Body, Step};
use crate::hub::Hub;
use crate::links::{Effect, Links};

impl<B: Body> Hub<B> {
    /// `a` is going to call `b`: both are told of their rings, now or when there are some. False: they never will be.
    pub(crate) fn link(&mut self, step: &mut Step<'_, B>, a: ProcId, b: ProcId) -> bool {
        let can_talk = self.lives(a) && self.lives(b);
        // Of two that are elsewhere, their own nodes link them.
        if can_talk && (self.is_here(a) || self.is_here(b)) {
            self.meet(a, b);
            self.with_links(step, |links, now, out| links.want(now, a, b, out));
        }
        can_talk
    }

    pub(crate) fn on_idle(&mut self, step: &mut Step<'_, B>, who: ProcId, peer: ProcId, quiet: Option<Quiet>) {
        self.with_links(step, |links, now, out| links.answered(now, who, peer, quiet, out));
    }

    pub(crate) fn on_link_closed(&mut self, step: &mut Step<'_, B>, who: ProcId, peer: ProcId) {
        if self.is_here(who) && !self.is_here(peer) {
            step.body.unlinked(who, peer);
        }
        self.with_links(step, |links, now, out| links.let_go(now, who, peer, out));
        self.bury(step);
    }

    /// A process is dead, and its peers have been told.
    pub(crate) fn part_from(&mut self, step: &mut Step<'_, B>, dead: ProcId) {
        self.with_links(step, |links, now, out| links.died(now, dead, out));
        self.bury(step);
    }

    pub(crate) fn look_for_idle_links(&mut self, step: &mut Step<'_, B>) {
        if self.links.next_look().is_some_and(|next| next <= step.now) {
            let mut effects = Vec::new();
            self.links.look(step.now, |ring| step.body.level(ring), &mut effects);
            self.on_linking(step, effects);
        }
    }

    fn with_links(&mut self, step: &mut Step<'_, B>, change: impl FnOnce(&mut Links, Tick, &mut Vec<Effect>)) {
        let mut effects = Vec::new();
        change(&mut self.links, step.now, &mut effects);
        self.on_linking(step, effects);
    }

    fn on_linking(&mut self, step: &mut Step<'_, B>, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Linked { to, peer, rings } if !self.is_here(to) => step.body.linked(peer, to, rings),
                // The carrier keeps its rings while both live.
                Effect::Ask { to, peer } if !self.is_here(to) => self.on_idle(step, to, peer, None),
                Effect::Keep { to, .. } | Effect::Unlink { to, .. } if !self.is_here(to) => {}
                Effect::Linked { to, peer, rings } => self.tell(step, to, FromNodeOf::Linked { peer, rings }),
                Effect::Ask { to, peer } => self.tell(step, to, FromNodeOf::MayUnlink { peer }),
                Effect::Keep { to, peer } => self.tell(step, to, FromNodeOf::Keep { peer }),
                Effect::Unlink { to, peer } => self.tell(step, to, FromNodeOf::Unlink { peer }),
                Effect::Reset(ring) => step.body.reset_ring(ring),
            }
        }
    }
}
