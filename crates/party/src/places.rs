//! Large values: who keeps which bytes, and who frees them.
//!
//! A value lies in the extents of whoever wrote it, or in a file, and belongs to its owner. So each process knows what of its own lies with
//! others, which it keeps pinned, and what of others lies with it.

use model::{Bulk, FileId, Place, ProcId};
use rustc_hash::FxHashMap;
use wire::peer::Peer;

use crate::{Body, Party};

/// Whose room a value of ours takes, and what keeps it there.
struct Elsewhere<P> {
    holder: ProcId,
    place: Place,
    pin: P,
}

pub(crate) struct Places<P> {
    /// Values of ours in others' extents, by offset.
    elsewhere: FxHashMap<u64, Elsewhere<P>>,
    /// Values of others in our extents, by offset: whose, and where.
    given: FxHashMap<u64, (ProcId, Place)>,
    /// Files with values of ours, and how many of those each has.
    files: FxHashMap<FileId, u32>,
}

impl<P> Default for Places<P> {
    fn default() -> Self {
        Self { elsewhere: FxHashMap::default(), given: FxHashMap::default(), files: FxHashMap::default() }
    }
}

impl<P> Places<P> {
    #[inline]
    pub(crate) fn keep(&mut self, holder: ProcId, place: Place, pin: P) {
        self.elsewhere.insert(place.offset, Elsewhere { holder, place, pin });
    }

    #[inline]
    pub(crate) fn give(&mut self, to: ProcId, places: &[Place]) {
        for place in places {
            self.given.insert(place.offset, (to, *place));
        }
    }

    /// Who has inherited from a process has its values that lie with us. In the order of their places.
    pub(crate) fn inherit(&mut self, of: ProcId, heir: ProcId) -> Vec<Place> {
        let mut given = Vec::new();
        for (to, place) in self.given.values_mut().filter(|(to, _)| *to == of) {
            *to = heir;
            given.push(*place);
        }
        given.sort_unstable();
        given
    }
}

impl<P> Party<P> {
    /// A value of ours lies there.
    pub fn hold_file(&mut self, bulk: Bulk) {
        if let Bulk::Filed(filed) = bulk {
            *self.places.files.entry(filed.file).or_default() += 1;
        }
    }

    /// In how many files values of ours are.
    #[must_use]
    pub fn files_count(&self) -> usize {
        self.places.files.len()
    }

    /// Whether a value of ours at this offset lies in another process's extents.
    #[must_use]
    pub fn lies_elsewhere(&self, offset: u64) -> bool {
        self.places.elsewhere.contains_key(&offset)
    }

    /// Whether values of others lie in our extents.
    #[must_use]
    pub fn has_given_places(&self) -> bool {
        !self.places.given.is_empty()
    }

    /// Whether it holds anything in memory or in files.
    #[must_use]
    pub fn holds_places(&self) -> bool {
        let Places { elsewhere, given, files } = &self.places;
        !(elsewhere.is_empty() && given.is_empty() && files.is_empty())
    }

    /// Frees a large value's bytes.
    ///
    /// tour(object) 9: its room is free: ours at once, another process's by a word to that one, a file with its last value.
    pub fn free_bulk(&mut self, body: &mut impl Body<Pin = P>, bulk: Bulk) {
        if self.is_away(bulk) && body.names_travel() {
            return body.free_away(bulk);
        }
        match bulk {
            Bulk::Stored(place) => match self.places.elsewhere.remove(&place.offset) {
                Some(Elsewhere { holder, pin, .. }) => {
                    body.unpin(place, pin);
                    if !self.dead.has(holder) {
                        body.relay(holder, Peer::FreePlace(place));
                    }
                }
                None => body.free(place),
            },
            Bulk::Filed(filed) => {
                if self.let_go_of_file(filed.file) {
                    body.remove_file(filed.file);
                }
            }
        }
    }

    /// Whether it lies on another node, or was there first.
    pub(crate) fn is_away(&self, bulk: Bulk) -> bool {
        bulk.node() != self.me.node()
    }

    /// A value in our extents is kept by our node for a process of another one, which does not answer for it.
    pub(crate) fn keep_given(&mut self, place: Place) {
        let node = ProcId::of_node(self.me.node());
        if let Some((to, _)) = self.places.given.get_mut(&place.offset).filter(|(_, given)| *given == place) {
            *to = node;
        }
    }

    /// One value fewer in the file. True if it was the last one.
    fn let_go_of_file(&mut self, file: FileId) -> bool {
        match self.places.files.get_mut(&file) {
            Some(count) if *count > 1 => {
                *count -= 1;
                false
            }
            _ => {
                self.places.files.remove(&file);
                true
            }
        }
    }

    /// Whoever a value in our extents belongs to needs it no more.
    pub(crate) fn free_given_place(&mut self, body: &mut impl Body<Pin = P>, place: Place) {
        // Only what lies there now: the place may have been freed already, for a death, and given again.
        if self.places.given.get(&place.offset).is_some_and(|(_, given)| *given == place) {
            self.places.given.remove(&place.offset);
            body.free(place);
        }
    }

    /// The process that values were given to is dead.
    pub(crate) fn free_given(&mut self, body: &mut impl Body<Pin = P>, dead: ProcId) {
        let given = self.places.given.values().filter(|(to, _)| *to == dead);
        let mut gone: Vec<Place> = given.map(|(_, place)| *place).collect();
        gone.sort_unstable();
        gone.into_iter().for_each(|place| self.free_given_place(body, place));
    }

    /// A value of a dead process's, which is ours now, lies with this witness. If we do not have it, the room is free.
    pub(crate) fn on_lies_with(&mut self, body: &mut impl Body<Pin = P>, witness: ProcId, place: Place) {
        // What has come here as a name is its node's to keep; what has not is not needed.
        match self.places.elsewhere.get_mut(&place.offset) {
            Some(known) if known.place == place => known.holder = witness,
            _ => body.relay(witness, Peer::FreePlace(place)),
        }
    }
}
