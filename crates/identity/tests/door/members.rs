//! Lines between members: who may have one.

use std::sync::Arc;

use identity::{
    Accepts, Authority, Error, Expected, Fingerprint, Membership, Purpose, Renewal, Role, Untrusted, Usage,
    for_dialler, for_door, for_joiner, for_members, peer_of,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::Acceptor;
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use wire::session::NodeLife;

use crate::world::{Clock, Dial as _, HOUR_S, Line, MINUTE_S, START_S, World, anybody, moment};

fn connect(from: &Membership, from_clock: &Clock, to: &Membership, to_clock: &Clock) -> Result<Line, rustls::Error> {
    let expected = Expected::Node(to.member().who);
    let dial = for_dialler(from, expected, &anybody(), &from_clock.for_tls()).unwrap();
    let listen = for_members(to, &anybody(), &to_clock.for_tls()).unwrap();
    Line::connect(&dial, listen)
}

#[test]
fn members_read_number_life_and_role_of_each_other() {
    let world = World::new();
    let node = world.node(5);
    let line = connect(&node, &world.clock, &world.head, &world.clock).unwrap();
    assert_eq!(line.client.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_3));
    let (authority, now) = (world.authority.certificate(), world.clock.now());
    let dialler = peer_of(authority, line.server.peer_certificates(), Usage::Client, now).unwrap();
    let listener = peer_of(authority, line.client.peer_certificates(), Usage::Server, now).unwrap();
    assert_eq!((dialler.who.node, dialler.who.life, dialler.role), (5, 9, Role::Node));
    assert_eq!((listener.who.node, listener.role), (0, Role::Head));
}

#[test]
fn a_peer_is_whoever_has_a_certificate_that_is_valid_now_whatever_the_line_has_accepted() {
    let (world, other) = (World::new(), World::new());
    // A joiner's line takes the certificate of any server.
    let line = other.door_line();
    let shown = line.client.peer_certificates();
    let (ours, theirs, now) = (world.authority.certificate(), other.authority.certificate(), world.clock.now());
    assert_eq!(peer_of(theirs, shown, Usage::Server, now), Ok(other.head.member()));
    assert!(matches!(peer_of(ours, shown, Usage::Server, now), Err(Untrusted::OtherCluster { .. })));
    let later = moment(START_S + 25 * HOUR_S);
    assert_eq!(peer_of(theirs, shown, Usage::Server, later), Err(Untrusted::Expired(HOUR_S)));
    assert_eq!(peer_of(theirs, line.server.peer_certificates(), Usage::Client, now), Err(Untrusted::Unreadable));
}

#[test]
fn a_dialler_takes_nobody_but_the_member_that_it_means() {
    let world = World::new();
    let (node, four) = (world.node(5), world.node(4));
    let dialled = |expected, to: &Membership| {
        let dial = for_dialler(&node, expected, &anybody(), &world.clock.for_tls()).unwrap();
        let error = Line::connect(&dial, for_members(to, &anybody(), &world.clock.for_tls()).unwrap()).err()?;
        Some(Untrusted::in_tls(&error).unwrap())
    };
    let (who, head) = (four.member().who, world.head.member().who);
    assert_eq!(dialled(Expected::Node(who), &four), None);
    assert_eq!(dialled(Expected::Head, &world.head), None);
    assert_eq!(dialled(Expected::Node(head), &world.head), None);
    assert_eq!(dialled(Expected::Head, &four), Some(Untrusted::NotHead));
    assert_eq!(dialled(Expected::Node(who), &world.head), Some(Untrusted::Unexpected(head)));
    let next_life = NodeLife { life: who.life + 1, ..who };
    assert_eq!(dialled(Expected::Node(next_life), &four), Some(Untrusted::Unexpected(who)));
}

#[test]
fn who_was_expelled_is_refused_on_both_sides_although_its_certificate_is_valid() {
    let world = World::new();
    let (node, clock) = (world.node(5), world.clock.for_tls());
    let expelled = node.member();
    let (others, anybody) = (Accepts::new(move |member| *member != expelled), anybody());
    let dial = for_dialler(&node, Expected::Head, &anybody, &clock).unwrap();
    let error = Line::connect(&dial, for_members(&world.head, &others, &clock).unwrap()).unwrap_err();
    assert_eq!(Untrusted::in_tls(&error), Some(Untrusted::Expelled(expelled.who)));
    let dial = for_dialler(&world.head, Expected::Node(expelled.who), &others, &clock).unwrap();
    let error = Line::connect(&dial, for_members(&node, &anybody, &clock).unwrap()).unwrap_err();
    assert_eq!(Untrusted::in_tls(&error), Some(Untrusted::Expelled(expelled.who)));
    // Its number in a life of its own is another member.
    let again = world.authority.member(NodeLife { node: 5, life: 10 }, Role::Node, world.clock.now()).unwrap();
    let dial = for_dialler(&again, Expected::Head, &anybody, &clock).unwrap();
    Line::connect(&dial, for_members(&world.head, &others, &clock).unwrap()).unwrap();
}

#[test]
fn only_a_head_has_a_door() {
    let world = World::new();
    let error = for_door(&world.node(4), &world.clock.for_tls()).unwrap_err();
    assert!(matches!(error, Error::Untrusted(Untrusted::NotHead)), "{error}");
}

#[test]
fn a_certificate_of_another_cluster_is_refused_by_the_client() {
    let (world, other) = (World::new(), World::new());
    // The foreign server would take anybody, so that it is the client who refuses.
    let dial = for_dialler(&world.node(5), Expected::Head, &anybody(), &world.clock.for_tls()).unwrap();
    let mut listen = Arc::unwrap_or_clone(for_door(&other.head, &world.clock.for_tls()).unwrap());
    listen.alpn_protocols.clear();
    let error = Line::connect(&dial, Arc::new(listen)).unwrap_err();
    let [theirs, ours] = [other.authority.cluster(), world.authority.cluster()];
    assert_eq!(Untrusted::in_tls(&error), Some(Untrusted::OtherCluster { theirs, ours }));
}

#[test]
fn a_certificate_of_another_cluster_is_refused_by_the_server() {
    let (world, other) = (World::new(), World::new());
    let foreign = other.node(5);
    let client = trusting().with_client_auth_cert(vec![foreign.certificate().clone()], key_of(&foreign)).unwrap();
    let listen = for_members(&world.head, &anybody(), &world.clock.for_tls()).unwrap();
    let error = Line::connect(&client, listen).unwrap_err();
    let [theirs, ours] = [other.authority.cluster(), world.authority.cluster()];
    assert_eq!(Untrusted::in_tls(&error), Some(Untrusted::OtherCluster { theirs, ours }));
}

#[test]
fn who_shows_no_certificate_is_no_member() {
    let world = World::new();
    let listen = for_members(&world.head, &anybody(), &world.clock.for_tls()).unwrap();
    let error = Line::connect(&trusting().with_no_client_auth(), listen).unwrap_err();
    assert_eq!(error, rustls::Error::NoCertificatesPresented);
}

#[test]
fn a_joiner_and_a_member_do_not_meet_on_one_line() {
    let world = World::new();
    let dial = for_dialler(&world.node(5), Expected::Head, &anybody(), &world.clock.for_tls()).unwrap();
    let listen = for_members(&world.head, &anybody(), &world.clock.for_tls()).unwrap();
    let door = for_door(&world.head, &world.clock.for_tls()).unwrap();
    let joiner = for_joiner(&world.clock.for_tls()).unwrap();
    assert_eq!(Line::connect(&joiner, listen).unwrap_err(), rustls::Error::NoApplicationProtocol);
    assert_eq!(Line::connect(&dial, door).unwrap_err(), rustls::Error::NoApplicationProtocol);
}

#[test]
fn the_first_message_says_what_a_client_wants() {
    let world = World::new();
    let member = for_dialler(&world.head, Expected::Head, &anybody(), &world.clock.for_tls()).unwrap().dial();
    let joiner = for_joiner(&world.clock.for_tls()).unwrap().dial();
    let stranger = trusting().with_no_client_auth().dial();
    for (mut client, purpose) in [(member, Some(Purpose::Member)), (joiner, Some(Purpose::Join)), (stranger, None)] {
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        let mut acceptor = Acceptor::default();
        acceptor.read_tls(&mut bytes.as_slice()).unwrap();
        let accepted = acceptor.accept().unwrap().unwrap();
        assert_eq!(Purpose::of(&accepted.client_hello()), purpose);
    }
}

#[test]
fn a_client_that_speaks_tls_1_2_only_is_refused_at_both_doors() {
    let world = World::new();
    let listen = for_members(&world.head, &anybody(), &world.clock.for_tls()).unwrap();
    for server in [listen, for_door(&world.head, &world.clock.for_tls()).unwrap()] {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider);
        let client = builder
            .with_protocol_versions(&[&rustls::version::TLS12])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Trusting))
            .with_no_client_auth();
        let error = Line::connect(&client, server).unwrap_err();
        assert!(matches!(error, rustls::Error::PeerIncompatible(_)), "{error}");
    }
}

#[test]
fn a_clock_may_be_59_minutes_behind_the_one_that_signed_and_not_61() {
    let world = World::new();
    let (node, late) = (world.node(5), Clock::new());
    late.set(START_S - 59 * MINUTE_S);
    connect(&node, &late, &world.head, &world.clock).unwrap();
    connect(&node, &world.clock, &world.head, &late).unwrap();
    late.set(START_S - 61 * MINUTE_S);
    for error in [
        connect(&node, &late, &world.head, &world.clock).unwrap_err(),
        connect(&node, &world.clock, &world.head, &late).unwrap_err(),
    ] {
        assert_eq!(Untrusted::in_tls(&error), Some(Untrusted::NotYet(MINUTE_S)));
    }
}

#[test]
fn an_expired_certificate_is_refused_on_both_sides() {
    let world = World::new();
    let (node, late) = (world.node(5), Clock::new());
    late.set(START_S + 24 * HOUR_S + 1);
    for error in [
        connect(&node, &late, &world.head, &world.clock).unwrap_err(),
        connect(&node, &world.clock, &world.head, &late).unwrap_err(),
    ] {
        assert_eq!(Untrusted::in_tls(&error), Some(Untrusted::Expired(1)));
    }
}

#[test]
fn a_certificate_that_names_this_cluster_but_was_signed_by_another_authority_is_forged() {
    let world = World::new();
    // An authority that calls itself like ours: its bytes, with a certificate and a key of another.
    let (ours, other) = (world.authority.to_bytes(), Authority::new(world.clock.now()).unwrap().to_bytes());
    let mixed = [&ours[..24], &other[24..]].concat();
    assert!(Authority::from_bytes(&mixed).is_err(), "cluster and certificate must fit");
    assert!(Authority::from_bytes(&ours[..ours.len() - 1]).is_err());
    assert!(Authority::from_bytes(&[&ours[..], &[0]].concat()).is_err());
}

#[test]
fn an_authority_that_was_stored_signs_on() {
    let world = World::new();
    let restored = Authority::from_bytes(&world.authority.to_bytes()).unwrap();
    let node = restored.member(world.node(6).member().who, Role::Node, world.clock.now()).unwrap();
    connect(&node, &world.clock, &world.head, &world.clock).unwrap();
}

#[test]
fn a_member_renews_in_place_with_a_new_key_and_the_same_name() {
    let world = World::new();
    let node = world.node(5);
    assert!(!node.is_due(world.clock.now()));
    assert!(node.is_due(moment(u64::MAX)), "whatever a clock says");
    world.set_clocks(START_S + 20 * HOUR_S);
    let now = world.clock.now();
    assert!(node.is_due(now) && !node.is_expired(now));
    let renewal = Renewal::new(&node).unwrap();
    let answer = world.authority.renew(node.certificate(), renewal.request(), now).unwrap();
    let renewed = renewal.finish(&answer, &node, now).unwrap();
    assert_eq!(renewed.member(), node.member());
    assert_eq!(renewed.until().as_secs(), START_S + 44 * HOUR_S);
}

#[test]
fn a_request_to_renew_is_good_for_its_sender_alone() {
    let (world, other) = (World::new(), World::new());
    let (node, now) = (world.node(5), world.clock.now());
    let renewal = Renewal::new(&node).unwrap();
    assert!(world.authority.renew(world.node(6).certificate(), renewal.request(), now).is_err());
    assert!(other.authority.renew(node.certificate(), renewal.request(), now).is_err());
    let answer = world.authority.renew(node.certificate(), renewal.request(), now).unwrap();
    assert!(renewal.finish(&answer, &world.node(6), now).is_err());
}

#[test]
fn a_line_that_is_kept_open_past_its_certificate_does_not_renew_it() {
    let world = World::new();
    let node = world.node(5);
    let line = connect(&node, &world.clock, &world.head, &world.clock).unwrap();
    let shown = &line.server.peer_certificates().unwrap()[0];
    let renewal = Renewal::new(&node).unwrap();
    let renew = |s| world.authority.renew(shown, renewal.request(), moment(s));
    assert!(renew(START_S + 24 * HOUR_S).is_ok());
    let late = renew(START_S + 25 * HOUR_S);
    assert!(matches!(late, Err(Error::Untrusted(Untrusted::Expired(HOUR_S)))), "{late:?}");
}

#[test]
fn a_head_is_not_renewed_over_a_line() {
    let world = World::new();
    let renewal = Renewal::new(&world.head).unwrap();
    let answer = world.authority.renew(world.head.certificate(), renewal.request(), world.clock.now());
    assert!(matches!(answer, Err(Error::Untrusted(Untrusted::IsHead))), "{answer:?}");
}

#[test]
fn who_renews_with_a_stolen_certificate_is_told_from_its_owner_by_what_was_issued_last() {
    let world = World::new();
    let (node, now) = (world.node(5), world.clock.now());
    // The thief has a copy of the file, and is first.
    let thief = Membership::from_bytes(&node.to_bytes(), now).unwrap();
    let renewal = Renewal::new(&thief).unwrap();
    let issued = world.authority.renew(thief.certificate(), renewal.request(), now).unwrap();
    let last = Fingerprint::of(&issued);
    let thief = renewal.finish(&issued, &thief, now).unwrap();
    let line = connect(&thief, &world.clock, &world.head, &world.clock).unwrap();
    assert_eq!(Fingerprint::of(&line.server.peer_certificates().unwrap()[0]), last);
    let line = connect(&node, &world.clock, &world.head, &world.clock).unwrap();
    assert_ne!(Fingerprint::of(&line.server.peer_certificates().unwrap()[0]), last);
}

/// The private key as it lies in the membership's file: behind the file's first eight bytes and its length.
fn key_of(membership: &Membership) -> rustls::pki_types::PrivateKeyDer<'static> {
    let bytes = membership.to_bytes();
    let length = u32::from_le_bytes(bytes[8..12].try_into().unwrap()) as usize;
    rustls::pki_types::PrivateKeyDer::Pkcs8(bytes[12..12 + length].to_vec().into())
}

fn trusting() -> rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS13]);
    builder.unwrap().dangerous().with_custom_certificate_verifier(Arc::new(Trusting))
}

/// A client that looks at nothing, so that it is the server who refuses.
#[derive(Debug)]
struct Trusting;

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}
