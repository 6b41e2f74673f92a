//! Joins a node: says hello, maps what it hands over, starts the two threads.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Condvar, Mutex};

use crossbeam_queue::SegQueue;
use net::unix::{self, Inbox};
use net::{Bell, Cells, Segment, Spinner, Waiters};
use wire::control::{FromNode, Hello, Role, ToNode};

use crate::pump::Pump;
use crate::records::Records;
use crate::state::State;
use crate::{Error, Runtime};

/// A process that has joined its node.
pub type Connected = Arc<Runtime>;

/// Joins the node behind `socket`.
///
/// # Errors
/// If the node refuses, or is gone.
pub fn connect(socket: OwnedFd, python: &str, role: Role) -> Result<Connected, Error> {
    let is_worker = matches!(role, Role::Worker { .. });
    let is_keeper = role == Role::Keeper;
    // Before anything is said: a process that cannot have its threads must not be counted on.
    let (to_control, control) = sync_channel::<(Connected, Inbox)>(1);
    let (to_pump, pump) = sync_channel::<Connected>(1);
    let threads = [
        spawn("eagleray-control", move || {
            if let Ok((runtime, inbox)) = control.recv() {
                runtime.run_control(inbox);
            }
        })?,
        spawn("eagleray-pump", move || {
            if let Ok(runtime) = pump.recv() {
                runtime.run_pump();
            }
        })?,
    ];
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    let hello = ToNode::Hello(Hello { protocol: wire::PROTOCOL, python: python.into(), pid, role });
    let os = |what: &'static str| move |errno| Error::Os { what, errno };
    unix::send(&socket, &wire::encode(&hello), &[]).map_err(os("saying hello to the node"))?;
    let mut inbox = Inbox::default();
    let message = inbox.receive(&socket).map_err(os("waiting for the node's welcome"))?.ok_or(Error::Closed)?;
    let welcome = match wire::decode::<FromNode>(&message) {
        Ok(FromNode::Welcome(welcome)) => welcome,
        Ok(FromNode::Refused(why)) => return Err(Error::Refused(why.into())),
        _ => return Err(Error::Refused("the node speaks another protocol; use the same version of eagleray".into())),
    };
    let mut fds = inbox.fds.drain(..);
    let (Some(segment), Some(data), Some(table), Some(journals)) = (fds.next(), fds.next(), fds.next(), fds.next())
    else {
        return Err(Error::Refused("the node handed no memory over".into()));
    };
    drop(fds);
    let segment = Arc::new(Segment::attach(segment).map_err(os("mapping the node's segment"))?);
    let me = welcome.process;
    let heirs = owner::Heirs::new(welcome.heirs, welcome.estates);
    let store = store::Client::attach(data, table, me.slot()).map_err(|error| Error::Refused(error.to_string()))?;
    let session_dir = std::path::Path::new(&*welcome.session_dir);
    let names = welcome.folders.iter().map(|name| std::path::Path::new(&**name)).enumerate();
    let folders = store::Folders {
        list: names.map(|(at, name)| store::Folder::new(name, at, session_dir, net::spawn_far)).collect(),
        full_at: f64::from(welcome.folders_full_at) / 1_000.0,
    };
    let runtime = Arc::new_cyclic(|this| Runtime {
        me,
        worker_id: welcome.worker,
        node_id: welcome.node,
        realm: welcome.realm,
        job: Mutex::new(welcome.job),
        root: welcome.root,
        namespace: Mutex::new(welcome.namespace),
        session_dir: welcome.session_dir,
        address: welcome.address,
        is_worker,
        is_keeper,
        bell: Bell::new(segment.clone(), me.slot()),
        carrier: std::sync::OnceLock::new(),
        spinner: Mutex::new(Spinner::new(&segment, me.slot())),
        segment,
        store,
        files: store::Files::new(folders, me, crate::value::refs_bytes),
        spill: crate::spill::Spill::new(this.clone()),
        short_until_ns: AtomicU64::new(0),
        state: Mutex::new(State::new(me, is_keeper, heirs)),
        cells: Cells::new(),
        dropped: SegQueue::new(),
        dropped_streams: SegQueue::new(),
        socket,
        sending: Mutex::new(()),
        waiters: Waiters::default(),
        naps: crate::waiting::Naps::default(),
        drains: AtomicU64::new(0),
        pump: Pump::default(),
        berth: Mutex::default(),
        room: Mutex::default(),
        room_answered: Condvar::new(),
        away: crate::away::Away::default(),
        answers: crate::control::Answers::default(),
        logs: crate::logs::Logs::default(),
        waits: crate::waits::Waits::default(),
        errands: crate::errands::Errands::default(),
        has_held_back: AtomicBool::new(false),
        loops: Mutex::new(Vec::new()),
        loops_count: std::sync::atomic::AtomicUsize::new(0),
        actor_ahead_max: std::sync::atomic::AtomicU32::new(0),
        interrupts: AtomicBool::new(false),
        fresh_interrupts: AtomicBool::new(false),
        readers_said: AtomicU64::new(0),
        has_stalled: AtomicBool::new(false),
        assignments: AtomicU64::new(0),
        closed: AtomicBool::new(false),
        threads: Mutex::new(Vec::new()),
    });
    {
        let mut state = runtime.state.lock().expect("never poisoned");
        state.party.owner.set_oom_retries(welcome.oom_retries);
        state.party.owner.set_lineage_max(welcome.lineage_bytes_max, runtime.files.is_on());
        let journals = store::Journals::attach(journals).map_err(|error| Error::Refused(error.to_string()))?;
        if is_keeper {
            state.records = Records::of_heir(journals);
        } else if welcome.is_mortal {
            state.party.owner.set_mortal();
            state.records = Records::of_mortal(store::Journal::new(journals, me.slot()));
        }
    }
    runtime.threads.lock().expect("never poisoned").extend(threads);
    to_control.send((runtime.clone(), inbox)).map_err(|_| Error::Closed)?;
    to_pump.send(runtime.clone()).map_err(|_| Error::Closed)?;
    Ok(runtime)
}

/// A native thread: it blocks all signals, so that they go to the user's threads.
pub(crate) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<std::thread::JoinHandle<()>, Error> {
    net::without_signals(|| std::thread::Builder::new().name(name.into()).stack_size(512 * 1024).spawn(run))
        .map_err(|error| Error::Refused(format!("cannot start a thread: {error}")))
}

impl Runtime {
    /// Whether the node is there and this process has not left it.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.is_closed()
    }

    /// Leaves the node and ends the threads. What waits fails; what is called later is refused.
    pub fn close(&self) {
        self.send(&ToNode::Bye);
        self.end_without_node();
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
        self.pump.kick();
        self.bell.wake();
        self.stop_spilling();
        self.files.close();
        let threads = std::mem::take(&mut *self.threads.lock().expect("never poisoned"));
        for thread in threads {
            let _ = thread.join();
        }
    }
}
