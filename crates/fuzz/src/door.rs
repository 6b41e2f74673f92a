//! What strangers and heads say at the door, certificates that somebody shows, and what lies in files.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use identity::{
    Address, Admission, Authority, Binding, ClusterId, Door, Join, Joining, Member, Membership, Python, Renewal, Role,
    Token, TokenId, Tokens, Usage,
};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{ClientConnection, ServerConnection};
use wire::session::NodeLife;

const NOW: UnixTime = UnixTime::since_unix_epoch(Duration::from_secs(1_780_000_000));
const PYTHON: Python = Python { major: 3, minor: 12 };

#[derive(Debug)]
struct Clock;

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(NOW)
    }
}

/// A head, one who wants to be let in, and the connection between them.
pub(crate) struct World {
    pub(crate) authority: Authority,
    pub(crate) tokens: Tokens,
    pub(crate) token: Token,
    pub(crate) node: Membership,
    binding: Binding,
    client: Mutex<ClientConnection>,
}

/// Made once: keys and a handshake take their time.
pub(crate) fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let authority = Authority::new(NOW).expect("a key");
        let mut tokens = Tokens::new(authority.cluster());
        let token = tokens.add(NOW, None).expect("there is room");
        let member = |node, role| authority.member(NodeLife { node, life: 1 }, role, NOW).expect("a certificate");
        let (head, node) = (member(1, Role::Head), member(2, Role::Node));
        let clock: Arc<dyn TimeProvider> = Arc::new(Clock);
        let mut client = identity::for_joiner(&clock).and_then(|joiner| joiner.connect()).expect("TLS begins");
        let config = identity::for_door(&head, &clock).expect("TLS takes the key");
        let mut server = ServerConnection::new(config).expect("TLS begins");
        while client.is_handshaking() || server.is_handshaking() {
            let mut bytes = Vec::new();
            client.write_tls(&mut bytes).expect("memory takes all");
            server.read_tls(&mut &bytes[..]).expect("memory has all");
            server.process_new_packets().expect("a handshake");
            bytes.clear();
            server.write_tls(&mut bytes).expect("memory takes all");
            client.read_tls(&mut &bytes[..]).expect("memory has all");
            client.process_new_packets().expect("a handshake");
        }
        let binding = Binding::of(&server).expect("the handshake is over");
        World { authority, tokens, token, node, binding, client: Mutex::new(client) }
    })
}

impl World {
    fn door(&self) -> Door<'_> {
        Door { authority: &self.authority, tokens: &self.tokens, head: 1 }
    }

    pub(crate) fn join(&self) -> (Join, Vec<u8>) {
        let addresses = Address::parse("10.0.0.7").into_iter().collect();
        let joining = Joining { token: self.token.clone(), addresses, life: 5, python: PYTHON, former: None };
        let client = self.client.lock().expect("never poisoned");
        Join::new(&client, joining, NOW).expect("the handshake is over")
    }
}

/// First words at the door.
pub(crate) fn door(bytes: &[u8]) {
    let world = world();
    let mut admission = Admission::new(world.binding.clone());
    let (one, other) = bytes.split_at(bytes.len() / 2);
    let _ = admission.input(one, world.door(), NOW);
    let _ = admission.input(other, world.door(), NOW);
    let _ = admission.grant(7, world.door(), NOW);
}

/// Who knows the token goes on with these.
pub(crate) fn welcomed(bytes: &[u8]) {
    static HELLO: OnceLock<Vec<u8>> = OnceLock::new();
    let (world, hello) = (world(), HELLO.get_or_init(|| world().join().1));
    let mut admission = Admission::new(world.binding.clone());
    assert!(admission.input(hello, world.door(), NOW).is_ok(), "a hello that is right");
    let decided = admission.input(bytes, world.door(), NOW);
    assert!(!matches!(decided, Ok(identity::Step::Decide(_))), "ID-1: nobody signs what no key has signed");
}

/// What somebody says who may be no head.
pub(crate) fn joiner(bytes: &[u8]) {
    let (mut join, _) = world().join();
    let (one, other) = bytes.split_at(bytes.len() / 2);
    let came = join.input(one, NOW).and_then(|_| join.input(other, NOW));
    assert!(
        !matches!(came, Ok(identity::Progress::Send(_) | identity::Progress::Joined(_))),
        "ID-1: nothing is proved"
    );
    let _ = join.ended();
}

/// Certificates that somebody shows, and requests for new ones.
pub(crate) fn certificates(bytes: &[u8]) {
    let world = world();
    let shown = CertificateDer::from(bytes.to_vec());
    for usage in [Usage::Client, Usage::Server] {
        let _ = identity::peer_of(world.authority.certificate(), Some(std::slice::from_ref(&shown)), usage, NOW);
    }
    let _ = identity::valid_until(&shown, world.authority.certificate());
    let _ = world.authority.renew(&shown, bytes, NOW);
    let _ = world.authority.renew(world.node.certificate(), bytes, NOW);
    static RENEWALS: Mutex<Option<Renewal>> = Mutex::new(None);
    let mut renewal = RENEWALS.lock().expect("never poisoned");
    if let Some(renewal) = renewal.take().or_else(|| Renewal::new(&world.node).ok()) {
        assert!(renewal.finish(bytes, &world.node, NOW).is_err(), "ID-1: nobody has signed this one");
    }
}

/// Files of secrets: what is read is what was written.
pub(crate) fn stored(bytes: &[u8]) {
    if let Ok(authority) = Authority::from_bytes(bytes) {
        assert_eq!(*authority.to_bytes(), bytes);
    }
    if let Ok(membership) = Membership::from_bytes(bytes, NOW) {
        assert_eq!(*membership.to_bytes(), bytes);
    }
    if let Ok(tokens) = Tokens::from_bytes(bytes) {
        assert_eq!(*tokens.to_bytes(), bytes);
        assert!(tokens.list().count() <= identity::TOKENS_MAX);
    }
}

/// What people and certificates say in letters.
pub(crate) fn texts(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(token) = Token::parse(text) {
        assert!(Token::parse(&token.to_text()).is_ok());
    }
    if let Some(member) = Member::from_uri(text) {
        assert_eq!(member.to_uri(), text);
    }
    if let Some(address) = Address::parse(text) {
        assert!(Address::parse(&address.to_string()).is_some());
    }
    let _ = (ClusterId::parse(text), TokenId::parse(text));
}
