//! Objects whose value comes from the node and not from a task: that a placement group has its bundles, say.

use model::ObjectId;
use smallvec::SmallVec;

use crate::objects::Object;
use crate::{Effect, Owner, Slot, Value};

impl Owner {
    /// Makes an object with one handle that gets its value by `on_promise_kept`. It is kept until then.
    pub fn on_promised(&mut self, id: ObjectId) -> Slot {
        let mut object = Object::new(id, None);
        (object.handles, object.uses) = (1, 1);
        let (slot, _) = self.objects.insert(object);
        self.promised.insert(slot);
        slot
    }

    /// The object's value, or why there is none. Of one that has it nothing more is heard.
    pub fn on_promise_kept(&mut self, slot: Slot, value: Value, out: &mut Vec<Effect>) {
        if self.promised.remove(&slot) {
            self.resolve(slot, value, SmallVec::new(), out);
            self.release(slot, out);
        }
    }
}
