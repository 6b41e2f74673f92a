//! `cargo run -p eagleray-sim -- --seed N | --seeds A..B [--nodes K] [--node-deaths MS] [--print]`: runs clusters from
//! seeds, each twice, and says how it went; `--print` shows all that happens. A node dies about every MS; zero: never; otherwise the seed says.

use std::process::ExitCode;

use sim::{Counts, Settings, run};

struct Arguments {
    seeds: std::ops::Range<u64>,
    nodes: usize,
    node_deaths: Option<u64>,
    is_printed: bool,
}

fn main() -> ExitCode {
    match arguments() {
        Ok(arguments) => run_all(arguments),
        Err(why) => {
            eprintln!("{why}\nusage: eagleray-sim --seed N | --seeds A..B [--nodes K] [--node-deaths MS] [--print]");
            ExitCode::from(2)
        }
    }
}

fn run_all(arguments: Arguments) -> ExitCode {
    let Arguments { seeds, nodes, node_deaths, is_printed } = arguments;
    let count = seeds.end - seeds.start;
    let (mut faults, mut tasks, mut ok, mut failed, mut ms) = (Counts::default(), 0, 0, 0, 0);
    for seed in seeds {
        let settings = Settings { is_printed, ..Settings::of_seed(seed, nodes) };
        let kill_node_every_ms = node_deaths.unwrap_or(settings.kill_node_every_ms);
        let settings = Settings { kill_node_every_ms, ..settings };
        // A brain may panic; the replay line must come out all the same.
        let again = Settings { is_printed: false, ..settings.clone() };
        let result = std::panic::catch_unwind(|| (run(settings), run(again)));
        let report = match result {
            Err(_) => {
                println!("seed {seed}: a brain panicked, see above");
                println!("replay: cargo run -p eagleray-sim -- --seed {seed} --nodes {nodes}");
                return ExitCode::FAILURE;
            }
            Ok((Err(broken), _)) => {
                println!("seed {seed}: {broken}");
                return ExitCode::FAILURE;
            }
            Ok((Ok(first), second)) if Ok(&first) != second.as_ref() => {
                println!("seed {seed}: SIM-7: two runs differ: {first:?} and {second:?}");
                return ExitCode::FAILURE;
            }
            Ok((Ok(report), _)) => report,
        };
        if count == 1 {
            println!("{report:#?}");
        }
        faults = faults + report.faults;
        (tasks, ok, failed, ms) = (tasks + report.tasks, ok + report.ok, failed + report.failed, ms + report.ms);
    }
    println!(
        "{count} seeds, {nodes} nodes each: {tasks} tasks, {ok} ok, {failed} failed, {} s of virtual time",
        ms / 1_000
    );
    println!("{faults:?}");
    ExitCode::SUCCESS
}

fn arguments() -> Result<Arguments, String> {
    let mut found = Arguments { seeds: 0..100, nodes: 1, node_deaths: None, is_printed: false };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        if name == "--print" {
            found.is_printed = true;
            continue;
        }
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        let number = |text: &str| text.parse::<u64>().map_err(|error| format!("{name} {text}: {error}"));
        match &*name {
            "--seed" => found.seeds = number(&value)?..number(&value)? + 1,
            "--seeds" => {
                let (from, to) = value.split_once("..").ok_or_else(|| format!("{name} needs A..B, got {value}"))?;
                found.seeds = number(from)?..number(to)?;
            }
            "--node-deaths" => found.node_deaths = Some(number(&value)?),
            "--nodes" => found.nodes = usize::try_from(number(&value)?).map_err(|error| error.to_string())?,
            _ => return Err(format!("unknown argument {name}")),
        }
    }
    if found.seeds.is_empty() || found.nodes == 0 { Err("nothing to run".into()) } else { Ok(found) }
}
