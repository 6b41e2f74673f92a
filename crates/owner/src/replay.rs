//! Large values that a generator has yielded, and that are made again by running it again.
//!
//! The generator is kept from its first large value on, with those of its large values that somebody holds (LIN-2). When one is lost a second
//! run begins, be the first one over or not: it has no reader and no bound, and each value that it yields is taken for the object with the same
//! index if that has none, and let go otherwise. What does not come again fails.

use model::{ObjectId, TaskId, TaskKey, Yields};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::lineage::{Made, arguments, lost};
use crate::stream::{FIRST_INDEX, Reader, Stream, StreamKey};
use crate::tasks::Spec;
use crate::{Effect, Owner, Slot, Value};

/// Values of a generator, by their index among all that it yields.
pub(crate) type Items = FxHashMap<u32, Slot>;

/// The index of a value among all that its generator yields.
pub(crate) fn index_of(id: ObjectId) -> Option<u32> {
    id.index().checked_sub(FIRST_INDEX)
}

impl Owner {
    /// A value of a generator came: if it is large, the generator is kept for its sake.
    pub(crate) fn keep_item(&mut self, at: StreamKey, key: TaskKey, slot: Slot, out: &mut Vec<Effect>) {
        let is_bulky = |object: &&mut crate::Object| matches!(object.value, Some(Value::Bulk(_)));
        let Some(index) = self.objects.get_mut(slot).filter(is_bulky).and_then(|object| index_of(object.id)) else {
            return;
        };
        let Some(task) = self.task(key).filter(|task| task.spec.template.retries_max != 0 && !task.cancelled) else {
            return;
        };
        let kept = self.stream(at).and_then(|stream| stream.kept);
        let made = match kept.filter(|(made, generation)| self.made.generation(*made) == *generation) {
            Some((made, _)) => made,
            None => {
                let Spec { id, target, .. } = task.spec;
                let (template, payload) = (task.spec.template.clone(), task.spec.payload.clone());
                let (deps, contains) = (task.spec.deps.clone(), task.spec.contains.clone());
                let spec = Spec { id, template, target, payload, deps, contains };
                let (retries_left, oom_retries_left) = (task.retries_left, task.oom_retries_left);
                let number = task.number;
                for argument in arguments(&spec) {
                    if let Some(object) = self.objects.get_mut(argument) {
                        match object.owner {
                            None => object.traced += 1,
                            Some(_) => object.uses += 1,
                        }
                    }
                }
                let (returns, items) = (SmallVec::new(), Items::default());
                let made = Made { spec, filed: None, returns, items, retries_left, oom_retries_left, number, cell: 0 };
                let made = self.shelve(made);
                let generation = self.made.generation(made);
                if let Some(stream) = self.stream_mut(at) {
                    stream.kept = Some((made, generation));
                }
                made
            }
        };
        self.made.get_mut(made).expect("found or made above").items.insert(index, slot);
        self.objects.get_mut(slot).expect("seen above").lineage = Some(made);
        self.bound_lineage(out);
    }

    /// The generator was cancelled: it never runs again.
    pub(crate) fn forget_generator(&mut self, key: TaskKey, out: &mut Vec<Effect>) {
        let stream = self.task(key).and_then(|task| task.stream).and_then(|at| self.stream_mut(at));
        if let Some((made, generation)) = stream.and_then(|stream| stream.kept.take())
            && self.made.generation(made) == generation
        {
            self.abandon(made, None, "its generator was cancelled", out);
        }
    }

    /// The generator is going to run again for the sake of these.
    pub(crate) fn open_replay(&mut self, task: TaskKey, id: TaskId, yields: Yields, again: Items) {
        let ahead_max = match yields {
            Yields::Stream { ahead_max } => ahead_max,
            Yields::Nothing | Yields::List => 0,
        };
        let (slot, generation) = self.streams.insert(Stream::again(task, id, ahead_max, again));
        if let Some(task) = self.task_mut(task) {
            task.stream = Some(StreamKey { slot, generation });
        }
    }

    /// The second run has yielded its next value.
    pub(crate) fn on_item_again(
        &mut self,
        at: StreamKey,
        value: Value,
        contains: SmallVec<[Slot; 0]>,
        out: &mut Vec<Effect>,
    ) {
        let Some(stream) = self.stream_mut(at) else { return };
        let slot = stream.again.get(&stream.yielded).copied();
        stream.yielded += 1;
        match slot.filter(|slot| self.objects.get(*slot).is_some_and(|object| object.value.is_none())) {
            Some(slot) => self.set_value(slot, value, contains, out),
            None => self.discard(Some(&value), contains, out),
        }
    }

    /// The second run is over: what has not come fails. Returns the others: what is there, and what came and was lost behind the run.
    pub(crate) fn end_replay(
        &mut self,
        at: StreamKey,
        failure: Option<(Value, SmallVec<[Slot; 0]>)>,
        out: &mut Vec<Effect>,
    ) -> Items {
        let Some(Stream { again, yielded, .. }) = self.streams.remove(at.slot) else { return Items::default() };
        let lacks = |slot: Slot| self.objects.get(slot).is_some_and(|object| object.value.is_none());
        let is_missing = |index: u32, slot: Slot| lacks(slot) && (failure.is_some() || index >= yielded);
        let (missing, rest): (Items, Items) = again.into_iter().partition(|(index, slot)| is_missing(*index, *slot));
        let mut missing: Vec<(u32, Slot)> = missing.into_iter().collect();
        missing.sort_unstable();
        for (_, slot) in missing {
            let (value, contains) = match &failure {
                Some((value, contains)) => (value.clone(), self.share(contains)),
                None => {
                    let why = format!("its generator gave {yielded} values only when it was run again");
                    (lost(&why), SmallVec::new())
                }
            };
            self.resolve(slot, value, contains, out);
        }
        if let Some((value, contains)) = failure {
            self.discard(Some(&value), contains, out);
        }
        rest
    }

    /// The generator is kept again, or not: its values are without a maker from now on. Those that were lost behind the run are made once more.
    pub(crate) fn settle_replay(&mut self, items: Items, out: &mut Vec<Effect>) {
        let mut items: Vec<(u32, Slot)> = items.into_iter().collect();
        items.sort_unstable();
        for (_, slot) in &items {
            if let Some(object) = self.objects.get_mut(*slot) {
                object.set_maker(None);
            }
        }
        for (_, slot) in items {
            self.make_again(slot, "it was lost while its generator ran again", out);
            self.free_if_unheld(slot, out);
        }
    }

    /// Whether the second run of a generator makes this object.
    pub(crate) fn is_replayed(&self, at: StreamKey, slot: Slot) -> bool {
        let index = self.objects.get(slot).and_then(|object| index_of(object.id));
        index.is_some_and(|index| self.stream(at).is_some_and(|stream| stream.again.get(&index) == Some(&slot)))
    }

    pub(crate) fn check_replay(&self, stream: &Stream) {
        assert!(stream.reader == Reader::Again && stream.items.is_empty(), "STREAM-1: a second run has no reader");
        for slot in stream.again.values() {
            let maker = self.object(*slot).and_then(|object| object.maker());
            assert_eq!(maker, stream.task, "LIN-2: a value is gone before its generator has ended");
        }
    }
}
