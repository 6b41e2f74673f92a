//! What two nodes say to each other, over lines that may be cut: a session, which loses and reorders nothing until a verdict ends it.
//!
//! Pure: events and bytes in, bytes and notices out; no clock, thread, socket or random source. Same events, same bytes.
//!
//! ```text
//! send, announce ─▶ outbox: queues, turns, credit ─▶ stream: kept until the peer has it ─▶ take ─▶ line
//! line ─▶ receive ─▶ input: envelopes ─▶ inbox: once, in order, pieces put together ─▶ deliver
//! ```
//!
//! A *line* is one connection, dialled by one side and numbered by it; a later one takes the place of an earlier one. Nothing is
//! concluded from a line that is closed: what was under way goes by the next one. Who is dead is said from outside (`Session::end`).
//!
//! *Items* belong to a channel: what one process here sends to one there. What is promised of their order is what is needed: items of one
//! channel stay in order, and the death of a process comes behind all its items. Items of different channels pass each other, since one that is
//! large, or whose reader has no room, must not hold up the rest. Whoever needs to know that all has come asks for a position.
//!
//! Invariants, quoted in asserts and by the tests that bear their names:
//!
//! - **SESSION-1** what was taken to be sent arrives once, and in the order of its channel, until a verdict ends the session; after that nothing
//!   does, and what perhaps has not arrived is named.
//! - **SESSION-2** the news of a death arrive behind the last item of the dead, and news arrive in order. They never wait for a reader.
//! - **SESSION-3** everything that is kept has a bound, and full is an answer; of a channel no more is under way than its reader has granted,
//!   unless it is one item, or the last words of the dead.
//! - **SESSION-4** a position is reached only when all that was taken before it has arrived: what CUT-1 is made of.
//! - **SESSION-5** on lines that work, all that is taken arrives, and what is refused for want of room is asked for again.
//!
//! Map: `session` is what a body uses, `greeting` what is said before there is one, `input` cuts bytes into envelopes (laid out in `wire::session`);
//! `outbox` with `queue` and `marks` decides what goes next, `stream` keeps it; `inbox` takes up what comes; `limits` are the bounds.

mod error;
mod fifo;
mod greeting;
mod inbox;
mod input;
mod limits;
mod marks;
mod outbox;
mod queue;
mod session;
mod stream;

pub use error::{Error, SendError};
pub use greeting::{check, refusal_of};
pub use inbox::{Arrived, Hold};
pub use input::read_hello;
pub use limits::Limits;
pub use marks::Position;
pub use session::{Counts, Fate, Notice, Returned, Session};
pub use wire::session::{Channel, Hello, NodeLife, Refusal};
