//! One dispatcher, one handler per message.

use std::os::fd::OwnedFd;

use model::{JobId, LeaseId, ProcId, TaskId, WorkerExit, WorkerId};
use scheduler::LeaseKind;
use wire::control::{Answer, FromNode, Hello, Question, Role, ToNode, Welcome};

use crate::NO_DESCRIPTORS;
use crate::looped::Node;
use crate::procs::Kind;

impl Node {
    pub(crate) fn on_message(&mut self, conn: usize, message: ToNode) {
        if let ToNode::Hello(hello) = message {
            return self.on_hello(conn, hello);
        }
        if let ToNode::Ask { request, question } = message {
            return self.on_ask(conn, request, question);
        }
        let Some(who) = self.conns.get_mut(conn).and_then(|conn| conn.who) else { return };
        match message {
            ToNode::Hello(_) | ToNode::Ask { .. } => {}
            ToNode::RequestLease { number, job, need, name } => {
                let lease = LeaseId { owner: who, number };
                if let Some(why) = self.never_here(&need.at) {
                    return self.refuse(lease, model::Failure::Unschedulable(why));
                }
                self.lease_names.insert(lease, name);
                self.lease_needs.insert(lease, need.clone());
                self.note_lease_job(lease, job);
                self.schedule(scheduler::Event::LeaseRequested { lease, job, kind: LeaseKind::Tasks, need });
            }
            ToNode::ReturnLease { number } => {
                let lease = LeaseId { owner: who, number };
                self.lease_needs.remove(&lease);
                self.lease_names.remove(&lease);
                self.estates.lease_ended(&lease);
                self.schedule(scheduler::Event::LeaseReturned(lease));
            }
            ToNode::Blocked { blocked: true } => self.schedule(scheduler::Event::WorkerBlocked(who)),
            ToNode::Blocked { blocked: false } => self.schedule(scheduler::Event::WorkerUnblocked(who)),
            ToNode::CreateActor { actor, job, options, get_if_exists, spec } => {
                self.creators.insert(actor, who);
                self.watchers.entry(actor).or_default().push(who);
                let spec = spec.into();
                let creation = control::Creation { actor, owner: who, job, options, get_if_exists, spec };
                self.act(control::Event::CreateRequested(creation));
            }
            ToNode::WatchActor { actor } => self.watch_actor(actor, who),
            ToNode::WatchGroup { group } => self.watch_group(group, who),
            ToNode::RemoveGroup(group) => self.remove_group(Some(who), group),
            ToNode::KillActor { actor, no_restart } => self.act(control::Event::KillRequested { actor, no_restart }),
            ToNode::ActorOutOfScope { actor } => self.act(control::Event::OutOfScope(actor)),
            ToNode::ActorBuilt { actor, shown_as } => {
                if let Some(proc) = self.procs.get_mut(who) {
                    proc.shown_as = Some(shown_as);
                }
                self.on_actor_built(actor, who);
            }
            ToNode::ActorBuildFailed { actor, error } => {
                self.act(control::Event::BuildFailed { actor, worker: who, error: error.into() });
            }
            ToNode::Leaving => {
                self.act(control::Event::Leaving { worker: who });
                if let Some(proc) = self.procs.get_mut(who) {
                    proc.ending.get_or_insert_with(|| "it left by itself (INTENDED_USER_EXIT)".into());
                    if proc.shown_as.is_some() {
                        self.give_time_to_end(who);
                    }
                }
            }
            ToNode::Retiring => self.on_retiring(who),
            ToNode::Export { function, body } => self.export(who, function, body),
            ToNode::WantExtent { length } => self.want_extent(who, length),
            ToNode::ReturnExtent { offset, length } => self.return_extent(who, offset, length),
            ToNode::Holdings { number, holdings } => self.on_holdings(who, number, holdings),
            ToNode::GaveBack { round, bytes } => self.on_gave_back(who, round, bytes),
            ToNode::LinkClosed { peer } => self.on_link_closed(who, peer),
            ToNode::WantLink { peer } => {
                if !self.link(who, peer) {
                    self.on_met(who, peer);
                }
            }
            ToNode::Idle { peer, quiet } => self.on_idle(who, peer, quiet),
            ToNode::Met { name } => self.on_met(who, name),
            ToNode::Relay { to, message } => self.relay(who, to, message),
            ToNode::RelayAll(messages) => messages.into_iter().for_each(|(to, message)| self.relay(who, to, message)),
            ToNode::KillWorker { worker } => {
                if self.procs.get(worker).is_some_and(|proc| proc.kind == Kind::Worker) {
                    self.end_worker(worker, false, "its caller ended it (a forced cancel)");
                }
            }
            ToNode::Waits(waits) => {
                if let Some(proc) = self.procs.get_mut(who) {
                    proc.waits = waits;
                    proc.waits_said = net::clock::now();
                }
            }
            ToNode::Logs(about) => self.on_about_logs(who, about),
            ToNode::Notice { kind, text } => {
                if let Some(job) = self.procs.get(who).map(|proc| proc.job)
                    && self.told.is_news(job, &kind, &text)
                {
                    self.notice_job(job, &kind, &text);
                }
            }
            ToNode::CollectGarbage => {
                let everybody: Vec<ProcId> = self.procs.iter().map(|proc| proc.id).collect();
                for process in everybody {
                    self.tell(process, &FromNode::CollectGarbage);
                }
            }
            ToNode::Inherited { of } => self.on_inherited(of),
            ToNode::Settled { of, serving } => self.on_settled(of, serving),
            ToNode::Served { worker } => self.on_served(worker),
            ToNode::Bye => {
                if self.procs.get(who).is_some_and(|proc| matches!(proc.kind, Kind::Driver { .. })) {
                    self.process_died(who, WorkerExit::Intended("its driver left (INTENDED_USER_EXIT)".into()));
                }
            }
        }
    }

    fn relay(&mut self, who: ProcId, to: ProcId, message: wire::peer::Peer) {
        match self.procs.get_mut(to) {
            Some(proc) if proc.conn.is_some() => {
                self.meet(who, to);
                self.tell(to, &FromNode::Relay { sender: who, message });
            }
            // It has let go of its end and is about to be dead. Who hears of that first knows whom to turn to.
            Some(proc) => proc.undelivered.push((who, message)),
            None => self.tell(who, &FromNode::Undeliverable { to, message }),
        }
    }

    pub(crate) fn refuse_protocol(&mut self, conn: usize, theirs: u32) {
        let why = format!(
            "this process speaks protocol {theirs}, the node {}; install the same version of eagleray for both",
            wire::PROTOCOL
        );
        tracing::warn!("refused: {why}");
        self.tell_conn(conn, &FromNode::Refused(why.into()), Vec::new());
    }

    fn on_hello(&mut self, conn: usize, hello: Hello) {
        if hello.protocol != wire::PROTOCOL {
            return self.refuse_protocol(conn, hello.protocol);
        }
        if hello.role != Role::Visitor && hello.python != self.options.python {
            let why = format!(
                "Version mismatch: the node runs Python {}, this process is Python {}. \
                 Values are pickled between the two, so use the same interpreter version for both.",
                self.options.python, hello.python
            );
            return self.tell_conn(conn, &FromNode::Refused(why.into()), Vec::new());
        }
        match hello.role {
            Role::Visitor | Role::Keeper => {}
            Role::Worker { slot } => {
                let known = self.conns.get_mut(conn).and_then(|conn| conn.who).filter(|id| id.slot() == slot);
                let Some(id) = known else { return };
                let Some(memory) = self.memory() else {
                    // It is tried again later, as if it had never started.
                    if let Some(proc) = self.procs.get_mut(id) {
                        proc.verdict.get_or_insert_with(|| WorkerExit::NotStarted(NO_DESCRIPTORS.into()));
                    }
                    return self.zygote_kill(hello.pid);
                };
                if let Some(proc) = self.procs.get_mut(id) {
                    proc.kind = Kind::Worker;
                    if proc.pid == 0 {
                        proc.pid = hello.pid;
                    }
                }
                self.welcome(conn, id, JobId([0; 4]), "", memory);
                self.schedule(scheduler::Event::WorkerReady(id));
                self.warn_of_large_pool();
            }
            Role::Driver { namespace, surroundings, logs } => {
                let Some(memory) = self.memory() else {
                    return self.tell_conn(conn, &FromNode::Refused(NO_DESCRIPTORS.into()), Vec::new());
                };
                let kind = Kind::Driver { namespace: namespace.clone(), surroundings, logs };
                let Some(id) = self.add_proc(hello.pid, kind) else {
                    let why = "the node has as many processes as it can have";
                    return self.tell_conn(conn, &FromNode::Refused(why.into()), Vec::new());
                };
                let job = self.jobs.allocate();
                if let Some(proc) = self.procs.get_mut(id) {
                    proc.conn = Some(conn);
                    proc.job = job;
                }
                if let Some(conn) = self.conns.get_mut(conn) {
                    conn.who = Some(id);
                }
                self.watch_driver(id, hello.pid);
                self.welcome(conn, id, job, &namespace, memory);
            }
        }
    }

    /// What a process maps, to be handed over; none if there are no descriptors left.
    pub(crate) fn memory(&self) -> Option<Vec<OwnedFd>> {
        let shared = [self.segment.fd(), self.room.host.data_fd(), self.room.host.table_fd(), self.journals.fd()];
        shared.iter().map(|fd| fd.try_clone_to_owned().ok()).collect()
    }

    pub(crate) fn welcome(&mut self, conn: usize, id: ProcId, job: JobId, namespace: &str, memory: Vec<OwnedFd>) {
        let mut worker = [0; 28];
        worker[..20].copy_from_slice(&self.options.id.0[..20]);
        worker[20..].copy_from_slice(&id.to_u64().to_le_bytes());
        let seed: [u8; 16] = self.options.id.0[..16].try_into().expect("sixteen bytes");
        let welcome = Welcome {
            process: id,
            worker: WorkerId(worker),
            node: self.options.id,
            job,
            root: TaskId::root(job, seed).child(id.to_u64()),
            namespace: namespace.into(),
            session_dir: self.options.session_dir.to_string_lossy().into(),
            address: self.options.listen.as_ref().map_or_else(String::new, |path| path.to_string_lossy().into()).into(),
            cores: self.options.cores,
            folders: self.options.folders.iter().map(|folder| folder.name().to_string_lossy().into()).collect(),
            folders_full_at: self.options.folders_full_at,
            oom_retries: self.options.memory.task_retries,
            lineage_bytes_max: self.options.lineage_bytes_max,
            is_mortal: self
                .procs
                .get(id)
                .is_some_and(|proc| proc.pid != rustix::process::getpid().as_raw_nonzero().get()),
            heirs: self.estates.heirs(),
            estates: self.estates.count(),
        };
        self.tell_conn(conn, &FromNode::Welcome(welcome), memory);
    }

    fn on_ask(&mut self, conn: usize, request: u64, question: Question) {
        let who = self.conns.get_mut(conn).and_then(|conn| conn.who);
        let answer = match question {
            Question::Function(function) => match who {
                Some(who) => return self.ask_function(who, request, function),
                None => Answer::Function(None),
            },
            Question::ActorByName { namespace, name } => {
                let found = self
                    .actors
                    .by_name(&namespace, &name)
                    .filter(|actor| self.actors.get(*actor).is_some_and(|record| record.death().is_none()));
                if let (Some(actor), Some(who)) = (found, who) {
                    self.watch_actor(actor, who);
                }
                Answer::Actor(found.and_then(|actor| self.named(actor)))
            }
            Question::ActorNames { namespace, all } => {
                let names = self.actors.names((!all).then_some(&*namespace));
                Answer::ActorNames(names.map(|(space, name, _)| (Box::from(space), Box::from(name))).collect())
            }
            Question::CreateGroup { group, options } => Answer::GroupMade(self.create_group(who, group, options)),
            Question::RemoveGroup(group) => {
                self.remove_group(who, group);
                Answer::Done
            }
            Question::Groups(which) => Answer::Groups(self.list_groups(&which)),
            Question::Resources => {
                let list = |resources: model::Resources| {
                    resources.iter().map(|(name, amount)| (Box::from(name), amount.0)).collect()
                };
                Answer::Resources { total: list(self.scheduler.total()), free: list(self.scheduler.available()) }
            }
            Question::Inventory { limit } => return self.take_inventory(conn, request, limit),
            Question::WatchWaits => return self.watch_waits(conn, request),
            Question::Status => Answer::Status(Box::new(self.status())),
            Question::Stop => {
                self.stopping = true;
                Answer::Done
            }
            Question::Sync => Answer::Done,
        };
        self.tell_conn(conn, &FromNode::Answer { request, answer }, Vec::new());
    }
}
