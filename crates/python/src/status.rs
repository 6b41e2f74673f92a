//! What a node says about itself, for `eagleray status` and `memory`: asked for once, or whenever it has changed.

use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::time::Duration;

use model::Resources;
use net::unix::Inbox;
use pyo3::exceptions::{PyConnectionError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use wire::control::{Answer, FromNode, Question, ToNode};
use wire::members::{Decided, NodeStatus};
use wire::waits::WaitRecord;

use crate::session::{ask, connect_to};
use crate::{door, inventory};

/// What waits: who, for what, and for how many milliseconds.
type InWords = Vec<(String, String, u64)>;

/// The node at a glance.
#[pyfunction]
fn status(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    match ask(py, Question::Status)? {
        Answer::Status(status) => status_dict(py, &status),
        _ => Err(PyRuntimeError::new_err("the node gave another answer")),
    }
}

/// All nodes of the cluster, as the head knows them.
#[pyfunction]
fn nodes(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    match ask(py, Question::Cluster)? {
        Answer::Cluster(cluster) => node_dicts(py, &cluster.nodes),
        _ => Err(PyRuntimeError::new_err("the node gave another answer")),
    }
}

/// Asks the node at `path`, as a visitor: `status`, for which it asks the head, `own status`, `memory` or `stop`. Raises ConnectionError if it
/// does not answer within `seconds`.
#[pyfunction]
fn ask_node<'py>(py: Python<'py>, path: &str, what: &str, seconds: f64) -> PyResult<Option<Bound<'py, PyDict>>> {
    let socket = connect_to(path, Some(Duration::from_secs_f64(seconds.max(0.001))))?;
    let question = match what {
        "status" | "own status" => Question::Status,
        "stop" => Question::Stop,
        "memory" => Question::Inventory { limit: inventory::LIMIT },
        _ => return Err(PyValueError::new_err("ask for status, own status, memory or stop")),
    };
    let mut inbox = Inbox::default();
    let mut put = |question: Question| {
        door::enter(py, || -> Result<Option<Answer>, rustix::io::Errno> {
            let ask = ToNode::Ask { request: 1, question };
            net::unix::send(&socket, &wire::encode(&ask), &[])?;
            Ok(inbox.receive(&socket)?.and_then(|bytes| match wire::decode(&bytes) {
                Ok(FromNode::Answer { answer, .. }) => Some(answer),
                _ => None,
            }))
        })
    };
    let failed = |errno: rustix::io::Errno| match errno {
        rustix::io::Errno::AGAIN => format!("no node answers at {path}: not within {seconds} s"),
        _ => format!("no node answers at {path}: {errno}"),
    };
    let failed = |errno| PyConnectionError::new_err(failed(errno));
    match put(question).map_err(failed)? {
        Some(Answer::Status(status)) => {
            let dict = status_dict(py, &status)?;
            if what == "status"
                && let Some(Answer::Cluster(cluster)) = put(Question::Cluster).map_err(failed)?
            {
                dict.set_item("nodes", node_dicts(py, &cluster.nodes)?)?;
                let infeasible: Vec<&str> = cluster.infeasible.iter().map(|line| &**line).collect();
                dict.set_item("infeasible", infeasible)?;
                let decisions = cluster.decisions.iter().map(|decided| decision_dict(py, decided));
                dict.set_item("decisions", decisions.collect::<PyResult<Vec<_>>>()?)?;
            }
            Ok(Some(dict))
        }
        Some(Answer::Inventory(inventory)) => Ok(Some(inventory::to_dict(py, &inventory)?)),
        _ => Ok(None),
    }
}

/// By public name, in ten-thousandths.
fn amounts<'py, 'a>(py: Python<'py>, list: impl Iterator<Item = (&'a str, i64)>) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, amount) in list {
        dict.set_item(name, amount)?;
    }
    Ok(dict)
}

fn node_dicts<'py>(py: Python<'py>, nodes: &[NodeStatus]) -> PyResult<Vec<Bound<'py, PyDict>>> {
    nodes.iter().map(|node| node_dict(py, node)).collect()
}

fn decision_dict<'py>(py: Python<'py>, decided: &Decided) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("ago_ms", decided.ago_ms)?;
    dict.set_item("what", &*decided.what)?;
    dict.set_item("count", decided.count)?;
    dict.set_item("from", decided.from)?;
    dict.set_item("to", decided.to)?;
    dict.set_item("why", &*decided.why)?;
    Ok(dict)
}

fn node_dict<'py>(py: Python<'py>, node: &NodeStatus) -> PyResult<Bound<'py, PyDict>> {
    let parts = |resources: &Resources| amounts(py, resources.iter().map(|(name, amount)| (name, amount.0)));
    let info = &node.info;
    let dict = PyDict::new(py);
    dict.set_item("number", info.number)?;
    dict.set_item("node_id", info.id.to_string())?;
    dict.set_item("alive", node.gone.is_none())?;
    dict.set_item("gone", node.gone.as_deref())?;
    dict.set_item("address", info.addresses.first().map(|address| &**address))?;
    dict.set_item("name", &*info.name)?;
    dict.set_item("pid", info.pid)?;
    dict.set_item("is_head", info.number == node::abroad::HEAD)?;
    dict.set_item("is_guest", info.is_guest)?;
    dict.set_item("total", parts(&info.total)?)?;
    dict.set_item("free", parts(&node.free)?)?;
    let labels = PyDict::new(py);
    info.labels.iter().try_for_each(|(name, label)| labels.set_item(&**name, &**label))?;
    dict.set_item("labels", labels)?;
    let waiting = node.waiting.iter().map(|(need, count)| Ok((parts(&need.to_place)?, *count)));
    dict.set_item("waiting", waiting.collect::<PyResult<Vec<_>>>()?)?;
    Ok(dict)
}

fn status_dict<'py>(py: Python<'py>, status: &wire::status::Status) -> PyResult<Bound<'py, PyDict>> {
    let amounts = |list: &[(Box<str>, i64)]| amounts(py, list.iter().map(|(name, amount)| (&**name, *amount)));
    let dict = PyDict::new(py);
    dict.set_item("total", amounts(&status.total)?)?;
    dict.set_item("free", amounts(&status.free)?)?;
    dict.set_item("store_used", status.store.0)?;
    dict.set_item("store_capacity", status.store.1)?;
    dict.set_item("copies", status.values.0)?;
    dict.set_item("kept_for_others", status.values.1)?;
    dict.set_item("pid", status.pid)?;
    let processes: Vec<_> = status
        .processes
        .iter()
        .map(|process| (process.pid, process.state.to_string(), in_words(&process.waits)))
        .collect();
    dict.set_item("processes", processes)?;
    let own_bytes = PyDict::new(py);
    status.processes.iter().try_for_each(|process| own_bytes.set_item(process.pid, process.own_bytes))?;
    dict.set_item("own_bytes", own_bytes)?;
    let actors: Vec<_> = status
        .actors
        .iter()
        .map(|actor| {
            (
                actor.actor.to_string(),
                actor.class_name.to_string(),
                actor.name.to_string(),
                actor.phase.to_string(),
                actor.pid,
            )
        })
        .collect();
    dict.set_item("actors", actors)?;
    dict.set_item("waiting", in_words(&status.waiting))?;
    Ok(dict)
}

/// (who, on what, for how many milliseconds).
fn in_words(records: &[WaitRecord]) -> InWords {
    records.iter().map(|wait| (wait.who.to_string(), wait.on.to_string(), wait.waited_ms)).collect()
}

/// What waits on a node, now and whenever that has changed.
#[pyclass(frozen, module = "eagleray._native")]
struct WaitWatch {
    path: String,
    open: Mutex<(OwnedFd, Inbox)>,
}

#[pymethods]
impl WaitWatch {
    /// Subscribes at the node that listens at `path`.
    #[new]
    fn new(path: String) -> PyResult<Self> {
        // Short, so that whoever waits looks at signals now and then.
        let socket = connect_to(&path, Some(Duration::from_millis(200)))?;
        let ask = ToNode::Ask { request: 1, question: Question::WatchWaits };
        net::unix::send(&socket, &wire::encode(&ask), &[])
            .map_err(|errno| PyConnectionError::new_err(format!("no node answers at {path}: {errno}")))?;
        Ok(Self { path, open: Mutex::new((socket, Inbox::default())) })
    }

    /// ({pid: waits}, waits at the node) if that has changed; None if it has not for a moment. Raises ConnectionError when the node ends.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<(Bound<'py, PyDict>, InWords)>> {
        let received = door::enter(py, || {
            let mut open = self.open.lock().expect("never poisoned");
            let (socket, inbox) = &mut *open;
            inbox.receive(&*socket)
        });
        let gone = |why: String| PyConnectionError::new_err(format!("the node at {} hung up{why}", self.path));
        let bytes = match received {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Err(gone(String::new())),
            Err(rustix::io::Errno::AGAIN) => return Ok(None),
            Err(errno) => return Err(gone(format!(": {errno}"))),
        };
        let Ok(FromNode::Answer { answer: Answer::Waits(waits), .. }) = wire::decode(&bytes) else {
            return Err(PyRuntimeError::new_err("the node gave another answer"));
        };
        let processes = PyDict::new(py);
        waits.processes.iter().try_for_each(|(pid, records)| processes.set_item(pid, in_words(records)))?;
        Ok(Some((processes, in_words(&waits.node))))
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<WaitWatch>()?;
    module.add_function(wrap_pyfunction!(status, module)?)?;
    module.add_function(wrap_pyfunction!(nodes, module)?)?;
    module.add_function(wrap_pyfunction!(ask_node, module)?)
}
