//! Functions' bodies, once per content. A worker may ask before the body is here: the two came by different sockets.

use model::{FunctionId, Tick};
use rustc_hash::FxHashMap;
use wire::control::{Answer, FromNode};

use crate::looped::Node;

/// A body that has not come by then never will.
const WAIT_MS: u64 = 10_000;

#[derive(Default)]
pub(crate) struct Functions {
    bodies: FxHashMap<FunctionId, Vec<u8>>,
    waiting: Vec<(Tick, usize, u64, FunctionId)>,
}

impl Functions {
    pub(crate) fn next_deadline(&self) -> Option<Tick> {
        self.waiting.iter().map(|(deadline, ..)| *deadline).min()
    }
}

impl Node {
    pub(crate) fn export(&mut self, function: FunctionId, body: Vec<u8>) {
        self.functions.bodies.entry(function).or_insert(body);
        let waiting = std::mem::take(&mut self.functions.waiting);
        for (deadline, conn, request, wanted) in waiting {
            if wanted == function {
                self.answer_function(conn, request, wanted);
            } else {
                self.functions.waiting.push((deadline, conn, request, wanted));
            }
        }
    }

    pub(crate) fn ask_function(&mut self, conn: usize, request: u64, function: FunctionId) {
        if self.functions.bodies.contains_key(&function) {
            self.answer_function(conn, request, function);
        } else {
            let deadline = net::clock::now().plus_ms(WAIT_MS);
            self.functions.waiting.push((deadline, conn, request, function));
        }
    }

    fn answer_function(&mut self, conn: usize, request: u64, function: FunctionId) {
        let answer = Answer::Function(self.functions.bodies.get(&function).cloned());
        self.tell_conn(conn, &FromNode::Answer { request, answer }, Vec::new());
    }

    pub(crate) fn expire_functions(&mut self, now: Tick) {
        let waiting = std::mem::take(&mut self.functions.waiting);
        for (deadline, conn, request, function) in waiting {
            if deadline <= now {
                self.answer_function(conn, request, function);
            } else {
                self.functions.waiting.push((deadline, conn, request, function));
            }
        }
    }
}
