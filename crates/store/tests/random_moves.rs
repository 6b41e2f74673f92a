//! Files and pins under random use, against models that remember every byte and every look.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use common::{KIB, MIB, attach, attach_with, holds, put};
use model::{FileId, Filed, ProcId};
use proptest::prelude::*;
use store::{Error, Files, Folders, Host, Place, View};

const WRITERS: [ProcId; 3] = [ProcId::new(1, 3, 7), ProcId::new(1, 3, 70), ProcId::new(1, 33, 7)];

#[derive(Clone, Debug)]
enum Move {
    Write(usize, Vec<usize>),
    /// Written in place; sealed, or given up.
    Reserve(usize, usize, bool),
    TakeOver(usize, usize),
    Remove(usize),
    Read(usize, usize),
    /// A bit flips.
    Flip(usize, usize),
    Shorten(usize, usize),
    Vanish(usize),
    /// All files of one process go.
    Gone(usize),
}

const PICK: std::ops::Range<usize> = 0..1_000;

fn moves() -> impl Strategy<Value = Move> {
    let length = || prop_oneof![Just(1), Just(4_096), 1_usize..20_000];
    prop_oneof![
        5 => (PICK, prop::collection::vec(length(), 1..4)).prop_map(|(by, lengths)| Move::Write(by, lengths)),
        3 => (PICK, length(), any::<bool>()).prop_map(|(by, length, seals)| Move::Reserve(by, length, seals)),
        2 => (PICK, PICK).prop_map(|(value, by)| Move::TakeOver(value, by)),
        2 => PICK.prop_map(Move::Remove),
        8 => (PICK, PICK).prop_map(|(value, by)| Move::Read(value, by)),
        2 => (PICK, PICK).prop_map(|(value, at)| Move::Flip(value, at)),
        1 => (PICK, PICK).prop_map(|(value, at)| Move::Shorten(value, at)),
        1 => PICK.prop_map(Move::Vanish),
        1 => PICK.prop_map(Move::Gone),
    ]
}

/// Two good folders, one that is not there, and what should be in them.
struct World {
    folders: Vec<PathBuf>,
    processes: Vec<Files>,
    values: BTreeMap<Filed, Vec<u8>>,
    files: BTreeSet<FileId>,
    /// Values that are not what they were, or not there.
    spoilt: BTreeSet<Filed>,
    /// Who has compared which value with its checksum.
    checked: BTreeSet<(usize, Filed)>,
    written: u8,
}

fn local(paths: &[PathBuf]) -> Vec<store::Folder> {
    paths.iter().map(|path| store::Folder::local(path.clone())).collect()
}

fn files_in(paths: &[PathBuf], full_at: f64, by: ProcId) -> Files {
    Files::new(Folders { list: local(paths), full_at }, by, |_| 0)
}

impl World {
    fn new() -> Self {
        let root = std::env::temp_dir().join(format!("eagleray-random-files-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        let folders: Vec<PathBuf> = ["a", "missing", "b"].iter().map(|name| root.join(name)).collect();
        for good in [&folders[0], &folders[2]] {
            std::fs::create_dir_all(good).unwrap();
        }
        let open = |by: &ProcId| files_in(&folders, 1.0, *by);
        let processes = WRITERS.iter().map(open).collect();
        let (values, files, spoilt) = Default::default();
        Self { folders, processes, values, files, spoilt, checked: BTreeSet::new(), written: 0 }
    }

    fn value(&self, pick: usize) -> Option<Filed> {
        (!self.values.is_empty()).then(|| *self.values.keys().nth(pick % self.values.len()).unwrap())
    }

    fn path(&self, file: FileId) -> PathBuf {
        self.folders[usize::from(file.folder)].join(file.to_string())
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        self.written = self.written.wrapping_add(1);
        (0..length).map(|at| (at * 31) as u8 ^ self.written).collect()
    }

    fn add(&mut self, filed: Filed, bytes: Vec<u8>) {
        self.files.insert(filed.file);
        self.values.insert(filed, bytes);
    }

    /// Values of one file.
    fn within(&self, file: FileId) -> Vec<Filed> {
        self.values.keys().filter(|filed| filed.file == file).copied().collect()
    }

    fn play(&mut self, play: Move) {
        match play {
            Move::Write(by, lengths) => {
                let values: Vec<Vec<u8>> = lengths.into_iter().map(|length| self.bytes(length)).collect();
                let slices: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
                let filed = self.processes[by % WRITERS.len()].write(&slices).unwrap();
                filed.into_iter().zip(values).for_each(|(filed, bytes)| self.add(filed, bytes));
            }
            Move::Reserve(by, length, seals) => {
                let bytes = self.bytes(length);
                let mut reservation = self.processes[by % WRITERS.len()].reserve(length as u64).unwrap();
                reservation.as_mut_slice().copy_from_slice(&bytes);
                if seals {
                    let filed = reservation.seal().unwrap();
                    self.add(filed, bytes);
                }
            }
            Move::TakeOver(pick, by) => self.take_over(pick, by % WRITERS.len()),
            Move::Remove(pick) => {
                if let Some(filed) = self.value(pick) {
                    self.processes[0].remove(filed.file);
                    self.forget(filed.file);
                }
            }
            Move::Read(pick, by) => self.read(pick, by % WRITERS.len()),
            Move::Flip(pick, at) => {
                if let Some(filed) = self.value(pick).filter(|filed| self.files.contains(&filed.file)) {
                    let mut bytes = std::fs::read(self.path(filed.file)).unwrap();
                    let at = filed.offset as usize + at % filed.length as usize;
                    if at < bytes.len() && self.spoilt.insert(filed) {
                        bytes[at] ^= 1;
                        std::fs::write(self.path(filed.file), bytes).unwrap();
                    }
                }
            }
            Move::Shorten(pick, by) => {
                if let Some(filed) = self.value(pick).filter(|filed| self.files.contains(&filed.file)) {
                    let file = std::fs::File::options().write(true).open(self.path(filed.file)).unwrap();
                    let end = filed.offset + filed.length - 1 - by as u64 % filed.length;
                    file.set_len(end.min(file.metadata().unwrap().len())).unwrap();
                    let cut = self.within(filed.file).into_iter().filter(|other| other.offset + other.length > end);
                    let cut: Vec<Filed> = cut.collect();
                    // Whoever compared one before sees that the file is too short all the same.
                    self.checked.retain(|(_, filed)| !cut.contains(filed));
                    self.spoilt.extend(cut);
                }
            }
            Move::Vanish(pick) => {
                if let Some(filed) = self.value(pick).filter(|filed| self.files.remove(&filed.file)) {
                    std::fs::remove_file(self.path(filed.file)).unwrap();
                    let within = self.within(filed.file);
                    self.checked.retain(|(_, filed)| !within.contains(filed));
                    self.spoilt.extend(within);
                }
            }
            Move::Gone(pick) => {
                let gone = WRITERS[pick % WRITERS.len()];
                store::remove_files_of(gone, &local(&self.folders));
                let files: Vec<FileId> = self.values.keys().map(|filed| filed.file).collect();
                files.into_iter().filter(|file| file.by == gone).for_each(|file| self.forget(file));
            }
        }
        self.check_folders();
    }

    fn forget(&mut self, file: FileId) {
        self.files.remove(&file);
        self.values.retain(|filed, _| filed.file != file);
    }

    /// Files of one value are handed over: nobody else knows where they lie.
    fn take_over(&mut self, pick: usize, by: usize) {
        let Some(filed) = self.value(pick).filter(|filed| self.within(filed.file).len() == 1) else { return };
        let is_there = self.files.contains(&filed.file);
        let taken = self.processes[by].take_over(filed);
        assert_eq!(taken.is_ok(), is_there, "FILE-1: {taken:?}");
        let Ok(taken) = taken else { return };
        assert_eq!(taken.file.by, WRITERS[by]);
        let bytes = self.values.remove(&filed).unwrap();
        self.files.remove(&filed.file);
        if self.spoilt.contains(&filed) {
            self.spoilt.insert(taken);
        }
        self.add(taken, bytes);
    }

    fn read(&mut self, pick: usize, by: usize) {
        let Some(filed) = self.value(pick) else { return };
        let (files, bytes) = (&self.processes[by], &self.values[&filed]);
        match files.map(&filed) {
            Ok(view) if self.spoilt.contains(&filed) => {
                // What flips after it was compared is not seen: it would cost a look at every byte for every read.
                assert!(self.checked.contains(&(by, filed)), "FILE-1: {filed:?} was spoilt, and is read");
                assert_eq!(view.as_slice().len(), bytes.len());
            }
            Ok(view) => {
                assert_eq!(view.as_slice(), bytes.as_slice(), "FILE-1: {filed:?} is not what was written");
                assert!(files.is_there(&filed));
                let head = files.read(&filed, 5).unwrap();
                assert_eq!(head, bytes[..bytes.len().min(5)]);
                self.checked.insert((by, filed));
            }
            Err(Error::Lost { file, .. }) => {
                assert!(
                    self.spoilt.contains(&filed) && file == filed.file,
                    "FILE-1: {filed:?} is there, and not found"
                );
            }
            Err(other) => panic!("FILE-1: {other}"),
        }
    }

    /// FILE-2: there is what should be, and nothing else.
    fn check_folders(&self) {
        let names = |folder: &PathBuf| folder.read_dir().into_iter().flatten().map(|entry| entry.unwrap().path());
        let found: BTreeSet<PathBuf> = self.folders.iter().flat_map(names).collect();
        let expected: BTreeSet<PathBuf> = self.files.iter().map(|file| self.path(*file)).collect();
        assert_eq!(found, expected, "FILE-2");
        assert_eq!(store::files_in(&local(&self.folders)).0, expected.len() as u64);
        // FILE-3: whoever may fill them no further writes nothing.
        let full = files_in(&self.folders, 0.0, WRITERS[0]);
        assert!(matches!(full.write(&[&[1]]), Err(Error::DiskFull { .. })), "FILE-3");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.folders[0].parent().unwrap());
    }
}

#[derive(Clone, Debug)]
enum Look {
    Put,
    Pin(usize, usize),
    Unpin(usize),
    Free(usize),
}

fn looks() -> impl Strategy<Value = Look> {
    prop_oneof![
        3 => Just(Look::Put),
        5 => (PICK, PICK).prop_map(|(place, by)| Look::Pin(place, by)),
        4 => PICK.prop_map(Look::Unpin),
        2 => PICK.prop_map(Look::Free),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn file_1_to_3_hold_whatever_happens_to_the_files(plays in prop::collection::vec(moves(), 1..60)) {
        let mut world = World::new();
        plays.into_iter().for_each(|play| world.play(play));
    }

    /// What is looked at is never moved, and whoever looks after it was freed is told so.
    #[test]
    fn store_9_every_look_is_seen_by_who_wants_to_move(plays in prop::collection::vec(looks(), 1..60)) {
        let mut host = Host::create(64 * MIB, 3).unwrap();
        let (writer, _) = attach_with(&mut host, 0, 16 * MIB);
        let (second, third) = (attach(&host, 1), attach(&host, 2));
        let clients = [&writer, &second, &third];
        let mut places: Vec<(Place, u8, bool)> = Vec::new();
        let mut views: Vec<(usize, usize, View)> = Vec::new();
        for play in plays {
            match play {
                Look::Put if places.len() < 40 => {
                    let seed = places.len() as u8 + 1;
                    places.push((put(&writer, 100 * KIB, seed), seed, true));
                }
                Look::Pin(pick, by) if !places.is_empty() => {
                    let (at, by) = (pick % places.len(), by % clients.len());
                    let (place, seed, is_there) = places[at];
                    match clients[by].pin(place) {
                        Ok(view) => {
                            assert!(is_there && holds(&view, 100 * KIB, seed));
                            views.push((at, by, view));
                        }
                        Err(error) => assert!(matches!(error, Error::Moved) && !is_there, "STORE-9: {error}"),
                    }
                }
                Look::Unpin(pick) if !views.is_empty() => {
                    let (at, _, view) = views.swap_remove(pick % views.len());
                    assert!(holds(&view, 100 * KIB, places[at].1), "STORE-3: bytes changed under a look");
                }
                Look::Free(pick) if !places.is_empty() => {
                    let at = pick % places.len();
                    let (place, _, is_there) = &mut places[at];
                    if std::mem::replace(is_there, false) {
                        writer.free(*place).unwrap();
                    }
                }
                _ => {}
            }
            for (at, (place, _, _)) in places.iter().enumerate().filter(|(_, (_, _, is_there))| *is_there) {
                let own = views.iter().filter(|(of, by, _)| (*of, *by) == (at, 0)).count() as u32;
                let others = views.iter().any(|(of, by, _)| *of == at && *by != 0);
                assert_eq!(writer.is_looked_at(*place, own), others, "a look is not seen, or seen where there is none");
                assert!(own == 0 || writer.is_looked_at(*place, own - 1));
            }
        }
        drop(views);
        writer.sweep();
        let left = places.iter().filter(|(_, _, is_there)| *is_there).count();
        assert_eq!(writer.used_bytes() > 0, left > 0);
        assert_eq!(clients.iter().map(|client| client.pins_count()).sum::<usize>(), 0);
    }
}
