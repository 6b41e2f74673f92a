//! Certificates end after a day, here as well as there; nobody sleeps that long for it.

use identity::Error;
use wire::session::NodeLife;

use super::station::{PATIENCE, PYTHON, Station, check_calls, clone_of, loopback, refused};
use crate::abroad::{Ask, Belonging, HEAD, JoinError, Told, join};

const HOUR_S: i64 = 3_600;

fn put_forward(stations: &[&Station], by_s: i64) {
    for station in stations {
        station.belonging.clock.put_forward(by_s);
    }
}

fn until_s(station: &Station) -> u64 {
    station.belonging.membership().until().as_secs()
}

/// A member that has no token: it can only renew by the session.
fn member_without_token(head: &Station) -> Station {
    let address = head.address();
    let joined = join(&address.ip().to_string(), address.port(), head.token(), PYTHON, PATIENCE).unwrap();
    let mut belonging = joined.belonging;
    belonging.token = None;
    let folder = std::env::temp_dir().join(format!("eagleray-abroad-{}-tokenless", std::process::id()));
    let mut member = Station::start(belonging, Some(address), Some(loopback()), folder);
    member.wait_until_up();
    member
}

#[test]
fn certificates_are_renewed_in_place_day_after_day_and_no_call_is_lost() {
    let mut head = Station::head();
    let mut member = member_without_token(&head);
    check_calls(&mut head, &mut member);
    let who = member.belonging.life();
    for _ in 0..4 {
        let before = (until_s(&head), until_s(&member));
        put_forward(&[&head, &member], 17 * HOUR_S);
        member.say(HEAD);
        member.until_it_is(|| until_s(&member) > before.0.max(before.1));
        head.until_it_is(|| until_s(&head) > before.0);
        check_calls(&mut head, &mut member);
        assert_eq!(member.belonging.life(), who);
    }
}

#[test]
fn who_has_slept_too_long_comes_by_token_and_keeps_its_number_and_its_session() {
    let mut head = Station::head();
    let mut member = Station::member_of(&head);
    check_calls(&mut head, &mut member);
    let (who, before) = (member.belonging.life(), until_s(&member));
    put_forward(&[&head, &member], 100 * HOUR_S);
    member.until_it_is(|| until_s(&member) > before + 90 * HOUR_S as u64);
    check_calls(&mut head, &mut member);
    assert_eq!(member.belonging.life(), who);
    let behind = refused(&head, head.token(), PYTHON).to_string();
    assert!(behind.contains("the clocks differ"), "this clock was not put forward: {behind}");
}

#[test]
fn an_hour_of_clock_skew_is_tolerated_and_more_is_refused_with_both_clocks_named() {
    for minutes in [-59, 59] {
        let mut head = Station::head();
        head.belonging.clock.put_forward(minutes * 60);
        let mut member = Station::member_of(&head);
        check_calls(&mut head, &mut member);
    }
    for minutes in [-61, 61] {
        let head = Station::head();
        head.belonging.clock.put_forward(minutes * 60);
        let error = refused(&head, head.token(), PYTHON).to_string();
        assert!(error.contains("the clocks differ too much: this node's says"), "{error}");
    }
}

/// A copied certificate is of no use once its owner has renewed, and to try it tells the head.
#[test]
fn a_life_that_comes_with_two_certificates_is_expelled() {
    let mut head = Station::head();
    let mut member = member_without_token(&head);
    let mut other = Station::member_of(&head);
    check_calls(&mut head, &mut member);
    let copied = clone_of(&member.belonging.membership(), &member.belonging.clock);
    let before = until_s(&member);
    put_forward(&[&head, &member, &other], 17 * HOUR_S);
    member.until_it_is(|| until_s(&member) > before);
    check_calls(&mut head, &mut member);
    let clock = member.belonging.clock.clone();
    let thief = Belonging::of_member(copied, None, PYTHON, clock);
    let folder = std::env::temp_dir().join(format!("eagleray-abroad-{}-thief", std::process::id()));
    let _thief = Station::start(thief, Some(head.address()), None, folder);
    let number = member.number();
    let why = head.until(|told| match told {
        Told::Lost(node, why) if *node == number => Some(why.clone()),
        _ => None,
    });
    assert!(why.contains("copied"), "{why}");
    // As the node's own thread does it then.
    head.abroad.ask(Ask::Part(number));
    let why = member.lost();
    assert!(why.contains("not valid any more"), "{why}");
    other.say(HEAD);
    let number = other.number();
    head.until(|told| match told {
        Told::Hub(carrier::ToHub::Said { node, .. }) if *node == number => Some(()),
        _ => None,
    });
}

/// The node went on dialling without a pause, for ever: each handshake passed for a line, and none led anywhere.
#[test]
fn who_is_declared_dead_and_comes_back_is_told_so() {
    let mut head = Station::head();
    let mut member = Station::member_of(&head);
    check_calls(&mut head, &mut member);
    head.abroad.ask(Ask::Part(member.number()));
    let why = member.lost();
    let NodeLife { node, life } = member.belonging.life();
    assert!(
        why.contains(&format!("node {node} does not belong to the cluster any more in its life {life:016x}")),
        "{why}"
    );
}

#[test]
fn who_was_declared_dead_does_not_get_its_number_back_by_token() {
    let mut head = Station::head();
    let mut member = Station::member_of(&head);
    check_calls(&mut head, &mut member);
    head.abroad.ask(Ask::Part(member.number()));
    head.until_it_is(|| {
        let error = crate::abroad::joining::join_again(&member.belonging, head.address(), PATIENCE);
        matches!(&error, Err(JoinError::Refused(Error::Refused(why))) if why.to_string().contains("start it anew"))
    });
}
