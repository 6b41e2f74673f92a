//! What a worker wrote, cut into lines, each with the name of who speaks. Pure: bytes in, lines out.

/// A line longer than this comes in pieces.
const LINE_BYTES_MAX: usize = 1024 * 1024;
/// Between these two a worker writes whose output follows: `crates/python/src/output.rs`.
const SPEAKER: (u8, u8) = (0x1e, 0x1f);

/// Lines that one speaker printed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Said {
    /// Empty: not known.
    pub(crate) speaker: Box<str>,
    pub(crate) lines: Vec<String>,
}

#[derive(Default)]
pub(crate) struct Lines {
    /// Read and without a line's end so far.
    rest: Vec<u8>,
    /// How much of it is known to have none.
    searched: usize,
    /// Whose output is being read.
    speaker: Box<str>,
    /// The line that goes on in `rest` was passed on up to there.
    is_continued: bool,
    /// Bytes that were left out and not told of.
    skipped: u64,
    /// They end in the middle of a line, and the rest of it goes with them.
    is_skipping: bool,
}

impl Lines {
    /// Whether something waits for its line's end.
    pub(crate) fn is_open(&self) -> bool {
        !self.rest.is_empty()
    }

    /// Takes what was read behind the rest; gives the lines that are whole.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<Said> {
        let mut said = Vec::new();
        self.rest.extend_from_slice(bytes);
        if self.is_skipping {
            let end = self.rest.iter().position(|byte| *byte == b'\n');
            let count = end.map_or(self.rest.len(), |end| end + 1);
            self.skipped += count as u64;
            self.rest.drain(..count);
            self.is_skipping = end.is_none();
        }
        let rest = std::mem::take(&mut self.rest);
        let (mut start, mut searched) = (0, self.searched);
        loop {
            let end = rest[searched..].iter().position(|byte| *byte == b'\n').map(|at| searched + at);
            let length = end.unwrap_or(rest.len()) - start;
            if length > LINE_BYTES_MAX {
                let piece = whole_characters(&rest[start..start + LINE_BYTES_MAX]);
                start += piece.len();
                searched = start;
                self.say(piece, &mut said);
                self.is_continued = true;
            } else if let Some(end) = end {
                self.say(&rest[start..end], &mut said);
                self.is_continued = false;
                start = end + 1;
                searched = start;
            } else {
                break;
            }
        }
        self.rest = rest[start..].to_vec();
        self.searched = self.rest.len();
        said
    }

    /// Gives what waits for its line's end. What a terminal would not show waits on, and so does half a character.
    pub(crate) fn piece(&mut self) -> Vec<Said> {
        let mut said = Vec::new();
        let rest = std::mem::take(&mut self.rest);
        let piece = whole_characters(&rest);
        if !piece.trim_ascii().is_empty() {
            self.say(piece, &mut said);
            self.is_continued = true;
            self.rest = rest[piece.len()..].to_vec();
        } else {
            self.rest = rest;
        }
        self.searched = self.rest.len();
        said
    }

    /// Gives whatever is left: nothing follows.
    pub(crate) fn end(&mut self) -> Vec<Said> {
        let mut said = Vec::new();
        let rest = std::mem::take(&mut self.rest);
        self.searched = 0;
        if !rest.is_empty() {
            self.say(&rest, &mut said);
            self.is_continued = false;
        }
        said
    }

    /// So many bytes that follow will not be fed.
    pub(crate) fn skip(&mut self, bytes: u64) {
        self.skipped += bytes + self.rest.len() as u64;
        self.rest.clear();
        (self.searched, self.is_continued, self.is_skipping) = (0, false, true);
        // Who speaks may have been said in there.
        self.speaker = "".into();
    }

    /// How many bytes were left out before the next line; none while that is not there.
    pub(crate) fn take_skipped(&mut self) -> Option<u64> {
        (self.skipped > 0 && !self.is_skipping).then(|| std::mem::take(&mut self.skipped))
    }

    fn say(&mut self, line: &[u8], said: &mut Vec<Said>) {
        let line = self.hear_speaker(line);
        if line.is_empty() && self.is_continued {
            // The end of a line that was passed on already.
            return;
        }
        match said.last_mut().filter(|last| last.speaker == self.speaker) {
            Some(last) => last.lines.push(line),
            None => said.push(Said { speaker: self.speaker.clone(), lines: vec![line] }),
        }
    }

    /// The line without the marks in it; the last of them says who speaks.
    fn hear_speaker(&mut self, line: &[u8]) -> String {
        let Some(start) = line.iter().position(|byte| *byte == SPEAKER.0) else { return clean(line) };
        let Some(length) = line[start..].iter().position(|byte| *byte == SPEAKER.1) else { return clean(line) };
        self.speaker = String::from_utf8_lossy(&line[start + 1..start + length]).into();
        let without = [&line[..start], &line[start + length + 1..]].concat();
        self.hear_speaker(&without)
    }
}

/// Without the returns of a terminal's carriage around it: they are what a progress bar has for a line's end.
fn clean(line: &[u8]) -> String {
    String::from_utf8_lossy(line).trim_matches('\r').to_owned()
}

/// All but a character at its end that is not whole.
fn whole_characters(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(&bytes[bytes.len() - bytes.len().min(4)..]) {
        // Its start may lie in the middle of one, which says nothing about the end.
        Err(_) => {}
        Ok(_) => return bytes,
    }
    let tail = bytes.iter().rev().take(4).position(|byte| *byte >= 0xc0 || *byte < 0x80);
    match tail {
        Some(at) => {
            let start = bytes.len() - 1 - at;
            let is_cut = std::str::from_utf8(&bytes[start..]).is_err_and(|error| error.error_len().is_none());
            if is_cut { &bytes[..start] } else { bytes }
        }
        None => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::{LINE_BYTES_MAX, Lines, Said};

    fn texts(said: Vec<Said>) -> Vec<String> {
        said.into_iter().flat_map(|said| said.lines).collect()
    }

    /// Each read ended a line, so that lines were cut wherever the reader's buffer ended.
    #[test]
    fn a_line_comes_whole_however_it_is_read() {
        let text = (0..200).map(|number| format!("{number} {}\n", "ü".repeat(number))).collect::<String>();
        for step in [1, 2, 3, 7, 100, 4096] {
            let mut lines = Lines::default();
            let heard: Vec<String> = text.as_bytes().chunks(step).flat_map(|chunk| texts(lines.feed(chunk))).collect();
            assert_eq!(heard, text.lines().collect::<Vec<_>>());
            assert!(!lines.is_open());
        }
    }

    #[test]
    fn a_line_beyond_all_bounds_comes_in_pieces_that_lose_nothing() {
        let mut lines = Lines::default();
        let text = "é".repeat(LINE_BYTES_MAX);
        let mut heard = Vec::new();
        for chunk in text.as_bytes().chunks(100_001) {
            heard.extend(texts(lines.feed(chunk)));
        }
        heard.extend(texts(lines.feed(b"\n")));
        assert!(heard.iter().all(|piece| piece.len() <= LINE_BYTES_MAX));
        assert_eq!(heard.concat(), text);
    }

    #[test]
    fn what_has_no_end_can_be_had_before_it_comes() {
        let mut lines = Lines::default();
        assert!(lines.feed(b"\x1ef\x1floading").is_empty());
        assert!(lines.is_open());
        assert_eq!(lines.piece(), [Said { speaker: "f".into(), lines: vec!["loading".into()] }]);
        assert!(!lines.is_open());
        assert_eq!(texts(lines.feed(b" done\nnext\n")), [" done", "next"]);
    }

    #[test]
    fn the_bare_end_of_a_line_that_was_shown_is_no_line() {
        let mut lines = Lines::default();
        lines.feed(b"\r10%");
        assert_eq!(texts(lines.piece()), ["10%"]);
        lines.feed(b"\r20%\r30%");
        assert_eq!(texts(lines.piece()), ["20%\r30%"]);
        assert_eq!(texts(lines.feed(b"\n\nnext\n")), ["", "next"]);
    }

    #[test]
    fn blanks_and_half_a_character_wait() {
        let mut lines = Lines::default();
        lines.feed(b"  \r");
        assert!(lines.piece().is_empty() && lines.is_open());
        lines.feed(&"ü世".as_bytes()[..4]);
        assert_eq!(texts(lines.piece()), ["  \rü"]);
        lines.feed(&"ü世".as_bytes()[4..]);
        assert_eq!(texts(lines.piece()), ["世"]);
    }

    #[test]
    fn what_was_left_out_is_counted_up_to_the_next_line() {
        let mut lines = Lines::default();
        lines.feed(b"\x1ef\x1fbegun");
        lines.skip(100);
        assert!(lines.feed(b"of a li").is_empty());
        assert_eq!(texts(lines.feed(b"ne\nwhole\n")), ["whole"]);
        assert_eq!(lines.take_skipped(), Some(8 + 100 + 10));
        assert_eq!(lines.take_skipped(), None);
    }

    #[test]
    fn a_mark_says_who_speaks_from_its_line_on() {
        let mut lines = Lines::default();
        let said = lines.feed(b"x\n\x1ef\x1fa\nb\n\x1eg\x1fc\n");
        let names: Vec<_> = said.iter().map(|said| (&*said.speaker, said.lines.concat())).collect();
        assert_eq!(names, [("", "x".into()), ("f", "ab".into()), ("g", "c".into())]);
    }
}
