//! Read-only memory handed to Python without a copy: bytes in the arena (pinned while Python looks at them) or in a value.

use std::ffi::{CStr, c_int, c_void};
use std::sync::Arc;

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use store::View;

pub(crate) enum Memory {
    Stored(View),
    Inline(Arc<[u8]>),
}

/// Exports a range of bytes, read-only.
#[pyclass(frozen, module = "eagleray._native")]
pub(crate) struct Buffer {
    memory: Memory,
    start: usize,
    length: usize,
}

impl Buffer {
    pub(crate) fn new(memory: Memory, start: usize, length: usize) -> Self {
        let whole = match &memory {
            Memory::Stored(view) => view.len(),
            Memory::Inline(bytes) => bytes.len(),
        };
        assert!(start.checked_add(length).is_some_and(|end| end <= whole), "a buffer beyond its value");
        Self { memory, start, length }
    }

    fn pointer(&self) -> *const u8 {
        let base = match &self.memory {
            Memory::Stored(view) => view.as_ptr(),
            Memory::Inline(bytes) => bytes.as_ptr(),
        };
        base.wrapping_add(self.start)
    }
}

#[pymethods]
impl Buffer {
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
            return Err(PyBufferError::new_err("values are read-only"));
        }
        let this = slf.get();
        // SAFETY: the memory lives as long as `slf`, which the view keeps; it is never written.
        let filled = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                this.pointer().cast_mut().cast::<c_void>(),
                this.length as isize,
                1,
                flags,
            )
        };
        if filled == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }

    fn __len__(&self) -> usize {
        self.length
    }
}

/// A Python object's bytes, if it has them in one piece.
pub(crate) struct Bytes {
    view: Box<ffi::Py_buffer>,
}

impl Bytes {
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut view = Box::new(ffi::Py_buffer::new());
        // SAFETY: `view` is valid for writing; a zero result means that it was filled.
        if unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &raw mut *view, ffi::PyBUF_SIMPLE) } == 0 {
            Ok(Self { view })
        } else {
            Err(PyErr::fetch(object.py()))
        }
    }

    /// An array's bytes, if they lie in one piece in the order of their indices.
    pub(crate) fn of_array(array: &Bound<'_, PyAny>) -> Option<Self> {
        let mut view = Box::new(ffi::Py_buffer::new());
        let flags = ffi::PyBUF_C_CONTIGUOUS | ffi::PyBUF_FORMAT;
        // SAFETY: as in `of`.
        if unsafe { ffi::PyObject_GetBuffer(array.as_ptr(), &raw mut *view, flags) } == 0 {
            Some(Self { view })
        } else {
            // Dates and the like are not to be had so, nor is what lies apart.
            drop(PyErr::take(array.py()));
            None
        }
    }

    /// What an item is, in the buffer protocol's words; of `of_array` only.
    pub(crate) fn format(&self) -> &[u8] {
        if self.view.format.is_null() {
            return b"";
        }
        // SAFETY: a text that ends with a zero, which lives as long as the view.
        unsafe { CStr::from_ptr(self.view.format) }.to_bytes()
    }

    /// Bytes of an item.
    pub(crate) fn item_size(&self) -> usize {
        self.view.itemsize as usize
    }

    /// Items in each dimension; of `of_array` only.
    pub(crate) fn shape(&self) -> &[isize] {
        if self.view.shape.is_null() {
            return &[];
        }
        // SAFETY: `ndim` numbers, which live as long as the view.
        unsafe { std::slice::from_raw_parts(self.view.shape, self.view.ndim as usize) }
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        if self.view.len == 0 {
            return &[];
        }
        // SAFETY: a contiguous buffer of `len` bytes, held until drop: it is neither freed nor moved before. Small ones are copied under
        // the interpreter's lock; large ones without it, so another thread that writes to the object at the same time races with the
        // copy, as it would with any library that lets the lock go. The bytes are copied and never interpreted here, so what such a
        // program gets is some mixture of old and new ones.
        unsafe { std::slice::from_raw_parts(self.view.buf.cast(), self.view.len as usize) }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        // SAFETY: filled by `of`; dropped with the interpreter's lock held, as it is only used there.
        unsafe { ffi::PyBuffer_Release(&raw mut *self.view) };
    }
}
