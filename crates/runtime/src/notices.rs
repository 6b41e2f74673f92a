//! What the driver should read once, whichever process of its job has found it out.

use party::Party;
use wire::control::ToNode;

use crate::Runtime;
use crate::state::State;

/// Calls that may wait on one actor before the user is told; told again at each doubling.
const CALLS_PENDING_MAX: usize = 5_000;

impl Runtime {
    /// Tells the driver, by way of the node.
    pub fn notice(&self, kind: &str, text: &str) {
        self.send(&ToNode::Notice { kind: kind.into(), text: text.into() });
    }

    /// Looks for actors with very many calls waiting. Once per tick of the pump, so that submitting costs nothing for it.
    pub(crate) fn warn_of_long_queues(&self, state: &mut State) {
        let State { party: Party { owner, .. }, calls_told, .. } = state;
        // No single actor can have more than all together: a program with very many actors, most of them gone, is not looked through.
        if owner.tasks_pending() <= CALLS_PENDING_MAX {
            return;
        }
        for (actor, callee) in owner.callees() {
            let pending = callee.calls_pending();
            if pending <= CALLS_PENDING_MAX {
                continue;
            }
            let told = calls_told.entry(*actor).or_insert(CALLS_PENDING_MAX);
            if pending <= *told {
                continue;
            }
            let limit = *told;
            while *told < pending {
                *told *= 2;
            }
            let text = format!(
                "Warning: more than {limit} calls wait on actor {actor} ({pending} now). Each takes memory until it ends: \
                 get some of their results before making more calls."
            );
            self.notice("excess_queueing_warning", &text);
        }
    }
}
