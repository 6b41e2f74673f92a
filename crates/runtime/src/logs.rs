//! What waits for the driver's terminal. Workers' lines stop coming while too many of them wait: the node hears what was taken.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use wire::control::ToNode;
use wire::logs::{AboutLogs, LOGS_BYTES_AHEAD, LogLines};

use crate::Runtime;

/// Notices kept for a driver that does not read them; older ones are dropped.
const NOTICES_MAX: usize = 1_000;

/// Something for the driver's terminal.
#[derive(Clone, Debug)]
pub enum LogEvent {
    /// A worker printed.
    Lines(LogLines),
    /// The system has something to say.
    Notice {
        /// As in `FromNode::Notice`.
        kind: Box<str>,
        /// For people.
        text: Box<str>,
    },
    /// Everything that was printed before `want_last_words` was called has come.
    Mark,
}

#[derive(Default)]
pub(crate) struct Logs {
    queue: Mutex<LogQueue>,
    arrived: Condvar,
}

impl Logs {
    /// Nothing more may come.
    pub(crate) fn wake(&self) {
        self.arrived.notify_all();
    }
}

#[derive(Default)]
struct LogQueue {
    events: VecDeque<LogEvent>,
    /// How many of them are notices.
    notices: usize,
    dropped: usize,
    /// Weight of the lines that were taken, as far as the node was not told.
    taken: usize,
}

fn is_notice(event: &LogEvent) -> bool {
    matches!(event, LogEvent::Notice { .. })
}

impl LogQueue {
    fn push(&mut self, event: LogEvent) {
        self.notices += usize::from(is_notice(&event));
        self.events.push_back(event);
        if self.notices > NOTICES_MAX
            && let Some(oldest) = self.events.iter().position(is_notice)
        {
            self.events.remove(oldest);
            self.notices -= 1;
            self.dropped += 1;
        }
    }

    fn pop(&mut self) -> Option<LogEvent> {
        if self.dropped > 0 {
            let text = format!("... {} warnings were dropped: nobody read them", std::mem::take(&mut self.dropped));
            return Some(LogEvent::Notice { kind: "warnings_dropped".into(), text: text.into() });
        }
        let event = self.events.pop_front()?;
        self.notices -= usize::from(is_notice(&event));
        if let LogEvent::Lines(lines) = &event {
            self.taken += lines.weight();
        }
        Some(event)
    }

    /// What the node must hear so that it goes on. Not each line is worth a message.
    fn take_taken(&mut self) -> Option<u64> {
        (self.taken >= LOGS_BYTES_AHEAD / 4).then(|| std::mem::take(&mut self.taken) as u64)
    }
}

impl Runtime {
    /// The next thing for the driver's terminal; nothing within `limit`, or ever if the node is gone.
    pub fn next_log(&self, limit: Duration) -> Option<LogEvent> {
        let mut queue = self.logs.queue.lock().expect("never poisoned");
        if queue.events.is_empty() && !self.is_closed() {
            queue = self.logs.arrived.wait_timeout(queue, limit).expect("never poisoned").0;
        }
        let event = queue.pop();
        let taken = queue.take_taken();
        drop(queue);
        if let Some(weight) = taken {
            self.send(&ToNode::Logs(AboutLogs::Taken(weight)));
        }
        event
    }

    /// Asks for all that workers have printed so far; `next_log` gives a mark behind it.
    pub fn want_last_words(&self) {
        self.send(&ToNode::Logs(AboutLogs::LastWords));
    }

    pub(crate) fn log(&self, event: LogEvent) {
        self.logs.queue.lock().expect("never poisoned").push(event);
        self.logs.arrived.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use wire::logs::{LOGS_BYTES_AHEAD, LogLines};

    use super::{LogEvent, LogQueue, NOTICES_MAX};

    fn lines(bytes: usize) -> LogEvent {
        LogEvent::Lines(LogLines {
            node: "".into(),
            pid: 1,
            name: "f".into(),
            is_error: false,
            lines: vec!["x".repeat(bytes)],
        })
    }

    #[test]
    fn of_too_many_warnings_the_oldest_go_with_a_word_and_no_line_does() {
        let mut queue = LogQueue::default();
        queue.push(lines(1));
        queue.push(LogEvent::Mark);
        (0..NOTICES_MAX + 7).for_each(|_| queue.push(LogEvent::Notice { kind: "".into(), text: "".into() }));
        let events: Vec<LogEvent> = std::iter::from_fn(|| queue.pop()).collect();
        assert!(matches!(&events[0], LogEvent::Notice { text, .. } if text.contains(" 7 warnings ")));
        assert!(matches!(events[1..3], [LogEvent::Lines(_), LogEvent::Mark]));
        assert_eq!(events.len(), NOTICES_MAX + 3);
    }

    #[test]
    fn the_node_hears_of_all_that_was_taken_in_few_messages() {
        let mut queue = LogQueue::default();
        let (mut sent, mut told, mut messages) = (0, 0, 0);
        for _ in 0..5_000 {
            let event = lines(1_000);
            if let LogEvent::Lines(lines) = &event {
                sent += lines.weight();
            }
            queue.push(event);
            queue.pop();
            if let Some(weight) = queue.take_taken() {
                told += weight as usize;
                messages += 1;
            }
        }
        assert!(messages > 10 && messages < 50);
        assert!(sent - told < LOGS_BYTES_AHEAD / 4, "what is not told yet must not stop the node");
    }
}
