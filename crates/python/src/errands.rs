//! Does in Python what native threads ask for: on a thread of its own, which lives only while there is something to do.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use pyo3::prelude::*;
use runtime::{Errand, Runtime};

use crate::{door, errors, session};

/// Errors that nobody read and that wait to be told of. More are dropped: a thousand of them say enough.
const WAITING_MAX: usize = 1_000;

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Errand>,
    /// A thread is at it.
    is_served: bool,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { waiting: VecDeque::new(), is_served: false });
static DONE: Condvar = Condvar::new();

/// How long the end of a session waits for them.
const FINISH_MAX: Duration = Duration::from_secs(5);

/// From now on the runtime's errands are done here.
pub(crate) fn serve(runtime: &Arc<Runtime>) {
    *QUEUE.lock().expect("never poisoned") = Queue::default();
    let weak = Arc::downgrade(runtime);
    runtime.set_errands(Box::new(move |errand| {
        if weak.upgrade().is_none_or(|runtime| !runtime.is_open()) {
            return;
        }
        let mut queue = QUEUE.lock().expect("never poisoned");
        if queue.waiting.len() >= WAITING_MAX && matches!(errand, Errand::Unread { .. }) {
            return;
        }
        queue.waiting.push_back(errand);
        if queue.is_served {
            return;
        }
        let weak = weak.clone();
        let spawned = net::without_signals(|| {
            std::thread::Builder::new().name("eagleray-errands".into()).spawn(move || {
                while let Some(errand) = next() {
                    if let Errand::CollectGarbage { wait } = errand {
                        std::thread::sleep(wait);
                    }
                    if let Some(runtime) = weak.upgrade().filter(|runtime| runtime.is_open()) {
                        door::attach(|py| run(py, &runtime, &errand));
                    }
                }
            })
        });
        queue.is_served = spawned.is_ok();
    }));
}

fn next() -> Option<Errand> {
    let mut queue = QUEUE.lock().expect("never poisoned");
    let errand = queue.waiting.pop_front();
    queue.is_served = errand.is_some();
    if errand.is_none() {
        DONE.notify_all();
    }
    errand
}

/// Waits until all are done. What is dropped at the end of a program is told of, and no thread is left that wants an interpreter which
/// is about to go. Must not be called with the interpreter's lock held.
pub(crate) fn finish(runtime: &Runtime) {
    runtime.take_up();
    let queue = QUEUE.lock().expect("never poisoned");
    drop(DONE.wait_timeout_while(queue, FINISH_MAX, |queue| queue.is_served).expect("never poisoned"));
}

fn run(py: Python<'_>, runtime: &Arc<Runtime>, errand: &Errand) {
    let done = match errand {
        Errand::CollectGarbage { .. } => {
            let start = net::clock::now_ns();
            let done = py.import("gc").and_then(|gc| gc.call_method0("collect")).map(drop);
            door::enter(py, || runtime.collected(net::clock::now_ns() - start));
            done
        }
        Errand::Unread { object, failure } => {
            let error = errors::from_failure(py, failure, object).into_value(py);
            py.import("eagleray._private.worker")
                .and_then(|module| module.call_method1("report_unhandled", (error,)))
                .map(drop)
        }
    };
    if let Err(error) = done {
        error.write_unraisable(py, None);
    }
}

/// Makes every process of the node collect its garbage, soon.
#[pyfunction]
fn collect_everywhere(py: Python<'_>) -> PyResult<()> {
    let runtime = session::current_or_start(py)?;
    door::enter(py, || runtime.collect_everywhere());
    Ok(())
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(collect_everywhere, module)?)
}
