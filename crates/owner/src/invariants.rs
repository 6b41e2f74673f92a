//! Looks at everything and panics if a promise is broken. For tests and the simulator.

use model::{Failure, TaskKey};
use rustc_hash::FxHashMap;

use crate::actors::CalleeState;
use crate::shelf::EVICTED;
use crate::{Owner, PIPELINE_MAX, Slot, Stage, Target, Value};

impl Owner {
    /// Panics if one of the invariants listed in the crate's documentation does not hold between two events.
    pub fn check_invariants(&self) {
        self.check_ends();
        self.check_streams();
        self.check_holds();
        self.check_shelf();
        self.check_retries();
        self.check_places();
        self.check_leases();
        self.check_calls();
    }

    /// OWN-1: what has no value yet is made by a task that has not ended, and whoever waits for it is told.
    fn check_ends(&self) {
        for (slot, object) in self.objects() {
            match object.maker() {
                Some(key) => {
                    let task = self.task(key).unwrap_or_else(|| panic!("OWN-1: {} has lost its maker", object.id));
                    let is_next = task.stream.is_some_and(|stream| self.stream_next(stream) == Some(slot));
                    let is_again = task.stream.is_some_and(|stream| self.is_replayed(stream, slot));
                    let is_its_own = task.returns.contains(&slot) || is_next || is_again;
                    assert!(is_its_own, "OWN-1: {} is not what its maker makes", object.id);
                }
                None if object.owner.is_none() && !self.promised.contains(&slot) => {
                    let can_come = object.lineage.is_some_and(|key| key != EVICTED);
                    assert!(object.value.is_some() || can_come, "OWN-1: {} never ends", object.id);
                }
                None => {}
            }
            let is_open = object.value.is_none();
            assert!(is_open || object.waiting.is_empty(), "OWN-1: {} is there, and waited for", object.id);
            assert!(is_open || object.wanted_by.is_empty(), "OWN-1: {} is there, and wanted", object.id);
        }
        for (key, task) in self.tasks() {
            for slot in &task.returns {
                let Some(maker) = self.object(*slot).map(|object| object.maker()) else { continue };
                assert_eq!(maker, Some(key), "OWN-1: a value of {:?} is gone before it ends", task.spec.id);
            }
            let lacks = |dep: &Slot| self.object(*dep).is_some_and(|object| object.value.is_none());
            let missing = task.spec.deps.iter().filter(|dep| lacks(dep)).count();
            match task.stage {
                Stage::Waiting(count) => assert_eq!(count as usize, missing, "OWN-1: waits for the wrong number"),
                // What is on its way was sent when all was there; what reads or is looked for sees then what it lacks.
                Stage::Under { .. } | Stage::Limbo { .. } | Stage::Orphan | Stage::Reading | Stage::Looking => {}
                Stage::Queued => assert_eq!(missing, 0, "OWN-1: {:?} does not wait for its argument", task.spec.id),
            }
            assert!(!matches!(task.stage, Stage::Waiting(0)), "OWN-1: {:?} waits for nothing", task.spec.id);
            let is_waiting = matches!(task.stage, Stage::Waiting(_));
            for dep in task.spec.deps.iter().filter(|dep| is_waiting && lacks(dep)) {
                let is_told_by = |object: &crate::Object| {
                    let maker = object.maker().and_then(|maker| self.task(maker));
                    object.waiting.contains(&key) || maker.is_some_and(|maker| maker.waiter == Some(key))
                };
                let told = self.object(*dep).is_some_and(is_told_by);
                assert!(told, "OWN-1: {:?} is never told of its argument", task.spec.id);
            }
        }
        assert!(self.readied.is_empty(), "OWN-1: somebody was not told");
    }

    /// OWN-2: what is used is counted, and what nobody holds is gone.
    fn check_holds(&self) {
        let mut uses: FxHashMap<Slot, u32> = FxHashMap::default();
        let in_tasks = self.tasks().flat_map(|(_, task)| {
            task.spec.deps.iter().chain(&task.spec.contains).chain(&task.life).chain(&task.holds)
        });
        let in_objects = self.objects().flat_map(|(_, object)| &object.contains).chain(&self.promised);
        for slot in in_tasks.chain(in_objects) {
            *uses.entry(*slot).or_default() += 1;
        }
        let mut traced: FxHashMap<Slot, u32> = FxHashMap::default();
        for (key, _, made) in self.made.iter() {
            for argument in made.spec.deps.iter().chain(&made.spec.contains) {
                let is_ours = self.object(*argument).is_some_and(|object| object.owner.is_none());
                *if is_ours { &mut traced } else { &mut uses }.entry(*argument).or_default() += 1;
            }
            let knows = |slot: &Slot| self.object(*slot).is_some_and(|object| object.lineage == Some(key));
            let is_known = made.returns.iter().any(knows) || !made.items.is_empty();
            assert!(is_known && made.items.values().all(knows), "LIN-2: {:?} is kept for nothing", made.spec.id);
        }
        for (slot, object) in self.objects() {
            let counted = uses.remove(&slot).unwrap_or(0);
            assert_eq!(object.uses, counted, "OWN-2: {} is miscounted", object.id);
            assert_eq!(object.traced, traced.remove(&slot).unwrap_or(0), "LIN-2: {} is miscounted", object.id);
            assert!(object.is_held() || object.traced > 0, "OWN-2: nobody holds {}", object.id);
            assert!(object.lent.is_empty() || object.guests > 0, "OWN-2: {} is lent, and nobody is told", object.id);
        }
        for (id, slot) in &self.by_id {
            assert_eq!(self.object(*slot).map(|object| object.id), Some(*id), "OWN-2: a name of nothing");
        }
        // Whoever names what is gone gets a failure, not another object.
        assert!(traced.is_empty(), "LIN-2: forgotten: {traced:?}");
        assert!(uses.is_empty(), "OWN-2: freed while used: {uses:?}");
    }

    /// OWN-4: retries are spent, never made.
    fn check_retries(&self) {
        for (_, task) in self.tasks() {
            let (left, most) = (task.retries_left, task.spec.template.retries_max);
            let is_right = if most < 0 { left == most } else { (0..=most).contains(&left) };
            assert!(is_right, "OWN-4: {left} of {most} retries are left");
        }
    }

    /// OWN-3: each task is in one place, and the place knows it.
    fn check_places(&self) {
        let mut places: FxHashMap<TaskKey, u32> = FxHashMap::default();
        for pool in &self.pools {
            for key in pool.queue.iter().filter(|key| self.task(**key).is_some()) {
                assert_eq!(self.task(*key).map(|task| task.stage), Some(Stage::Queued), "OWN-3: waits and runs");
                *places.entry(*key).or_default() += 1;
            }
            for lease in &pool.leases {
                for key in &lease.under {
                    assert!(self.is_under(*key, lease.worker), "OWN-3: {key:?} is not on {}", lease.worker);
                    *places.entry(*key).or_default() += 1;
                }
            }
        }
        for lane in self.callees.values().flat_map(|callee| &callee.lanes) {
            for key in lane.queue.iter().filter(|key| self.task(**key).is_some()) {
                let stage = self.task(*key).map(|task| task.stage);
                let waits = matches!(stage, Some(Stage::Queued | Stage::Waiting(_) | Stage::Looking));
                assert!(waits, "OWN-3: waits and runs");
                *places.entry(*key).or_default() += 1;
            }
            for key in &lane.under {
                let stage = self.task(*key).map(|task| task.stage);
                assert!(matches!(stage, Some(Stage::Under { .. } | Stage::Limbo { .. })), "OWN-3: {stage:?}");
                *places.entry(*key).or_default() += 1;
            }
        }
        for key in &self.orphans {
            if matches!(self.task(*key).map(|task| task.stage), Some(Stage::Under { ticket: crate::ADOPTED, .. })) {
                *places.entry(*key).or_default() += 1;
            }
        }
        for (key, task) in self.tasks().filter(|(_, task)| !matches!(task.stage, Stage::Orphan | Stage::Reading)) {
            let is_ordered = match task.spec.target {
                Target::Pool => false,
                Target::Actor(actor) => {
                    self.callee(&actor).is_some_and(|callee| callee.is_ordered(task.spec.template.group))
                }
            };
            let needs_place = is_ordered || !matches!(task.stage, Stage::Waiting(_) | Stage::Looking);
            let count = places.remove(&key).unwrap_or(0);
            assert_eq!(count, u32::from(needs_place), "OWN-3: {:?} is in {count} places", task.spec.id);
        }
    }

    /// OWN-1: what waits for a worker gets one.
    fn check_leases(&self) {
        let mut known = 0;
        for (index, pool) in self.pools.iter().enumerate() {
            known += pool.leases.len() + pool.requested.len();
            let numbers = pool.leases.iter().map(|lease| lease.number).chain(pool.requested.iter().copied());
            for number in numbers {
                assert_eq!(self.leases.get(&number), Some(&index), "lease {number} is not known");
            }
            for lease in &pool.leases {
                let number = self.lease_of_worker.get(&lease.worker);
                assert_eq!(number, Some(&lease.number), "{} is not known", lease.worker);
                let is_wanted_back = lease.revoked || lease.asked;
                assert!(!is_wanted_back || !lease.under.is_empty(), "OWN-1: a revoked lease is kept");
                assert!(lease.under.len() <= PIPELINE_MAX, "too much is pushed ahead");
            }
            let waits = pool.queue.iter().any(|key| self.task(*key).is_some());
            assert!(!waits || pool.best_lease().is_none(), "OWN-1: a worker is idle while a task waits for one");
            let is_hopeful = !pool.requested.is_empty() || pool.leases.iter().any(|lease| !lease.under.is_empty());
            assert!(!waits || is_hopeful || self.needs_tick(), "OWN-1: a task waits, and nobody was asked");
        }
        assert_eq!(self.leases.len(), known, "leases are known that nobody has");
        let leased = self.pools.iter().map(|pool| pool.leases.len()).sum::<usize>();
        assert_eq!(self.lease_of_worker.len(), leased, "workers are known that nobody has leased");
    }

    /// OWN-5: calls on an ordered actor wait in the order of submission, and are sent when they can be.
    fn check_calls(&self) {
        for (callee, lane) in
            self.callees.values().flat_map(|callee| callee.lanes.iter().map(move |lane| (callee, lane)))
        {
            let numbers: Vec<u64> =
                lane.queue.iter().filter_map(|key| self.task(*key)).map(|task| task.number).collect();
            assert!(!lane.is_ordered || numbers.is_sorted(), "OWN-5: calls wait out of order: {numbers:?}");
            assert_eq!(lane.queue.len() - numbers.len(), lane.ended, "calls that have ended are miscounted");
            if let CalleeState::Dead(_) = callee.state {
                let waits = lane.queue.iter().filter_map(|key| self.task(*key));
                let are_incomplete = waits.map(|task| task.stage).all(|stage| matches!(stage, Stage::Waiting(_)));
                let under = lane.under.iter().filter_map(|key| self.task(*key));
                let may_be_answered = under.map(|task| task.stage).all(|stage| matches!(stage, Stage::Under { .. }));
                assert!(are_incomplete && may_be_answered, "OWN-1: a call waits for a dead actor: {lane:?}");
            }
            let is_limbo = |key: &TaskKey| matches!(self.task(*key).map(|task| task.stage), Some(Stage::Limbo { .. }));
            let is_settled = matches!(callee.state, CalleeState::Alive(_) | CalleeState::Restarting);
            assert!(!is_settled || !lane.under.iter().any(is_limbo), "OWN-1: a call stays in limbo");
            if let CalleeState::Alive(_) = callee.state {
                let first = lane.queue.iter().find_map(|key| self.task(*key)).map(|task| task.stage);
                let is_stuck = lane.under.is_empty() && first == Some(Stage::Queued);
                assert!(!is_stuck, "OWN-1: a call waits though its actor is there");
            }
        }
        for (_, object) in self.objects() {
            let is_bare =
                |failure: &Failure| matches!(failure, Failure::Freed | Failure::Cancelled | Failure::OwnerDied);
            let is_bare = matches!(&object.value, Some(Value::Failed(failure)) if is_bare(failure));
            assert!(!is_bare || object.contains.is_empty(), "OWN-2: a failure that names nothing holds something");
        }
    }
}
