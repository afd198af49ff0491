//! Messages of a process to itself: pipes, FIFOs, pairs of sockets, TCP and UDP.

use super::jobs::{Job, Session, Source::Public};
use rustix::fs::{CWD, Mode, mkfifoat};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::time::Duration;

#[rustfmt::skip] // a table
pub(super) const JOBS: &[Job] = &[
    Job { name: "pipe_cpy", does: "100 messages through a pipe", source: Public, run: pipe_cpy },
    Job { name: "fifo_test", does: "100 messages through a FIFO", source: Public, run: fifo_test },
    Job { name: "stream_pipe", does: "100 messages through a pair of stream sockets", source: Public, run: stream_pipe },
    Job { name: "dgram_pipe", does: "100 messages through a pair of datagram sockets", source: Public, run: dgram_pipe },
    Job { name: "tcp_test", does: "a TCP connection and 90 messages through it", source: Public, run: tcp_test },
    Job { name: "udp_test", does: "100 messages by UDP", source: Public, run: udp_test },
];

/// The largest message.
pub(super) const LARGEST: usize = 4096;

/// How long a message may be under way. A datagram can get lost, and no user waits for ever.
const PATIENCE: Duration = Duration::from_secs(10);

/// The bytes of one message after the other: all kinds, then those of a window system and of a database.
pub(super) fn sizes() -> impl Iterator<Item = usize> {
    const ALL: [usize; 11] = [1, 3, 5, 7, 16, 32, 64, 512, 1024, 2048, LARGEST];
    let often = [[32; 6].as_slice(), &[512; 5], &[2048; 4]];
    ALL.into_iter().chain(ALL).chain(often.concat()).cycle()
}

/// Sends so many messages, each of which is received before the next is sent.
fn exchange(
    messages: u32,
    mut send: impl FnMut(&[u8]) -> io::Result<()>,
    mut receive: impl FnMut(&mut [u8]) -> io::Result<()>,
) -> io::Result<()> {
    let sent = [b'm'; LARGEST];
    let mut received = [0; LARGEST];
    for size in sizes().take(messages as usize) {
        send(&sent[..size])?;
        receive(&mut received[..size])?;
        if received[size - 1] != sent[size - 1] {
            return Err(io::Error::other("a message is not what was sent"));
        }
        received[size - 1] = 0;
    }
    Ok(())
}

fn exchange_streams(messages: u32, mut writer: impl Write, mut reader: impl Read) -> io::Result<()> {
    exchange(messages, |sent| writer.write_all(sent), |received| reader.read_exact(received))
}

/// What came must be a whole message.
fn whole(received: usize, expected: usize) -> io::Result<()> {
    if received == expected { Ok(()) } else { Err(io::Error::other("a datagram came in part")) }
}

fn pipe_cpy(session: &mut Session) -> io::Result<()> {
    let (reader, writer) = io::pipe()?;
    exchange_streams(session.times(100), writer, reader)
}

fn fifo_test(session: &mut Session) -> io::Result<()> {
    let path = session.own("fifo");
    mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR)?;
    // A reader that does not wait for a writer to come.
    let ends = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(&path)
        .and_then(|reader| Ok((File::options().write(true).open(&path)?, reader)));
    let exchanged = ends.and_then(|(writer, reader)| exchange_streams(session.times(100), writer, reader));
    fs::remove_file(path).and(exchanged)
}

fn stream_pipe(session: &mut Session) -> io::Result<()> {
    let (writer, reader) = UnixStream::pair()?;
    exchange_streams(session.times(100), writer, reader)
}

fn dgram_pipe(session: &mut Session) -> io::Result<()> {
    let (sender, receiver) = UnixDatagram::pair()?;
    exchange(
        session.times(100),
        |sent| whole(sender.send(sent)?, sent.len()),
        |received| whole(receiver.recv(received)?, received.len()),
    )
}

fn tcp_test(session: &mut Session) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let reader = TcpStream::connect(listener.local_addr()?)?;
    let (writer, _) = listener.accept()?;
    writer.set_nodelay(true)?;
    reader.set_read_timeout(Some(PATIENCE))?;
    exchange_streams(session.times(90), writer, reader)
}

fn udp_test(session: &mut Session) -> io::Result<()> {
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    sender.connect(receiver.local_addr()?)?;
    receiver.set_read_timeout(Some(PATIENCE))?;
    exchange(
        session.times(100),
        |sent| whole(sender.send(sent)?, sent.len()),
        |received| whole(receiver.recv(received)?, received.len()),
    )
}
