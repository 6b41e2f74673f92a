//! Sentences for people, made of what `waits` and `status` say as data. Nothing is decided by them.

use std::fmt::{self, Display};

use crate::status::{ActorPhase, ProcessState};
use crate::waits::{Awaited, LeaseReason, ObjectName, Verb, Waiter};

impl Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Get => "get",
            Self::Wait => "wait",
            Self::Next => "next",
            Self::Put => "put",
            Self::Yield => "generator",
        })
    }
}

impl Display for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Thread(verb) => verb.fmt(f),
            Self::Tasks { name, count: 1 } => write!(f, "task {name}"),
            Self::Tasks { name, count } => write!(f, "{count} tasks {name}"),
            Self::Lease { name, pid } => write!(f, "task {name} of process {pid}"),
            Self::Actor(actor) => write!(f, "actor {actor}"),
            Self::Group(group) => write!(f, "placement group {group}"),
        }
    }
}

impl Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(object) = &self.object else { return f.write_str("an object that is gone") };
        match (&self.task, self.owner_pid) {
            (Some(task), _) => write!(f, "{object} of task {task}"),
            (None, Some(pid)) => write!(f, "{object}, owned by process {pid}"),
            (None, None) => object.fmt(f),
        }
    }
}

/// As what follows "waits for"; of a request at the node, as what follows its name.
impl Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Objects { missing, of, first } => {
                write!(f, "{missing} of {of}: ")?;
                for (at, (name, on)) in first.iter().enumerate() {
                    write!(f, "{}{name}", if at == 0 { "" } else { "; " })?;
                    if let Some(on) = on {
                        write!(f, ", which waits for {on}")?;
                    }
                }
                match *missing as usize - first.len().min(*missing as usize) {
                    0 => Ok(()),
                    more => write!(f, "; {more} more"),
                }
            }
            Self::Argument(None) => f.write_str("an argument"),
            Self::Argument(Some(name)) => write!(f, "its argument {name}"),
            Self::Worker => f.write_str("a worker"),
            Self::Actor(actor) => write!(f, "actor {actor}, which is not there yet or busy"),
            Self::Process { pid, actor, has_started } => {
                f.write_str(if *has_started { "its end" } else { "its turn" })?;
                if let Some(actor) = actor {
                    write!(f, " on actor {actor}")?;
                }
                match pid {
                    0 => f.write_str(" in a process of another node"),
                    pid => write!(f, " in process {pid}"),
                }
            }
            Self::Restart => f.write_str("its actor, whose process died"),
            Self::Look => f.write_str("a look for an argument that its worker did not find"),
            Self::Arguments => f.write_str("its arguments, which are being read from a file"),
            Self::Testimony => f.write_str("word from others: the process that submitted it died"),
            Self::Room(bytes) => write!(f, "room for {bytes} bytes in the object store"),
            Self::Reader(given) => write!(f, "whoever reads what it yields: {given} values so far"),
            Self::Resources { why, need } => {
                let why = match why {
                    LeaseReason::InUse => "for others",
                    LeaseReason::Starting => "for a worker to start,",
                    LeaseReason::Infeasible => "for a node that has enough",
                    LeaseReason::LowMemory => "until memory is no longer low",
                    LeaseReason::Capped => "behind blocked tasks of its kind",
                    LeaseReason::NoMoreWorkers => "until one of the workers ends (there are as many as there can be)",
                };
                write!(f, "{why} to get {need}")
            }
            Self::Bundles(bundles) => {
                f.write_str("for room for [")?;
                for (at, bundle) in bundles.iter().enumerate() {
                    write!(f, "{}{bundle}", if at == 0 { "" } else { ", " })?;
                }
                f.write_str("] at one time")
            }
        }
    }
}

impl Display for ProcessState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Starting => "starting",
            Self::Driver => "driver",
            Self::Keeper => "keeper",
            Self::Idle => "idle",
            Self::Busy(label) => label,
        })
    }
}

impl Display for ActorPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pending => "PENDING",
            Self::Alive => "ALIVE",
            Self::Restarting => "RESTARTING",
        })
    }
}

#[cfg(test)]
mod tests {
    use model::ActorId;

    use crate::waits::{Awaited, Ender, LeaseReason, ObjectName, Waiter};

    fn made_by(task: &str) -> ObjectName {
        ObjectName { object: None, task: Some(task.into()), owner_pid: None }
    }

    #[test]
    fn what_would_end_a_get_is_what_the_maker_of_its_object_waits_for() {
        let process = Awaited::Process { pid: 7, actor: None, has_started: true };
        let get = |first| Awaited::Objects { missing: 1, of: 1, first };
        assert_eq!(get(vec![(made_by("f"), Some(process))]).ender(), Ender::Process(7));
        assert_eq!(get(vec![(made_by("f"), None)]).ender(), Ender::Task("f"));
        assert_eq!(Awaited::Actor(ActorId::NIL).ender(), Ender::Actor(ActorId::NIL));
        let need = model::Resources::default();
        assert_eq!(Awaited::Resources { why: LeaseReason::Infeasible, need }.ender(), Ender::Machine);
    }

    #[test]
    fn objects_that_are_not_named_are_counted() {
        let objects = Awaited::Objects { missing: 5, of: 9, first: vec![(made_by("f"), Some(Awaited::Worker))] };
        assert_eq!(objects.to_string(), "5 of 9: an object that is gone, which waits for a worker; 4 more");
        assert_eq!(Waiter::Tasks { name: "f".into(), count: 3 }.to_string(), "3 tasks f");
    }
}
