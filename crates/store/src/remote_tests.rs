//! Files in a bucket: what is local about them, and what is not.

use std::sync::atomic::AtomicBool;

use model::{FileId, Filed, ProcId};
use object_store::memory::InMemory;
use object_store::throttle::{ThrottleConfig, ThrottledStore};

use super::*;
use crate::{Error, Files, Folder, Folders, files_in, remove_files_of};

const BY: ProcId = ProcId::new(1, 3, 7);
const OTHER: ProcId = ProcId::new(1, 30, 7);
const MIB: usize = 1 << 20;

/// A bucket, and a local folder for the stand-ins.
struct Bucket {
    store: Store,
    path: PathBuf,
    is_gone: Arc<AtomicBool>,
}

impl Bucket {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("eagleray-bucket-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self { store: Arc::new(InMemory::new()), path, is_gone: Arc::default() }
    }

    fn remote(&self) -> Remote {
        let (store, is_gone) = (self.store.clone(), self.is_gone.clone());
        let connect = move || {
            if is_gone.load(Ordering::Relaxed) { Err(other("nobody listens")) } else { Ok(store.clone()) }
        };
        Remote::with_store("s3://bucket/some/where", spawn, Box::new(connect))
    }

    fn folder(&self) -> Folder {
        Folder::with_remote(self.path.clone(), self.remote())
    }

    /// The first byte of a value says how long its head is.
    fn files(&self, by: ProcId) -> Files {
        let folders = Folders { list: vec![self.folder()], full_at: 0.0 };
        Files::new(folders, by, |value| value.first().map_or(0, |length| usize::from(*length)))
    }

    fn keys(&self) -> Vec<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let found = runtime.block_on(self.store.list(None).try_collect::<Vec<_>>()).unwrap();
        found.into_iter().map(|object| object.location.to_string()).collect()
    }

    fn overwrite(&self, key: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let key = Key::from(key);
        let get = async { self.store.get(&key).await?.bytes().await };
        let mut bytes = runtime.block_on(get).unwrap().to_vec();
        change(&mut bytes);
        runtime.block_on(self.store.put(&key, bytes.into())).unwrap();
    }

    fn names(&self) -> Vec<String> {
        self.path.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// Deletions are waited for by nobody else.
    fn wait_until_empty(&self) {
        let start = Instant::now();
        while !(self.keys().is_empty() && self.names().is_empty()) {
            assert!(start.elapsed() < Duration::from_secs(20), "left: {:?} {:?}", self.keys(), self.names());
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn spawn(run: Box<dyn FnOnce() + Send>) -> std::io::Result<()> {
    std::thread::Builder::new().spawn(run).map(drop)
}

fn value(length: usize, number: usize) -> Vec<u8> {
    let mut value: Vec<u8> = (0..length).map(|at| (at * 31 + number) as u8).collect();
    value[0] = 100;
    value
}

fn put(files: &Files, length: usize) -> Filed {
    files.write(&[&value(length, 1)]).unwrap()[0]
}

#[test]
fn file_1_what_went_up_comes_down_from_its_offset() {
    let bucket = Bucket::new("read");
    let files = bucket.files(BY);
    let values: Vec<Vec<u8>> = [5_000, 4_096, 1, 20 * MIB + 7].iter().map(|length| value(*length, 5)).collect();
    let slices: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
    let filed = files.write(&slices).unwrap();
    assert_eq!(bucket.keys(), [format!("some/where/{}", filed[0].file)], "one object for all");
    for (value, filed) in values.iter().zip(&filed) {
        let view = bucket.files(OTHER).map(filed).unwrap();
        assert!((view.as_ptr() as usize).is_multiple_of(64) && view.as_slice() == value.as_slice());
    }
    files.remove(filed[0].file);
    assert!(!files.is_there(&filed[0]) && files.map(&filed[0]).is_err());
    bucket.wait_until_empty();
}

#[test]
fn file_1_pieces_come_down_one_by_one() {
    let bucket = Bucket::new("pieces");
    let files = bucket.files(BY);
    let pieces = files.write_pieces(b"onetwo three", &[3, 0, 3, 6]).unwrap();
    let loaded: Vec<Vec<u8>> = pieces.iter().map(|piece| bucket.files(OTHER).load(piece).unwrap()).collect();
    assert_eq!(loaded, [&b"one"[..], b"", b"two", b" three"]);
    bucket.overwrite(&format!("some/where/{}", pieces[0].file), |bytes| bytes[4] = b'W');
    assert!(matches!(bucket.files(OTHER).load(&pieces[2]), Err(Error::Lost { .. })), "damaged");
    files.remove(pieces[0].file);
    bucket.wait_until_empty();
}

#[test]
fn what_is_longer_than_one_request_takes_goes_up_in_parts() {
    let bucket = Bucket::new("parts");
    let files = bucket.files(BY);
    let (large, small) = (value(PUT_BYTES_MAX as usize + 3 * MIB + 5, 1), value(70_000, 2));
    let filed = files.write(&[&large, &small]).unwrap();
    assert!(files.map(&filed[0]).unwrap().as_slice() == large);
    assert!(files.map(&filed[1]).unwrap().as_slice() == small);
}

#[test]
fn heads_and_lengths_are_known_without_the_bucket() {
    let bucket = Bucket::new("heads");
    let (first, second) = (value(9_000, 1), value(9_000, 2));
    let filed = bucket.files(BY).write(&[&first, &second]).unwrap();
    bucket.is_gone.store(true, Ordering::Relaxed);
    let files = bucket.files(BY);
    assert_eq!(files.read(&filed[0], 100).unwrap(), first[..100]);
    assert_eq!(files.read(&filed[1], 100).unwrap(), second[..100]);
    assert!(files.is_there(&filed[1]));
    assert_eq!(files_in(&[bucket.folder()]).0, 1);
    assert!(files_in(&[bucket.folder()]).1 >= 18_000);
    assert!(matches!(files.map(&filed[0]), Err(Error::Lost { why, .. }) if why.contains("nobody listens")));
}

#[test]
fn file_1_a_damaged_shortened_or_deleted_object_is_an_error() {
    let bucket = Bucket::new("damaged");
    for spoil in ["flip", "shorten", "delete"] {
        let files = bucket.files(BY);
        let filed = files.write(&[&value(9_000, 1), &value(9_000, 2)]).unwrap();
        assert!(bucket.files(OTHER).map(&filed[1]).is_ok());
        let key = format!("some/where/{}", filed[0].file);
        match spoil {
            "flip" => bucket.overwrite(&key, |bytes| bytes[filed[1].offset as usize + 5_000] ^= 1),
            "shorten" => bucket.overwrite(&key, |bytes| bytes.truncate(15_000)),
            _ => bucket.remote().purge(),
        }
        assert!(matches!(bucket.files(OTHER).map(&filed[1]), Err(Error::Lost { .. })), "{spoil}");
        files.remove(filed[0].file);
        bucket.wait_until_empty();
    }
}

#[test]
fn file_2_a_write_that_fails_leaves_nothing_behind() {
    let bucket = Bucket::new("fails");
    bucket.is_gone.store(true, Ordering::Relaxed);
    let files = bucket.files(BY);
    let Err(Error::DiskFull { need, why }) = files.write(&[&value(9_000, 1)]) else { panic!("it was written") };
    assert!(need == 12_288 && why.contains("s3://bucket/some/where: ") && why.contains("nobody listens"), "{why}");
    let mut reservation = files.reserve(9_000).unwrap();
    reservation.as_mut_slice()[0] = 1;
    assert!(matches!(reservation.seal(), Err(Error::DiskFull { .. })));
    bucket.is_gone.store(false, Ordering::Relaxed);
    // What could not be deleted is remembered until its process is gone.
    let node = [bucket.folder()];
    remove_files_of(BY, &node);
    bucket.wait_until_empty();
    assert!(put(&files, 9_000).length == 9_000, "and it works again");
}

#[test]
fn a_value_written_in_place_goes_up_when_it_is_sealed() {
    let bucket = Bucket::new("place");
    let files = bucket.files(BY);
    drop(files.reserve(5_000).unwrap());
    let mut reservation = files.reserve(5_000).unwrap();
    reservation.as_mut_slice().fill(9);
    assert!(bucket.keys().is_empty() && bucket.names().is_empty());
    let filed = reservation.seal().unwrap();
    let view = files.map(&filed).unwrap();
    assert_eq!(view.as_slice(), [9; 5_000]);
    assert_eq!(files.map(&filed).unwrap().as_ptr(), view.as_ptr(), "who looks at the same time shares it");
}

#[test]
fn a_file_goes_with_who_took_it_over_and_not_with_who_wrote_it() {
    let bucket = Bucket::new("taken");
    let (writer, owner) = (bucket.files(BY), bucket.files(OTHER));
    let (given, own) = (put(&writer, 9_000), put(&writer, 9_001));
    let taken = owner.take_over(given).unwrap();
    assert!(owner.take_over(given).is_err(), "it is gone from there");
    let node = [bucket.folder()];
    remove_files_of(BY, &node);
    assert!(owner.map(&own).is_err());
    assert_eq!(owner.map(&taken).unwrap().as_slice(), value(9_000, 1));
    assert_eq!(owner.read(&taken, 100).unwrap(), value(9_000, 1)[..100]);
    remove_files_of(OTHER, &node);
    bucket.wait_until_empty();
}

#[test]
fn what_a_process_had_no_time_to_delete_is_deleted_after_its_death() {
    let bucket = Bucket::new("dead");
    let filed = put(&bucket.files(BY), 9_000);
    bucket.is_gone.store(true, Ordering::Relaxed);
    bucket.files(BY).remove(filed.file);
    assert_eq!(bucket.names(), [format!("{}.gone", filed.file)]);
    assert_eq!(bucket.keys().len(), 1);
    bucket.is_gone.store(false, Ordering::Relaxed);
    let node = [bucket.folder()];
    remove_files_of(BY, &node);
    bucket.wait_until_empty();
}

#[test]
fn a_session_deletes_what_is_its_own() {
    let bucket = Bucket::new("purge");
    let files = bucket.files(BY);
    for length in 5_000..5_030 {
        put(&files, length);
    }
    let beside = Remote::with_store("s3://bucket/some/whereelse", spawn, {
        let store = bucket.store.clone();
        Box::new(move || Ok(store.clone()))
    });
    beside.put("precious", &[b"bytes"]).unwrap();
    bucket.remote().purge();
    assert_eq!(bucket.keys(), ["some/whereelse/precious"]);
}

#[test]
fn a_bucket_that_does_not_answer_is_given_up() {
    let slow = ThrottleConfig { wait_get_per_call: Duration::from_secs(3_600), ..Default::default() };
    let mut bucket = Bucket::new("slow");
    bucket.store = Arc::new(ThrottledStore::new(InMemory::new(), slow));
    let files = bucket.files(BY);
    let filed = put(&files, 9_000);
    let mut asked = 0;
    let goes_on = &mut || {
        asked += 1;
        asked < 3
    };
    assert!(matches!(files.map_while(&filed, goes_on), Err(Error::GivenUp(file)) if file == filed.file));
    assert_eq!(asked, 3);
    // Who waits for as long as it takes learns of it too.
    let key = Key::from("some/where").join(filed.file.to_string());
    let get = |store: Store| async move { store.get(&key).await.map(drop) };
    let why = bucket.remote().run(Duration::from_millis(20), get).unwrap_err();
    assert!(why.contains("no answer within"), "{why}");
}

#[test]
fn who_waits_when_the_session_ends_is_told() {
    let slow = ThrottleConfig { wait_put_per_call: Duration::from_secs(3_600), ..Default::default() };
    let mut bucket = Bucket::new("closed");
    bucket.store = Arc::new(ThrottledStore::new(InMemory::new(), slow));
    let files = bucket.files(BY);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| files.write(&[&value(9_000, 1)]));
        while bucket.names().is_empty() {
            std::thread::yield_now();
        }
        files.close();
        assert!(matches!(writer.join().unwrap(), Err(Error::DiskFull { why, .. }) if why.contains("has ended")));
    });
    assert!(files.write(&[&value(9_000, 1)]).is_err());
}

#[test]
fn a_file_of_a_folder_that_there_is_not_is_lost() {
    let bucket = Bucket::new("nowhere");
    let filed = put(&bucket.files(BY), 9_000);
    let file = FileId { folder: 5, ..filed.file };
    assert!(matches!(bucket.files(BY).map(&Filed { file, ..filed }), Err(Error::Lost { .. })));
}

#[test]
fn what_people_read_has_no_credentials_in_it() {
    let remote = Remote { secrets: vec!["s3cr3t".into()], ..Bucket::new("secret").remote() };
    let said = remote.for_people("<Error>\n  <Key>s3cr3t</Key> no </Error>");
    assert_eq!(said, "s3://bucket/some/where: <Error> <Key>***</Key> no </Error>");
    assert!(remote.for_people(&"x".repeat(100_000)).len() < 1_000);
}
