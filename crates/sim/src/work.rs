//! What users' programs do: plans for tasks, and the values they give when nothing fails.

use std::sync::Arc;

use model::{FunctionId, Labels, Match, Need, NodeId, Quantity, Resources, Template, Where, Wish, Yields};

use crate::members::{ZONE, index_of, zone_of};
use crate::rng::{Rng, mix};

/// Number of a plan.
pub(crate) type PlanId = u32;

/// What a task does when it runs.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) us: u64,
    /// Tasks that it submits and waits for before it ends.
    pub(crate) children: Vec<PlanId>,
    pub(crate) ending: Ending,
    /// Values that it yields before it ends.
    pub(crate) items: u32,
    /// Its value is too large for a message.
    pub(crate) is_large: bool,
    /// Whoever submits it gives it the values that it was itself given references to.
    pub(crate) takes_refs: bool,
    pub(crate) template: Arc<Template>,
    /// What it does with the references it is given.
    pub(crate) with_refs: RefUse,
}

/// What a task does with the references in its arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RefUse {
    /// Waits for their values.
    pub(crate) reads: bool,
    /// Passes them on to the tasks that it submits.
    pub(crate) forwards: bool,
    /// Names the tasks that it submits to those that it submits later.
    pub(crate) introduces: bool,
    /// Keeps them for so long after its end; zero: not at all.
    pub(crate) keeps_us: u64,
    /// Its value names them, and what the tasks that it submitted made.
    pub(crate) returns: bool,
    /// Its value names one that it put.
    pub(crate) puts: Option<Put>,
}

/// What a task puts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Put {
    pub(crate) is_large: bool,
    /// Names the references that the task was given.
    pub(crate) names: bool,
}

/// How a task ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Value,
    Raises,
    /// Its first runs raise what may be tried again.
    RaisesFirst(u32),
    /// Its first runs end their process.
    CrashesFirst(u32),
    /// The actor leaves.
    Leaves,
}

#[derive(Default)]
pub(crate) struct Plans {
    all: Vec<Plan>,
    /// Nodes that tasks may ask for.
    pub(crate) nodes: Vec<NodeId>,
    /// How often they do, of a thousand times.
    pub(crate) elsewhere: u64,
}

impl Plans {
    pub(crate) fn get(&self, id: PlanId) -> &Plan {
        &self.all[id as usize]
    }

    /// Where something is to run.
    pub(crate) fn place(&self, rng: &mut Rng) -> Where {
        if self.nodes.len() < 2 || !rng.chance(self.elsewhere) {
            return Where::Anywhere;
        }
        rng.pick(&self.nodes).map_or(Where::Anywhere, |node| Where::Node(*node))
    }

    /// What else is asked of the node. Always such that the head could run it, which does not die.
    pub(crate) fn wish(&self, rng: &mut Rng, at: &Where) -> Option<Box<Wish>> {
        if self.nodes.len() < 2 || *at != Where::Anywhere || !rng.chance(self.elsewhere) {
            return None;
        }
        let node = rng.pick(&self.nodes).copied()?;
        let zone =
            |wanted: fn(Vec<Box<str>>) -> Match| Labels(vec![(ZONE.into(), wanted(vec![zone_of(index_of(node))]))]);
        Some(Box::new(match rng.below(4) {
            0 => Wish { rather: Some(node), ..Wish::default() },
            1 => Wish { labels: vec![zone(Match::In), zone(Match::NotIn)], ..Wish::default() },
            _ => Wish { spread: true, ..Wish::default() },
        }))
    }

    pub(crate) fn task(&mut self, rng: &mut Rng, depth: u32) -> PlanId {
        let ending = match rng.below(100) {
            0..4 => Ending::Raises,
            4..8 => Ending::RaisesFirst(rng.between(1, 3) as u32),
            8..11 => Ending::CrashesFirst(rng.between(1, 3) as u32),
            _ => Ending::Value,
        };
        let children = if depth > 0 && rng.chance(250) { rng.between(1, 3) } else { 0 };
        let children: Vec<PlanId> = (0..children).map(|_| self.task(rng, depth - 1)).collect();
        // What waits for a child must hold nothing but cores, or it may lock up by right.
        let kinds = if depth < 2 { 3 } else { 4 };
        let need = Need::same(match rng.below(kinds) {
            0 => cpu(10_000),
            1 => cpu(5_000),
            2 => cpu(0),
            _ => with_licence(cpu(10_000)),
        });
        let at = self.place(rng);
        let need = Need { at, wish: self.wish(rng, &at), ..need };
        // Only a program's own calls know beforehand what they are given references to; and see above.
        if depth == 2 && need.to_hold.amount("licence") == Quantity::ZERO {
            children.iter().for_each(|child| self.all[*child as usize].takes_refs = rng.chance(300));
        }
        self.add(rng, need, children, ending)
    }

    /// A call that waits may wait for a value that its own actor has to make again, or later, and would by right wait for ever. So either no
    /// call of the run waits, or none can be made again: `may_wait`.
    pub(crate) fn call(&mut self, rng: &mut Rng, may_wait: bool) -> PlanId {
        let ending = match rng.below(100) {
            0..4 => Ending::Raises,
            4..7 => Ending::CrashesFirst(1),
            7..8 => Ending::Leaves,
            _ => Ending::Value,
        };
        let children = if rng.chance(100) && may_wait { vec![self.task(rng, 0)] } else { Vec::new() };
        let id = self.add(rng, Need::default(), children, ending);
        let plan = &mut self.all[id as usize];
        if may_wait {
            Arc::make_mut(&mut plan.template).retries_max = 0;
        }
        plan.with_refs.reads &= may_wait;
        id
    }

    /// A task in a placement group. It waits for nothing: what it waited for might need its seats.
    pub(crate) fn seated(&mut self, rng: &mut Rng, need: Need) -> PlanId {
        let ending = if rng.chance(50) { Ending::CrashesFirst(1) } else { Ending::Value };
        let id = self.add(rng, need, Vec::new(), ending);
        self.all[id as usize].with_refs.reads = false;
        id
    }

    fn add(&mut self, rng: &mut Rng, need: Need, children: Vec<PlanId>, ending: Ending) -> PlanId {
        let retries_max = *rng.pick(&[0, 1, 3, 3, -1]).expect("not empty");
        let items = if rng.chance(150) { rng.between(1, 6) as u32 } else { 0 };
        let ahead_max = rng.below(3) as u32;
        let template = Template {
            language: model::Language::PYTHON,
            function: FunctionId([0; 16]),
            name: "f".into(),
            method: "".into(),
            need,
            returns: 1,
            yields: if items > 0 { Yields::Stream { ahead_max } } else { Yields::Nothing },
            retries_max,
            retry_exceptions: true,
            calls_max: 0,
            group: 0,
        };
        // The end of a generator is small.
        let is_large = items == 0 && rng.chance(350);
        let us = if rng.chance(50) { rng.between(1_000, 100_000) } else { rng.between(1, 1_000) };
        // What waits must hold nothing but cores: see above.
        let may_wait = template.need.to_hold.amount("licence") == Quantity::ZERO;
        let (reads, forwards) = (rng.chance(300) && may_wait, rng.chance(700) && may_wait);
        let keeps_us = if rng.chance(300) { rng.between(1, 100_000) } else { 0 };
        let put = Put { is_large: rng.chance(500), names: rng.chance(400) };
        let puts = rng.chance(300).then_some(put);
        let with_refs =
            RefUse { reads, forwards, keeps_us, returns: rng.chance(400), introduces: rng.chance(600), puts };
        self.all.push(Plan {
            us,
            children,
            ending,
            items,
            is_large,
            takes_refs: false,
            template: Arc::new(template),
            with_refs,
        });
        PlanId::try_from(self.all.len() - 1).expect("few plans")
    }
}

/// What a node has beside its cores.
pub(crate) fn with_licence(mut resources: Resources) -> Resources {
    resources.set("licence", Quantity::whole(1));
    resources
}

pub(crate) fn cpu(parts: i64) -> Resources {
    let mut resources = Resources::default();
    resources.set("CPU", Quantity(parts));
    resources
}

/// The value of a task: it depends on what it was given and on what its children gave.
pub(crate) fn value_of(plan: PlanId, inputs: &[u64]) -> u64 {
    inputs.iter().fold(mix(u64::from(plan) + 1), |value, input| mix(value ^ *input))
}
