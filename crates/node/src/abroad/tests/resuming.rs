//! Lines that are cut while much is under way.

use std::time::Duration;

use super::proxy::Proxy;
use super::station::{Station, check_calls};
use crate::abroad::HEAD;

const ROUNDS: u64 = 40;
const A_ROUND: u64 = 500;

fn talk_while(head: &mut Station, member: &mut Station, mut between: impl FnMut(u64)) {
    for round in 0..ROUNDS {
        for _ in 0..A_ROUND {
            member.say(HEAD);
            head.say(member.number());
        }
        between(round);
        std::thread::sleep(Duration::from_millis(round % 7));
    }
    head.hear(ROUNDS * A_ROUND);
    member.hear(ROUNDS * A_ROUND);
}

/// Scenario 1: each message arrives once and in order, which is more than that nothing has to be tried again.
#[test]
fn a_reset_in_a_busy_session_loses_and_doubles_nothing() {
    let mut head = Station::head();
    let proxy = Proxy::to(head.address());
    let mut member = Station::member_by(proxy.address, head.token());
    talk_while(&mut head, &mut member, |round| {
        if round % 4 == 3 {
            proxy.cut();
        }
    });
    check_calls(&mut head, &mut member);
}

/// Scenario 2: what is sent once more since its acknowledgement was lost is dropped.
#[test]
fn what_arrived_and_was_not_acknowledged_is_taken_once() {
    let mut head = Station::head();
    let proxy = Proxy::to(head.address());
    let mut member = Station::member_by(proxy.address, head.token());
    talk_while(&mut head, &mut member, |round| match round % 8 {
        3 => proxy.set_deaf(true),
        5 => {
            // What was swallowed is missing in the stream of TLS as well: only another line helps.
            proxy.cut();
            proxy.set_deaf(false);
        }
        _ => {}
    });
    check_calls(&mut head, &mut member);
}
