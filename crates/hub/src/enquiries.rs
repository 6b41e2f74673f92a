//! Questions that the head answers for all nodes: another node asks them on.

use model::{JobId, ProcId};
use rustc_hash::FxHashMap;
use wire::abroad::Between;
use wire::control::{Answer, FromNodeOf, Question};

use crate::body::{Asker, Body, Door, Step};
use crate::hub::Hub;
use crate::members::HEAD;
use crate::procs::Proc;

#[derive(Default)]
pub(crate) struct Enquiries {
    last: u64,
    /// Asked of the head, and not answered.
    open: FxHashMap<u64, (Asker, u64)>,
}

impl Enquiries {
    pub(crate) fn process_gone(&mut self, gone: ProcId) {
        self.open.retain(|_, (asker, _)| asker.who != Some(gone));
    }

    /// Whoever asked has left; its door is used again.
    pub(crate) fn door_closed(&mut self, door: Door) {
        self.open.retain(|_, (asker, _)| asker.door != door);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

/// Whether only the head knows.
fn is_for_head(question: &Question) -> bool {
    match question {
        Question::ActorByName { .. }
        | Question::ActorNames { .. }
        | Question::CreateGroup { .. }
        | Question::RemoveGroup(_)
        | Question::Groups(_)
        | Question::Resources
        | Question::Cluster => true,
        Question::Function(_)
        | Question::Status
        | Question::Stop
        | Question::Inventory { .. }
        | Question::WatchWaits
        | Question::Fetch { .. }
        | Question::Sync => false,
    }
}

impl<B: Body> Hub<B> {
    /// The head is asked. None: this node answers, and gets the question back.
    pub(crate) fn ask_head(
        &mut self,
        step: &mut Step<'_, B>,
        from: Asker,
        request: u64,
        question: Question,
    ) -> Option<Question> {
        if !is_for_head(&question) || self.head_elsewhere().is_none() {
            return Some(question);
        }
        self.enquiries.last += 1;
        let ticket = self.enquiries.last;
        self.enquiries.open.insert(ticket, (from, request));
        let mut home = None;
        if let Some(proc) = from.who.and_then(|who| self.procs.get_mut(who)) {
            // What the head keeps of it ends with it.
            proc.is_met_by(HEAD);
            let job = proc.job();
            home = self.home_of(job).map(Box::new);
        }
        step.body.send(HEAD, Between::Asks { ticket, by: from.who, home, question });
        None
    }

    pub(crate) fn on_answers(&mut self, step: &mut Step<'_, B>, node: u32, ticket: u64, answer: Answer) {
        if node == HEAD
            && let Some((asker, request)) = self.enquiries.open.remove(&ticket)
        {
            match asker.who {
                Some(who) => self.tell(step, who, FromNodeOf::Answer { request, answer }),
                None => step.body.answer(asker.door, request, answer),
            }
        }
    }

    /// The job of a process, wherever it is.
    pub(crate) fn job_of(&self, who: ProcId) -> Option<JobId> {
        self.procs.get(who).map(Proc::job).or_else(|| self.jobs.of_driver(who))
    }
}
