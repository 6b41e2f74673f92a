//! One actor, over all its lives.

use model::{ActorDeath, Lifetime, ProcId};

use crate::{ActorState, Creation};

/// What is known of an actor.
#[derive(Clone, Debug)]
pub struct Record {
    /// As it was asked for. The spec and the need are dropped when the actor dies.
    pub creation: Creation,
    /// Where it is in its life.
    pub state: ActorState,
    /// How often it was started again.
    pub incarnation: u32,
    /// Whether the constructor of this life has returned.
    pub is_built: bool,
    /// Lives in a row that ended before their constructor returned.
    pub(crate) stillborn: u32,
    /// It said that it leaves: the end of its process will be no crash.
    pub(crate) is_leaving: bool,
    /// Whether its name, if it has one, still leads to it.
    pub(crate) holds_name: bool,
}

impl Record {
    pub(crate) fn new(creation: Creation) -> Self {
        let holds_name = !creation.options.name.is_empty();
        let state = ActorState::Pending;
        Self { creation, state, incarnation: 0, is_built: false, stillborn: 0, is_leaving: false, holds_name }
    }

    /// Where it runs.
    #[must_use]
    pub fn worker(&self) -> Option<ProcId> {
        match self.state {
            ActorState::Alive { worker } => Some(worker),
            ActorState::Pending | ActorState::Restarting | ActorState::Dead(_) => None,
        }
    }

    /// Why it is no more.
    #[must_use]
    pub fn death(&self) -> Option<&ActorDeath> {
        match &self.state {
            ActorState::Dead(death) => Some(death),
            ActorState::Pending | ActorState::Alive { .. } | ActorState::Restarting => None,
        }
    }

    /// Whether it dies with the process that made it.
    #[must_use]
    pub fn is_owned(&self) -> bool {
        self.creation.options.lifetime == Lifetime::Owned
    }

    /// Restarts that are left; `None`: any number.
    #[must_use]
    pub fn restarts_left(&self) -> Option<u32> {
        u32::try_from(self.creation.options.restarts_max).ok().map(|most| most.saturating_sub(self.incarnation))
    }
}
