//! What a party asks of the body that it is in, and tells it.
//!
//! A step is generic over its body, so that the real one compiles to plain calls; the simulator's one delays, cuts and kills. Nothing here
//! blocks, and nothing calls back into the party.

use model::{ActorId, Bulk, FileId, Filed, ObjectId, Place, ProcId, Tick, WorkerExit};
use owner::{Slot, Value};
use wire::control::ToNode;
use wire::frame::Header;
use wire::journal::{Record, Ref};
use wire::peer::Peer;

/// Why a value in the arena cannot be kept there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoPin {
    /// It is there; this process keeps as many as it may.
    Full(Box<str>),
    /// It is not there.
    Gone,
}

/// What changes of a recorded task as it goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Whom it was sent to.
    pub worker: Option<ProcId>,
    /// Runs that are left after a failure.
    pub retries: i32,
    /// Runs that are left after its worker was killed for want of memory.
    pub oom_retries: i32,
}

/// The process around a party: its memory, its links, its calls, its journal.
pub trait Body {
    /// Keeps a value in the arena where it is.
    type Pin;
    /// Why a frame was not written.
    type NoRoom;

    /// What time it is.
    fn now(&self) -> Tick;

    /// Says something to the node. What is said first arrives first.
    fn tell_node(&mut self, message: ToNode);

    /// Says something to another process, by way of the node.
    fn relay(&mut self, to: ProcId, message: Peer) {
        self.tell_node(ToNode::Relay { to, message });
    }

    /// Keeps the value that lies there until `unpin`, even if whoever wrote it dies.
    ///
    /// # Errors
    /// If it is not there, or no more can be kept.
    fn pin(&mut self, place: Place) -> Result<Self::Pin, NoPin>;

    /// Lets go of it.
    fn unpin(&mut self, place: Place, pin: Self::Pin);

    /// The references in a value that is pinned.
    fn refs_at(&mut self, place: Place, pin: &Self::Pin) -> Vec<Ref>;

    /// The references in a large value. None if it is not there.
    fn refs_in(&mut self, bulk: Bulk) -> Vec<Ref>;

    /// Whether processes of other nodes can ask for a large value by its name. Otherwise they get copies.
    fn names_travel(&self) -> bool;

    /// A large value of ours on another node, or kept there, is needed no more.
    fn free_away(&mut self, bulk: Bulk) {
        self.tell_node(ToNode::FreeAway(bulk));
    }

    /// The bytes of a large value, for a process that cannot read them where they lie. None if they are not there.
    fn copy_of(&mut self, bulk: Bulk) -> Option<Vec<u8>>;

    /// A value of ours does not lie where it should, and this process wants it: as if it had looked there, and said `Peer::Missing`.
    fn not_there(&mut self, wanted_by: ProcId, object: ObjectId, bulk: Bulk);

    /// Frees room in our part of the arena.
    fn free(&mut self, place: Place);

    /// A file that another process wrote is ours from now on, and named after us.
    ///
    /// # Errors
    /// If it is not there.
    fn take_over(&mut self, filed: Filed) -> Result<Filed, Box<str>>;

    /// Nothing of ours is in the file any more.
    fn remove_file(&mut self, file: FileId);

    /// Whether there is a link to this process.
    fn has_link(&self, to: ProcId) -> bool;

    /// Whether frames to this process still go anywhere.
    fn is_linked(&self, to: ProcId) -> bool;

    /// Writes one frame into the ring to this process; nowhere if there is no link to it.
    ///
    /// # Errors
    /// If there is no room for it now.
    fn write(&mut self, to: ProcId, header: Header, bytes: &[u8]) -> Result<(), Self::NoRoom>;

    /// As `write`; what `promises` returns is said, in one message to the node, once it is certain that the frame will be written, and
    /// before the peer can read it.
    ///
    /// # Errors
    /// If there is no room for it now. Nothing was said.
    fn write_gift(
        &mut self,
        to: ProcId,
        header: Header,
        bytes: &[u8],
        promises: impl FnOnce() -> Vec<(ProcId, Peer)>,
    ) -> Result<(), Self::NoRoom>;

    /// The frames that this process, which is dead, has not read and never will.
    fn unread(&mut self, dead: ProcId) -> Vec<(Header, Vec<u8>)>;

    /// Whether a call that was sent to this process, which is dead, may have started there.
    fn may_have_run(&self, on: ProcId, ticket: u64) -> bool;

    /// All that this process, which is dead, had published was taken up, and what it had not read was seen to.
    fn close_link(&mut self, dead: ProcId);

    /// Starts the calls of a dead process that have come in, in place of whoever will run them: nobody can take them back any more. Those
    /// that were are dropped.
    fn claim_calls(&mut self, of: ProcId);

    /// Nobody waits for the calls of a dead process that have come in.
    fn drop_calls(&mut self, of: ProcId);

    /// The calls of this process that run here or have come in.
    fn serving(&self, caller: ProcId) -> Vec<u64>;

    /// Nobody reads what this process's calls yield any more.
    fn reader_died(&mut self, caller: ProcId, exit: &WorkerExit);

    /// What a dead process has recorded, the later of two records of one thing behind the other; none if we are not the heir.
    fn read_records(&mut self, of: ProcId) -> Option<Vec<(Record, Progress)>>;

    /// Whether what we give away is recorded.
    fn keeps_records(&self) -> bool;

    /// Writes a record and returns its cell. None if there is no room for it.
    fn write_record(&mut self, record: &Record, progress: Progress) -> Option<u32>;

    /// The record in this cell is not so any more.
    fn erase_record(&mut self, cell: u32);

    /// The task in this cell has got so far.
    fn note_record(&mut self, cell: u32, progress: Progress);

    /// An object's value is this, for who looks without asking the party.
    fn show(&mut self, slot: Slot, value: Option<&Value>);

    /// Asks the node where an actor is, now and whenever that changes.
    fn watch_actor(&mut self, actor: ActorId) {
        self.tell_node(ToNode::WatchActor { actor });
    }
}
