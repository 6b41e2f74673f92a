use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;

use super::*;

/// A path of its own for each test; the file goes with it.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("eagleray-journal-{}-{number}", std::process::id())))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn nowhere() -> &'static Path {
    Path::new("nowhere")
}

fn file_of(frames: &[(u8, Vec<u8>)]) -> (Vec<u8>, Vec<usize>) {
    let mut bytes = header(7).to_vec();
    let mut ends = vec![bytes.len()];
    for (kind, payload) in frames {
        encode(*kind, &[payload], &mut bytes).unwrap();
        ends.push(bytes.len());
    }
    (bytes, ends)
}

fn frames() -> impl Strategy<Value = Vec<(u8, Vec<u8>)>> {
    proptest::collection::vec((any::<u8>(), proptest::collection::vec(any::<u8>(), 0..60)), 0..12)
}

fn seen(contents: &Contents) -> Vec<(u8, Vec<u8>)> {
    contents.iter().map(|frame| (frame.kind, frame.payload.to_vec())).collect()
}

proptest! {
    #[test]
    fn what_was_written_is_read(frames in frames()) {
        let contents = scan(file_of(&frames).0, nowhere()).unwrap();
        prop_assert_eq!(seen(&contents), frames);
        prop_assert_eq!((contents.torn_bytes, contents.damage), (0, None));
    }

    #[test]
    fn tj_1_a_file_cut_anywhere_has_the_whole_frames_before_the_cut(frames in frames(), cut in any::<prop::sample::Index>()) {
        let (bytes, ends) = file_of(&frames);
        let length = cut.index(bytes.len() + 1);
        let contents = scan(bytes[..length].to_vec(), nowhere()).unwrap();
        let whole = ends.iter().filter(|end| **end <= length).count().saturating_sub(1);
        prop_assert_eq!(seen(&contents), frames[..whole].to_vec());
        prop_assert_eq!(contents.end + contents.torn_bytes, length as u64);
        prop_assert_eq!(contents.damage, None);
    }

    #[test]
    fn tj_2_a_changed_byte_is_noticed(frames in frames(), place in any::<prop::sample::Index>(), change in 1_u8..) {
        let (mut bytes, ends) = file_of(&frames);
        let at = place.index(bytes.len());
        bytes[at] ^= change;
        match scan(bytes, nowhere()) {
            Err(_) => prop_assert!(at < PID_AT),
            Ok(contents) if at < HEADER_BYTES => prop_assert_eq!(seen(&contents), frames),
            Ok(contents) => {
                let hit = ends.iter().filter(|end| **end <= at).count() - 1;
                prop_assert_eq!(seen(&contents), frames[..hit].to_vec());
                // Only what is last can be a write that was cut short.
                if hit + 1 == frames.len() {
                    prop_assert_eq!(contents.damage, None);
                    prop_assert!(contents.torn_bytes > 0);
                } else {
                    prop_assert_eq!(contents.damage, Some(ends[hit] as u64));
                }
            }
        }
    }

    #[test]
    fn noise_is_never_a_panic(noise in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut bytes = header(1).to_vec();
        bytes.extend_from_slice(&noise);
        let _ = scan(noise, nowhere());
        prop_assert!(scan(bytes, nowhere()).is_ok());
    }
}

#[test]
fn a_second_writer_is_told_who_is_the_first() {
    let place = Place::new();
    let mut first = Writer::open(&place.0, true).unwrap();
    let refused = Writer::open(&place.0, true).unwrap_err();
    assert!(matches!(refused, Error::Locked { pid: Some(pid), .. } if pid == std::process::id()));
    assert!(
        refused.to_string().contains(&format!("another program, pid {}, works on this experiment", std::process::id()))
    );
    assert_eq!(read(&place.0).unwrap().writer(), Some(std::process::id()));
    first.close().unwrap();
    assert_eq!(read(&place.0).unwrap().writer(), None);
    Writer::open(&place.0, false).unwrap();
}

#[test]
fn events_come_back_in_order_and_by_kind() {
    let place = Place::new();
    let mut writer = Writer::open(&place.0, true).unwrap();
    writer.append_named("experiment", b"{}").unwrap();
    writer.append_named("mutation", b"[1]").unwrap();
    writer.append_result(70_000, b"{\"loss\": 1}").unwrap();
    writer.append(kind::OWN, b"x").unwrap();
    assert!(read(&place.0).unwrap().is_empty(), "append writes nothing");
    writer.flush().unwrap();
    let contents = writer.read().unwrap();
    assert_eq!(contents.len(), 4);
    assert_eq!(contents.get(0), Some(Frame { kind: kind::EXPERIMENT, payload: b"{}" }));
    assert_eq!(contents.get(1).unwrap().named(), Some(("mutation", &b"[1]"[..])));
    assert_eq!(contents.get(2).unwrap().result(), Some((70_000, &b"{\"loss\": 1}"[..])));
    assert_eq!(contents.get(3).unwrap().kind, kind::OWN);
    assert_eq!(writer.size(), fs::metadata(&place.0).unwrap().len());
}

#[test]
fn a_torn_tail_is_cut_off_and_told() {
    let place = Place::new();
    let (mut bytes, ends) = file_of(&[(1, b"one".to_vec()), (2, b"two".to_vec())]);
    bytes.truncate(ends[2] - 1);
    fs::write(&place.0, &bytes).unwrap();
    assert_eq!(read(&place.0).unwrap().torn_bytes, (bytes.len() - ends[1]) as u64);
    let mut writer = Writer::open(&place.0, false).unwrap();
    assert_eq!(writer.torn_bytes(), (bytes.len() - ends[1]) as u64);
    writer.append(3, b"three").unwrap();
    writer.close().unwrap();
    assert_eq!(seen(&read(&place.0).unwrap()), [(1, b"one".to_vec()), (3, b"three".to_vec())]);
}

#[test]
fn damage_in_the_middle_is_an_error_and_nothing_is_cut() {
    let place = Place::new();
    let (mut bytes, ends) = file_of(&[(1, b"one".to_vec()), (2, b"two".to_vec()), (3, b"three".to_vec())]);
    // A length that points beyond the end looks like a write that was cut short, but for what follows.
    bytes[ends[1] + 2] = 1;
    fs::write(&place.0, &bytes).unwrap();
    let error = Writer::open(&place.0, true).unwrap_err();
    assert!(matches!(error, Error::Damaged { offset, frames: 1, .. } if offset == ends[1] as u64), "{error}");
    assert_eq!(fs::read(&place.0).unwrap(), bytes);
    assert_eq!(seen(&read_until_damage(&place.0).unwrap()), [(1, b"one".to_vec())]);
}

#[test]
fn other_files_and_later_versions_are_refused() {
    let place = Place::new();
    fs::write(&place.0, "loss,accuracy\n1,2\n").unwrap();
    assert!(matches!(Writer::open(&place.0, true), Err(Error::NotAJournal(_))));
    let mut head = header(1);
    head[8] = 9;
    fs::write(&place.0, head).unwrap();
    assert!(matches!(read(&place.0), Err(Error::Version { found: 9, .. })));
}

#[test]
fn a_writer_that_was_killed_while_it_began_left_an_empty_journal() {
    let place = Place::new();
    for length in 0..HEADER_BYTES {
        fs::write(&place.0, &header(9)[..length]).unwrap();
        let mut writer = Writer::open(&place.0, true).unwrap();
        writer.append(1, b"x").unwrap();
        writer.close().unwrap();
        assert_eq!(read(&place.0).unwrap().len(), 1);
    }
}

#[test]
fn a_missing_file_is_made_only_when_asked() {
    let place = Place::new();
    let error = Writer::open(&place.0, false).unwrap_err();
    assert!(matches!(error, Error::Os { source, .. } if source.kind() == io::ErrorKind::NotFound));
    assert!(!place.0.exists());
}

#[test]
fn closed_is_closed_and_too_large_is_refused() {
    let place = Place::new();
    let mut writer = Writer::open(&place.0, true).unwrap();
    let huge = vec![0; FRAME_BYTES_MAX];
    assert!(matches!(writer.append(1, &huge), Err(Error::TooLarge { .. })));
    assert_eq!(writer.size(), HEADER_BYTES as u64);
    writer.close().unwrap();
    writer.close().unwrap();
    assert!(matches!(writer.append(1, b""), Err(Error::Closed(_))));
    assert!(matches!(writer.flush(), Err(Error::Closed(_))));
}

#[test]
fn what_was_appended_is_written_when_the_writer_is_dropped() {
    let place = Place::new();
    let mut writer = Writer::open(&place.0, true).unwrap();
    writer.append(1, b"last").unwrap();
    drop(writer);
    assert_eq!(read(&place.0).unwrap().len(), 1);
}

#[test]
fn tj_5_a_damaged_journal_is_cut_at_the_damage_and_kept_as_it_was() {
    let place = Place::new();
    let frames: Vec<(u8, Vec<u8>)> = (0..6).map(|at| (kind::OWN, vec![at; 20])).collect();
    let (mut bytes, ends) = file_of(&frames);
    bytes[ends[2] + 12] ^= 1;
    fs::write(&place.0, &bytes).unwrap();
    let told = Writer::open(&place.0, false).unwrap_err().to_string();
    let folder = place.0.parent().unwrap().display().to_string();
    assert!(told.contains(&format!("`eagleray tune repair {folder}`")), "{told}");

    let repair = repair(&place.0).unwrap().unwrap();
    let backup = Place(repair.backup.clone());
    assert_eq!(fs::read(&backup.0).unwrap(), bytes);
    assert_eq!((repair.offset, repair.kept, repair.dropped), (ends[2] as u64, 2, 3));
    assert_eq!(repair.bytes, (bytes.len() - ends[2]) as u64);
    assert_eq!(seen(&read(&place.0).unwrap()), frames[..2].to_vec());
    // Nothing is left to do.
    assert_eq!(super::repair(&place.0).unwrap(), None);

    // A second damage does not overwrite the first copy.
    let mut bytes = fs::read(&place.0).unwrap();
    bytes[ends[0] + 12] ^= 1;
    fs::write(&place.0, &bytes).unwrap();
    let second = super::repair(&place.0).unwrap().unwrap();
    let second_backup = Place(second.backup.clone());
    assert_ne!(backup.0, second_backup.0);
    assert_eq!((second.kept, second.dropped), (0, 1));
}

#[test]
fn tj_4_what_somebody_writes_is_not_repaired() {
    let place = Place::new();
    let _writer = Writer::open(&place.0, true).unwrap();
    assert!(matches!(repair(&place.0), Err(Error::Locked { .. })));
}
