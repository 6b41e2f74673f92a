//! What drivers should read once: warnings with a kind that programs know, and a text for people.

use model::{GroupId, JobId, LeaseId, Need, ProcId, Quantity, Resources, Tick, Where, WorkerExit};
use rustc_hash::FxHashSet;
use scheduler::{Demand, LeaseKind};
use wire::control::FromNodeOf;

use crate::body::{Body, Step};
use crate::hub::Hub;
use crate::members::member;
use crate::procs::{Kind, Proc};

/// Workers that fail to start one after the other before the user is told.
const FAILED_STARTS_MAX: u32 = 3;
/// And how long until it is told again.
const FAILED_STARTS_TOLD_MS: u64 = 30_000;
/// Workers in use from which on the user is told: so many for each CPU,
const POOL_LARGE_PER_CPU: u32 = 4;
/// and at least these: a few actors on a small machine are nothing out of the ordinary.
const POOL_LARGE_MIN: u32 = 32;

/// How often it is told that there are no more workers.
const FULL_TOLD_MS: u64 = 30_000;
/// And how long after the last one was given out at first.
const FULL_LOOK_MS: u64 = 1_000;

/// Texts that are remembered, so that they are not told twice.
const SAID_MAX: usize = 1024;

/// What was told already.
#[derive(Default)]
pub(crate) struct Told {
    /// Workers in use; zero: nothing was told of them.
    pool: u32,
    /// Workers that ended before they had joined, since the last one that did join.
    failed_starts: u32,
    /// When that may be told again.
    start_again_at: Tick,
    /// There are as many workers as there may be: when it is looked whether somebody waits for one more, and when that may be told again.
    full_look_at: Option<Tick>,
    full_again_at: Tick,
    /// Needs that no node can meet.
    infeasible: FxHashSet<(JobId, String)>,
    /// What processes of a job said, kind and text.
    said: FxHashSet<(JobId, String)>,
}

impl Told {
    pub(crate) fn next_look(&self) -> Option<Tick> {
        self.full_look_at
    }

    pub(crate) fn forget(&mut self, job: JobId) {
        self.infeasible.retain(|(other, _)| *other != job);
        self.said.retain(|(other, _)| *other != job);
    }

    /// Whether nobody of this job has said the same before: all its workers may notice it.
    pub(crate) fn is_news(&mut self, job: JobId, kind: &str, text: &str) -> bool {
        if self.said.len() >= SAID_MAX {
            self.said.clear();
        }
        self.said.insert((job, format!("{kind} {text}")))
    }
}

fn is_large_pool(workers: u32, cpus: u32, told: u32) -> bool {
    workers >= POOL_LARGE_MIN.max(POOL_LARGE_PER_CPU * cpus) && workers >= 2 * told
}

impl<B: Body> Hub<B> {
    /// Drivers that can be told something: of one job those that want its output, or all.
    #[must_use]
    pub fn listeners(&self, job: Option<JobId>) -> Vec<ProcId> {
        let listens = |proc: &&Proc| match proc.kind() {
            Kind::Driver { logs, .. } => job.is_none_or(|job| *logs && proc.job() == job),
            Kind::Starting | Kind::Worker | Kind::Keeper => false,
        };
        self.procs.iter().filter(listens).filter(|proc| proc.hears()).map(Proc::id).collect()
    }

    /// Something every driver should read.
    pub fn notice_all(&self, step: &mut Step<'_, B>, kind: &str, text: &str) {
        for driver in self.listeners(None).into_iter().chain(self.drivers_elsewhere()) {
            self.tell(step, driver, FromNodeOf::Notice { kind: kind.into(), text: text.into() });
        }
    }

    /// Something one job's driver should read.
    pub fn notice_job(&self, step: &mut Step<'_, B>, job: JobId, kind: &str, text: &str) {
        for driver in self.listeners(Some(job)).into_iter().chain(self.log_target(job)) {
            self.tell(step, driver, FromNodeOf::Notice { kind: kind.into(), text: text.into() });
        }
    }

    /// Something that a process says its driver should read.
    pub(crate) fn on_notice(&mut self, step: &mut Step<'_, B>, who: ProcId, kind: &str, text: &str) {
        if let Some(job) = self.procs.get(who).map(Proc::job)
            && self.told.is_news(job, kind, text)
        {
            self.notice_job(step, job, kind, text);
        }
    }

    /// A process here wants something of one of this node, with which there is no line.
    pub(crate) fn warn_of_reach(&mut self, step: &mut Step<'_, B>, who: ProcId, node: u32) {
        if self.members.is_out_of_reach(node) {
            let text = format!(
                "This program and the one of node {node} have nodes of their own that take no calls, so that neither can read what the other \
                 owns. It counts as lost. `eagleray start --address` on one of the two machines gives that one a node that does."
            );
            self.on_notice(step, who, "node_out_of_reach", &text);
        }
    }

    /// A worker ended before it had joined. One may have been killed; if it goes on the user must know why nothing runs.
    pub(crate) fn warn_of_failed_start(&mut self, step: &mut Step<'_, B>, id: ProcId, exit: &WorkerExit) {
        if matches!(exit, WorkerExit::Intended(_)) {
            return; // nobody needed it any more
        }
        self.told.failed_starts += 1;
        if self.told.failed_starts < FAILED_STARTS_MAX || step.now < self.told.start_again_at {
            return;
        }
        self.told.start_again_at = step.now.plus_ms(FAILED_STARTS_TOLD_MS);
        let why = match exit {
            WorkerExit::NotStarted(why) => why.to_string(),
            _ => format!("the last one ended with {exit}"),
        };
        let tail = step.body.last_errors(id);
        let text = format!("Workers could not be started: {why}. They are tried again.\n{tail}");
        self.notice_all(step, "worker_not_started", text.trim_end());
    }

    /// One more worker is up: are very many of them in use? Told once, and again each time that they have doubled since.
    pub(crate) fn warn_of_large_pool(&mut self, step: &mut Step<'_, B>) {
        self.told.failed_starts = 0;
        let cpus = u32::try_from(self.options.total.cpu.0 / Quantity::PARTS).unwrap_or(1).max(1);
        let workers = self.procs.iter().filter(|proc| *proc.kind() == Kind::Worker).count();
        let workers = workers.saturating_sub(self.leases.scheduler().idle_count());
        if !is_large_pool(workers as u32, cpus, self.told.pool) {
            return;
        }
        self.told.pool = workers as u32;
        let text = format!(
            "Warning: {workers} worker processes are in use on this node, which has {cpus} CPUs. Each takes memory. Many actors make \
             that many, and so do many tasks that wait for other tasks."
        );
        self.notice_all(step, "worker_pool_large", &text);
    }

    /// There are as many workers as there may be: a little later, when it is known who has to wait, that is told.
    #[cold]
    pub(crate) fn note_full_node(&mut self, now: Tick) {
        let Told { full_look_at, full_again_at, .. } = &mut self.told;
        full_look_at.get_or_insert_with(|| now.plus_ms(FULL_LOOK_MS).max(*full_again_at));
    }

    /// Whoever waits for one more worker hears why, as long as that is so.
    pub(crate) fn warn_of_full_node(&mut self, step: &mut Step<'_, B>) {
        if self.told.full_look_at.is_none_or(|at| step.now < at) {
            return;
        }
        self.told.full_look_at = None;
        if !self.leases.scheduler().has_all_workers() {
            return;
        }
        let lacks_worker = |wait: &scheduler::Wait<'_>| wait.reason == scheduler::WaitReason::NoMoreWorkers;
        let waiting: Vec<LeaseKind> =
            self.leases.scheduler().waiting().filter(lacks_worker).map(|wait| wait.kind).collect();
        if waiting.is_empty() {
            return;
        }
        self.told.full_again_at = step.now.plus_ms(FULL_TOLD_MS);
        let actors = waiting.iter().filter(|kind| **kind == LeaseKind::Actor).count();
        let text = format!(
            "This node has {} worker processes in use, which is as many as it can have: {actors} actors and {} requests for workers \
             of tasks wait until others end.",
            self.options.workers_max,
            waiting.len() - actors,
        );
        self.notice_all(step, "worker_limit", &text);
    }

    /// This node can never run what the lease is for; told once for each job and need.
    pub(crate) fn on_infeasible(&mut self, step: &mut Step<'_, B>, lease: LeaseId) {
        let actor = self.actors.life_of(&lease).and_then(|(actor, _)| self.actors.table().get(actor));
        let (job, need) = match actor {
            Some(record) => (Some(record.creation.job), Some(&record.creation.options.need)),
            None => (self.procs.get(lease.owner).map(Proc::job), self.leases.need(&lease)),
        };
        let (Some(job), Some(need)) = (job, need) else { return };
        let is_in_group = matches!(need.at, Where::Bundle(_));
        if self.is_feasible_anywhere(need) || (is_in_group && self.members.has_begun()) {
            return self.wants_others(step.now);
        }
        let need = need.clone();
        self.tell_infeasible_need(step, job, &need);
    }

    /// Whether a node could hold this, if nothing else ran there. Bundles are not looked at.
    pub(crate) fn is_feasible_anywhere(&self, need: &Need) -> bool {
        let mut all = self.members.all().map(member);
        all.any(|member| member.could_hold(need) && member.rank(need).is_some())
    }

    /// No node can ever run this.
    pub(crate) fn tell_infeasible_need(&mut self, step: &mut Step<'_, B>, job: JobId, need: &Need) {
        let lack = self.lack_in_words(need);
        self.tell_infeasible(step, job, scheduler::in_words(need), &lack);
    }

    /// Which node comes nearest, in words; nothing if there is one node.
    fn lack_in_words(&self, need: &Need) -> String {
        let members: Vec<(u32, scheduler::Member)> =
            self.members.all().map(|info| (info.number, member(info))).collect();
        if members.iter().filter(|(_, member)| !member.is_guest).count() < 2 {
            return String::new();
        }
        let Some(lack) = scheduler::nearest(need, members.iter().map(|(node, member)| (*node, member))) else {
            return String::new();
        };
        let name = self.members.name_of(lack.node).unwrap_or("?");
        let mut lacks = Vec::new();
        if lack.amounts != Resources::default() {
            lacks.push(lack.amounts.to_string());
        }
        if lack.labels {
            lacks.push("the labels".into());
        }
        format!("node {} ({name}) comes nearest and lacks {}", lack.node, lacks.join(" and "))
    }

    /// At the head: what waits and can be had nowhere, with what is missing.
    pub(crate) fn infeasible_in_words(&self) -> Vec<Box<str>> {
        let global = &self.overflow.global;
        let mut lines = Vec::new();
        let nodes: Vec<u32> = global.members().map(|(node, _)| node).collect();
        for (_, demands) in nodes.into_iter().filter_map(|node| global.view(node)) {
            for Demand { need, kind, count, .. } in demands {
                if matches!(need.at, Where::Bundle(_)) || global.is_feasible(need) {
                    continue;
                }
                let kind = if *kind == LeaseKind::Actor { "actor" } else { "task" };
                let words = [scheduler::in_words(need), self.lack_in_words(need)];
                let words = words.iter().filter(|words| !words.is_empty()).cloned().collect::<Vec<_>>().join("; ");
                lines.push(format!("{count} x {kind} {words}").into());
            }
        }
        for (group, bundles, strategy) in self.reserving.reserve().infeasible() {
            let words: Vec<String> = bundles.iter().map(ToString::to_string).collect();
            let largest = bundles.iter().find(|bundle| !global.is_feasible(&Need::same((*bundle).clone())));
            let lack = match largest {
                Some(bundle) => format!("; of {bundle} {}", self.lack_in_words(&Need::same(bundle.clone()))),
                None => "; each bundle fits a node, all of them at once do not".into(),
            };
            lines.push(format!("placement group {group} ({}) [{}]{lack}", strategy.as_str(), words.join(", ")).into());
        }
        lines
    }

    /// This node can never hold the group.
    pub(crate) fn on_infeasible_group(&mut self, step: &mut Step<'_, B>, group: GroupId) {
        let Some(record) = self.groups.table().get(group) else { return };
        let control::Maker::Job(job) = record.creation.maker else { return };
        let bundles: Vec<String> = record.creation.options.bundles.iter().map(ToString::to_string).collect();
        let strategy = record.creation.options.strategy.as_str();
        self.tell_infeasible(step, job, format!("[{}] (placement group, {strategy})", bundles.join(", ")), "");
    }

    fn tell_infeasible(&mut self, step: &mut Step<'_, B>, job: JobId, need: String, lack: &str) {
        if !self.told.infeasible.insert((job, need.clone())) {
            return;
        }
        let others = self.nodes().filter(|info| !info.is_guest).count();
        let (own, has_own) = (self.leases.scheduler().total(), self.leases.scheduler().total() != Resources::default());
        let has = match others {
            0 => format!("This node has {own}"),
            _ if has_own => format!("This node has {own}, and none of the {others} others has enough"),
            _ => format!("None of the {others} nodes has enough"),
        };
        let comma = if lack.is_empty() { "" } else { ": " };
        let text = format!(
            "(autoscaler) No available node types can fulfill resource request {need}. {has}{comma}{lack}; it waits until a node that can is added."
        );
        self.notice_job(step, job, "infeasible", &text);
    }
}

#[cfg(test)]
mod tests {
    use super::is_large_pool;

    /// On two CPUs it was told at six workers, and again at 8, 16 and 32.
    #[test]
    fn a_large_pool_is_told_when_it_is_far_larger_than_the_machine_and_at_each_doubling() {
        let mut told = vec![0];
        for workers in 1..=300 {
            if is_large_pool(workers, 2, *told.last().unwrap()) {
                told.push(workers);
            }
        }
        assert_eq!(told, [0, 32, 64, 128, 256]);
        assert!(!is_large_pool(255, 64, 0) && is_large_pool(256, 64, 0));
    }
}
