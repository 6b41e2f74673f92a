//! What a trial reported, from Python: plain values as they are, numpy's as what they hold, anything else as the text that `str` gives.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use tune::logs::{Dict, Value};

/// Deeper parts are taken as text: a dict may contain itself.
const DEPTH_MAX: usize = 64;

pub(super) fn dict(fields: &Bound<'_, PyDict>) -> PyResult<Dict> {
    dict_at(fields, 0)
}

fn dict_at(fields: &Bound<'_, PyDict>, depth: usize) -> PyResult<Dict> {
    let mut found = Vec::with_capacity(fields.len());
    // A text of its own may be asked of what is in there, which may do anything to the dict: then iterating raises, as in Python.
    for item in fields.items() {
        let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
        found.push((text(&key)?, value_at(&value, depth + 1)?));
    }
    Ok(found)
}

fn text(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let shown = match value.cast::<PyString>() {
        Ok(text) => return Ok(text.to_string_lossy().into_owned()),
        Err(_) => value.str()?,
    };
    Ok(shown.to_string_lossy().into_owned())
}

fn value_at(value: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value> {
    if let Ok(number) = value.cast::<PyFloat>() {
        return Ok(Value::Float(number.value()));
    }
    if let Ok(is_true) = value.cast::<PyBool>() {
        return Ok(Value::Bool(is_true.is_true()));
    }
    if let Ok(number) = value.cast::<PyInt>() {
        return match number.extract::<i64>() {
            Ok(number) => Ok(Value::Int(number)),
            Err(_) => Ok(Value::Big(big(number)?)),
        };
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Value::Text(text.to_string_lossy().into_owned()));
    }
    if value.is_none() {
        return Ok(Value::None);
    }
    if depth < DEPTH_MAX {
        if let Ok(fields) = value.cast::<PyDict>() {
            return Ok(Value::Dict(dict_at(fields, depth)?));
        }
        if let Ok(items) = value.cast::<PyList>() {
            return items.iter().map(|item| value_at(&item, depth + 1)).collect::<PyResult<_>>().map(Value::List);
        }
        if let Ok(items) = value.cast::<PyTuple>() {
            return items.iter().map(|item| value_at(&item, depth + 1)).collect::<PyResult<_>>().map(Value::List);
        }
        if is_numpy(value)
            && let Ok(plain) = value.call_method0("tolist")
            && !is_numpy(&plain)
        {
            return value_at(&plain, depth + 1);
        }
    }
    // What cannot even be shown must not end an experiment.
    Ok(Value::Text(text(value).unwrap_or_else(|_| format!("<{}>", value.get_type()))))
}

/// The digits of a whole number that no machine word holds; Python refuses to write very long ones.
fn big(number: &Bound<'_, PyInt>) -> PyResult<String> {
    let digits = number.call_method0("__repr__").and_then(|digits| digits.extract::<String>());
    digits.or_else(|_| Ok(if number.lt(0)? { "-Infinity".to_owned() } else { "Infinity".to_owned() }))
}

/// Scalars and arrays; numpy itself need not be there.
fn is_numpy(value: &Bound<'_, PyAny>) -> bool {
    value.get_type().module().is_ok_and(|module| module.to_str().is_ok_and(|name| name == "numpy"))
}
