//! Placement groups, as far as they concern one process: refs that become ready with them.

use std::sync::Arc;

use model::{Failure, GroupId, ObjectId};
use owner::{Slot, Value};
use wire::control::ToNode;

use crate::Runtime;
use crate::objects::Content;
use crate::state::State;

impl Runtime {
    /// An object that gets this value once the group has its bundles, with one handle; it fails if the group is removed before.
    pub fn group_ready(&self, id: ObjectId, group: GroupId, content: Content) -> Slot {
        let value = match content {
            Content::Inline(bytes) => Value::Inline(owner::Packed::from(bytes)),
            Content::Bulk(bulk) => Value::bulk(bulk),
        };
        let mut state = self.state.lock().expect("never poisoned");
        let slot = state.owner.on_promised(id);
        self.cells.set(slot, net::Readiness::Pending);
        state.groups_awaited.entry(group).or_default().push((slot, value));
        drop(state);
        self.send(&ToNode::WatchGroup { group });
        slot
    }

    /// The node says that a group has its bundles, or is no more.
    pub(crate) fn on_group(&self, state: &mut State, group: GroupId, is_there: bool) {
        for (slot, value) in state.groups_awaited.remove(&group).unwrap_or_default() {
            let value = match value {
                value if is_there => value,
                other => {
                    if let Some(bulk) = other.as_bulk() {
                        state.effects.push(owner::Effect::Discarded(bulk));
                    }
                    Value::Failed(Arc::new(Failure::GroupRemoved))
                }
            };
            state.owner.on_promise_kept(slot, value, &mut state.effects);
        }
    }
}
