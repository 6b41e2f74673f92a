//! Placement groups, as far as they concern one process: refs that become ready with them.

use std::sync::Arc;
use std::time::Duration;

use model::{Failure, GroupId, ObjectId};
use owner::{Slot, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use wire::control::{Question, ToNode};

use crate::objects::Content;
use crate::state::State;
use crate::{Error, Runtime};

/// What this process knows of placement groups.
#[derive(Default)]
pub(crate) struct Groups {
    /// Ours that had their bundles at once, and that nobody else knows yet: nobody can have removed them.
    fresh: FxHashSet<GroupId>,
    /// Of those, the ones in which nothing of ours was placed and of which no handle was given away. That they are there was told perhaps.
    unused: FxHashSet<GroupId>,
    /// Objects that get their value once a group has its bundles.
    awaited: FxHashMap<GroupId, Vec<(Slot, Value)>>,
}

impl Groups {
    /// A group of ours had its bundles at once.
    pub(crate) fn on_made(&mut self, group: GroupId) {
        self.fresh.insert(group);
        self.unused.insert(group);
    }

    /// Others may know the group, or something may be in it; or it is no more.
    fn share(&mut self, group: GroupId) {
        self.fresh.remove(&group);
        self.unused.remove(&group);
    }

    /// Whether nothing can be in the group. It is not asked again.
    fn take_unused(&mut self, group: GroupId) -> bool {
        let is_unused = self.unused.remove(&group);
        if is_unused {
            self.fresh.remove(&group);
        }
        is_unused
    }
}

impl Runtime {
    /// An object that gets this value once the group has its bundles, with one handle; it fails if the group is removed before.
    pub fn group_ready(&self, id: ObjectId, group: GroupId, content: Content) -> Slot {
        let value = match content {
            Content::Inline(bytes) => Value::Inline(owner::Packed::from(bytes)),
            Content::Bulk(bulk) => Value::bulk(bulk),
        };
        let mut state = self.state.lock().expect("never poisoned");
        let slot = state.party.owner.on_promised(id);
        self.cells.set(slot, net::Readiness::Pending);
        state.groups.awaited.entry(group).or_default().push((slot, value));
        drop(state);
        self.send(&ToNode::WatchGroup { group });
        slot
    }

    /// Whether the group has its bundles for certain, without a question to the node. From now on others may know the group, by the value of
    /// the ref that becomes ready with it: whoever asks again is not told so any more.
    pub fn take_fresh_group(&self, group: GroupId) -> bool {
        self.state.lock().expect("never poisoned").groups.fresh.remove(&group)
    }

    /// Something is placed in the group, or a handle on it given away.
    pub fn share_group(&self, group: GroupId) {
        self.state.lock().expect("never poisoned").groups.share(group);
    }

    /// Removes a group in which nothing can be, without waiting for that: whatever this process asks the node later comes after it. False if
    /// there may be something, which would end some time after this has returned.
    ///
    /// # Errors
    /// If the node is gone.
    pub fn remove_unused_group(&self, group: GroupId) -> Result<bool, Error> {
        if self.is_closed() {
            return Err(Error::Closed);
        }
        let mut state = self.state.lock().expect("never poisoned");
        let is_unused = state.groups.take_unused(group);
        if is_unused {
            self.send(&ToNode::RemoveGroup(group));
        }
        Ok(is_unused)
    }

    /// Removes a group. Must not be called with the interpreter's lock held.
    ///
    /// # Errors
    /// If the node is gone or does not answer in time.
    pub fn remove_group(&self, group: GroupId, limit: Duration) -> Result<(), Error> {
        self.share_group(group);
        self.ask(Question::RemoveGroup(group), limit).map(drop)
    }

    /// The node says that a group has its bundles, or is no more.
    pub(crate) fn on_group(&self, state: &mut State, group: GroupId, is_there: bool) {
        let mut awaited = state.groups.awaited.remove(&group).unwrap_or_default();
        if !is_there {
            state.groups.share(group);
        } else if awaited.len() > 1 {
            // This answers whoever asked first. The others may have asked when the group was gone: they ask once more.
            let later = awaited.split_off(1);
            state.groups.awaited.insert(group, later);
            self.send(&ToNode::WatchGroup { group });
        }
        for (slot, value) in awaited {
            let value = match value {
                value if is_there => value,
                other => {
                    if let Some(bulk) = other.as_bulk() {
                        state.party.effects.push(owner::Effect::Discarded(bulk));
                    }
                    Value::Failed(Arc::new(Failure::GroupRemoved))
                }
            };
            state.party.owner.on_promise_kept(slot, value, &mut state.party.effects);
        }
    }
}
