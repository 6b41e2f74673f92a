//! HOT: plain Python values as bytes, without pickle: exact `None`, `bool`, `int`, `float`, `str`, `bytes`, shallow containers of them,
//! simple numpy arrays.
//!
//! Whatever is not exactly of these types is left to pickle. Lists and dicts are taken at the top only, so that an object that is
//! reachable twice or contains itself never comes here.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use wire::value::INLINE_ALIGNMENT;
use wire::value::plain::{ARRAY, BYTES, DICT, FALSE, FLOAT, INT, LIST, NONE, STR, TRUE, TUPLE};
use wire::{Malformed, Reader};

use crate::buffer::{Buffer, Bytes, Memory};

/// Items of a container that are encoded directly; longer ones go to pickle, which is faster there.
const ITEMS_MAX: usize = 64;
const DEPTH_MAX: u32 = 3;

/// Appends the value if it is plain. False: it is not, and `to` is as before.
#[inline]
pub(crate) fn write(value: &Bound<'_, PyAny>, to: &mut Vec<u8>) -> bool {
    let start = to.len();
    let is_plain = put(value, to, 0);
    if !is_plain {
        to.truncate(start);
    }
    is_plain
}

fn put(value: &Bound<'_, PyAny>, to: &mut Vec<u8>, depth: u32) -> bool {
    let object = value.as_ptr();
    // SAFETY: `value` is a live object and the interpreter's lock is held; these are type checks and reads of exact types.
    unsafe {
        if object == ffi::Py_None() {
            to.push(NONE);
        } else if object == ffi::Py_True() {
            to.push(TRUE);
        } else if object == ffi::Py_False() {
            to.push(FALSE);
        } else if ffi::PyLong_CheckExact(object) != 0 {
            let mut overflow = 0;
            let number = ffi::PyLong_AsLongLongAndOverflow(object, &raw mut overflow);
            if overflow != 0 {
                return false;
            }
            to.push(INT);
            to.extend_from_slice(&number.to_le_bytes());
        } else if ffi::PyFloat_CheckExact(object) != 0 {
            to.push(FLOAT);
            to.extend_from_slice(&ffi::PyFloat_AsDouble(object).to_le_bytes());
        } else if ffi::PyUnicode_CheckExact(object) != 0 {
            let mut length = 0;
            let text = ffi::PyUnicode_AsUTF8AndSize(object, &raw mut length);
            if text.is_null() {
                // A lone surrogate: pickle knows how.
                ffi::PyErr_Clear();
                return false;
            }
            return put_counted(to, STR, std::slice::from_raw_parts(text.cast(), length as usize));
        } else if ffi::PyBytes_CheckExact(object) != 0 {
            let bytes = ffi::PyBytes_AsString(object);
            let length = ffi::PyBytes_Size(object) as usize;
            return put_counted(to, BYTES, std::slice::from_raw_parts(bytes.cast(), length));
        } else if ffi::PyTuple_CheckExact(object) != 0 && depth < DEPTH_MAX {
            return put_tuple(value, to, depth);
        } else if ffi::PyList_CheckExact(object) != 0 && depth == 0 {
            return put_list(value, to);
        } else if ffi::PyDict_CheckExact(object) != 0 && depth == 0 {
            return put_dict(value, to);
        } else {
            return depth < 2 && put_array(value, to);
        }
    }
    true
}

/// False: longer than the count can say.
fn put_counted(to: &mut Vec<u8>, kind: u8, bytes: &[u8]) -> bool {
    let Ok(length) = u32::try_from(bytes.len()) else { return false };
    to.push(kind);
    to.extend_from_slice(&length.to_le_bytes());
    to.extend_from_slice(bytes);
    true
}

fn put_head(to: &mut Vec<u8>, kind: u8, count: usize) -> bool {
    to.push(kind);
    to.extend_from_slice(&(count as u32).to_le_bytes());
    count <= ITEMS_MAX
}

fn put_tuple(value: &Bound<'_, PyAny>, to: &mut Vec<u8>, depth: u32) -> bool {
    let Ok(tuple) = value.cast::<PyTuple>() else { return false };
    put_head(to, TUPLE, tuple.len()) && tuple.iter_borrowed().all(|item| put(&item, to, depth + 1)) && distinct(tuple)
}

/// No array twice in one tuple: pickle keeps that it is one.
fn distinct(tuple: &Bound<'_, PyTuple>) -> bool {
    let count = tuple.len();
    count < 2
        || (0..count).all(|at| {
            let Ok(item) = tuple.get_borrowed_item(at) else { return false };
            !is_array(&item)
                || (at + 1..count).all(|other| !tuple.get_borrowed_item(other).is_ok_and(|other| other.is(&*item)))
        })
}

fn put_list(value: &Bound<'_, PyAny>, to: &mut Vec<u8>) -> bool {
    let Ok(list) = value.cast::<PyList>() else { return false };
    put_head(to, LIST, list.len()) && list.iter().all(|item| is_scalar(&item) && put(&item, to, 1))
}

fn put_dict(value: &Bound<'_, PyAny>, to: &mut Vec<u8>) -> bool {
    let Ok(dict) = value.cast::<PyDict>() else { return false };
    put_head(to, DICT, dict.len())
        && dict.iter().all(|(key, item)| is_scalar(&key) && is_scalar(&item) && put(&key, to, 1) && put(&item, to, 1))
}

pub(crate) fn is_scalar(value: &Bound<'_, PyAny>) -> bool {
    value.is_none()
        || value.is_exact_instance_of::<PyInt>()
        || value.is_exact_instance_of::<PyFloat>()
        || value.is_exact_instance_of::<PyString>()
        || value.is_exact_instance_of::<PyBytes>()
        || value.is_exact_instance_of::<PyBool>()
}

/// numpy, if the program uses it. It is never imported for its own sake.
struct Numpy {
    ndarray: Py<PyAny>,
    dtype: Py<PyAny>,
}

static NUMPY: PyOnceLock<Numpy> = PyOnceLock::new();

fn numpy(py: Python<'_>) -> Option<&'static Numpy> {
    if let Some(numpy) = NUMPY.get(py) {
        return Some(numpy);
    }
    find_numpy(py)
}

#[cold]
fn find_numpy(py: Python<'_>) -> Option<&'static Numpy> {
    let modules = py.import("sys").ok()?.getattr("modules").ok()?.cast_into::<PyDict>().ok()?;
    let module = modules.get_item("numpy").ok()??;
    // A module that is being imported right now has no ndarray yet.
    let made =
        Numpy { ndarray: module.getattr("ndarray").ok()?.unbind(), dtype: module.getattr("dtype").ok()?.unbind() };
    let _ = NUMPY.set(py, made);
    NUMPY.get(py)
}

fn load_numpy(py: Python<'_>) -> PyResult<&'static Numpy> {
    if let Some(numpy) = NUMPY.get(py) {
        return Ok(numpy);
    }
    py.import("numpy")?;
    numpy(py).ok_or_else(|| pyo3::exceptions::PyImportError::new_err("numpy cannot be imported"))
}

/// The user has a serializer of their own for arrays.
static PICKLES_ARRAYS: AtomicBool = AtomicBool::new(false);

/// Whether arrays go to pickle, whatever they hold.
#[pyfunction]
fn pickle_arrays(yes: bool) {
    PICKLES_ARRAYS.store(yes, Ordering::Relaxed);
}

fn is_array(value: &Bound<'_, PyAny>) -> bool {
    // Most values are none, and a program without numpy would look for it at each of them.
    // SAFETY: the type of a live object, which has a name that ends with a zero.
    let name = unsafe { CStr::from_ptr((*ffi::Py_TYPE(value.as_ptr())).tp_name) };
    if name != c"numpy.ndarray" || PICKLES_ARRAYS.load(Ordering::Relaxed) {
        return false;
    }
    numpy(value.py()).is_some_and(|numpy| value.get_type().as_ptr() == numpy.ndarray.as_ptr())
}

/// An array whose bytes are all there is to it, beside its dtype and shape.
pub(crate) struct SimpleArray {
    dtype: &'static str,
    pub(crate) bytes: Bytes,
}

impl SimpleArray {
    /// Kind, dtype, shape and length; the data follows at the next multiple of the alignment.
    pub(crate) fn write_head(&self, to: &mut Vec<u8>) {
        to.push(ARRAY);
        to.push(self.dtype.len() as u8);
        to.extend_from_slice(self.dtype.as_bytes());
        let shape = self.bytes.shape();
        to.push(shape.len() as u8);
        for size in shape {
            to.extend_from_slice(&(*size as u64).to_le_bytes());
        }
        to.extend_from_slice(&(self.bytes.as_slice().len() as u64).to_le_bytes());
    }

    /// All of it; positions count from the first byte of `to`.
    pub(crate) fn write(&self, to: &mut Vec<u8>) {
        self.write_head(to);
        while !to.len().is_multiple_of(INLINE_ALIGNMENT) {
            to.push(0);
        }
        to.extend_from_slice(self.bytes.as_slice());
    }
}

/// The object as a simple array, if it is one.
pub(crate) fn simple_array(value: &Bound<'_, PyAny>) -> Option<SimpleArray> {
    if !is_array(value) {
        return None;
    }
    // One call says all, where dtype, flags and shape are three attributes, each made anew.
    let bytes = Bytes::of_array(value)?;
    let dtype = dtype_of(bytes.format(), bytes.item_size())?;
    Some(SimpleArray { dtype, bytes })
}

/// The name of the dtype whose items the buffer protocol describes so; none if bytes are not all there is to them.
fn dtype_of(format: &[u8], size: usize) -> Option<&'static str> {
    let (name, expected) = match format {
        b"?" => ("|b1", 1),
        b"b" => ("|i1", 1),
        b"B" => ("|u1", 1),
        b"h" => ("<i2", 2),
        b"H" => ("<u2", 2),
        b"i" => ("<i4", 4),
        b"I" => ("<u4", 4),
        b"l" | b"q" => ("<i8", 8),
        b"L" | b"Q" => ("<u8", 8),
        b"e" => ("<f2", 2),
        b"f" => ("<f4", 4),
        b"d" => ("<f8", 8),
        b"g" => ("<f16", 16),
        b"Zf" => ("<c8", 8),
        b"Zd" => ("<c16", 16),
        b"Zg" => ("<c32", 32),
        _ => return None,
    };
    (cfg!(target_endian = "little") && size == expected).then_some(name)
}

fn put_array(value: &Bound<'_, PyAny>, to: &mut Vec<u8>) -> bool {
    let Some(array) = simple_array(value) else { return false };
    array.write(to);
    true
}

/// Where the bytes of arrays in a value come from.
pub(crate) trait Source {
    /// Memory that lives on, and where in it the byte at `at` of the value lies. Called for arrays.
    fn memory(&self, at: usize, length: usize) -> (Memory, usize);
    /// Alignment of array data relative to the value's start.
    fn alignment(&self) -> usize;
}

/// Reads one value. `whole` is the value's first byte: positions count from there.
pub(crate) fn read<'py>(
    py: Python<'py>,
    whole: &[u8],
    reader: &mut Reader<'_>,
    source: &dyn Source,
) -> PyResult<Bound<'py, PyAny>> {
    let bad = |error: Malformed| pyo3::exceptions::PyValueError::new_err(error.to_string());
    Ok(match reader.u8().map_err(bad)? {
        NONE => py.None().into_bound(py),
        TRUE => PyBool::new(py, true).to_owned().into_any(),
        FALSE => PyBool::new(py, false).to_owned().into_any(),
        INT => i64::from_le_bytes(reader.array().map_err(bad)?).into_pyobject(py)?.into_any(),
        FLOAT => PyFloat::new(py, f64::from_le_bytes(reader.array().map_err(bad)?)).into_any(),
        STR => {
            let bytes = reader.counted().map_err(bad)?;
            let text = std::str::from_utf8(bytes).map_err(|_| bad(Malformed("text")))?;
            PyString::new(py, text).into_any()
        }
        BYTES => PyBytes::new(py, reader.counted().map_err(bad)?).into_any(),
        TUPLE => {
            let count = reader.u32().map_err(bad)? as usize;
            let items =
                (0..count.min(ITEMS_MAX)).map(|_| read(py, whole, reader, source)).collect::<PyResult<Vec<_>>>()?;
            PyTuple::new(py, items)?.into_any()
        }
        LIST => {
            let count = reader.u32().map_err(bad)? as usize;
            let items =
                (0..count.min(ITEMS_MAX)).map(|_| read(py, whole, reader, source)).collect::<PyResult<Vec<_>>>()?;
            PyList::new(py, items)?.into_any()
        }
        DICT => {
            let dict = PyDict::new(py);
            for _ in 0..reader.u32().map_err(bad)? {
                let key = read(py, whole, reader, source)?;
                dict.set_item(key, read(py, whole, reader, source)?)?;
            }
            dict.into_any()
        }
        ARRAY => read_array(py, whole, reader, source).map_err(|error| match error {
            Ok(malformed) => bad(malformed),
            Err(raised) => raised,
        })?,
        _ => return Err(bad(Malformed("plain value"))),
    })
}

/// tour(object) 6: an array of it is a view of the arena, read-only; the view holds the pin.
fn read_array<'py>(
    py: Python<'py>,
    whole: &[u8],
    reader: &mut Reader<'_>,
    source: &dyn Source,
) -> Result<Bound<'py, PyAny>, Result<Malformed, PyErr>> {
    let dtype_length = usize::from(reader.u8().map_err(Ok)?);
    let dtype = std::str::from_utf8(reader.bytes(dtype_length).map_err(Ok)?).map_err(|_| Ok(Malformed("dtype")))?;
    let dimensions = reader.u8().map_err(Ok)?;
    let shape = (0..dimensions).map(|_| reader.u64()).collect::<Result<Vec<_>, _>>().map_err(Ok)?;
    let length = reader.u64().map_err(Ok)? as usize;
    let at = whole.len() - reader.rest().len();
    let aligned = at.next_multiple_of(source.alignment());
    reader.bytes(aligned - at).map_err(Ok)?;
    reader.bytes(length).map_err(Ok)?;
    let (memory, start) = source.memory(aligned, length);
    let make = || {
        let numpy = load_numpy(py)?;
        let dtype = cached_dtype(py, numpy, dtype)?;
        let buffer = Bound::new(py, Buffer::new(memory, start, length))?;
        let shape = PyTuple::new(py, shape)?;
        numpy.ndarray.bind(py).call1((shape, dtype, buffer))
    };
    make().map_err(Err)
}

static DTYPES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();

fn cached_dtype<'py>(py: Python<'py>, numpy: &Numpy, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let cache = DTYPES.get_or_init(py, || PyDict::new(py).unbind()).bind(py);
    if let Some(known) = cache.get_item(name)? {
        return Ok(known);
    }
    let made = numpy.dtype.bind(py).call1((name,))?;
    cache.set_item(name, &made)?;
    Ok(made)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(pickle_arrays, module)?)
}
