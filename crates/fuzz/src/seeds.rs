//! Bytes that decoders understand, for a fuzzer to begin with and for tests to spoil.

use model::{NodeId, ProcId, Quantity, Resources};
use wire::abroad::{Between, FRAME};
use wire::control::{Hello as ControlHello, Role, ToNode};
use wire::frame::{CALL, Header, REPLY, Value};
use wire::members::NodeInfo;
use wire::peer::Peer;
use wire::session::{Channel, HEAD_BYTES, Hello, Refusal, What};

use crate::door::world;
use crate::lines::{ME, PEER};

/// What a fuzzer finds by itself.
pub(crate) fn nothing() -> Vec<Vec<u8>> {
    vec![Vec::new()]
}

pub(crate) fn door() -> Vec<Vec<u8>> {
    vec![world().join().1]
}

pub(crate) fn certificates() -> Vec<Vec<u8>> {
    let world = world();
    let renewal = identity::Renewal::new(&world.node).expect("a key");
    vec![world.node.certificate().to_vec(), world.authority.certificate().to_vec(), renewal.request().to_vec()]
}

pub(crate) fn stored() -> Vec<Vec<u8>> {
    let world = world();
    vec![world.authority.to_bytes().to_vec(), world.node.to_bytes().to_vec(), world.tokens.to_bytes().to_vec()]
}

pub(crate) fn texts() -> Vec<Vec<u8>> {
    let world = world();
    let texts = [world.token.to_text().to_string(), world.node.member().to_uri(), "fe80::1".into(), "a.example".into()];
    texts.into_iter().map(String::into_bytes).collect()
}

pub(crate) fn hellos() -> Vec<Vec<u8>> {
    let hello = Hello { from: PEER, to: ME, is_resumed: false, line: 1, received: 0, window: 1 << 20 };
    vec![hello.to_bytes(), Refusal::Gap(7).to_bytes(), Refusal::Ended.to_bytes()]
}

/// One after the other, as a member would send them.
pub(crate) fn envelopes() -> Vec<Vec<u8>> {
    let (here, there) = (ProcId::new(1, 1, 0), ProcId::new(2, 1, 0));
    let mut peer = cluster::Session::new(PEER, ME, cluster::Limits::default());
    peer.dial(model::Tick(1)).expect("the session goes on");
    let answer = Hello { from: ME, to: PEER, is_resumed: false, line: 1, received: 0, window: 1 << 20 };
    let mut hello = Vec::new();
    peer.take(model::Tick(1), 1 << 20, &mut hello);
    peer.receive(model::Tick(1), 1, &answer.to_bytes(), |_| cluster::Hold::Done).expect("a hello that is right");
    let names = [there.to_u64().to_le_bytes(), here.to_u64().to_le_bytes()].concat();
    for bytes in frames() {
        let channel = Channel { from: there.slot(), to: here.slot() };
        peer.send(channel, FRAME, &[&names[..], &bytes].concat()).expect("there is room");
    }
    for bytes in between() {
        peer.announce(None, wire::abroad::BETWEEN, &bytes).expect("there is room");
    }
    peer.sent();
    let mut out = Vec::new();
    peer.take(model::Tick(2), 1 << 20, &mut out);
    assert!(out.len() > HEAD_BYTES && What::Hello != What::Refused);
    vec![out]
}

pub(crate) fn between() -> Vec<Vec<u8>> {
    let mut total = Resources::cpus(4);
    total.set("special", Quantity::whole(2));
    let info = NodeInfo {
        number: 2,
        life: 4,
        id: NodeId([1; 28]),
        addresses: vec!["10.0.0.7:6379".into()],
        name: "host".into(),
        pid: 9,
        is_guest: false,
        total,
        labels: vec![("a".into(), "b".into())],
    };
    let messages: [Between<Peer>; 4] = [
        Between::Enters(Box::new(info)),
        Between::Lost { node: 2, why: "it was stopped".into() },
        Between::Renews { request: vec![4; 65] },
        Between::Knows { node: 3, heirs: vec![(ProcId::new(2, 1, 0), ProcId::new(2, 2, 0))] },
    ];
    messages.iter().map(wire::encode).collect()
}

/// On lines for large values.
pub(crate) fn values() -> Vec<Vec<u8>> {
    let bulk = model::Bulk::Stored(model::Place { offset: 1 << 20, length: 1 << 28, serial: (2 << 40) | 7 });
    let ask = wire::values::Ask { bulk, offset: 1 << 20, may_be_sent_on: true, is_probe: false };
    vec![
        wire::encode(&wire::values::Opening::Answers { ticket: 9 }),
        wire::encode(&ask),
        wire::encode(&wire::values::Answer::SentOn { node: 3, of: model::ProcId::new(2, 3, 4) }),
    ]
}

pub(crate) fn control() -> Vec<Vec<u8>> {
    let role = Role::Driver { namespace: "n".into(), surroundings: wire::Surroundings::default(), logs: true };
    let hello = ControlHello { protocol: wire::PROTOCOL, python: "3.12".into(), pid: 7, role };
    vec![wire::encode(&ToNode::Hello(hello)), wire::encode(&ToNode::ReturnLease { number: 3 })]
}

pub(crate) fn frames() -> Vec<Vec<u8>> {
    let mut body = Vec::new();
    Value::Inline(b"value").write(&mut body);
    Value::write_failure(&model::Failure::Lost("gone".into()), &mut body);
    let frame = |kind| {
        let header = Header {
            kind,
            length: body.len() as u32,
            request: 5,
            ..Header::from_bytes([0; wire::frame::HEADER_BYTES])
        };
        [&header.to_bytes()[..], &body].concat()
    };
    vec![frame(REPLY), frame(CALL)]
}
