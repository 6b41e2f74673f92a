//! A user's program: submits tasks, makes actors and calls them, cancels, kills, and lets go of what it
//! has, step by step.

use model::{ActorId, ActorOptions, JobId, Lifetime, Need, ObjectId, TaskId};
use owner::{Slot, Target};
use wire::control::ActorRegistration;

use crate::env::Env;
use crate::large::Content;
use crate::network::Item;
use crate::process::{Inputs, Process, Role, ToNode, life_of};
use crate::refs::{Number, Ref};
use crate::work::cpu;

const ACTORS_MAX: usize = 3;

pub(crate) struct Driver {
    root: TaskId,
    steps_left: u64,
    made: u64,
    refs: Vec<Slot>,
    actors: Vec<Handle>,
    /// Waiting to hear whether they have their name.
    unnamed: Vec<Handle>,
    /// Nothing is left to do, and nothing held.
    pub(crate) is_done: bool,
}

#[derive(Clone, Copy)]
struct Handle {
    actor: ActorId,
    slot: Slot,
}

impl Driver {
    /// A program of the job on this node.
    pub(crate) fn new(job: JobId, node: usize, steps: u64) -> Self {
        let root = TaskId::root(job, [node as u8 + 1; 16]);
        Self {
            root,
            steps_left: steps,
            made: 0,
            refs: Vec::new(),
            actors: Vec::new(),
            unnamed: Vec::new(),
            is_done: false,
        }
    }

    pub(crate) fn slot_of(&self, actor: ActorId) -> Option<Slot> {
        self.actors.iter().find(|handle| handle.actor == actor).map(|handle| handle.slot)
    }

    fn next_id(&mut self) -> TaskId {
        self.made += 1;
        self.root.child(self.made)
    }
}

impl Process {
    fn driver(&mut self) -> &mut Driver {
        match &mut self.role {
            Role::Driver(driver) => driver,
            Role::Worker(_) | Role::Keeper => unreachable!("only programs take steps"),
        }
    }

    /// Takes one step of the program and plans the next.
    pub(crate) fn on_step(&mut self, env: &mut Env) {
        match env.rng.below(100) {
            0..12 => self.make_actor(env),
            12..40 => self.call_actor(env),
            40..43 => self.cancel(env),
            43..46 => self.kill_actor(env),
            46..52 => self.let_go(env),
            52..58 => self.put(env),
            66..70 => self.change_its_group(env),
            70..76 => self.run_in_group(env),
            58..66 => self.get(env),
            _ => self.submit_task(env),
        }
        self.driver().steps_left -= 1;
        if self.driver().steps_left > 0 {
            let us = env.rng.below(2_000 * env.settings.faults_ms / env.settings.steps);
            env.later(us, Item::Step { process: self.pid });
        }
        self.apply(env);
    }

    fn submit_task(&mut self, env: &mut Env) {
        let plan = env.plans.task(&mut env.rng, 2);
        self.submit_with_deps(env, plan, Target::Pool);
    }

    fn submit_with_deps(&mut self, env: &mut Env, plan: u32, target: Target) {
        let count = if env.rng.chance(400) { env.rng.between(1, 2) } else { 0 };
        let deps: Vec<Slot> = (0..count).filter_map(|_| env.rng.pick(&self.driver().refs).copied()).collect();
        let count = if env.rng.chance(350) { env.rng.between(1, 2) } else { 0 };
        let names: Vec<Slot> = (0..count).filter_map(|_| env.rng.pick(&self.driver().refs).copied()).collect();
        let id = self.driver().next_id();
        let slot = self.submit(env, id, plan, target, Inputs { deps: &deps, names: &names });
        self.driver().refs.push(slot);
        // Often the call is the only one to hold what it was given.
        if let Some(at) = names.first().and_then(|name| self.driver().refs.iter().position(|slot| slot == name))
            && env.rng.chance(400)
        {
            let slot = self.driver().refs.swap_remove(at);
            self.party.owner.on_handle_dropped(slot, &mut self.party.effects);
        }
    }

    /// Keeps a value, which may name others.
    fn put(&mut self, env: &mut Env) {
        let count = if env.rng.chance(300) { 1 } else { 0 };
        let names: Vec<Slot> = (0..count).filter_map(|_| env.rng.pick(&self.driver().refs).copied()).collect();
        let refs = names.iter().filter_map(|slot| self.escape(env, *slot)).collect();
        let id = ObjectId::of(self.driver().next_id(), 1);
        let number = Number { number: env.rng.next(), refs };
        env.oracle.put(self.pid, id, number.number);
        let content = if env.rng.chance(600) { self.write(env, number, self.pid.1) } else { Content::Small(number) };
        let slot = self.party.owner.on_put(id, content.to_value(), &names);
        self.puts.insert(slot, id);
        self.driver().refs.push(slot);
    }

    fn change_its_group(&mut self, env: &mut Env) {
        let id = self.driver().next_id();
        self.change_group(env, id);
    }

    fn run_in_group(&mut self, env: &mut Env) {
        let id = self.driver().next_id();
        match self.submit_seated(env, id) {
            Some(slot) => self.driver().refs.push(slot),
            None => self.submit_task(env),
        }
    }

    /// The program may keep what it finds in a value that it reads.
    pub(crate) fn keep_some(&mut self, env: &mut Env, refs: &[Ref]) {
        for (id, owner) in refs {
            let Role::Driver(driver) = &mut self.role else { return };
            if env.rng.chance(500) && !driver.is_done {
                let owner = self.party.other_owner(*owner);
                if let Some(owner) = owner {
                    let (party, mut hands) = self.parts(env);
                    party.meet(&mut hands, owner);
                }
                let Role::Driver(driver) = &mut self.role else { return };
                driver.refs.push(self.party.owner.on_borrowed(*id, owner, 0));
            }
        }
    }

    fn get(&mut self, env: &mut Env) {
        if let Some(slot) = env.rng.pick(&self.driver().refs).copied() {
            self.begin_get(slot);
        }
    }

    fn make_actor(&mut self, env: &mut Env) {
        if self.driver().actors.len() + self.driver().unnamed.len() >= ACTORS_MAX {
            return self.call_actor(env);
        }
        let id = self.driver().next_id();
        let actor = ActorId::of(id);
        let has_name = env.rng.chance(300);
        // Held cores are few, so that tasks of one core fit beside all actors.
        let to_hold = if env.rng.chance(300) { cpu(500) } else { cpu(0) };
        let at = env.plans.place(&mut env.rng);
        let wish = env.plans.wish(&mut env.rng, &at);
        let options = ActorOptions {
            class_name: "A".into(),
            name: if has_name { ["bob", "eve"][env.rng.below(2) as usize].into() } else { "".into() },
            namespace: "".into(),
            lifetime: if env.rng.chance(200) { Lifetime::Detached } else { Lifetime::Owned },
            restarts_max: *env.rng.pick(&[0, 1, 3, -1]).expect("not empty"),
            need: Need { to_place: cpu(10_000), at, wish, ..Need::same(to_hold) },
            concurrency: 1,
            is_async: false,
        };
        let slot = self.party.owner.on_actor_made(life_of(id), actor);
        if options.lifetime == Lifetime::Detached {
            self.party.owner.on_actor_not_made(slot);
        }
        self.party.owner.on_handle_made(actor, true);
        let handle = Handle { actor, slot };
        if has_name {
            self.driver().unnamed.push(handle)
        } else {
            self.driver().actors.push(handle)
        };
        let get_if_exists = has_name && env.rng.chance(500);
        let (job, spec) = (self.job, Vec::new());
        env.tell_node(self.pid, ToNode::CreateActor { actor, job, options, get_if_exists, spec });
    }

    pub(crate) fn on_actor_answer(&mut self, request: ActorId, answer: &ActorRegistration) {
        let Role::Driver(driver) = &mut self.role else { return };
        let Some(at) = driver.unnamed.iter().position(|handle| handle.actor == request) else { return };
        let handle = driver.unnamed.swap_remove(at);
        match answer {
            ActorRegistration::Created => driver.actors.push(handle),
            ActorRegistration::Existing(_) | ActorRegistration::NameTaken => {
                self.party.owner.on_actor_not_made(handle.slot);
                self.party.owner.on_handle_dropped(handle.slot, &mut self.party.effects);
            }
        }
    }

    fn call_actor(&mut self, env: &mut Env) {
        match env.rng.pick(&self.driver().actors).copied() {
            Some(handle) => {
                let plan = env.plans.call(&mut env.rng, env.settings.seed.is_multiple_of(2));
                self.submit_with_deps(env, plan, Target::Actor(handle.actor));
            }
            None => self.submit_task(env),
        }
    }

    fn kill_actor(&mut self, env: &mut Env) {
        if let Some(Handle { actor, .. }) = env.rng.pick(&self.driver().actors).copied() {
            let no_restart = env.rng.chance(500);
            env.tell_node(self.pid, ToNode::KillActor { actor, no_restart });
        }
    }

    fn cancel(&mut self, env: &mut Env) {
        if let Some(slot) = env.rng.pick(&self.driver().refs).copied() {
            let Some(task) = self.maker.get(&slot) else { return };
            env.oracle.cancelled(*task);
            self.party.owner.on_cancel(slot, false, false, &mut self.party.effects);
        }
    }

    fn let_go(&mut self, env: &mut Env) {
        let count = self.driver().refs.len() as u64;
        if count > 0 {
            let at = env.rng.below(count) as usize;
            let slot = self.driver().refs.swap_remove(at);
            self.party.owner.on_handle_dropped(slot, &mut self.party.effects);
        }
    }

    /// The program ends when all its tasks have: it lets go of everything.
    pub(crate) fn finish_program(&mut self, env: &mut Env) {
        let Role::Driver(driver) = &mut self.role else { return };
        let is_busy = driver.steps_left > 0 || !driver.unnamed.is_empty() || self.party.owner.tasks_pending() > 0;
        let is_busy = is_busy || !self.readings.is_empty() || !self.holdings.gets.is_empty();
        if driver.is_done || is_busy || env.has_faults() {
            return;
        }
        driver.is_done = true;
        let slots: Vec<Slot> = driver.refs.drain(..).chain(driver.actors.drain(..).map(|handle| handle.slot)).collect();
        self.remove_group(env);
        for slot in slots {
            self.party.owner.on_handle_dropped(slot, &mut self.party.effects);
        }
    }
}
