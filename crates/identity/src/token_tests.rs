use super::*;

const CLUSTER: ClusterId = ClusterId([7; 16]);

#[test]
fn a_token_is_read_back_from_its_text_with_space_around_it_and_in_capitals() {
    let token = Token::new(CLUSTER);
    let text = token.to_text();
    let loud = text.to_uppercase();
    for text in [text.as_str(), &format!("  {}\r\n", text.as_str()), &loud] {
        let read = Token::parse(text).unwrap();
        assert_eq!((read.cluster(), read.id(), read.secret()), (CLUSTER, token.id(), token.secret()));
    }
}

#[test]
fn a_token_that_is_missing_or_something_else_says_so() {
    assert_eq!(Token::parse(" \n").unwrap_err(), TokenError::Missing);
    assert_eq!(Token::parse("hunter2").unwrap_err(), TokenError::Prefix);
    assert_eq!(Token::parse("ünïcödé-ünïcödé").unwrap_err(), TokenError::Prefix);
}

#[test]
fn a_token_cut_short_or_copied_twice_says_how_long_it_is() {
    let text = Token::new(CLUSTER).to_text();
    for length in PREFIX.len()..text.len() {
        assert_eq!(Token::parse(&text[..length]).unwrap_err(), TokenError::Length(length - PREFIX.len()));
    }
    let twice = format!("{}{}", text.as_str(), &text[PREFIX.len()..]);
    assert_eq!(Token::parse(&twice).unwrap_err(), TokenError::Length(2 * LETTERS));
}

#[test]
fn every_single_mistyped_letter_is_recognised() {
    let text = Token::new(CLUSTER).to_text();
    for at in PREFIX.len()..text.len() {
        let other = if &text[at..=at] == "7" { "8" } else { "7" };
        let mistyped = format!("{}{other}{}", &text[..at], &text[at + 1..]);
        assert_eq!(Token::parse(&mistyped).unwrap_err(), TokenError::Checksum, "letter {at}");
        let stray = format!("{}?{}", &text[..at], &text[at + 1..]);
        assert_eq!(Token::parse(&stray).unwrap_err(), TokenError::Character(at - PREFIX.len() + 1));
    }
}

#[test]
fn two_letters_in_the_wrong_order_are_recognised() {
    let text = Token::new(CLUSTER).to_text();
    for at in PREFIX.len()..text.len() - 1 {
        let (first, second) = (&text[at..=at], &text[at + 1..at + 2]);
        let swapped = format!("{}{second}{first}{}", &text[..at], &text[at + 2..]);
        assert_eq!(Token::parse(&swapped).is_err(), first != second, "letter {at}");
    }
}

#[test]
fn letters_that_people_mistake_for_others_are_taken_as_those() {
    let text = Token::from_secret(CLUSTER, [0; 32]).to_text();
    let misread = text[PREFIX.len()..].replace('0', "O").replace('1', "l");
    assert_eq!(Token::parse(&format!("{PREFIX}{misread}")).unwrap().secret(), &[0; 32]);
}

#[test]
fn neither_debug_nor_errors_show_anything_of_a_secret() {
    let token = Token::new(CLUSTER);
    let text = token.to_text();
    let mut table = crate::Tokens::new(CLUSTER);
    let until = rustls::pki_types::UnixTime::since_unix_epoch(std::time::Duration::from_secs(1));
    table.add(until, None).unwrap();
    let shown = format!("{token:?} {table:?}");
    assert!(shown.contains(&token.id().to_string()));
    let mistyped = format!("{}u", &text[..text.len() - 1]);
    let shown = format!("{shown} {:?} {}", Token::parse(&mistyped), Token::parse(&mistyped).unwrap_err());
    for start in PREFIX.len()..text.len() - 8 {
        assert!(!shown.contains(&text[start..start + 8]), "{shown}");
    }
    assert!(!shown.contains(&hex(&token.secret()[..4])), "{shown}");
    assert!(!shown.contains(&format!("{}, {}, {}", token.secret()[0], token.secret()[1], token.secret()[2])));
}

#[test]
fn two_tokens_of_one_cluster_differ_in_secret_and_name() {
    let (one, two) = (Token::new(CLUSTER), Token::new(CLUSTER));
    assert_ne!(one.id(), two.id());
    assert_ne!(one.secret(), two.secret());
    assert_eq!(TokenId::parse(&one.id().to_string()), Some(one.id()));
}
