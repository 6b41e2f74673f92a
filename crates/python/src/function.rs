//! HOT: `f.remote(...)`: arguments to bytes, one submission, refs back.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use model::{EnvVars, FunctionId, Need, Quantity, Resources, Template, Yields};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use runtime::{Runtime, Submission, Target};
use smallvec::SmallVec;

use crate::encode::{self, Encoded};
use crate::ending::Inside;
use crate::generator::ObjectRefGenerator;
use crate::object_ref::ObjectRef;
use crate::{context, errors, groups, inventory, plain, session, surroundings};

/// An argument larger than this is put into the store and travels as a reference.
const ARGUMENT_BYTES_MAX: usize = wire::INLINE_BYTES_MAX;

/// What is checked of a call before it is sent: a signature compiled once.
pub(crate) struct Arity {
    pub(crate) min: usize,
    /// `usize::MAX`: any number.
    pub(crate) max: usize,
    /// Positional arguments within the limits are all that is needed.
    pub(crate) is_plain: bool,
    /// Python's `Signature.check(args, kwargs)`, for everything else.
    pub(crate) check: Py<PyAny>,
}

impl Arity {
    pub(crate) fn of(signature: &Bound<'_, PyAny>) -> PyResult<Self> {
        let max: isize = signature.getattr("max_positional")?.extract()?;
        Ok(Self {
            min: signature.getattr("min_positional")?.extract()?,
            max: usize::try_from(max).unwrap_or(usize::MAX),
            is_plain: signature.getattr("plain")?.extract()?,
            check: signature.getattr("check")?.unbind(),
        })
    }

    #[inline]
    pub(crate) fn check(&self, args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        let count = args.len();
        let has_keywords = kwargs.is_some_and(|kwargs| !kwargs.is_empty());
        if self.is_plain && !has_keywords && count >= self.min && count <= self.max {
            return Ok(());
        }
        let py = args.py();
        let kwargs = kwargs.map_or_else(|| PyDict::new(py), Clone::clone);
        self.check.bind(py).call1((args, kwargs)).map(drop)
    }
}

/// Arguments, ready to go.
#[derive(Default)]
pub(crate) struct Payload {
    pub(crate) bytes: Vec<u8>,
    pub(crate) deps: SmallVec<[u32; 2]>,
    pub(crate) contains: SmallVec<[u32; 0]>,
    /// Refs made for large arguments; dropped once the call holds them.
    temporaries: Vec<ObjectRef>,
}

/// tour(task) 2: arguments become bytes; refs among them become dependencies, refs inside them are noted.
pub(crate) fn encode_args(
    runtime: &Arc<Runtime>,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
    callee: &dyn Fn() -> String,
    tell: encode::Tell<'_>,
) -> PyResult<Payload> {
    let mut payload = Payload { bytes: Vec::with_capacity(64), ..Payload::default() };
    let keywords = kwargs.map_or(0, |kwargs| kwargs.len());
    wire::arguments::Counts { positional: args.len() as u32, named: keywords as u32 }.write(&mut payload.bytes);
    for arg in args.iter_borrowed() {
        encode_arg(runtime, &arg, &mut payload, callee, tell)?;
    }
    if let Some(kwargs) = kwargs {
        for (name, arg) in kwargs.iter() {
            let name: String = name.extract()?;
            wire::arguments::write_name(&mut payload.bytes, &name);
            encode_arg(runtime, &arg, &mut payload, callee, tell)?;
        }
    }
    Ok(payload)
}

fn encode_arg(
    runtime: &Arc<Runtime>,
    arg: &Bound<'_, PyAny>,
    payload: &mut Payload,
    callee: &dyn Fn() -> String,
    tell: encode::Tell<'_>,
) -> PyResult<()> {
    if let Ok(object) = arg.cast::<ObjectRef>() {
        let slot = object.get().slot_in(runtime).ok_or_else(|| unknown_ref("an argument"))?;
        add_dependency(payload, slot);
        return Ok(());
    }
    let start = payload.bytes.len();
    if let Some(array) = plain::simple_array(arg) {
        if array.bytes.as_slice().len() > ARGUMENT_BYTES_MAX {
            return put_argument(runtime, encode::store_array(arg.py(), runtime, &array, tell)?, payload);
        }
        array.write(&mut payload.bytes);
        return Ok(());
    }
    if plain::write(arg, &mut payload.bytes) {
        if payload.bytes.len() - start > ARGUMENT_BYTES_MAX {
            payload.bytes.truncate(start);
            return put_argument(runtime, encode::encode_for(runtime, arg, tell)?, payload);
        }
        return Ok(());
    }
    let pickled = encode::pickle(arg).map_err(|error| errors::unserializable(arg, error, "argument", &callee()))?;
    if pickled.size() > ARGUMENT_BYTES_MAX {
        return put_argument(runtime, encode::keep(arg.py(), runtime, pickled, tell)?, payload);
    }
    wire::arguments::write_pickled(&mut payload.bytes, |to, start| pickled.write(to, start));
    payload.contains.extend(pickled.refs.iter().copied());
    Ok(())
}

fn add_dependency(payload: &mut Payload, slot: u32) {
    wire::arguments::write_dependency(&mut payload.bytes, payload.deps.len());
    payload.deps.push(slot);
}

fn put_argument(runtime: &Arc<Runtime>, encoded: Encoded, payload: &mut Payload) -> PyResult<()> {
    let object = put_encoded(runtime, encoded);
    add_dependency(payload, object.held.as_ref().expect("put just now").1);
    payload.temporaries.push(object);
    Ok(())
}

/// Keeps an encoded value; returns its ref.
pub(crate) fn put_encoded(runtime: &Arc<Runtime>, encoded: Encoded) -> ObjectRef {
    let (task, _) = context::next_child(&runtime.root);
    let id = model::ObjectId::of(task, 0);
    let slot = runtime.put(id, encoded.content, &encoded.refs);
    ObjectRef::holding(runtime, slot, id)
}

pub(crate) fn unknown_ref(what: &str) -> PyErr {
    pyo3::exceptions::PyValueError::new_err(format!(
        "{what} is a Ray object whose owner is unknown: the ref is from an earlier session, another cluster, or was made from bytes"
    ))
}

/// Whom a call is for.
pub(crate) struct Callee {
    pub(crate) target: Target,
    /// Calls that the actor may have outstanding; zero: any number.
    pub(crate) pending_max: usize,
    /// Stands for the actor, if the handle keeps it alive.
    pub(crate) life: Option<u32>,
}

/// Submits, and turns the objects into what `.remote()` returns.
pub(crate) fn submit<'py>(
    py: Python<'py>,
    runtime: &Arc<Runtime>,
    template: &Arc<Template>,
    callee: Callee,
    payload: Payload,
) -> PyResult<Bound<'py, PyAny>> {
    let (id, parent) = context::next_child(&runtime.root);
    let parent = parent.or_else(|| context::coroutines_task(py));
    let call = Submission {
        template: template.clone(),
        target: callee.target,
        id,
        parent,
        payload: payload.bytes,
        deps: payload.deps,
        contains: payload.contains,
        pending_max: callee.pending_max,
        life: callee.life,
    };
    let made = runtime.submit(call).map_err(|error| errors::from_runtime(&error))?;
    inventory::made(py, runtime, made.objects.iter().map(|(slot, _)| *slot));
    drop(payload.temporaries);
    if let (Yields::Stream { .. }, Some(stream), [(slot, id)]) = (template.yields, made.stream, &made.objects[..]) {
        let end = Py::new(py, ObjectRef::holding(runtime, *slot, *id))?;
        return Ok(Bound::new(py, ObjectRefGenerator::new(runtime, stream, end))?.into_any());
    }
    match &made.objects[..] {
        [] => Ok(py.None().into_bound(py)),
        [(slot, id)] => Ok(Bound::new(py, ObjectRef::holding(runtime, *slot, *id))?.into_any()),
        many => {
            let refs = many.iter().map(|(slot, id)| Bound::new(py, ObjectRef::holding(runtime, *slot, *id)));
            Ok(PyList::new(py, refs.collect::<PyResult<Vec<_>>>()?)?.into_any())
        }
    }
}

/// What Python says of a generator's values: "" (none of their own), "streaming" or "dynamic".
pub(crate) fn yields(kind: &str, ahead_max: u32) -> PyResult<Yields> {
    match kind {
        "" => Ok(Yields::Nothing),
        "streaming" => Ok(Yields::Stream { ahead_max }),
        "dynamic" => Ok(Yields::List),
        _ => Err(PyValueError::new_err("yields is empty, 'streaming' or 'dynamic'")),
    }
}

/// Resources from Python: public names to ten-thousandths.
pub(crate) fn resources(dict: &Bound<'_, PyDict>) -> PyResult<Resources> {
    let mut resources = Resources::default();
    for (name, amount) in dict.iter() {
        resources.set(&name.extract::<String>()?, Quantity(amount.extract()?));
    }
    Ok(resources)
}

/// Environment variables for a call: those that the lease of this process asked for, and over them the call's own.
pub(crate) fn environment(runtime: &Runtime, own: EnvVars) -> EnvVars {
    let mut merged = runtime.assignment().env;
    merged.extend(own);
    merged
}

/// A remote function under one set of options.
#[pyclass(frozen, weakref, module = "eagleray._native")]
pub(crate) struct Function {
    arity: Arity,
    /// `prepare() -> bytes`: exports the body for the session that is running and returns its id. `(bytes, dict)`: and says what else stands
    /// among its environment variables, where that is known only then: packages of folders are made at the first call.
    prepare: Py<PyAny>,
    template: Template,
    /// It says nothing about its place: in a group that captures its children it goes there.
    inherits: bool,
    callee: String,
    /// The template of one session. The weak pointer keeps that session's address from being used again by the next one.
    ready: Mutex<Option<(Weak<Runtime>, Arc<Template>)>>,
}

#[pymethods]
impl Function {
    /// It and the Python function around it hold each other: without this no remote function would ever go.
    fn __traverse__(&self, visit: pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        visit.call(&self.prepare)?;
        visit.call(&self.arity.check)
    }

    #[new]
    #[expect(clippy::too_many_arguments, reason = "called once per function from one place, by keyword")]
    #[pyo3(signature = (*, signature, prepare, name, callee, needs, env, at, wish, returns, yields, ahead_max, retries_max,
        retry_exceptions, calls_max))]
    fn new(
        signature: &Bound<'_, PyAny>,
        prepare: Py<PyAny>,
        name: &str,
        callee: String,
        needs: &Bound<'_, PyDict>,
        env: BTreeMap<String, String>,
        at: Option<groups::PyWhere>,
        wish: Option<groups::PyWish>,
        returns: u32,
        yields: &str,
        ahead_max: u32,
        retries_max: i32,
        retry_exceptions: bool,
        calls_max: u32,
    ) -> PyResult<Self> {
        let template = Template {
            language: model::Language::PYTHON,
            function: FunctionId::NIL,
            name: name.into(),
            method: "".into(),
            need: Need {
                at: groups::to_where(at.clone())?,
                env: surroundings::env_vars(env),
                wish: groups::to_wish(wish)?,
                ..Need::same(resources(needs)?)
            },
            returns,
            yields: self::yields(yields, ahead_max)?,
            retries_max,
            retry_exceptions,
            calls_max,
            group: 0,
        };
        let inherits = at.is_none();
        Ok(Self { arity: Arity::of(signature)?, prepare, template, inherits, callee, ready: Mutex::new(None) })
    }

    /// tour(task) 1: user code calls `f.remote(...)`; it returns a ref at once.
    #[pyo3(signature = (*args, **kwargs))]
    fn remote<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let clock = runtime::Stage::clock();
        self.arity.check(args, kwargs)?;
        let runtime = session::current_or_start(py)?;
        let template = match self.template_in(py, &runtime)? {
            Body::Exported(template) => template,
            Body::Here(body) => return body.call(args, kwargs),
        };
        let payload = encode_args(&runtime, args, kwargs, &|| self.callee.clone(), &|| ())?;
        let callee = Callee { target: Target::Pool, pending_max: 0, life: None };
        let result = submit(py, &runtime, &template, callee, payload);
        runtime::Stage::Submit.add(clock);
        result
    }
}

/// Where a function's calls run.
enum Body<'py> {
    /// In workers, which find the body under the template's id.
    Exported(Arc<Template>),
    /// In this process, by calling this: the session was asked for that.
    Here(Bound<'py, PyAny>),
}

impl Function {
    /// The template with the body's id, for calls of the task that runs here; the body is exported once per session.
    fn template_in<'py>(&self, py: Python<'py>, runtime: &Arc<Runtime>) -> PyResult<Body<'py>> {
        let nesting = context::nesting();
        let at = if self.inherits { context::inherited() } else { self.template.need.at };
        if let Some((known, template)) = &*self.ready.lock().expect("never poisoned")
            && known.as_ptr() == Arc::as_ptr(runtime)
            && template.need.to_hold.nesting == nesting
            && template.need.at == at
        {
            return Ok(Body::Exported(template.clone()));
        }
        let _inside = Inside::new(py);
        let mut prepared = self.prepare.bind(py).call0()?;
        let mut env = self.template.need.env.clone();
        if let Ok(pair) = prepared.cast::<PyTuple>() {
            env.extend(surroundings::env_vars(pair.get_item(1)?.extract()?));
            prepared = pair.get_item(0)?;
        }
        let Ok(id) = prepared.cast::<PyBytes>() else { return Ok(Body::Here(prepared)) };
        let function =
            FunctionId::from_slice(id.as_bytes()).map_err(|error| PyTypeError::new_err(error.to_string()))?;
        let mut need = self.template.need.clone();
        (need.to_place.nesting, need.to_hold.nesting) = (nesting, nesting);
        need.env = environment(runtime, env);
        need.at = at;
        if self.inherits {
            groups::check_inherited(py, &need)?;
        }
        let template = Arc::new(Template { function, need, ..self.template.clone() });
        *self.ready.lock().expect("never poisoned") = Some((Arc::downgrade(runtime), template.clone()));
        Ok(Body::Exported(template))
    }
}
