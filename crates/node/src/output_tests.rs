//! What workers print, through the node without its loop.

use std::io::Write;

use model::{ProcId, WorkerExit};
use wire::control::{FromNode, ToNode};
use wire::logs::{AboutLogs, LOGS_BYTES_AHEAD, LogLines};

use crate::logs::of_worker;
use crate::tests::{Bench, Driver};

struct Heard {
    lines: Vec<String>,
    weight: usize,
    has_all: bool,
}

impl Bench {
    /// A worker of this driver's job, and the file that it prints to.
    fn printer(&mut self, driver: &Driver) -> (ProcId, std::fs::File) {
        let worker = self.lease(driver);
        let path = self.dir.join("logs").join(&*of_worker(worker, "out"));
        (worker, std::fs::File::options().create(true).append(true).open(path).unwrap())
    }

    /// What comes to the driver while it takes nothing, until the node has nothing more to do.
    fn hear_all(&mut self, driver: &mut Driver) -> Heard {
        let mut heard = Heard { lines: Vec::new(), weight: 0, has_all: false };
        self.node.on_logs();
        loop {
            self.node.look_after_logs(net::clock::now());
            let is_done = !self.node.machine.logs.is_behind();
            for message in driver.hears_all(&mut self.node) {
                match message {
                    FromNode::Log(lines) => {
                        heard.weight += lines.weight();
                        heard.lines.extend(lines.lines);
                    }
                    FromNode::LastWords => heard.has_all = true,
                    _ => {}
                }
            }
            if is_done {
                return heard;
            }
        }
    }

    fn takes(&mut self, driver: &Driver, weight: usize) {
        self.says(driver, ToNode::Logs(AboutLogs::Taken(weight as u64)));
    }
}

fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("line {number} {}", "x".repeat(90))).collect()
}

fn print(file: &mut std::fs::File, lines: &[String]) {
    file.write_all((lines.join("\n") + "\n").as_bytes()).unwrap();
}

/// Beyond two hundred messages that the driver had not read yet, lines were dropped without a word.
#[test]
fn a_driver_that_takes_nothing_loses_nothing() {
    let mut bench = Bench::new();
    let mut driver = bench.join();
    let (_, mut file) = bench.printer(&driver);
    let lines = numbered(50_000);
    print(&mut file, &lines);
    let mut heard = bench.hear_all(&mut driver);
    assert!(heard.weight < 2 * LOGS_BYTES_AHEAD, "the rest waits in the file");
    let mut all = std::mem::take(&mut heard.lines);
    while !heard.lines.is_empty() || heard.weight > 0 {
        bench.takes(&driver, heard.weight);
        heard = bench.hear_all(&mut driver);
        all.append(&mut heard.lines);
    }
    assert_eq!(all, lines);
}

#[test]
fn last_words_come_behind_all_that_was_printed_before() {
    let mut bench = Bench::new();
    let mut driver = bench.join();
    let (_, mut file) = bench.printer(&driver);
    let lines = numbered(30_000);
    print(&mut file, &lines);
    file.write_all(b"no end").unwrap();
    bench.says(&driver, ToNode::Logs(AboutLogs::LastWords));
    let (mut all, mut rounds) = (Vec::new(), 0);
    loop {
        let heard = bench.hear_all(&mut driver);
        all.extend(heard.lines);
        bench.takes(&driver, heard.weight);
        rounds += 1;
        if heard.has_all {
            break;
        }
    }
    assert!(rounds > 1, "the driver had to take some first");
    assert_eq!(all.pop().as_deref(), Some("no end"));
    assert_eq!(all, lines);
}

#[test]
fn what_a_dead_worker_printed_waits_for_its_driver() {
    let mut bench = Bench::new();
    let mut driver = bench.join();
    let (worker, mut file) = bench.printer(&driver);
    let path = bench.dir.join("logs").join(&*of_worker(worker, "out"));
    let lines = numbered(30_000);
    print(&mut file, &lines);
    bench.node.step(|hub, step| hub.process_died(step, worker, WorkerExit::Intended("it was told to".into())));
    let (mut all, mut had_file) = (Vec::new(), false);
    loop {
        let heard = bench.hear_all(&mut driver);
        if heard.lines.is_empty() {
            break;
        }
        had_file |= path.exists();
        all.extend(heard.lines);
        bench.takes(&driver, heard.weight);
    }
    assert_eq!(all, lines);
    assert!(had_file && !path.exists(), "it goes when it was read");
}

#[test]
fn what_nobody_could_take_is_left_out_with_a_word_and_stays_in_the_file() {
    let mut bench = Bench::new();
    let mut driver = bench.join();
    let (_, mut file) = bench.printer(&driver);
    let lines: Vec<String> = (0..90).map(|number| format!("{number} {}", "y".repeat(1 << 20))).collect();
    // As many bytes as the words promise.
    print(&mut file, &lines);
    let mut all = Vec::new();
    loop {
        let heard = bench.hear_all(&mut driver);
        if heard.lines.is_empty() {
            break;
        }
        all.extend(heard.lines);
        bench.takes(&driver, heard.weight);
    }
    let told = all.iter().find(|line| line.starts_with("... ")).expect("it is told");
    let bytes: usize = told.split(' ').nth(1).unwrap().parse().unwrap();
    let path = told.split(' ').find(|word| word.ends_with(".out")).unwrap();
    assert_eq!(std::fs::metadata(path).unwrap().len() as usize, lines.iter().map(|line| line.len() + 1).sum::<usize>());
    let shown: usize = all.iter().filter(|line| !line.starts_with("... ")).map(|line| line.len() + 1).sum();
    assert_eq!(bytes + shown, std::fs::metadata(path).unwrap().len() as usize);
}

/// It appeared when its call was over.
#[test]
fn what_has_no_end_comes_when_its_writer_is_silent() {
    let mut bench = Bench::new();
    let mut driver = bench.join();
    let (_, mut file) = bench.printer(&driver);
    file.write_all(b"loading").unwrap();
    assert!(bench.hear_all(&mut driver).lines.is_empty());
    let later = bench.node.machine.logs.next_look().unwrap().plus_ms(2_000);
    bench.node.look_after_logs(later);
    assert_eq!(bench.hear_all(&mut driver).lines, ["loading"]);
    file.write_all(b"\nnext\n").unwrap();
    assert_eq!(bench.hear_all(&mut driver).lines, ["next"]);
}

/// Where the events were more than were read at a time, the others were forgotten.
#[test]
fn many_files_that_change_at_once_are_all_read() {
    let mut bench = Bench::new();
    let mut driver = bench.join();
    let mut files: Vec<_> = (0..300).map(|_| bench.printer(&driver).1).collect();
    files.iter_mut().for_each(|file| file.write_all(b"hello\n").unwrap());
    assert_eq!(bench.hear_all(&mut driver).lines.len(), 300);
}

#[test]
fn weight_counts_what_a_line_costs_beside_its_text() {
    let lines = LogLines { node: "".into(), pid: 1, name: "f".into(), is_error: false, lines: vec![String::new(); 10] };
    assert!(lines.weight() > 100);
}
