//! One answer per question.

use model::{JobId, ProcId, Resources};
use wire::asking::NotFetched;
use wire::control::{Answer, Question};

use crate::body::{Asker, Body, Step};
use crate::hub::Hub;

impl<B: Body> Hub<B> {
    pub(crate) fn on_ask(&mut self, step: &mut Step<'_, B>, from: Asker, request: u64, question: Question) {
        let Some(question) = self.ask_head(step, from, request, question) else { return };
        let who = from.who.filter(|who| self.procs.get(*who).is_some());
        match question {
            Question::Function(function) if let Some(who) = who => self.ask_function(step, who, request, function),
            Question::Inventory { limit } => self.take_inventory_of_all(step, from, request, limit),
            Question::WatchWaits => self.watch_waits(step, from, request),
            Question::Fetch { bulk, is_probe } if let Some(who) = who => step.body.fetch(who, request, bulk, is_probe),
            question => {
                let job = who.and_then(|who| self.job_of(who));
                if let Some(answer) = self.answer_at_once(step, who, job, question) {
                    step.body.answer(from.door, request, answer);
                }
            }
        }
    }

    /// The answer to what is known here, for a process of whatever node. None: whoever asks has to wait.
    pub(crate) fn answer_at_once(
        &mut self,
        step: &mut Step<'_, B>,
        who: Option<ProcId>,
        job: Option<JobId>,
        question: Question,
    ) -> Option<Answer> {
        Some(match question {
            Question::Function(_) => Answer::Function(None),
            Question::ActorByName { namespace, name } => {
                let table = self.actors.table();
                let found = table
                    .by_name(&namespace, &name)
                    .filter(|actor| table.get(*actor).is_some_and(|record| record.death().is_none()));
                if let (Some(actor), Some(who)) = (found, who) {
                    self.watch_actor(step, actor, who);
                }
                Answer::Actor(found.and_then(|actor| self.named(actor)))
            }
            Question::ActorNames { namespace, all } => {
                let names = self.actors.table().names((!all).then_some(&*namespace));
                Answer::ActorNames(names.map(|(space, name, _)| (Box::from(space), Box::from(name))).collect())
            }
            Question::CreateGroup { group, options } => {
                Answer::GroupMade(self.create_group(step, who.zip(job), group, options))
            }
            Question::RemoveGroup(group) => {
                self.remove_group(step, who, group);
                Answer::Done
            }
            Question::Groups(which) => Answer::Groups(self.list_groups(&which)),
            Question::Resources => {
                let list =
                    |resources: Resources| resources.iter().map(|(name, amount)| (Box::from(name), amount.0)).collect();
                let (total, free) = self.resources_of_all();
                Answer::Resources { total: list(total), free: list(free) }
            }
            Question::Cluster => Answer::Cluster(Box::new(self.cluster_status(step.now))),
            Question::Inventory { .. } | Question::WatchWaits => return None,
            Question::Status => Answer::Status(Box::new(self.status(step))),
            Question::Stop => {
                step.body.stop();
                Answer::Done
            }
            Question::Sync => Answer::Done,
            Question::Fetch { .. } => Answer::Fetched(Err(NotFetched::Moved)),
        })
    }
}
