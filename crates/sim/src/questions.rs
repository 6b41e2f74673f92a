//! What processes ask their nodes, and whether they are answered: a worker asks for the function of the job that it is given to.

use model::{FunctionId, JobId};
use wire::control::{Answer, Question};

use crate::env::Env;
use crate::process::{Process, ToNode};

/// Each job has one function.
fn function_of(job: JobId) -> FunctionId {
    let mut bytes = [7; 16];
    bytes[..4].copy_from_slice(&job.0);
    FunctionId(bytes)
}

impl Process {
    /// A program sends its function to its node.
    pub(crate) fn export(&self, env: &mut Env) {
        let body = function_of(self.job).0.to_vec();
        env.tell_node(self.pid, ToNode::Export { function: function_of(self.job), body });
    }

    /// A worker is given to a job.
    pub(crate) fn on_assigned(&mut self, env: &mut Env, job: JobId) {
        if self.job == job || env.settings.nodes == 1 {
            self.job = job;
            return;
        }
        self.job = job;
        let request = env.new_run();
        env.counts.functions += 1;
        env.asked.insert((self.pid, request));
        env.tell_node(self.pid, ToNode::Ask { request, question: Question::Function(function_of(job)) });
    }

    /// NODE-4: whoever asks is answered once; and what a living program has sent is found.
    pub(crate) fn on_answered(&mut self, env: &mut Env, request: u64, answer: &Answer) {
        let body = match answer {
            Answer::GroupMade(made) => return self.group_made(made.group),
            Answer::Function(body) => body,
            Answer::Fetched(found) => return self.on_fetched(env, request, found),
            _ => return,
        };
        if !env.asked.remove(&(self.pid, request)) {
            env.oracle.fail(format!("NODE-4: {:?} is answered twice", self.pid));
        }
        let function = function_of(self.job);
        match body {
            Some(body) if *body != function.0 => env.oracle.fail(format!("{:?} gets another function", self.pid)),
            None if env.has_program(self.job) && !env.oracle.is_lost(self.pid.0) => {
                env.oracle.fail(format!("NODE-4: {:?} does not get the function of {:?}", self.pid, self.job));
            }
            Some(_) | None => {}
        }
    }
}
