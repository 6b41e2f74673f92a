//! A look inside, for tests and for people: which objects this process knows, and who holds them.

use model::Bulk;
use owner::{Slot, Value};
use wire::control::ToNode;
use wire::status::{Holdings, ObjectRow, Whereabouts};

use crate::Runtime;
use crate::state::State;

impl Runtime {
    /// Every object that this process knows.
    #[must_use]
    pub fn objects(&self) -> Vec<ObjectRow> {
        let mut state = self.state.lock().expect("never poisoned");
        self.drain(&mut state);
        state.party.owner.objects().map(|(slot, object)| self.row(&state, slot, object)).collect()
    }

    fn row(&self, state: &State, slot: Slot, object: &owner::Object) -> ObjectRow {
        let (place, bytes) = match &object.value {
            None => (Whereabouts::Pending, 0),
            Some(Value::Inline(bytes)) => (Whereabouts::Inline, bytes.len() as u64),
            Some(Value::Bulk(bulk)) => (
                if matches!(**bulk, Bulk::Stored(_)) { Whereabouts::Stored } else { Whereabouts::Filed },
                bulk.length(),
            ),
            Some(Value::Failed(_)) => (Whereabouts::Failed, 0),
        };
        let (handles, uses) = object.counts();
        let nodes = match &object.value {
            None | Some(Value::Failed(_)) => Vec::new(),
            Some(Value::Inline(_)) => vec![object.owner.unwrap_or(self.me).node()],
            Some(Value::Bulk(bulk)) => {
                let has_copy = self.is_away(**bulk) && self.look_near(**bulk).is_some();
                std::iter::once(bulk.node()).chain(has_copy.then(|| self.me.node())).collect()
            }
        };
        ObjectRow {
            object: object.id,
            owner: object.owner.unwrap_or(self.me),
            state: place,
            bytes,
            nodes,
            handles,
            uses,
            borrowers: object.borrowers_count() as u32,
            is_actor: object.is_actor(),
            site: state.sites.get(&slot).cloned().unwrap_or_default(),
        }
    }

    /// The refs on these objects were made there in the program.
    pub fn note_site(&self, slots: &[Slot], site: &str) {
        let mut state = self.state.lock().expect("never poisoned");
        for slot in slots {
            state.sites.insert(*slot, site.into());
        }
    }

    /// The node asks what this process holds.
    pub(crate) fn tell_holdings(&self, number: u64, limit: u32) {
        let mut objects = self.objects();
        let objects_count = objects.len() as u64;
        objects.sort_unstable_by_key(|row| std::cmp::Reverse(row.bytes));
        objects.truncate(limit as usize);
        let (tasks, files) = {
            let state = self.state.lock().expect("never poisoned");
            (state.party.owner.tasks_pending() as u64, state.party.files_count() as u64)
        };
        let holdings = Holdings {
            process: self.me,
            pid: rustix::process::getpid().as_raw_nonzero().get(),
            state: wire::status::ProcessState::default(),
            objects,
            objects_count,
            tasks,
            pins: self.store.pins_count() as u64,
            store_bytes: self.store.used_bytes(),
            files,
        };
        self.send(&ToNode::Holdings { number, holdings });
    }
}
