//! Objects that leave the arena while others know their place.

mod common;

use std::path::Path;

use common::{KIB, MIB, attach, attach_with, holds, put};
use model::ProcId;
use proptest::prelude::*;
use store::{Error, FileReservation, Files, Folders, Host};

const BY: ProcId = ProcId::new(1, 3, 7);

struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("eagleray-files-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.0.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn files(folders: &[&Path]) -> Files {
    files_of(BY, folders, 1.0)
}

fn files_of(by: ProcId, folders: &[&Path], full_at: f64) -> Files {
    let list = folders.iter().map(|path| store::Folder::local(path.to_path_buf())).collect();
    Files::new(Folders { list, full_at }, by, |_| 0)
}

#[test]
fn store_9_a_freed_object_is_found_by_who_had_pinned_it_and_by_nobody_else() {
    let mut host = Host::create(64 * MIB, 2).unwrap();
    let (writer, _) = attach_with(&mut host, 0, 8 * MIB);
    let reader = attach(&host, 1);
    let place = put(&writer, 300 * KIB, 1);
    let view = reader.pin(place).unwrap();
    writer.free(place).unwrap();
    assert!(matches!(reader.pin(place), Err(Error::Moved)));
    assert!(holds(&view, 300 * KIB, 1));
    drop(view);
    writer.sweep();
    let other = put(&writer, 300 * KIB, 2);
    assert_eq!(other.offset, place.offset, "the same bytes again");
    assert!(matches!(reader.pin(place), Err(Error::Moved)));
    assert!(holds(&reader.pin(other).unwrap(), 300 * KIB, 2));
}

#[test]
fn store_9_what_a_dead_process_left_is_found_only_while_somebody_pins_it() {
    let mut host = Host::create(64 * MIB, 3).unwrap();
    let (writer, _) = attach_with(&mut host, 0, 8 * MIB);
    let (keeper, reader) = (attach(&host, 1), attach(&host, 2));
    let (kept, left) = (put(&writer, 300 * KIB, 1), put(&writer, 300 * KIB, 2));
    let pin = keeper.pin(kept).unwrap();
    drop(writer);
    host.process_gone(0);
    assert!(holds(&reader.pin(kept).unwrap(), 300 * KIB, 1));
    assert!(matches!(reader.pin(left), Err(Error::Moved)));
    drop(pin);
    host.sweep();
    assert!(matches!(reader.pin(kept), Err(Error::Moved)));
    assert_eq!(host.used(), 0);
}

#[test]
fn a_look_from_here_or_elsewhere_is_seen() {
    let mut host = Host::create(64 * MIB, 2).unwrap();
    let (writer, _) = attach_with(&mut host, 0, 8 * MIB);
    let reader = attach(&host, 1);
    let place = put(&writer, 300 * KIB, 1);
    assert!(!writer.is_looked_at(place, 0));
    let view = reader.pin(place).unwrap();
    assert!(writer.is_looked_at(place, 0) && !reader.is_looked_at(place, 1) && reader.is_looked_at(place, 0));
    drop(view);
    let kept = writer.pin_to_keep(place).unwrap();
    assert!(!writer.is_looked_at(place, 1));
    let _second = kept.clone();
    let _third = writer.pin(place).unwrap();
    assert!(writer.is_looked_at(place, 1));
}

proptest! {
    #[test]
    fn file_1_what_was_written_is_read(lengths in prop::collection::vec(0_usize..200_000, 1..12)) {
        let folder = Folder::new("read");
        let files = files(&[&folder.0]);
        let values: Vec<Vec<u8>> =
            lengths.iter().enumerate().map(|(at, length)| (0..*length).map(|byte| (byte * 31 + at) as u8).collect()).collect();
        let slices: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        let filed = files.write(&slices).unwrap();
        prop_assert_eq!(folder.names().len(), 1, "one file for all");
        for (value, filed) in values.iter().zip(&filed).filter(|(value, _)| !value.is_empty()) {
            let view = files.map(filed).unwrap();
            prop_assert!((view.as_ptr() as usize).is_multiple_of(64) && view.as_slice() == value.as_slice());
        }
        files.remove(filed[0].file);
        prop_assert!(folder.names().is_empty());
    }
}

#[test]
fn file_1_a_damaged_shortened_or_removed_file_is_an_error() {
    let folder = Folder::new("damaged");
    let (writer, value) = (files(&[&folder.0]), vec![7; 10_000]);
    for spoil in ["flip", "shorten", "remove"] {
        let filed = writer.write(&[&value, &value]).unwrap();
        assert!(files(&[&folder.0]).map(&filed[1]).is_ok());
        let path = folder.0.join(filed[0].file.to_string());
        match spoil {
            "flip" => {
                let mut bytes = std::fs::read(&path).unwrap();
                bytes[filed[1].offset as usize + 5_000] ^= 1;
                std::fs::write(&path, bytes).unwrap();
            }
            "shorten" => std::fs::File::options().write(true).open(&path).unwrap().set_len(15_000).unwrap(),
            _ => std::fs::remove_file(&path).unwrap(),
        }
        assert!(matches!(files(&[&folder.0]).map(&filed[1]), Err(Error::Lost { .. })), "{spoil}");
    }
}

#[test]
fn file_2_a_folder_that_fails_is_passed_over_and_nothing_is_left_there() {
    let (good, bad) = (Folder::new("good"), Folder::new("bad"));
    std::fs::remove_dir_all(&bad.0).unwrap();
    let both = files(&[&bad.0, &good.0]);
    for _ in 0..4 {
        let filed = both.write(&[&[1; 9_000]]).unwrap();
        assert!(both.map(&filed[0]).is_ok());
    }
    assert_eq!(good.names().len(), 4);
    let Err(Error::DiskFull { need, why }) = files(&[&bad.0]).write(&[&[1; 9_000]]) else { panic!("it was written") };
    assert!(need == 12_288 && why.contains("bad"), "{why}");
}

#[test]
fn file_3_a_folder_is_filled_to_its_limit_only() {
    let folder = Folder::new("limit");
    let full = files_of(BY, &[&folder.0], 0.0);
    assert!(matches!(full.write(&[&[1; 9_000]]), Err(Error::DiskFull { .. })));
    assert!(matches!(full.reserve(9_000).map(drop), Err(Error::DiskFull { .. })));
    assert!(matches!(full.write_pieces(&[1; 9_000], &[9_000]), Err(Error::DiskFull { .. })));
    assert!(folder.names().is_empty());
    assert!(!files(&[]).is_on() && files(&[]).write(&[&[1]]).is_err());
}

#[test]
fn a_file_goes_with_who_took_it_over_and_not_with_who_wrote_it() {
    let folder = Folder::new("taken");
    let writer = files(&[&folder.0]);
    let owner = files_of(ProcId::new(1, 30, 7), &[&folder.0], 1.0);
    let (given, own) = (writer.write(&[&[1; 9_000]]).unwrap()[0], writer.write(&[&[2; 9_000]]).unwrap()[0]);
    let taken = owner.take_over(given).unwrap();
    assert!(owner.take_over(given).is_err(), "it is gone from there");
    store::remove_files_of(BY, &[store::Folder::local(folder.0.clone())]);
    assert!(owner.map(&own).is_err());
    assert_eq!(owner.map(&taken).unwrap().as_slice(), [1; 9_000]);
    store::remove_files_of(ProcId::new(1, 30, 7), &[store::Folder::local(folder.0.clone())]);
    assert!(folder.names().is_empty());
}

#[test]
fn file_1_pieces_lie_side_by_side_and_a_damaged_one_is_an_error() {
    let folder = Folder::new("pieces");
    let files = files(&[&folder.0]);
    let pieces = files.write_pieces(b"onetwo three", &[3, 0, 3, 6]).unwrap();
    let loaded: Vec<Vec<u8>> = pieces.iter().map(|piece| files.load(piece).unwrap()).collect();
    assert_eq!(loaded, [&b"one"[..], b"", b"two", b" three"]);
    let path = folder.0.join(&folder.names()[0]);
    assert_eq!(path.metadata().unwrap().len(), 12);
    std::fs::write(&path, b"oneTwo thr").unwrap();
    assert_eq!(files.load(&pieces[0]).unwrap(), b"one");
    assert!(matches!(files.load(&pieces[2]), Err(Error::Lost { .. })), "damaged");
    assert!(matches!(files.load(&pieces[3]), Err(Error::Lost { .. })), "shortened");
    files.remove(pieces[0].file);
    assert!(folder.names().is_empty() && matches!(files.load(&pieces[0]), Err(Error::Lost { .. })));
}

#[test]
fn a_value_written_in_place_is_a_file_once_it_is_sealed() {
    let folder = Folder::new("place");
    let files = files(&[&folder.0]);
    drop(files.reserve(5_000).unwrap());
    assert!(folder.names().is_empty());
    let mut reservation: FileReservation = files.reserve(5_000).unwrap();
    reservation.as_mut_slice().fill(9);
    let filed = reservation.seal().unwrap();
    assert_eq!(files.map(&filed).unwrap().as_slice(), [9; 5_000]);
    assert_eq!(files.map(&filed).unwrap().place(), None);
}
