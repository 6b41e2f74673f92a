use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, Issuer, KeyPair, SanType};
use wire::session::NodeLife;

use super::*;
use crate::{Authority, Role};

const NOW: UnixTime = UnixTime::since_unix_epoch(Duration::from_secs(1_780_000_000));

/// A certificate with these URIs, signed by an authority of the given distinguished name's own making or by itself.
fn made(uris: &[&str], usage: ExtendedKeyUsagePurpose, issuer: &Issuer<'_, KeyPair>) -> CertificateDer<'static> {
    let mut params = CertificateParams::default();
    params.subject_alt_names = uris.iter().map(|uri| SanType::URI((*uri).try_into().unwrap())).collect();
    params.extended_key_usages = vec![usage];
    params.signed_by(&crate::Key::generate().unwrap().public(), issuer).unwrap().der().clone()
}

/// Signs with the true authority's key whatever it is told to.
fn misused(authority: &Authority) -> Issuer<'static, KeyPair> {
    let pair = crate::Key::restore(&authority.key().secret()).unwrap();
    Issuer::new(crate::authority::params_of(authority.cluster()), pair.into_pair())
}

fn uri(authority: &Authority, node: u32) -> String {
    Member { cluster: authority.cluster(), who: NodeLife { node, life: 1 }, role: Role::Node }.to_uri()
}

#[test]
fn a_certificate_that_names_this_cluster_but_was_signed_by_another_key_is_forged() {
    let authority = Authority::new(NOW).unwrap();
    let forger =
        Issuer::new(crate::authority::params_of(authority.cluster()), crate::Key::generate().unwrap().into_pair());
    let forged = made(&[&uri(&authority, 1)], ExtendedKeyUsagePurpose::ClientAuth, &forger);
    assert_eq!(verify(&forged, authority.certificate(), Usage::Client, NOW), Err(Untrusted::Forged));
}

#[test]
fn a_certificate_must_name_exactly_one_node() {
    let authority = Authority::new(NOW).unwrap();
    let (issuer, one, two) = (misused(&authority), uri(&authority, 1), uri(&authority, 2));
    let (one, two, other) = (one.as_str(), two.as_str(), "https://example");
    let verdict = |uris: &[&str]| {
        let certificate = made(uris, ExtendedKeyUsagePurpose::ClientAuth, &issuer);
        verify(&certificate, authority.certificate(), Usage::Client, NOW)
    };
    assert_eq!(verdict(&[one]).unwrap().who.node, 1);
    for uris in [&[][..], &[one, two], &[two, one], &[one, one], &[other], &[one, other]] {
        assert_eq!(verdict(uris), Err(Untrusted::Nameless), "{uris:?}");
    }
}

#[test]
fn a_certificate_for_clients_is_none_for_servers() {
    let authority = Authority::new(NOW).unwrap();
    let certificate = made(&[&uri(&authority, 1)], ExtendedKeyUsagePurpose::ClientAuth, &misused(&authority));
    assert!(verify(&certificate, authority.certificate(), Usage::Client, NOW).is_ok());
    assert_eq!(verify(&certificate, authority.certificate(), Usage::Server, NOW), Err(Untrusted::Forged));
}

#[test]
fn the_authority_itself_is_no_member() {
    let authority = Authority::new(NOW).unwrap();
    let certificate = authority.certificate();
    assert_eq!(verify(certificate, certificate, Usage::Client, NOW), Err(Untrusted::Nameless));
}

#[test]
fn a_certificate_says_until_when_it_is_valid() {
    let authority = Authority::new(NOW).unwrap();
    let node = authority.member(NodeLife { node: 1, life: 1 }, Role::Node, NOW).unwrap();
    let until = valid_until(node.certificate(), authority.certificate()).unwrap();
    assert_eq!(until.as_secs(), NOW.as_secs() + crate::LIFETIME_S);
    let other = Authority::new(NOW).unwrap();
    let error = crate::certificate::verify(node.certificate(), other.certificate(), Usage::Client, NOW).unwrap_err();
    assert!(matches!(error, Untrusted::OtherCluster { .. }));
}

#[test]
fn a_former_certificate_counts_only_if_this_authority_signed_it() {
    let authority = Authority::new(NOW).unwrap();
    let later = UnixTime::since_unix_epoch(Duration::from_secs(NOW.as_secs() + 100 * crate::LIFETIME_S));
    let node = authority.member(NodeLife { node: 1, life: 1 }, Role::Node, NOW).unwrap();
    assert_eq!(verify_former(node.certificate(), authority.certificate(), later), Ok(node.member()));
    let forger =
        Issuer::new(crate::authority::params_of(authority.cluster()), crate::Key::generate().unwrap().into_pair());
    let mut params = CertificateParams::default();
    params.subject_alt_names = vec![SanType::URI(uri(&authority, 1).try_into().unwrap())];
    (params.not_before, params.not_after) = (rcgen::date_time_ymd(2020, 1, 1), rcgen::date_time_ymd(2021, 1, 1));
    let forged = params.signed_by(&crate::Key::generate().unwrap().public(), &forger).unwrap();
    assert_eq!(verify_former(forged.der(), authority.certificate(), later), Err(Untrusted::Forged));
    assert_eq!(valid_until(forged.der(), authority.certificate()), Err(Untrusted::Forged));
}
