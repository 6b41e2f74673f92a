//! What is said with all that gives references away: which deaths its sender knew of when it registered them.

use model::ProcId;
use wire::Malformed;
use wire::frame::{self, Header, KNEW};
use wire::journal::Ref;
use wire::peer::Knew;

use crate::Party;

/// What a message says of deaths, as those who read it use it.
#[must_use]
#[inline]
pub fn view(knew: &Knew) -> owner::Knew<'_> {
    match knew {
        Knew::Count(count) => owner::Knew::Count(*count),
        Knew::Dead(dead) => owner::Knew::Dead(dead),
    }
}

impl<P> Party<P> {
    /// What to say to this process with these references. `further`: somebody else whose death makes a difference.
    pub fn knew(&self, to: ProcId, refs: &[Ref], further: Option<ProcId>) -> Knew {
        if to.node() == self.me.node() {
            return Knew::Count(self.heirs.known());
        }
        Knew::Dead(self.known_dead(refs, further))
    }

    fn known_dead(&self, refs: &[Ref], further: Option<ProcId>) -> Vec<ProcId> {
        let named = refs.iter().map(|(_, owner)| *owner).chain(further);
        let mut dead: Vec<ProcId> = named.filter(|process| self.heirs.get(*process).is_some()).collect();
        dead.sort_unstable();
        dead.dedup();
        dead
    }

    /// The same, in a frame: in its header, or before its body, which is returned if it changes.
    #[inline]
    pub(crate) fn say_known(&self, to: ProcId, header: &mut Header, bytes: &[u8], refs: &[Ref]) -> Option<Vec<u8>> {
        if to.node() == self.me.node() {
            header.claim = self.heirs.known();
            return None;
        }
        self.say_known_abroad(header, bytes, refs)
    }

    #[cold]
    fn say_known_abroad(&self, header: &mut Header, bytes: &[u8], refs: &[Ref]) -> Option<Vec<u8>> {
        let dead = self.known_dead(refs, None);
        (!dead.is_empty()).then(|| {
            header.flags |= KNEW;
            frame::with_list(&dead, bytes)
        })
    }

    /// What a frame between us and that process says of deaths, and its body without that.
    ///
    /// # Errors
    /// If the bytes are no such frame.
    #[inline]
    pub fn read_known<'a>(
        &self,
        other: ProcId,
        header: &Header,
        body: &'a [u8],
    ) -> Result<(Knew, &'a [u8]), Malformed> {
        if other.node() == self.me.node() {
            return Ok((Knew::Count(header.claim), body));
        }
        let (dead, body) = frame::split_list(header.flags, body)?;
        Ok((Knew::Dead(dead), body))
    }
}
