//! Positions that were asked for, until all that was accepted before them is on the stream: then a mark says so behind it.

use std::collections::VecDeque;

/// How much one side of a session has accepted for the other: a number that only that session's other end can make sense of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

#[derive(Default)]
pub(crate) struct Marks {
    /// Each with how many items wait that belong before it, and not before an earlier one.
    pending: VecDeque<(Position, usize)>,
    /// The last that was asked for.
    asked: Position,
    /// How many wait behind the last.
    behind: usize,
}

impl Marks {
    /// An item waits to be sent.
    pub(crate) fn on_queued(&mut self) {
        self.behind += 1;
    }

    /// The item with this ticket is on the stream.
    pub(crate) fn on_sent(&mut self, ticket: u64) {
        let at = self.pending.partition_point(|(position, _)| position.0 < ticket);
        let count = self.pending.get_mut(at).map_or(&mut self.behind, |(_, count)| count);
        *count -= 1;
    }

    /// A mark is wanted here. The same one is sent once.
    pub(crate) fn ask(&mut self, position: Position) {
        if position > self.asked {
            self.pending.push_back((position, std::mem::take(&mut self.behind)));
            self.asked = position;
        }
    }

    /// The furthest mark before which nothing waits.
    pub(crate) fn ready(&self) -> Option<Position> {
        self.pending.iter().take_while(|(_, count)| *count == 0).last().map(|(position, _)| *position)
    }

    /// The mark is on the stream.
    pub(crate) fn on_put(&mut self, mark: Position) {
        while self.pending.front().is_some_and(|(position, _)| *position <= mark) {
            self.pending.pop_front();
        }
    }
}
