//! Placement groups as stories: given events, when an event, then exact effects; and at random.

use control::{GroupCreation, GroupEffect, GroupEvent, GroupState, Groups, Maker};
use model::{ActorId, GroupId, GroupOptions, JobId, Lifetime, Resources, Strategy as Placing, Tick};
use proptest::prelude::*;

const JOB: JobId = JobId([7, 0, 0, 0]);
const ACTOR: ActorId = ActorId([9; 16]);

fn id(number: u8) -> GroupId {
    GroupId([number; 18])
}

fn creation(number: u8, name: &str, maker: Maker) -> GroupCreation {
    let options = GroupOptions {
        name: name.into(),
        namespace: "ns".into(),
        lifetime: Lifetime::Owned,
        strategy: Placing::Pack,
        bundles: vec![Resources::cpus(1)],
        labels: Vec::new(),
    };
    GroupCreation { group: id(number), maker, options }
}

fn detached(mut creation: GroupCreation) -> GroupCreation {
    creation.options.lifetime = Lifetime::Detached;
    creation
}

fn when(groups: &mut Groups, event: GroupEvent) -> Vec<GroupEffect> {
    let mut effects = Vec::new();
    groups.step(Tick(1), event, &mut effects);
    groups.check_invariants();
    effects
}

fn create(number: u8, name: &str) -> GroupEvent {
    GroupEvent::CreateRequested(creation(number, name, Maker::Job(JOB)))
}

fn ended(number: u8) -> [GroupEffect; 2] {
    [GroupEffect::Unreserve(id(number)), GroupEffect::Publish(id(number), GroupState::Removed)]
}

#[test]
fn ctl_8_a_name_has_one_group_until_that_is_removed() {
    let mut groups = Groups::default();
    let made = [GroupEffect::Answer { group: id(1), is_name_taken: false }, GroupEffect::Reserve(id(1))];
    assert_eq!(when(&mut groups, create(1, "eve")), made);
    assert_eq!(when(&mut groups, create(1, "eve")), made[..1], "a repeat gets the first answer");
    assert_eq!(when(&mut groups, create(2, "eve")), [GroupEffect::Answer { group: id(2), is_name_taken: true }]);
    assert_eq!(groups.by_name("ns", "eve").map(|record| record.creation.group), Some(id(1)));
    assert_eq!(when(&mut groups, GroupEvent::RemoveRequested(id(1))), ended(1));
    assert!(groups.by_name("ns", "eve").is_none());
    assert_eq!(when(&mut groups, create(3, "eve")).len(), 2);
}

#[test]
fn removing_twice_changes_nothing_and_a_late_placing_does_not_revive() {
    let mut groups = Groups::default();
    when(&mut groups, create(1, ""));
    when(&mut groups, GroupEvent::RemoveRequested(id(1)));
    assert_eq!(when(&mut groups, GroupEvent::RemoveRequested(id(1))), []);
    assert_eq!(when(&mut groups, GroupEvent::Placed(id(1))), []);
    assert_eq!(groups.state(id(1)), GroupState::Removed);
    assert_eq!(groups.state(id(99)), GroupState::Removed, "nobody knows it");
}

#[test]
fn ctl_9_a_group_ends_with_its_job_or_its_actor_unless_it_is_detached() {
    let mut groups = Groups::default();
    when(&mut groups, create(1, "of the job"));
    when(&mut groups, GroupEvent::CreateRequested(creation(2, "", Maker::Actor(ACTOR))));
    when(&mut groups, GroupEvent::CreateRequested(detached(creation(3, "", Maker::Job(JOB)))));
    when(&mut groups, GroupEvent::CreateRequested(detached(creation(4, "", Maker::Actor(ACTOR)))));
    assert_eq!(when(&mut groups, GroupEvent::Placed(id(1))), [GroupEffect::Publish(id(1), GroupState::Created)]);
    assert_eq!(when(&mut groups, GroupEvent::JobEnded(JobId([8; 4]))), []);
    assert_eq!(when(&mut groups, GroupEvent::JobEnded(JOB)), ended(1));
    assert_eq!(when(&mut groups, GroupEvent::ActorDied(ACTOR)), ended(2));
    assert_eq!((groups.state(id(3)), groups.state(id(4))), (GroupState::Pending, GroupState::Pending));
}

fn events() -> impl Strategy<Value = GroupEvent> {
    let number = || 0..6_u8;
    prop_oneof![
        4 => (number(), 0..3_usize, any::<bool>(), any::<bool>()).prop_map(|(number, name, of_actor, is_detached)| {
            let maker = if of_actor { Maker::Actor(ACTOR) } else { Maker::Job(JobId([number % 2; 4])) };
            let creation = creation(number, ["", "bob", "eve"][name], maker);
            GroupEvent::CreateRequested(if is_detached { detached(creation) } else { creation })
        }),
        3 => number().prop_map(|number| GroupEvent::Placed(id(number))),
        2 => number().prop_map(|number| GroupEvent::RemoveRequested(id(number))),
        1 => (0..2_u8).prop_map(|job| GroupEvent::JobEnded(JobId([job; 4]))),
        1 => Just(GroupEvent::ActorDied(ACTOR)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn invariants_hold_and_a_removed_group_stays_so(plays in prop::collection::vec(events(), 1..80)) {
        let mut groups = Groups::default();
        let mut removed = std::collections::BTreeSet::new();
        for event in plays {
            for effect in when(&mut groups, event) {
                match effect {
                    GroupEffect::Publish(group, GroupState::Removed) => assert!(removed.insert(group), "CTL-8: twice"),
                    GroupEffect::Publish(group, _) | GroupEffect::Reserve(group) => {
                        assert!(!removed.contains(&group), "CTL-8: {group} came back");
                    }
                    GroupEffect::Answer { .. } | GroupEffect::Unreserve(_) => {}
                }
            }
        }
    }
}
