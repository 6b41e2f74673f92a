//! A process's children and theirs, and their end.

use rustix::process::{Pid, PidfdFlags, Signal};

/// Kills every descendant of `root`, parents before their children, but not `root`.
///
/// Once is enough only for those that start nothing meanwhile. A number that is somebody else's by now is left alone.
pub(crate) fn kill_descendants(root: Pid) {
    let mut parents = Vec::from([root]);
    let mut held = Vec::new();
    while let Some(parent) = parents.pop() {
        for child in children_of(parent) {
            // What the number means is held fast first, and looked at after that.
            let Ok(process) = rustix::process::pidfd_open(child, PidfdFlags::empty()) else { continue };
            if parent_of(child) == Some(parent) {
                held.push(process);
                parents.push(child);
            }
        }
    }
    for process in held {
        let _ = rustix::process::pidfd_send_signal(&process, Signal::KILL);
    }
}

/// Of each thread, since a child belongs to the thread that has started it.
pub(crate) fn children_of(pid: Pid) -> Vec<Pid> {
    let threads = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| {
            let pids = list.split_whitespace().filter_map(|word| Pid::from_raw(word.parse().ok()?));
            pids.collect::<Vec<_>>()
        })
        .collect()
}

fn parent_of(pid: Pid) -> Option<Pid> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The name, in brackets, may hold anything.
    let (_, after_name) = stat.rsplit_once(')')?;
    Pid::from_raw(after_name.split_whitespace().nth(1)?.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};

    use super::{Pid, kill_descendants, parent_of};

    /// A shell, a shell of that one in a session of its own, and a third; the numbers of the latter two.
    fn family() -> (Child, Vec<i32>) {
        // Each starts the next, which finds its own orders in the environment.
        let mut shell = Command::new("sh")
            .args(["-c", "setsid sh -c \"$SECOND\" & wait"])
            .env("SECOND", "echo $$; sh -c \"$THIRD\" & wait")
            .env("THIRD", "echo $$; exec sleep 60")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(shell.stdout.take().unwrap()).lines();
        let pids = lines.take(2).map(|line| line.unwrap().trim().parse().unwrap()).collect();
        (shell, pids)
    }

    fn is_running(pid: i32) -> bool {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z"))
    }

    /// The second was killed, and the third, whose parent it was, lived on when there was no time for another round.
    #[test]
    fn one_round_reaches_children_of_children() {
        let (mut shell, pids) = family();
        assert!(pids.iter().all(|pid| is_running(*pid)));
        kill_descendants(Pid::from_raw(shell.id() as i32).unwrap());
        for _ in 0..2_000 {
            if !pids.iter().any(|pid| is_running(*pid)) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(!pids.iter().any(|pid| is_running(*pid)));
        shell.wait().unwrap();
    }

    #[test]
    fn a_parent_is_found_whatever_the_name_of_its_child() {
        let (mut shell, pids) = family();
        let own = Pid::from_raw(std::process::id() as i32);
        assert_eq!(parent_of(Pid::from_raw(shell.id() as i32).unwrap()), own);
        assert_eq!(parent_of(Pid::from_raw(pids[1]).unwrap()), Pid::from_raw(pids[0]));
        kill_descendants(Pid::from_raw(shell.id() as i32).unwrap());
        shell.wait().unwrap();
    }
}
