//! Who has a name, and when it is free again.

mod story;

use control::{Event, Registered};
use model::WorkerExit;
use story::{
    CRASH, DRIVER, JOB, Table, answer, create, detached, died, id, if_none, kill, named, place, placed, worker,
};

#[test]
fn ctl_1_a_name_is_given_once_per_namespace() {
    let mut table = Table::given([create(&named(1, "bob"))]);
    assert_eq!(table.when(create(&named(2, "bob"))), [answer(2, Registered::NameTaken)]);
    let mut elsewhere = named(3, "bob");
    elsewhere.options.namespace = "other".into();
    assert_eq!(table.when(create(&elsewhere)), [answer(3, Registered::Created(id(3))), place(3, 0)]);
    let names = table.actors.names(Some("ns")).collect::<Vec<_>>();
    assert_eq!(names, [("ns", "bob", id(1))]);
    assert_eq!(table.actors.names(None).count(), 2);
}

#[test]
fn no_name_is_no_name() {
    let mut table = Table::given([create(&named(1, ""))]);
    assert_eq!(table.when(create(&named(2, "")))[0], answer(2, Registered::Created(id(2))));
    assert_eq!(table.actors.names(None).count(), 0);
}

#[test]
fn get_if_exists_makes_one_actor_however_many_ask() {
    let mut table = Table::given([]);
    let mut answers = Vec::new();
    for number in 1..=10 {
        answers.extend(table.when(create(&if_none(named(number, "bob")))));
    }
    assert_eq!(answers[..2], [answer(1, Registered::Created(id(1))), place(1, 0)]);
    assert!(answers[2..].iter().zip(2..).all(|(given, number)| *given == answer(number, Registered::Existing(id(1)))));
}

#[test]
fn get_if_exists_does_not_give_out_an_actor_that_crashed() {
    let mut table = Table::given([create(&named(1, "bob")), placed(1, 0, 1), died(worker(1), CRASH)]);
    assert_eq!(table.when(create(&if_none(named(2, "bob")))), [answer(2, Registered::NameTaken)]);
    table.when(Event::OutOfScope(id(1)));
    assert_eq!(table.when(create(&if_none(named(3, "bob"))))[0], answer(3, Registered::Created(id(3))));
}

#[test]
fn a_kill_frees_the_name_at_once() {
    let mut table = Table::given([create(&named(1, "bob")), placed(1, 0, 1), kill(1, true)]);
    assert_eq!(table.actors.by_name("ns", "bob"), None);
    assert_eq!(table.when(create(&named(2, "bob")))[0], answer(2, Registered::Created(id(2))));
    table.when(died(worker(1), CRASH));
    assert_eq!(table.actors.by_name("ns", "bob"), Some(id(2)), "the end of the first one's process comes late");
}

#[test]
fn an_owned_actor_that_crashed_keeps_its_name_while_its_owner_holds_it() {
    let crashed = || Table::given([create(&named(1, "bob")), placed(1, 0, 1), died(worker(1), CRASH)]);
    let mut table = crashed();
    assert_eq!(table.when(create(&named(2, "bob"))), [answer(2, Registered::NameTaken)]);
    assert_eq!(table.actors.by_name("ns", "bob"), Some(id(1)), "one can still ask what became of it");
    assert_eq!(table.actors.names(None).count(), 0, "but it is not listed");
    for release in [Event::OutOfScope(id(1)), died(DRIVER, CRASH), Event::JobEnded(JOB), kill(1, true)] {
        let mut table = crashed();
        assert_eq!(table.when(release), [], "it is dead already");
        assert_eq!(table.when(create(&named(3, "bob"))).len().min(2), 2, "the name is free");
    }
}

#[test]
fn a_detached_actor_frees_its_name_when_it_dies() {
    let mut table = Table::given([create(&detached(named(1, "bob"))), placed(1, 0, 1), died(worker(1), CRASH)]);
    assert_eq!(table.when(create(&named(2, "bob")))[0], answer(2, Registered::Created(id(2))));
}

#[test]
fn an_actor_that_left_on_its_own_frees_its_name() {
    let mut table = Table::given([create(&named(1, "bob")), placed(1, 0, 1)]);
    table.given_more([
        Event::Leaving { worker: worker(1) },
        died(worker(1), WorkerExit::Code(0, model::Remains::default())),
    ]);
    assert_eq!(table.when(create(&named(2, "bob")))[0], answer(2, Registered::Created(id(2))));
}

#[test]
fn a_name_stays_through_restarts() {
    let mut bob = named(1, "bob");
    bob.options.restarts_max = 1;
    let mut table = Table::given([create(&bob), placed(1, 0, 1), died(worker(1), CRASH)]);
    assert_eq!(table.actors.names(Some("ns")).count(), 1);
    assert_eq!(table.when(create(&named(2, "bob"))), [answer(2, Registered::NameTaken)]);
}

#[test]
fn a_repeated_request_gets_the_first_answer_again() {
    let mut table = Table::given([create(&named(1, "bob")), create(&named(2, "bob"))]);
    table.when(create(&if_none(named(3, "bob"))));
    assert_eq!(table.when(create(&named(1, "bob"))), [answer(1, Registered::Created(id(1)))]);
    table.when(kill(1, true));
    assert_eq!(table.when(create(&named(1, "bob"))), [answer(1, Registered::Created(id(1)))], "and stays dead");
    assert_eq!(table.when(create(&named(2, "bob"))), [answer(2, Registered::NameTaken)], "though it is free now");
    assert_eq!(table.when(create(&if_none(named(3, "bob")))), [answer(3, Registered::Existing(id(1)))]);
}
