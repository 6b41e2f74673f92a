//! Which objects there are in the cluster and who holds them, as Python sees it; and where their refs were made, if that is recorded.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use model::ProcId;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use runtime::{ObjectSlot, Runtime};
use wire::control::{Answer, Question};
use wire::status::{ClusterInventory, NodeInventory};

use crate::session;

/// Objects that each process tells of.
pub(crate) const LIMIT: u32 = 10_000;

static RECORDS_SITES: AtomicBool = AtomicBool::new(false);
static SITE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// From now on, where refs are made is recorded: `site` says where the program is.
#[pyfunction]
fn record_sites(py: Python<'_>, site: Py<PyAny>) {
    let _ = SITE.set(py, site);
    RECORDS_SITES.store(true, Ordering::Relaxed);
}

/// Refs on these objects were made just now.
#[inline]
pub(crate) fn made(py: Python<'_>, runtime: &Arc<Runtime>, slots: impl Iterator<Item = ObjectSlot>) {
    if RECORDS_SITES.load(Ordering::Relaxed) {
        record(py, runtime, &slots.collect::<Vec<_>>());
    }
}

#[cold]
fn record(py: Python<'_>, runtime: &Arc<Runtime>, slots: &[ObjectSlot]) {
    let said = SITE.get(py).and_then(|site| site.call0(py).ok()?.extract::<String>(py).ok());
    if let Some(site) = said {
        runtime.note_site(slots, &site);
    }
}

/// What every process of the node holds, and what those of other nodes do.
#[pyfunction]
fn inventory(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    match session::ask(py, Question::Inventory { limit: LIMIT })? {
        Answer::Inventory(inventory) => to_dict(py, &inventory),
        _ => Err(PyRuntimeError::new_err("the node gave another answer")),
    }
}

/// The node that was asked, with the others in it.
pub(crate) fn to_dict<'py>(py: Python<'py>, cluster: &ClusterInventory) -> PyResult<Bound<'py, PyDict>> {
    // Who owns an object may live on another node than those that hold it.
    let nodes = cluster.others.iter().chain([&cluster.own]);
    let processes = nodes.flat_map(|node| &node.inventory.processes);
    let pids = processes.map(|holdings| (holdings.process, holdings.pid)).collect();
    let dict = node_dict(py, &cluster.own, &pids)?;
    let others = cluster.others.iter().map(|other| node_dict(py, other, &pids)).collect::<PyResult<Vec<_>>>()?;
    dict.set_item("others", others)?;
    dict.set_item("silent_nodes", &cluster.silent)?;
    Ok(dict)
}

fn node_dict<'py>(
    py: Python<'py>,
    NodeInventory { node, name, inventory }: &NodeInventory,
    pids: &HashMap<ProcId, i32>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("node", node)?;
    dict.set_item("name", &**name)?;
    let mut processes = Vec::new();
    for holdings in &inventory.processes {
        let process = PyDict::new(py);
        process.set_item("pid", holdings.pid)?;
        process.set_item("role", holdings.state.to_string())?;
        process.set_item("objects_count", holdings.objects_count)?;
        process.set_item("tasks", holdings.tasks)?;
        process.set_item("pins", holdings.pins)?;
        process.set_item("store_bytes", holdings.store_bytes)?;
        process.set_item("files", holdings.files)?;
        let mut objects = Vec::new();
        for row in &holdings.objects {
            let object = PyDict::new(py);
            object.set_item("object_id", row.object.to_string())?;
            object.set_item("owner_pid", pids.get(&row.owner))?;
            object.set_item("is_owner", row.owner == holdings.process)?;
            object.set_item("state", row.state.as_str())?;
            object.set_item("bytes", row.bytes)?;
            object.set_item("nodes", &row.nodes)?;
            object.set_item("local", row.handles)?;
            object.set_item("used", row.uses)?;
            object.set_item("borrowers", row.borrowers)?;
            object.set_item("is_actor", row.is_actor)?;
            object.set_item("site", &*row.site)?;
            objects.push(object);
        }
        process.set_item("objects", objects)?;
        processes.push(process);
    }
    dict.set_item("processes", processes)?;
    dict.set_item("silent", &inventory.silent)?;
    dict.set_item("store_used", inventory.store.0)?;
    dict.set_item("store_capacity", inventory.store.1)?;
    dict.set_item("orphaned", inventory.orphaned)?;
    dict.set_item("files", inventory.files.0)?;
    dict.set_item("file_bytes", inventory.files.1)?;
    let resources: Vec<_> = inventory.resources.iter().map(|(name, total, free)| (&**name, *total, *free)).collect();
    dict.set_item("resources", resources)?;
    dict.set_item("leases_waiting", inventory.leases_waiting)?;
    Ok(dict)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(record_sites, module)?)?;
    module.add_function(wrap_pyfunction!(inventory, module)?)
}
