//! ID-3: whatever bytes come in, every decoder answers with a value or an error.

use std::sync::OnceLock;
use std::time::Duration;

use proptest::prelude::*;
use rustls::pki_types::UnixTime;
use wire::session::NodeLife;

use super::*;
use crate::name::Member;
use crate::proof::Binding;
use crate::{Admission, Authority, Door, Join, Joining, Key, Membership, Progress, Renewal, Role, Step, Token, Tokens};

const NOW: UnixTime = UnixTime::since_unix_epoch(Duration::from_secs(1_780_000_000));

struct World {
    authority: Authority,
    tokens: Tokens,
    token: Token,
    head: Membership,
}

/// Made once: keys take their time.
fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let authority = Authority::new(NOW).unwrap();
        let mut tokens = Tokens::new(authority.cluster());
        let token = tokens.add(NOW, None).unwrap();
        let head = authority.member(NodeLife { node: 0, life: 1 }, Role::Head, &[], NOW).unwrap();
        World { authority, tokens, token, head }
    })
}

impl World {
    fn door(&self) -> Door<'_> {
        Door { authority: &self.authority, tokens: &self.tokens }
    }

    fn join(&self) -> (Join, Vec<u8>) {
        let joining = Joining {
            binding: Binding::fixed(1),
            server: self.head.certificate().clone(),
            token: self.token.clone(),
            addresses: vec![Address::parse("10.0.0.1").unwrap()],
            life: 5,
            former: None,
        };
        Join::new(joining, NOW).unwrap()
    }
}

fn refusals() -> Vec<Refusal> {
    vec![
        Refusal::Version { ours: 1, theirs: u32::MAX },
        Refusal::OtherCluster(ClusterId(*b"0123456789abcdef")),
        Refusal::UnknownToken,
        Refusal::ExpiredToken,
        Refusal::WrongProof,
        Refusal::Clock { ours: 0, theirs: u64::MAX },
        Refusal::BadRequest("a".into()),
        Refusal::Misunderstood(String::new()),
        Refusal::Other("ü".repeat(200)),
    ]
}

#[test]
fn every_refusal_is_read_back_as_it_was_sent() {
    for refusal in refusals() {
        let bytes = encode_refused(&refusal);
        let (kind, reader) = open(&bytes).unwrap();
        assert_eq!((kind, decode_refused(reader).unwrap()), (Kind::Refused, refusal));
    }
}

#[test]
fn a_refusal_of_many_words_is_cut_between_two_letters() {
    let bytes = encode_refused(&Refusal::Other(format!("a{}", "ü".repeat(1000))));
    let (_, reader) = open(&bytes).unwrap();
    let Refusal::Other(text) = decode_refused(reader).unwrap() else { panic!("another refusal") };
    assert_eq!(text, format!("a{}", "ü".repeat(255)));
}

#[test]
fn a_request_is_read_back_as_it_was_sent_and_refused_when_cut_or_followed() {
    let addresses = ["10.0.0.1", "fe80::1", "a.example"].map(|text| Address::parse(text).unwrap()).to_vec();
    let former = Some(world().head.certificate().clone());
    let request = Request { key: Key::generate().unwrap().public(), life: 3, former, addresses };
    let bytes = request.encode(b"signature");
    let (kind, reader) = open(&bytes).unwrap();
    assert_eq!((kind, Request::decode(reader).unwrap()), (Kind::Request, (request, b"signature".to_vec())));
    for length in 3..bytes.len() {
        assert!(Request::decode(open(&bytes[..length]).unwrap().1).is_err(), "{length} bytes");
    }
    let followed = [&bytes[..], &[0]].concat();
    assert!(Request::decode(open(&followed).unwrap().1).is_err());
}

#[test]
fn the_largest_request_fits_into_a_message() {
    let name = format!("{0}.{0}.{0}.{1}", "a".repeat(63), "b".repeat(61));
    let addresses = vec![Address::parse(&name).unwrap(); ADDRESSES_MAX];
    let who = NodeLife { node: u32::MAX, life: u64::MAX };
    let former = world().authority.member(who, Role::Node, &addresses, NOW).unwrap();
    let authority = &world().authority;
    let request = Request {
        key: former.key.public(),
        life: u64::MAX,
        former: Some(former.certificate().clone()),
        addresses: addresses.clone(),
    };
    assert!(request.encode(&[0; 80]).len() <= MESSAGE_BYTES_MAX);
    assert!(encode_granted(former.certificate()).len() <= MESSAGE_BYTES_MAX);
    let renewal = Renewal::new(&former, &addresses).unwrap();
    assert!(authority.renew(former.member(), renewal.request(), NOW).is_ok());
}

#[test]
fn a_request_whose_signature_is_of_another_key_is_refused() {
    let world = world();
    let mut admission = Admission::new(Binding::fixed(1));
    let (_, hello) = world.join();
    admission.input(&hello, world.door(), NOW).unwrap();
    let [ours, stolen] = [Key::generate().unwrap(), Key::generate().unwrap()];
    let request = Request { key: stolen.public(), life: 5, former: None, addresses: vec![] };
    let signature = ours.sign(&Binding::fixed(1).to_be_signed(&request.words())).unwrap();
    let away = admission.input(&request.encode(&signature), world.door(), NOW).unwrap_err();
    assert!(matches!(away.refusal, Refusal::BadRequest(_)), "{away}");
}

#[test]
fn a_joiner_takes_no_certificate_of_another_life_or_role_than_it_asked_for() {
    let world = world();
    let cluster = world.authority.cluster();
    for (life, role, is_taken) in [(5, Role::Node, true), (6, Role::Node, false), (5, Role::Head, false)] {
        let (mut join, hello) = world.join();
        let mut admission = Admission::new(Binding::fixed(1));
        let Ok(Step::Send(welcome)) = admission.input(&hello, world.door(), NOW) else { panic!("no welcome") };
        let Ok(Progress::Send(request)) = join.input(&welcome, NOW) else { panic!("no request") };
        let (request, _) = Request::decode(open(&request).unwrap().1).unwrap();
        let member = Member { cluster, who: NodeLife { node: 7, life }, role };
        let granted = encode_granted(&world.authority.sign(request.key, member, &[], NOW).unwrap());
        let end = join.input(&granted, NOW);
        match is_taken {
            true => assert!(matches!(end, Ok(Progress::Joined(_)))),
            false => assert!(matches!(end, Err(Error::Untrusted(crate::Untrusted::NotOurs))), "{end:?}"),
        }
    }
}

#[test]
fn a_former_certificate_without_its_key_is_refused() {
    let world = world();
    let mut admission = Admission::new(Binding::fixed(1));
    let (_, hello) = world.join();
    admission.input(&hello, world.door(), NOW).unwrap();
    let key = Key::generate().unwrap();
    let former = Some(world.head.certificate().clone());
    let request = Request { key: key.public(), life: 5, former, addresses: vec![] };
    let signature = key.sign(&Binding::fixed(1).to_be_signed(&request.words())).unwrap();
    let away = admission.input(&request.encode(&signature), world.door(), NOW).unwrap_err();
    assert!(matches!(away.refusal, Refusal::BadRequest(_)), "{away}");
}

#[test]
fn who_knows_the_token_but_has_another_authority_is_not_taken_for_the_head() {
    let world = world();
    let cluster = world.authority.cluster();
    // All that can be had without the authority's key: its names, and with the token a valid proof.
    let false_key = Key::generate().unwrap().into_pair();
    let params = crate::authority::params_of(cluster);
    let authority = params.self_signed(&false_key).unwrap().der().clone();
    let member = Member { cluster, who: NodeLife { node: 0, life: 1 }, role: Role::Head };
    let mut leaf = rcgen::CertificateParams::default();
    leaf.subject_alt_names = vec![rcgen::SanType::URI(member.to_uri().try_into().unwrap())];
    let issuer = rcgen::Issuer::new(params, false_key);
    let server = leaf.signed_by(&Key::generate().unwrap().public(), &issuer).unwrap().der().clone();
    let joining = Joining {
        binding: Binding::fixed(1),
        server,
        token: world.token.clone(),
        addresses: vec![],
        life: 5,
        former: None,
    };
    let (mut join, hello) = Join::new(joining, NOW).unwrap();
    let words = &hello[3..hello.len() - PROOF_BYTES];
    let proof = Binding::fixed(1).prove(&world.token, crate::proof::Side::Head, &[words, &authority]);
    let end = join.input(&Welcome { proof, authority }.encode(), NOW);
    assert!(matches!(end, Err(Error::Untrusted(crate::Untrusted::Forged))), "{end:?}");
}

proptest! {
    #[test]
    fn random_bytes_never_panic_in_any_decoder(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        let reader = || Reader::new(&bytes);
        let _ = Hello::decode(reader());
        let _ = Welcome::decode(reader());
        let _ = Request::decode(reader());
        let _ = decode_granted(reader());
        let _ = decode_refused(reader());
        let _ = open(&bytes);
        let _ = Inbox::default().take(&bytes);
        let _ = Tokens::from_bytes(&bytes);
        let _ = Authority::from_bytes(&bytes);
        let _ = Membership::from_bytes(&bytes, NOW);
        let _ = world().authority.renew(world().head.member(), &bytes, NOW);
        let certificate = CertificateDer::from(bytes.clone());
        let _ = crate::certificate::verify_former(&certificate, world().authority.certificate(), NOW);
        let _ = crate::certificate::verify_former(world().head.certificate(), &certificate, NOW);
        let _ = crate::peer_of(Some(&[certificate]));
    }

    #[test]
    fn random_bodies_of_every_kind_get_an_answer_at_both_ends(
        kind in 0_u8..7,
        body in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let message = finish([&[0, 0, kind][..], &body].concat());
        let (mut join, _) = world().join();
        prop_assert!(join.input(&message, NOW).is_err());
        let mut admission = Admission::new(Binding::fixed(1));
        prop_assert!(admission.input(&message, world().door(), NOW).is_err());
    }

    #[test]
    fn random_text_is_no_token_and_no_name(text in ".{0,120}", letters in "[0-9a-z]{88}") {
        prop_assert!(Token::parse(&text).is_err());
        let made_up = format!("eagleray1-{letters}");
        prop_assert!(Token::parse(&made_up).is_err());
        prop_assert!(Member::from_uri(&text).is_none());
        let _ = Address::parse(&text);
    }

    #[test]
    fn one_changed_bit_in_any_message_lets_nobody_in(at in any::<proptest::sample::Index>(), bit in 0..8, turn in 0..4) {
        let (mut join, hello) = world().join();
        let mut admission = Admission::new(Binding::fixed(1));
        let spoil = |mut bytes: Vec<u8>, now: i32| {
            if turn == now {
                let at = at.index(bytes.len());
                bytes[at] ^= 1_u8 << bit;
            }
            bytes
        };
        let end = (|| {
            let Step::Send(welcome) = admission.input(&spoil(hello, 0), world().door(), NOW).ok()? else { return None };
            let Progress::Send(request) = join.input(&spoil(welcome, 1), NOW).ok()? else { return None };
            let Step::Decide(_) = admission.input(&spoil(request, 2), world().door(), NOW).ok()? else { return None };
            let granted = admission.grant(7, &world().authority, NOW).unwrap();
            let Progress::Joined(node) = join.input(&spoil(granted, 3), NOW).ok()? else { return None };
            Some(node)
        })();
        prop_assert!(end.is_none());
    }
}
