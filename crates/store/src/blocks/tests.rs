use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::CHUNK_BYTES;

const EXTENT: u64 = 8 << 20;

#[derive(Clone, Debug)]
enum Step {
    Add(u64),
    Reserve(u64),
    Free(prop::sample::Index),
    Keep(prop::sample::Index),
    GiveUp(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![
        4 => 0u64..2_000,
        3 => 60_000u64..300_000,
        2 => LARGE_BYTES - 100..3 * LARGE_BYTES,
        1 => EXTENT - 5_000..EXTENT,
    ];
    prop_oneof![
        2 => (1u64..200).prop_map(|chunks| Step::Add(chunks * CHUNK_BYTES)),
        10 => size.prop_map(Step::Reserve),
        8 => any::<prop::sample::Index>().prop_map(Step::Free),
        2 => any::<prop::sample::Index>().prop_map(Step::Keep),
        1 => (0u64..4).prop_map(|extents| Step::GiveUp(extents * EXTENT)),
    ]
}

/// What the allocator promises, without knowing how it keeps it.
#[derive(Default)]
struct Model {
    extents: BTreeMap<u64, u64>,
    objects: BTreeMap<u64, (u64, BlockId)>,
    next_extent: u64,
}

impl Model {
    /// STORE-1: inside one extent, aligned, and apart from every other object.
    fn reserved(&mut self, offset: u64, length: u64, id: BlockId) {
        let shape = Shape::of(length).unwrap();
        assert!(offset.is_multiple_of(if length >= LARGE_BYTES { 4096 } else { 64 }));
        let (&extent, &extent_length) = self.extents.range(..=offset).next_back().expect("in an extent");
        assert!(offset + shape.size <= extent + extent_length, "STORE-1: beyond its extent");
        if let Some((&before, &(before_length, _))) = self.objects.range(..=offset).next_back() {
            assert!(before + Shape::of(before_length).unwrap().size <= offset, "STORE-1: overlap");
        }
        if let Some((&after, _)) = self.objects.range(offset..).next() {
            assert!(offset + shape.size <= after, "STORE-1: overlap");
        }
        self.objects.insert(offset, (length, id));
    }

    fn used_bytes(&self) -> u64 {
        self.objects.values().map(|&(length, _)| Shape::of(length).unwrap().size).sum()
    }

    fn pick(&self, index: prop::sample::Index) -> Option<(u64, u64, BlockId)> {
        let (&offset, &(length, id)) = self.objects.iter().nth(index.index(self.objects.len().max(1)))?;
        Some((offset, length, id))
    }
}

/// The lists, the neighbours and the counts agree with each other.
fn check(blocks: &Blocks) {
    let mut free = 0;
    let mut listed = 0;
    for bin in 0..BINS {
        assert_eq!(blocks.heads[bin] != NIL, blocks.filled[bin / 64] >> (bin % 64) & 1 == 1);
        let mut id = blocks.heads[bin];
        while id != NIL {
            assert_eq!(bin_of(blocks.nodes[id as usize].size), bin);
            listed += 1;
            id = blocks.nodes[id as usize].older;
        }
    }
    for (&offset, &length) in &blocks.extents {
        let first = blocks
            .nodes
            .iter()
            .position(|node| node.offset == offset && node.before == NIL && node.state != State::Vacant);
        let (mut id, mut at) = (first.unwrap() as u32, offset);
        let mut before_free = false;
        while id != NIL {
            let node = &blocks.nodes[id as usize];
            assert_eq!(node.offset, at);
            assert!(!(before_free && node.state == State::Free), "neighbours merge");
            before_free = node.state == State::Free;
            free += u64::from(before_free);
            at += node.size;
            id = node.after;
        }
        assert_eq!(at, offset + length);
    }
    assert_eq!(free, listed);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn store_1_blocks_never_overlap_and_all_come_back(steps in prop::collection::vec(step(), 1..120)) {
        let mut blocks = Blocks::new();
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Add(length) => {
                    // Every other extent touches the one before it: they must not merge.
                    let extent = Extent { offset: model.next_extent, length };
                    model.next_extent += length + if length % (2 * CHUNK_BYTES) == 0 { CHUNK_BYTES } else { 0 };
                    blocks.add(extent);
                    model.extents.insert(extent.offset, length);
                }
                Step::Reserve(length) => {
                    let shape = Shape::of(length).unwrap();
                    let found = blocks.reserve(length, shape);
                    if let Some((id, offset)) = found {
                        model.reserved(offset, length, id);
                    } else {
                        // The contract of NeedExtent: an extent of that size, and the same request succeeds.
                        let length_extent = shape.size.next_multiple_of(CHUNK_BYTES);
                        blocks.add(Extent { offset: model.next_extent, length: length_extent });
                        model.extents.insert(model.next_extent, length_extent);
                        model.next_extent += length_extent;
                        let (id, offset) = blocks.reserve(length, shape).expect("a fresh extent takes it");
                        model.reserved(offset, length, id);
                    }
                }
                Step::Free(index) => {
                    if let Some((offset, length, id)) = model.pick(index) {
                        let kept = blocks.nodes[id.0 as usize].state == State::Kept;
                        let found = blocks.find(Place { offset, length, serial: 0 });
                        prop_assert_eq!(found.is_err(), kept, "STORE-6: a freed object is not found again");
                        blocks.release(id);
                        model.objects.remove(&offset);
                        let again = blocks.find(Place { offset, length, serial: 0 });
                        prop_assert!(again.is_err());
                    }
                }
                Step::Keep(index) => {
                    if let Some((_, _, id)) = model.pick(index) {
                        blocks.keep(id);
                    }
                }
                Step::GiveUp(keep_bytes) => {
                    for extent in blocks.give_up_idle(keep_bytes) {
                        prop_assert_eq!(model.extents.remove(&extent.offset), Some(extent.length));
                        let inside = model.objects.range(extent.offset..extent.end()).next();
                        prop_assert!(inside.is_none(), "STORE-1: given up with an object in it");
                    }
                }
            }
            prop_assert_eq!(blocks.used_bytes(), model.used_bytes());
            prop_assert_eq!(blocks.held_bytes(), model.extents.values().sum::<u64>());
            check(&blocks);
        }
        for &(_, id) in model.objects.values() {
            blocks.release(id);
        }
        let mut given = blocks.give_up_idle(0);
        given.sort();
        let given: Vec<(u64, u64)> = given.into_iter().map(|extent| (extent.offset, extent.length)).collect();
        prop_assert!(given.into_iter().eq(model.extents), "every extent comes back whole");
        prop_assert_eq!((blocks.used_bytes(), blocks.held_bytes()), (0, 0));
    }

    #[test]
    fn bins_are_in_order_of_size(size in 1u64..1 << 40) {
        let size = size.next_multiple_of(ALIGN_BYTES);
        prop_assert!(bin_of(size) <= bin_of(size + ALIGN_BYTES));
        prop_assert!(bin_of(size + ALIGN_BYTES) <= bin_of(size) + 1);
        prop_assert!(bin_of(i64::MAX as u64) < BINS);
    }
}

fn with_extents(lengths: &[u64]) -> Blocks {
    let mut blocks = Blocks::new();
    let mut offset = 0;
    for &length in lengths {
        blocks.add(Extent { offset, length });
        offset += length;
    }
    blocks
}

fn reserve(blocks: &mut Blocks, length: u64) -> Option<(BlockId, u64)> {
    blocks.reserve(length, Shape::of(length).unwrap())
}

#[test]
fn store_8_the_most_recently_freed_block_is_used_first() {
    let mut blocks = with_extents(&[EXTENT]);
    let objects: Vec<_> = (0..20).map(|_| reserve(&mut blocks, 100_000).unwrap()).collect();
    for position in [4, 8, 12] {
        blocks.release(objects[position].0);
    }
    for position in [12, 8, 4] {
        assert_eq!(reserve(&mut blocks, 100_000).unwrap().1, objects[position].1);
    }
}

#[test]
fn store_8_a_small_object_does_not_break_up_a_large_idle_extent() {
    let mut blocks = with_extents(&[100 << 20]);
    let (id, offset) = reserve(&mut blocks, 100 << 20).unwrap();
    blocks.release(id);
    assert_eq!(reserve(&mut blocks, 200_000), None, "another extent is asked for");
    assert_eq!(reserve(&mut blocks, 90 << 20).unwrap().1, offset, "an object of about its size takes it");
}

#[test]
fn store_8_an_extent_used_before_goes_before_a_fresh_one() {
    let mut blocks = with_extents(&[EXTENT]);
    let (id, offset) = reserve(&mut blocks, 1_000).unwrap();
    blocks.release(id);
    blocks.add(Extent { offset: 10 * EXTENT, length: EXTENT });
    assert_eq!(reserve(&mut blocks, 1_000).unwrap().1, offset);
}

#[test]
fn a_length_that_no_arena_can_hold_has_no_shape() {
    assert!(Shape::of(u64::MAX).is_none());
    assert!(Shape::of(u64::MAX - 4095).is_none());
    assert_eq!(Shape::of(0).unwrap().size, 64);
    assert_eq!(Shape::of(LARGE_BYTES + 1).unwrap().size, LARGE_BYTES + 4096);
}
