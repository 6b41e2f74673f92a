//! HOT: values that go to other nodes.

use std::io::{ErrorKind, Result};
use std::sync::Arc;
use std::time::{Duration, Instant};

use depot::Asked;
use model::{Bulk, ProcId};
use net::clock::now;
use store::View;
use wire::values::{Answer, Ask, Opening};

use super::growing::Growing;
use super::line::{GIVE_BYTES, Line};
use super::{Values, spawn};

/// Lines by which others ask, at most: one more is closed, and tried again by who called.
const SERVERS_MAX: usize = 64;
/// What is on its way here in the brain's eyes has a thread that brings it, within this time.
const BEGIN_WAIT: Duration = Duration::from_secs(5);

/// What is to go out.
enum Source {
    Whole(View),
    Growing(Arc<Growing>),
    SentOn(u32),
    Nothing,
}

impl Values {
    /// A member has called, with large values in mind.
    pub(crate) fn answer_call(self: &Arc<Self>, node: u32, line: Line) {
        let values = self.clone();
        self.serve_by(move |serves| {
            let mut line = line;
            match line.receive::<Opening>() {
                Ok(Opening::Asks) => _ = values.serve(node, &mut line),
                Ok(Opening::Answers { ticket }) => {
                    // It is another thread's from now on, which counts itself.
                    drop(serves);
                    values.came_for(ticket, line);
                }
                Err(_) => {}
            }
        });
    }

    /// A node that cannot call here, since nothing listens, asks to be called.
    pub(super) fn call_for(self: &Arc<Self>, node: u32, ticket: u64) {
        let values = self.clone();
        self.serve_by(move |_serves| {
            if let Ok(mut line) = values.dial(node)
                && line.send(&Opening::Answers { ticket }).is_ok()
            {
                let _ = values.serve(node, &mut line);
            }
        });
    }

    fn serve_by(self: &Arc<Self>, serve: impl FnOnce(Serves) + Send + 'static) {
        let mut state = self.lock();
        if state.servers >= SERVERS_MAX || self.is_stopping() {
            return;
        }
        state.servers += 1;
        drop(state);
        let serves = Serves(self.clone());
        let _ = spawn("eagleray-give", move || serve(serves));
    }

    fn serve(self: &Arc<Self>, node: u32, line: &mut Line) -> Result<()> {
        loop {
            let ask: Ask = line.receive()?;
            if self.is_stopping() {
                return Err(ErrorKind::BrokenPipe.into());
            }
            let offset = usize::try_from(ask.offset).map_err(|_| ErrorKind::InvalidData)?;
            let (source, of) = self.source(node, &ask);
            match source {
                Source::Nothing => line.send(&Answer::Nothing)?,
                Source::SentOn(other) => {
                    let of = of.unwrap_or_else(|| ProcId::of_node(self.number));
                    line.send(&Answer::SentOn { node: other, of })?;
                }
                _ if ask.is_probe => line.send(&Answer::Sending { of })?,
                Source::Whole(view) => {
                    line.send(&Answer::Sending { of })?;
                    line.write_all(view.as_slice().get(offset..).ok_or(ErrorKind::InvalidData)?)?;
                }
                Source::Growing(growing) => {
                    line.send(&Answer::Sending { of })?;
                    send_on(line, &growing, offset, ask.bulk.length() as usize)?;
                }
            }
        }
    }

    /// What is to go out, and whose it is.
    fn source(self: &Arc<Self>, node: u32, ask: &Ask) -> (Source, Option<ProcId>) {
        let since = Instant::now();
        loop {
            let mut state = self.lock();
            let asked = if ask.is_probe && ask.bulk.node() == self.number {
                Asked::At(state.depot.lies_at(ask.bulk))
            } else {
                state.depot.asked(now(), node, ask.bulk, ask.may_be_sent_on)
            };
            let of = state.depot.owner_of(&ask.bulk);
            match asked {
                Asked::SentOn(other) => return (Source::SentOn(other), of),
                Asked::Nothing => return (Source::Nothing, of),
                Asked::Coming => {
                    if let Some(growing) = state.growing.get(&ask.bulk) {
                        return (Source::Growing(growing.clone()), of);
                    }
                    drop(state);
                    if since.elapsed() > BEGIN_WAIT || self.is_stopping() {
                        return (Source::Nothing, of);
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
                Asked::At(at) => {
                    drop(state);
                    return match self.look(at) {
                        Ok(view) => (Source::Whole(view), of),
                        Err(_) => {
                            self.with_depot(|depot, out| depot.is_not_there(ask.bulk, out));
                            (Source::Nothing, None)
                        }
                    };
                }
            }
        }
    }

    pub(super) fn look(&self, at: Bulk) -> std::result::Result<View, store::Error> {
        match at {
            Bulk::Stored(place) => self.store.pin(place),
            Bulk::Filed(filed) => self.files.map_while(&filed, &mut || !self.is_stopping()),
        }
    }
}

fn send_on(line: &mut Line, growing: &Growing, mut at: usize, length: usize) -> Result<()> {
    let mut buffer = vec![0; GIVE_BYTES];
    while at < length {
        // If there is no more, whoever reads this finds its end and asks elsewhere.
        let count = growing.read_at(at, &mut buffer).ok_or(ErrorKind::BrokenPipe)?;
        line.write_all(&buffer[..count])?;
        at += count;
    }
    Ok(())
}

/// Counts a thread that serves, as long as it does.
struct Serves(Arc<Values>);

impl Drop for Serves {
    fn drop(&mut self) {
        self.0.lock().servers -= 1;
    }
}
