//! A client that sends short messages, ten a connection, as fast as they are taken.

use anyhow::Context as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// Messages that a connection carries, as published.
pub(super) const MESSAGES_A_CONNECTION: u64 = 10;

/// The header that names a message.
pub(super) const NAME_HEADER: &str = "Message-Name: ";

/// The name of a client's message.
pub(super) fn name(client: usize, number: u64) -> String {
    format!("{client}-{number}")
}

/// The recipient of a client's messages, and the file that has them.
pub(super) fn recipient(client: usize) -> String {
    format!("user{client}")
}

/// A connection to the server.
struct Connection {
    lines: BufReader<TcpStream>,
}

impl Connection {
    /// Longer than any step takes on a machine at work.
    const PATIENCE: Duration = Duration::from_secs(30);

    fn open(port: u16) -> anyhow::Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).context("cannot connect to exim")?;
        stream.set_read_timeout(Some(Self::PATIENCE))?;
        stream.set_write_timeout(Some(Self::PATIENCE))?;
        stream.set_nodelay(true)?;
        let mut connection = Self { lines: BufReader::new(stream) };
        connection.answer("220")?;
        connection.say("HELO localhost", "250")?;
        Ok(connection)
    }

    /// Reads an answer, which has this code.
    fn answer(&mut self, code: &str) -> anyhow::Result<()> {
        loop {
            let mut line = String::new();
            self.lines.read_line(&mut line).context("exim does not answer")?;
            anyhow::ensure!(line.starts_with(code), "exim answers `{}`, not {code}", line.trim_end());
            if line.as_bytes().get(code.len()) != Some(&b'-') {
                return Ok(());
            }
        }
    }

    fn say(&mut self, line: &str, code: &str) -> anyhow::Result<()> {
        let stream = self.lines.get_mut();
        stream.write_all(format!("{line}\r\n").as_bytes()).context("cannot write to exim")?;
        self.answer(code)
    }

    /// Ends the connection, without waiting for an answer: exim 4.96 holds that back for 200 ms, in case the other side closes first.
    fn quit(mut self) -> anyhow::Result<()> {
        self.lines.get_mut().write_all(b"QUIT\r\n").context("cannot write to exim")
    }

    fn send(&mut self, client: usize, number: u64) -> anyhow::Result<()> {
        self.say("MAIL FROM:<sender@localhost>", "250")?;
        self.say(&format!("RCPT TO:<{}@localhost>", recipient(client)), "250")?;
        self.say("DATA", "354")?;
        // Twenty bytes of text, as published.
        let name = name(client, number);
        self.say(&format!("{NAME_HEADER}{name}\r\n\r\na message of 20 byte\r\n."), "250")
    }
}

/// Sends messages, one connection's at least, while `goes_on`; how many were accepted.
///
/// # Errors
/// The server does not take one.
pub(super) fn run(port: u16, client: usize, goes_on: impl Fn() -> bool) -> anyhow::Result<u64> {
    let mut sent = 0;
    loop {
        let mut connection = Connection::open(port)?;
        for _ in 0..MESSAGES_A_CONNECTION {
            connection.send(client, sent)?;
            sent += 1;
        }
        connection.quit()?;
        if !goes_on() {
            return Ok(sent);
        }
    }
}
