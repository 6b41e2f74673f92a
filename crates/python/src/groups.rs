//! Placement groups: made, looked at, removed; and where a call wants to be placed.

use model::{GroupId, GroupOptions, Labels, Lifetime, Match, Need, NodeId, ObjectId, Seat, Strategy, Where, Wish};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use wire::control::{Answer, Question};
use wire::groups::{GroupStatus, WhichGroups};

use crate::function::resources;
use crate::object_ref::ObjectRef;
use crate::{context, door, encode, errors, session};

/// A place as Python says it: its kind (`any`, `node` or `bundle`), whose id, which bundle (-1: any), whether children follow.
pub(crate) type PyWhere = (String, Vec<u8>, i32, bool);

pub(crate) fn to_where(at: Option<PyWhere>) -> PyResult<Where> {
    let bad = |error: model::IdLength| PyValueError::new_err(error.to_string());
    let Some((kind, id, bundle, captures)) = at else { return Ok(Where::Anywhere) };
    match &*kind {
        "any" => Ok(Where::Anywhere),
        "node" => Ok(Where::Node(NodeId::from_slice(&id).map_err(bad)?)),
        "bundle" => {
            let group = GroupId::from_slice(&id).map_err(bad)?;
            share(group);
            Ok(Where::Bundle(Seat { group, bundle: u16::try_from(bundle).ok(), captures }))
        }
        _ => Err(PyValueError::new_err("a place is any, node or bundle")),
    }
}

/// What is asked of a node beside amounts, as Python says it: whether it is another one each time, which node rather than others, and
/// alternatives of what must hold of labels: their names, what must hold (`in`, `not in`, `exists`, `lacks`), of which values.
pub(crate) type PyWish = (bool, Option<Vec<u8>>, Vec<PyLabels>);

type PyLabels = Vec<(String, String, Vec<String>)>;

pub(crate) fn to_wish(wish: Option<PyWish>) -> PyResult<Option<Box<Wish>>> {
    let Some((spread, rather, labels)) = wish else { return Ok(None) };
    let rather = rather.map(|id| NodeId::from_slice(&id)).transpose();
    let rather = rather.map_err(|error| PyValueError::new_err(error.to_string()))?;
    let labels = labels.into_iter().map(to_labels).collect::<PyResult<_>>()?;
    Ok(Some(Box::new(Wish { spread, rather, labels })))
}

fn to_labels(labels: PyLabels) -> PyResult<Labels> {
    let to_match = |(name, kind, values): (String, String, Vec<String>)| {
        let values = values.into_iter().map(Box::from).collect();
        let wanted = match &*kind {
            "in" => Match::In(values),
            "not in" => Match::NotIn(values),
            "exists" => Match::Exists,
            "lacks" => Match::Lacks,
            _ => return Err(PyValueError::new_err("of a label must hold: in, not in, exists, lacks")),
        };
        Ok((Box::from(name), wanted))
    };
    labels.into_iter().map(to_match).collect::<PyResult<_>>().map(Labels)
}

/// What goes into a group only because its parent is there must fit there too: it would wait for ever.
pub(crate) fn check_inherited(py: Python<'_>, need: &Need) -> PyResult<()> {
    let Where::Bundle(seat) = need.at else { return Ok(()) };
    let amounts = PyDict::new(py);
    need.to_place.iter().try_for_each(|(name, amount)| amounts.set_item(name, amount.0))?;
    let module = py.import("eagleray._calls.placement_groups")?;
    module.getattr("_check_captured")?.call1((PyBytes::new(py, &seat.group.0), amounts)).map(drop)
}

/// Makes a placement group; returns its id, or nothing if another one has its name.
#[pyfunction]
#[pyo3(signature = (*, bundles, labels, strategy, name, is_detached))]
fn create_group<'py>(
    py: Python<'py>,
    bundles: Vec<Bound<'py, PyDict>>,
    labels: Vec<PyLabels>,
    strategy: &str,
    name: &str,
    is_detached: bool,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let runtime = session::current_or_start(py)?;
    let (creation, _) = context::next_child(&runtime.root);
    let group = GroupId::of(creation);
    let options = GroupOptions {
        name: name.into(),
        namespace: runtime.namespace.lock().expect("never poisoned").clone(),
        lifetime: if is_detached { Lifetime::Detached } else { Lifetime::Owned },
        strategy: Strategy::named(strategy).ok_or_else(|| PyValueError::new_err("no such strategy"))?,
        bundles: bundles.iter().map(resources).collect::<PyResult<_>>()?,
        labels: labels.into_iter().map(to_labels).collect::<PyResult<_>>()?,
    };
    match session::ask(py, Question::CreateGroup { group, options })? {
        Answer::GroupMade(made) => Ok(made.is_registered.then(|| PyBytes::new(py, &group.0))),
        _ => Err(PyRuntimeError::new_err("the node gave another answer")),
    }
}

/// Others may know the group from now on.
fn share(group: GroupId) {
    if let Some(runtime) = session::current() {
        runtime.share_group(group);
    }
}

/// A handle on the group is about to be pickled.
#[pyfunction]
fn share_group(id: &[u8]) -> PyResult<()> {
    share(group_id(id)?);
    Ok(())
}

fn group_id(id: &[u8]) -> PyResult<GroupId> {
    GroupId::from_slice(id).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Removes a placement group.
#[pyfunction]
fn remove_group(py: Python<'_>, id: &[u8]) -> PyResult<()> {
    let group = group_id(id)?;
    let runtime = session::current_or_start(py)?;
    let removed = match runtime.remove_unused_group(group) {
        Ok(false) => door::enter(py, || runtime.remove_group(group, session::ANSWER_WITHIN)),
        done => done.map(drop),
    };
    removed.map_err(|error| errors::from_runtime(&error))
}

/// Every placement group, or the one of this id, as dicts.
#[pyfunction]
#[pyo3(signature = (id=None))]
fn groups<'py>(py: Python<'py>, id: Option<&[u8]>) -> PyResult<Bound<'py, PyList>> {
    list(py, id.map(group_id).transpose()?.map_or(WhichGroups::All, WhichGroups::One))
}

/// The placement group that has this name, in a list, as a dict.
#[pyfunction]
fn group_named<'py>(py: Python<'py>, namespace: &str, name: &str) -> PyResult<Bound<'py, PyList>> {
    list(py, WhichGroups::Named { namespace: namespace.into(), name: name.into() })
}

fn list(py: Python<'_>, which: WhichGroups) -> PyResult<Bound<'_, PyList>> {
    let Answer::Groups(found) = session::ask(py, Question::Groups(which))? else {
        return Err(PyRuntimeError::new_err("the node gave another answer"));
    };
    let made = found.iter().map(|status| status_dict(py, status)).collect::<PyResult<Vec<_>>>()?;
    PyList::new(py, made)
}

fn status_dict<'py>(py: Python<'py>, status: &GroupStatus) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("id", PyBytes::new(py, &status.group.0))?;
    dict.set_item("name", &*status.name)?;
    dict.set_item("strategy", &*status.strategy)?;
    dict.set_item("state", &*status.state)?;
    let nodes: Vec<Option<String>> = status.nodes.iter().map(|node| node.map(|node| node.to_string())).collect();
    dict.set_item("nodes", nodes)?;
    dict.set_item("created_after_us", status.created_after_us)?;
    let bundles = PyList::empty(py);
    for bundle in &status.bundles {
        let amounts = PyDict::new(py);
        bundle.iter().try_for_each(|(name, amount)| amounts.set_item(&**name, amount))?;
        bundles.append(amounts)?;
    }
    dict.set_item("bundles", bundles)?;
    Ok(dict)
}

/// A ref that becomes `value` once the group has its bundles. No task and no worker is needed for that. `pickle`: the value, where it was
/// pickled already.
#[pyfunction]
fn group_ready<'py>(
    py: Python<'py>,
    id: &[u8],
    value: &Bound<'py, PyAny>,
    pickle: Option<Bound<'py, PyBytes>>,
) -> PyResult<Bound<'py, ObjectRef>> {
    let runtime =
        session::current().ok_or_else(|| errors::named(py, "RaySystemError", "Ray has not been started yet."))?;
    let group = group_id(id)?;
    let is_there = runtime.take_fresh_group(group);
    let encoded = match pickle {
        Some(pickle) => encode::keep(py, &runtime, encode::Pickled::plain(pickle), &|| ())?,
        None => encode::encode(&runtime, value)?,
    };
    let (task, _) = context::next_child(&runtime.root);
    let object = ObjectId::of(task, 0);
    let slot = if is_there {
        runtime.put(object, encoded.content, &[])
    } else {
        runtime.group_ready(object, group, encoded.content)
    };
    Bound::new(py, ObjectRef::holding(&runtime, slot, object))
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(create_group, module)?)?;
    module.add_function(wrap_pyfunction!(remove_group, module)?)?;
    module.add_function(wrap_pyfunction!(share_group, module)?)?;
    module.add_function(wrap_pyfunction!(groups, module)?)?;
    module.add_function(wrap_pyfunction!(group_named, module)?)?;
    module.add_function(wrap_pyfunction!(group_ready, module)?)
}
