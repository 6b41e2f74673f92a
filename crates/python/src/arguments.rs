//! HOT: a call's payload and the values it depends on become Python arguments.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use runtime::{BadArgument, CallArg, IncomingCall, Runtime};
use wire::Reader;
use wire::arguments::{Argument, Counts};

use crate::{decode, door, errors, plain};

pyo3::create_exception!(
    _native,
    ArgumentLost,
    pyo3::exceptions::PyException,
    "An argument is lost: its owner finds it."
);

/// Turns a payload back into arguments. What their own code raises is no error of the callee: it is named as such, here and not at each of them,
/// which a call of a thousand arguments would notice.
pub(crate) fn decode<'py>(
    py: Python<'py>,
    payload: &[u8],
    dependency: impl FnMut(usize) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<(Bound<'py, PyTuple>, Option<Bound<'py, PyDict>>)> {
    read(py, payload, dependency).map_err(|error| errors::undecodable(py, error))
}

fn read<'py>(
    py: Python<'py>,
    payload: &[u8],
    mut dependency: impl FnMut(usize) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<(Bound<'py, PyTuple>, Option<Bound<'py, PyDict>>)> {
    let bad = |error: wire::Malformed| PyValueError::new_err(error.to_string());
    let mut reader = Reader::new(payload);
    let Counts { positional, named } = Counts::read(&mut reader).map_err(bad)?;
    let mut decode_one = |reader: &mut Reader<'_>| -> PyResult<Bound<'py, PyAny>> {
        match Argument::read(reader).map_err(bad)? {
            Argument::Dependency(place) => dependency(place),
            Argument::Pickled(bytes) => decode::pickled(py, bytes, &mut Reader::new(bytes), &decode::Passing(bytes)),
            Argument::Plain => plain::read(py, payload, reader, &decode::Passing(payload)),
        }
    };
    let args = if positional == 0 {
        PyTuple::empty(py)
    } else {
        let mut values = Vec::with_capacity(positional as usize);
        for _ in 0..positional {
            values.push(decode_one(&mut reader)?);
        }
        PyTuple::new(py, values)?
    };
    if named == 0 {
        return Ok((args, None));
    }
    let kwargs = PyDict::new(py);
    for _ in 0..named {
        let name = wire::arguments::read_name(&mut reader).map_err(bad)?;
        kwargs.set_item(PyString::intern(py, name), decode_one(&mut reader)?)?;
    }
    Ok((args, Some(kwargs)))
}

/// The arguments of a call.
pub(crate) fn of_call<'py>(
    py: Python<'py>,
    runtime: &Arc<Runtime>,
    call: &IncomingCall,
) -> PyResult<(Bound<'py, PyTuple>, Option<Bound<'py, PyDict>>)> {
    // Other threads of an actor go on while an argument is fetched from far away.
    let args = if call.may_take_long(runtime) { door::enter(py, || call.args(runtime)) } else { call.args(runtime) };
    let deps = args.map_err(|error| match error {
        BadArgument::Malformed(error) => PyValueError::new_err(error.to_string()),
        BadArgument::Lost(why) => ArgumentLost::new_err(why),
    })?;
    decode(py, call.payload(), |index| match deps.get(index) {
        Some(CallArg::Inline(bytes)) => decode::value(py, bytes, &decode::Passing(bytes)),
        Some(CallArg::Stored(view)) => decode::value(py, view.as_slice(), &decode::Stored(view)),
        None => Err(PyValueError::new_err("malformed argument")),
    })
}
