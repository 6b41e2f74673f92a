//! Who may come in, and what they map: a driver, a worker, a visitor, the keeper.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use hub::Past;
use model::{JobId, ProcId, TaskId, WorkerExit, WorkerId};
use wire::control::{FromNode, Hello, Role, Welcome};

use crate::NO_DESCRIPTORS;
use crate::looped::Node;
use crate::machine::Machine;

/// Starts a keeper that joins the node through this socket. Must not wait.
#[derive(Clone)]
pub struct StartKeeper(pub Arc<dyn Fn(OwnedFd) -> bool + Send + Sync>);

impl fmt::Debug for StartKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StartKeeper")
    }
}

/// Who is welcomed.
struct Guest<'a> {
    at: usize,
    id: ProcId,
    pid: i32,
    job: JobId,
    namespace: &'a str,
    past: Past,
}

impl Machine {
    fn refuse(&mut self, at: usize, why: &str) {
        self.conns.tell_at(at, &FromNode::Refused(why.into()), Vec::new());
    }

    pub(crate) fn refuse_protocol(&mut self, at: usize, theirs: u32) {
        let why = format!(
            "this process speaks protocol {theirs}, the node {}; install the same version of eagleray for both",
            wire::PROTOCOL
        );
        tracing::warn!("refused: {why}");
        self.refuse(at, &why);
    }

    fn welcome(&mut self, guest: Guest<'_>, memory: Vec<OwnedFd>) {
        let Guest { at, id, pid, job, namespace, past } = guest;
        let options = &self.options;
        let mut worker = [0; 28];
        worker[..20].copy_from_slice(&options.id.0[..20]);
        worker[20..].copy_from_slice(&id.to_u64().to_le_bytes());
        let seed: [u8; 16] = options.id.0[..16].try_into().expect("sixteen bytes");
        let welcome = Welcome {
            process: id,
            worker: WorkerId(worker),
            node: options.id,
            realm: options.cluster.as_ref().map_or(seed, |cluster| cluster.belonging.realm()),
            job,
            root: TaskId::root(job, seed).child(id.to_u64()),
            namespace: namespace.into(),
            session_dir: options.session_dir.to_string_lossy().into(),
            address: options.listen.as_ref().map_or_else(String::new, |path| path.to_string_lossy().into()).into(),
            cores: options.cores,
            folders: options.folders.iter().map(|folder| folder.name().to_string_lossy().into()).collect(),
            folders_full_at: options.folders_full_at,
            oom_retries: options.memory.task_retries,
            lineage_bytes_max: options.lineage_bytes_max,
            is_mortal: pid != rustix::process::getpid().as_raw_nonzero().get(),
            heirs: past.heirs,
            estates: past.estates,
        };
        self.conns.tell_at(at, &FromNode::Welcome(welcome), memory);
    }

    pub(crate) fn start_keeper_thread(&mut self, id: ProcId, past: Past) -> Option<()> {
        let StartKeeper(start) = self.options.keeper.clone()?;
        let memory = self.shared.descriptors()?;
        let (ours, theirs) = net::unix::pair().ok()?;
        let at = self.conns.add(ours, Some(id))?;
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        // Before it has said anything: what it is told next comes behind this.
        self.welcome(Guest { at, id, pid, job: JobId([0; 4]), namespace: "", past }, memory);
        if !start(theirs) {
            self.conns.remove_of(id);
            return None;
        }
        Some(())
    }
}

impl Node {
    pub(crate) fn on_hello(&mut self, at: usize, hello: Hello) {
        if hello.protocol != wire::PROTOCOL {
            return self.machine.refuse_protocol(at, hello.protocol);
        }
        if hello.role != Role::Visitor && hello.python != self.machine.options.python {
            let why = format!(
                "Version mismatch: the node runs Python {}, this process is Python {}. \
                 Values are pickled between the two, so use the same interpreter version for both.",
                self.machine.options.python, hello.python
            );
            return self.machine.refuse(at, &why);
        }
        let pid = hello.pid;
        match hello.role {
            Role::Visitor | Role::Keeper => {}
            Role::Worker { slot } => self.on_worker_hello(at, slot, pid),
            Role::Driver { namespace, surroundings, logs } => {
                let Some(memory) = self.machine.shared.descriptors() else {
                    return self.machine.refuse(at, NO_DESCRIPTORS);
                };
                let name = namespace.clone();
                let joining = self.step(|hub, step| hub.driver_joined(step, pid, name, surroundings, logs));
                let Some(hub::Joining { id, job }) = joining else {
                    return self.machine.refuse(at, "the node has as many processes as it can have");
                };
                self.machine.conns.is_of(at, id);
                self.machine.drivers.watch(id, pid);
                let past = self.hub.past();
                self.machine.welcome(Guest { at, id, pid, job, namespace: &namespace, past }, memory);
                self.step(|hub, step| hub.tell_of_open_cuts(step, id));
            }
        }
    }

    fn on_worker_hello(&mut self, at: usize, slot: u16, pid: i32) {
        let Some(id) = self.machine.conns.who(at).filter(|id| id.slot() == slot) else { return };
        let Some(memory) = self.machine.shared.descriptors() else {
            // It is tried again later, as if it had never started.
            self.hub.condemn(id, WorkerExit::NotStarted(NO_DESCRIPTORS.into()));
            return self.machine.zygote.kill(pid);
        };
        let past = self.hub.past();
        self.machine.welcome(Guest { at, id, pid, job: JobId([0; 4]), namespace: "", past }, memory);
        self.step(|hub, step| hub.worker_joined(step, id, pid));
    }
}
