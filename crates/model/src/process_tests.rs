//! Names are packed without loss, and the table of the dead says what a set of names would.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{Dead, ProcId};

fn any_process() -> impl Strategy<Value = ProcId> {
    let (nodes, slots, epochs) = (1..=ProcId::NODE_MAX, 0..=ProcId::SLOT_MAX, 0..=ProcId::EPOCH_MAX);
    (nodes, slots, epochs).prop_map(|(node, slot, epoch)| ProcId::new(node, slot, epoch))
}

#[test]
fn a_name_takes_eight_bytes_and_so_does_none() {
    assert_eq!((size_of::<ProcId>(), size_of::<Option<ProcId>>()), (8, 8));
    let last = ProcId::new(ProcId::NODE_MAX, ProcId::SLOT_MAX, ProcId::EPOCH_MAX);
    assert_eq!(last.to_u64(), u64::MAX);
    assert_eq!(ProcId::new(1, 3, 7).to_u64(), (1 << 40) | (3 << 26) | 7);
    assert_eq!(ProcId::new(2, 3, 7).to_string(), "p2.3.7");
}

#[test]
fn name_1_what_has_no_room_in_a_name_is_refused() {
    assert_eq!(ProcId::from_u64(0), None);
    for (node, slot, epoch) in [
        (0, 0, 1),
        (ProcId::NODE_MAX + 1, 0, 0),
        (1, ProcId::SLOT_MAX + 1, 0),
        (1, 0, ProcId::EPOCH_MAX + 1),
        (u32::MAX, u16::MAX, u32::MAX),
    ] {
        assert_eq!(ProcId::checked(node, slot, epoch), None, "{node} {slot} {epoch}");
    }
}

/// Slot 3, epoch 1 exists on every node: a task that ran there and is run again elsewhere named what it made as before.
#[test]
fn runs_in_one_slot_and_epoch_of_several_nodes_name_different_things() {
    const RUN_THINGS_MAX: u64 = 1 << 24;
    let mut starts: Vec<u64> = (1..2_000).map(|node| ProcId::new(node, 3, 1).first_child()).collect();
    starts.extend((0..2_000).map(|slot| ProcId::new(1, slot, 2).first_child()));
    starts.sort_unstable();
    let nearest = starts.windows(2).map(|pair| pair[1] - pair[0]).min();
    assert!(nearest > Some(RUN_THINGS_MAX * 1_000), "a thousand runs of one process meet those of another");
}

#[test]
fn one_mark_stands_for_all_processes_of_a_dead_node() {
    let mut dead = Dead::default();
    (1..100).for_each(|slot| dead.note(ProcId::new(7, slot, 1)));
    dead.note(ProcId::new(8, 1, 1));
    dead.note_node(7);
    assert!(dead.has(ProcId::new(7, 5_000, 9)), "also those that nobody has heard of");
    assert!(dead.has(ProcId::new(8, 1, 1)) && !dead.has(ProcId::new(8, 1, 2)) && !dead.has(ProcId::new(9, 1, 1)));
    dead.note(ProcId::new(7, 1, 1));
    assert!(dead.slots.0.is_empty() && dead.others.len() == 1, "nothing more is kept of it");
    // The first of another node is kept where that is looked up at once; so is what was known of that node before.
    dead.note(ProcId::new(8, 2, 1));
    assert!(dead.has(ProcId::new(8, 1, 1)) && dead.others.is_empty());
}

/// One entry was kept for every process that had ever died.
#[test]
fn the_dead_of_one_slot_take_the_room_of_one() {
    let mut dead = Dead::default();
    (1..100).for_each(|epoch| dead.note(ProcId::new(1, 3, epoch)));
    dead.note(ProcId::new(1, 3, 5));
    assert!((1..100).all(|epoch| dead.has(ProcId::new(1, 3, epoch))));
    assert!(!dead.has(ProcId::new(1, 3, 100)) && !dead.has(ProcId::new(1, 4, 1)));
    assert_eq!(dead.slots.0.len(), 4);
}

proptest! {
    #[test]
    fn a_name_is_its_three_parts(process in any_process(), other in any_process()) {
        let parts = |id: ProcId| (id.node(), id.slot(), id.epoch());
        let (node, slot, epoch) = parts(process);
        prop_assert_eq!(ProcId::checked(node, slot, epoch), Some(process));
        prop_assert_eq!(ProcId::from_u64(process.to_u64()), Some(process));
        prop_assert_eq!(process.cmp(&other), parts(process).cmp(&parts(other)));
    }

    /// Slots are used again in order; nodes die.
    #[test]
    fn the_dead_are_those_that_died(
        events in prop::collection::vec((1_u32..4, 0_u16..3, 0_u32..4, any::<u8>()), 1..60),
    ) {
        let (mut dead, mut model, mut nodes) = (Dead::default(), BTreeSet::new(), BTreeSet::new());
        for (node, slot, epoch, what) in events {
            if what < 16 {
                dead.note_node(node);
                nodes.insert(node);
            } else {
                dead.note(ProcId::new(node, slot, epoch));
                model.extend((0..=epoch).map(|epoch| (node, slot, epoch)));
            }
            for (node, slot, epoch) in (1..4).flat_map(|node| (0..3).flat_map(move |slot| (0..5).map(move |epoch| (node, slot, epoch)))) {
                let is_dead = nodes.contains(&node) || model.contains(&(node, slot, epoch));
                prop_assert_eq!(dead.has(ProcId::new(node, slot, epoch)), is_dead);
            }
        }
    }
}
