//! Who gets in by token, and who does not.

use identity::{
    Admission, Binding, Error, Expected, Fingerprint, Join, Joining, Membership, Progress, Refusal, Role, Step, Token,
    Untrusted, Usage, for_dialler, for_joiner, for_members, peer_of,
};
use rustls::pki_types::ServerName;
use wire::session::NodeLife;

use crate::world::{HOUR_S, Line, MINUTE_S, PYTHON, START_S, World, anybody, moment};

#[test]
fn a_node_with_the_right_token_becomes_a_member_and_talks_to_others() {
    let mut world = World::new();
    let token = world.token();
    let node = world.join(&token, None).unwrap();
    assert_eq!(node.member().who, NodeLife { node: 7, life: 77 });
    assert_eq!((node.member().role, node.member().cluster), (Role::Node, world.authority.cluster()));
    assert_eq!(node.authority(), world.authority.certificate());
    let wish = world.last_wish.clone().unwrap();
    assert_eq!(wish.token, token.id());
    assert_eq!(
        wish.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["10.1.2.3", "::1", "node-7.example"]
    );

    let dial = for_dialler(&node, Expected::Head, &anybody(), &world.clock.for_tls()).unwrap();
    let listen = for_members(&world.head, &anybody(), &world.clock.for_tls()).unwrap();
    let line = Line::connect(&dial, listen).unwrap();
    let (authority, now) = (world.authority.certificate(), world.clock.now());
    assert_eq!(peer_of(authority, line.server.peer_certificates(), Usage::Client, now), Ok(node.member()));
    assert_eq!(peer_of(authority, line.client.peer_certificates(), Usage::Server, now), Ok(world.head.member()));
}

#[test]
fn a_certificate_names_nothing_but_the_node_whatever_addresses_it_asked_with() {
    let mut world = World::new();
    let token = world.token();
    let node = world.join(&token, None).unwrap();
    assert_eq!(world.last_wish.clone().unwrap().addresses.len(), 3);
    let parsed = webpki::EndEntityCert::try_from(node.certificate()).unwrap();
    assert_eq!(parsed.valid_dns_names().count(), 0);
    assert_eq!(parsed.valid_uri_names().collect::<Vec<_>>(), [node.member().to_uri()]);
    for name in ["10.1.2.3", "::1", "node-7.example"] {
        let name = ServerName::try_from(name).unwrap();
        assert!(parsed.verify_is_valid_for_subject_name(&name).is_err(), "{name:?}");
    }
}

#[test]
fn a_conversation_in_single_bytes_comes_to_the_same_end() {
    let mut world = World::new();
    let token = world.token();
    let line = world.door_line();
    let (mut join, mut to_head) = world.join_as(&line, &token, None);
    let mut admission = Admission::new(Binding::of(&line.server).unwrap());
    let door = world.door();
    let now = world.clock.now();
    loop {
        let mut answer = Vec::new();
        for byte in &to_head {
            assert!(answer.is_empty(), "an answer before the last byte");
            match admission.input(&[*byte], door, now).unwrap() {
                Step::More => {}
                Step::Send(bytes) => answer = bytes,
                Step::Decide(_) => answer = admission.grant(3, door, now).unwrap().answer,
            }
        }
        let (last, rest) = answer.split_last().unwrap();
        for byte in rest {
            assert!(matches!(join.input(&[*byte], now).unwrap(), Progress::More));
            assert!(matches!(join.ended(), Err(Error::Ended)), "an end here is one too early");
        }
        match join.input(&[*last], now).unwrap() {
            Progress::Send(bytes) => to_head = bytes,
            Progress::Joined(node) => break assert_eq!(node.member().who.node, 3),
            Progress::More => panic!("the message was whole"),
        }
    }
    assert!(join.ended().is_ok());
}

#[test]
fn a_token_that_the_head_does_not_know_is_refused() {
    let mut world = World::new();
    world.token();
    let stranger = Token::new(world.authority.cluster());
    assert_eq!(world.refusal(&stranger), Refusal::UnknownToken);
}

#[test]
fn without_any_token_in_the_table_nobody_gets_in() {
    let mut world = World::new();
    let stranger = Token::new(world.authority.cluster());
    assert_eq!(world.refusal(&stranger), Refusal::UnknownToken);
}

#[test]
fn an_expired_token_is_refused_as_expired() {
    let mut world = World::new();
    let token = world.tokens.add(world.clock.now(), Some(moment(START_S + MINUTE_S))).unwrap();
    world.join(&token, None).unwrap();
    world.set_clocks(START_S + MINUTE_S);
    assert_eq!(world.refusal(&token), Refusal::ExpiredToken);
}

#[test]
fn after_a_rotation_the_old_token_holds_for_a_while_and_the_new_one_for_ever() {
    let mut world = World::new();
    let old = world.token();
    let new = world.tokens.rotate(world.clock.now(), moment(START_S + HOUR_S));
    world.join(&old, None).unwrap();
    world.join(&new, None).unwrap();
    world.set_clocks(START_S + 2 * HOUR_S);
    assert_eq!(world.refusal(&old), Refusal::ExpiredToken);
    world.join(&new, None).unwrap();
}

#[test]
fn a_token_of_another_cluster_is_refused_and_both_clusters_are_known() {
    let (mut world, mut other) = (World::new(), World::new());
    let foreign = other.token();
    let refusal = world.refusal(&foreign);
    assert_eq!(refusal, Refusal::OtherCluster(world.authority.cluster()));
    assert!(refusal.to_string().contains(&world.authority.cluster().to_string()), "{refusal}");
}

#[test]
fn a_proof_that_was_recorded_on_one_connection_is_refused_on_another() {
    let mut world = World::new();
    let token = world.token();
    let (recorded, fresh) = (world.door_line(), world.door_line());
    let (_, hello) = world.join_as(&recorded, &token, None);
    let door = world.door();
    let mut same = Admission::new(Binding::of(&recorded.server).unwrap());
    assert!(matches!(same.input(&hello, door, world.clock.now()), Ok(Step::Send(_))));
    let mut other = Admission::new(Binding::of(&fresh.server).unwrap());
    let away = other.input(&hello, door, world.clock.now()).unwrap_err();
    assert_eq!(away.refusal, Refusal::WrongProof);
}

#[test]
fn a_proof_that_is_sent_twice_on_one_connection_is_refused() {
    let mut world = World::new();
    let token = world.token();
    let line = world.door_line();
    let (_, hello) = world.join_as(&line, &token, None);
    let door = world.door();
    let mut admission = Admission::new(Binding::of(&line.server).unwrap());
    admission.input(&hello, door, world.clock.now()).unwrap();
    for _ in 0..2 {
        let away = admission.input(&hello, door, world.clock.now()).unwrap_err();
        assert!(matches!(away.refusal, Refusal::Misunderstood(_)), "{away}");
    }
    let away = admission.grant(1, door, world.clock.now()).unwrap_err();
    assert!(matches!(away.refusal, Refusal::Misunderstood(_)), "{away}");
}

#[test]
fn somebody_between_joiner_and_head_gets_nothing_through() {
    let mut world = World::new();
    let token = world.token();
    // Both ends talk to somebody with a certificate of his own making, who passes every byte on.
    let between = World::new();
    let to_between = between.door_line();
    let to_head = world.door_line();
    let (join, hello) = world.join_as(&to_between, &token, None);
    let admission = Admission::new(Binding::of(&to_head.server).unwrap());
    let end = world.converse(join, hello, admission);
    assert!(matches!(end, Err(Error::RefusedUnproven(Refusal::WrongProof))), "{end:?}");
}

#[test]
fn a_joiner_believes_no_server_that_does_not_know_the_token() {
    let mut world = World::new();
    let token = world.token();
    // It has the cluster's name and a token of that name, but not the secret: its proof is the joiner's own, sent back.
    let line = world.door_line();
    let (mut join, hello) = world.join_as(&line, &token, None);
    let own_proof = &hello[hello.len() - 32..];
    let authority = world.authority.certificate();
    let length = (3 + 32 + 4 + authority.len()) as u16;
    let mut welcome = length.to_le_bytes().to_vec();
    welcome.push(2);
    welcome.extend_from_slice(own_proof);
    welcome.extend_from_slice(&(authority.len() as u32).to_le_bytes());
    welcome.extend_from_slice(authority);
    assert!(matches!(join.input(&welcome, world.clock.now()), Err(Error::Unproven)));
    assert!(matches!(join.input(&welcome, world.clock.now()), Err(Error::OutOfTurn)), "it is over");
}

#[test]
fn clocks_that_differ_by_59_minutes_do_and_by_61_do_not() {
    let mut world = World::new();
    let token = world.token();
    for joiner_s in [START_S - 59 * MINUTE_S, START_S + 59 * MINUTE_S] {
        world.joiner_clock.set(joiner_s);
        world.join(&token, None).unwrap();
    }
    for joiner_s in [START_S - 61 * MINUTE_S, START_S + 61 * MINUTE_S, 0, u64::MAX / 2] {
        world.joiner_clock.set(joiner_s);
        assert_eq!(world.refusal(&token), Refusal::Clock { ours: START_S, theirs: joiner_s });
    }
}

#[test]
fn who_has_slept_past_its_certificate_is_refused_as_a_member_and_keeps_its_number_by_token() {
    let mut world = World::new();
    let token = world.token();
    let node = world.join(&token, None).unwrap();
    world.set_clocks(START_S + 25 * HOUR_S);
    world.renew_head();
    assert!(node.is_expired(world.clock.now()));

    let dial = for_dialler(&node, Expected::Head, &anybody(), &world.clock.for_tls()).unwrap();
    let listen = for_members(&world.head, &anybody(), &world.clock.for_tls()).unwrap();
    let error = Line::connect(&dial, listen).unwrap_err();
    assert_eq!(Untrusted::in_tls(&error), Some(Untrusted::Expired(HOUR_S)));

    // As it would be after a restart: from its file.
    let node = Membership::from_bytes(&node.to_bytes(), world.clock.now()).unwrap();
    let (member, shown) = (node.member(), Fingerprint::of(node.certificate()));
    let renewed = world.join(&token, Some(node)).unwrap();
    let wish = world.last_wish.clone().unwrap();
    assert_eq!((wish.former, wish.shown, wish.python), (Some(member), Some(shown), PYTHON));
    assert_eq!(renewed.member().who, member.who);
    assert!(!renewed.is_expired(world.clock.now()));
}

#[test]
fn who_comes_by_token_again_has_a_new_key_and_the_old_one_does_not_fit_its_certificate() {
    let mut world = World::new();
    let (token, now) = (world.token(), world.clock.now());
    let node = world.join(&token, None).unwrap();
    let old = node.to_bytes();
    let new = world.join(&token, Some(node)).unwrap().to_bytes();
    assert_eq!(world.last_wish.clone().unwrap().former.map(|former| former.who.node), Some(7));
    // Behind eight bytes stands the key with its length, and then the certificates.
    let split = |bytes: &[u8]| 12 + u32::from_le_bytes(bytes[8..12].try_into().unwrap()) as usize;
    let mixed = [&old[..split(&old)], &new[split(&new)..]].concat();
    assert!(matches!(Membership::from_bytes(&mixed, now), Err(Error::Untrusted(Untrusted::NotOurs))));
    assert!(Membership::from_bytes(&new, now).is_ok());
}

#[test]
fn a_former_certificate_of_another_cluster_is_not_told_to_this_one() {
    let (mut world, other) = (World::new(), World::new());
    let token = world.token();
    let foreign = other.node(3);
    world.join(&token, Some(foreign)).unwrap();
    assert_eq!(world.last_wish.clone().unwrap().former, None);
}

#[test]
fn the_head_may_refuse_for_a_reason_of_its_own_and_control_characters_are_not_shown() {
    let mut world = World::new();
    let token = world.token();
    let line = world.door_line();
    let (mut join, hello) = world.join_as(&line, &token, None);
    let mut admission = Admission::new(Binding::of(&line.server).unwrap());
    let (door, now) = (world.door(), world.clock.now());
    let Ok(Step::Send(welcome)) = admission.input(&hello, door, now) else { panic!("no welcome") };
    let Ok(Progress::Send(request)) = join.input(&welcome, now) else { panic!("no request") };
    assert!(matches!(admission.input(&request, door, now), Ok(Step::Decide(_))));
    let away = admission.refuse(Refusal::Other("Python 3.11 here\u{1b}[2J".into()));
    let error = join.input(&away.answer, now).unwrap_err();
    assert_eq!(error.to_string(), "the cluster does not let this node in: Python 3.11 here [2J");
}

#[test]
fn a_version_that_does_not_fit_is_refused_with_both_named() {
    let mut world = World::new();
    let token = world.token();
    let line = world.door_line();
    let (_, mut hello) = world.join_as(&line, &token, None);
    hello[11..15].copy_from_slice(&1_u32.to_le_bytes());
    let door = world.door();
    let mut admission = Admission::new(Binding::of(&line.server).unwrap());
    let away = admission.input(&hello, door, world.clock.now()).unwrap_err();
    assert_eq!(away.refusal, Refusal::Version { ours: wire::PROTOCOL, theirs: 1 });
}

#[test]
fn what_is_too_long_or_of_no_kind_is_refused_and_not_kept() {
    let world = World::new();
    let line = world.door_line();
    let door = world.door();
    let refused = |bytes: &[u8]| {
        let mut admission = Admission::new(Binding::of(&line.server).unwrap());
        admission.input(bytes, door, world.clock.now()).unwrap_err().refusal
    };
    let too_long = [0; identity::MESSAGE_BYTES_MAX + 1];
    for bytes in [&too_long[..], &[0xff, 0xff], &[2, 0], &[4, 0, 99, 0], b"GET / HTTP/1.1\r\n\r\n", &[3, 0, 1]] {
        assert!(matches!(refused(bytes), Refusal::Misunderstood(_)), "{bytes:?}");
    }
    assert!(matches!(refused(b"GET / HTTP/1.1\r\n\r\n"), Refusal::Misunderstood(_)));
}

#[test]
fn before_its_handshake_is_over_a_connection_binds_nothing() {
    let world = World::new();
    let connection = for_joiner(&world.clock.for_tls()).unwrap().connect().unwrap();
    assert!(Binding::of(&connection).is_err());
    let token = Token::new(world.authority.cluster());
    let joining = Joining { token, addresses: vec![], life: 1, python: PYTHON, former: None };
    assert!(Join::new(&connection, joining, world.clock.now()).is_err());
}
