//! Strangers at the port, and what they do not achieve.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, ClientConnection};

use super::proxy::Proxy;
use super::station::{PATIENCE, Station, check_calls};
use crate::abroad::{Belonging, HEAD};

/// All that the port says before it closes; an error if it does not.
fn answer_to(head: &Station, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(head.address())?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(bytes)?;
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(answer),
        other => other.map(|_| answer),
    }
}

/// What a client with this configuration is told.
fn shake(head: &Station, config: ClientConfig) -> String {
    let mut stream = TcpStream::connect(head.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut tls = ClientConnection::new(Arc::new(config), identity::server_name()).unwrap();
    loop {
        if let Err(error) = tls.complete_io(&mut stream) {
            return error.to_string();
        }
        // The handshake is over for the client before the server has looked at its certificate.
        let mut byte = [0];
        match tls.reader().read(&mut byte) {
            Ok(0) => return "closed".into(),
            Ok(_) => return "data".into(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return error.to_string(),
        }
    }
}

fn strange_client(versions: &[&'static rustls::SupportedProtocolVersion], alpn: &[&str]) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    roots.roots.clear();
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    config
}

#[test]
fn whoever_speaks_another_language_is_turned_away_and_told_why_where_that_can_be() {
    let mut head = Station::head();
    let mut member = Station::member_of(&head);
    let garbage: Vec<u8> = (0..200_u32).map(|at| (at * 7919 % 251) as u8).collect();
    let long_record = [&[22, 3, 1, 0xff, 0xff][..], &[1; 70_000]].concat();
    let endless_hello: Vec<u8> =
        std::iter::repeat_n([&[22, 3, 1, 0x40, 0][..], &[1, 0xff, 0xff, 0xff], &[0; 0x4000 - 4]].concat(), 8)
            .flatten()
            .collect();
    for bytes in [&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..], &garbage, &long_record, &endless_hello, &[0; 4096]] {
        let answer = answer_to(&head, bytes);
        assert!(answer.is_ok_and(|answer| answer.len() < 64), "it is closed soon, with an alert at most");
    }
    let old = shake(&head, strange_client(&[&rustls::version::TLS12], &["eagleray/1"]));
    assert!(old.contains("ProtocolVersion"), "{old}");
    for alpn in [&["h2"][..], &[], &["eagleray/1", "eagleray-join/1"]] {
        let told = shake(&head, strange_client(&[&rustls::version::TLS13], alpn));
        assert!(told.contains("NoApplicationProtocol"), "{alpn:?}: {told}");
    }
    check_calls(&mut head, &mut member);
}

#[test]
fn a_member_of_another_cluster_is_no_member_here() {
    let (mut head, other) = (Station::head(), Station::head());
    let mut member = Station::member_of(&head);
    let foreign = Station::member_of(&other);
    let membership = super::station::clone_of(&foreign.belonging.membership(), &foreign.belonging.clock);
    let belonging = Belonging::of_member(membership, None, super::station::PYTHON, foreign.belonging.clock.clone());
    let folder = std::env::temp_dir().join(format!("eagleray-abroad-{}-foreign", std::process::id()));
    let mut stray = Station::start(belonging, Some(head.address()), None, folder);
    let why = stray.lost();
    assert!(why.contains("the certificate is of cluster"), "{why}");
    let said = head.within(Duration::ZERO, |told| matches!(told, crate::abroad::Told::Hub(_)).then_some(()));
    assert_eq!(said, None, "nobody is heard who is no member");
    check_calls(&mut head, &mut member);
}

#[test]
fn a_conversation_at_the_door_that_is_played_again_lets_nobody_in() {
    let mut head = Station::head();
    let proxy = Proxy::to(head.address());
    let port = proxy.address.port();
    let first = crate::abroad::join("127.0.0.1", port, head.token(), super::station::PYTHON, PATIENCE).unwrap();
    let recorded = proxy.came_up();
    assert!(recorded.len() > 500, "{} bytes", recorded.len());
    let answer = answer_to(&head, &recorded).unwrap();
    assert!(!answer.is_empty(), "the handshake begins");
    let mut next = Station::member_of(&head);
    assert_eq!(next.number(), first.belonging.life().node + 1, "nobody got a number in between");
    next.say(HEAD);
    head.hear(1);
}

/// As many as this process may have descriptors, and all of them say nothing, or next to nothing.
#[test]
fn ten_thousand_idle_callers_hold_nobody_up() {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).unwrap();
    let count = limit.maximum.map_or(10_000, |most| most.saturating_sub(1_000).min(10_000));
    let mut head = Station::head();
    let mut member = Station::member_of(&head);
    let before = memory();
    let mut idle = Vec::new();
    for at in 0..count {
        // In a moment the system takes no more, until some of them have been looked at.
        let stream = TcpStream::connect_timeout(&head.address(), PATIENCE);
        let Ok(mut stream) = stream else { continue };
        if at % 2 == 0 {
            // It begins a first message and leaves it at that.
            let _ = stream.write_all(&[22, 3, 1, 2, 0, 1, 0, 1]);
        }
        idle.push(stream);
        if at % 1_000 == 0 {
            check_calls(&mut head, &mut member);
        }
    }
    assert!(idle.len() as u64 > count / 2, "{} of {count}", idle.len());
    check_calls(&mut head, &mut member);
    let mut late = Station::member_of(&head);
    late.say(HEAD);
    let number = late.number();
    head.until(|told| match told {
        crate::abroad::Told::Hub(carrier::ToHub::Said { node, .. }) if *node == number => Some(()),
        _ => None,
    });
    let grown = memory().saturating_sub(before);
    assert!(grown < 50 << 20, "it has grown by {grown} bytes");
}

/// Bytes of memory that this process has.
fn memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn who_sends_on_and_on_at_the_door_is_turned_away() {
    let mut head = Station::head();
    let mut member = Station::member_of(&head);
    let mut stream = TcpStream::connect(head.address()).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    let mut tls = identity::for_joiner(&head.belonging.clock.for_tls()).unwrap().connect().unwrap();
    while tls.is_handshaking() {
        tls.complete_io(&mut stream).unwrap();
    }
    let mut lines = rustls::Stream::new(&mut tls, &mut stream);
    // One byte a record: each is looked at.
    let failed = (0..1_000_000).find_map(|_| lines.write_all(&[1]).and_then(|()| lines.flush()).err());
    assert!(failed.is_some(), "it was heard for ever");
    check_calls(&mut head, &mut member);
}

/// In a process of its own, since descriptors are a process's. An accept that fails and is tried at once again would take a whole core.
#[test]
fn a_head_without_descriptors_goes_on_and_does_not_spin() {
    const IS_CHILD: &str = "EAGLERAY_TEST_FEW_DESCRIPTORS";
    const NAME: &str = "abroad::tests::attacks::a_head_without_descriptors_goes_on_and_does_not_spin";
    if std::env::var_os(IS_CHILD).is_none() {
        let program = std::env::current_exe().unwrap();
        let child =
            std::process::Command::new(program).args(["--exact", NAME, "--nocapture"]).env(IS_CHILD, "1").output();
        let child = child.unwrap();
        assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
        return;
    }
    let mut head = Station::head();
    let mut member = Station::member_of(&head);
    check_calls(&mut head, &mut member);
    let open = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let few = rustix::process::Rlimit { current: Some(open + 30), maximum: limit.maximum };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, few).unwrap();
    let callers: Vec<TcpStream> = (0..100).map_while(|_| TcpStream::connect(head.address()).ok()).collect();
    assert!(callers.len() < 100, "there are none left");
    let cpu = || rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let before = cpu();
    std::thread::sleep(Duration::from_secs(2));
    let used = cpu() - before;
    assert_eq!(used.tv_sec, 0, "{used:?} of two seconds");
    check_calls(&mut head, &mut member);
    drop(callers);
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    drop(Station::member_of(&head));
}
