use proptest::prelude::*;

use super::*;

fn options() -> Options {
    Options {
        mode: Mode::Max,
        perturbation_interval: 10.0,
        burn_in_period: 0.0,
        quantile_fraction: 0.25,
        resample_probability: 0.25,
        perturbation_factors: vec![1.2, 0.8],
        is_synchronous: false,
        seed: 3,
    }
}

/// Five trials that reported 0, 50, 100, 150 and 200 at 10.
fn population(options: Options) -> Pbt {
    let mut pbt = Pbt::new(options);
    for number in 0..5 {
        let trial = pbt.add();
        pbt.result(trial, 10.0, 50.0 * f64::from(number));
    }
    pbt
}

fn looked(advice: Advice) -> Step {
    match advice {
        Advice::Look(step) => step,
        other => panic!("{other:?} instead of a look"),
    }
}

#[test]
fn pbt_1_the_worst_goes_on_from_the_best_and_the_middle_just_goes_on() {
    let mut pbt = population(options());
    assert_eq!(pbt.quantiles(), (vec![0, 1], vec![3, 4]));
    let worst = looked(pbt.result(0, 20.0, -100.0));
    assert!(!worst.save && [3, 4].contains(&worst.exploit.unwrap().donor));
    let middle = looked(pbt.result(2, 20.0, 100.0));
    assert_eq!((middle.save, middle.exploit), (false, None));
    let best = looked(pbt.result(4, 20.0, 300.0));
    assert_eq!((best.save, best.exploit), (true, None));
}

#[test]
fn pbt_1_small_values_win_when_they_are_to() {
    let pbt = population(Options { mode: Mode::Min, ..options() });
    assert_eq!(pbt.quantiles(), (vec![4, 3], vec![1, 0]));
}

#[test]
fn pbt_1_one_alone_is_neither_good_nor_bad() {
    let mut pbt = Pbt::new(options());
    let only = pbt.add();
    assert_eq!(looked(pbt.result(only, 10.0, 1.0)), Step { trial: only, save: false, exploit: None });
}

#[test]
fn pbt_1_the_quantiles_never_meet() {
    let mut pbt = Pbt::new(Options { quantile_fraction: 0.5, ..options() });
    for value in 0..3 {
        let trial = pbt.add();
        pbt.result(trial, 10.0, f64::from(value));
    }
    assert_eq!(pbt.quantiles(), (vec![0], vec![2]));
    pbt.options.quantile_fraction = 0.0;
    assert_eq!(pbt.quantiles(), (vec![], vec![]));
}

#[test]
fn pbt_1_nobody_goes_on_from_what_has_ended_or_is_not_a_number() {
    let mut pbt = population(options());
    assert_eq!(pbt.end(4), None);
    assert_eq!(pbt.quantiles(), (vec![0], vec![3]));
    let mut pbt = Pbt::new(options());
    for value in [f64::NAN, f64::INFINITY, f64::NAN, f64::NAN] {
        let trial = pbt.add();
        assert_eq!(looked(pbt.result(trial, 10.0, value)).exploit, None);
    }
    assert_eq!(looked(pbt.result(0, 20.0, f64::NAN)).exploit, None); // the worst, but there is nobody better
    looked(pbt.result(2, 20.0, -1e9));
    assert_eq!(pbt.quantiles().1, [2]);
    assert_eq!(looked(pbt.result(0, 30.0, f64::NAN)).exploit.unwrap().donor, 2);
}

#[test]
fn pbt_2_within_the_interval_and_the_burn_in_nothing_happens() {
    let mut pbt = population(options());
    assert_eq!(pbt.result(0, 19.0, -100.0), Advice::Continue);
    let mut pbt = Pbt::new(Options { burn_in_period: 25.0, ..options() });
    let trial = pbt.add();
    assert_eq!(pbt.result(trial, 10.0, 1.0), Advice::Continue);
    assert_eq!(pbt.result(trial, 24.0, 1.0), Advice::Continue);
    looked(pbt.result(trial, 25.0, 1.0));
    assert_eq!(pbt.result(trial, 34.0, 1.0), Advice::Continue);
    looked(pbt.result(trial, 35.0, 1.0));
}

#[test]
fn who_exploits_is_as_old_as_its_donor() {
    let mut pbt = population(options());
    pbt.result(4, 30.0, 500.0);
    pbt.exploited(0, 4);
    assert_eq!(pbt.turn(0), Some(30.0));
    assert_eq!(pbt.result(0, 35.0, 0.0), Advice::Continue); // its interval counts from the donor's
}

#[test]
fn pbt_3_in_step_all_wait_for_the_last_and_the_best_come_first() {
    let mut pbt = Pbt::new(Options { is_synchronous: true, ..options() });
    (0..4).for_each(|_| _ = pbt.add());
    for trial in 0..3 {
        assert_eq!(pbt.result(trial, 10.0, f64::from(trial)), Advice::Wait);
        assert_eq!(pbt.turn(trial), None);
    }
    let Advice::Round(steps) = pbt.result(3, 12.0, 3.0) else { panic!("no round") };
    let order: Vec<Trial> = steps.iter().map(|step| step.trial).collect();
    assert_eq!(order, [3, 1, 2, 0]);
    assert!(steps[0].save && steps[3].exploit.unwrap().donor == 3);
    assert!((0..4).all(|trial| pbt.turn(trial).is_some()));
    assert_eq!(pbt.result(0, 21.0, 0.0), Advice::Continue); // the round was at 12 for all
}

#[test]
fn pbt_3_long_steps_do_not_hold_anybody_up() {
    // Steps of 40 with intervals of 10: whoever was through with more than the next interval used to wait for ever.
    let mut pbt = Pbt::new(Options { is_synchronous: true, ..options() });
    let (a, b) = (pbt.add(), pbt.add());
    for t in [40.0, 80.0, 120.0] {
        assert_eq!(pbt.result(a, t, 1.0), Advice::Wait);
        assert!(matches!(pbt.result(b, t, 2.0), Advice::Round(_)));
    }
}

#[test]
fn pbt_3_the_end_of_the_last_one_begins_the_round() {
    let mut pbt = Pbt::new(Options { is_synchronous: true, ..options() });
    (0..3).for_each(|_| _ = pbt.add());
    pbt.result(0, 10.0, 0.0);
    pbt.result(1, 10.0, 1.0);
    let steps = pbt.end(2).expect("a round");
    assert_eq!(steps.iter().map(|step| step.trial).collect::<Vec<_>>(), [1, 0]);
    assert_eq!(pbt.end(0), None);
    assert_eq!(pbt.end(1), None);
}

#[test]
fn listed_values_move_to_neighbours_and_drawn_ones_are_scaled() {
    let mut pbt = Pbt::new(Options { resample_probability: 0.0, ..options() });
    let genes = [Gene::Listed { count: 4, at: Some(0) }, Gene::Listed { count: 4, at: Some(3) }, Gene::Drawn];
    for draw in 0..200 {
        let changes = pbt.explore(draw, &genes);
        assert!(matches!(
            changes[0],
            Change::Shift { to: 0, is_right: false } | Change::Shift { to: 1, is_right: true }
        ));
        assert!(matches!(
            changes[1],
            Change::Shift { to: 2, is_right: false } | Change::Shift { to: 3, is_right: true }
        ));
        assert!(changes[2] == Change::Scale(1.2) || changes[2] == Change::Scale(0.8));
    }
    pbt.options.resample_probability = 1.0;
    let changes = pbt.explore(1, &genes);
    assert!(matches!(changes[..], [Change::Pick(_), Change::Pick(_), Change::Resample(_)]));
}

#[test]
fn a_value_that_is_not_in_its_list_is_drawn_from_it() {
    let pbt = Pbt::new(Options { resample_probability: 0.0, ..options() });
    assert!(matches!(pbt.explore(1, &[Gene::Listed { count: 3, at: None }])[..], [Change::Pick(0..3)]));
}

#[test]
fn what_cannot_be_multiplied_is_always_drawn_and_not_always_the_same() {
    let pbt = Pbt::new(Options { resample_probability: 0.0, ..options() });
    let drawn = |draw| match pbt.explore(draw, &[Gene::Word])[..] {
        [Change::Resample(seed)] => seed,
        ref other => panic!("{other:?}"),
    };
    assert_ne!(drawn(1), drawn(2));
}

#[test]
fn pbt_4_an_exploit_that_did_not_take_place_changes_no_other() {
    let genes = [Gene::Drawn; 4];
    let mut pbt = population(options());
    let alone = pbt.explore(7, &genes);
    assert!(looked(pbt.result(0, 20.0, -100.0)).exploit.is_some());
    pbt.explore(6, &genes);
    assert_eq!(pbt.explore(7, &genes), alone);
    assert_ne!(pbt.explore(8, &genes), alone);
}

#[test]
fn parameters_are_drawn_afresh_as_often_as_asked() {
    let pbt = population(options());
    let fresh =
        (0..4_000).filter(|draw| matches!(pbt.explore(*draw, &[Gene::Drawn])[..], [Change::Resample(_)])).count();
    assert!((900..1_100).contains(&fresh), "{fresh} of 4000 at a quarter");
}

proptest! {
    /// PBT-1, and PBT-3: in step nobody waits while nobody is left to wait for.
    #[test]
    fn pbt_1_exploits_come_from_the_upper_quantile(
        count in 2_u32..12,
        fraction in 0.0_f64..=0.5,
        is_synchronous: bool,
        events in prop::collection::vec((0_u32..12, 1_u8..30, -100_i32..100, 0_u8..100), 1..300),
    ) {
        let mut pbt = Pbt::new(Options { quantile_fraction: fraction, is_synchronous, ..options() });
        (0..count).for_each(|_| { pbt.add(); });
        let mut times = vec![0.0; count as usize];
        for (trial, step, value, fate) in events {
            let trial = trial % count;
            if pbt.turn(trial).is_none() {
                continue; // waits or has ended
            }
            let value = if fate > 90 { f64::NAN } else { f64::from(value) };
            let steps = if fate < 3 {
                pbt.end(trial).unwrap_or_default()
            } else {
                times[trial as usize] += f64::from(step);
                match pbt.result(trial, times[trial as usize], value) {
                    Advice::Look(step) => vec![step],
                    Advice::Round(steps) => steps,
                    Advice::Continue | Advice::Wait => vec![],
                }
            };
            let (lower, upper) = pbt.quantiles();
            for step in &steps {
                prop_assert_eq!(step.save, upper.contains(&step.trial));
                if let Some(Exploit { donor, .. }) = step.exploit {
                    prop_assert!(upper.contains(&donor) && lower.contains(&step.trial));
                    prop_assert!(pbt.score(donor).unwrap() >= pbt.score(step.trial).unwrap());
                    pbt.exploited(step.trial, donor);
                    times[step.trial as usize] = pbt.turn(donor).unwrap();
                }
            }
            let live = pbt.members.iter().filter(|member| !member.has_ended).count();
            let waiting = pbt.members.iter().filter(|member| member.waits).count();
            prop_assert!(live == 0 || waiting < live, "PBT-3: all {} wait", live);
        }
    }
}
