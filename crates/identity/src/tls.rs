//! TLS 1.3 and nothing older, both ways, for members and for the door.
//!
//! A node has one port. What a client wants there it says in its first message, by ALPN, before anything is decided:
//! members must show a certificate, joiners have none. No session is resumed, since a resumed one would not look at
//! certificates again.

use std::fmt;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring as provider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, NoServerSessionStorage};
use rustls::time_provider::TimeProvider;
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};
use wire::session::NodeLife;

use crate::certificate::{self, Usage};
use crate::error::{Error, Untrusted};
use crate::membership::Membership;
use crate::name::{Member, Role};

/// What a client wants of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To talk as a member with a member.
    Member,
    /// The same, of large values: the line has nothing else to do.
    Values,
    /// To become one.
    Join,
}

impl Purpose {
    /// What a client's first message asks for; nothing if that is nothing of ours.
    #[must_use]
    pub fn of(hello: &ClientHello<'_>) -> Option<Self> {
        let mut offered = hello.alpn()?;
        match (offered.next(), offered.next()) {
            (Some(b"eagleray/1"), None) => Some(Self::Member),
            (Some(b"eagleray-values/1"), None) => Some(Self::Values),
            (Some(b"eagleray-join/1"), None) => Some(Self::Join),
            _ => None,
        }
    }

    fn alpn(self) -> Vec<Vec<u8>> {
        vec![match self {
            Self::Member => b"eagleray/1".to_vec(),
            Self::Values => b"eagleray-values/1".to_vec(),
            Self::Join => b"eagleray-join/1".to_vec(),
        }]
    }
}

/// What rustls wants as a server's name. Certificates name nodes, not hosts, so nobody looks at it, and it is not sent.
#[must_use]
pub fn server_name() -> ServerName<'static> {
    ServerName::try_from("eagleray.invalid").expect("a name with a dot")
}

/// Whom a dialler means to reach. Addresses move, so another member may answer there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The head, whatever its number is.
    Head,
    /// This life of this node.
    Node(NodeLife),
}

/// Whom a node accepts of those who have a valid certificate. One who was expelled or declared dead has it for a while.
#[derive(Clone)]
pub struct Accepts(Arc<dyn Fn(&Member) -> bool + Send + Sync>);

impl Accepts {
    /// Asked in every handshake: whoever it says `false` of is no member.
    #[must_use]
    pub fn new(accepts: impl Fn(&Member) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(accepts))
    }
}

impl fmt::Debug for Accepts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Accepts(..)")
    }
}

/// Dials members. Not to be mixed up with [`JoinerClient`], which trusts nobody and takes anything.
#[derive(Clone)]
pub struct MemberClient(Arc<ClientConfig>);

/// Dials the door. Only a `Join` may talk on its lines, since it has the server prove itself.
#[derive(Clone)]
pub struct JoinerClient(Arc<ClientConfig>);

impl MemberClient {
    /// A line to be.
    ///
    /// # Errors
    /// If TLS cannot begin.
    pub fn connect(&self) -> Result<ClientConnection, Error> {
        Ok(ClientConnection::new(self.0.clone(), server_name())?)
    }
}

impl JoinerClient {
    /// A line to be.
    ///
    /// # Errors
    /// If TLS cannot begin.
    pub fn connect(&self) -> Result<ClientConnection, Error> {
        Ok(ClientConnection::new(self.0.clone(), server_name())?)
    }
}

impl fmt::Debug for MemberClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemberClient(..)")
    }
}

impl fmt::Debug for JoinerClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JoinerClient(..)")
    }
}

/// To dial one member with, and no other.
///
/// # Errors
/// If TLS does not take the key.
pub fn for_dialler(
    membership: &Membership,
    expected: Expected,
    accepts: &Accepts,
    clock: &Arc<dyn TimeProvider>,
) -> Result<MemberClient, Error> {
    dialler(membership, Purpose::Member, expected, accepts, clock)
}

/// As [`for_dialler`], for a line that large values come or go by.
///
/// # Errors
/// If TLS does not take the key.
pub fn for_values_dialler(
    membership: &Membership,
    expected: Expected,
    accepts: &Accepts,
    clock: &Arc<dyn TimeProvider>,
) -> Result<MemberClient, Error> {
    dialler(membership, Purpose::Values, expected, accepts, clock)
}

fn dialler(
    membership: &Membership,
    purpose: Purpose,
    expected: Expected,
    accepts: &Accepts,
    clock: &Arc<dyn TimeProvider>,
) -> Result<MemberClient, Error> {
    let verifier = Dialled { trust: Trust::of(membership, accepts), expected, algorithms: algorithms() };
    let builder = ClientConfig::builder_with_details(crypto(), clock.clone()).with_protocol_versions(&[&TLS13])?;
    let mut client = builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_client_auth_cert(vec![membership.certificate.clone()], membership.key.for_tls())?;
    harden_client(&mut client, purpose);
    Ok(MemberClient(Arc::new(client)))
}

/// To answer members with. Made anew whenever the membership is renewed.
///
/// # Errors
/// If TLS does not take the key.
pub fn for_members(
    membership: &Membership,
    accepts: &Accepts,
    clock: &Arc<dyn TimeProvider>,
) -> Result<Arc<ServerConfig>, Error> {
    answerer(membership, Purpose::Member, accepts, clock)
}

/// As [`for_members`], for lines that large values come or go by.
///
/// # Errors
/// If TLS does not take the key.
pub fn for_values(
    membership: &Membership,
    accepts: &Accepts,
    clock: &Arc<dyn TimeProvider>,
) -> Result<Arc<ServerConfig>, Error> {
    answerer(membership, Purpose::Values, accepts, clock)
}

fn answerer(
    membership: &Membership,
    purpose: Purpose,
    accepts: &Accepts,
    clock: &Arc<dyn TimeProvider>,
) -> Result<Arc<ServerConfig>, Error> {
    let verifier = Diallers { trust: Trust::of(membership, accepts), algorithms: algorithms() };
    let builder = ServerConfig::builder_with_details(crypto(), clock.clone()).with_protocol_versions(&[&TLS13])?;
    let mut server = builder
        .with_client_cert_verifier(Arc::new(verifier))
        .with_single_cert(vec![membership.certificate.clone()], membership.key.for_tls())?;
    harden_server(&mut server, purpose);
    Ok(Arc::new(server))
}

/// For the head's door: shows the head's certificate and asks for none. Only an `Admission` may talk on such a line.
///
/// # Errors
/// If the membership is not a head's, or TLS does not take the key.
pub fn for_door(membership: &Membership, clock: &Arc<dyn TimeProvider>) -> Result<Arc<ServerConfig>, Error> {
    if membership.member().role != Role::Head {
        return Err(Untrusted::NotHead.into());
    }
    let builder = ServerConfig::builder_with_details(crypto(), clock.clone()).with_protocol_versions(&[&TLS13])?;
    let mut server = builder
        .with_no_client_auth()
        .with_single_cert(vec![membership.certificate.clone()], membership.key.for_tls())?;
    harden_server(&mut server, Purpose::Join);
    Ok(Arc::new(server))
}

/// For a joiner: takes any certificate.
///
/// # Errors
/// If TLS 1.3 is not there.
pub fn for_joiner(clock: &Arc<dyn TimeProvider>) -> Result<JoinerClient, Error> {
    let builder = ClientConfig::builder_with_details(crypto(), clock.clone()).with_protocol_versions(&[&TLS13])?;
    let mut client = builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody { algorithms: algorithms() }))
        .with_no_client_auth();
    harden_client(&mut client, Purpose::Join);
    Ok(JoinerClient(Arc::new(client)))
}

fn crypto() -> Arc<CryptoProvider> {
    Arc::new(provider::default_provider())
}

fn algorithms() -> WebPkiSupportedAlgorithms {
    provider::default_provider().signature_verification_algorithms
}

fn harden_client(config: &mut ClientConfig, purpose: Purpose) {
    config.alpn_protocols = purpose.alpn();
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
}

fn harden_server(config: &mut ServerConfig, purpose: Purpose) {
    config.alpn_protocols = purpose.alpn();
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
}

/// Trusts who belongs to the cluster and is accepted.
#[derive(Debug)]
struct Trust {
    authority: CertificateDer<'static>,
    accepts: Accepts,
}

impl Trust {
    fn of(membership: &Membership, accepts: &Accepts) -> Self {
        Self { authority: membership.authority.clone(), accepts: accepts.clone() }
    }

    fn check(&self, certificate: &CertificateDer<'_>, usage: Usage, now: UnixTime) -> Result<Member, Untrusted> {
        let member = certificate::verify(certificate, &self.authority, usage, now)?;
        if (self.accepts.0)(&member) { Ok(member) } else { Err(Untrusted::Expelled(member.who)) }
    }
}

/// Sees to it that whoever was dialled is the member that was meant.
#[derive(Debug)]
struct Dialled {
    trust: Trust,
    expected: Expected,
    algorithms: WebPkiSupportedAlgorithms,
}

/// Takes any member that dials.
#[derive(Debug)]
struct Diallers {
    trust: Trust,
    algorithms: WebPkiSupportedAlgorithms,
}

/// Trusts nobody's certificate in particular, but sees to it that the server has the key of the one that it shows.
#[derive(Debug)]
struct Anybody {
    algorithms: WebPkiSupportedAlgorithms,
}

/// A signature of TLS 1.2, which is not spoken here.
fn too_old() -> rustls::Error {
    rustls::PeerIncompatible::ServerDoesNotSupportTls12Or13.into()
}

/// What all verifiers want in the same words.
macro_rules! only_tls13 {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Err(too_old())
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            verify_tls13_signature(message, certificate, signature, &self.algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.algorithms.supported_schemes()
        }
    };
}

impl ServerCertVerifier for Dialled {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let member = self.trust.check(certificate, Usage::Server, now)?;
        match self.expected {
            Expected::Head if member.role != Role::Head => Err(Untrusted::NotHead.into()),
            Expected::Node(who) if member.who != who => Err(Untrusted::Unexpected(member.who).into()),
            Expected::Head | Expected::Node(_) => Ok(ServerCertVerified::assertion()),
        }
    }

    only_tls13!();
}

impl ClientCertVerifier for Diallers {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.trust.check(certificate, Usage::Client, now)?;
        Ok(ClientCertVerified::assertion())
    }

    only_tls13!();
}

impl ServerCertVerifier for Anybody {
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

    only_tls13!();
}
