//! Jobs: their numbers, and what is kept of those whose driver left while actors of theirs live on.

use std::collections::BTreeMap;

use control::Jobs as Numbers;
use model::{JobId, ProcId};
use rustc_hash::{FxHashMap, FxHashSet};
use wire::Surroundings;
use wire::abroad::JOBS_A_BLOCK;
use wire::members::JobHome;

use crate::body::{Body, Step};
use crate::hub::Hub;
use crate::procs::{Kind, Proc};

#[derive(Default)]
pub(crate) struct Jobs {
    numbers: Numbers,
    /// So many more may be given, if there are several nodes.
    left: Option<u32>,
    /// The next block, which begins above this one.
    spare: Option<u32>,
    /// One was asked for.
    is_asked: bool,
    /// What is known of drivers that left.
    departed: FxHashMap<JobId, JobHome>,
    /// Jobs whose drivers are on other nodes, and that have to do with this one.
    elsewhere: BTreeMap<JobId, JobHome>,
}

impl Jobs {
    /// This block is this node's, and what it had before is not.
    pub(crate) fn number_block(&mut self, above: u32) {
        (self.numbers, self.left) = (Numbers::above(above), Some(JOBS_A_BLOCK));
    }

    /// A block for when the present one is used up.
    pub(crate) fn add_block(&mut self, above: u32) {
        (self.spare, self.is_asked) = (Some(above), false);
    }

    /// Whether one is to be asked for; true once.
    pub(crate) fn wants_block(&mut self) -> bool {
        let is_scarce = self.spare.is_none() && self.left.is_some_and(|left| left < JOBS_A_BLOCK / 2);
        is_scarce && !std::mem::replace(&mut self.is_asked, true)
    }

    /// None: a block is on its way.
    pub(crate) fn next(&mut self) -> Option<JobId> {
        if self.left == Some(0) {
            let above = self.spare.take()?;
            self.number_block(above);
        }
        self.left = self.left.map(|left| left - 1);
        Some(self.numbers.allocate())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.departed.is_empty() && self.elsewhere.is_empty()
    }

    /// Jobs whose drivers are on this other node.
    pub(crate) fn of_node(&self, node: u32) -> Vec<JobId> {
        self.elsewhere.values().filter(|home| home.driver.node() == node).map(|home| home.job).collect()
    }

    /// The job of a driver on another node.
    pub(crate) fn of_driver(&self, driver: ProcId) -> Option<JobId> {
        self.elsewhere.values().find(|home| home.driver == driver).map(|home| home.job)
    }

    pub(crate) fn drivers_of_node(&self, node: u32) -> impl Iterator<Item = ProcId> {
        self.elsewhere.values().map(|home| home.driver).filter(move |driver| driver.node() == node)
    }
}

impl<B: Body> Hub<B> {
    /// What there is to know of a job, if it is not over.
    pub(crate) fn home_of(&self, job: JobId) -> Option<JobHome> {
        let driver = self.procs.iter().filter(|proc| proc.job() == job).find_map(|proc| match proc.kind() {
            Kind::Driver { namespace, surroundings, logs } => Some(JobHome {
                job,
                namespace: namespace.clone(),
                surroundings: surroundings.clone(),
                driver: proc.id(),
                logs: *logs,
            }),
            Kind::Starting | Kind::Worker | Kind::Keeper => None,
        });
        driver.or_else(|| self.jobs.elsewhere.get(&job).or_else(|| self.jobs.departed.get(&job)).cloned())
    }

    /// Namespace and surroundings for the workers of a job.
    pub(crate) fn surroundings_of(&self, job: JobId) -> (Box<str>, Surroundings) {
        self.home_of(job).map(|home| (home.namespace, home.surroundings)).unwrap_or_default()
    }

    pub(crate) fn has_driver(&self, job: JobId) -> bool {
        self.jobs.elsewhere.contains_key(&job) || self.procs.iter().any(|proc| proc.is_driver() && proc.job() == job)
    }

    /// The driver on another node that wants what workers of this job print here.
    #[must_use]
    pub fn log_target(&self, job: JobId) -> Option<ProcId> {
        self.jobs.elsewhere.get(&job).filter(|home| home.logs).map(|home| home.driver)
    }

    /// Drivers on other nodes whose jobs have to do with this one.
    pub(crate) fn drivers_elsewhere(&self) -> impl Iterator<Item = ProcId> {
        self.jobs.elsewhere.values().map(|home| home.driver)
    }

    /// Another node says something on behalf of this job. Its driver may have left.
    pub(crate) fn note_home(&mut self, home: JobHome) {
        if self.is_here(home.driver) {
            return;
        }
        let homes = if self.lives(home.driver) { &mut self.jobs.elsewhere } else { return self.note_departed(home) };
        homes.entry(home.job).or_insert(home);
    }

    fn note_departed(&mut self, home: JobHome) {
        self.jobs.departed.entry(home.job).or_insert(home);
    }

    /// A driver on another node is gone.
    pub(crate) fn home_gone(&mut self, step: &mut Step<'_, B>, job: JobId) {
        self.told.forget(job);
        if let Some(home) = self.jobs.elsewhere.remove(&job) {
            // Nothing more is passed on to it.
            step.body.logs_taken(home.driver, u64::MAX);
            self.driver_departed(step, home);
        }
    }

    pub(crate) fn driver_departed(&mut self, step: &mut Step<'_, B>, home: JobHome) {
        self.jobs.departed.insert(home.job, home);
        self.forget_departed(step);
    }

    /// Something that a job was kept for, should it be over, is over as well.
    pub(crate) fn job_needs_less(&mut self, step: &mut Step<'_, B>, job: JobId) {
        if self.jobs.departed.contains_key(&job) {
            self.forget_departed(step);
        }
    }

    /// Jobs that are over and have no actor left need nothing any more.
    fn forget_departed(&mut self, step: &mut Step<'_, B>) {
        let living = self.actors.table().iter().filter(|record| record.death().is_none());
        let jobs: FxHashSet<JobId> =
            living.map(|record| record.creation.job).chain(self.lodgings.jobs()).chain(self.jobs_kept()).collect();
        self.jobs.departed.retain(|job, _| jobs.contains(job));
        let drivers = self.procs.iter().filter(|proc| proc.is_driver()).map(Proc::job);
        let known = self.jobs.departed.keys().chain(self.jobs.elsewhere.keys()).copied();
        let alive = drivers.chain(known).collect();
        self.functions.keep(step, &alive);
    }
}
