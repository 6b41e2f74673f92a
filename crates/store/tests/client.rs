//! What one process promises to itself and to its neighbours, while everybody lives.

mod common;

use std::mem::ManuallyDrop;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use common::{KIB, MIB, attach, attach_with, holds, put};
use proptest::prelude::*;
use store::{CHUNK_BYTES, Client, Error, Extent, Host, NeedExtent, Place, Reservation, View, copy_into};

#[test]
fn an_object_is_read_where_it_was_written() {
    let mut host = Host::create(64 * MIB, 2).unwrap();
    let writer = attach(&host, 0);
    let reader = attach(&host, 1);
    let need = writer.reserve(3 * MIB + 1).unwrap_err();
    assert_eq!(need, NeedExtent { length: 3 * MIB + 4096 });
    writer.add_extent(host.grant(0, need.length).unwrap()).unwrap();

    let mut reservation = writer.reserve(3 * MIB + 1).unwrap();
    let source: Vec<u8> = (0..3 * MIB + 1).map(|n| n as u8).collect();
    copy_into(reservation.as_mut_slice(), &source);
    let place = reservation.seal();
    assert!(place.offset.is_multiple_of(4096) && place.length == 3 * MIB + 1);
    let view = reader.pin(place).unwrap();
    assert!(*view == source[..]);
    assert_ne!(view.as_ptr(), writer.pin(place).unwrap().as_ptr(), "two mappings of one memory");
    writer.free(place).unwrap();
    assert!(*view == source[..]);
}

#[test]
fn an_empty_object_is_an_object() {
    let mut host = Host::create(MIB, 1).unwrap();
    let (client, _) = attach_with(&mut host, 0, 1);
    let (first, second) = (put(&client, 0, 0), put(&client, 0, 0));
    assert_ne!(first.offset, second.offset);
    assert!(client.pin(first).unwrap().is_empty());
    client.free(first).unwrap();
    client.free(second).unwrap();
    assert_eq!(client.used_bytes(), 0);
}

#[test]
fn a_reservation_that_is_dropped_leaves_nothing() {
    let mut host = Host::create(64 * MIB, 1).unwrap();
    let (client, extent) = attach_with(&mut host, 0, MIB);
    drop(client.reserve(100 * KIB).unwrap());
    assert_eq!((client.used_bytes(), client.held_bytes()), (0, extent.length));
    assert_eq!(client.idle_extents(0), [extent]);
    assert_eq!(client.held_bytes(), 0);
    host.take_back(0, extent).unwrap();
    assert_eq!(host.used(), 0);
}

#[test]
fn store_3_what_is_freed_while_pinned_is_reused_only_afterwards() {
    let mut host = Host::create(64 * MIB, 3).unwrap();
    let (owner, extent) = attach_with(&mut host, 0, 8 * MIB);
    let readers = [attach(&host, 1), attach(&host, 2), owner.clone()];
    let place = put(&owner, 8 * MIB, 5);
    let mut views: Vec<View> = readers.iter().map(|reader| reader.pin(place).unwrap()).collect();
    views.push(views[0].clone());
    owner.free(place).unwrap();
    assert!(matches!(owner.free(place), Err(Error::BadPlace(_))), "STORE-6: not twice");
    while let Some(view) = views.pop() {
        assert!(owner.reserve(MIB).is_err(), "its bytes are the only ones, and somebody looks at them");
        assert!(owner.idle_extents(0).is_empty());
        assert!(holds(&view, 8 * MIB, 5));
    }
    assert_eq!(put(&owner, 8 * MIB, 6).offset, extent.offset);
}

#[test]
fn store_3_many_kept_blocks_come_back_when_their_views_go() {
    let mut host = Host::create(64 * MIB, 2).unwrap();
    let (owner, _) = attach_with(&mut host, 0, 32 * MIB);
    let reader = attach(&host, 1);
    let places: Vec<Place> = (0..5_000).map(|_| put(&owner, 64, 1)).collect();
    let mut views: Vec<View> = places.iter().map(|&place| reader.pin(place).unwrap()).collect();
    places.iter().for_each(|&place| owner.free(place).unwrap());
    assert_eq!(owner.used_bytes(), 5_000 * 64);
    views.truncate(1_000);
    owner.sweep();
    assert_eq!(owner.used_bytes(), 1_000 * 64);
    drop(views);
    owner.sweep();
    assert_eq!(owner.used_bytes(), 0);
}

#[test]
fn store_6_bad_places_and_extents_are_refused() {
    let mut host = Host::create(64 * MIB, 2).unwrap();
    let (owner, extent) = attach_with(&mut host, 0, MIB);
    let (other, other_extent) = attach_with(&mut host, 1, MIB);
    let place = put(&owner, 100 * KIB, 1);
    let bad = |length, offset| Place { offset, length, serial: Place::serials_of(1) };
    for place in [bad(1, 64 * MIB), bad(u64::MAX, 64), bad(2, u64::MAX), bad(64 * MIB + 1, 0)] {
        assert!(matches!(owner.pin(place), Err(Error::BadPlace(_))));
    }
    for place in [bad(place.length + 1, place.offset), bad(64, place.offset + 64), bad(1, u64::MAX)] {
        assert!(matches!(owner.free(place), Err(Error::BadPlace(_))));
    }
    assert!(matches!(other.free(place), Err(Error::BadPlace(_))), "another's object");
    let reservation = other.reserve(64 * MIB + 1);
    assert!(reservation.is_err());
    assert!(other.reserve(u64::MAX).is_err());

    let wrong = [
        extent,
        Extent { offset: extent.offset, length: CHUNK_BYTES },
        Extent { offset: 1, length: CHUNK_BYTES },
        Extent { offset: other_extent.offset, length: 0 },
        Extent { offset: 64 * MIB, length: CHUNK_BYTES },
        Extent { offset: u64::MAX - CHUNK_BYTES + 1, length: CHUNK_BYTES },
    ];
    for extent in wrong {
        assert!(matches!(owner.add_extent(extent), Err(Error::BadExtent(_))));
    }
    assert_eq!(owner.held_bytes(), extent.length);
    owner.free(place).unwrap();
}

/// Its offset is one of ours as well, and another object lies there.
#[test]
fn store_6_a_place_of_another_nodes_arena_is_refused_and_its_node_named() {
    let mut hosts = [1, 2].map(|node| Host::create_on(node, 64 * MIB, 1).unwrap());
    let [ours, theirs] = hosts.each_mut().map(|host| attach_with(host, 0, 8 * MIB).0);
    for length in [KIB, MIB] {
        let (here, there) = (put(&ours, length, 1), put(&theirs, length, 2));
        assert_eq!((here.offset, here.length), (there.offset, there.length), "they differ by their serials only");
        assert_eq!((here.node(), there.node()), (1, 2));
        assert!(matches!(ours.pin(there), Err(Error::Elsewhere { node: 2 })));
        assert!(matches!(ours.free(there), Err(Error::Elsewhere { node: 2 })));
        assert!(matches!(theirs.pin(here), Err(Error::Elsewhere { node: 1 })));
        assert!(ours.pin(here).unwrap().as_slice().iter().all(|byte| *byte == 1));
        assert!(theirs.pin(there).unwrap().as_slice().iter().all(|byte| *byte == 2));
    }
}

#[test]
fn store_6_only_an_arena_can_be_attached_and_a_slot_only_once() {
    let host = Host::create(MIB, 1).unwrap();
    let data = || host.data_fd().try_clone_to_owned().unwrap();
    let table = || host.table_fd().try_clone_to_owned().unwrap();
    let file = || OwnedFd::from(std::fs::File::open("/proc/self/exe").unwrap());
    let other = Host::create(2 * MIB, 1).unwrap();
    assert!(matches!(Client::attach(file(), table(), 0), Err(Error::BadArena(_))));
    assert!(matches!(Client::attach(data(), file(), 0), Err(Error::BadArena(_))));
    assert!(matches!(Client::attach(table(), data(), 0), Err(Error::BadArena(_))));
    let other_table = other.table_fd().try_clone_to_owned().unwrap();
    assert!(matches!(Client::attach(data(), other_table, 0), Err(Error::BadArena(_))));
    assert!(matches!(Client::attach(data(), table(), 1), Err(Error::BadSlot { .. })));

    let first = Client::attach(data(), table(), 0).unwrap();
    assert!(matches!(Client::attach(data(), table(), 0), Err(Error::SlotTaken(0))));
    drop(first);
    Client::attach(data(), table(), 0).unwrap();
}

#[test]
fn store_8_a_loop_of_large_puts_stays_on_the_same_pages() {
    let mut host = Host::create(1 << 30, 1).unwrap();
    let client = attach(&host, 0);
    for _ in 0..20 {
        let length = 100 * MIB + 77;
        let mut reservation = match client.reserve(length) {
            Ok(reservation) => reservation,
            Err(NeedExtent { length: need }) => {
                client.add_extent(host.grant(0, need).unwrap()).unwrap();
                client.reserve(length).unwrap()
            }
        };
        reservation.as_mut_slice()[0] = 1;
        client.free(reservation.seal()).unwrap();
    }
    assert_eq!(host.resident().unwrap(), 100 * MIB + CHUNK_BYTES);
}

#[test]
fn views_outlive_the_client_that_made_them() {
    let mut host = Host::create(MIB, 2).unwrap();
    let (owner, _) = attach_with(&mut host, 0, 100 * KIB);
    let reader = attach(&host, 1);
    let place = put(&owner, 100 * KIB, 4);
    let view = reader.pin(place).unwrap();
    drop(reader);
    owner.free(place).unwrap();
    assert!(owner.used_bytes() > 0, "STORE-3");
    assert!(holds(&view, 100 * KIB, 4));
    drop(view);
    owner.sweep();
    assert_eq!(owner.used_bytes(), 0);
}

/// Two processes that race as hard as they can: the owner frees and overwrites as soon as the reader has its pin.
#[test]
fn store_3_a_free_that_races_with_readers_never_changes_what_they_see() {
    const ROUNDS: u32 = 20_000;
    let mut host = Host::create(64 * MIB, 3).unwrap();
    let (owner, _) = attach_with(&mut host, 0, 2 * MIB);
    let readers = [attach(&host, 1), attach(&host, 2)];
    let failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut senders = Vec::new();
        let (pinned, all_pinned) = mpsc::sync_channel(2);
        for reader in &readers {
            let (sender, inbox) = mpsc::sync_channel::<(Place, u8)>(4);
            senders.push(sender);
            let (pinned, failed) = (pinned.clone(), &failed);
            scope.spawn(move || {
                let mut late: Option<(View, u8)> = None;
                for (place, fill) in inbox {
                    let view = reader.pin(place).unwrap();
                    pinned.send(()).unwrap();
                    // The view of the round before is still there, though its object was freed long ago.
                    if late.is_some_and(|(view, fill)| !holds(&view, 4 * KIB, fill)) {
                        failed.store(true, Ordering::Relaxed);
                    }
                    late = Some((view, fill));
                }
            });
        }
        for round in 0..ROUNDS {
            let fill = round as u8;
            let place = put(&owner, 4 * KIB, fill);
            senders.iter().for_each(|sender| sender.send((place, fill)).unwrap());
            senders.iter().for_each(|_| all_pinned.recv().unwrap());
            owner.free(place).unwrap();
        }
    });
    assert!(!failed.load(Ordering::Relaxed), "STORE-3");
    owner.sweep();
    assert_eq!(owner.used_bytes(), 0);
}

#[derive(Clone, Debug)]
enum Step {
    Put { who: usize, length: u64 },
    Free(prop::sample::Index),
    Pin { who: usize, object: prop::sample::Index },
    Unpin(prop::sample::Index),
    GiveBack { who: usize, keep_bytes: u64 },
    Die { who: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let index = any::<prop::sample::Index>;
    let length = prop_oneof![3 => 0..8 * KIB, 3 => 60 * KIB..300 * KIB, 2 => MIB - 64..3 * MIB];
    prop_oneof![
        10 => (0..3usize, length).prop_map(|(who, length)| Step::Put { who, length }),
        6 => index().prop_map(Step::Free),
        8 => (0..3usize, index()).prop_map(|(who, object)| Step::Pin { who, object }),
        6 => index().prop_map(Step::Unpin),
        2 => (0..3usize, 0..4 * MIB).prop_map(|(who, keep_bytes)| Step::GiveBack { who, keep_bytes }),
        1 => (0..3usize).prop_map(|who| Step::Die { who }),
    ]
}

struct Object {
    owner: usize,
    place: Place,
    fill: u8,
}

/// A node with three processes. Every view must show, after every step, what was written before it was made.
struct World {
    host: Host,
    clients: Vec<Client>,
    objects: Vec<Object>,
    views: Vec<(usize, View, u8)>,
    puts: u8,
}

impl World {
    fn new() -> Self {
        let host = Host::create(16 * MIB, 3).unwrap();
        let clients = (0..3).map(|slot| attach(&host, slot)).collect();
        Self { host, clients, objects: Vec::new(), views: Vec::new(), puts: 0 }
    }

    /// What a runtime does: reserve, ask the node, make room by giving back what is idle, give up.
    fn put(&mut self, who: usize, length: u64) {
        let mut made_room = false;
        let mut reservation = loop {
            let need = match self.clients[who].reserve(length) {
                Ok(reservation) => break reservation,
                Err(need) => need,
            };
            match self.host.grant(who as u16, need.length) {
                Ok(extent) => {
                    self.clients[who].add_extent(extent).unwrap();
                    break self.clients[who].reserve(length).expect("an extent of the size asked for has room");
                }
                Err(error) => {
                    assert!(error.is_retryable());
                    if std::mem::replace(&mut made_room, true) {
                        return;
                    }
                    (0..3).for_each(|who| self.give_back(who, 0));
                    self.host.sweep();
                }
            }
        };
        self.puts = self.puts.wrapping_add(1);
        reservation.as_mut_slice().fill(self.puts);
        self.objects.push(Object { owner: who, place: reservation.seal(), fill: self.puts });
    }

    fn give_back(&mut self, who: usize, keep_bytes: u64) {
        for extent in self.clients[who].idle_extents(keep_bytes) {
            self.host.take_back(who as u16, extent).unwrap();
        }
    }

    fn free(&mut self, number: usize) {
        let Object { owner, place, .. } = self.objects.swap_remove(number);
        self.clients[owner].free(place).unwrap();
    }

    /// As by SIGKILL: nothing of the process runs again, so nothing of it is dropped.
    fn die(&mut self, who: usize) {
        let (dead_views, views) = self.views.drain(..).partition(|(of, ..)| *of == who);
        self.views = views;
        let _: ManuallyDrop<Vec<(usize, View, u8)>> = ManuallyDrop::new(dead_views);
        self.objects.retain(|object| object.owner != who);
        self.host.process_gone(who as u16);
        let client = attach(&self.host, who as u16);
        let _ = ManuallyDrop::new(std::mem::replace(&mut self.clients[who], client));
    }

    fn check(&self) {
        for (_, view, fill) in &self.views {
            let samples = view.iter().step_by(1_021).chain(view.last());
            assert!(samples.into_iter().all(|byte| byte == fill), "STORE-3: {view:?} has changed");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn store_3_and_4_views_hold_and_memory_comes_back(steps in prop::collection::vec(step(), 1..100)) {
        let mut world = World::new();
        for step in steps {
            match step {
                Step::Put { who, length } => world.put(who, length),
                Step::Free(index) if !world.objects.is_empty() => world.free(index.index(world.objects.len())),
                Step::Pin { who, object } if !world.objects.is_empty() => {
                    let Object { place, fill, .. } = world.objects[object.index(world.objects.len())];
                    world.views.push((who, world.clients[who].pin(place).unwrap(), fill));
                }
                Step::Unpin(index) if !world.views.is_empty() => {
                    let number = index.index(world.views.len());
                    world.views.swap_remove(number);
                }
                Step::GiveBack { who, keep_bytes } => world.give_back(who, keep_bytes),
                Step::Die { who } => world.die(who),
                Step::Free(_) | Step::Pin { .. } | Step::Unpin(_) => {}
            }
            world.check();
        }
        world.views.clear();
        (0..world.objects.len()).rev().for_each(|number| world.free(number));
        (0..3).for_each(|who| world.give_back(who, 0));
        world.host.sweep();
        prop_assert_eq!(world.host.used(), 0, "STORE-2: everything comes back");
        prop_assert!(world.clients.iter().all(|client| client.held_bytes() == 0));
    }
}

#[test]
fn clients_views_and_reservations_cross_threads() {
    fn crosses<T: Send + Sync + 'static>() {}
    crosses::<Client>();
    crosses::<View>();
    crosses::<Reservation>();
    crosses::<Host>();
}
