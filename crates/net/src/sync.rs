//! Atomics and the bytes between them, from std or, under `--cfg loom`, from the model checker, which knows all that a weak memory
//! may do (ARM's, say) and finds bytes that are read while they are written.

pub use imp::Byte;
pub(crate) use imp::{AtomicI32, AtomicU32, AtomicU64, Mutex, Ordering, copy_in, copy_out, fence, fence_for_loom};

#[cfg(not(loom))]
mod imp {
    pub(crate) use std::sync::Mutex;
    pub(crate) use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering, fence};

    /// A byte of a ring.
    pub type Byte = u8;

    /// # Safety
    /// `to` points to as many bytes, which nobody else uses now.
    #[inline]
    pub(crate) unsafe fn copy_in(from: &[u8], to: *mut Byte) {
        // SAFETY: by this function's contract.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
    }

    /// # Safety
    /// `from` points to as many bytes, which nobody writes now, and `to` to room for them.
    #[inline]
    pub(crate) unsafe fn copy_out(from: *const Byte, to: *mut u8, count: usize) {
        // SAFETY: by this function's contract.
        unsafe { std::ptr::copy_nonoverlapping(from, to, count) };
    }

    /// Nothing: the `SeqCst` accesses around it are enough.
    #[inline]
    pub(crate) fn fence_for_loom() {}
}

#[cfg(loom)]
mod imp {
    pub(crate) use loom::sync::Mutex;
    pub(crate) use loom::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering, fence};

    /// A byte of a ring, whose every use is checked.
    pub type Byte = loom::cell::UnsafeCell<u8>;

    pub(crate) unsafe fn copy_in(from: &[u8], to: *mut Byte) {
        for (at, byte) in from.iter().enumerate() {
            // SAFETY: by the contract of its twin.
            unsafe { (*to.add(at)).with_mut(|cell| *cell = *byte) };
        }
    }

    pub(crate) unsafe fn copy_out(from: *const Byte, to: *mut u8, count: usize) {
        for at in 0..count {
            // SAFETY: by the contract of its twin.
            unsafe { *to.add(at) = (*from.add(at)).with(|cell| *cell) };
        }
    }

    /// Loom takes `SeqCst` accesses for `AcqRel` ones and knows only fences as sequentially consistent. This stands between an access and
    /// a later load that are both `SeqCst`, and says what they promise.
    pub(crate) fn fence_for_loom() {
        fence(Ordering::SeqCst);
    }
}
