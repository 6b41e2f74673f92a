//! A look inside, for tests and for people: which objects this process knows, and who holds them.

use model::{Bulk, ObjectId, ProcId};
use owner::Value;

use crate::Runtime;

/// One object that this process knows.
#[derive(Clone, Debug)]
pub struct ObjectFacts {
    /// Which.
    pub id: ObjectId,
    /// Whose; none: ours.
    pub owner: Option<ProcId>,
    /// `pending`, `inline`, `stored` (in the arena), `filed` (on disk) or `failed`.
    pub value: &'static str,
    /// Of the encoded value, as far as it is known here.
    pub bytes: u64,
    /// Handles in this process.
    pub handles: u32,
    /// Pending tasks and containers that use it.
    pub uses: u32,
    /// Other processes that borrow it.
    pub borrowers: usize,
    /// It stands for an actor.
    pub is_actor: bool,
}

impl Runtime {
    /// Every object that this process knows.
    #[must_use]
    pub fn objects(&self) -> Vec<ObjectFacts> {
        let mut state = self.state.lock().expect("never poisoned");
        self.drain(&mut state);
        let facts = |object: &owner::Object| {
            let (value, bytes) = match &object.value {
                None => ("pending", 0),
                Some(Value::Inline(bytes)) => ("inline", bytes.len() as u64),
                Some(Value::Bulk(bulk)) => {
                    (if matches!(**bulk, Bulk::Stored(_)) { "stored" } else { "filed" }, bulk.length())
                }
                Some(Value::Failed(_)) => ("failed", 0),
            };
            let (handles, uses) = object.counts();
            let (id, owner, borrowers) = (object.id, object.owner, object.borrowers_count());
            ObjectFacts { id, owner, value, bytes, handles, uses, borrowers, is_actor: object.is_actor() }
        };
        state.owner.objects().map(|(_, object)| facts(object)).collect()
    }
}
