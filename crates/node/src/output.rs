//! Passes on what workers print to the drivers they belong to, as fast as those take it.

use hub::Dead;
use model::{JobId, ProcId, Tick, WorkerExit};
use rustix::event::epoll::EventFlags;
use wire::abroad::Between;
use wire::control::FromNode;
use wire::logs::{LOGS_BYTES_AHEAD, LogLines};

use crate::abroad::Ask;
use crate::lines::Said;
use crate::logs::{self, ReadTo, Source};
use crate::looped::Node;
use crate::poll::token;

impl Node {
    /// Something was written in the folder. It is left alone for a moment then.
    pub(crate) fn on_logs(&mut self) {
        self.watch_logs(EventFlags::empty());
        self.machine.logs.rests_until = Some(net::clock::now().plus_ms(logs::REST_MS));
        self.machine.logs.note_changed();
    }

    fn watch_logs(&self, what: EventFlags) {
        self.machine.poll.change(self.machine.logs.fd(), token::LOGS, what);
    }

    /// Looks again where there may be more, each time for a part of each file.
    pub(crate) fn look_after_logs(&mut self, now: Tick) {
        if self.machine.logs.rests_until.is_some_and(|until| until <= now) {
            self.machine.logs.rests_until = None;
            self.watch_logs(EventFlags::IN);
        }
        for name in self.machine.logs.take_behind() {
            self.pass_on(&name, now);
        }
        for name in self.machine.logs.take_overdue(now) {
            // Its end may have come and not been seen yet.
            if self.pass_on(&name, now) {
                let said = self.machine.logs.piece(&name, now);
                self.send_said(&name, said);
            }
        }
        self.serve_last_words();
    }

    /// Reads a part of what is new in a file and sends it to its driver. True if nothing more is there.
    fn pass_on(&mut self, name: &str, now: Tick) -> bool {
        let Some(source) = self.source(name) else { return false };
        if !self.takes_logs(source.job) {
            self.machine.logs.hold(name);
            return false;
        }
        let (said, read_to) = self.machine.logs.read(name, now);
        self.send_said(name, said);
        let is_at_end = read_to == ReadTo::End;
        if !is_at_end {
            self.machine.logs.note_behind(name);
        } else if self.machine.logs.is_of_dead(name) {
            let said = self.machine.logs.end(name);
            self.send_said(name, said);
            self.machine.logs.finish(name);
        }
        is_at_end
    }

    fn source(&self, name: &str) -> Option<Source> {
        self.machine.logs.of_dead(name).or_else(|| self.source_of(logs::parse(name, self.machine.options.number)?))
    }

    fn source_of(&self, id: ProcId) -> Option<Source> {
        let proc = self.hub.proc_or_remains(id)?;
        let label = self.machine.shared.segment.proc(id.slot()).label().into();
        let shown_as = proc.shown_as().map(Box::from);
        Some(Source { id: Some(id), pid: proc.pid(), job: proc.job(), shown_as, label })
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
            let node = "".into();
            let lines = LogLines { node, pid, name: name_shown, is_error: logs::is_error(name), lines };
            let weight = lines.weight();
            if let Some(driver) = self.hub.log_target(job) {
                let node = self.machine.abroad.as_ref().map_or_else(Box::default, |abroad| abroad.shown());
                self.machine.logs_abroad.sent(driver, weight);
                let message = Box::new(FromNode::Log(LogLines { node, ..lines.clone() }));
                self.machine.ask(Ask::Send(driver.node(), Between::Told { to: driver, message }));
            }
            let message = FromNode::Log(lines);
            for driver in self.hub.listeners(Some(job)) {
                self.machine.conns.logs_sent(driver, weight, None);
                self.machine.conns.tell(driver, &message);
            }
        }
    }

    /// Whether a job's driver has taken most of what it got. Where nobody listens all is read, and forgotten.
    fn takes_logs(&self, job: JobId) -> bool {
        if self.hub.log_target(job).is_some_and(|driver| self.machine.logs_abroad.ahead(driver) >= LOGS_BYTES_AHEAD) {
            return false;
        }
        let listeners = self.hub.listeners(Some(job));
        !listeners.into_iter().any(|driver| self.machine.conns.logs_ahead(driver) >= LOGS_BYTES_AHEAD)
    }

    /// Those who wait for all that was printed hear when they have it.
    fn serve_last_words(&mut self) {
        if self.machine.logs.awaited.is_empty() {
            return;
        }
        for name in self.machine.logs.take_reached() {
            let said = self.machine.logs.end(&name);
            self.send_said(&name, said);
        }
        for driver in self.machine.logs.take_served() {
            self.step(|hub, step| hub.last_words_said(step, driver));
        }
    }

    /// A process died: a worker's last words are passed on, and its job is told if that was not intended.
    pub(crate) fn logs_of_dead(&mut self, dead: &Dead, label: Box<str>) {
        let Dead { id, pid, job, is_worker, shown_as, exit } = dead;
        self.machine.logs.awaited.retain(|awaited| awaited.driver != *id);
        self.machine.logs.resume();
        let has_crashed = *is_worker && !matches!(exit, WorkerExit::Intended(_));
        let source = Source { id: None, pid: *pid, job: *job, shown_as: shown_as.clone(), label };
        for name in self.machine.logs.writer_died(*id, &source, has_crashed) {
            self.pass_on(&name, net::clock::now());
        }
        if has_crashed {
            let text = format!("A worker died or was killed while executing a task or actor: pid={pid}, {exit}");
            self.step(|hub, step| hub.notice_job(step, *job, "worker_died", &text));
        }
    }

    /// The node ends: passes on what its drivers still take.
    pub(crate) fn flush_logs(&mut self) {
        let names = self.machine.logs.names();
        names.iter().for_each(|name| self.machine.logs.note_behind(name));
        self.machine.logs.note_changed();
        while self.machine.logs.is_behind() {
            self.look_after_logs(net::clock::now());
        }
        for name in names {
            let said = self.machine.logs.end(&name);
            self.send_said(&name, said);
        }
    }
}
