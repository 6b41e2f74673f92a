//! Passes on what workers print to the drivers they belong to, as fast as those take it.

use model::{JobId, ProcId, Tick, WorkerExit};
use rustix::event::epoll::{self, EventData, EventFlags};
use wire::control::FromNode;
use wire::logs::{AboutLogs, LOGS_BYTES_AHEAD, LogLines};

use crate::lines::Said;
use crate::logs::{self, ReadTo, Source};
use crate::looped::{Node, token};
use crate::procs::Kind;

impl Node {
    /// Something was written in the folder. It is left alone for a moment then.
    pub(crate) fn on_logs(&mut self) {
        self.watch_logs(EventFlags::empty());
        self.logs.rests_until = Some(net::clock::now().plus_ms(logs::REST_MS));
        self.logs.note_changed();
    }

    fn watch_logs(&self, what: EventFlags) {
        let _ = epoll::modify(&self.epoll, self.logs.fd(), EventData::new_u64(token::LOGS), what);
    }

    /// Looks again where there may be more, each time for a part of each file.
    pub(crate) fn look_after_logs(&mut self, now: Tick) {
        if self.logs.rests_until.is_some_and(|until| until <= now) {
            self.logs.rests_until = None;
            self.watch_logs(EventFlags::IN);
        }
        for name in self.logs.take_behind() {
            self.pass_on(&name, now);
        }
        for name in self.logs.take_overdue(now) {
            // Its end may have come and not been seen yet.
            if self.pass_on(&name, now) {
                let said = self.logs.piece(&name, now);
                self.send_said(&name, said);
            }
        }
        self.serve_last_words();
    }

    /// Reads a part of what is new in a file and sends it to its driver. True if nothing more is there.
    fn pass_on(&mut self, name: &str, now: Tick) -> bool {
        let Some(source) = self.source(name) else { return false };
        if !self.takes_logs(source.job) {
            self.logs.hold(name);
            return false;
        }
        let (said, read_to) = self.logs.read(name, now);
        self.send_said(name, said);
        let is_at_end = read_to == ReadTo::End;
        if !is_at_end {
            self.logs.note_behind(name);
        } else if self.logs.is_of_dead(name) {
            let said = self.logs.end(name);
            self.send_said(name, said);
            self.logs.finish(name);
        }
        is_at_end
    }

    fn source(&self, name: &str) -> Option<Source> {
        self.logs.of_dead(name).or_else(|| self.source_of(logs::parse(name, self.options.number)?))
    }

    fn source_of(&self, id: ProcId) -> Option<Source> {
        let proc = self.procs.any(id)?;
        let label = self.segment.proc(id.slot()).label().into();
        Some(Source { id: Some(id), pid: proc.pid, job: proc.job, shown_as: proc.shown_as.clone(), label })
    }

    fn send_said(&mut self, name: &str, said: Vec<Said>) {
        if said.is_empty() {
            return;
        }
        // What marks these lines may have been said before they were printed.
        if let Some(id) = self.source(name).and_then(|source| source.id) {
            self.hear(id);
        }
        let Some(Source { pid, job, shown_as, label, .. }) = self.source(name) else { return };
        for Said { speaker, lines } in said {
            let speaker = if speaker.is_empty() { label.clone() } else { speaker };
            let name_shown = shown_as.clone().unwrap_or(speaker);
            let lines = LogLines { pid, name: name_shown, is_error: logs::is_error(name), lines };
            let weight = lines.weight();
            let message = FromNode::Log(lines);
            for (driver, conn) in self.listeners(Some(job)) {
                if let Some(conn) = self.conns.get_mut(conn) {
                    conn.logs_ahead += weight;
                }
                self.tell(driver, &message);
            }
        }
    }

    /// Whether a job's driver has taken most of what it got. Where nobody listens all is read, and forgotten.
    fn takes_logs(&mut self, job: JobId) -> bool {
        let listeners = self.listeners(Some(job));
        !listeners
            .into_iter()
            .any(|(_, conn)| self.conns.get_mut(conn).is_some_and(|conn| conn.logs_ahead >= LOGS_BYTES_AHEAD))
    }

    pub(crate) fn on_about_logs(&mut self, who: ProcId, about: AboutLogs) {
        let Some(proc) = self.procs.get(who) else { return };
        let (job, conn) = (proc.job, proc.conn);
        match about {
            AboutLogs::Taken(weight) => {
                if let Some(conn) = conn.and_then(|conn| self.conns.get_mut(conn)) {
                    conn.logs_ahead = conn.logs_ahead.saturating_sub(usize::try_from(weight).unwrap_or(usize::MAX));
                }
                self.logs.resume();
            }
            AboutLogs::LastWords => {
                let of_job = self.procs.iter().filter(|proc| proc.job == job && proc.id != who).map(|proc| proc.id);
                self.logs.await_all(who, job, of_job);
                self.logs.resume();
            }
        }
    }

    /// Those who wait for all that was printed hear when they have it.
    fn serve_last_words(&mut self) {
        if self.logs.awaited.is_empty() {
            return;
        }
        for name in self.logs.take_reached() {
            let said = self.logs.end(&name);
            self.send_said(&name, said);
        }
        for driver in self.logs.take_served() {
            self.tell(driver, &FromNode::LastWords);
        }
    }

    pub(crate) fn listeners(&self, job: Option<JobId>) -> Vec<(ProcId, usize)> {
        self.procs
            .iter()
            .filter(|proc| matches!(proc.kind, Kind::Driver { logs, .. } if logs || job.is_none()))
            .filter(|proc| job.is_none_or(|job| proc.job == job))
            .filter_map(|proc| Some((proc.id, proc.conn?)))
            .collect()
    }

    /// A process died: a worker's last words are passed on, and its job is told if that was not intended.
    pub(crate) fn logs_of_dead(&mut self, id: ProcId, exit: &WorkerExit) {
        self.logs.awaited.retain(|awaited| awaited.driver != id);
        self.logs.resume();
        let Some(source) = self.source_of(id) else { return };
        let is_worker = self.procs.any(id).is_some_and(|proc| proc.kind == Kind::Worker);
        let has_crashed = is_worker && !matches!(exit, WorkerExit::Intended(_));
        let source = Source { id: None, ..source };
        for name in self.logs.writer_died(id, &source, has_crashed) {
            self.pass_on(&name, net::clock::now());
        }
        if has_crashed {
            let text =
                format!("A worker died or was killed while executing a task or actor: pid={}, {exit}", source.pid);
            self.notice_job(source.job, "worker_died", &text);
        }
    }

    /// The node ends: passes on what its drivers still take.
    pub(crate) fn flush_logs(&mut self) {
        let names = self.logs.names();
        names.iter().for_each(|name| self.logs.note_behind(name));
        self.logs.note_changed();
        while self.logs.is_behind() {
            self.look_after_logs(net::clock::now());
        }
        for name in names {
            let said = self.logs.end(&name);
            self.send_said(&name, said);
        }
    }
}
