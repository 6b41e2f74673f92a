use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// A folder below the system's for temporary files, gone with the test.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("eagleray-identity-{}-{number}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&path).unwrap();
        Self(path)
    }

    fn folder(&self) -> Folder {
        Folder::open(self.0.join("identity")).unwrap()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn files_are_0600_in_a_folder_of_0700_whatever_was_written() {
    let temporary = Temporary::new();
    let folder = temporary.folder();
    assert_eq!(mode(&folder.path), 0o700);
    folder.write("token", b"one").unwrap();
    folder.write("token", b"two").unwrap();
    assert_eq!(mode(&folder.path.join("token")), 0o600);
    assert_eq!(folder.read("token").unwrap().unwrap().as_slice(), b"two");
    assert_eq!(fs::read_dir(&folder.path).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn a_file_that_is_not_there_reads_as_nothing() {
    let temporary = Temporary::new();
    assert!(temporary.folder().read("token").unwrap().is_none());
}

#[test]
fn a_torn_write_leaves_the_old_content_and_does_not_hinder_the_next() {
    let temporary = Temporary::new();
    let folder = temporary.folder();
    folder.write("token", b"old").unwrap();
    // Somebody died in the middle of writing.
    fs::write(folder.beside("token"), b"ne").unwrap();
    assert_eq!(folder.read("token").unwrap().unwrap().as_slice(), b"old");
    folder.write("token", b"new").unwrap();
    assert_eq!(folder.read("token").unwrap().unwrap().as_slice(), b"new");
    assert!(!folder.beside("token").exists());
}

#[test]
fn a_write_that_fails_leaves_the_old_content() {
    let temporary = Temporary::new();
    let folder = temporary.folder();
    folder.write("token", b"old").unwrap();
    fs::create_dir(folder.beside("token")).unwrap();
    assert!(folder.write("token", b"new").is_err());
    assert_eq!(folder.read("token").unwrap().unwrap().as_slice(), b"old");
}

#[test]
fn writers_take_turns_and_a_reader_sees_one_content_whole() {
    let temporary = Temporary::new();
    let folder = temporary.folder();
    folder.write("token", &[0; 4096]).unwrap();
    std::thread::scope(|scope| {
        for byte in 0..4 {
            let folder = temporary.folder();
            scope.spawn(move || (0..20).for_each(|_| folder.write("token", &[byte; 4096]).unwrap()));
        }
        for _ in 0..200 {
            let bytes = folder.read("token").unwrap().unwrap();
            assert!(bytes.len() == 4096 && bytes.iter().all(|byte| *byte == bytes[0]));
        }
    });
}

#[test]
fn threads_that_share_a_folder_take_turns() {
    let temporary = Temporary::new();
    let folder = temporary.folder();
    std::thread::scope(|scope| {
        for byte in 0..4 {
            let folder = &folder;
            scope.spawn(move || (0..20).for_each(|_| folder.write("token", &[byte; 4096]).unwrap()));
        }
    });
    let bytes = folder.read("token").unwrap().unwrap();
    assert!(bytes.len() == 4096 && bytes.iter().all(|byte| *byte == bytes[0]));
}

/// Reads a number, and writes the next one.
fn count(folder: &Folder) -> u8 {
    let next = |old: Option<&[u8]>| {
        let next = old.map_or(0, |old| old[0]) + 1;
        Ok((Zeroizing::new(vec![next]), next))
    };
    folder.update("count", next).unwrap()
}

#[test]
fn of_updates_by_threads_and_by_other_handles_none_is_lost() {
    let temporary = Temporary::new();
    let (shared, other) = (temporary.folder(), temporary.folder());
    std::thread::scope(|scope| {
        for folder in [&shared, &shared, &shared, &other] {
            scope.spawn(move || (0..10).for_each(|_| _ = count(folder)));
        }
    });
    assert_eq!(count(&shared), 41);
}

#[test]
fn an_update_that_fails_or_panics_leaves_the_old_content_and_nobody_waiting() {
    let temporary = Temporary::new();
    let folder = temporary.folder();
    assert_eq!(count(&folder), 1);
    let failed = folder.update::<()>("count", |_| Err(Error::Ended));
    assert!(matches!(failed, Err(Error::Ended)));
    let panicked = std::thread::scope(|scope| {
        scope.spawn(|| folder.update::<()>("count", |_| panic!("in the middle of its turn"))).join()
    });
    assert!(panicked.is_err());
    assert_eq!((count(&folder), count(&temporary.folder())), (2, 3));
}

#[test]
fn names_that_lead_out_of_the_folder_or_beside_a_place_are_refused() {
    let temporary = Temporary::new();
    let folder = temporary.folder();
    folder.write("token.v1", b"fine").unwrap();
    for name in ["", ".", "..", "../token", "a/b", "/token", "a..b", ".token.new"] {
        assert!(folder.write(name, b"stray").is_err(), "{name:?}");
        assert!(folder.read(name).is_err(), "{name:?}");
        assert!(folder.update(name, |_| Ok((Zeroizing::new(vec![]), ()))).is_err(), "{name:?}");
    }
    assert_eq!(fs::read_dir(&temporary.0).unwrap().count(), 1, "nothing lies outside");
    assert_eq!(fs::read_dir(&folder.path).unwrap().count(), 1);
}

#[test]
fn what_others_can_read_is_refused_with_the_command_that_helps() {
    let temporary = Temporary::new();
    let folder = temporary.folder();
    folder.write("token", b"secret").unwrap();
    set_mode(&folder.path.join("token"), 0o640);
    let error = folder.read("token").unwrap_err().to_string();
    assert!(error.contains("chmod 600") && error.contains("640"), "{error}");
    set_mode(&folder.path, 0o755);
    let error = Folder::open(&folder.path).unwrap_err().to_string();
    assert!(error.contains("chmod 700"), "{error}");
}

#[test]
fn links_and_large_files_are_refused() {
    let temporary = Temporary::new();
    let folder = temporary.folder();
    folder.write("token", b"secret").unwrap();
    std::os::unix::fs::symlink("token", folder.path.join("link")).unwrap();
    assert!(folder.read("link").is_err());
    std::os::unix::fs::symlink(&folder.path, temporary.0.join("link")).unwrap();
    assert!(Folder::open(temporary.0.join("link")).is_err());
    folder.write("large", &vec![0; FILE_BYTES_MAX as usize + 1]).unwrap();
    assert!(folder.read("large").is_err());
}
