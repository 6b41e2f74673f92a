//! One answer per question.

use model::Resources;
use wire::control::{Answer, Question};

use crate::body::{Asker, Body, Step};
use crate::hub::Hub;

impl<B: Body> Hub<B> {
    pub(crate) fn on_ask(&mut self, step: &mut Step<'_, B>, from: Asker, request: u64, question: Question) {
        let who = from.who.filter(|who| self.procs.get(*who).is_some());
        let answer = match question {
            Question::Function(function) => match who {
                Some(who) => return self.ask_function(step, who, request, function),
                None => Answer::Function(None),
            },
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
            Question::CreateGroup { group, options } => Answer::GroupMade(self.create_group(step, who, group, options)),
            Question::RemoveGroup(group) => {
                self.remove_group(step, who, group);
                Answer::Done
            }
            Question::Groups(which) => Answer::Groups(self.list_groups(&which)),
            Question::Resources => {
                let list =
                    |resources: Resources| resources.iter().map(|(name, amount)| (Box::from(name), amount.0)).collect();
                let scheduler = self.leases.scheduler();
                Answer::Resources { total: list(scheduler.total()), free: list(scheduler.available()) }
            }
            Question::Inventory { limit } => return self.take_inventory(step, from, request, limit),
            Question::WatchWaits => return self.watch_waits(step, from, request),
            Question::Status => Answer::Status(Box::new(self.status(step))),
            Question::Stop => {
                step.body.stop();
                Answer::Done
            }
            Question::Sync => Answer::Done,
        };
        step.body.answer(from.door, request, answer);
    }
}
