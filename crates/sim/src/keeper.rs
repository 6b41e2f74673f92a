//! What the keeper of a node finds in the records of a dead process, as the history of the run must know it.
//!
//! - **SIM-12** what somebody holds outlives its owner, if nobody else on its way was killed; a task of the dead ends by its rules; and in the
//!   end the keeper keeps nothing.

use model::{Bulk, ObjectId, ProcId};
use owner::Effect;
use rustc_hash::FxHashSet;
use wire::journal::Record;
use wire::peer::Content;

use crate::env::Env;
use crate::process::Process;

impl Process {
    /// The keeper takes over what a dead process has left.
    pub(crate) fn on_inherit(&mut self, env: &mut Env, of: ProcId, witnesses: Vec<ProcId>) {
        let had_value = self.look_at_records(env, of);
        let (party, mut hands) = self.parts(env);
        let Some(inherited) = party.inherit(&mut hands, of) else { return };
        for slot in inherited.slots() {
            let id = self.party.owner.object(slot).expect("inherited").id;
            match env.oracle.maker_of(&id) {
                Some(task) => drop(self.maker.insert(slot, task)),
                None => drop(self.puts.insert(slot, id)),
            }
        }
        // They had their value before: nothing has become of them now.
        let owner = &self.party.owner;
        let is_old = |slot| owner.object(slot).is_some_and(|object| had_value.contains(&object.id));
        self.party.effects.retain(|effect| !matches!(effect, Effect::Resolved(slot) if is_old(*slot)));
        self.apply(env);
        let (party, mut hands) = self.parts(env);
        party.keep(&mut hands, inherited, witnesses);
    }

    /// Which objects of the dead process have a value still; those that have lost it are lost with it.
    fn look_at_records(&self, env: &mut Env, of: ProcId) -> FxHashSet<ObjectId> {
        let mut had_value = FxHashSet::default();
        let Some(journal) = env.journals.get(&(self.pid.0, of)) else { return had_value };
        for (record, _) in journal.iter() {
            let Record::Object { id, content: Some(content) } = record else { continue };
            match content {
                Content::Bulk(Bulk::Filed(filed)) if !env.memories[self.pid.0].is_there(filed) => {
                    env.oracle.lost_with_its_owner(id);
                }
                _ => drop(had_value.insert(*id)),
            }
        }
        had_value
    }
}
