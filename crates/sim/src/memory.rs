//! The shared memory and the files of one simulated node: what the real store promises, and no more.
//!
//! Room is given again as soon as it may be, the lowest first, so that whoever reads from a place that was freed finds another value there.

use std::collections::{BTreeMap, BTreeSet};

use model::{Bulk, FileId, Filed, Place, ProcId};

use crate::refs::Number;

const BLOCK_BYTES: u64 = 1 << 20;

struct Block {
    /// In whose extents it lies.
    holder: ProcId,
    serial: u64,
    content: Number,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Sealed,
    /// Freed while somebody looks: nobody else finds it.
    Freed,
    /// Its holder is gone: it is there as long as somebody looks.
    Orphaned,
}

fn filed_at(file: FileId, index: usize) -> Filed {
    Filed { file, offset: index as u64, length: BLOCK_BYTES, check: 0 }
}

/// The arena and the files of a node.
#[derive(Default)]
pub(crate) struct Memory {
    blocks: BTreeMap<u64, Block>,
    blocks_max: u64,
    serials: u64,
    /// Who looks at what lies at an offset, and how often.
    pins: BTreeMap<(u64, ProcId), u32>,
    /// `None`: damaged.
    files: BTreeMap<FileId, Vec<Option<Number>>>,
    /// Files that were written for another process, which has not taken them over yet.
    sent: BTreeSet<FileId>,
    files_made: u32,
    /// Files that something was done to.
    harmed: BTreeSet<FileId>,
    /// Files with copies of what lies on other nodes.
    copies: BTreeSet<FileId>,
}

impl Memory {
    /// Of the node of this number.
    pub(crate) fn new(node: u32, blocks_max: u64) -> Self {
        Self { blocks_max, serials: Place::serials_of(node), ..Self::default() }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.blocks.len() as u64 >= self.blocks_max
    }

    /// Keeps a value: in the arena, or in a file if there is no room.
    pub(crate) fn write(&mut self, by: ProcId, content: Number, owner: ProcId) -> Bulk {
        if self.is_full() {
            let filed = self.write_file(by, vec![content])[0];
            if owner != by {
                self.sent.insert(filed.file);
            }
            return Bulk::Filed(filed);
        }
        let index = (0..).find(|index| !self.blocks.contains_key(&(index * BLOCK_BYTES))).expect("some are free");
        self.serials += 1;
        let (offset, serial) = (index * BLOCK_BYTES, self.serials);
        self.blocks.insert(offset, Block { holder: by, serial, content, state: State::Sealed });
        Bulk::Stored(Place { offset, length: BLOCK_BYTES, serial })
    }

    /// Keeps a copy of a value of another node.
    pub(crate) fn write_copy(&mut self, by: ProcId, content: Number) -> Bulk {
        let at = self.write(by, content, by);
        if let Bulk::Filed(filed) = at {
            self.copies.insert(filed.file);
        }
        at
    }

    pub(crate) fn write_file(&mut self, by: ProcId, contents: Vec<Number>) -> Vec<Filed> {
        let file = self.new_file(by, 0);
        let filed = (0..contents.len()).map(|at| filed_at(file, at)).collect();
        self.files.insert(file, contents.into_iter().map(Some).collect());
        filed
    }

    fn new_file(&mut self, by: ProcId, folder: u16) -> FileId {
        self.files_made += 1;
        FileId { by, number: self.files_made, folder }
    }

    /// Looks at a value in the arena; `None`: it does not lie there any more.
    pub(crate) fn pin(&mut self, by: ProcId, place: Place) -> Option<Number> {
        let block = self.blocks.get(&place.offset)?;
        if block.serial != place.serial || block.state == State::Freed {
            return None;
        }
        *self.pins.entry((place.offset, by)).or_default() += 1;
        Some(block.content.clone())
    }

    /// What somebody sees who has pinned it before.
    pub(crate) fn seen(&self, by: ProcId, place: Place) -> Option<&Number> {
        let is_pinned = self.pins.contains_key(&(place.offset, by));
        let block = self.blocks.get(&place.offset).filter(|block| is_pinned && block.serial == place.serial)?;
        Some(&block.content)
    }

    pub(crate) fn unpin(&mut self, by: ProcId, place: Place) {
        if let Some(count) = self.pins.get_mut(&(place.offset, by)) {
            *count -= 1;
            if *count == 0 {
                self.pins.remove(&(place.offset, by));
            }
        }
        self.sweep(place.offset);
    }

    fn is_pinned(&self, offset: u64) -> bool {
        let everyone = (offset, ProcId::new(1, 0, 0))..(offset + 1, ProcId::new(1, 0, 0));
        self.pins.range(everyone).next().is_some()
    }

    fn sweep(&mut self, offset: u64) {
        let is_over = self.blocks.get(&offset).is_some_and(|block| block.state != State::Sealed);
        if is_over && !self.is_pinned(offset) {
            self.blocks.remove(&offset);
        }
    }

    /// Where anybody but `by` looks.
    pub(crate) fn offsets_looked_at(&self, by: ProcId) -> BTreeSet<u64> {
        self.pins.keys().filter(|(_, who)| *who != by).map(|(offset, _)| *offset).collect()
    }

    /// All values that somebody would find.
    pub(crate) fn all_there(&self) -> BTreeSet<Bulk> {
        let blocks = self.blocks.iter().filter(|(_, block)| block.state != State::Freed);
        let stored = blocks
            .map(|(offset, block)| Bulk::Stored(Place { offset: *offset, length: BLOCK_BYTES, serial: block.serial }));
        let filed =
            self.files.iter().flat_map(|(file, values)| (0..values.len()).map(|at| Bulk::Filed(filed_at(*file, at))));
        stored.chain(filed).collect()
    }

    /// Whether anybody but `by`, who has `own` pins on it, looks.
    pub(crate) fn is_looked_at(&self, by: ProcId, place: Place, own: u32) -> bool {
        self.pins.iter().any(|((offset, who), count)| *offset == place.offset && (*who != by || *count > own))
    }

    /// The room of a value of `by` is free. An error if it has none there.
    pub(crate) fn free(&mut self, by: ProcId, place: Place) -> Result<(), String> {
        let block = self.blocks.get_mut(&place.offset);
        match block.filter(|block| (block.serial, block.holder, block.state) == (place.serial, by, State::Sealed)) {
            Some(block) => block.state = State::Freed,
            None => return Err(format!("{by} frees {place:?}, which is not its")),
        }
        self.sweep(place.offset);
        Ok(())
    }

    /// A value in a file; `None`: it is lost.
    pub(crate) fn map(&self, filed: &Filed) -> Option<Number> {
        self.files.get(&filed.file)?[filed.offset as usize].clone()
    }

    pub(crate) fn is_there(&self, filed: &Filed) -> bool {
        self.files.contains_key(&filed.file)
    }

    pub(crate) fn is_harmed(&self, bulk: Bulk) -> bool {
        matches!(bulk, Bulk::Filed(filed) if self.harmed.contains(&filed.file))
    }

    /// Another process wrote the file for `by`, which it belongs to from now on.
    pub(crate) fn take_over(&mut self, by: ProcId, filed: Filed) -> Option<Filed> {
        let values = self.files.remove(&filed.file)?;
        self.sent.remove(&filed.file);
        let file = self.new_file(by, filed.file.folder);
        self.files.insert(file, values);
        if self.harmed.contains(&filed.file) {
            self.harmed.insert(file);
        }
        Some(Filed { file, ..filed })
    }

    pub(crate) fn remove_file(&mut self, file: FileId) {
        self.files.remove(&file);
        self.copies.remove(&file);
    }

    /// Something happens to a file, which is returned. `pick` chooses among so many. Copies stay whole: nobody looks whether they do.
    pub(crate) fn harm(&mut self, mut pick: impl FnMut(u64) -> u64) -> Option<FileId> {
        // The references in a value that is lost on its way cannot be given back: its reader does not know them.
        let is_named = |value: &Option<Number>| value.as_ref().is_some_and(|number| !number.refs.is_empty());
        let may_be = |(file, values): &(&FileId, &Vec<Option<Number>>)| {
            !self.copies.contains(file) && (!self.sent.contains(file) || !values.iter().any(is_named))
        };
        let files: Vec<FileId> = self.files.iter().filter(may_be).map(|(file, _)| *file).collect();
        if files.is_empty() {
            return None;
        }
        let file = files[pick(files.len() as u64) as usize];
        self.harmed.insert(file);
        if pick(2) == 0 {
            self.files.remove(&file);
        } else {
            let values = self.files.get_mut(&file).expect("found above");
            let at = pick(values.len() as u64) as usize;
            values[at] = None;
        }
        Some(file)
    }

    /// Nobody needs anything of a dead process any more.
    pub(crate) fn bury(&mut self, dead: ProcId) {
        self.pins.retain(|(_, by), _| *by != dead);
        self.files.retain(|file, _| file.by != dead);
        for block in self.blocks.values_mut().filter(|block| block.holder == dead) {
            block.state = if block.state == State::Freed { State::Freed } else { State::Orphaned };
        }
        let offsets: Vec<u64> = self.blocks.keys().copied().collect();
        offsets.into_iter().for_each(|offset| self.sweep(offset));
    }

    /// What is left of blocks, pins and files; empty if nothing is.
    pub(crate) fn left(&self) -> String {
        let block = |(offset, block): (&u64, &Block)| {
            let Block { holder, serial, .. } = block;
            format!("block {serial} of {holder} at {offset}")
        };
        let blocks = self.blocks.iter().map(block);
        let pins = self.pins.iter().map(|((offset, by), count)| format!("{count} pins of {by} at {offset}"));
        let files = self.files.keys().map(|file| format!("file {file}"));
        blocks.chain(pins).chain(files).collect::<Vec<_>>().join(", ")
    }
}
