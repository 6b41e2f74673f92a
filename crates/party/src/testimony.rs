//! A process that we had to do with is dead, and another one takes over what it has left: what that one must hear from us.
//!
//! Everyone testifies once for each dead process: what it holds of the dead one's objects, what it had lent to it, which of its calls it
//! will answer, which values lie in its memory. From then on the heir stands for the dead one, wherever that is named.
//!
//! A reference may be on its way while the two ends of its way testify. So the heir, when all have, asks everyone to take up what has come
//! in, and whoever finds such a reference claims a share of it; only then does the heir let go of what nobody holds.

use model::ProcId;
use owner::{Heard, Kept, Late, Legacy};
use wire::Malformed;
use wire::control::ToNode;
use wire::frame::{self, GIFT, GIVEN_BACK, KNEW, REPLY, UNSTARTED};
use wire::peer::{Peer, Shares, Testimony};

use crate::{Body, Party};

/// References in one message.
const PART_MAX: usize = 50_000;

impl<P> Party<P> {
    /// Replies that the dead process has never read go to its heir. If it has none, nobody but us tells the owners of what they say is kept.
    pub(crate) fn salvage(&mut self, body: &mut impl Body<Pin = P>, dead: ProcId, heir: Option<ProcId>) {
        for (header, bytes) in body.unread(dead) {
            if header.kind != REPLY || header.flags & UNSTARTED != 0 {
                continue;
            }
            let Ok((knew, reply)) = self.read_known(dead, &header, &bytes) else { continue };
            let (caller, request, flags) = (dead, header.request, header.flags & !(GIFT | KNEW));
            match heir {
                Some(heir) => {
                    let mut reply = reply.to_vec();
                    self.name_in_reply(body, heir, &mut reply);
                    body.relay(heir, Peer::Reply { caller, request, flags, knew, body: reply });
                }
                None if flags & GIVEN_BACK != 0 => {}
                None => self.tell_owners(body, &kept_in(reply).unwrap_or_default()),
            }
        }
    }

    /// Tells the heir all that we had to do with the dead.
    pub(crate) fn testify(&mut self, body: &mut impl Body<Pin = P>, of: ProcId, heir: ProcId) {
        let Heard { counted, astray } = self.heirs.on_death(of, heir);
        let Legacy { held, lent } = self.owner.on_owner_replaced(of, heir, counted, &mut self.effects);
        let mut serving = body.serving(of);
        serving.extend(self.heirs.replies_waiting(of));
        let given = self.places.inherit(of, heir);
        let mut parts: Vec<Testimony> = Vec::new();
        let part = || Testimony { of, held: vec![], lent: vec![], serving: vec![], given: vec![], is_last: false };
        parts.extend(held.chunks(PART_MAX).map(|held| Testimony { held: held.to_vec(), ..part() }));
        parts.extend(lent.chunks(PART_MAX).map(|lent| Testimony { lent: lent.to_vec(), ..part() }));
        parts.extend(given.chunks(PART_MAX).map(|given| Testimony { given: given.to_vec(), ..part() }));
        parts.push(Testimony { serving, is_last: true, ..part() });
        parts.into_iter().for_each(|part| body.relay(heir, Peer::Testimony(part)));
        for object in astray {
            body.relay(heir, Peer::Borrowed(vec![Shares { object, borrower: self.me, count: 1 }]));
        }
        if of.node() != self.me.node() {
            body.tell_node(ToNode::Testified { of });
        }
        self.count_late(body);
    }

    /// One more death is known: what was said by those who had heard of it before us may be counted now.
    pub(crate) fn count_late(&mut self, body: &mut impl Body<Pin = P>) {
        for Late { known, kept, slot } in self.heirs.take_late() {
            self.note_kept(body, known, kept);
            slot.into_iter().for_each(|slot| self.owner.on_handle_dropped(slot, &mut self.effects));
        }
    }

    /// We came in after a death that others still testify for: what we say of that estate is new.
    pub fn testify_for_nothing(&self, body: &mut impl Body<Pin = P>, of: ProcId, heir: ProcId) {
        let nothing = Testimony { of, held: vec![], lent: vec![], serving: vec![], given: vec![], is_last: true };
        body.relay(heir, Peer::Testimony(nothing));
    }

    /// All have testified, so what was registered with the dead has come in by now, and was taken up before this was handed in. What is
    /// found there is claimed, and then it is said that all was.
    pub(crate) fn on_settle(&mut self, of: ProcId, heir: ProcId) {
        self.words.add(ToNode::Relay { to: heir, message: Peer::Settled { of } });
    }

    /// The same for an estate on another node, whose node hears it of ours when all here have done so.
    pub fn on_settle_abroad(&mut self, of: ProcId) {
        self.words.add(ToNode::HasSettled { of });
    }
}

/// The references that a reply says are kept.
fn kept_in(reply: &[u8]) -> Result<Vec<Kept>, Malformed> {
    let kept = frame::kept_in(reply)?;
    Ok(kept.into_iter().map(|(id, owner, borrower)| Kept { id, owner, borrower }).collect())
}
