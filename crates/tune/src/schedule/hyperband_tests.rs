use proptest::prelude::*;

use super::*;

fn options() -> Options {
    Options { mode: Mode::Max, max_t: 81, eta: 3.0, stop_last_trials: true, filling: Filling::SmallestFirst }
}

fn shapes(options: Options) -> Vec<(usize, u64)> {
    let mut band = Hyperband::new(options);
    let mut shapes = Vec::new();
    while band.brackets.len() <= 5 {
        band.add();
        if band.brackets.len() > shapes.len() {
            let shape = band.brackets[shapes.len()].shape;
            shapes.push((shape.size, shape.milestone));
        }
    }
    shapes
}

#[test]
fn a_band_has_brackets_of_81_short_to_5_long_trials() {
    assert_eq!(shapes(options()), [(5, 81), (8, 27), (15, 9), (34, 3), (81, 1), (5, 81)]);
    let bohb = Options { filling: Filling::LargestFirst, ..options() };
    assert_eq!(shapes(bohb), [(81, 1), (34, 3), (15, 9), (8, 27), (5, 81), (81, 1)]);
}

#[test]
fn brackets_too_short_to_be_run_are_left_out() {
    let mut band = Hyperband::new(Options { max_t: 2, eta: 3.0, ..options() });
    (0..30).for_each(|_| _ = band.add());
    assert!(band.views().iter().all(|view| view.shape.milestone == 2));
    assert_eq!(band.views()[1].band, 1);
}

/// The five of the first bracket, who do nothing, and the eight of the second.
fn second_bracket() -> (Hyperband, Vec<Trial>) {
    let mut band = Hyperband::new(options());
    (0..5).for_each(|_| _ = band.add());
    let eight: Vec<Trial> = (0..8).map(|_| band.add()).collect();
    assert_eq!(band.milestone(eight[0]), 27);
    (band, eight)
}

#[test]
fn hb_1_who_is_through_waits_and_the_last_one_sets_the_best_free() {
    let (mut band, eight) = second_bracket();
    assert_eq!(band.result(eight[0], 26.0, 0.0), Outcome::of(Decision::Continue));
    for (value, &trial) in eight[..7].iter().enumerate() {
        assert_eq!(band.result(trial, 27.0, value as f64), Outcome::of(Decision::Pause));
    }
    let last = band.result(eight[7], 27.0, 7.0);
    assert_eq!(last.decision, Decision::Continue);
    assert_eq!(last.resume, [eight[6], eight[5]]);
    assert_eq!(last.stop, [eight[4], eight[3], eight[2], eight[1], eight[0]]);
    assert_eq!(band.milestone(eight[7]), 81);
    assert_eq!(band.stopped(), 5);
}

#[test]
fn hb_1_the_last_round_stops_everybody_who_is_left() {
    let (mut band, eight) = second_bracket();
    eight.iter().for_each(|&trial| drop(band.result(trial, 27.0, f64::from(trial))));
    assert_eq!(band.result(eight[7], 81.0, 1.0).decision, Decision::Pause);
    assert_eq!(band.result(eight[6], 81.0, 1.0).decision, Decision::Pause);
    let last = band.result(eight[5], 81.0, 1.0);
    assert_eq!((last.decision, last.stop.len()), (Decision::Stop, 2));
}

#[test]
fn without_stop_last_trials_the_best_run_on() {
    let mut band = Hyperband::new(Options { stop_last_trials: false, ..options() });
    let trial = band.add();
    assert_eq!(band.result(trial, 500.0, 0.0), Outcome::of(Decision::Continue));
}

#[test]
fn small_values_win_when_they_are_to_and_nan_never_does() {
    let (mut band, eight) = second_bracket();
    band.options.mode = Mode::Min;
    let values = [4.0, f64::NAN, 2.0, f64::NEG_INFINITY, 3.0, 9.0, f64::INFINITY];
    for (&trial, value) in eight.iter().zip(values) {
        band.result(trial, 27.0, value);
    }
    let last = band.result(eight[7], 27.0, 8.0);
    assert_eq!(last.decision, Decision::Stop);
    assert_eq!(last.resume, [eight[2], eight[4], eight[0]]);
}

#[test]
fn a_trial_that_fails_does_not_hold_up_those_who_wait_for_it() {
    let (mut band, eight) = second_bracket();
    eight[..7].iter().for_each(|&trial| drop(band.result(trial, 27.0, f64::from(trial))));
    let freed = band.end(eight[7]);
    assert_eq!(freed.resume, [eight[6], eight[5], eight[4]]);
    assert_eq!(freed.stop.len(), 4);
    assert_eq!(band.end(eight[7]), Outcome::of(Decision::Continue)); // said twice
}

#[test]
fn a_place_that_became_free_is_filled_and_the_new_one_catches_up() {
    let mut band = Hyperband::new(options());
    let five: Vec<Trial> = (0..5).map(|_| band.add()).collect();
    band.result(five[0], 81.0, 1.0);
    band.end(five[4]);
    let late = band.add();
    assert_eq!(band.views().len(), 1);
    five[1..4].iter().for_each(|&trial| assert_eq!(band.result(trial, 81.0, 1.0).decision, Decision::Pause));
    assert_eq!(band.result(late, 81.0, 1.0).decision, Decision::Stop);
    band.add(); // that bracket is over, although nobody is in it
    assert_eq!(band.views().len(), 2);
}

#[test]
fn hb_3_a_late_word_of_a_trial_that_was_cut_is_answered_with_stop() {
    let (mut band, eight) = second_bracket();
    eight.iter().for_each(|&trial| drop(band.result(trial, 27.0, f64::from(trial))));
    assert_eq!(band.result(eight[0], 28.0, 100.0), Outcome::of(Decision::Stop));
}

#[test]
fn who_has_run_ahead_of_the_next_milestone_waits_for_it_too() {
    let mut band = Hyperband::new(Options { max_t: 9, ..options() });
    let trials: Vec<Trial> = (0..8).map(|_| band.add()).collect();
    let second = &trials[3..]; // (3, 9), then (5, 3)
    second[..4].iter().for_each(|&trial| drop(band.result(trial, 9.0, f64::from(trial))));
    // All of the second round's are through with it as well: the bracket ends at once.
    let last = band.result(second[4], 9.0, 100.0);
    assert_eq!((last.decision, last.stop.len()), (Decision::Stop, 4));
}

#[test]
fn bohb_waits_for_a_full_bracket_and_goes_on_without_it_when_nothing_else_is_left() {
    let mut band = Hyperband::new(Options { filling: Filling::LargestFirst, ..options() });
    let trials: Vec<Trial> = (0..6).map(|_| band.add()).collect();
    for &trial in &trials {
        assert_eq!(band.result(trial, 1.0, f64::from(trial)), Outcome::of(Decision::Pause));
    }
    assert_eq!(band.runnable(9), Vec::<Trial>::new());
    let settled = band.settle(); // 6 of 81 came; the best 27 go on, which are all
    assert_eq!(settled.resume, [5, 4, 3, 2, 1, 0]);
    assert_eq!(band.milestone(0), 3);
    assert_eq!(band.runnable(2), [5, 4]);
}

#[test]
fn those_furthest_behind_run_first() {
    let (mut band, eight) = second_bracket();
    assert_eq!(band.runnable(3), [0, 1, 2]);
    (0..5).for_each(|trial| drop(band.result(trial, 40.0, 1.0)));
    assert_eq!(band.runnable(1), [eight[0]]);
}

proptest! {
    /// HB-2 and HB-3: an engine with some slots runs everything to its end, whatever the order of results, ends and failures.
    #[test]
    fn hb_2_it_never_hangs(
        trials in 1_usize..60,
        slots in 1_usize..6,
        eta in 2_u32..5,
        max_t in 1_u64..30,
        is_bohb: bool,
        chances in prop::collection::vec((0_u8..100, 0_u8..100, -50_i32..50), 64),
    ) {
        let filling = if is_bohb { Filling::LargestFirst } else { Filling::SmallestFirst };
        let mut band = Hyperband::new(Options { max_t, eta: f64::from(eta), filling, ..options() });
        let mut engine = Engine { t: vec![], state: vec![] };
        let mut turns = chances.iter().cycle();
        for _ in 0..100_000 {
            let running: Vec<Trial> = engine.those(State::Running);
            // New trials are made when there is room for them, as a searcher does.
            if engine.t.len() < trials && engine.those(State::Waiting).len() < 2 {
                let trial = band.add();
                prop_assert_eq!(trial as usize, engine.t.len());
                engine.t.push(0);
                engine.state.push(State::Waiting);
                continue;
            }
            let open = band.runnable(usize::MAX);
            let next = open.iter().find(|trial| matches!(engine.state[**trial as usize], State::Waiting | State::Paused));
            match next {
                Some(&trial) if running.len() < slots => {
                    engine.state[trial as usize] = State::Running;
                    continue;
                }
                None if running.is_empty() => {
                    let settled = band.settle();
                    if settled.stop.is_empty() && settled.resume.is_empty() {
                        prop_assert!(engine.state.iter().all(|state| *state == State::Ended), "HB-2: {:?}", engine.state);
                        return Ok(());
                    }
                    engine.apply(None, &settled)?;
                    continue;
                }
                _ => {}
            }
            let (pick, fate, value) = turns.next().unwrap();
            let trial = running[usize::from(*pick) % running.len()];
            let outcome = if *fate < 5 {
                engine.state[trial as usize] = State::Ended;
                band.end(trial)
            } else {
                engine.t[trial as usize] += u64::from(*fate % 4 + 1);
                let value = if *fate > 95 { f64::NAN } else { f64::from(*value) };
                band.result(trial, engine.t[trial as usize] as f64, value)
            };
            let reporting = (*fate >= 5).then_some(trial);
            engine.apply(reporting, &outcome)?;
        }
        prop_assert!(false, "HB-2: it goes round and round");
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Waiting,
    Running,
    Paused,
    Ended,
}

struct Engine {
    t: Vec<u64>,
    state: Vec<State>,
}

impl Engine {
    fn those(&self, state: State) -> Vec<Trial> {
        (0..self.state.len()).filter(|&trial| self.state[trial] == state).map(|trial| trial as Trial).collect()
    }

    fn apply(&mut self, reporting: Option<Trial>, outcome: &Outcome) -> Result<(), TestCaseError> {
        if let Some(trial) = reporting {
            self.state[trial as usize] = match outcome.decision {
                Decision::Continue => State::Running,
                Decision::Pause => State::Paused,
                Decision::Stop => State::Ended,
            };
        }
        for &trial in &outcome.resume {
            prop_assert_eq!(self.state[trial as usize], State::Paused, "HB-3");
        }
        for &trial in &outcome.stop {
            prop_assert_eq!(self.state[trial as usize], State::Paused);
            self.state[trial as usize] = State::Ended;
        }
        Ok(())
    }
}
