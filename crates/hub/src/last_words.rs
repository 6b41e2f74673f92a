//! A driver that ends wants all that its workers have printed, on whatever node: it hears when every node has passed that on.

use std::collections::{BTreeMap, BTreeSet};

use model::{ProcId, Tick};
use wire::abroad::Between;
use wire::control::{FromNodeOf, ToNodeOf};
use wire::logs::AboutLogs;

use crate::body::{Body, Step};
use crate::hub::Hub;
use crate::procs::Proc;

/// A node that has not answered by then is not waited for: programs end.
const WAIT_MS: u64 = 2_000;

#[derive(Default)]
pub(crate) struct LastWords {
    waiting: BTreeMap<ProcId, Waiting>,
}

struct Waiting {
    /// Nodes that have not passed all on, this one among them.
    nodes: BTreeSet<u32>,
    until: Tick,
}

impl LastWords {
    pub(crate) fn next_deadline(&self) -> Option<Tick> {
        self.waiting.values().map(|waiting| waiting.until).min()
    }

    pub(crate) fn process_gone(&mut self, gone: ProcId) {
        self.waiting.remove(&gone);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

impl<B: Body> Hub<B> {
    /// A driver, here or there, wants all that processes of its job have printed here.
    pub(crate) fn want_last_words(&mut self, step: &mut Step<'_, B>, who: ProcId) {
        let Some(job) = self.job_of(who) else {
            // Nothing of its job has ever run here.
            return self.tell(step, who, FromNodeOf::LastWords);
        };
        if self.is_here(who) && self.has_others() {
            let others = self.abroad.nodes();
            for node in &others {
                let message = Box::new(ToNodeOf::Logs(AboutLogs::LastWords));
                step.body.send(*node, Between::Said { by: who, message, home: None });
            }
            let nodes = others.into_iter().chain([self.options.number]).collect();
            self.last_words.waiting.insert(who, Waiting { nodes, until: step.now.plus_ms(WAIT_MS) });
        }
        let colleagues = self.procs.iter().filter(|proc| proc.job() == job && proc.id() != who);
        step.body.last_words_wanted(who, job, colleagues.map(Proc::id).collect());
    }

    /// All that was printed on this node for that driver has been passed on.
    pub fn last_words_said(&mut self, step: &mut Step<'_, B>, driver: ProcId) {
        if self.last_words.waiting.contains_key(&driver) {
            self.on_last_words_there(step, self.options.number, driver);
        } else {
            self.tell(step, driver, FromNodeOf::LastWords);
        }
    }

    /// The same on another node.
    pub(crate) fn on_last_words_there(&mut self, step: &mut Step<'_, B>, node: u32, driver: ProcId) {
        let Some(waiting) = self.last_words.waiting.get_mut(&driver) else { return };
        waiting.nodes.remove(&node);
        if waiting.nodes.is_empty() {
            self.last_words.waiting.remove(&driver);
            self.tell(step, driver, FromNodeOf::LastWords);
        }
    }

    /// A node is dead: it says nothing more.
    pub(crate) fn last_words_without(&mut self, step: &mut Step<'_, B>, node: u32) {
        for driver in self.last_words.waiting.keys().copied().collect::<Vec<ProcId>>() {
            self.on_last_words_there(step, node, driver);
        }
    }

    pub(crate) fn end_late_last_words(&mut self, step: &mut Step<'_, B>) {
        let late = self.last_words.waiting.extract_if(.., |_, waiting| waiting.until <= step.now);
        for driver in late.map(|(driver, _)| driver).collect::<Vec<ProcId>>() {
            self.tell(step, driver, FromNodeOf::LastWords);
        }
    }
}
