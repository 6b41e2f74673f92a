//! Who may not come in, and what it is told.

use identity::{Error, Python, Token};
use model::Quantity;
use wire::abroad::Between;

use super::station::{PYTHON, Station, check_calls, loopback, refused};
use crate::abroad::{Ask, HEAD, JoinError, rotate_token};

#[test]
fn another_python_is_refused_with_both_versions_named() {
    let mut head = Station::head();
    let mut member = Station::member_of(&head);
    let error = refused(&head, head.token(), Python { major: 3, minor: 9 });
    assert!(error.to_string().contains("this node runs Python 3.9, the head 3.12"), "{error}");
    assert!(
        matches!(error, JoinError::Refused(Error::Refused(_))),
        "the head has proved that it is the head: {error:?}"
    );
    check_calls(&mut head, &mut member);
}

#[test]
fn a_token_that_is_wrong_foreign_or_over_is_refused_with_the_reason() {
    let (mut head, other) = (Station::head(), Station::head());
    let mut member = Station::member_of(&head);
    let never_given = Token::new(head.token().cluster());
    let old = head.token();
    rotate_token(head.folder(), std::time::Duration::ZERO).unwrap();
    for (token, reason) in [
        (never_given, "the head does not know the token"),
        (other.token(), "the token is of another cluster"),
        (old, "the token has expired"),
    ] {
        let error = refused(&head, token, PYTHON);
        assert!(matches!(&error, JoinError::Refused(Error::RefusedUnproven(_))), "{error:?}");
        assert!(error.to_string().contains(reason), "{error}");
    }
    check_calls(&mut head, &mut member);
    drop(Station::member_of(&head));
}

type Spoil = fn(&mut wire::members::NodeInfo);

#[test]
fn a_node_that_talks_nonsense_of_itself_is_refused_and_harms_nobody() {
    let mut head = Station::head();
    let mut member = Station::member_of(&head);
    let spoil: [(&str, Spoil); 5] = [
        ("its name", |info| info.name = "\u{1b}[2Jhead".into()),
        ("-4 of", |info| info.total.set("CPU", Quantity::whole(-4))),
        ("an address", |info| info.addresses = vec!["0.0.0.0:0".into()]),
        ("its number", |info| info.number = HEAD),
        ("its life", |info| info.life ^= 1),
    ];
    for (what, spoil) in spoil {
        let mut odd = Station::member_of(&head);
        let mut info = odd.abroad.info.clone();
        spoil(&mut info);
        odd.abroad.ask(Ask::Send(HEAD, Between::Enters(Box::new(info))));
        let number = odd.number();
        let told = odd.hub_message(|message| match message {
            Between::Lost { node, why } if *node == number => Some(why.clone()),
            _ => None,
        });
        assert!(told.contains("the head refuses this node") && told.contains(what), "{told}");
    }
    check_calls(&mut head, &mut member);
    let told = head.within(std::time::Duration::ZERO, |told| {
        matches!(told, crate::abroad::Told::Hub(carrier::ToHub::Said { message: Between::Enters(_), .. })).then_some(())
    });
    assert_eq!(told, None, "none of it came further");
}

#[test]
fn a_node_as_it_is_comes_in_and_the_head_knows_where_it_listens() {
    let mut head = Station::head();
    let member = Station::member_of(&head);
    member.abroad.ask(Ask::Send(HEAD, Between::Enters(Box::new(member.abroad.info.clone()))));
    let came = head.hub_message(|message| if let Between::Enters(info) = message { Some(info.clone()) } else { None });
    assert_eq!(*came, member.abroad.info);
    let number = member.number();
    drop(member);
    // Its port refuses: that is known at once, long before patience is over.
    let why = head.until(|told| match told {
        crate::abroad::Told::Lost(node, why) if *node == number => Some(why.clone()),
        _ => None,
    });
    assert!(why.contains("refuses"), "{why}");
}

#[test]
fn addresses_of_the_other_kind_work_as_well() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        return;
    }
    let mut head = Station::head_at("[::1]:0".parse().unwrap());
    let mut member = Station::member_of(&head);
    check_calls(&mut head, &mut member);
}

#[test]
fn what_is_no_head_is_named_by_its_address() {
    let silent = std::net::TcpListener::bind(loopback()).unwrap();
    let address = silent.local_addr().unwrap();
    let token = Token::new(identity::ClusterId([1; 16]));
    let try_it =
        |token| crate::abroad::join("127.0.0.1", address.port(), token, PYTHON, std::time::Duration::from_millis(300));
    assert!(matches!(try_it(token.clone()).unwrap_err(), JoinError::TooLate(at) if at == address.to_string()));
    let speaks = std::thread::spawn(move || {
        // The first call was the one that nobody answered.
        for stream in silent.incoming().take(2) {
            let _ = std::io::Write::write_all(&mut stream.unwrap(), b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let error = try_it(token.clone()).unwrap_err();
    assert!(error.to_string().contains(&format!("no head of a cluster answers at {address}")), "{error}");
    speaks.join().unwrap();
    let error = try_it(token.clone()).unwrap_err();
    assert!(matches!(error, JoinError::Unreachable { .. }), "{error}");
    let error = crate::abroad::join("no-such-host.invalid", 1, token, PYTHON, std::time::Duration::from_millis(300));
    assert!(error.unwrap_err().to_string().contains("no-such-host.invalid: the name does not resolve"));
}

#[test]
fn a_node_that_is_no_head_lets_nobody_in() {
    let head = Station::head();
    let member = Station::member_of(&head);
    let error = refused(&member, head.token(), PYTHON);
    assert!(matches!(&error, JoinError::NoHead { .. }), "{error:?}");
}
