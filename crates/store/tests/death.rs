//! What is left when a process dies, strays, or forks.

mod common;

use common::{Ended, KIB, MIB, alone, attach, attach_with, fork, holds, listen, put, say};
use store::{Error, Host, Place};

#[test]
fn store_4_a_process_killed_while_it_holds_pins_leaves_none() {
    let _alone = alone();
    let mut host = Host::create(64 * MIB, 2).unwrap();
    let (owner, _) = attach_with(&mut host, 0, 8 * MIB);
    let places: Vec<Place> = (0..100).map(|_| put(&owner, 10 * KIB, 1)).collect();
    let mut child = fork(|link| {
        let reader = attach(&host, 1);
        let _views: Vec<_> = places.iter().map(|&place| reader.pin(place).unwrap()).collect();
        say(link, places[0]);
        listen(link);
    });
    child.hears();
    places.iter().for_each(|&place| owner.free(place).unwrap());
    owner.sweep();
    assert_eq!(owner.used_bytes(), 100 * 10 * KIB, "STORE-3: the child looks at all of them");

    assert_eq!(child.kill(), Ended::Signal(libc::SIGKILL));
    owner.sweep();
    assert_eq!(owner.used_bytes(), 100 * 10 * KIB, "nobody has said yet that the child is gone");
    host.process_gone(1);
    owner.sweep();
    assert_eq!(owner.used_bytes(), 0);
    let _next = attach(&host, 1);
}

#[test]
fn store_4_a_process_killed_while_it_writes_leaves_nothing() {
    let _alone = alone();
    let mut host = Host::create(64 * MIB, 2).unwrap();
    let extents = [host.grant(1, 8 * MIB).unwrap(), host.grant(1, 20 * MIB).unwrap()];
    let mut child = fork(|link| {
        let client = attach(&host, 1);
        extents.iter().for_each(|&extent| client.add_extent(extent).unwrap());
        put(&client, 3 * MIB, 1);
        let mut half_written = client.reserve(20 * MIB).unwrap();
        half_written.as_mut_slice()[..5_000_000].fill(2);
        say(link, Place { offset: 0, length: 0, serial: 0 });
        loop {
            half_written.as_mut_slice().fill(3);
        }
    });
    child.hears();
    assert_eq!(child.kill(), Ended::Signal(libc::SIGKILL));
    assert_eq!(host.used(), 28 * MIB);
    host.process_gone(1);
    assert_eq!((host.used(), host.orphaned()), (0, 0));
    assert_eq!(host.warm(), host.resident().unwrap(), "what it touched is warm for the next");
}

#[test]
fn store_3_a_dead_owners_object_stays_while_somebody_looks_at_it() {
    let _alone = alone();
    let mut host = Host::create(64 * MIB, 2).unwrap();
    let reader = attach(&host, 0);
    let extent = host.grant(1, 8 * MIB).unwrap();
    let mut child = fork(|link| {
        let owner = attach(&host, 1);
        owner.add_extent(extent).unwrap();
        put(&owner, MIB, 1);
        say(link, put(&owner, 300 * KIB, 42));
        listen(link);
    });
    let place = child.hears();
    let view = reader.pin(place).unwrap();
    child.kill();
    host.process_gone(1);
    assert!(host.used() > 0 && host.used() < MIB, "only the object that is looked at");

    // Somebody else takes all memory there is, and writes to it.
    let next = attach(&host, 1);
    let granted = std::iter::from_fn(|| host.grant(1, 64 * KIB).ok()).map(|extent| next.add_extent(extent).unwrap());
    assert!(granted.count() > 0);
    while let Ok(mut reservation) = next.reserve(64 * KIB) {
        reservation.as_mut_slice().fill(9);
        reservation.seal();
    }
    assert!(holds(&view, 300 * KIB, 42));
    drop(view);
    let before = host.used();
    host.sweep();
    assert!(host.used() < before && host.orphaned() == 0);
}

#[test]
fn store_5_a_stray_write_kills_the_process_that_strayed_and_nothing_else() {
    let _alone = alone();
    let mut host = Host::create(64 * MIB, 2).unwrap();
    let (owner, _) = attach_with(&mut host, 0, 8 * MIB);
    let place = put(&owner, 300 * KIB, 7);
    let view = owner.pin(place).unwrap();
    let own_extent = host.grant(1, 8 * MIB).unwrap();
    let child = fork(|_| {
        let stray = attach(&host, 1);
        stray.add_extent(own_extent).unwrap();
        put(&stray, 300 * KIB, 1);
        let seen = stray.pin(place).unwrap();
        assert!(holds(&seen, 300 * KIB, 7));
        // SAFETY: none; this is the accident that the store has to survive.
        unsafe { seen.as_ptr().cast_mut().write_volatile(66) };
    });
    assert_eq!(child.wait(), Ended::Signal(libc::SIGSEGV));
    host.process_gone(1);
    assert!(holds(&view, 300 * KIB, 7));
    owner.free(place).unwrap();
}

#[test]
fn store_5_an_extent_given_back_is_closed() {
    let _alone = alone();
    let mut host = Host::create(64 * MIB, 2).unwrap();
    let extent = host.grant(1, 8 * MIB).unwrap();
    let child = fork(|_| {
        let client = attach(&host, 1);
        client.add_extent(extent).unwrap();
        let mut reservation = client.reserve(MIB).unwrap();
        let late = reservation.as_mut_slice().as_mut_ptr();
        drop(reservation);
        assert_eq!(client.idle_extents(0), [extent]);
        // SAFETY: none; a write through a pointer that was kept too long.
        unsafe { late.write_volatile(66) };
    });
    assert_eq!(child.wait(), Ended::Signal(libc::SIGSEGV));
}

/// A user's multiprocessing child inherits the views of its parent, and drops them when it exits. That must not unpin
/// what the parent still looks at.
#[test]
fn store_7_a_forked_child_changes_nothing_of_its_parents() {
    let _alone = alone();
    let mut host = Host::create(64 * MIB, 2).unwrap();
    let (owner, extent) = attach_with(&mut host, 0, 8 * MIB);
    let place = put(&owner, 8 * MIB, 7);
    let mut view = owner.pin(place).ok();
    let mut owner = Some(owner);
    let child = fork(|_| {
        let inherited = owner.take().unwrap();
        assert!(holds(view.as_ref().unwrap(), 8 * MIB, 7), "it can still read");
        assert!(matches!(inherited.pin(place), Err(Error::Forked)));
        assert!(matches!(inherited.free(place), Err(Error::Forked)));
        assert!(matches!(inherited.add_extent(extent), Err(Error::Forked)));
        assert!(inherited.reserve(64).is_err());
        assert!(inherited.idle_extents(0).is_empty());
        inherited.sweep();
        drop(view.take());
        drop(inherited);
    });
    assert_eq!(child.wait(), Ended::Code(0));

    let owner = owner.unwrap();
    owner.free(place).unwrap();
    assert!(owner.reserve(MIB).is_err(), "STORE-3: the parent's view still pins");
    drop(view);
    assert_eq!(put(&owner, 8 * MIB, 8).offset, place.offset);
    assert!(matches!(
        store::Client::attach(
            host.data_fd().try_clone_to_owned().unwrap(),
            host.table_fd().try_clone_to_owned().unwrap(),
            0
        ),
        Err(Error::SlotTaken(0))
    ));
}
