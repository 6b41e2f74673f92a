//! Jobs: their numbers, and what is kept of those whose driver left while actors of theirs live on.

use control::Jobs as Numbers;
use model::JobId;
use rustc_hash::{FxHashMap, FxHashSet};
use wire::Surroundings;

use crate::body::{Body, Step};
use crate::hub::Hub;
use crate::procs::{Kind, Proc};

#[derive(Default)]
pub(crate) struct Jobs {
    numbers: Numbers,
    /// Namespace and surroundings of drivers that left.
    departed: FxHashMap<JobId, (Box<str>, Surroundings)>,
}

impl Jobs {
    pub(crate) fn number_from(&mut self, last: u32) {
        self.numbers = Numbers::above(last);
    }

    pub(crate) fn next(&mut self) -> JobId {
        self.numbers.allocate()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.departed.is_empty()
    }
}

impl<B: Body> Hub<B> {
    /// Namespace and surroundings for the workers of a job.
    pub(crate) fn surroundings_of(&self, job: JobId) -> (Box<str>, Surroundings) {
        let driver = self.procs.iter().filter(|proc| proc.job() == job).find_map(|proc| match proc.kind() {
            Kind::Driver { namespace, surroundings, .. } => Some((namespace.clone(), surroundings.clone())),
            Kind::Starting | Kind::Worker | Kind::Keeper => None,
        });
        driver.or_else(|| self.jobs.departed.get(&job).cloned()).unwrap_or_default()
    }

    pub(crate) fn has_driver(&self, job: JobId) -> bool {
        self.procs.iter().any(|proc| proc.is_driver() && proc.job() == job)
    }

    pub(crate) fn driver_departed(
        &mut self,
        step: &mut Step<'_, B>,
        job: JobId,
        namespace: Box<str>,
        surroundings: Surroundings,
    ) {
        self.jobs.departed.insert(job, (namespace, surroundings));
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
        let jobs: FxHashSet<JobId> = living.map(|record| record.creation.job).chain(self.jobs_kept()).collect();
        self.jobs.departed.retain(|job, _| jobs.contains(job));
        let drivers = self.procs.iter().filter(|proc| proc.is_driver()).map(Proc::job);
        let alive = drivers.chain(self.jobs.departed.keys().copied()).collect();
        self.functions.keep(step, &alive);
    }
}
