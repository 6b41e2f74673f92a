//! What the loop waits for.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};

/// What a readiness event is about.
pub(crate) mod token {
    pub(crate) const WAKE: u64 = 0;
    pub(crate) const LISTEN: u64 = 1;
    pub(crate) const ZYGOTE: u64 = 2;
    pub(crate) const ZYGOTE_PID: u64 = 3;
    pub(crate) const LOGS: u64 = 4;
    /// Connections from here on.
    pub(crate) const CONNS: u64 = 1 << 32;
    /// Drivers' pidfds from here on.
    pub(crate) const DRIVERS: u64 = 1 << 33;
}

/// The node's epoll; a copy for each room that has descriptors in it.
#[derive(Clone)]
pub(crate) struct Poll(Arc<OwnedFd>);

impl Poll {
    pub(crate) fn new() -> rustix::io::Result<Self> {
        epoll::create(epoll::CreateFlags::CLOEXEC).map(|fd| Self(Arc::new(fd)))
    }

    /// Says when it can be read, or is at its end.
    pub(crate) fn watch(&self, fd: impl AsFd, token: u64) -> rustix::io::Result<()> {
        epoll::add(&*self.0, fd, EventData::new_u64(token), EventFlags::IN)
    }

    pub(crate) fn change(&self, fd: impl AsFd, token: u64, what: EventFlags) {
        let _ = epoll::modify(&*self.0, fd, EventData::new_u64(token), what);
    }

    pub(crate) fn forget(&self, fd: impl AsFd) {
        let _ = epoll::delete(&*self.0, fd);
    }

    pub(crate) fn wait(&self, events: &mut Vec<Event>, timeout: Option<&Timespec>) -> rustix::io::Result<usize> {
        epoll::wait(&*self.0, rustix::buffer::spare_capacity(events), timeout)
    }
}
