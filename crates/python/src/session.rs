//! The node and the runtime of this process.

use std::ffi::OsString;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once, RwLock};
use std::time::Duration;

use model::{FunctionId, NodeId};
use pyo3::exceptions::{PyConnectionError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use runtime::{LogEvent, Runtime};
use wire::control::{Answer, Question, Role};

use crate::cluster::ClusterWants;
use crate::ending::Inside;
use crate::surroundings::{self, Surroundings};
use crate::{door, errors, function, title};

static CURRENT: RwLock<Option<Arc<Runtime>>> = RwLock::new(None);
/// This process was forked off one that runs a session: the runtime's threads and memory are not here.
static IS_FORKED: AtomicBool = AtomicBool::new(false);
static WATCH_FORKS: Once = Once::new();

extern "C" fn on_fork() {
    // Without a session at this moment there is nothing here that belongs to the parent. A lock that cannot be had is held by a thread of the
    // parent, which is not here.
    if CURRENT.try_read().is_ok_and(|current| current.is_none()) {
        IS_FORKED.store(false, Ordering::SeqCst);
    } else {
        IS_FORKED.store(true, Ordering::SeqCst);
    }
    crate::ending::forked();
}

/// The runtime, if this process has joined a node.
#[inline]
pub(crate) fn current() -> Option<Arc<Runtime>> {
    if IS_FORKED.load(Ordering::Relaxed) {
        return None;
    }
    CURRENT.read().expect("never poisoned").clone()
}

/// Whether this process was forked off one that runs a session. A lock that a thread of the parent held is held here for ever.
#[inline]
#[pyfunction]
pub(crate) fn is_forked() -> bool {
    IS_FORKED.load(Ordering::Relaxed)
}

#[inline]
pub(crate) fn is_current(runtime: &Arc<Runtime>) -> bool {
    !IS_FORKED.load(Ordering::Relaxed)
        && CURRENT.read().expect("never poisoned").as_ref().is_some_and(|current| Arc::ptr_eq(current, runtime))
}

/// The runtime; starts a session if the process has none and may start one.
#[inline]
pub(crate) fn current_or_start(py: Python<'_>) -> PyResult<Arc<Runtime>> {
    match current() {
        Some(runtime) => Ok(runtime),
        None => start(py),
    }
}

#[cold]
fn start(py: Python<'_>) -> PyResult<Arc<Runtime>> {
    if IS_FORKED.load(Ordering::Relaxed) {
        return Err(errors::named(
            py,
            "RaySystemError",
            "this process was forked from one that runs a session; call the API in the parent, shut the session down before the fork, or start \
             this process by spawn",
        ));
    }
    let _inside = Inside::new(py);
    py.import("eagleray._driver.session")?.getattr("auto_init")?.call0()?;
    current().ok_or_else(|| errors::named(py, "RaySystemError", "Ray has not been started yet."))
}

pub(crate) fn check_out_of_band(py: Python<'_>) -> PyResult<()> {
    py.import("eagleray._driver.session")?.getattr("check_out_of_band")?.call0().map(drop)
}

pub(crate) fn random(into: &mut [u8]) -> PyResult<()> {
    rustix::rand::getrandom(into, rustix::rand::GetRandomFlags::empty())
        .map(drop)
        .map_err(|errno| PyRuntimeError::new_err(errno.to_string()))
}

fn python_version(py: Python<'_>) -> String {
    let version = py.version_info();
    format!("{}.{}", version.major, version.minor)
}

/// A node that this process hosts.
#[pyclass(frozen, module = "eagleray._native")]
pub(crate) struct Node {
    handle: node::Handle,
    id: NodeId,
}

#[pymethods]
impl Node {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "called from one place, by keyword")]
    #[pyo3(signature = (*, resources, gpu_names, store_bytes, folders, folders_full_at, cores, zygote, zygote_env, session_dir, listen, must_listen, prestart, idle_ms_max, workers_max, rings_max, link_idle_ms_max, grace_ms_max, lineage_bytes_max, memory, keep_session, cluster=None))]
    fn new(
        py: Python<'_>,
        resources: &Bound<'_, PyDict>,
        gpu_names: Vec<String>,
        store_bytes: u64,
        folders: Vec<PathBuf>,
        folders_full_at: u32,
        cores: u32,
        zygote: Vec<OsString>,
        zygote_env: Vec<(OsString, OsString)>,
        session_dir: PathBuf,
        listen: Option<PathBuf>,
        must_listen: bool,
        prestart: u32,
        idle_ms_max: u64,
        workers_max: u32,
        rings_max: u32,
        link_idle_ms_max: u64,
        grace_ms_max: u64,
        lineage_bytes_max: u64,
        memory: (f64, u64, i32, Option<PathBuf>),
        keep_session: bool,
        cluster: Option<ClusterWants<'_>>,
    ) -> PyResult<Self> {
        let mut id = [0; 28];
        random(&mut id)?;
        let (threshold, refresh_ms, task_retries, meminfo) = memory;
        write_down(&session_dir).map_err(|error| PyValueError::new_err(format!("{}: {error}", LEVEL_NAMES[0])))?;
        let options = node::Options {
            total: function::resources(resources)?,
            gpu_names: gpu_names.into_iter().map(Into::into).collect(),
            store_bytes,
            folders: folders.iter().enumerate().map(|(at, name)| folder(name, at, &session_dir)).collect(),
            folders_full_at,
            cores,
            python: python_version(py).into(),
            zygote,
            zygote_env,
            session_dir,
            listen,
            must_listen,
            prestart,
            idle_ms_max,
            workers_max,
            rings_max,
            link_idle_ms_max,
            grace_ms_max,
            lineage_bytes_max,
            memory: node::MemoryOptions { threshold, refresh_ms, task_retries, meminfo },
            keeper: Some(keeper(python_version(py))),
            keep_session,
            number: cluster.as_ref().map_or(1, ClusterWants::number),
            id: NodeId(id),
            cluster: cluster.as_ref().map(ClusterWants::options).transpose()?,
        };
        let handle =
            door::enter(py, || node::start(options)).map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        Ok(Self { handle, id: NodeId(id) })
    }

    /// Its id in hex.
    fn id(&self) -> String {
        self.id.to_string()
    }

    /// Ends the node and everything it started. Returns what went wrong in it, if anything did.
    fn stop(&self, py: Python<'_>) -> Option<String> {
        let wrong = door::enter(py, || self.handle.stop());
        tracelog::end();
        wrong
    }

    fn is_running(&self) -> bool {
        self.handle.is_running()
    }

    /// Where other nodes reach it, as host and port.
    fn address(&self) -> Option<&str> {
        self.handle.address()
    }

    /// Waits until it belongs to its cluster. Raises ConnectionError if it does not.
    fn await_member(&self, py: Python<'_>, seconds: f64) -> PyResult<()> {
        let patience = Duration::from_secs_f64(seconds);
        door::enter(py, || self.handle.await_member(patience)).map_err(PyConnectionError::new_err)
    }

    /// Why it does not belong to its cluster any more.
    fn left_because(&self) -> Option<String> {
        self.handle.left_because()
    }
}

/// What says how much is written down; ours counts where both are set.
const LEVEL_NAMES: [&str; 2] = ["EAGLERAY_BACKEND_LOG_LEVEL", "RAY_BACKEND_LOG_LEVEL"];

/// Begins to write what the Rust parts of this process do into the session's folder.
fn write_down(session_dir: &Path) -> Result<(), tracelog::BadLevel> {
    let set = LEVEL_NAMES.iter().find_map(|name| std::env::var(name).ok().filter(|level| !level.is_empty()));
    tracelog::begin(&session_dir.join("logs"), set.as_deref().unwrap_or(tracelog::LEVEL))
}

/// Starts the runtime that takes over from processes that die. It never enters Python, and ends with its node.
fn keeper(python: String) -> node::StartKeeper {
    node::StartKeeper(Arc::new(move |socket| {
        let python = python.clone();
        let join = move || drop(runtime::connect(socket, &python, Role::Keeper));
        net::without_signals(|| std::thread::Builder::new().name("eagleray-keeper".into()).spawn(join)).is_ok()
    }))
}

fn folder(name: &Path, at: usize, session_dir: &Path) -> store::Folder {
    store::Folder::new(name, at, session_dir, net::spawn_far)
}

/// Whether objects can be written to an object store, read and deleted. Raises ValueError if not.
#[pyfunction]
pub(crate) fn check_object_store(py: Python<'_>, url: &str) -> PyResult<()> {
    door::enter(py, || store::Remote::check(url, net::spawn_far))
        .map_err(|why| PyValueError::new_err(format!("cannot spill objects to {why}")))
}

fn join(py: Python<'_>, socket: OwnedFd, role: Role) -> PyResult<()> {
    // SAFETY: the handler only stores to an atomic, which is safe in a forked child.
    WATCH_FORKS.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(on_fork));
    });
    let python = python_version(py);
    let runtime =
        door::enter(py, || runtime::connect(socket, &python, role)).map_err(|error| errors::from_runtime(&error))?;
    // A level that is none was refused by the node's program.
    let _ = write_down(Path::new(&*runtime.session_dir));
    crate::errands::serve(&runtime);
    crate::context::joined(runtime.me);
    *CURRENT.write().expect("never poisoned") = Some(runtime);
    Ok(())
}

/// Joins a node of this process.
#[pyfunction]
fn join_local(
    py: Python<'_>,
    node: &Bound<'_, Node>,
    namespace: &str,
    surroundings: &Bound<'_, Surroundings>,
    logs: bool,
) -> PyResult<()> {
    let socket = node.get().handle.connect().map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
    join(py, socket, driver(namespace, surroundings, logs))
}

fn driver(namespace: &str, surroundings: &Bound<'_, Surroundings>, logs: bool) -> Role {
    Role::Driver { namespace: namespace.into(), surroundings: surroundings.get().inner.clone(), logs }
}

/// `patience`: how long it may take until somebody takes the call, and for each answer.
pub(crate) fn connect_to(path: &str, patience: Option<Duration>) -> PyResult<OwnedFd> {
    let failed = |errno: rustix::io::Errno| PyConnectionError::new_err(format!("no node answers at {path}: {errno}"));
    let socket = rustix::net::socket_with(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::STREAM,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )
    .map_err(failed)?;
    for which in [rustix::net::sockopt::Timeout::Send, rustix::net::sockopt::Timeout::Recv] {
        rustix::net::sockopt::set_socket_timeout(&socket, which, patience).map_err(failed)?;
    }
    let at = net::unix::at(Path::new(path)).map_err(failed)?;
    rustix::net::connect(&socket, &at.address).map_err(failed)?;
    // Both sides unpickle what the other sends.
    let host = rustix::net::sockopt::socket_peercred(&socket).map_err(failed)?;
    if host.uid != rustix::process::geteuid() {
        return Err(PyConnectionError::new_err(format!("the node at {path} belongs to another user")));
    }
    Ok(socket)
}

/// Joins the node that listens at `path`: a daemon, or part of another program.
#[pyfunction]
fn join_other(
    py: Python<'_>,
    path: &str,
    namespace: &str,
    surroundings: &Bound<'_, Surroundings>,
    logs: bool,
) -> PyResult<()> {
    join(py, connect_to(path, None)?, driver(namespace, surroundings, logs))
}

/// Joins as a worker, through the socket that came with the fork.
#[pyfunction]
fn join_worker(py: Python<'_>, fd: i32, slot: u16) -> PyResult<()> {
    IS_FORKED.store(false, Ordering::SeqCst);
    // SAFETY: the launcher handed the descriptor over for this.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    title::set_idle();
    join(py, socket, Role::Worker { slot })
}

/// Leaves the node. What waits fails.
#[pyfunction]
fn leave(py: Python<'_>) {
    let runtime =
        if IS_FORKED.load(Ordering::Relaxed) { None } else { CURRENT.write().expect("never poisoned").take() };
    if let Some(runtime) = runtime {
        door::enter(py, || {
            crate::errands::finish(&runtime);
            runtime.close();
        });
    }
}

/// Whether this process has joined a node that is still there.
#[pyfunction]
fn is_joined() -> bool {
    current().is_some_and(|runtime| runtime.is_open())
}

pub(crate) fn need_current(py: Python<'_>) -> PyResult<Arc<Runtime>> {
    current().ok_or_else(|| errors::named(py, "RaySystemError", "Ray has not been started yet."))
}

/// Whether this process is a driver that has joined a node. A worker, or a forked child, is none.
#[pyfunction]
fn is_driver() -> bool {
    current().is_some_and(|runtime| !runtime.is_worker)
}

/// Starts a session if there is none.
#[pyfunction]
fn ensure_started(py: Python<'_>) -> PyResult<()> {
    current_or_start(py).map(drop)
}

/// What this process runs, as logs and status show it.
#[pyfunction]
fn current_label(py: Python<'_>) -> PyResult<String> {
    Ok(need_current(py)?.label())
}

/// Who and where this process is.
#[pyfunction]
fn identity(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let runtime = need_current(py)?;
    let dict = PyDict::new(py);
    dict.set_item("node_id", runtime.node_id.to_string())?;
    dict.set_item("worker_id", runtime.worker_id.to_string())?;
    dict.set_item("job_id", runtime.job.lock().expect("never poisoned").to_string())?;
    dict.set_item("namespace", &**runtime.namespace.lock().expect("never poisoned"))?;
    dict.set_item("session_dir", &*runtime.session_dir)?;
    dict.set_item("address", &*runtime.address)?;
    dict.set_item("is_worker", runtime.is_worker)?;
    dict.set_item("slot", runtime.me.slot())?;
    dict.set_item("epoch", runtime.me.epoch())?;
    dict.set_item("task_id", crate::context::current_task().map(|task| task.to_string()))?;
    let assigned = runtime.assignment();
    dict.set_item("gpus", assigned.gpus.iter().map(|gpu| &**gpu).collect::<Vec<_>>())?;
    let resources = PyDict::new(py);
    for (name, amount) in &assigned.resources {
        resources.set_item(&**name, amount)?;
    }
    dict.set_item("resources", resources)?;
    dict.set_item("surroundings", Surroundings { inner: assigned.surroundings })?;
    dict.set_item("env_vars", surroundings::to_strs(&assigned.env))?;
    dict.set_item("packages", surroundings::packages(&assigned.env))?;
    dict.set_item("serial", assigned.serial)?;
    dict.set_item("placement_group_id", crate::context::seat().map(|seat| seat.group.to_string()))?;
    dict.set_item("captures", crate::context::seat().is_some_and(|seat| seat.captures))?;
    Ok(dict)
}

/// The node answers within this time, or something is wrong.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(30);

pub(crate) fn ask(py: Python<'_>, question: Question) -> PyResult<Answer> {
    let runtime = need_current(py)?;
    door::enter(py, || runtime.ask(question, ANSWER_WITHIN)).map_err(|error| errors::from_runtime(&error))
}

/// (total, free): public names to ten-thousandths.
#[pyfunction]
fn resources<'py>(py: Python<'py>) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
    let Answer::Resources { total, free } = ask(py, Question::Resources)? else {
        return Err(PyRuntimeError::new_err("the node gave another answer"));
    };
    let dict = |list: Vec<(Box<str>, i64)>| {
        let dict = PyDict::new(py);
        list.into_iter().try_for_each(|(name, amount)| dict.set_item(&*name, amount)).map(|()| dict)
    };
    Ok((dict(total)?, dict(free)?))
}

/// [(namespace, name)] of live actors.
#[pyfunction]
fn actor_names(py: Python<'_>, namespace: &str, all: bool) -> PyResult<Vec<(String, String)>> {
    match ask(py, Question::ActorNames { namespace: namespace.into(), all })? {
        Answer::ActorNames(names) => Ok(names.into_iter().map(|(space, name)| (space.into(), name.into())).collect()),
        _ => Err(PyRuntimeError::new_err("the node gave another answer")),
    }
}

/// Everything said to the node before has been handled.
#[pyfunction]
fn sync(py: Python<'_>) -> PyResult<()> {
    ask(py, Question::Sync).map(drop)
}

/// Makes a function's or class's body known; returns its id, derived from its content.
#[pyfunction]
fn export<'py>(py: Python<'py>, body: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let runtime = current_or_start(py)?;
    let id = id_of(body);
    door::enter(py, || runtime.export(id, body.to_vec()));
    Ok(PyBytes::new(py, &id.0))
}

/// The id that `export` gives such a body. A package is named before there is a session, and checked where it arrives.
#[pyfunction]
fn body_id<'py>(py: Python<'py>, body: &[u8]) -> Bound<'py, PyBytes> {
    PyBytes::new(py, &id_of(body).0)
}

fn id_of(body: &[u8]) -> FunctionId {
    FunctionId(blake3::hash(body).as_bytes()[..16].try_into().expect("sixteen bytes"))
}

/// A function's body by its id.
#[pyfunction]
fn fetch<'py>(py: Python<'py>, id: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let id = FunctionId::from_slice(id).map_err(|error| PyValueError::new_err(error.to_string()))?;
    match ask(py, Question::Function(id))? {
        Answer::Function(body) => Ok(body.map(|body| PyBytes::new(py, &body))),
        _ => Err(PyRuntimeError::new_err("the node gave another answer")),
    }
}

/// The next thing for the driver's terminal: ("lines", name, pid, is_error, [line], node) or ("notice", kind, text), or nothing.
#[pyfunction]
fn next_log<'py>(py: Python<'py>, seconds: f64) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(runtime) = current() else { return Ok(None) };
    let event = door::enter(py, || runtime.next_log(Duration::from_secs_f64(seconds)));
    Ok(match event {
        None => None,
        Some(LogEvent::Lines(lines)) => {
            let about = (&*lines.name, lines.pid, lines.is_error);
            Some(("lines", about.0, about.1, about.2, lines.lines, &*lines.node).into_pyobject(py)?.into_any())
        }
        Some(LogEvent::Notice { kind, text }) => Some(("notice", &*kind, &*text).into_pyobject(py)?.into_any()),
        Some(LogEvent::Mark) => Some(("mark",).into_pyobject(py)?.into_any()),
    })
}

/// Asks for all that workers have printed so far; `next_log` gives "mark" behind it.
#[pyfunction]
fn last_words(py: Python<'_>) -> PyResult<()> {
    let runtime = need_current(py)?;
    door::enter(py, || runtime.want_last_words());
    Ok(())
}

/// Tells the job's driver something that its user should read once.
#[pyfunction]
fn notice(py: Python<'_>, kind: &str, text: &str) -> PyResult<()> {
    let runtime = need_current(py)?;
    door::enter(py, || runtime.notice(kind, text));
    Ok(())
}

/// (objects kept, tasks that have not ended).
#[pyfunction]
fn tally(py: Python<'_>) -> PyResult<(usize, usize)> {
    Ok(need_current(py)?.tally())
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(check_object_store, module)?)?;
    module.add_function(wrap_pyfunction!(join_local, module)?)?;
    module.add_function(wrap_pyfunction!(join_other, module)?)?;
    module.add_function(wrap_pyfunction!(join_worker, module)?)?;
    module.add_function(wrap_pyfunction!(leave, module)?)?;
    module.add_function(wrap_pyfunction!(is_joined, module)?)?;
    module.add_function(wrap_pyfunction!(is_forked, module)?)?;
    module.add_function(wrap_pyfunction!(is_driver, module)?)?;
    module.add_function(wrap_pyfunction!(ensure_started, module)?)?;
    module.add_function(wrap_pyfunction!(current_label, module)?)?;
    module.add_function(wrap_pyfunction!(identity, module)?)?;
    module.add_function(wrap_pyfunction!(resources, module)?)?;
    module.add_function(wrap_pyfunction!(actor_names, module)?)?;
    module.add_function(wrap_pyfunction!(sync, module)?)?;
    module.add_function(wrap_pyfunction!(export, module)?)?;
    module.add_function(wrap_pyfunction!(body_id, module)?)?;
    module.add_function(wrap_pyfunction!(fetch, module)?)?;
    module.add_function(wrap_pyfunction!(next_log, module)?)?;
    module.add_function(wrap_pyfunction!(last_words, module)?)?;
    module.add_function(wrap_pyfunction!(notice, module)?)?;
    module.add_function(wrap_pyfunction!(tally, module)?)
}
