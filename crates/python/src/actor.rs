//! HOT: handles on actors and calls on them. The Python class `ActorHandle` is a thin subclass of `ActorCore`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use model::{
    ActorDeath, ActorId, ActorOptions, Failure, FunctionId, Language, Lifetime, Need, ObjectId, TaskId, Template,
    Yields,
};
use pyo3::exceptions::{PyAttributeError, PyNotImplementedError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use runtime::{ActorCreation, GroupFacts, MadeActor, Runtime, Target};
use wire::actor_spec::ActorSpec;

use crate::execute::is_python;
use crate::function::{Arity, Callee, Payload, encode_args, environment, resources, submit, yields};
use crate::object_ref::ObjectRef;
use crate::{context, door, errors, groups, session, surroundings};

/// One method as all handles of a class know it.
struct MethodInfo {
    arity: Arity,
    template: Arc<Template>,
    is_generator: bool,
}

/// What all handles of one class share.
pub(crate) struct ClassInfo {
    methods: HashMap<String, Arc<MethodInfo>>,
    /// Calls that may be outstanding; zero: any number.
    pending_max: usize,
    callee: String,
}

/// What all handles on actors that were made alike share: made once per process.
#[pyclass(frozen, module = "eagleray._native")]
pub(crate) struct ClassCore {
    info: Arc<ClassInfo>,
    /// Groups of methods, the default one first.
    groups: Vec<GroupFacts>,
}

/// What Python says of one method.
type MethodRow<'py> = (Bound<'py, PyAny>, (u32, String, u32), i32, bool, String, bool, u16);

#[pymethods]
impl ClassCore {
    /// `methods`: name to (signature, (returns, yields, ahead_max), retries, retry_exceptions, display name, is_generator, group). `groups`:
    /// whether calls on it keep their order, and how many run at once, the default group first.
    #[new]
    #[pyo3(signature = (*, class_id, methods, pending_max, callee, groups))]
    fn new(
        class_id: &[u8],
        methods: &Bound<'_, PyDict>,
        pending_max: usize,
        callee: String,
        groups: Vec<(bool, usize)>,
    ) -> PyResult<Self> {
        let function = FunctionId::from_slice(class_id).map_err(bad_id)?;
        let mut table = HashMap::new();
        for (name, about) in methods.iter() {
            let name: String = name.extract()?;
            let (signature, (returns, kind, ahead_max), retries_max, retry_exceptions, display, is_generator, group): MethodRow<'_> =
                about.extract()?;
            let template = Template {
                language: model::Language::PYTHON,
                function,
                name: display.into(),
                method: name.as_str().into(),
                need: Need::default(),
                returns,
                yields: yields(&kind, ahead_max)?,
                retries_max,
                retry_exceptions,
                calls_max: 0,
                group,
            };
            let info = MethodInfo { arity: Arity::of(&signature)?, template: Arc::new(template), is_generator };
            table.insert(name, Arc::new(info));
        }
        let info = Arc::new(ClassInfo { methods: table, pending_max, callee });
        let facts = |(is_ordered, concurrency)| GroupFacts { is_ordered, concurrency };
        Ok(Self { info, groups: groups.into_iter().map(facts).collect() })
    }
}

fn bad_id(error: model::IdLength) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// A handle on an actor.
#[pyclass(frozen, subclass, weakref, module = "eagleray._native")]
pub(crate) struct ActorCore {
    actor: ActorId,
    class: Arc<ClassInfo>,
    runtime: Arc<Runtime>,
    /// Keeps the actor alive; none in a weak handle.
    life: Option<Py<ObjectRef>>,
    /// What Python needs to make this handle elsewhere.
    #[pyo3(get)]
    _meta: Py<PyAny>,
}

#[pymethods]
impl ActorCore {
    #[new]
    fn new(
        py: Python<'_>,
        actor_id: &[u8],
        shared: &Bound<'_, ClassCore>,
        life: Option<Py<ObjectRef>>,
        meta: Py<PyAny>,
    ) -> PyResult<Self> {
        let actor = ActorId::from_slice(actor_id).map_err(bad_id)?;
        let runtime = session::current_or_start(py)?;
        let shared = shared.get();
        runtime.watch_actor(actor, &shared.groups, life.as_ref().and_then(|life| life.get().slot_in(&runtime)));
        Ok(Self { actor, class: shared.info.clone(), runtime, life, _meta: meta })
    }

    fn __getattr__(slf: &Bound<'_, Self>, name: &str) -> PyResult<Method> {
        let this = slf.get();
        match this.class.methods.get(name) {
            Some(info) => Ok(Method { handle: slf.clone().unbind(), info: info.clone() }),
            None => Err(PyAttributeError::new_err(format!("'{}' object has no attribute '{name}'", this.class.callee))),
        }
    }

    /// The names of the actor's methods.
    fn _method_names(&self) -> Vec<String> {
        self.class.methods.keys().cloned().collect()
    }

    #[getter]
    fn _actor_id<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.actor.0)
    }

    #[getter]
    fn _life(&self, py: Python<'_>) -> Option<Py<ObjectRef>> {
        self.life.as_ref().map(|life| life.clone_ref(py))
    }

    /// Whether the handle belongs to the session that is running.
    fn _is_current(&self) -> bool {
        session::current().is_some_and(|runtime| Arc::ptr_eq(&runtime, &self.runtime))
    }

    fn __hash__(&self) -> isize {
        i64::from_le_bytes(self.actor.0[0..8].try_into().expect("eight bytes")).wrapping_shr(1) as isize
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| other.get().actor == self.actor)
    }

    fn __ne__(&self, other: &Bound<'_, PyAny>) -> bool {
        !self.__eq__(other)
    }

    fn _kill(&self, no_restart: bool) {
        self.runtime.kill_actor(self.actor, no_restart);
    }
}

impl ActorCore {
    /// A method's full name, for errors.
    fn method_name(&self, py: Python<'_>, method: &str) -> String {
        let module =
            self._meta.bind(py).getattr("module").map_or_else(|_| String::new(), |module| format!("{module}."));
        format!("{module}{}.{method}", self.class.callee)
    }
}

/// One method of one actor.
#[pyclass(frozen, freelist = 256, module = "eagleray")]
pub(crate) struct Method {
    handle: Py<ActorCore>,
    info: Arc<MethodInfo>,
}

#[pymethods]
impl Method {
    /// tour(actor) 7: user code calls `handle.method.remote(...)`.
    #[pyo3(signature = (*args, **kwargs))]
    fn remote<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let clock = runtime::Stage::clock();
        self.info.arity.check(args, kwargs)?;
        let handle = self.handle.get();
        if !session::is_current(&handle.runtime) {
            if session::is_forked() {
                // The actor is alive, but not for a forked child: that is what to say.
                session::current_or_start(py)?;
            }
            let failure = Failure::ActorDied(handle.actor, ActorDeath::NeverExisted);
            return Err(errors::from_failure(py, &failure, &ObjectId::NIL));
        }
        let name = || handle.method_name(py, &self.info.template.method);
        let (runtime, actor) = (&handle.runtime, handle.actor);
        // The worker of an actor is known before the call is: it wakes up while a large argument is copied.
        let payload = encode_args(runtime, args, kwargs, &name, &|| runtime.announce(&actor))?;
        let callee = Callee {
            target: Target::Actor(handle.actor),
            pending_max: handle.class.pending_max,
            life: handle.life.as_ref().and_then(|life| life.get().slot_in(&handle.runtime)),
        };
        let result = submit(py, &handle.runtime, &self.info.template, callee, payload);
        runtime::Stage::Submit.add(clock);
        result
    }

    #[pyo3(signature = (*_args, **_kwargs))]
    fn __call__(&self, _args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        let name = &self.info.template.method;
        Err(PyTypeError::new_err(format!(
            "Actor methods cannot be called directly. Instead of running 'object.{name}()', try 'object.{name}.remote()'."
        )))
    }

    /// The same method under other options. `retry_filter` names the exported exceptions to retry.
    #[expect(clippy::too_many_arguments, reason = "called from one place")]
    fn _with(
        &self,
        py: Python<'_>,
        returns: Option<(u32, String, u32)>,
        retries_max: Option<i32>,
        retry_exceptions: Option<bool>,
        retry_filter: Option<&[u8]>,
        name: Option<String>,
        group: Option<u16>,
    ) -> PyResult<Self> {
        let old = &self.info.template;
        let (returns, yields) = match returns {
            Some((returns, kind, ahead_max)) => (returns, yields(&kind, ahead_max)?),
            None => (old.returns, old.yields),
        };
        let template = Template {
            language: model::Language::PYTHON,
            function: retry_filter.and_then(|id| FunctionId::from_slice(id).ok()).unwrap_or(old.function),
            returns,
            yields,
            retries_max: retries_max.unwrap_or(old.retries_max),
            retry_exceptions: retry_exceptions.unwrap_or(old.retry_exceptions),
            name: name.map_or_else(|| old.name.clone(), Into::into),
            group: group.unwrap_or(old.group),
            ..(**old).clone()
        };
        let arity = Arity { check: self.info.arity.check.clone_ref(py), ..self.info.arity };
        let is_generator = self.info.is_generator;
        let info = MethodInfo { arity, template: Arc::new(template), is_generator };
        Ok(Self { handle: self.handle.clone_ref(py), info: Arc::new(info) })
    }

    /// Whether the method yields its values, and how far it may be ahead of who reads them; zero: as far as it likes.
    #[getter]
    fn _generator(&self) -> (bool, u32) {
        match self.info.template.yields {
            Yields::Stream { ahead_max } => (self.info.is_generator, ahead_max),
            Yields::Nothing | Yields::List => (self.info.is_generator, 0),
        }
    }

    #[pyo3(signature = (**options))]
    fn options<'py>(slf: &Bound<'py, Self>, options: Option<&Bound<'py, PyDict>>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("eagleray.actor")?.getattr("_method_options")?.call((slf,), options)
    }

    /// What the method takes, without `self`; where this process knows the class.
    #[getter]
    fn __signature__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("eagleray.actor")?.getattr("_signature_of")?.call1((slf,))
    }

    /// As programs name it that look at handles.
    #[getter]
    fn _method_name(&self) -> String {
        self.info.template.method.to_string()
    }

    /// Refuses to make a node of a task graph.
    #[pyo3(signature = (*_args, **_kwargs))]
    fn bind(&self, _args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        Err(PyNotImplementedError::new_err("task graphs made by bind() are not available in this version"))
    }

    /// As `remote`, under other options, with the arguments in containers.
    #[pyo3(signature = (args=None, kwargs=None, **options))]
    fn _remote<'py>(
        slf: &Bound<'py, Self>,
        args: Option<Bound<'py, PyAny>>,
        kwargs: Option<Bound<'py, PyAny>>,
        options: Option<Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("eagleray.actor")?.getattr("_call_method")?.call1((slf, args, kwargs, options))
    }

    /// Pickles as the handle, the method's name, and what `options` changed.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let Self { handle, info } = slf.get();
        let template = &info.template;
        let own = handle.get().class.methods.get(&*template.method);
        let changed = (!own.is_some_and(|own| Arc::ptr_eq(own, info))).then(|| {
            let (kind, ahead_max) = match template.yields {
                Yields::Nothing => ("", 0),
                Yields::List => ("dynamic", 0),
                Yields::Stream { ahead_max } => ("streaming", ahead_max),
            };
            let function = PyBytes::new(py, &template.function.0);
            let returns = (template.returns, kind, ahead_max);
            (returns, template.retries_max, template.retry_exceptions, function, &*template.name, template.group)
        });
        let rebuild = py.import("eagleray.actor")?.getattr("_rebuild_method")?;
        (rebuild, (handle, &*template.method, changed)).into_pyobject(py).map(Bound::into_any)
    }

    #[getter]
    fn _name(&self) -> &str {
        &self.info.template.method
    }

    #[getter]
    fn _handle(&self, py: Python<'_>) -> Py<ActorCore> {
        self.handle.clone_ref(py)
    }
}

/// An actor's id, what keeps it alive by the handle that is to be made, and the spec of one that has the name already.
type Made<'py> = (Bound<'py, PyBytes>, Option<Bound<'py, ObjectRef>>, Option<Bound<'py, PyBytes>>);

/// Makes an actor, or finds the one that has the name.
///
/// tour(actor) 1: user code calls `Class.remote(...)`; the constructor's arguments become part of a spec, which restarts use again.
#[pyfunction]
#[pyo3(signature = (*, class_id, class_name, callee, name, namespace, is_detached, restarts_max, to_place, to_hold, env, at, wish, concurrency, is_async,
    get_if_exists, args, kwargs, meta))]
#[expect(clippy::too_many_arguments, reason = "called from one place, by keyword")]
fn create_actor<'py>(
    py: Python<'py>,
    class_id: &[u8],
    class_name: &str,
    callee: &str,
    name: &str,
    namespace: &str,
    is_detached: bool,
    restarts_max: i32,
    to_place: &Bound<'py, PyDict>,
    to_hold: &Bound<'py, PyDict>,
    env: BTreeMap<String, String>,
    at: Option<groups::PyWhere>,
    wish: Option<groups::PyWish>,
    concurrency: u32,
    is_async: bool,
    get_if_exists: bool,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
    meta: &[u8],
) -> PyResult<Made<'py>> {
    let runtime = session::current_or_start(py)?;
    let class = FunctionId::from_slice(class_id).map_err(bad_id)?;
    let mut need = Need {
        to_place: resources(to_place)?,
        to_hold: resources(to_hold)?,
        at: groups::to_where(at.clone())?,
        env: environment(&runtime, surroundings::env_vars(env)),
        wish: groups::to_wish(wish)?,
    };
    if at.is_none() {
        need.at = context::inherited();
        groups::check_inherited(py, &need)?;
    }
    let options = ActorOptions {
        class_name: class_name.into(),
        name: name.into(),
        namespace: namespace.into(),
        lifetime: if is_detached { Lifetime::Detached } else { Lifetime::Owned },
        restarts_max,
        need,
        concurrency,
        is_async,
    };
    // Again only where another thread let the last handle go of the actor that this one had just found.
    loop {
        let payload = encode_args(&runtime, args, Some(kwargs), &|| callee.to_string(), &|| ())?;
        let (creation_task, _) = context::next_child(&runtime.root);
        let (actor, life) = (ActorId::of(creation_task), ObjectId::of(creation_task, u32::MAX));
        let spec = spec_of(&runtime, meta, class, creation_task, &payload);
        let contains = payload.deps.iter().chain(&payload.contains).copied().collect();
        let creation = ActorCreation { actor, life, options: options.clone(), get_if_exists, spec, contains };
        let made = if name.is_empty() {
            runtime.create_actor(creation)
        } else {
            door::enter(py, || runtime.create_actor(creation))
        };
        let hold = |(slot, id)| Bound::new(py, ObjectRef::holding(&runtime, slot, id));
        match made.map_err(|error| errors::from_runtime(&error))? {
            MadeActor::New(slot) => return Ok((PyBytes::new(py, &actor.0), Some(hold((slot, life))?), None)),
            MadeActor::Found(named, life) => {
                let spec = PyBytes::new(py, &named.spec);
                return Ok((PyBytes::new(py, &named.actor.0), life.map(hold).transpose()?, Some(spec)));
            }
            MadeActor::Ending => py.check_signals()?,
        }
    }
}

/// What a worker needs to build the actor; what describes its handles comes first.
fn spec_of(runtime: &Runtime, meta: &[u8], class: FunctionId, creation_task: TaskId, payload: &Payload) -> Vec<u8> {
    let dependencies = payload.deps.iter().filter_map(|slot| {
        runtime.escape(*slot);
        runtime.identity(*slot)
    });
    ActorSpec::new(Language::PYTHON, meta, class, creation_task, &payload.bytes).write(dependencies)
}

/// An actor by name: (actor id, spec), or nothing.
#[pyfunction]
fn find_actor<'py>(
    py: Python<'py>,
    namespace: &str,
    name: &str,
) -> PyResult<Option<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>> {
    let runtime = session::current_or_start(py)?;
    let found =
        door::enter(py, || runtime.actor_by_name(namespace, name)).map_err(|error| errors::from_runtime(&error))?;
    Ok(found.map(|named| (PyBytes::new(py, &named.actor.0), PyBytes::new(py, &named.spec))))
}

/// The spec of an actor that is written in Python.
pub(crate) fn read_spec(bytes: &[u8]) -> PyResult<ActorSpec<'_>> {
    let spec = ActorSpec::read(bytes).map_err(|error| PyValueError::new_err(error.to_string()))?;
    is_python(spec.language, "the actor")?;
    Ok(spec)
}

/// The part of an actor's spec that describes its handles.
#[pyfunction]
fn spec_meta<'py>(py: Python<'py>, spec: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    Ok(PyBytes::new(py, read_spec(spec)?.meta))
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(create_actor, module)?)?;
    module.add_function(wrap_pyfunction!(find_actor, module)?)?;
    module.add_function(wrap_pyfunction!(spec_meta, module)?)
}
