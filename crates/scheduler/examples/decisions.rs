//! How many leases a scheduler decides per second on one core: request, grant and return of each.
//!
//! `cargo run --release -p eagleray-scheduler --example decisions`

use std::time::Instant;

use model::{JobId, LeaseId, Need, ProcId, Quantity, Resources, Tick};
use scheduler::{Effect, Event, LeaseKind, Options, Scheduler};

const DECISIONS: u64 = 2_000_000;
const WORKERS: u16 = 64;

/// A load: `owners` ask in turn, for `shapes` different needs, `waiting` leases more than fit.
struct Load {
    name: &'static str,
    owners: u16,
    shapes: i64,
    waiting: u64,
}

fn main() {
    let loads = [
        Load { name: "one owner, a worker is idle", owners: 1, shapes: 1, waiting: 0 },
        Load { name: "one owner, 10,000 wait", owners: 1, shapes: 1, waiting: 10_000 },
        Load { name: "100 owners, 10,000 wait", owners: 100, shapes: 1, waiting: 10_000 },
        Load { name: "100 owners, 20 shapes, 10,000 wait", owners: 100, shapes: 20, waiting: 10_000 },
    ];
    for load in &loads {
        let best = (0..3).map(|_| decisions_per_second(load)).max().expect("three runs");
        println!("{best:>10} decisions/s  {}", load.name);
    }
}

fn decisions_per_second(load: &Load) -> u64 {
    let mut total = Resources::cpus(i64::from(WORKERS));
    total.set("node:head", Quantity::whole(1));
    let options = Options {
        total,
        gpu_names: Vec::new(),
        prestart: 0,
        idle_ms_max: 1_000,
        workers_max: u32::from(WORKERS),
        starts_max: u32::MAX,
    };
    let mut scheduler = Scheduler::new(options);
    let mut effects = Vec::with_capacity(1_024);
    let mut granted = std::collections::VecDeque::with_capacity(usize::from(WORKERS));
    let mut started = 0;
    let now = Tick(1);
    let in_use = if load.waiting == 0 { 1 } else { u64::from(WORKERS) };
    let mut asked = 0;
    let begin = Instant::now();
    let mut done = 0;
    while done < DECISIONS {
        let event = if asked - done < load.waiting + in_use {
            let owner = ProcId::new(1, 1_000 + (asked % u64::from(load.owners)) as u16, 0);
            // A shape's amounts differ by so little that as many of each fit.
            let cpu = Quantity(Quantity::PARTS - (asked as i64 % load.shapes));
            let need = Need::same(resources(cpu));
            asked += 1;
            let lease = LeaseId { owner, number: asked };
            Event::LeaseRequested { lease, job: JobId([0; 4]), kind: LeaseKind::Tasks, need }
        } else {
            done += 1;
            Event::LeaseReturned(granted.pop_front().expect("something was granted"))
        };
        scheduler.step(now, event, &mut effects);
        while let Some(effect) = effects.pop() {
            match effect {
                Effect::Granted { lease, .. } => granted.push_back(lease),
                Effect::StartWorker => {
                    started += 1;
                    scheduler.step(now, Event::WorkerReady(ProcId::new(1, started, 0)), &mut effects);
                }
                Effect::Revoke(_)
                | Effect::EndWorker(_)
                | Effect::Infeasible(_)
                | Effect::GroupPlaced(_)
                | Effect::GroupInfeasible(_)
                | Effect::Refused(_)
                | Effect::GroupPrepared { .. }
                | Effect::KillWorker(_) => {}
            }
        }
    }
    (done as f64 / begin.elapsed().as_secs_f64()) as u64
}

fn resources(cpu: Quantity) -> Resources {
    let mut resources = Resources::default();
    resources.set("CPU", cpu);
    resources
}
