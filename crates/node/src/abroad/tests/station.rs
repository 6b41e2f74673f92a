//! One node's carrier, driven by hand.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use carrier::ToHub;
use identity::{Folder, Membership, Python, Token};
use model::ProcId;
use wire::abroad::Between;
use wire::peer::Peer;

use crate::abroad::belonging::Clock;
use crate::abroad::{Abroad, Ask, Belonging, ClusterOptions, HEAD, JoinError, Told, join};
use crate::machine::Shared;

pub(super) const PYTHON: Python = Python { major: 3, minor: 12 };
/// Nothing here takes as long.
pub(super) const PATIENCE: Duration = Duration::from_secs(40);

pub(super) struct Station {
    pub(super) abroad: Abroad,
    pub(super) belonging: Arc<Belonging>,
    pub(super) told: VecDeque<Told>,
    wake: OwnedFd,
    folder: PathBuf,
    sent: u64,
    heard: u64,
    _shared: Shared,
}

fn new_folder() -> PathBuf {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let name = format!("eagleray-abroad-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
    std::env::temp_dir().join(name)
}

pub(super) fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

impl Station {
    pub(super) fn head() -> Self {
        Self::head_at(loopback())
    }

    pub(super) fn head_at(listen: SocketAddr) -> Self {
        let folder = new_folder();
        let belonging = Belonging::found(&folder, PYTHON).unwrap();
        Self::start(belonging, None, Some(listen), folder)
    }

    /// Gets in as nodes do, and waits until there is a session.
    pub(super) fn member_of(head: &Self) -> Self {
        Self::member_by(head.address(), head.token())
    }

    pub(super) fn member_by(head: SocketAddr, token: Token) -> Self {
        let joined = join(&head.ip().to_string(), head.port(), token, PYTHON, PATIENCE).unwrap();
        let mut member = Self::start(joined.belonging, Some(head), Some(loopback()), new_folder());
        member.wait_until_up();
        member
    }

    pub(super) fn wait_until_up(&mut self) {
        self.until(|told| matches!(told, Told::HeadUp(_)).then_some(()));
    }

    pub(super) fn start(
        belonging: Belonging,
        head: Option<SocketAddr>,
        listen: Option<SocketAddr>,
        folder: PathBuf,
    ) -> Self {
        let belonging = Arc::new(belonging);
        let mut options = crate::tests::options(&folder, 10);
        options.number = belonging.life().node;
        let cluster = ClusterOptions {
            belonging: belonging.clone(),
            head,
            listen,
            advertised: None,
            name: "station".into(),
            labels: Vec::new(),
            is_guest: false,
        };
        let wake = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        let shared = Shared::new(&options).unwrap();
        let abroad = Abroad::start(&options, &cluster, &shared, wake.try_clone().unwrap()).unwrap();
        Self { abroad, belonging, told: VecDeque::new(), wake, folder, sent: 0, heard: 0, _shared: shared }
    }

    pub(super) fn folder(&self) -> &std::path::Path {
        &self.folder
    }

    pub(super) fn number(&self) -> u32 {
        self.belonging.life().node
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.abroad.address().unwrap().parse().unwrap()
    }

    /// At the head: what its file says.
    pub(super) fn token(&self) -> Token {
        let bytes = Folder::open(&self.folder).unwrap().read("token").unwrap().unwrap();
        Token::parse(std::str::from_utf8(&bytes).unwrap()).unwrap()
    }

    /// Waits until it is told something of this kind.
    pub(super) fn until<T>(&mut self, mut is_it: impl FnMut(&Told) -> Option<T>) -> T {
        self.within(PATIENCE, &mut is_it).expect("what was waited for does not come")
    }

    pub(super) fn within<T>(&mut self, patience: Duration, mut is_it: impl FnMut(&Told) -> Option<T>) -> Option<T> {
        let until = Instant::now() + patience;
        loop {
            while let Some(told) = self.told.pop_front() {
                if let Told::Failed(why) = &told {
                    panic!("{why}");
                }
                if let Some(found) = is_it(&told) {
                    return Some(found);
                }
            }
            self.told = self.abroad.take_told();
            let left = until.saturating_duration_since(Instant::now());
            if self.told.is_empty() && left.is_zero() {
                return None;
            }
            if self.told.is_empty() {
                let mut fds = [rustix::event::PollFd::new(&self.wake, rustix::event::PollFlags::IN)];
                let limit = left.min(Duration::from_millis(200)).try_into().unwrap();
                if rustix::event::poll(&mut fds, Some(&limit)).unwrap() > 0 {
                    rustix::io::read(&self.wake, &mut [0; 8]).unwrap();
                }
            }
        }
    }

    /// Until this holds; meanwhile its thread is woken now and then, as work would do.
    pub(super) fn until_it_is(&self, mut is_it: impl FnMut() -> bool) {
        let until = Instant::now() + PATIENCE;
        while !is_it() {
            assert!(Instant::now() < until, "what was waited for does not come");
            self.abroad.ask(Ask::Flush(0));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Says the next of a row of messages.
    pub(super) fn say(&mut self, to: u32) {
        self.sent += 1;
        let driver = ProcId::new(to, 1, 0);
        self.abroad.ask(Ask::Send(to, Between::LogsTaken { driver, weight: self.sent }));
    }

    /// Waits until so many of the row have come: each once, and in order.
    pub(super) fn hear(&mut self, count: u64) {
        let mut heard = self.heard;
        self.until(|told| {
            if let Told::Hub(ToHub::Said { message: Between::LogsTaken { weight, .. }, .. }) = told {
                assert_eq!(*weight, heard + 1, "SESSION-1");
                heard += 1;
            }
            (heard == count).then_some(())
        });
        self.heard = heard;
    }

    pub(super) fn lost(&mut self) -> String {
        self.until(|told| if let Told::HeadLost(why) = told { Some(why.clone()) } else { None })
    }

    pub(super) fn hub_message<T>(&mut self, mut is_it: impl FnMut(&Between<Peer>) -> Option<T>) -> T {
        self.until(|told| if let Told::Hub(ToHub::Said { message, .. }) = told { is_it(message) } else { None })
    }
}

impl Drop for Station {
    fn drop(&mut self) {
        self.abroad.stop();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Both can hear each other.
pub(super) fn check_calls(head: &mut Station, member: &mut Station) {
    for _ in 0..10 {
        head.say(member.number());
        member.say(HEAD);
    }
    let (to_head, to_member) = (member.sent, head.sent);
    head.hear(to_head);
    member.hear(to_member);
}

pub(super) fn clone_of(membership: &Membership, clock: &Clock) -> Membership {
    Membership::from_bytes(&membership.to_bytes(), clock.now()).unwrap()
}

pub(super) fn refused(head: &Station, token: Token, python: Python) -> JoinError {
    let address = head.address();
    join(&address.ip().to_string(), address.port(), token, python, PATIENCE).unwrap_err()
}
