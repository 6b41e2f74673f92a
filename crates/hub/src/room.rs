//! Room in the arena: extents for processes that need some. When there is none, everyone is asked to give back what it does not use and to
//! move what it owns into files, in rounds, as long as rounds bring something.

use model::{ProcId, Tick};
use rustc_hash::FxHashSet;
use wire::control::FromNodeOf;

use crate::body::{Body, NoRoom, Step};
use crate::hub::Hub;

/// How long a request waits for room that others may give back without being asked.
const PATIENCE_MS: u64 = 300;
/// How long it waits in all, while rounds bring something.
const WAIT_MS_MAX: u64 = 50_000;
/// Between two rounds of which the first brought nothing: what readers let go of may have helped.
const PAUSE_MS: u64 = 50;
/// A round is over after this long, whoever has not answered.
const ROUND_MS_MAX: u64 = 5_000;
/// A round asks for at least this part of the arena, so that there are few of them, but for no more than so many bytes.
const SHARE_PER_ROUND: u64 = 16;
const ROUND_BYTES_MAX: u64 = 256 << 20;
/// Values that outlive the process that made them are looked after this often.
const SWEEP_MS: u64 = 1_000;

#[derive(Default)]
pub(crate) struct Room {
    waiting: Vec<Request>,
    rounds: Rounds,
    /// Values are left behind by processes that are gone, as far as is known.
    has_orphans: bool,
    swept: Tick,
}

struct Request {
    since: Tick,
    who: ProcId,
    length: u64,
}

/// Who was asked in the round under way, and what it has brought.
#[derive(Default)]
struct Rounds {
    number: u64,
    awaited: FxHashSet<ProcId>,
    freed: u64,
    /// When the round under way is over at the latest, or the next one begins.
    next: Option<Tick>,
}

/// What becomes of those who wait once a round is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// There may be more: ask again.
    AskAgain,
    /// Nothing came; some may come without us.
    Pause,
    /// Nothing came for long enough.
    GiveUp,
}

impl Rounds {
    fn is_under_way(&self) -> bool {
        !self.awaited.is_empty()
    }

    fn begin(&mut self, asked: impl IntoIterator<Item = ProcId>) -> u64 {
        self.number += 1;
        self.awaited = asked.into_iter().collect();
        (self.freed, self.next) = (0, None);
        self.number
    }

    /// True: that was the last one.
    fn answered(&mut self, who: ProcId, round: u64, bytes: u64) -> bool {
        if round != self.number || !self.awaited.remove(&who) {
            return false;
        }
        self.freed += bytes;
        self.awaited.is_empty()
    }

    fn gone(&mut self, who: ProcId) -> bool {
        self.answered(who, self.number, 0)
    }

    /// For a request that has waited for so long.
    fn verdict(&self, waited_ms: u64) -> Verdict {
        match self.freed {
            _ if waited_ms >= WAIT_MS_MAX => Verdict::GiveUp,
            0 if waited_ms >= PATIENCE_MS => Verdict::GiveUp,
            0 => Verdict::Pause,
            _ => Verdict::AskAgain,
        }
    }
}

impl Room {
    pub(crate) fn next_deadline(&self) -> Option<Tick> {
        let sweep = self.has_orphans.then(|| self.swept.plus_ms(SWEEP_MS));
        self.rounds.next.into_iter().chain(sweep).min()
    }

    pub(crate) fn waiting(&self) -> impl Iterator<Item = &ProcId> {
        self.waiting.iter().map(|request| &request.who).chain(&self.rounds.awaited)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.rounds.awaited.is_empty()
    }
}

impl<B: Body> Hub<B> {
    pub(crate) fn want_extent(&mut self, step: &mut Step<'_, B>, who: ProcId, length: u64) {
        match step.body.grant(who, length) {
            Ok(extent) => self.tell(step, who, FromNodeOf::Extent { granted: Ok(extent), wanted: length }),
            Err(NoRoom::TooLarge) => self.refuse_extent(step, who, length),
            Err(NoRoom::Full) => {
                self.room.waiting.push(Request { since: step.now, who, length });
                if !self.room.rounds.is_under_way() {
                    self.begin_round(step);
                }
            }
        }
    }

    fn begin_round(&mut self, step: &mut Step<'_, B>) {
        let others = self.everyone_who_hears();
        let wanted: u64 = self.room.waiting.iter().map(|request| request.length).sum();
        let least = (step.body.store().capacity / SHARE_PER_ROUND).min(ROUND_BYTES_MAX);
        let round = self.room.rounds.begin(others.iter().copied());
        if step.body.move_kept(round, wanted.max(least)) {
            self.room.rounds.awaited.insert(self.depot());
        }
        self.room.rounds.next = Some(step.now.plus_ms(ROUND_MS_MAX));
        for other in others {
            self.tell(step, other, FromNodeOf::GiveBackRoom { round, bytes: wanted.max(least) });
        }
    }

    /// Who keeps values here for other nodes, as if it were a process.
    fn depot(&self) -> ProcId {
        ProcId::new(self.options.number, self.options.procs_max, 0)
    }

    /// Answers `Body::move_kept`.
    pub fn kept_for_others_moved(&mut self, step: &mut Step<'_, B>, round: u64, bytes: u64) {
        self.on_gave_back(step, self.depot(), round, bytes);
    }

    pub(crate) fn on_gave_back(&mut self, step: &mut Step<'_, B>, who: ProcId, round: u64, bytes: u64) {
        if self.room.rounds.answered(who, round, bytes) {
            self.end_round(step);
        }
    }

    /// Nothing is granted to a process that is dead: nobody would give it back.
    pub(crate) fn room_without(&mut self, step: &mut Step<'_, B>, gone: ProcId) {
        self.room.waiting.retain(|request| request.who != gone);
        if self.room.rounds.gone(gone) {
            self.end_round(step);
        }
    }

    /// A dead process's room is free, but for what others still read.
    pub fn note_orphans(&mut self, step: &Step<'_, B>) {
        self.room.has_orphans = step.body.store().orphaned > 0;
    }

    fn end_round(&mut self, step: &mut Step<'_, B>) {
        self.room.rounds.next = None;
        self.serve_waiting(step);
        let verdicts =
            self.room.waiting.iter().map(|request| self.room.rounds.verdict(step.now.ms_since(request.since)));
        let verdicts: Vec<Verdict> = verdicts.collect();
        let waiting = std::mem::take(&mut self.room.waiting);
        for (request, verdict) in waiting.into_iter().zip(&verdicts) {
            match verdict {
                Verdict::GiveUp => self.refuse_extent(step, request.who, request.length),
                Verdict::AskAgain | Verdict::Pause => self.room.waiting.push(request),
            }
        }
        if verdicts.contains(&Verdict::AskAgain) {
            self.begin_round(step);
        } else if verdicts.contains(&Verdict::Pause) {
            self.room.rounds.next = Some(step.now.plus_ms(PAUSE_MS));
        }
    }

    /// A process gives room back.
    pub fn return_extent(&mut self, step: &mut Step<'_, B>, who: ProcId, offset: u64, length: u64) {
        step.body.take_back(who, offset, length);
        self.serve_waiting(step);
    }

    /// What is due by now.
    pub(crate) fn look_after_room(&mut self, step: &mut Step<'_, B>) {
        if self.room.has_orphans && step.now.ms_since(self.room.swept) >= SWEEP_MS {
            self.room.swept = step.now;
            step.body.sweep();
            self.note_orphans(step);
        }
        if self.room.rounds.next.is_some_and(|next| next <= step.now) {
            self.room.rounds.next = None;
            if self.room.rounds.is_under_way() {
                // Somebody is stopped, or its disk is slow: the others do not wait for it.
                self.room.rounds.awaited.clear();
                return self.end_round(step);
            }
            self.serve_waiting(step);
            if !self.room.waiting.is_empty() {
                self.begin_round(step);
            }
        }
    }

    fn serve_waiting(&mut self, step: &mut Step<'_, B>) {
        if self.room.waiting.is_empty() {
            return;
        }
        step.body.sweep();
        for request in std::mem::take(&mut self.room.waiting) {
            match step.body.grant(request.who, request.length) {
                Ok(extent) => {
                    self.tell(step, request.who, FromNodeOf::Extent { granted: Ok(extent), wanted: request.length });
                }
                Err(_) => self.room.waiting.push(request),
            }
        }
    }

    fn refuse_extent(&self, step: &mut Step<'_, B>, who: ProcId, length: u64) {
        let store = step.body.store();
        let why = format!(
            "the object store is full: {length} bytes are needed, {} of {} are free. \
             Drop references that are no longer used, or pass a larger object_store_memory to init().",
            store.free, store.capacity
        );
        self.tell(step, who, FromNodeOf::Extent { granted: Err(why.into()), wanted: length });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ProcId = ProcId::new(1, 1, 1);
    const B: ProcId = ProcId::new(1, 2, 1);

    #[test]
    fn a_round_ends_with_its_last_answer_or_death() {
        let mut rounds = Rounds::default();
        let first = rounds.begin([A, B]);
        assert!(!rounds.answered(A, first, 10) && !rounds.answered(A, first, 10), "twice is once");
        assert!(rounds.gone(B) && !rounds.is_under_way());
        assert_eq!(rounds.freed, 10);
        let second = rounds.begin([A]);
        assert!(!rounds.answered(A, first, 99), "an answer to an older question");
        assert!(rounds.answered(A, second, 0));
    }

    #[test]
    fn rounds_go_on_while_they_bring_something() {
        let mut rounds = Rounds::default();
        let round = rounds.begin([A]);
        rounds.answered(A, round, 5);
        assert_eq!(rounds.verdict(PATIENCE_MS + 1), Verdict::AskAgain);
        assert_eq!(rounds.verdict(WAIT_MS_MAX), Verdict::GiveUp);
        let round = rounds.begin([A]);
        rounds.answered(A, round, 0);
        assert_eq!((rounds.verdict(1), rounds.verdict(PATIENCE_MS)), (Verdict::Pause, Verdict::GiveUp));
    }
}
