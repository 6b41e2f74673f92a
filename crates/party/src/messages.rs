//! What other processes say, by way of the node.

use model::{Failure, ProcId};
use owner::{Gift, Packed, Value};
use wire::peer::{Content, Peer};
use wire::value;

use crate::knowing::view;
use crate::taking::{Sent, failed};
use crate::{Body, Party};

impl<P> Party<P> {
    /// Another process says something. What is the body's alone comes back. Before a `Settle` is handed in, all that lies in the rings is
    /// taken up, and the effects of that are applied.
    pub fn on_peer(&mut self, body: &mut impl Body<Pin = P>, sender: ProcId, message: Peer) -> Option<Peer> {
        match message {
            Peer::Want { object } if self.is_keeper && self.owner.slot_of(&object).is_none() => {
                // Its owner died and had no room to record it; or it is long gone.
                let content = Content::Failed(Failure::OwnerDied);
                let knew = self.knew(sender, &[], None);
                body.relay(sender, Peer::Have { object, content, refs: Vec::new(), knew });
            }
            Peer::Want { object } => self.owner.on_wanted(&object, sender, &mut self.effects),
            Peer::Have { object, content, refs, knew } => {
                let sent = Sent::now(sender, view(&knew));
                let (value, refs) = match content {
                    Content::Inline(bytes) => {
                        let refs = value::refs_of(&bytes);
                        (Value::Inline(Packed::from(bytes)), refs)
                    }
                    Content::Bulk(bulk) | Content::Away(bulk, _) => (Value::bulk(bulk), refs),
                    Content::Failed(failure) => {
                        let refs = value::refs_of_failure(&failure);
                        (failed(failure), refs)
                    }
                };
                let contains = self.take_contained(body, sent, refs);
                self.owner.on_have(&object, value, contains, &mut self.effects);
            }
            Peer::Borrowed(shares) => self.on_borrowed(body, sender, shares),
            Peer::Given { to, number, objects } => self.on_given(body, sender, Gift { to, number, objects }),
            Peer::CountGifts { from } => self.count_gifts(body, sender, from),
            Peer::GiftsCounted { from, count } => self.on_counted(from, sender, count),
            Peer::CancelObject { object, force, recursive } => {
                if let Some(slot) = self.owner.slot_of(&object) {
                    self.owner.on_cancel(slot, force, recursive, &mut self.effects);
                }
            }
            Peer::Free { object } => self.owner.on_free_asked(&object, &mut self.effects),
            Peer::Unreadable { object, bytes } => {
                self.owner.on_unreadable(&object, sender, bytes, &mut self.effects);
            }
            Peer::FreePlace(place) => self.free_given_place(body, place),
            Peer::KeepPlace(place) => self.keep_given(place),
            Peer::Reply { caller, request, flags, knew, body: bytes } => {
                let knew = view(&knew);
                let is_to_the_dead = self.heirs.is_outdated(caller, knew.of(caller));
                let sent = Sent { by: sender, knew, is_to_the_dead };
                self.on_orphan_reply(body, sent, (caller, request), flags, &bytes);
            }
            Peer::Testimony(testimony) => self.on_testimony(body, sender, testimony),
            Peer::Settle { of } => self.on_settle(of, sender),
            Peer::Settled { of } => self.on_settled(of, sender),
            message @ (Peer::Missing { .. } | Peer::Interrupt { .. }) => return Some(message),
        }
        None
    }

    /// The node knows no such process any more.
    pub fn on_undeliverable(&mut self, body: &mut impl Body<Pin = P>, to: ProcId, message: Peer) {
        self.dead.note(to);
        if let Some(heir) = self.heirs.get(to) {
            // What we hold and want we have told it already.
            if let Peer::Free { .. } | Peer::CancelObject { .. } = message {
                body.relay(heir, message);
            }
            return;
        }
        if let Peer::Want { .. } | Peer::Missing { .. } = message {
            self.owner.on_process_gone(to, &mut self.effects);
        }
    }
}
