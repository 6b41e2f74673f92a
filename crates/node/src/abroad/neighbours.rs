//! Which nodes there are lines to, or shall be: who dials whom, when again, and when the head has to say that one is gone. Pure.
//!
//! Of two nodes the later one dials, since it is told of the earlier one's address when it comes in; only one that listens nowhere always
//! dials. A line that is closed says nothing of the node. A node is gone if its line is closed and its port refuses, or if it has not been
//! heard of for long.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use model::Tick;
use wire::session::NodeLife;

/// After the first failure a line is dialled again this much later, then twice that, and so on.
const AGAIN_MS: u64 = 20;
const AGAIN_MS_MAX: u64 = 1_000;
/// A line that held for so long was a good one: the next is dialled at once.
const HELD_MS: u64 = 1_000;
/// One that has not been heard of for so long is gone.
const GONE_MS: u64 = 10_000;
/// The same of one that listens nowhere, and so comes back at once if it can.
const GUEST_GONE_MS: u64 = 4_000;
/// A head whose port refuses for so long is gone.
const HEAD_REFUSES_MS: u64 = 3_000;
/// One that is not heard of.
const HEAD_GONE_MS: u64 = 30_000;
/// A node that this one gets no line to for so long is one to tell people of.
const UNREACHED_MS: u64 = 5_000;

/// A node that there is a line to, or shall be.
#[derive(Debug)]
pub(crate) struct Neighbour {
    /// None: it is the head, which has not said who it is.
    pub(crate) life: Option<NodeLife>,
    /// None: it listens nowhere.
    pub(crate) address: Option<SocketAddr>,
    /// This side dials.
    pub(crate) dials: bool,
    /// Its line, by the thread's number.
    pub(crate) line: Option<usize>,
    /// A call that is not a line yet, or a probe.
    pub(crate) attempt: Option<usize>,
    /// There was a line at some time.
    pub(crate) has_been_up: bool,
    /// Why the last attempt came to nothing, where that is known.
    pub(crate) problem: Option<String>,
    up_since: Tick,
    /// There is no line since then.
    down_since: Tick,
    /// Its port refuses since then.
    refuses_since: Option<Tick>,
    failures: u32,
    next: Option<Tick>,
    /// People were told that there is no line to it.
    is_told: bool,
}

/// What is to be done about a node without a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Dial it.
    Dial(u32, SocketAddr),
    /// See whether its port refuses.
    Probe(u32, SocketAddr),
    /// It is gone.
    Gone(u32, String),
    /// It may be there for others, and this one does not get through to it.
    Unreached(u32, String),
}

#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    pub(crate) table: BTreeMap<u32, Neighbour>,
    gone: BTreeSet<u32>,
    is_head: bool,
}

impl Neighbours {
    pub(crate) fn new(is_head: bool) -> Self {
        Self { is_head, ..Self::default() }
    }

    /// There shall be a line to it.
    pub(crate) fn add(
        &mut self,
        now: Tick,
        node: u32,
        life: Option<NodeLife>,
        address: Option<SocketAddr>,
        dials: bool,
    ) {
        if let Some(known) = self.table.get_mut(&node) {
            known.address = address.or(known.address);
            return;
        }
        let next = dials.then_some(now);
        let neighbour = Neighbour {
            life,
            address,
            dials,
            line: None,
            attempt: None,
            has_been_up: false,
            problem: None,
            up_since: now,
            down_since: now,
            refuses_since: None,
            failures: 0,
            next,
            is_told: false,
        };
        self.table.insert(node, neighbour);
    }

    /// A verdict: it never comes back. Its line and attempt are to be closed.
    pub(crate) fn remove(&mut self, node: u32) -> Vec<usize> {
        self.gone.insert(node);
        let known = self.table.remove(&node);
        known.map(|known| known.line.into_iter().chain(known.attempt).collect()).unwrap_or_default()
    }

    /// Whether a member that has called may come in: it is expected, in this life.
    pub(crate) fn expects(&self, who: NodeLife) -> bool {
        !self.gone.contains(&who.node)
            && self.table.get(&who.node).is_some_and(|known| known.life == Some(who) && !known.dials)
    }

    /// Whether there was a verdict on it.
    pub(crate) fn is_gone(&self, node: u32) -> bool {
        self.gone.contains(&node)
    }

    /// Its line is of no use any more, since another one is about to take its place.
    pub(crate) fn lose(&mut self, now: Tick, node: u32) -> Option<usize> {
        let known = self.table.get_mut(&node)?;
        let line = known.line.take()?;
        known.down_since = now;
        Some(line)
    }

    pub(crate) fn get(&mut self, node: u32) -> Option<&mut Neighbour> {
        self.table.get_mut(&node)
    }

    /// It has a line, by which both have said hello. Returns the one before.
    pub(crate) fn up(&mut self, now: Tick, node: u32, line: usize) -> Option<usize> {
        let known = self.table.get_mut(&node)?;
        (known.refuses_since, known.next, known.problem, known.is_told) = (None, None, None, false);
        (known.up_since, known.has_been_up) = (now, true);
        if known.attempt == Some(line) {
            known.attempt = None;
        }
        known.line.replace(line).filter(|before| *before != line)
    }

    /// A line or a call of it is over. `refused`: nobody listens there.
    pub(crate) fn down(&mut self, now: Tick, node: u32, line: usize, refused: bool) {
        let Some(known) = self.table.get_mut(&node) else { return };
        if known.line == Some(line) {
            (known.line, known.down_since) = (None, now);
            // At once: what cuts one line need not cut the next. What cuts line after line is not asked again and again.
            known.failures = if now.ms_since(known.up_since) >= HELD_MS { 0 } else { known.failures + 1 };
            known.next = Some(if known.failures <= 1 { now } else { now.plus_ms(wait_ms(known.failures - 2)) });
        } else if known.attempt == Some(line) {
            known.attempt = None;
            known.refuses_since = if refused { known.refuses_since.or(Some(now)) } else { None };
            known.next = Some(now.plus_ms(wait_ms(known.failures)));
            known.failures += 1;
        }
    }

    /// Somebody listens at its port.
    pub(crate) fn probed(&mut self, now: Tick, node: u32) {
        if let Some(known) = self.table.get_mut(&node) {
            (known.attempt, known.refuses_since) = (None, None);
            known.next = Some(now.plus_ms(AGAIN_MS_MAX));
        }
    }

    /// When to look next.
    pub(crate) fn next_look(&self) -> Option<Tick> {
        let waiting = self.table.iter().filter(|(_, known)| known.line.is_none());
        let looks = waiting.flat_map(|(node, known)| {
            let judged = self.judges(*node).then(|| known.down_since.plus_ms(self.patience_ms(known)));
            let told = self.tells_of(*node, known).then(|| known.down_since.plus_ms(UNREACHED_MS));
            // What is under way ends by itself.
            [known.next.filter(|_| known.attempt.is_none()), judged, told]
        });
        looks.flatten().min()
    }

    /// The verdict on a node is the head's; on the head everyone has its own.
    fn judges(&self, node: u32) -> bool {
        self.is_head || node == super::HEAD
    }

    /// Whether people are to be told of it, if there is no line to it for long.
    fn tells_of(&self, node: u32, known: &Neighbour) -> bool {
        known.dials && !known.is_told && !self.judges(node)
    }

    fn patience_ms(&self, known: &Neighbour) -> u64 {
        match (self.is_head, known.address) {
            (true, Some(_)) => GONE_MS,
            (true, None) => GUEST_GONE_MS,
            (false, _) => HEAD_GONE_MS,
        }
    }

    /// What is due.
    pub(crate) fn look(&mut self, now: Tick) -> Vec<Due> {
        let mut due = Vec::new();
        let is_head = self.is_head;
        let patience: Vec<(u32, u64, bool)> = self
            .table
            .iter()
            .map(|(node, known)| (*node, self.patience_ms(known), self.tells_of(*node, known)))
            .collect();
        for (node, patience_ms, tells) in patience {
            let Some(known) = self.table.get_mut(&node).filter(|known| known.line.is_none()) else { continue };
            let may_judge = is_head || node == super::HEAD;
            let silent_ms = now.ms_since(known.down_since);
            if tells && silent_ms >= UNREACHED_MS {
                known.is_told = true;
                due.push(Due::Unreached(node, known.unreached(node)));
            }
            let refuses_ms = known.refuses_since.map(|since| now.ms_since(since));
            let why = match refuses_ms {
                Some(_) if is_head => Some("its connection is closed and its port refuses another".to_owned()),
                Some(refuses_ms) if refuses_ms >= HEAD_REFUSES_MS => {
                    Some("its connection is closed and its port refuses others".to_owned())
                }
                _ if silent_ms >= patience_ms => {
                    let problem = known.problem.as_ref().map(|problem| format!(": {problem}")).unwrap_or_default();
                    Some(format!("nothing was heard of it for {} s{problem}", silent_ms / 1_000))
                }
                _ => None,
            };
            if let Some(why) = why.filter(|_| may_judge) {
                known.down_since = now;
                due.push(Due::Gone(node, why));
            } else if known.attempt.is_none()
                && known.next.is_some_and(|next| next <= now)
                && let Some(address) = known.address
            {
                known.next = None;
                if known.dials {
                    due.push(Due::Dial(node, address));
                } else if is_head {
                    due.push(Due::Probe(node, address));
                }
            } else if known.next.is_some_and(|next| next <= now) {
                known.next = None;
            }
        }
        due
    }
}

impl Neighbour {
    /// For people.
    fn unreached(&self, node: u32) -> String {
        let address = self.address.map(|address| format!(" at {address}")).unwrap_or_default();
        let problem = match (&self.problem, self.refuses_since) {
            (Some(problem), _) => problem,
            (None, Some(_)) => "its port refuses",
            (None, None) => "nobody answers there",
        };
        format!(
            "This machine gets no line to node {node}{address}: {problem}. What waits for that node waits on, and the line is tried again. \
             Nodes say by --node-ip-address where others reach them; firewalls must let that port through."
        )
    }
}

fn wait_ms(failures: u32) -> u64 {
    (AGAIN_MS << failures.min(10)).min(AGAIN_MS_MAX)
}

#[cfg(test)]
mod tests {
    use super::{Due, GONE_MS, GUEST_GONE_MS, HEAD_GONE_MS, HEAD_REFUSES_MS, Neighbours, UNREACHED_MS};
    use crate::abroad::HEAD;
    use model::Tick;
    use wire::session::NodeLife;

    const NODE: NodeLife = NodeLife { node: 2, life: 7 };

    fn ms(ms: u64) -> Tick {
        Tick(0).plus_ms(ms)
    }

    fn head_of_one(address: Option<&str>) -> Neighbours {
        let mut head = Neighbours::new(true);
        head.add(ms(0), 2, Some(NODE), address.map(|address| address.parse().unwrap()), false);
        head.up(ms(0), 2, 5);
        head
    }

    #[test]
    fn a_line_that_is_closed_is_no_verdict_and_a_port_that_refuses_then_is() {
        let mut head = head_of_one(Some("127.0.0.1:9"));
        assert_eq!(head.look(ms(1_000_000)), [], "it has a line");
        head.down(ms(1_000_000), 2, 5, false);
        assert!(matches!(head.look(ms(1_000_000))[..], [Due::Probe(2, _)]));
        head.get(2).unwrap().attempt = Some(6);
        assert_eq!(head.look(ms(1_000_001)), []);
        head.down(ms(1_000_001), 2, 6, true);
        assert!(matches!(&head.look(ms(1_000_002))[..], [Due::Gone(2, why)] if why.contains("refuses")));
    }

    #[test]
    fn one_whose_port_answers_is_waited_for_and_gone_after_a_while() {
        let mut head = head_of_one(Some("127.0.0.1:9"));
        head.down(ms(0), 2, 5, false);
        head.look(ms(0));
        head.get(2).unwrap().attempt = Some(6);
        head.probed(ms(1), 2);
        assert_eq!(head.look(ms(2)), []);
        assert!(matches!(head.look(ms(GONE_MS))[..], [Due::Gone(2, _)]));
    }

    #[test]
    fn a_guest_is_gone_sooner_and_one_that_comes_back_is_not() {
        let mut head = head_of_one(None);
        head.down(ms(0), 2, 5, false);
        assert_eq!(head.look(ms(GUEST_GONE_MS - 1)), []);
        assert!(head.expects(NODE) && !head.expects(NodeLife { life: 8, ..NODE }));
        head.up(ms(GUEST_GONE_MS), 2, 9);
        assert_eq!(head.look(ms(GUEST_GONE_MS)), []);
        head.down(ms(GUEST_GONE_MS), 2, 9, false);
        assert!(matches!(head.look(ms(2 * GUEST_GONE_MS))[..], [Due::Gone(2, _)]));
        assert!(head.remove(2).is_empty());
        assert!(!head.expects(NODE), "a verdict is final");
    }

    #[test]
    fn the_head_is_dialled_ever_less_often_and_given_up_when_it_refuses_for_long() {
        let mut node = Neighbours::new(false);
        node.add(ms(0), HEAD, None, Some("127.0.0.1:9".parse().unwrap()), true);
        let (mut now, mut calls) = (0, 0);
        loop {
            match &node.look(ms(now))[..] {
                [Due::Dial(HEAD, _)] => {
                    calls += 1;
                    node.get(HEAD).unwrap().attempt = Some(calls);
                    node.down(ms(now), HEAD, calls, true);
                }
                [Due::Gone(HEAD, _)] => break,
                other => assert_eq!(other, []),
            }
            now += 1;
        }
        assert!((HEAD_REFUSES_MS..HEAD_REFUSES_MS + 10).contains(&now), "after {now} ms");
        assert!((5..15).contains(&calls), "{calls} calls");
    }

    #[test]
    fn others_than_the_head_judge_nobody_but_the_head() {
        let mut node = Neighbours::new(false);
        node.add(ms(0), 2, Some(NODE), None, false);
        assert_eq!(node.look(ms(10 * HEAD_GONE_MS)), []);
    }

    /// It was looked at again and again, without a pause: its patience was over, and nobody had a verdict to give.
    #[test]
    fn one_that_nobody_here_judges_is_no_reason_to_look() {
        let mut node = Neighbours::new(false);
        node.add(ms(0), 2, Some(NODE), None, false);
        node.look(ms(10 * HEAD_GONE_MS));
        assert_eq!(node.next_look(), None);
    }

    /// A head that takes the call and closes it at once was dialled as often as that went.
    #[test]
    fn lines_that_do_not_hold_are_dialled_ever_less_often() {
        let mut node = Neighbours::new(false);
        node.add(ms(0), HEAD, None, Some("127.0.0.1:9".parse().unwrap()), true);
        let calls = (0..10_000).filter(|now| match &node.look(ms(*now))[..] {
            [Due::Dial(HEAD, _)] => {
                node.get(HEAD).unwrap().attempt = Some(3);
                node.up(ms(*now), HEAD, 3);
                node.down(ms(*now), HEAD, 3, false);
                true
            }
            _ => false,
        });
        let calls = calls.count();
        assert!((5..30).contains(&calls), "{calls} calls in ten seconds");
    }

    #[test]
    fn a_line_that_held_is_dialled_again_at_once_when_it_is_cut() {
        let mut node = Neighbours::new(false);
        node.add(ms(0), HEAD, None, Some("127.0.0.1:9".parse().unwrap()), true);
        for second in 1..20 {
            assert!(matches!(node.look(ms(second * 2_000))[..], [Due::Dial(HEAD, _)]));
            node.get(HEAD).unwrap().attempt = Some(3);
            node.up(ms(second * 2_000), HEAD, 3);
            node.down(ms(second * 2_000 + 1_500), HEAD, 3, false);
            assert_eq!(node.next_look(), Some(ms(second * 2_000 + 1_500)));
        }
    }

    /// A node had an address that a program's machine did not reach: what was to run there waited without a word.
    #[test]
    fn a_node_that_is_not_reached_is_told_of_once_until_it_is() {
        let mut guest = Neighbours::new(false);
        guest.add(ms(0), 2, Some(NODE), Some("127.0.0.1:9".parse().unwrap()), true);
        let mut told = 0;
        for now in 0..10_000 {
            for due in guest.look(ms(now)) {
                match due {
                    Due::Unreached(2, why) => {
                        assert!(
                            now >= UNREACHED_MS && why.contains("node 2 at 127.0.0.1:9: its port refuses"),
                            "{why}"
                        );
                        told += 1;
                    }
                    Due::Dial(2, _) => {
                        guest.get(2).unwrap().attempt = Some(3);
                        guest.down(ms(now), 2, 3, true);
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!(told, 1);
        guest.up(ms(10_000), 2, 4);
        guest.down(ms(20_000), 2, 4, false);
        guest.look(ms(20_000));
        assert!(guest.look(ms(20_000 + UNREACHED_MS)).iter().any(|due| matches!(due, Due::Unreached(2, _))));
    }

    #[test]
    fn what_kept_a_node_from_the_head_is_said_with_the_verdict() {
        let mut node = Neighbours::new(false);
        node.add(ms(0), HEAD, None, None, true);
        node.get(HEAD).unwrap().problem = Some("its certificate is odd".into());
        assert!(
            matches!(&node.look(ms(HEAD_GONE_MS))[..], [Due::Gone(HEAD, why)] if why.ends_with("s: its certificate is odd"))
        );
    }
}
