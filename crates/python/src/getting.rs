//! HOT: `get`, `wait`, `put`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use runtime::{Got, Interrupts, Packed, Runtime, Stage, Wait, Waited};
use wire::waits::{Awaited, Verb};

use crate::door::{self, Signals};
use crate::encode;
use crate::function::put_encoded;
use crate::generator::ObjectRefGenerator;
use crate::object_ref::ObjectRef;
use crate::{context, decode, errors, inventory, session};

fn owner_unknown() -> PyErr {
    PyValueError::new_err(
        "Ray objects whose owner is unknown cannot be read: the ref is from an earlier session, another cluster, or was made from bytes",
    )
}

fn check_timeout(seconds: f64) -> PyResult<f64> {
    if seconds.is_nan() || seconds < 0.0 {
        return Err(PyValueError::new_err(format!("The 'timeout' argument must be nonnegative. Received {seconds}")));
    }
    Ok(seconds)
}

/// The option of `get` and `wait`: wrong ones are refused also where nothing is waited for.
#[inline]
fn timeout_option(given: Option<&Bound<'_, PyAny>>) -> PyResult<Option<f64>> {
    given.map_or(Ok(None), checked_timeout)
}

#[cold]
fn checked_timeout(given: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
    let seconds = given.extract::<f64>().map_err(|_| {
        PyTypeError::new_err(format!(
            "The 'timeout' argument must be a number of seconds, or None, not {}",
            given.get_type()
        ))
    })?;
    check_timeout(seconds).map(Some)
}

/// The option of `get`: as in Ray, one number stands for no limit.
#[inline]
fn get_timeout_option(given: Option<&Bound<'_, PyAny>>) -> PyResult<Option<f64>> {
    let is_endless = |given: &Bound<'_, PyAny>| given.extract::<f64>().is_ok_and(|seconds| seconds == -1.0);
    timeout_option(given.filter(|given| !is_endless(given)))
}

#[inline]
fn deadline(timeout: Option<f64>) -> PyResult<Option<u64>> {
    timeout.map_or(Ok(None), deadline_after)
}

/// Never inlined: the compiler would compute ahead, in each `get`, what a limit that is not there comes to. Those bytes may be any number, and
/// products of some take processors a hundred times as long (small gets came down to 0.65 of their rate on one).
#[inline(never)]
fn deadline_after(seconds: f64) -> PyResult<Option<u64>> {
    let seconds = check_timeout(seconds)?;
    Ok((seconds <= 1e9).then(|| net::clock::now_ns() + (seconds * 1e9) as u64))
}

/// Waits until `is_done`: a moment with the interpreter's lock, then without.
fn wait_for(
    py: Python<'_>,
    runtime: &Arc<Runtime>,
    deadline_ns: Option<u64>,
    explain: (Verb, &(dyn Fn() -> Awaited + Sync)),
    needs: Option<&(dyn Fn() -> Option<u32> + Sync)>,
    is_done: impl Fn() -> bool + Send,
) -> PyResult<Waited> {
    if runtime.poll(&is_done) {
        return Ok(Waited::Done);
    }
    let in_task = context::current_task().is_some() && runtime.is_worker;
    let wait = Wait { deadline_ns, in_task, explain: Some(explain), needs, serves: None };
    if runtime.nap(&wait, &is_done) {
        return Ok(Waited::Done);
    }
    let mut signals = Signals::default();
    let waited = door::enter(py, || runtime.wait_until(&wait, &mut signals, is_done));
    waited.map_err(|error| signals.raise(&error))
}

/// Waits until the object is ready, for `timeout` seconds at most.
pub(crate) fn wait_for_one(
    py: Python<'_>,
    runtime: &Arc<Runtime>,
    slot: u32,
    timeout: Option<f64>,
) -> PyResult<Waited> {
    let deadline = deadline(timeout)?;
    let explain = || runtime.explain(&[slot]);
    wait_for(py, runtime, deadline, (Verb::Next, &explain), Some(&|| Some(slot)), || runtime.is_ready(slot))
}

/// A value that is ready and lies in an object store is waited for so long at least, also by who polls.
const FETCH_NS_MIN: u64 = 5_000_000_000;

/// tour(task) 10: the value comes out of the owner's table and becomes a Python object.
fn load<'py>(
    py: Python<'py>,
    runtime: &Arc<Runtime>,
    slot: u32,
    id: &model::ObjectId,
    timeout: Option<f64>,
) -> PyResult<Bound<'py, PyAny>> {
    let clock = Stage::clock();
    let mut got = runtime.content(slot);
    let result = loop {
        break match got {
            Some(Got::Inline(Packed::Many(bytes))) => context_decode(py, &bytes, &decode::Shared(&bytes)),
            Some(Got::Inline(bytes)) => context_decode(py, &bytes, &decode::Passing(&bytes)),
            Some(Got::Stored(view)) => context_decode(py, view.as_slice(), &decode::Stored(&view)),
            Some(Got::Failed(failure)) => Err(errors::from_failure(py, &failure, id)),
            Some(Got::Far(bulk)) => {
                let least_ns = if runtime.is_away(bulk) { 0 } else { FETCH_NS_MIN };
                let until = deadline(timeout)?.map(|end| end.max(net::clock::now_ns() + least_ns));
                let mut signals = Signals::default();
                let mut goes_on =
                    || !signals.is_interrupted() && until.is_none_or(|until| net::clock::now_ns() < until);
                let fetched = door::enter(py, || runtime.fetch(slot, bulk, &mut goes_on));
                got = fetched.map_err(|error| signals.raise(&error))?;
                continue;
            }
            None => {
                // It does not lie any more where its owner said, and the owner was asked again.
                get_wait(py, runtime, &[slot], timeout)?;
                got = runtime.content(slot);
                continue;
            }
        };
    };
    Stage::Get.add(clock);
    result
}

/// References that come out of a value we keep are covered by it: nothing has to be told to their owners.
fn context_decode<'py>(
    py: Python<'py>,
    bytes: &[u8],
    source: &dyn crate::plain::Source,
) -> PyResult<Bound<'py, PyAny>> {
    let decoded = if bytes.first().is_some_and(|kind| kind & wire::value::HAS_REFS != 0) {
        context::decoding(|| decode::value(py, bytes, source)).0
    } else {
        decode::value(py, bytes, source)
    };
    decoded.map_err(|error| errors::undecodable(py, error))
}

/// `get(ref)` or `get([ref, ...])`.
#[pyfunction]
#[pyo3(signature = (object_refs, *, timeout=None))]
fn get<'py>(
    py: Python<'py>,
    object_refs: &Bound<'py, PyAny>,
    timeout: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let timeout = get_timeout_option(timeout)?;
    let refs = object_refs;
    let runtime = session::current_or_start(py)?;
    if let Ok(object) = refs.cast::<ObjectRef>() {
        let object = object.get();
        let slot = object.slot_in(&runtime).ok_or_else(owner_unknown)?;
        if !runtime.is_ready(slot) {
            get_wait(py, &runtime, &[slot], timeout)?;
        }
        return load(py, &runtime, slot, &object.id, timeout);
    }
    if refs.is_instance_of::<ObjectRefGenerator>() {
        return Ok(refs.clone());
    }
    let Ok(list) = refs.cast::<PyList>() else {
        return Err(PyValueError::new_err(format!(
            "Invalid type of object refs, {}, is given. 'object_refs' must either be an ObjectRef or a list of ObjectRefs. ",
            refs.get_type()
        )));
    };
    let mut slots = Vec::with_capacity(list.len());
    for item in list.iter() {
        let object = item.cast::<ObjectRef>().map_err(|_| {
            PyTypeError::new_err(format!(
                "Attempting to call `get` on the value {item}, which is not an ray.ObjectRef."
            ))
        })?;
        slots.push(object.get().slot_in(&runtime).ok_or_else(owner_unknown)?);
    }
    if slots.iter().any(|slot| !runtime.is_ready(*slot)) {
        get_wait(py, &runtime, &slots, timeout)?;
    }
    if slots.len() > 1 {
        runtime.will_read(&slots);
    }
    let values = PyList::empty(py);
    // An error anywhere comes first: the others may never be ready.
    if let Some(failed) = slots.iter().position(|slot| runtime.is_failed(*slot)) {
        let id = list.get_item(failed)?.cast::<ObjectRef>()?.get().id;
        load(py, &runtime, slots[failed], &id, timeout)?;
    }
    for (item, slot) in list.iter().zip(&slots) {
        values.append(load(py, &runtime, *slot, &item.cast::<ObjectRef>()?.get().id, timeout)?)?;
    }
    Ok(values.into_any())
}

/// A list of up to this many is searched for failures at each look, a longer one after at least this long.
const SEARCHED_MAX: usize = 64;
const SEARCH_NS: u64 = 5_000_000;

/// Waits until all are ready or one has failed.
fn get_wait(py: Python<'_>, runtime: &Arc<Runtime>, slots: &[u32], timeout: Option<f64>) -> PyResult<()> {
    let deadline = deadline(timeout)?;
    runtime.need(slots.iter().copied());
    // All before this one are known to have values. Atomics, since the wait goes on without the interpreter's lock.
    let first = AtomicUsize::new(0);
    let searched_at = AtomicU64::new(0);
    let has_failed = AtomicBool::new(false);
    let is_done = || {
        let mut at = first.load(Ordering::Relaxed);
        while slots.get(at).is_some_and(|slot| runtime.is_ready(*slot) && !runtime.is_failed(*slot)) {
            at += 1;
        }
        first.store(at, Ordering::Relaxed);
        let Some(next) = slots.get(at) else { return true };
        if runtime.is_failed(*next) || has_failed.load(Ordering::Relaxed) {
            return true;
        }
        // Long lists are searched for failures now and then, short ones each time.
        if slots.len() > SEARCHED_MAX {
            let now = net::clock::now_ns();
            if now < searched_at.load(Ordering::Relaxed) + SEARCH_NS {
                return false;
            }
            searched_at.store(now, Ordering::Relaxed);
        }
        let found = slots[at..].iter().any(|slot| runtime.is_failed(*slot));
        // Kept: what asks next may not search.
        has_failed.store(found, Ordering::Relaxed);
        found
    };
    let explain = || runtime.explain(slots);
    // All must come, so that it may sleep until the last one does.
    let needs = || slots.iter().rev().copied().find(|slot| !runtime.is_ready(*slot));
    match wait_for(py, runtime, deadline, (Verb::Get, &explain), Some(&needs), is_done)? {
        Waited::Done => Ok(()),
        Waited::TimedOut => {
            let missing = slots.iter().filter(|slot| !runtime.is_ready(**slot)).count();
            Err(errors::named(
                py,
                "GetTimeoutError",
                format!(
                    "Get timed out: {missing} of {} object(s) not ready within {} s.{}",
                    slots.len(),
                    timeout.unwrap_or(0.0),
                    what_next(runtime, slots, timeout)
                ),
            ))
        }
    }
}

/// What daemons say of themselves, in their sessions' folders: see `_node/facts.py`.
const ABOUT: &str = "node.json";

/// What a timed-out `get` waited for, and where to look; nothing for who only looked by, which programs do all the time.
fn what_next(runtime: &Runtime, slots: &[u32], timeout: Option<f64>) -> String {
    if timeout.is_none_or(|seconds| seconds <= 0.0) {
        return String::new();
    }
    // The command finds a daemon by itself; programs there may be many.
    let hint = match &*runtime.address {
        "" => String::new(),
        address if !Path::new(&*runtime.session_dir).join(ABOUT).exists() => {
            format!(" `eagleray status -v --address {address}` shows what runs and what waits.")
        }
        _ => " `eagleray status -v` shows what runs and what waits.".into(),
    };
    format!(" It waited for {}.{hint}", runtime.explain(slots))
}

static WAIT_CALLS: AtomicU32 = AtomicU32::new(1);

/// `wait(refs)`: (ready, not ready), each in the order given.
#[pyfunction]
#[pyo3(signature = (ray_waitables, *, num_returns=1, timeout=None, fetch_local=true))]
fn wait<'py>(
    py: Python<'py>,
    ray_waitables: &Bound<'py, PyAny>,
    num_returns: i64,
    timeout: Option<&Bound<'py, PyAny>>,
    fetch_local: bool,
) -> PyResult<Bound<'py, PyTuple>> {
    let timeout = timeout_option(timeout)?;
    let runtime = session::current_or_start(py)?;
    let Ok(list) = ray_waitables.cast::<PyList>() else {
        let is_one =
            ray_waitables.is_instance_of::<ObjectRef>() || ray_waitables.is_instance_of::<ObjectRefGenerator>();
        let got = if is_one {
            format!("a single ray.ObjectRef or ray.ObjectRefGenerator {ray_waitables}")
        } else {
            ray_waitables.get_type().to_string()
        };
        return Err(PyTypeError::new_err(format!(
            "wait() expected a list of ray.ObjectRef or ray.ObjectRefGenerator, got {got}"
        )));
    };
    let deadline = deadline(timeout)?;
    let call = WAIT_CALLS.fetch_add(1, Ordering::Relaxed);
    let mut slots = Vec::with_capacity(list.len());
    let mut unknown = std::collections::HashSet::new();
    // What stands for generators is held: another thread may read it meanwhile.
    let mut fronts = Vec::new();
    for item in list.iter() {
        if let Ok(generator) = item.cast::<ObjectRefGenerator>() {
            let front = generator.get().front().filter(|front| front.slot_in(&runtime).is_some());
            let slot = front.as_ref().and_then(|front| front.slot_in(&runtime));
            let slot = slot.ok_or_else(owner_unknown)?;
            if !runtime.mark(slot, call) {
                return Err(not_unique());
            }
            slots.push(slot);
            fronts.extend(front);
            continue;
        }
        let object = item.cast::<ObjectRef>().map_err(|_| {
            PyTypeError::new_err(format!(
                "wait() expected a list of ray.ObjectRef or ray.ObjectRefGenerator, got list containing {}",
                item.get_type()
            ))
        })?;
        match object.get().slot_in(&runtime) {
            Some(slot) => {
                if !runtime.mark(slot, call) {
                    return Err(not_unique());
                }
                slots.push(slot);
            }
            None => {
                if !unknown.insert(object.get().id) {
                    return Err(not_unique());
                }
                slots.push(u32::MAX);
            }
        }
    }
    if slots.is_empty() {
        return PyTuple::new(py, [PyList::empty(py), PyList::empty(py)]);
    }
    if unknown.len() == slots.len() {
        return Err(PyValueError::new_err(
            "Ray object whose owner is unknown: none of the refs belongs to this session",
        ));
    }
    if num_returns <= 0 {
        return Err(PyValueError::new_err(format!("Invalid number of objects to return {num_returns}.")));
    }
    let wanted = num_returns as usize;
    if wanted > slots.len() {
        return Err(PyValueError::new_err(format!(
            "num_returns cannot be greater than the number of ray_waitables provided to ray.wait: {wanted} > {}.",
            slots.len()
        )));
    }
    let is_there = |slot: u32| slot != u32::MAX && runtime.is_ready(slot);
    // Where no value of another node was ever seen, nothing is asked of each.
    let fetches = || fetch_local && runtime.has_away();
    let is_done = || {
        let there = slots.iter().filter(|slot| is_there(**slot));
        let count = if fetches() {
            there.filter(|slot| runtime.is_near(**slot)).take(wanted).count()
        } else {
            there.take(wanted).count()
        };
        count == wanted
    };
    if fetches() {
        // All of them are brought here, however many are waited for.
        slots.iter().filter(|slot| is_there(**slot)).for_each(|slot| _ = runtime.is_near(*slot));
    }
    if !is_done() {
        let known: Vec<u32> = slots.iter().copied().filter(|slot| *slot != u32::MAX).collect();
        runtime.need(known.iter().copied());
        let explain = || runtime.explain(&known);
        wait_for(py, &runtime, deadline, (Verb::Wait, &explain), None, is_done)?;
    }
    let mut left = wanted;
    let fetches = fetches();
    let is_ready = |slot: u32| is_there(slot) && (!fetches || runtime.is_near(slot));
    let (ready, rest) = (PyList::empty(py), PyList::empty(py));
    for (item, slot) in list.iter().zip(&slots) {
        if left > 0 && is_ready(*slot) {
            left -= 1;
            ready.append(item)?;
        } else {
            rest.append(item)?;
        }
    }
    PyTuple::new(py, [ready, rest])
}

fn not_unique() -> PyErr {
    PyValueError::new_err("Wait requires a list of unique ray_waitables.")
}

/// `put(value)`. Values outlive their owners here, so that it means nothing whose they shall be; tensors travel as all values do.
#[pyfunction]
#[pyo3(signature = (value, *, _owner = None, _tensor_transport = None))]
fn put(
    value: &Bound<'_, PyAny>,
    _owner: Option<&Bound<'_, PyAny>>,
    _tensor_transport: Option<&Bound<'_, PyAny>>,
) -> PyResult<ObjectRef> {
    if value.is_instance_of::<ObjectRef>() {
        return Err(PyTypeError::new_err(
            "Calling 'put' on an ray.ObjectRef is not allowed. If you really want to do this, you can wrap the ray.ObjectRef in a list and call 'put' on it.",
        ));
    }
    put_result(value)
}

/// `put(value)` of what a task returned that ran in this very process: that may be a ref.
#[pyfunction]
fn put_result(value: &Bound<'_, PyAny>) -> PyResult<ObjectRef> {
    let runtime = session::current_or_start(value.py())?;
    let encoded =
        encode::encode(&runtime, value).map_err(|error| errors::unserializable(value, error, "put value", ""))?;
    let object = put_encoded(&runtime, encoded);
    inventory::made(value.py(), &runtime, object.held.iter().map(|(_, slot)| *slot));
    Ok(object)
}

/// A ref whose `get` raises this error, made by a task that ran in this very process.
#[pyfunction]
fn put_error(error: &Bound<'_, PyAny>) -> PyResult<ObjectRef> {
    let runtime = session::current_or_start(error.py())?;
    let pickled = encode::pickle(error)?;
    let mut bytes = Vec::new();
    encode::write_refs(&runtime, &mut bytes, wire::value::PICKLE, &pickled.refs);
    pickled.write(&mut bytes, 0);
    let (task, _) = context::next_child(&runtime.root);
    let id = model::ObjectId::of(task, 0);
    let slot = runtime.put_failed(id, model::Failure::Raised(bytes.into()), &pickled.refs);
    Ok(ObjectRef::holding(&runtime, slot, id))
}

/// Whether `get` would not wait: the ref has its value or error, or is of no session that runs.
#[pyfunction]
fn is_ready(object: &Bound<'_, ObjectRef>) -> bool {
    let slot = session::current().and_then(|runtime| object.get().slot_in(&runtime).map(|slot| (runtime, slot)));
    slot.is_none_or(|(runtime, slot)| runtime.is_ready(slot))
}

/// A ref that a task makes: of a generator, the one that stands for its end.
fn ref_of_task<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, ObjectRef>> {
    match object.cast::<ObjectRefGenerator>() {
        Ok(generator) => Ok(generator.get().end().bind(object.py()).clone()),
        Err(_) => Ok(object.cast::<ObjectRef>()?.clone()),
    }
}

/// Cancels the task that makes the ref.
#[pyfunction]
fn cancel(py: Python<'_>, object: &Bound<'_, PyAny>, force: bool, recursive: bool) -> PyResult<()> {
    let runtime = session::current_or_start(py)?;
    if let Some(slot) = ref_of_task(object)?.get().slot_in(&runtime) {
        runtime.cancel(slot, force, recursive);
    }
    Ok(())
}

/// Whether the ref is made by a call on an actor.
#[pyfunction]
fn is_actor_call(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let object = ref_of_task(object)?;
    Ok(object.get().held.as_ref().is_some_and(|(runtime, slot)| runtime.is_actor_call(*slot)))
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(get, module)?)?;
    module.add_function(wrap_pyfunction!(wait, module)?)?;
    module.add_function(wrap_pyfunction!(put, module)?)?;
    module.add_function(wrap_pyfunction!(put_error, module)?)?;
    module.add_function(wrap_pyfunction!(put_result, module)?)?;
    module.add_function(wrap_pyfunction!(is_ready, module)?)?;
    module.add_function(wrap_pyfunction!(cancel, module)?)?;
    module.add_function(wrap_pyfunction!(is_actor_call, module)?)
}
