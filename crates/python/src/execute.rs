//! HOT: the worker's loop: take a call, decode, run, encode, reply.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use model::{Failure, FunctionId, Language, TaskId, Template, Yields};
use pyo3::exceptions::{PyKeyboardInterrupt, PySystemExit, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};
use runtime::{CallHandle, Content, IncomingCall, Runtime, Stage, Work};
use wire::actor_spec::ActorSpec;
use wire::frame::Value;
use wire::value;

use crate::door::Signals;
use crate::generating::{self, Running};
use crate::{actor, arguments, context, door, encode, errors, output, plain, session, title};

/// User code runs on the main thread right now: a cancel may interrupt it.
pub(crate) static IS_RUNNING: AtomicBool = AtomicBool::new(false);

/// Functions that are kept; beyond that all are forgotten, and fetched again where they are called again.
const FUNCTIONS_MAX: usize = 1024;
/// Bound methods that are kept.
const METHODS_MAX: usize = 1024;

type Methods = HashMap<usize, (Arc<Template>, Py<PyAny>)>;

/// The assignment that Python has taken over.
static ASSIGNED: AtomicU64 = AtomicU64::new(0);

/// Lets Python take over what a new lease gives, before anything of it is decoded or runs: what is decoded imports modules.
#[inline]
fn follow_assignment(runtime: &Arc<Runtime>, worker: &Bound<'_, PyAny>) -> PyResult<()> {
    let serial = runtime.assignments();
    if ASSIGNED.load(Ordering::Relaxed) != serial {
        door::enter(worker.py(), || runtime.await_assignment(serial));
        worker.call_method0("assigned")?;
        // Only now: where it fails, the lease's next call must not run without what it was to find.
        ASSIGNED.store(serial, Ordering::Relaxed);
    }
    Ok(())
}

thread_local! {
    static FUNCTIONS: RefCell<HashMap<FunctionId, Py<PyAny>>> = RefCell::new(HashMap::new());
    /// Bound methods, by the address of the template, which is kept so that the address stays its own.
    static METHODS: RefCell<Methods> = RefCell::new(HashMap::new());
}

/// The threads that serve one group of an actor's methods.
#[pyclass(frozen, module = "eagleray._native")]
struct ThreadsCore {
    group: u16,
    /// How many of them wait for a call.
    waiting: AtomicUsize,
    /// How many are to get their first call before any gets a second one.
    fresh: AtomicUsize,
}

#[pymethods]
impl ThreadsCore {
    #[new]
    fn new(group: u16, fresh: usize) -> Self {
        Self { group, waiting: AtomicUsize::new(0), fresh: AtomicUsize::new(fresh) }
    }

    /// There will be no more threads: those that are there take every call.
    fn open(&self) {
        self.fresh.store(0, Ordering::SeqCst);
        if let Some(runtime) = session::current() {
            runtime.tell_servers();
        }
    }
}

/// Serves calls on this thread until it is told to end. `worker` is Python's `eagleray._worker.process.Worker`. Returns how to end:
/// "exit", "abort", or "built" once an actor that is served otherwise (by threads or an event loop) was built.
#[pyfunction]
fn serve(py: Python<'_>, worker: &Bound<'_, PyAny>) -> PyResult<&'static str> {
    let runtime = session::current_or_start(py)?;
    serve_with(py, &runtime, worker, 0, &|| true, |call| run(py, &runtime, worker, call))
}

/// As `serve`, on one of the `threads` of a group. When the last one that waits takes a call, `add_thread` is called for one more; it says
/// whether there may be yet another. The first threads get a call each before any gets its second: programs that keep something per thread
/// count on as many threads as calls.
#[pyfunction]
fn serve_beside(
    py: Python<'_>,
    worker: &Bound<'_, PyAny>,
    threads: &Bound<'_, ThreadsCore>,
    add_thread: &Bound<'_, PyAny>,
) -> PyResult<&'static str> {
    let runtime = session::current_or_start(py)?;
    let ThreadsCore { group, waiting, fresh } = threads.get();
    let mut can_add = true;
    let is_fresh = AtomicBool::new(true);
    let takes = || is_fresh.load(Ordering::Relaxed) || fresh.load(Ordering::SeqCst) == 0;
    waiting.fetch_add(1, Ordering::SeqCst);
    let how = serve_with(py, &runtime, worker, *group, &takes, |call| {
        let mut is_last = waiting.fetch_sub(1, Ordering::SeqCst) == 1;
        if is_fresh.swap(false, Ordering::Relaxed) {
            let left = fresh.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            is_last |= left.is_ok_and(|left| left > 1);
            if left == Ok(1) {
                runtime.tell_servers();
            }
        }
        if is_last && can_add {
            can_add = add_thread.call0()?.extract()?;
        }
        let result = run(py, &runtime, worker, call);
        waiting.fetch_add(1, Ordering::SeqCst);
        result
    });
    waiting.fetch_sub(1, Ordering::SeqCst);
    how
}

fn serve_with(
    py: Python<'_>,
    runtime: &Arc<Runtime>,
    worker: &Bound<'_, PyAny>,
    group: u16,
    takes: &(dyn Fn() -> bool + Sync),
    mut run: impl FnMut(&IncomingCall) -> PyResult<bool>,
) -> PyResult<&'static str> {
    loop {
        match next(py, runtime, worker, group, takes)? {
            None => {}
            Some(Work::Exit(true)) => return Ok("exit"),
            Some(Work::Exit(false)) => return Ok("abort"),
            Some(Work::Build(build)) if build_actor(py, runtime, worker, &build)? => return Ok("built"),
            Some(Work::Build(_)) => {}
            Some(Work::Call(call)) if run(&call)? => return Ok("exit"),
            Some(Work::Call(_)) => {}
        }
    }
}

fn next(
    py: Python<'_>,
    runtime: &Arc<Runtime>,
    worker: &Bound<'_, PyAny>,
    group: u16,
    takes: &(dyn Fn() -> bool + Sync),
) -> PyResult<Option<Work>> {
    // A moment with the interpreter's lock: a caller that waits for replies sends its next call within microseconds.
    let found = std::cell::RefCell::new(None);
    let has_found = runtime.poll(|| {
        if found.borrow().is_none() {
            *found.borrow_mut() = runtime.try_next_work(group, takes());
        }
        found.borrow().is_some()
    });
    if has_found {
        return Ok(found.into_inner());
    }
    title::set_idle();
    // Nobody waits for this process now: what it has printed goes out.
    worker.call_method0(pyo3::intern!(py, "idle"))?;
    let mut signals = Signals::default();
    let work = door::enter(py, || runtime.next_work(group, &takes, &mut signals));
    match work {
        Some(work) => Ok(Some(work)),
        None => py.check_signals().map(|()| None),
    }
}

/// Builds the actor; true if Python wants to serve it otherwise.
///
/// tour(actor) 5: the worker follows the job's surroundings, decodes the arguments and runs the constructor.
fn build_actor(
    py: Python<'_>,
    runtime: &Arc<Runtime>,
    worker: &Bound<'_, PyAny>,
    build: &runtime::Build,
) -> PyResult<bool> {
    runtime.set_label(&build.options.class_name);
    title::set(&format!("{}.__init__", build.options.class_name));
    title::name_idle(&build.options.class_name);
    let spec = actor::read_spec(&build.spec)?;
    let options = &build.options;
    context::set_task(Some(spec.creation));
    context::enter_nest(0);
    context::enter_place(&options.need.at);
    let (args, came_with) = context::decoding(|| {
        follow_assignment(runtime, worker)?;
        constructor_args(py, &spec)
    });
    let built = args.and_then(|(args, kwargs)| {
        let about = PyDict::new(py);
        about.set_item("actor_id", PyBytes::new(py, &build.actor.0))?;
        about.set_item("class_id", PyBytes::new(py, &spec.class.0))?;
        about.set_item("class_name", &*options.class_name)?;
        about.set_item("name", &*options.name)?;
        about.set_item("namespace", &*options.namespace)?;
        about.set_item("concurrency", options.concurrency)?;
        about.set_item("is_async", options.is_async)?;
        about.set_item("incarnation", build.incarnation)?;
        about.set_item("meta", PyBytes::new(py, spec.meta))?;
        worker.call_method1("build", (about, args, kwargs))
    });
    context::set_task(None);
    // References that came with the constructor stay registered by the actor's creator; those the actor keeps are claimed here.
    for slot in came_with {
        runtime.claim_share(slot);
    }
    match built {
        Ok(built) => {
            let (is_served_otherwise, shown_as): (bool, String) = built.extract()?;
            runtime.built(build.actor, Ok(shown_as.into()));
            Ok(is_served_otherwise)
        }
        Err(error) => {
            if error.is_instance_of::<PySystemExit>(py) {
                return Err(error);
            }
            let name = format!("{}.__init__", options.class_name);
            let failure = worker.call_method1("fail", (error.into_value(py), name, py.None()))?;
            let (error, _): (Bound<'_, PyAny>, bool) = failure.extract()?;
            runtime.built(build.actor, Err(error_bytes(runtime, &error)?));
            Ok(false)
        }
    }
}

/// The arguments of an actor's constructor; refs among them are read here, which waits until they are ready.
fn constructor_args<'py>(
    py: Python<'py>,
    spec: &ActorSpec<'_>,
) -> PyResult<(Bound<'py, PyTuple>, Option<Bound<'py, PyDict>>)> {
    let native = py.import("eagleray._native")?;
    let mut values = Vec::new();
    for (id, owner) in spec.dependencies() {
        let object = native.getattr("rebuild_ref")?.call1((PyBytes::new(py, &id.0), owner.to_u64()))?;
        let value = native.getattr("get")?.call1((object,));
        // Not the constructor raised it: whoever tells of it says so.
        values.push(value.inspect_err(|error| drop(error.value(py).setattr("_is_argument", true)))?);
    }
    arguments::decode(py, spec.arguments, |index| {
        values.get(index).cloned().ok_or_else(|| PyValueError::new_err("malformed argument"))
    })
}

/// Whoever is written in another language is run by workers of that language.
pub(crate) fn is_python(language: Language, what: &str) -> PyResult<()> {
    if language == Language::PYTHON {
        return Ok(());
    }
    Err(PyValueError::new_err(format!("{what} is not written in Python but in language number {}", language.0)))
}

/// The callable behind a template: a function, or a bound method of the actor.
pub(crate) fn callable<'py>(
    py: Python<'py>,
    worker: &Bound<'py, PyAny>,
    template: &Arc<Template>,
) -> PyResult<Bound<'py, PyAny>> {
    if template.method.is_empty() {
        let known = FUNCTIONS.with(|table| table.borrow().get(&template.function).map(|known| known.clone_ref(py)));
        if let Some(known) = known {
            return Ok(known.into_bound(py));
        }
        if FUNCTIONS.with(|table| table.borrow().len()) >= FUNCTIONS_MAX {
            // What they hold runs code of the user's when it goes: not while the table is borrowed.
            drop(FUNCTIONS.with(|table| std::mem::take(&mut *table.borrow_mut())));
            worker.call_method0("forget_functions")?;
        }
        is_python(template.language, &template.name)?;
        let loaded = worker.call_method1("load", (PyBytes::new(py, &template.function.0), &*template.name))?;
        FUNCTIONS.with(|table| table.borrow_mut().insert(template.function, loaded.clone().unbind()));
        return Ok(loaded);
    }
    let address = Arc::as_ptr(template) as usize;
    let known = METHODS.with(|table| table.borrow().get(&address).map(|(_, known)| known.clone_ref(py)));
    if let Some(known) = known {
        return Ok(known.into_bound(py));
    }
    is_python(template.language, &template.name)?;
    let method = worker.call_method1("method", (&*template.method,))?;
    // Calls with names of their own have templates of their own: they are not kept for ever.
    let old = METHODS.with(|table| {
        let mut table = table.borrow_mut();
        let old = if table.len() < METHODS_MAX { Methods::new() } else { std::mem::take(&mut *table) };
        table.insert(address, (template.clone(), method.clone().unbind()));
        old
    });
    drop(old);
    Ok(method)
}

/// Lets the actor's bound methods go, which keep its instance.
#[pyfunction]
fn forget_methods() {
    // Its end runs code of the user's: not while the table is borrowed.
    drop(METHODS.with(|table| std::mem::take(&mut *table.borrow_mut())));
}

/// tour(task) 7: the worker decodes the arguments, runs the user's code and encodes what it returns. True: the worker shall end.
fn run(py: Python<'_>, runtime: &Arc<Runtime>, worker: &Bound<'_, PyAny>, call: &IncomingCall) -> PyResult<bool> {
    let template = &call.template;
    let task = call.handle.task;
    runtime.set_label(&template.name);
    runtime.set_duty(if template.retries_max == 0 { net::Duty::Final } else { net::Duty::Retriable });
    title::set(&template.name);
    context::set_task(Some(task));
    context::set_name(template);
    context::enter_nest(template.need.to_hold.nesting);
    if template.method.is_empty() {
        // A method's call says nothing about places: its actor did, when it was built.
        context::enter_place(&template.need.at);
    }
    let clock = Stage::clock();
    let (decoded, mut came_with) = context::decoding(|| {
        follow_assignment(runtime, worker)?;
        let function = callable(py, worker, template)?;
        let (args, kwargs) = arguments::of_call(py, runtime, call)?;
        Ok::<_, PyErr>((function, args, kwargs))
    });
    runtime.came_with(&came_with);
    Stage::Deserialise.add(clock);
    let result = match decoded {
        Err(error) => Err(error),
        Ok(_) if runtime.is_interrupted(&task) => Err(PyKeyboardInterrupt::new_err(())),
        Ok((function, args, kwargs)) => {
            let clock = Stage::clock();
            let running = Running::start();
            let mut result = function.call(args, kwargs.as_ref());
            drop(running);
            if template.yields != Yields::Nothing {
                result =
                    result.and_then(|generator| generating::generate(runtime, worker, call, generator, &mut came_with));
            }
            Stage::Run.add(clock);
            if context::take_exiting() {
                // It asked its actor to end: it is lost with it, even if it caught the exit.
                context::set_task(None);
                return Ok(true);
            }
            result
        }
    };
    // Live until the reply has registered the caller's shares of the references in them.
    let mut returned: Vec<_> = result.as_ref().ok().cloned().into_iter().collect();
    let body = reply_body(runtime, worker, template, task, result, &mut returned);
    context::set_task(None);
    runtime.set_duty(net::Duty::Idle);
    match body {
        Ok(body) => {
            send_reply(py, runtime, call.handle, body.unwrap_or_else(cancelled_body), &came_with);
            drop(returned);
            if template.calls_max > 0
                && worker
                    .call_method1("count", (PyBytes::new(py, &template.function.0), template.calls_max))?
                    .extract()?
            {
                runtime.retire();
            }
            Ok(false)
        }
        // The user's code asked to exit: the call is lost with the process, as its caller will see.
        Err(error) => Err(error),
    }
}

/// Encodes a result, or the failure that an exception is. What must live until the reply is sent is added to `held`. None: it was cancelled.
pub(crate) fn reply_body<'py>(
    runtime: &Arc<Runtime>,
    worker: &Bound<'py, PyAny>,
    template: &Template,
    task: TaskId,
    result: PyResult<Bound<'py, PyAny>>,
    held: &mut Vec<Bound<'py, PyAny>>,
) -> PyResult<Option<Vec<u8>>> {
    let py = worker.py();
    if session::is_forked() {
        end_forked(py, worker, result);
    }
    output::flush_all(py);
    let encoded = result.and_then(|value| {
        let mut body = Vec::with_capacity(64);
        let encoded = if generating::is_taken_apart(template, &value) {
            generating::encode_first(runtime, worker, template, &value, &mut body, held)
        } else {
            encode_returns(runtime, template, &value, &mut body)
        };
        match encoded {
            Ok(()) => Ok(body),
            Err(error) => {
                runtime.discard(&body);
                Err(error)
            }
        }
    });
    let was_cancelled = runtime.is_interrupted(&task);
    let mut body = Vec::new();
    match encoded {
        Ok(body) if !was_cancelled || template.method.is_empty() => return Ok(Some(body)),
        Ok(unwanted) => {
            runtime.discard(&unwanted);
            return Ok(None);
        }
        Err(error) if error.is_instance_of::<PySystemExit>(py) => return Err(error),
        Err(error) => {
            if error.is_instance_of::<arguments::ArgumentLost>(py) {
                body.extend_from_slice(&1_u32.to_le_bytes());
                Value::write_failure(&Failure::ArgumentLost(error.value(py).to_string().into()), &mut body);
                return Ok(Some(body));
            }
            let is_interrupt = error.is_instance_of::<PyKeyboardInterrupt>(py);
            if was_cancelled || is_interrupt {
                return Ok(None);
            }
            body.extend_from_slice(&1_u32.to_le_bytes());
            held.extend(write_raised(runtime, worker, template, error, &mut body)?);
        }
    }
    Ok(Some(body))
}

/// A cancelled call's answer.
pub(crate) fn cancelled_body() -> Vec<u8> {
    let mut body = 1_u32.to_le_bytes().to_vec();
    Value::write_failure(&Failure::Cancelled, &mut body);
    body
}

/// What the user's code raised, as a value; it says whether the call wants to be tried again for it. Returns the error if there are
/// references in it: it must live until the caller's shares of them are registered. Without any it goes at once, and with it all that
/// the frames of its traceback hold.
pub(crate) fn write_raised<'py>(
    runtime: &Arc<Runtime>,
    worker: &Bound<'py, PyAny>,
    template: &Template,
    error: PyErr,
    body: &mut Vec<u8>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = worker.py();
    let retries = template
        .retry_exceptions
        .then(|| (PyBytes::new(py, &template.function.0), PyString::new(py, &template.method)));
    let failure = worker.call_method1("fail", (error.into_value(py), &*template.name, retries))?;
    let (error, retry): (Bound<'py, PyAny>, bool) = failure.extract()?;
    let bytes = error_bytes(runtime, &error)?;
    Value::Raised { error: &bytes, retry }.write(body);
    Ok((bytes[0] & value::HAS_REFS != 0).then_some(error))
}

/// User code forked, and its child came back from it too. The call is the parent's to answer; here nothing of the runtime exists.
#[cold]
fn end_forked(py: Python<'_>, worker: &Bound<'_, PyAny>, result: PyResult<Bound<'_, PyAny>>) -> ! {
    let error = result.err().map(|error| error.into_value(py));
    let _ = worker.call_method1("end_forked", (error,));
    std::process::abort()
}

/// An exception as a value that lives in frames, whatever its size.
fn error_bytes(runtime: &Arc<Runtime>, error: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let pickled = encode::pickle(error)?;
    let mut bytes = Vec::new();
    encode::write_refs(runtime, &mut bytes, value::PICKLE, &pickled.refs);
    pickled.write(&mut bytes, 0);
    Ok(bytes)
}

fn encode_returns(
    runtime: &Arc<Runtime>,
    template: &Template,
    value: &Bound<'_, PyAny>,
    body: &mut Vec<u8>,
) -> PyResult<()> {
    body.extend_from_slice(&template.returns.to_le_bytes());
    match template.returns {
        0 => {}
        1 => encode_return(runtime, template, value, body)?,
        count => {
            let has = value.len().unwrap_or(usize::MAX);
            if has != count as usize {
                let has = if has == usize::MAX { "no sequence".to_string() } else { has.to_string() };
                return Err(PyValueError::new_err(format!("Task returned {has} objects, but num_returns={count}.")));
            }
            for item in value.try_iter()? {
                encode_return(runtime, template, &item?, body)?;
            }
        }
    }
    Ok(())
}

/// Answers a call. What finds no room at once waits without the interpreter's lock.
#[inline]
pub(crate) fn send_reply(py: Python<'_>, runtime: &Arc<Runtime>, handle: CallHandle, body: Vec<u8>, came_with: &[u32]) {
    if let Some(unsent) = runtime.reply(handle, body, came_with) {
        door::enter(py, || runtime.reply_slowly(unsent));
    }
}

#[inline]
pub(crate) fn encode_return(
    runtime: &Arc<Runtime>,
    template: &Template,
    value: &Bound<'_, PyAny>,
    body: &mut Vec<u8>,
) -> PyResult<()> {
    if plain::is_scalar(value) && write_scalar(value, body) {
        return Ok(());
    }
    let encoded = encode::encode(runtime, value)
        .map_err(|error| errors::unserializable(value, error, "return value", &template.name))?;
    match encoded.content {
        Content::Inline(bytes) => Value::Inline(&bytes).write(body),
        Content::Bulk(bulk) => Value::Bulk(bulk).write(body),
    }
    // Refs in the value are held by handles in the value itself until the reply has registered the caller's shares.
    Ok(())
}

/// Writes a number or a short text where it belongs, as `encode` would, without bytes of its own: a task may return hundreds.
fn write_scalar(value: &Bound<'_, PyAny>, body: &mut Vec<u8>) -> bool {
    Value::write_inline(body, |body| {
        let start = body.len();
        body.push(value::PLAIN);
        plain::write(value, body) && body.len() - start <= wire::INLINE_BYTES_MAX
    })
}

/// Whether the task that runs on the main thread was cancelled: asked by the signal handler.
#[pyfunction]
fn shall_interrupt() -> bool {
    IS_RUNNING.load(Ordering::SeqCst)
        && session::current().zip(context::current_task()).is_some_and(|(runtime, task)| runtime.is_interrupted(&task))
}

/// Whether this running task was cancelled.
#[pyfunction]
fn is_cancelled() -> bool {
    session::current().zip(context::current_task()).is_some_and(|(runtime, task)| runtime.is_interrupted(&task))
}

/// This worker takes no more calls. `is_call`: the call that runs on this thread asked for it, and gets no answer.
#[pyfunction]
#[pyo3(signature = (*, is_call))]
fn stop_serving(is_call: bool) {
    if is_call {
        context::set_exiting();
    }
    if let Some(runtime) = session::current() {
        runtime.stop_serving();
    }
}

/// Whether references are counted in what is pickled on this thread.
#[pyfunction]
fn is_encoding() -> bool {
    context::is_encoding()
}

/// This worker is about to end on its own will.
#[pyfunction]
fn leaving(py: Python<'_>) -> PyResult<()> {
    let runtime = session::current_or_start(py)?;
    door::enter(py, || runtime.leaving());
    Ok(())
}

/// Runs `function` as if it were part of the task with this id (hex), on this thread.
#[pyfunction]
fn set_task(id: Option<&str>) -> PyResult<Option<String>> {
    let id = match id {
        None => None,
        Some(hex) => {
            let bytes: Option<Vec<u8>> =
                (0..hex.len() / 2).map(|at| u8::from_str_radix(hex.get(2 * at..2 * at + 2)?, 16).ok()).collect();
            let id = bytes.and_then(|bytes| TaskId::from_slice(&bytes).ok());
            Some(id.ok_or_else(|| PyValueError::new_err("a task id has 24 bytes"))?)
        }
    };
    Ok(context::set_task(id).map(|id| id.to_string()))
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(serve, module)?)?;
    module.add_function(wrap_pyfunction!(forget_methods, module)?)?;
    module.add_class::<ThreadsCore>()?;
    module.add_function(wrap_pyfunction!(serve_beside, module)?)?;
    module.add_function(wrap_pyfunction!(shall_interrupt, module)?)?;
    module.add_function(wrap_pyfunction!(is_cancelled, module)?)?;
    module.add_function(wrap_pyfunction!(stop_serving, module)?)?;
    module.add_function(wrap_pyfunction!(is_encoding, module)?)?;
    module.add_function(wrap_pyfunction!(leaving, module)?)?;
    module.add_function(wrap_pyfunction!(set_task, module)?)
}
