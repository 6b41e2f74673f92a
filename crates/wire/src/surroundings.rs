//! What the processes of a job find around them.

use serde::{Deserialize, Serialize};

/// What a driver's workers take over from it before they decode anything of its job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Surroundings {
    /// Folders that the driver imports from, in order.
    pub folders: Vec<Box<str>>,
    /// Its working directory.
    pub cwd: Box<str>,
    /// Environment variables of all its tasks and actors, in the order in which they may name each other. A lease's own come after these.
    pub env: Vec<(Box<str>, Box<str>)>,
    /// `ray` is another name of eagleray there.
    pub is_ray: bool,
    /// Actors that name no lifetime outlive the job.
    pub detaches_actors: bool,
}
