//! What must be known if this process dies: every object that it has given away, and whatever it takes to make those that are not there
//! yet or could be lost.
//!
//! An object is recorded when its name first leaves the process, and its record follows its value; a task is recorded for the sake of an
//! object that it makes, with all that it needs. The body writes the records when it applies the effects, before anything that they stem
//! from is seen by others. Nothing is recorded in a process that takes its node down with it.

use model::{Filed, ProcId, TaskKey};

use crate::tasks::{Spec, Stage, Target};
use crate::{Effect, Owner, Slot};

/// Stands for a cell while the record is not written yet, or found no room.
const WANTED: u32 = u32::MAX;

/// What a record is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// An object.
    Object(Slot),
    /// A task that has not ended.
    Task(TaskKey),
    /// A task that has ended and can run again.
    Made(u32),
}

/// What a task's record says beside the task itself.
#[derive(Clone, Copy, Debug)]
pub struct TaskFacts<'a> {
    /// As it was submitted.
    pub spec: &'a Spec,
    /// Where its arguments lie, if that is a file. They stay there as long as the task is recorded.
    pub filed: Option<Filed>,
    /// The objects that it makes; those beyond the table are gone.
    pub returns: &'a [Slot],
    /// The object that stands for the actor that it calls.
    pub life: Option<Slot>,
    /// What else it holds.
    pub holds: &'a [Slot],
    /// The process that it was sent to.
    pub worker: Option<ProcId>,
    /// Runs that are left after a failure.
    pub retries_left: i32,
    /// Runs that are left after its worker was killed for want of memory.
    pub oom_retries_left: i32,
    /// Its number among the tasks of its owner.
    pub number: u64,
}

pub(crate) fn erase(cell: u32, out: &mut Vec<Effect>) {
    if cell != 0 && cell != WANTED {
        out.push(Effect::Erase(cell));
    }
}

impl Owner {
    /// Others live on when this process dies.
    pub fn set_mortal(&mut self) {
        self.is_mortal = true;
    }

    /// Records an object of ours, and what it takes to make it.
    pub(crate) fn record(&mut self, slot: Slot, out: &mut Vec<Effect>) {
        let mut wanted = vec![slot];
        while let Some(slot) = wanted.pop() {
            let Some(object) = self.objects.get(slot) else { continue };
            if object.owner.is_some() || object.cell != 0 || object.actor.is_some() {
                continue;
            }
            self.by_id.insert(object.id, slot);
            self.objects.get_mut(slot).expect("seen above").cell = WANTED;
            out.push(Effect::Record(Recorded::Object(slot)));
            self.record_maker(slot, &mut wanted, out);
        }
    }

    /// A recorded object is not what it was.
    #[cold]
    pub(crate) fn record_changed(&mut self, slot: Slot, out: &mut Vec<Effect>) {
        out.push(Effect::Record(Recorded::Object(slot)));
        let mut wanted = Vec::new();
        self.record_maker(slot, &mut wanted, out);
        wanted.into_iter().for_each(|slot| self.record(slot, out));
    }

    fn record_maker(&mut self, slot: Slot, wanted: &mut Vec<Slot>, out: &mut Vec<Effect>) {
        let Some(object) = self.objects.get(slot) else { return };
        let (maker, lineage) = (object.maker(), object.lineage);
        if let Some(key) = maker
            && let Some(task) = self.task_mut(key).filter(|task| task.cell == 0 && task.stream.is_none())
        {
            task.cell = WANTED;
            wanted.extend(task.spec.deps.iter().chain(&task.spec.contains));
            out.push(Effect::Record(Recorded::Task(key)));
        }
        if let Some(key) = lineage
            // An heir runs no generator again.
            && let Some(made) = self.made.get_mut(key).filter(|made| made.cell == 0 && made.items.is_empty())
        {
            made.cell = WANTED;
            wanted.extend(made.spec.deps.iter().chain(&made.spec.contains));
            out.push(Effect::Record(Recorded::Made(key)));
        }
    }

    /// Whether there is a record of the task to be kept true.
    #[must_use]
    #[inline]
    pub fn is_recorded(&self, key: TaskKey) -> bool {
        self.is_mortal && self.task(key).is_some_and(|task| task.cell != 0)
    }

    /// Where a task stands has changed without its being sent.
    pub(crate) fn note(&mut self, key: TaskKey, out: &mut Vec<Effect>) {
        if self.is_recorded(key) {
            out.push(Effect::Note(key));
        }
    }

    fn cell_mut(&mut self, what: Recorded) -> Option<&mut u32> {
        Some(match what {
            Recorded::Object(slot) => &mut self.objects.get_mut(slot)?.rare_mut()?.cell,
            Recorded::Task(key) => &mut self.task_mut(key)?.cell,
            Recorded::Made(key) => &mut self.made.get_mut(key)?.cell,
        })
    }

    /// Whether this is to be recorded, and where it was recorded before. None: it is gone.
    #[must_use]
    pub fn cell(&mut self, what: Recorded) -> Option<Option<u32>> {
        let cell = *self.cell_mut(what)?;
        (cell != 0).then_some(Some(cell).filter(|cell| *cell != WANTED))
    }

    /// Where it is recorded now; nowhere if there was no room.
    pub fn on_recorded(&mut self, what: Recorded, cell: Option<u32>) {
        if let Some(at) = self.cell_mut(what) {
            *at = cell.unwrap_or(WANTED);
        }
    }

    /// What there is to say of a task.
    #[must_use]
    pub fn task_facts(&self, what: Recorded) -> Option<TaskFacts<'_>> {
        match what {
            Recorded::Object(_) => None,
            Recorded::Task(key) => {
                let task = self.task(key)?;
                let worker = match task.stage {
                    Stage::Under { worker, ticket } if ticket != 0 => Some(worker),
                    _ => None,
                };
                Some(TaskFacts {
                    spec: &task.spec,
                    filed: self.arguments_filed(key),
                    returns: &task.returns,
                    life: task.life,
                    holds: &task.holds,
                    worker,
                    retries_left: task.retries_left,
                    oom_retries_left: task.oom_retries_left,
                    number: task.number,
                })
            }
            Recorded::Made(key) => {
                let made = self.made.get(key)?;
                Some(TaskFacts {
                    spec: &made.spec,
                    filed: made.filed,
                    returns: &made.returns,
                    life: None,
                    holds: &[],
                    worker: None,
                    retries_left: made.retries_left,
                    oom_retries_left: made.oom_retries_left,
                    number: 0,
                })
            }
        }
    }

    /// Whether calls on the actor that the task calls keep their order.
    #[must_use]
    pub fn is_ordered(&self, spec: &Spec) -> bool {
        match spec.target {
            Target::Pool => false,
            Target::Actor(actor) => self.callee(&actor).is_some_and(|callee| callee.is_ordered(spec.template.group)),
        }
    }
}
