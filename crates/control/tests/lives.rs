//! How actors live, start again and die.

mod story;

use control::{ActorState, Actors, Event, Registered};
use model::{ActorDeath, ProcId, Tick, WorkerExit};
use story::{
    CRASH, DRIVER, JOB, Table, alive, answer, build, build_failed, built, create, creation, dead, detached, died, end,
    id, kill, place, placed, restarting, restarts, unplace, worker,
};

#[test]
fn an_actor_is_placed_built_and_announced() {
    let mut table = Table::given([]);
    assert_eq!(table.when(create(&creation(1))), [answer(1, Registered::Created(id(1))), place(1, 0)]);
    assert_eq!(table.when(placed(1, 0, 1)), [build(1, 1), alive(1, 0, 1)]);
    assert_eq!(table.when(placed(1, 0, 1)), [], "a repeat");
    assert_eq!(table.when(placed(1, 0, 2)), [], "it has a worker");
    assert_eq!(table.when(built(1, 1)), []);
    assert!(table.actors.get(id(1)).is_some_and(|record| record.is_built));
}

#[test]
fn a_crash_uses_up_a_restart_and_the_last_one_is_death() {
    let mut table = Table::given([create(&restarting(1, 1)), placed(1, 0, 1), built(1, 1)]);
    assert_eq!(table.when(died(worker(1), CRASH)), [restarts(1, 1), place(1, 1)]);
    assert_eq!(table.when(died(worker(1), CRASH)), [], "a repeat");
    assert_eq!(table.when(placed(1, 0, 2)), [], "for the life before");
    assert_eq!(table.when(placed(1, 1, 2)), [build(1, 2), alive(1, 1, 2)]);
    assert_eq!(table.when(died(worker(2), CRASH)), [dead(1, 1, ActorDeath::Crashed(CRASH))]);
}

#[test]
fn an_actor_may_restart_for_ever() {
    let mut table = Table::given([create(&restarting(1, -1))]);
    for life in 0..1_000 {
        table.when(placed(1, life, life as u16 + 1));
        table.when(built(1, life as u16 + 1));
        assert_eq!(table.when(died(worker(life as u16 + 1), CRASH)), [restarts(1, life + 1), place(1, life + 1)]);
    }
}

// A class that always crashed in its constructor, with restarts for ever, cost two hundred processes a second.
#[test]
fn ctl_7_an_actor_whose_constructors_keep_failing_is_started_ever_more_rarely() {
    let mut table = Table::given([create(&restarting(1, -1))]);
    for (life, wait_ms) in [(0, 0), (1, 0), (2, 100), (3, 200), (4, 400)] {
        table.when(placed(1, life, life as u16 + 1));
        let effects =
            if life == 3 { table.when(build_failed(1, 4)) } else { table.when(died(worker(life as u16 + 1), CRASH)) };
        let wanted = if wait_ms == 0 { place(1, life + 1) } else { restarts(1, life + 1) };
        assert_eq!(effects.last(), Some(&wanted));
        if wait_ms > 0 {
            assert_eq!(table.actors.next_tick(), Some(table.now.plus_ms(wait_ms)));
            assert_eq!(table.after_ms(wait_ms - 1), []);
            assert_eq!(table.after_ms(1), [place(1, life + 1)]);
        }
    }
    // Once it stands, its next crash is a first one again.
    table.given_more([placed(1, 5, 6), built(1, 6)]);
    assert_eq!(table.when(died(worker(6), CRASH)), [restarts(1, 6), place(1, 6)]);
    assert_eq!(table.actors.next_tick(), None, "nothing is polled");
}

#[test]
fn ctl_7_an_actor_that_is_killed_while_its_next_life_is_postponed_never_begins_it() {
    let mut table = Table::given([create(&restarting(1, -1))]);
    for life in 0..3 {
        table.given_more([placed(1, life, life as u16 + 1), died(worker(life as u16 + 1), CRASH)]);
    }
    assert!(table.actors.next_tick().is_some());
    assert_eq!(table.when(kill(1, true)), [dead(1, 3, ActorDeath::Killed)]);
    assert_eq!((table.actors.next_tick(), table.after_ms(60_000)), (None, vec![]));
}

#[test]
fn ctl_7_a_place_that_nobody_asked_for_does_not_begin_a_postponed_life() {
    let mut table = Table::given([create(&restarting(1, -1))]);
    for life in 0..3 {
        table.given_more([placed(1, life, life as u16 + 1), died(worker(life as u16 + 1), CRASH)]);
    }
    assert_eq!(table.when(placed(1, 3, 9)), []);
    assert_eq!(table.after_ms(100), [place(1, 3)]);
}

#[test]
fn leaving_is_no_crash_and_an_exit_code_of_zero_without_a_word_is_one() {
    let mut table = Table::given([create(&restarting(1, -1)), placed(1, 0, 1)]);
    assert_eq!(table.when(Event::Leaving { worker: worker(1) }), [], "calls under way still finish");
    assert_eq!(
        table.when(died(worker(1), WorkerExit::Code(3, model::Remains::default()))),
        [dead(1, 0, ActorDeath::Exited)]
    );
    let mut table = Table::given([create(&restarting(1, -1)), placed(1, 0, 1)]);
    assert_eq!(
        table.when(died(worker(1), WorkerExit::Code(0, model::Remains::default()))),
        [restarts(1, 1), place(1, 1)]
    );
}

#[test]
fn a_constructor_that_raises_is_not_tried_again_in_the_first_life() {
    let mut table = Table::given([create(&restarting(1, -1)), placed(1, 0, 1)]);
    let init_failed = dead(1, 0, ActorDeath::InitFailed([9].into()));
    assert_eq!(table.when(build_failed(1, 1)), [end(1, true), init_failed]);
    assert_eq!(table.when(build_failed(1, 1)), []);
}

#[test]
fn a_constructor_that_raises_in_a_restart_uses_up_restarts() {
    let mut table = Table::given([create(&restarting(1, 2)), placed(1, 0, 1), died(worker(1), CRASH), placed(1, 1, 2)]);
    assert_eq!(table.when(build_failed(1, 1)), [], "an answer of the life before");
    assert_eq!(table.when(build_failed(1, 2)), [end(2, true), restarts(1, 2), place(1, 2)]);
    table.when(placed(1, 2, 3));
    assert_eq!(table.when(build_failed(1, 3))[1], dead(1, 2, ActorDeath::InitFailed([9].into())));
}

#[test]
fn kill_ends_a_living_actor_at_once_and_frees_a_pending_ones_place() {
    let mut table = Table::given([create(&restarting(1, 5)), placed(1, 0, 1)]);
    assert_eq!(table.when(kill(1, true)), [end(1, false), dead(1, 0, ActorDeath::Killed)]);
    assert_eq!(table.when(died(worker(1), CRASH)), [], "no crash");
    let mut table = Table::given([create(&restarting(1, 5))]);
    assert_eq!(table.when(kill(1, true)), [unplace(1, 0), dead(1, 0, ActorDeath::Killed)]);
    assert_eq!(table.when(placed(1, 0, 1)), [], "the two crossed");
}

#[test]
fn a_soft_kill_uses_up_a_restart() {
    let mut table = Table::given([create(&restarting(1, 1)), placed(1, 0, 1)]);
    assert_eq!(table.when(kill(1, false)), [end(1, false), restarts(1, 1), place(1, 1)]);
    assert_eq!(table.when(placed(1, 1, 1)), [], "that process is about to end");
    assert_eq!(table.when(died(worker(1), CRASH)), [], "as was to be expected");
    assert_eq!(table.when(kill(1, false)), [unplace(1, 1), dead(1, 1, ActorDeath::Killed)], "none is left");
}

#[test]
fn actors_die_with_the_process_that_made_them_and_detached_ones_do_not() {
    let mut table = Table::given([
        create(&restarting(1, 5)),
        create(&detached(creation(2))),
        create(&restarting(3, 5)),
        placed(1, 0, 1),
        placed(2, 0, 2),
    ]);
    let effects = table.when(died(DRIVER, CRASH));
    let owner_died = |number| dead(number, 0, ActorDeath::OwnerDied);
    assert_eq!(effects, [end(1, false), owner_died(1), unplace(3, 0), owner_died(3)]);
    assert_eq!(table.when(died(DRIVER, CRASH)), []);
    assert_eq!(table.actors.view(id(2)).state, ActorState::Alive { worker: worker(2) });
}

#[test]
fn ctl_5_a_request_of_a_dead_process_makes_no_living_actor() {
    let mut table = Table::given([died(DRIVER, CRASH)]);
    let effects = table.when(create(&creation(1)));
    let created = answer(1, Registered::Created(id(1)));
    assert_eq!(effects, [created, place(1, 0), unplace(1, 0), dead(1, 0, ActorDeath::OwnerDied)]);
    assert_eq!(table.when(create(&detached(creation(2)))).len(), 2, "a detached one needs no maker");
}

#[test]
fn out_of_scope_is_a_graceful_end_without_restart() {
    let mut table = Table::given([create(&restarting(1, -1)), placed(1, 0, 1)]);
    assert_eq!(table.when(Event::OutOfScope(id(1))), [end(1, true), dead(1, 0, ActorDeath::OutOfScope)]);
    assert_eq!(table.when(Event::OutOfScope(id(1))), []);
    assert_eq!(table.when(died(worker(1), CRASH)), []);
    let mut table = Table::given([create(&detached(creation(2)))]);
    assert_eq!(table.when(Event::OutOfScope(id(2))), [], "a detached one has no scope");
}

#[test]
fn the_end_of_a_job_spares_detached_actors_and_what_they_made() {
    let mut of_detached = creation(3);
    of_detached.owner = worker(2);
    let mut of_owned = creation(4);
    of_owned.owner = worker(1);
    let mut table = Table::given([create(&creation(1)), create(&detached(creation(2)))]);
    for event in [placed(1, 0, 1), placed(2, 0, 2), create(&of_detached), create(&of_owned), placed(3, 0, 3)] {
        table.when(event);
    }
    table.when(Event::JobEnded(JOB));
    assert_eq!(table.death(1), Some(&ActorDeath::OwnerDied));
    assert_eq!((table.death(2), table.death(3)), (None, None));
    assert_eq!(table.death(4), Some(&ActorDeath::OwnerDied));
    assert_eq!(table.when(died(worker(2), CRASH)).len(), 3, "what it made goes with it");
}

#[test]
fn a_worker_that_died_on_the_way_costs_no_restart() {
    let mut table = Table::given([create(&creation(1)), died(worker(1), CRASH)]);
    assert_eq!(table.when(placed(1, 0, 1)), [place(1, 0)]);
    assert_eq!(table.when(placed(1, 0, 2)), [build(1, 2), alive(1, 0, 2)]);
}

#[test]
fn news_of_unknown_actors_change_nothing() {
    let mut table = Table::given([]);
    let leaving = Event::Leaving { worker: worker(1) };
    for event in [placed(9, 0, 1), built(9, 1), build_failed(9, 1), leaving, kill(9, true), Event::OutOfScope(id(9))] {
        assert_eq!(table.when(event), []);
    }
    assert_eq!(table.actors.view(id(9)).state, ActorState::Dead(ActorDeath::NeverExisted));
    assert!(table.actors.get(id(9)).is_none());
}

#[test]
fn ctl_6_the_oldest_dead_are_forgotten() {
    let mut actors = Actors::with_dead_max(3);
    for number in 0..10 {
        for event in [create(&creation(number)), kill(number, true)] {
            actors.step(Tick(0), event, &mut Vec::new());
        }
        actors.check_invariants();
    }
    assert_eq!(actors.iter().count(), 3);
    let record = actors.get(id(9)).unwrap();
    assert!(record.creation.spec.is_empty(), "the spec is not kept");
    assert_eq!(
        record.creation.options.need,
        model::Need::default(),
        "nor what it needed: its environment may be large"
    );
}

#[test]
fn the_next_user_of_a_process_slot_is_somebody_else() {
    let mut table = Table::given([create(&creation(1)), placed(1, 0, 1)]);
    let next = ProcId::new(1, 1, 1);
    assert_eq!(table.when(died(next, CRASH)), []);
    assert_eq!(table.death(1), None);
}
