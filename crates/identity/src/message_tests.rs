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

const PYTHON: Python = Python { major: 3, minor: 12 };
const NOW: UnixTime = UnixTime::since_unix_epoch(Duration::from_secs(1_780_000_000));

struct World {
    authority: Authority,
    tokens: Tokens,
    token: Token,
    head: Membership,
    renewable: Membership,
}

/// Made once: keys take their time.
fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let authority = Authority::new(NOW).unwrap();
        let mut tokens = Tokens::new(authority.cluster());
        let token = tokens.add(NOW, None).unwrap();
        let head = authority.member(NodeLife { node: 0, life: 1 }, Role::Head, NOW).unwrap();
        let renewable = authority.member(NodeLife { node: 3, life: 1 }, Role::Node, NOW).unwrap();
        World { authority, tokens, token, head, renewable }
    })
}

impl World {
    fn door(&self) -> Door<'_> {
        Door { authority: &self.authority, tokens: &self.tokens, head: 0 }
    }

    fn join(&self) -> (Join, Vec<u8>) {
        self.join_at(self.head.certificate().clone())
    }

    /// A joiner whose server has shown this certificate.
    fn join_at(&self, server: CertificateDer<'static>) -> (Join, Vec<u8>) {
        let addresses = vec![Address::parse("10.0.0.1").unwrap()];
        let joining = Joining { token: self.token.clone(), addresses, life: 5, python: PYTHON, former: None };
        Join::over(Binding::fixed(1), server, joining, NOW).unwrap()
    }

    /// The head's end after a hello that it took.
    fn welcomed(&self) -> Admission {
        let mut admission = Admission::new(Binding::fixed(1));
        let (_, hello) = self.join();
        assert!(matches!(admission.input(&hello, self.door(), NOW), Ok(Step::Send(_))));
        admission
    }

    fn node(&self, node: u32) -> Membership {
        self.authority.member(NodeLife { node, life: 4 }, Role::Node, NOW).unwrap()
    }
}

/// A request and what its key signs.
fn request(key: &Key, former: Option<&Membership>) -> (Request, Vec<u8>) {
    let former = former.map(|former| former.certificate().clone());
    let request = Request { key: key.public(), life: 5, python: PYTHON, former, addresses: vec![] };
    let signature = key.sign(&Binding::fixed(1).to_be_signed(&request.words())).unwrap();
    (request, signature)
}

fn refusals() -> Vec<Refusal> {
    vec![
        Refusal::Version { ours: 1, theirs: u32::MAX },
        Refusal::OtherCluster(ClusterId(*b"0123456789abcdef")),
        Refusal::UnknownToken,
        Refusal::ExpiredToken,
        Refusal::WrongProof,
        Refusal::Clock { ours: 0, theirs: u64::MAX },
        Refusal::Python { ours: PYTHON, theirs: Python { major: u8::MAX, minor: 0 } },
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
    let request = Request { key: Key::generate().unwrap().public(), life: 3, python: PYTHON, former, addresses };
    let signatures = Signatures { new: b"signature".to_vec(), former: b"another".to_vec() };
    let bytes = request.encode(&signatures);
    let (kind, reader) = open(&bytes).unwrap();
    assert_eq!((kind, Request::decode(reader).unwrap()), (Kind::Request, (request, signatures)));
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
    let former = world().authority.member(who, Role::Node, NOW).unwrap();
    let request = Request {
        key: former.key.public(),
        life: u64::MAX,
        python: PYTHON,
        former: Some(former.certificate().clone()),
        addresses,
    };
    let signatures = Signatures { new: vec![0; 80], former: vec![0; 80] };
    assert!(request.encode(&signatures).len() <= MESSAGE_BYTES_MAX);
    assert!(encode_granted(former.certificate()).len() <= MESSAGE_BYTES_MAX);
    let renewal = Renewal::new(&former).unwrap();
    assert!(world().authority.renew(former.certificate(), renewal.request(), NOW).is_ok());
}

#[test]
fn a_refusal_is_shown_without_letters_that_control_turn_or_hide_others() {
    let bytes = encode_refused(&Refusal::Other("a\u{1b}[2J\u{202e}b\u{2066}c\u{200b}d\u{85}é".into()));
    let (_, reader) = open(&bytes).unwrap();
    assert_eq!(decode_refused(reader).unwrap(), Refusal::Other("a [2J b c d é".into()));
}

#[test]
fn a_refusal_before_the_proof_is_told_from_one_by_the_head() {
    let world = world();
    let refused = encode_refused(&Refusal::Other("run this".into()));
    let (mut join, hello) = world.join();
    let error = join.input(&refused, NOW).unwrap_err();
    assert!(matches!(error, Error::RefusedUnproven(Refusal::Other(_))), "{error:?}");
    assert!(error.to_string().contains("has not proved to be the head"), "{error}");

    let mut admission = Admission::new(Binding::fixed(1));
    let Ok(Step::Send(welcome)) = admission.input(&hello, world.door(), NOW) else { panic!("no welcome") };
    let (mut join, _) = world.join();
    join.input(&welcome, NOW).unwrap();
    assert!(matches!(join.input(&refused, NOW), Err(Error::Refused(_))));
}

#[test]
fn a_request_whose_signature_is_of_another_key_is_refused() {
    let world = world();
    let [ours, stolen] = [Key::generate().unwrap(), Key::generate().unwrap()];
    let (request, _) = request(&stolen, None);
    let new = ours.sign(&Binding::fixed(1).to_be_signed(&request.words())).unwrap();
    let message = request.encode(&Signatures { new, former: vec![] });
    let away = world.welcomed().input(&message, world.door(), NOW).unwrap_err();
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
        let granted = encode_granted(&world.authority.sign(request.key, member, NOW).unwrap());
        let end = join.input(&granted, NOW);
        match is_taken {
            true => assert!(matches!(end, Ok(Progress::Joined(_)))),
            false => assert!(matches!(end, Err(Error::Untrusted(crate::Untrusted::NotOurs))), "{end:?}"),
        }
    }
}

#[test]
fn a_former_certificate_counts_only_with_a_signature_by_its_key_over_this_very_request() {
    let world = world();
    let (key, former, other) = (Key::generate().unwrap(), world.node(3), world.node(3));
    let (here, there) = (Binding::fixed(1), Binding::fixed(2));
    let (asked, new) = request(&key, Some(&former));
    let words = asked.words();
    let (elsewhere, _) = request(&Key::generate().unwrap(), Some(&former));
    let answer = |by: &Key, statement: &[u8]| {
        let signatures = Signatures { new: new.clone(), former: by.sign(statement).unwrap() };
        world.welcomed().input(&asked.encode(&signatures), world.door(), NOW)
    };
    let Ok(Step::Decide(wish)) = answer(&former.key, &here.to_be_signed_by_former(&words)) else { panic!("refused") };
    assert_eq!(wish.former, Some(former.member()));
    for (by, statement, what) in [
        (&other.key, here.to_be_signed_by_former(&words), "another key"),
        (&key, here.to_be_signed_by_former(&words), "the new key"),
        (&former.key, there.to_be_signed_by_former(&words), "on another connection"),
        (&former.key, here.to_be_signed_by_former(&elsewhere.words()), "for another new key"),
        (&former.key, here.to_be_signed(&words), "the other statement"),
    ] {
        let away = answer(by, &statement).expect_err(what);
        assert!(away.to_string().contains("key of the former certificate"), "{what}: {away}");
    }
    let unsigned = asked.encode(&Signatures { new, former: vec![] });
    assert!(world.welcomed().input(&unsigned, world.door(), NOW).is_err());
}

#[test]
fn nobody_gets_a_second_certificate_for_the_key_of_the_first() {
    let world = world();
    let former = world.node(3);
    let (asked, new) = request(&former.key, Some(&former));
    let by_former = former.key.sign(&Binding::fixed(1).to_be_signed_by_former(&asked.words())).unwrap();
    let message = asked.encode(&Signatures { new, former: by_former });
    let away = world.welcomed().input(&message, world.door(), NOW).unwrap_err();
    assert!(away.to_string().contains("draw a new one"), "{away}");

    // By renewal neither: as a request would be that is made with the old key.
    let mut asks = former.key.public().0.to_vec();
    let statement = [b"eagleray renewal of ", former.member().to_uri().as_bytes(), b": ", &asks[..]].concat();
    counted(&mut asks, &former.key.sign(&statement).unwrap());
    let answer = world.authority.renew(former.certificate(), &asks, NOW);
    assert!(matches!(answer, Err(Error::OldKey)), "{answer:?}");
}

#[test]
fn the_number_of_the_head_is_neither_kept_nor_given_by_token() {
    let world = world();
    let head_elsewhere = world.authority.member(NodeLife { node: 8, life: 1 }, Role::Head, NOW).unwrap();
    for former in [&world.head, &head_elsewhere, &world.node(0)] {
        let key = Key::generate().unwrap();
        let (asked, new) = request(&key, Some(former));
        let by_former = former.key.sign(&Binding::fixed(1).to_be_signed_by_former(&asked.words())).unwrap();
        let message = asked.encode(&Signatures { new, former: by_former });
        let away = world.welcomed().input(&message, world.door(), NOW).unwrap_err();
        assert!(away.to_string().contains("the former number is the head's"), "{away}");
    }
    let (asked, new) = request(&Key::generate().unwrap(), None);
    let mut admission = world.welcomed();
    admission.input(&asked.encode(&Signatures { new, former: vec![] }), world.door(), NOW).unwrap();
    let away = admission.grant(0, world.door(), NOW).unwrap_err();
    assert!(matches!(away.refusal, Refusal::BadRequest(_)), "{away}");
}

#[test]
fn a_token_that_ends_in_the_middle_of_a_conversation_gives_nothing() {
    let world = world();
    let (mut over, mut rotated) = (world.tokens.clone(), world.tokens.clone());
    assert!(over.expire(world.token.id(), NOW));
    rotated.rotate(NOW, NOW);
    let gone = Tokens::new(world.authority.cluster());
    for (tokens, refusal) in
        [(&over, Refusal::ExpiredToken), (&rotated, Refusal::ExpiredToken), (&gone, Refusal::UnknownToken)]
    {
        let later = Door { tokens, ..world.door() };
        let (asked, new) = request(&Key::generate().unwrap(), None);
        let message = asked.encode(&Signatures { new, former: vec![] });
        let away = world.welcomed().input(&message, later, NOW).unwrap_err();
        assert_eq!(away.refusal, refusal, "between hello and request");
        let mut admission = world.welcomed();
        assert!(matches!(admission.input(&message, world.door(), NOW), Ok(Step::Decide(_))));
        assert_eq!(admission.grant(7, later, NOW).unwrap_err().refusal, refusal, "before the head decided");
        assert!(admission.grant(7, world.door(), NOW).is_err(), "it is over");
    }
}

#[test]
fn a_joiner_does_not_take_a_node_for_the_head() {
    let world = world();
    let (mut join, hello) = world.join_at(world.node(4).certificate().clone());
    let mut admission = Admission::new(Binding::fixed(1));
    let Ok(Step::Send(welcome)) = admission.input(&hello, world.door(), NOW) else { panic!("no welcome") };
    assert!(matches!(join.input(&welcome, NOW), Err(Error::Untrusted(crate::Untrusted::NotHead))));
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
    let (mut join, hello) = world.join_at(server);
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
        let _ = world().authority.renew(world().renewable.certificate(), &bytes, NOW);
        let certificate = CertificateDer::from(bytes.clone());
        let _ = crate::certificate::verify_former(&certificate, world().authority.certificate(), NOW);
        let _ = crate::certificate::verify_former(world().head.certificate(), &certificate, NOW);
        let _ = crate::valid_until(&certificate, world().authority.certificate());
        let _ = crate::peer_of(world().authority.certificate(), Some(&[certificate]), crate::Usage::Client, NOW);
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
            let granted = admission.grant(7, world().door(), NOW).unwrap().answer;
            let Progress::Joined(node) = join.input(&spoil(granted, 3), NOW).ok()? else { return None };
            Some(node)
        })();
        prop_assert!(end.is_none());
    }
}
