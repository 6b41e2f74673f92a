//! How large a run is and how rough. Rates are drawn from the seed, so that seeds differ in kind: some
//! are calm, some lose messages, some kill.

use crate::rng::Rng;

/// What one run is like. Rates are per thousand.
#[derive(Clone, Debug)]
pub struct Settings {
    /// All chance comes from this.
    pub seed: u64,
    /// Nodes, which talk to each other.
    pub nodes: usize,
    /// Programs per node.
    pub drivers: usize,
    /// What each program does, one after the other.
    pub steps: u64,
    /// Cores per node.
    pub cpus: i64,
    /// Faults happen until then.
    pub faults_ms: u64,
    /// After the faults, everything must end within this time.
    pub heal_ms_max: u64,
    /// Messages lost, and sent again after a while.
    pub drop: u64,
    /// Messages that arrive a second time, late.
    pub repeat: u64,
    /// Messages that take a thousand times longer.
    pub delay: u64,
    /// Worker starts that fail.
    pub start_fails: u64,
    /// A worker is killed about this often; zero: never.
    pub kill_worker_every_ms: u64,
    /// A worker that others may hold values of is killed about this often; zero: never.
    pub kill_owner_every_ms: u64,
    /// A driver is killed about this often; zero: never.
    pub kill_driver_every_ms: u64,
    /// A process is stopped for a while about this often; zero: never.
    pub pause_every_ms: u64,
    /// A file vanishes or is damaged about this often; zero: never.
    pub harm_every_ms: u64,
    /// Processes are asked to move values to files about this often, besides when there is no room; zero: never.
    pub shortage_every_ms: u64,
    /// Workers that die between telling owners of the references in a value and sending it.
    pub die_giving: u64,
    /// Replies that find no room in their ring at first.
    pub full: u64,
    /// Large values that the arena of a node has room for.
    pub blocks_max: u64,
    /// The last so many nodes are guests: without resources, with a program whose work all runs elsewhere.
    pub guests: usize,
    /// Tasks and actors that are to run on a certain node.
    pub elsewhere: u64,
    /// Large values that cross nodes as copies, as small ones do.
    pub copied: u64,
    /// Lines for large values that break.
    pub lines_fail: u64,
    /// A line between two nodes is cut about this often; zero: never.
    pub cut_every_ms: u64,
    /// A whole node dies about this often; zero: never.
    pub kill_node_every_ms: u64,
    /// Nodes come in until then.
    pub enter_ms_max: u64,
    /// Everything that happens is printed.
    pub is_printed: bool,
}

impl Settings {
    /// What a seed stands for.
    #[must_use]
    pub fn of_seed(seed: u64, nodes: usize) -> Self {
        let mut rng = Rng::new(seed ^ 0x5e77_1265);
        let mut some = |most: u64| if rng.chance(600) { rng.between(1, most) } else { 0 };
        let (drop, repeat, delay, start_fails) = (some(60), some(100), some(40), some(300));
        let (kill_worker, kill_driver, pause) = (some(60), some(200), some(80));
        let (harm, shortage) = (some(60), some(40));
        let blocks_max = rng.between(1, 16);
        let die_giving = if rng.chance(600) { rng.between(1, 150) } else { 0 };
        let mut some = |most: u64| if rng.chance(600) { rng.between(1, most) } else { 0 };
        let kill_owner = some(60);
        let full = some(200);
        let (elsewhere, cut) = (rng.between(0, 500), if rng.chance(700) { rng.between(1, 60) } else { 0 });
        let guests = usize::from(nodes > 1 && rng.chance(300));
        let kill_node = if rng.chance(500) { rng.between(30, 300) } else { 0 };
        let enter_ms_max = rng.between(1, 150);
        let copied = if rng.chance(500) { rng.between(0, 600) } else { 100 };
        let lines_fail = if rng.chance(600) { rng.between(1, 200) } else { 0 };
        Self {
            seed,
            nodes,
            drivers: 1 + (seed % 3) as usize,
            steps: 60,
            cpus: 2 + (seed % 2) as i64,
            faults_ms: 300,
            heal_ms_max: 300_000,
            drop,
            repeat,
            delay,
            start_fails,
            // Killing is what most of this is for: no seed is without.
            kill_worker_every_ms: 5 + kill_worker,
            kill_owner_every_ms: kill_owner,
            kill_driver_every_ms: if kill_driver == 0 { 0 } else { 100 + kill_driver },
            pause_every_ms: if pause == 0 { 0 } else { 10 + pause },
            harm_every_ms: if harm == 0 { 0 } else { 2 + harm },
            shortage_every_ms: shortage,
            die_giving,
            full,
            blocks_max,
            guests,
            elsewhere,
            copied,
            lines_fail,
            cut_every_ms: cut,
            kill_node_every_ms: if nodes > 1 { kill_node } else { 0 },
            enter_ms_max,
            is_printed: false,
        }
    }
}
