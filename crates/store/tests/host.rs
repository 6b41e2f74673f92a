//! What the node grants, takes back and clears up.

mod common;

use std::collections::BTreeMap;

use common::{KIB, MIB, attach, attach_with, holds, put};
use proptest::prelude::*;
use store::{CHUNK_BYTES, Client, EXTENT_BYTES, EXTENT_BYTES_MAX, Error, Extent, Host, Place, View};

#[test]
fn an_empty_arena_takes_no_memory() {
    let host = Host::create(64 << 30, 1_000).unwrap();
    assert_eq!(host.resident().unwrap(), 0);
    assert_eq!((host.used(), host.free(), host.capacity(), host.warm()), (0, 64 << 30, 64 << 30, 0));
}

#[test]
fn nobody_can_resize_the_arena() {
    let host = Host::create(MIB, 1).unwrap();
    for fd in [host.data_fd(), host.table_fd()] {
        assert!(rustix::fs::ftruncate(fd, 0).is_err());
        assert!(rustix::fs::ftruncate(fd, 1 << 40).is_err());
        assert!(rustix::io::fcntl_getfd(fd).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
    }
}

#[test]
fn a_process_that_asks_often_gets_larger_extents() {
    let mut host = Host::create(4 << 30, 2).unwrap();
    let lengths: Vec<u64> = (0..12).map(|_| host.grant(0, 100 * KIB).unwrap().length).collect();
    assert_eq!(lengths[0], EXTENT_BYTES);
    assert_eq!(*lengths.last().unwrap(), EXTENT_BYTES_MAX);
    assert!(lengths.is_sorted());
    assert_eq!(host.grant(1, 100 * KIB).unwrap().length, EXTENT_BYTES, "another process starts small");
    assert_eq!(host.grant(1, 100 * MIB + 1).unwrap().length, 100 * MIB + CHUNK_BYTES, "a large request is exact");
}

#[test]
fn a_small_arena_is_leased_in_small_pieces_to_its_end() {
    let mut host = Host::create(4 * MIB, 1).unwrap();
    let mut leased = 0;
    let refused = loop {
        match host.grant(0, 64 * KIB) {
            Ok(extent) => leased += extent.length,
            Err(error) => break error,
        }
    };
    assert_eq!((leased, host.free()), (4 * MIB, 0));
    assert!(matches!(refused, Error::Full { need, free: 0, capacity } if need == 64 * KIB && capacity == 4 * MIB));
    assert!(refused.is_retryable());
    let never = host.grant(0, 4 * MIB + 1).unwrap_err();
    assert!(matches!(never, Error::TooLarge { .. }) && !never.is_retryable());
}

#[test]
fn store_6_an_extent_that_is_not_a_lease_is_refused() {
    let mut host = Host::create(64 * MIB, 2).unwrap();
    let extent = host.grant(0, 8 * MIB).unwrap();
    let Extent { offset, length } = extent;
    let wrong = [
        (1, extent),
        (0, Extent { offset, length: length / 2 }),
        (0, Extent { offset: offset + CHUNK_BYTES, length: length - CHUNK_BYTES }),
        (0, Extent { offset, length: u64::MAX }),
    ];
    for (slot, extent) in wrong {
        assert!(matches!(host.take_back(slot, extent), Err(Error::BadExtent(_))));
    }
    assert_eq!(host.used(), length);
    host.take_back(0, extent).unwrap();
    assert!(matches!(host.take_back(0, extent), Err(Error::BadExtent(_))), "not twice");
    assert!(matches!(host.grant(2, 1), Err(Error::BadSlot { slot: 2, procs_max: 2 })));
    assert_eq!(host.used(), 0);
}

#[test]
fn store_8_warm_memory_is_granted_before_cold() {
    let mut host = Host::create(256 * MIB, 2).unwrap();
    let (client, first) = attach_with(&mut host, 0, 20 * MIB);
    let second = host.grant(0, 20 * MIB).unwrap();
    client.add_extent(second).unwrap();
    put(&client, 20 * MIB, 1);
    put(&client, 20 * MIB, 1);
    drop(client);
    host.process_gone(0);
    assert_eq!(host.warm(), 40 * MIB);
    assert_eq!(host.resident().unwrap(), 40 * MIB);

    let again = host.grant(1, 16 * MIB).unwrap();
    assert!(again.offset + again.length <= second.offset + second.length, "cut from what was touched");
    let rest = host.grant(1, 24 * MIB).unwrap();
    assert!(rest.offset + rest.length <= second.offset + second.length);
    assert_eq!(host.warm(), 0);
    let partly = (first.offset, host.grant(1, 30 * MIB).unwrap());
    assert_eq!(partly.1.offset, partly.0 + 40 * MIB, "then what nobody has touched");
}

#[test]
fn store_8_a_grant_reaches_from_warm_memory_into_cold() {
    let mut host = Host::create(256 * MIB, 2).unwrap();
    let in_the_way = host.grant(1, 64 * MIB).unwrap();
    let (client, _) = attach_with(&mut host, 0, 20 * MIB);
    put(&client, 20 * MIB, 1);
    drop(client);
    host.process_gone(0);
    host.take_back(1, in_the_way).unwrap();
    let extent = host.grant(1, 40 * MIB).unwrap();
    assert_eq!(host.warm(), 0, "all 20 MiB that are warm are part of {extent:?}");
}

#[test]
fn store_4_of_a_dead_process_only_what_is_pinned_stays() {
    let mut host = Host::create(64 * MIB, 2).unwrap();
    let (dying, _) = attach_with(&mut host, 0, MIB);
    let reader = attach(&host, 1);
    let place = put(&dying, 300 * KIB, 7);
    put(&dying, 300 * KIB, 8);
    let view = reader.pin(place).unwrap();
    drop(dying);
    host.process_gone(0);
    assert!(host.used() >= 300 * KIB && host.used() <= 300 * KIB + 2 * CHUNK_BYTES);
    assert!(holds(&view, 300 * KIB, 7), "STORE-3: somebody looks at it");
    drop(view);
    host.sweep();
    assert_eq!((host.used(), host.orphaned()), (0, 0));
}

#[test]
fn store_3_an_extent_given_back_too_early_is_not_granted_while_it_is_pinned() {
    let mut host = Host::create(64 * MIB, 2).unwrap();
    let (careless, extent) = attach_with(&mut host, 0, 8 * MIB);
    let reader = attach(&host, 1);
    let view = reader.pin(put(&careless, 8 * MIB, 3)).unwrap();
    host.take_back(0, extent).unwrap();
    assert_eq!(host.orphaned(), 8 * MIB);
    drop(view);
    host.sweep();
    assert_eq!(host.used(), 0);
}

const CHUNKS: u64 = 64;
const SLOTS: u16 = 3;

#[derive(Clone, Debug)]
enum Step {
    Grant { slot: u16, length: u64 },
    TakeBack(prop::sample::Index),
    Gone { slot: u16 },
    Pin { slot: u16, extent: prop::sample::Index, start: u64, length: u64 },
    Unpin(prop::sample::Index),
    Sweep,
}

fn step() -> impl Strategy<Value = Step> {
    let index = any::<prop::sample::Index>;
    let bytes = 0..4 * CHUNK_BYTES;
    prop_oneof![
        6 => (0..SLOTS, prop_oneof![1..CHUNK_BYTES, 1..20 * CHUNK_BYTES]).prop_map(|(slot, length)| Step::Grant { slot, length }),
        3 => index().prop_map(Step::TakeBack),
        2 => (0..SLOTS).prop_map(|slot| Step::Gone { slot }),
        4 => (0..SLOTS, index(), bytes.clone(), bytes).prop_map(|(slot, extent, start, length)| Step::Pin { slot, extent, start, length }),
        3 => index().prop_map(Step::Unpin),
        1 => Just(Step::Sweep),
    ]
}

/// What each chunk of the arena is: that every chunk has one entry is STORE-2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chunk {
    Free,
    Held,
    Orphan,
}

struct Model {
    chunks: Vec<Chunk>,
    extents: BTreeMap<u64, (u16, Extent)>,
    views: Vec<(u16, View)>,
}

impl Model {
    fn paint(&mut self, extent: Extent, from: Chunk, to: Chunk) {
        for chunk in extent.offset / CHUNK_BYTES..(extent.offset + extent.length) / CHUNK_BYTES {
            assert_eq!(self.chunks[chunk as usize], from, "STORE-2: chunk {chunk} in {extent:?}");
            self.chunks[chunk as usize] = to;
        }
    }

    /// Orphans that nobody needs become free; the others do not (STORE-3).
    fn sweep(&mut self) {
        let needed = |chunk: u64| {
            let (start, end) = (chunk * CHUNK_BYTES, (chunk + 1) * CHUNK_BYTES);
            let meets = |place: Place| place.offset < end && place.offset + place.length.max(1) > start;
            self.views.iter().any(|(_, view)| view.place().is_some_and(meets))
        };
        let free: Vec<u64> =
            (0..CHUNKS).filter(|&chunk| self.chunks[chunk as usize] == Chunk::Orphan && !needed(chunk)).collect();
        free.into_iter().for_each(|chunk| self.chunks[chunk as usize] = Chunk::Free);
    }

    fn place(&self, extent: prop::sample::Index, start: u64, length: u64) -> Option<Place> {
        let &(_, extent) = self.extents.values().nth(extent.index(self.extents.len().max(1)))?;
        let start = start % extent.length / 64 * 64;
        Some(Place {
            offset: extent.offset + start,
            length: length.min(extent.length - start),
            serial: Place::serials_of(1),
        })
    }

    fn bytes(&self, wanted: Chunk) -> u64 {
        self.chunks.iter().filter(|&&chunk| chunk == wanted).count() as u64 * CHUNK_BYTES
    }
}

fn attach_all(host: &Host) -> Vec<Client> {
    (0..SLOTS).map(|slot| attach(host, slot)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn store_2_every_chunk_is_free_or_held_or_orphaned(steps in prop::collection::vec(step(), 1..60)) {
        let mut host = Host::create(CHUNKS * CHUNK_BYTES, SLOTS).unwrap();
        let mut clients = attach_all(&host);
        let mut model = Model {
            chunks: vec![Chunk::Free; CHUNKS as usize],
            extents: BTreeMap::new(),
            views: Vec::new(),
        };
        for step in steps {
            match step {
                Step::Grant { slot, length } => match host.grant(slot, length) {
                    Ok(extent) => {
                        prop_assert!(extent.length >= length);
                        model.paint(extent, Chunk::Free, Chunk::Held);
                        model.extents.insert(extent.offset, (slot, extent));
                    }
                    Err(error) => {
                        let full = matches!(error, Error::Full { .. });
                        prop_assert!(full, "{}", error);
                        let chunks = length.div_ceil(CHUNK_BYTES) as usize;
                        let fits = model.chunks.windows(chunks).any(|run| run.iter().all(|&chunk| chunk == Chunk::Free));
                        prop_assert!(!fits, "refused though it would fit");
                    }
                },
                Step::TakeBack(index) => {
                    let picked = model.extents.values().nth(index.index(model.extents.len().max(1))).copied();
                    if let Some((slot, extent)) = picked {
                        host.take_back(slot, extent).unwrap();
                        model.extents.remove(&extent.offset);
                        model.paint(extent, Chunk::Held, Chunk::Orphan);
                        model.sweep_within(extent);
                    }
                }
                Step::Gone { slot } => {
                    model.views.retain(|(of, _)| *of != slot);
                    clients.remove(slot.into());
                    host.process_gone(slot);
                    clients.insert(slot.into(), attach(&host, slot));
                    let gone: Vec<Extent> =
                        model.extents.values().filter(|(of, _)| *of == slot).map(|&(_, extent)| extent).collect();
                    for extent in gone {
                        model.extents.remove(&extent.offset);
                        model.paint(extent, Chunk::Held, Chunk::Orphan);
                    }
                    model.sweep();
                }
                Step::Pin { slot, extent, start, length } => {
                    if let Some(place) = model.place(extent, start, length) {
                        model.views.push((slot, clients[usize::from(slot)].pin(place).unwrap()));
                    }
                }
                Step::Unpin(index) => {
                    if !model.views.is_empty() {
                        model.views.swap_remove(index.index(model.views.len()));
                    }
                }
                Step::Sweep => {
                    host.sweep();
                    model.sweep();
                }
            }
            prop_assert_eq!(host.free(), model.bytes(Chunk::Free));
            prop_assert_eq!(host.orphaned(), model.bytes(Chunk::Orphan));
            prop_assert_eq!(host.used() + host.free(), host.capacity());
        }
        model.views.clear();
        (0..SLOTS).for_each(|slot| host.process_gone(slot));
        prop_assert_eq!((host.used(), host.orphaned()), (0, 0), "STORE-4");
    }
}

impl Model {
    /// Giving back looks at the extent only, not at older orphans elsewhere.
    fn sweep_within(&mut self, extent: Extent) {
        let inside = |chunk: usize| {
            (extent.offset / CHUNK_BYTES..(extent.offset + extent.length) / CHUNK_BYTES).contains(&(chunk as u64))
        };
        let before = self.chunks.clone();
        self.sweep();
        for (chunk, was) in before.into_iter().enumerate() {
            if !inside(chunk) {
                self.chunks[chunk] = was;
            }
        }
    }
}

#[test]
fn what_nobody_holds_can_be_given_back_to_the_system() {
    let mut host = Host::create(64 * MIB, 2).unwrap();
    let (client, _) = attach_with(&mut host, 0, 8 * MIB);
    let place = put(&client, 6 * MIB, 1);
    assert_eq!(host.cool(), 0, "it is held");
    let resident = host.resident().unwrap();
    client.free(place).unwrap();
    for extent in client.idle_extents(0) {
        host.take_back(0, extent).unwrap();
    }
    assert!(host.cool() >= 6 * MIB && host.warm() == 0);
    assert!(host.resident().unwrap() + 6 * MIB <= resident);
    client.add_extent(host.grant(0, 8 * MIB).unwrap()).unwrap();
    assert!(holds(&client.pin(put(&client, 6 * MIB, 2)).unwrap(), 6 * MIB, 2));
}
