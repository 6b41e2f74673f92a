//! What a generator yields. Each value becomes an object of ours as it comes, and whoever reads the stream takes them in order.
//!
//! A stream that is read has one object more than values have come: the next one, which has no value yet or stands for the end. To wait
//! for the next value is to wait for that object, as for any other.
//!
//! A generator that is run again yields from the first value on; what has come before is not taken again (STREAM-1). What of that is lost is made
//! by a run of its own, see `replay.rs`.

use std::collections::VecDeque;
use std::sync::Arc;

use model::{Failure, ObjectId, ProcId, TaskId, TaskKey, Yields};
use smallvec::{SmallVec, smallvec};

use crate::objects::Object;
use crate::replay::Items;
use crate::tasks::{Stage, Task};
use crate::{Effect, Owner, Slot, Value};

/// A task's end is its first object, what it yields are the following ones.
pub(crate) const FIRST_INDEX: u32 = 2;

/// A stream in its owner's table: slot and generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamKey {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// What the reader of a stream finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The next value, or the failure that the generator ended with. The stream's handle on it is the reader's now.
    Item {
        /// The slot of the object.
        slot: Slot,
        /// Its public id.
        id: ObjectId,
    },
    /// Not there yet: this object is going to be it, or the end.
    Pending(Slot),
    /// There is nothing more.
    End,
}

/// Who takes what comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// Reads in order.
    Reads,
    /// Cancelled the generator: gets no value any more, only the end.
    Cancelled,
    /// Has gone: nothing is kept.
    Gone,
    /// The task's return value names everything.
    List,
    /// Nobody: it runs for the sake of what was lost.
    Again,
}

#[derive(Debug)]
pub(crate) struct Stream {
    /// Until it ends.
    pub(crate) task: Option<TaskKey>,
    id: TaskId,
    ahead_max: u32,
    pub(crate) reader: Reader,
    /// What has come and was not read. The last one, if somebody reads, is still to come or stands for the end.
    pub(crate) items: VecDeque<Slot>,
    /// Values that have come, over all runs.
    made: u32,
    /// Values that this run has yielded.
    pub(crate) yielded: u32,
    /// Values that were read.
    read: u32,
    /// Of a list: this run raised what the call wants to be tried again for.
    wants_retry: bool,
    /// The kept task for the sake of its large values: slot and generation.
    pub(crate) kept: Option<(u32, u32)>,
    /// Of a run for the sake of what was lost: what is taken if it lacks a value.
    pub(crate) again: Items,
}

impl Stream {
    fn new(task: TaskKey, id: TaskId, ahead_max: u32, reader: Reader) -> Self {
        Self {
            task: Some(task),
            id,
            ahead_max,
            reader,
            items: VecDeque::new(),
            made: 0,
            yielded: 0,
            read: 0,
            wants_retry: false,
            kept: None,
            again: Items::default(),
        }
    }

    /// A run for the sake of these.
    pub(crate) fn again(task: TaskKey, id: TaskId, ahead_max: u32, again: Items) -> Self {
        Self { again, ..Self::new(task, id, ahead_max, Reader::Again) }
    }
}

impl Owner {
    pub(crate) fn open_stream(&mut self, task: TaskKey, id: TaskId, yields: Yields) -> Option<StreamKey> {
        let (ahead_max, reader) = match yields {
            Yields::Nothing => return None,
            Yields::Stream { ahead_max } => (ahead_max, Reader::Reads),
            Yields::List => (0, Reader::List),
        };
        let mut stream = Stream::new(task, id, ahead_max, reader);
        if reader == Reader::Reads {
            stream.items.push_back(self.next_item(id, 0, Some(task)));
        }
        let (slot, generation) = self.streams.insert(stream);
        let key = Some(StreamKey { slot, generation });
        if let Some(task) = self.task_mut(task) {
            task.stream = key;
        }
        key
    }

    pub(crate) fn stream_mut(&mut self, key: StreamKey) -> Option<&mut Stream> {
        self.streams.get_at(key.slot, key.generation)
    }

    pub(crate) fn stream(&self, key: StreamKey) -> Option<&Stream> {
        (self.streams.generation(key.slot) == key.generation).then(|| self.streams.get(key.slot)).flatten()
    }

    fn stream_of(&mut self, task: TaskKey) -> Option<&mut Stream> {
        let key = self.task(task)?.stream?;
        self.stream_mut(key)
    }

    /// An object without a value, held by the stream.
    fn next_item(&mut self, id: TaskId, index: u32, maker: Option<TaskKey>) -> Slot {
        let mut object = Object::new(ObjectId::of(id, FIRST_INDEX + index), None);
        object.handles = 1;
        object.set_maker(maker);
        self.objects.insert(object).0
    }

    /// Shares of an object that we do not know. It may be a value of a list that is on its way, whose worker has named it already: word of that
    /// comes by way of the node.
    #[cold]
    pub(crate) fn on_early_shares(&mut self, id: &ObjectId, borrower: ProcId, count: i32) {
        let is_to_come = |stream: &Stream| stream.reader == Reader::List && stream.id == id.task();
        if self.streams.iter().any(|(_, _, stream)| is_to_come(stream)) {
            self.early_shares.entry(*id).or_default().push((borrower, count));
        }
    }

    fn take_early_shares(&mut self, slot: Slot) {
        if self.early_shares.is_empty() {
            return;
        }
        let Some(object) = self.objects.get_mut(slot) else { return };
        for (borrower, count) in self.early_shares.remove(&object.id).unwrap_or_default() {
            object.lend(borrower, count);
        }
    }

    /// The task yielded a value. One that came in an earlier run, or that nobody reads, is let go.
    pub fn on_item(
        &mut self,
        key: TaskKey,
        from: ProcId,
        value: Value,
        contains: SmallVec<[Slot; 0]>,
        out: &mut Vec<Effect>,
    ) {
        let is_under = |task: &&Task| matches!(task.stage, Stage::Under { worker, .. } if worker == from);
        let may_retry = |task: &Task| task.retries_left != 0 && !task.cancelled;
        let Some((at, may_retry)) =
            self.task(key).filter(is_under).and_then(|task| Some((task.stream?, may_retry(task))))
        else {
            return self.discard(Some(&value), contains, out);
        };
        let Some(stream) = self.stream_mut(at) else { return };
        if stream.reader == Reader::Again {
            return self.on_item_again(at, value, contains, out);
        }
        let is_known = stream.yielded < stream.made;
        stream.yielded += 1;
        if is_known || matches!(stream.reader, Reader::Cancelled | Reader::Gone) {
            stream.made = stream.made.max(stream.yielded);
            return self.discard(Some(&value), contains, out);
        }
        let (id, index) = (stream.id, stream.made);
        stream.made += 1;
        if stream.reader == Reader::List {
            stream.wants_retry |=
                may_retry && matches!(&value, Value::Failed(failure) if matches!(**failure, Failure::Retryable(_)));
            let slot = self.next_item(id, index, None);
            self.on_given_away(slot, out);
            self.take_early_shares(slot);
            self.stream_mut(at).expect("seen above").items.push_back(slot);
            self.resolve(slot, value, contains, out);
            return self.keep_item(at, key, slot, out);
        }
        let slot = self.push_next(at, Some(key));
        self.resolve(slot, value, contains, out);
        self.keep_item(at, key, slot, out);
    }

    /// Adds an object behind the one that was the next to come, and returns that one.
    fn push_next(&mut self, at: StreamKey, maker: Option<TaskKey>) -> Slot {
        let stream = self.stream_mut(at).expect("caller has seen it");
        let (id, index) = (stream.id, stream.made);
        let slot = *stream.items.back().expect("a stream that is read has a next object");
        let next = self.next_item(id, index, maker);
        self.stream_mut(at).expect("caller has seen it").items.push_back(next);
        slot
    }

    pub(crate) fn stream_wants_retry(&self, key: TaskKey) -> bool {
        self.task(key).and_then(|task| self.stream(task.stream?)).is_some_and(|stream| stream.wants_retry)
    }

    /// The task is going to run from its beginning, once more.
    pub(crate) fn rewind_stream(&mut self, key: TaskKey, out: &mut Vec<Effect>) {
        let Some(stream) = self.stream_of(key) else { return };
        (stream.yielded, stream.wants_retry) = (0, false);
        if stream.reader == Reader::List {
            // Nobody has seen them.
            stream.made = 0;
            let items = std::mem::take(&mut stream.items);
            items.into_iter().for_each(|slot| self.on_handle_dropped(slot, out));
        }
    }

    /// The task was cancelled: what has come and was not read never is.
    pub(crate) fn mute_stream(&mut self, key: TaskKey, out: &mut Vec<Effect>) {
        let Some(stream) = self.stream_of(key).filter(|stream| stream.reader == Reader::Reads) else { return };
        stream.reader = Reader::Cancelled;
        stream.read = stream.made;
        let unread = stream.items.len() - 1;
        let items: Vec<Slot> = stream.items.drain(..unread).collect();
        items.into_iter().for_each(|slot| self.on_handle_dropped(slot, out));
    }

    /// What the end of a task with a stream is, if not what the worker says: a generator that gave less than before is no success, and
    /// one that was cancelled is cancelled, wherever it was by then.
    pub(crate) fn checked_end(
        &mut self,
        task: &Task,
        reply: SmallVec<[(Value, SmallVec<[Slot; 0]>); 1]>,
        out: &mut Vec<Effect>,
    ) -> SmallVec<[(Value, SmallVec<[Slot; 0]>); 1]> {
        let Some(stream) = task.stream.and_then(|key| self.stream(key)) else { return reply };
        let is_success = !matches!(reply.first(), Some((Value::Failed(_), _)));
        let failure = match stream.reader {
            Reader::List | Reader::Again => return reply,
            _ if task.cancelled => Failure::Cancelled,
            Reader::Reads if is_success && stream.yielded < stream.made => {
                Failure::Replay { produced: stream.yielded, expected: stream.made }
            }
            _ => return reply,
        };
        reply.into_iter().for_each(|(value, contains)| self.discard(Some(&value), contains, out));
        smallvec![(Value::Failed(Arc::new(failure)), SmallVec::new())]
    }

    /// The task has ended: what is still to come is the failure, if there is one, and the end (STREAM-2). Returns what a second run was for.
    pub(crate) fn end_stream(
        &mut self,
        key: StreamKey,
        failure: Option<(Value, SmallVec<[Slot; 0]>)>,
        out: &mut Vec<Effect>,
    ) -> Items {
        if self.stream(key).is_some_and(|stream| stream.reader == Reader::Again) {
            return self.end_replay(key, failure, out);
        }
        let (failure, unread) = if self.is_stream_read(key) { (failure, None) } else { (None, failure) };
        unread.into_iter().for_each(|(value, contains)| self.discard(Some(&value), contains, out));
        let Some(stream) = self.stream_mut(key) else { return Items::default() };
        stream.task = None;
        match stream.reader {
            Reader::Again => {}
            Reader::Gone => _ = self.streams.remove(key.slot),
            Reader::List => {
                let (items, id) = (std::mem::take(&mut stream.items), stream.id);
                self.early_shares.retain(|item, _| item.task() != id);
                self.streams.remove(key.slot);
                items.into_iter().for_each(|slot| self.on_handle_dropped(slot, out));
            }
            Reader::Reads | Reader::Cancelled => {
                if let Some((failure, contains)) = failure {
                    stream.made += 1;
                    let slot = self.push_next(key, None);
                    self.resolve(slot, failure, contains, out);
                }
                let end = self.stream_next(key).expect("a stream that is read has a next object");
                self.resolve(end, Value::Inline(crate::Packed::from(&[][..])), SmallVec::new(), out);
            }
        }
        Items::default()
    }

    /// Whether somebody gets what comes, the failure that it ends with at least.
    pub(crate) fn is_stream_read(&self, key: StreamKey) -> bool {
        self.stream(key).is_some_and(|stream| matches!(stream.reader, Reader::Reads | Reader::Cancelled))
    }

    /// Somebody looks at the failure that a generator's call ended with. The one that its stream ends with is the same.
    pub(crate) fn on_end_read(&mut self, id: TaskId) {
        let ended = self.streams.iter().filter(|(_, _, stream)| stream.id == id && stream.task.is_none());
        let items: Vec<Slot> = ended.flat_map(|(_, _, stream)| stream.items.iter().copied()).collect();
        for slot in items {
            if let Some(object) = self.objects.get_mut(slot) {
                object.is_read = true;
            }
        }
    }

    /// The object that is the next to come, or stands for the end.
    #[must_use]
    pub(crate) fn stream_next(&self, key: StreamKey) -> Option<Slot> {
        self.stream(key).filter(|stream| stream.reader != Reader::List)?.items.back().copied()
    }

    /// The object that the reader of the stream gets next, or that stands for the end. It has a value as soon as `on_next` has an answer.
    #[must_use]
    pub fn stream_front(&self, key: StreamKey) -> Option<Slot> {
        self.stream(key)?.items.front().copied()
    }

    /// The first values that have come and were not read, no more than `most`; and the object that comes after all that have come, unless that
    /// stands for the end.
    #[must_use]
    pub fn stream_items(&self, key: StreamKey, most: usize) -> (Vec<Slot>, Option<Slot>) {
        let Some(stream) = self.stream(key) else { return (Vec::new(), None) };
        let come = stream.items.len().saturating_sub(1);
        let next = stream.items.back().copied().filter(|_| stream.task.is_some());
        (stream.items.iter().take(come.min(most)).copied().collect(), next)
    }

    /// Whether `on_next` would say that there is nothing more.
    #[must_use]
    pub fn is_stream_over(&self, key: StreamKey) -> bool {
        self.stream(key).is_none_or(|stream| stream.task.is_none() && stream.items.len() <= 1)
    }

    /// The reader takes the next value.
    pub fn on_next(&mut self, key: StreamKey, out: &mut Vec<Effect>) -> Next {
        let Some(stream) = self.stream_mut(key) else { return Next::End };
        let (Some(&slot), task) = (stream.items.front(), stream.task) else { return Next::End };
        if stream.items.len() == 1 {
            return if task.is_some() { Next::Pending(slot) } else { Next::End };
        }
        stream.items.pop_front();
        stream.read += 1;
        if stream.ahead_max > 0
            && let Some(task) = task
        {
            self.tell_consumed(task, out);
        }
        let id = self.objects.get(slot).expect("held by the stream").id;
        Next::Item { slot, id }
    }

    /// Nobody reads the stream any more. The task runs to its end, and nothing of what it yields is kept.
    pub fn on_stream_dropped(&mut self, key: StreamKey, out: &mut Vec<Effect>) {
        let Some(stream) = self.stream_mut(key) else { return };
        stream.reader = Reader::Gone;
        let (task, items) = (stream.task, std::mem::take(&mut stream.items));
        let is_bounded = stream.ahead_max > 0;
        for slot in items {
            // Not of one that a second run makes again.
            if let Some(object) = self.objects.get_mut(slot).filter(|object| object.maker() == task) {
                object.set_maker(None);
            }
            self.on_handle_dropped(slot, out);
        }
        match task {
            None => _ = self.streams.remove(key.slot),
            Some(task) if is_bounded => self.tell_consumed(task, out),
            Some(_) => {}
        }
    }

    /// How many of the task's items were read, if its generator waits for that. A worker that gets the task must know.
    #[must_use]
    pub fn consumed(&self, key: TaskKey) -> Option<u32> {
        let stream = self.stream(self.task(key)?.stream?)?;
        let is_unread = matches!(stream.reader, Reader::Gone | Reader::Again);
        let count = if is_unread { u32::MAX } else { stream.read };
        (stream.ahead_max > 0 && count > 0).then_some(count)
    }

    fn tell_consumed(&self, key: TaskKey, out: &mut Vec<Effect>) {
        if let (Some(count), Some(Stage::Under { worker, .. })) =
            (self.consumed(key), self.task(key).map(|task| task.stage))
        {
            out.push(Effect::Consumed { task: key, worker, count });
        }
    }

    /// STREAM-1, STREAM-2: what has come is there, in order, and something is always still to come or the end.
    pub(crate) fn check_streams(&self) {
        for (slot, generation, stream) in self.streams.iter() {
            let key = StreamKey { slot, generation };
            let is_known = stream.task.is_none_or(|task| self.task(task).is_some_and(|task| task.stream == Some(key)));
            assert!(is_known, "STREAM-2: a stream has lost its task");
            let has_value = |slot: &Slot| self.object(*slot).is_some_and(|object| object.value.is_some());
            let held = self.items_held(stream);
            assert!(held, "STREAM-1: an item is gone before it was read");
            match stream.reader {
                Reader::Again => self.check_replay(stream),
                Reader::Gone => assert!(stream.items.is_empty() && stream.task.is_some(), "STREAM-2: kept for nobody"),
                Reader::List => assert!(stream.task.is_some() && stream.items.iter().all(has_value)),
                Reader::Reads | Reader::Cancelled => {
                    let unread = stream.items.len() - 1;
                    let is_made = |slot: &Slot| self.object(*slot).is_some_and(|object| object.maker().is_some());
                    let is_there = |slot: &Slot| has_value(slot) || is_made(slot);
                    assert!(stream.items.iter().take(unread).all(is_there), "STREAM-1: a value is missing");
                    let is_over = stream.items.back().is_some_and(has_value);
                    assert_eq!(is_over, stream.task.is_none(), "STREAM-2: the end is not where the task ended");
                    assert!(stream.read <= stream.made, "STREAM-1: read before it came");
                }
            }
        }
    }

    fn items_held(&self, stream: &Stream) -> bool {
        stream.items.iter().all(|slot| self.object(*slot).is_some_and(|object| object.handles > 0))
    }
}
