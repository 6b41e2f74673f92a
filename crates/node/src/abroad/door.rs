//! Strangers: who calls at the port, and who wants to be let in. What they can cost is bounded, whatever they do.

use identity::{Accepts, Admission, Door, Granted, Refusal, TurnedAway, Wish};
use identity::{Fingerprint, Step};
use model::ProcId;
use net::clock::now;
use rustix::event::epoll::{self, EventData};
use rustix::io::Errno;
use wire::session::NodeLife;

use super::belonging::{Desk, HEAD};
use super::line::{Configs, Line, Stage};
use super::thread::{LISTENER, SHAKE_MS, Thread};
use crate::NO_DESCRIPTORS;

/// Callers who have not proved who they are, at most: one who has said nothing makes room for the next.
const STRANGERS_MAX: usize = 256;
/// In how many portions a conversation at the door may come. Each message is one unless somebody makes it more.
const PORTIONS_MAX: u32 = 16;
/// What the system lacks for one more caller it may have after this long.
const LACK_MS: u64 = 50;

impl Thread {
    pub(super) fn on_callers(&mut self) {
        while let Some(listener) = &self.listener {
            let now = now();
            if !self.knocking.may_come(now) {
                return self.watch_listener(false);
            }
            let flags = rustix::net::SocketFlags::CLOEXEC | rustix::net::SocketFlags::NONBLOCK;
            match rustix::net::accept_with(listener, flags) {
                Ok(socket) => {
                    if self.lines.iter().flatten().filter(|line| line.is_strangers()).count() >= STRANGERS_MAX {
                        self.turn_out_a_stranger();
                    }
                    self.add_line(Line::answer(socket, now.plus_ms(SHAKE_MS)));
                }
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(Errno::AGAIN) => return,
                Err(errno) => {
                    // Whoever knocks goes on knocking: without a pause this loop would do nothing else.
                    if matches!(errno, Errno::MFILE | Errno::NFILE) {
                        self.warn(|| NO_DESCRIPTORS.into());
                        self.turn_out_a_stranger();
                    }
                    self.knocking.close(now, LACK_MS);
                    return self.watch_listener(false);
                }
            }
        }
    }

    fn watch_listener(&self, is_watched: bool) {
        let Some(listener) = &self.listener else { return };
        let flags = if is_watched { epoll::EventFlags::IN } else { epoll::EventFlags::empty() };
        let _ = epoll::modify(&self.poll, listener, EventData::new_u64(LISTENER), flags);
    }

    /// Those that were held back may come again.
    pub(super) fn look_at_listener(&mut self) {
        if self.knocking.opens(now()) {
            self.watch_listener(true);
        }
    }

    /// One who has said nothing rather than one who has, and who came first.
    fn turn_out_a_stranger(&mut self) {
        let strangers = self.lines.iter().enumerate().filter_map(|(at, line)| Some((at, line.as_ref()?)));
        let strangers = strangers.filter(|(_, line)| line.is_strangers());
        let first = strangers.min_by_key(|(_, line)| (line.has_begun(), line.until)).map(|(at, _)| at);
        first.into_iter().for_each(|at| drop(self.drop_line(at)));
    }

    /// Strangers can cause any number of these.
    pub(super) fn warn(&mut self, text: impl FnOnce() -> String) {
        match self.warnings.say(now()) {
            Some(0) => tracing::warn!("{}", text()),
            Some(unsaid) => tracing::warn!("{} (and {unsaid} more warnings that were not written)", text()),
            None => {}
        }
    }

    /// The conversation with somebody who wants to be let in.
    pub(super) fn at_door(&mut self, at: usize, bytes: &[u8]) {
        let belonging = self.belonging.clone();
        let Some(desk) = &belonging.desk else { return self.close_line(at, false) };
        let Some(line) = self.lines.get_mut(at).and_then(Option::as_mut) else { return };
        let Stage::Door(mut admission, portions) = std::mem::replace(&mut line.stage, Stage::Closing) else { return };
        if portions >= PORTIONS_MAX {
            return self.close_line(at, false);
        }
        let tokens = match desk.tokens() {
            Ok(tokens) => tokens,
            Err(error) => {
                self.warn(|| format!("the tokens cannot be read: {error}"));
                return self.close_line(at, false);
            }
        };
        let door = Door { authority: &desk.authority, tokens: &tokens, head: HEAD };
        let decided = match admission.input(bytes, door, belonging.clock.now()) {
            Ok(Step::More) => {
                line.stage = Stage::Door(admission, portions + 1);
                return;
            }
            Ok(Step::Send(answer)) => {
                line.stage = Stage::Door(admission, portions + 1);
                return line.write(&answer);
            }
            Ok(Step::Decide(wish)) => self.decide(&mut admission, &wish, desk, door),
            Err(turned_away) => Err(turned_away),
        };
        let answer = match decided {
            Ok(granted) => granted.answer,
            Err(turned_away) => {
                self.warn(|| turned_away.to_string());
                turned_away.answer
            }
        };
        if let Some(line) = self.lines.get_mut(at).and_then(Option::as_mut) {
            line.write(&answer);
        }
    }

    /// Who has proved that it knows a token is let in, unless it does not fit, or was somebody who belongs here no more.
    fn decide(
        &mut self,
        admission: &mut Admission,
        wish: &Wish,
        desk: &Desk,
        door: Door<'_>,
    ) -> Result<Granted, TurnedAway> {
        let ours = self.belonging.python;
        if wish.python != ours {
            return Err(admission.refuse(Refusal::Python { ours, theirs: wish.python }));
        }
        let former = wish.former.map(|former| former.who).filter(|who| who.life == wish.life);
        let number = match former {
            Some(who) => self.look_at_former(who, wish.shown).map_err(|refusal| admission.refuse(refusal))?,
            None if self.last_number == ProcId::NODE_MAX => {
                let full = "the cluster has no number left for a node: start it anew";
                return Err(admission.refuse(Refusal::Other(full.into())));
            }
            None => self.last_number + 1,
        };
        let granted = admission.grant(number, door, self.belonging.clock.now())?;
        let who = NodeLife { node: number, life: wish.life };
        tracing::info!(node = number, token = %wish.token, cluster = %desk.authority.cluster(), "a node is let in");
        self.certificates.issued.give(
            who,
            Fingerprint::of(&granted.certificate),
            wish.shown.filter(|_| former.is_some()),
        );
        if former.is_none() {
            self.last_number = number;
            self.neighbours.add(now(), number, Some(who), None, false);
            self.carrier.add_node(who);
        }
        Ok(granted)
    }

    /// Somebody shows that it had this number: it keeps it if it belongs to the cluster.
    fn look_at_former(&mut self, who: NodeLife, shown: Option<Fingerprint>) -> Result<u32, Refusal> {
        let belongs = self.neighbours.get(who.node).is_some_and(|known| known.life == Some(who));
        if belongs && shown.is_some_and(|shown| self.certificates.issued.comes_with(who, shown)) {
            return Ok(who.node);
        }
        if belongs {
            self.expel(who);
        }
        Err(Refusal::Other(identity::Untrusted::Expelled(who).to_string()))
    }
}

pub(super) fn configs(belonging: &super::Belonging) -> Result<Configs, identity::Error> {
    let (membership, clock) = (belonging.membership(), belonging.clock.for_tls());
    let accepts: Accepts = belonging.accepts();
    let door = if belonging.is_head() { Some(identity::for_door(&membership, &clock)?) } else { None };
    let members = identity::for_members(&membership, &accepts, &clock)?;
    Ok(Configs { members, door, values: identity::for_values(&membership, &accepts, &clock)? })
}
