//! As much of HTTP as a scrape needs: one page, by GET. Whoever can connect may ask, so requests are short, quick and few at a time.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

/// Where the page is.
pub(super) const PATH: &str = "/metrics";
/// Bytes of a request at most.
const LONGEST: usize = 8 << 10;
/// How long a request may take to come, and its answer to go.
const PATIENCE: Duration = Duration::from_secs(5);
/// Requests at a time.
const MOST: usize = 16;
/// How long to wait when there is nothing to accept connections with.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers requests with the page as it is then. Returns never.
pub(super) fn serve(listener: &TcpListener, page: &Arc<RwLock<String>>) -> ! {
    let busy = Arc::new(AtomicUsize::new(0));
    loop {
        let Ok((stream, _)) = listener.accept() else {
            std::thread::sleep(PAUSE); // out of descriptors, or the like
            continue;
        };
        let (page, one) = (Arc::clone(page), Busy::one_more(&busy));
        if busy.load(Ordering::Relaxed) > MOST {
            let _ = write(&stream, "503 Service Unavailable", "too many requests at a time\n", false);
            continue;
        }
        // A thread that cannot be had drops the connection.
        let _ = std::thread::Builder::new().spawn(move || {
            let _ = respond(&stream, &page); // nobody is there to be told of an error
            drop(one);
        });
    }
}

/// Counts a request as long as it lives.
struct Busy(Arc<AtomicUsize>);

impl Busy {
    fn one_more(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn respond(stream: &TcpStream, page: &RwLock<String>) -> std::io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let (status, body, head) = match request(stream)? {
        Request::Get { path, head } if path == PATH => {
            ("200 OK", page.read().map(|page| page.clone()).unwrap_or_default(), head)
        }
        Request::Get { head, .. } => ("404 Not Found", format!("the figures are at {PATH}\n"), head),
        Request::Other => ("405 Method Not Allowed", "GET and HEAD are known\n".to_owned(), false),
        Request::Unreadable => ("400 Bad Request", "this is no request\n".to_owned(), false),
        Request::TooLong => {
            ("431 Request Header Fields Too Large", "the request is too long\n".to_owned(), false)
        }
        Request::TooSlow => ("408 Request Timeout", "the request took too long\n".to_owned(), false),
    };
    answer(stream, status, &body, head)
}

#[derive(Debug, PartialEq, Eq)]
enum Request {
    Get {
        path: String,
        head: bool,
    },
    /// Another method.
    Other,
    Unreadable,
    TooLong,
    TooSlow,
}

/// Reads a request up to the empty line behind its header.
fn request(mut stream: &TcpStream) -> std::io::Result<Request> {
    let until = Instant::now() + PATIENCE;
    let mut text = Vec::new();
    let mut some = [0; 1024];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Request::TooSlow);
        }
        stream.set_read_timeout(Some(left))?;
        let read = match stream.read(&mut some) {
            Ok(0) => return Ok(Request::Unreadable),
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error)
                if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) =>
            {
                return Ok(Request::TooSlow);
            }
            Err(error) => return Err(error),
        };
        let seen = text.len().saturating_sub(3);
        text.extend_from_slice(&some[..read]);
        if text[seen..].windows(4).any(|end| end == b"\r\n\r\n") {
            return Ok(parse(&text));
        }
        if text.len() > LONGEST {
            return Ok(Request::TooLong);
        }
    }
}

/// The first line of a request.
fn parse(text: &[u8]) -> Request {
    let line = text.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let Ok(line) = std::str::from_utf8(line) else { return Request::Unreadable };
    let words: Vec<&str> = line.split(' ').collect();
    let [method, target, version] = words[..] else { return Request::Unreadable };
    if !version.starts_with("HTTP/1.")
        || method.is_empty()
        || !method.bytes().all(|byte| byte.is_ascii_uppercase())
    {
        return Request::Unreadable;
    }
    if !matches!(method, "GET" | "HEAD") {
        return Request::Other;
    }
    let path = target.split('?').next().unwrap_or_default();
    Request::Get { path: path.to_owned(), head: method == "HEAD" }
}

/// Sends an answer, and waits for the other side to have it.
fn answer(mut stream: &TcpStream, status: &str, body: &str, head: bool) -> std::io::Result<()> {
    write(stream, status, body, head)?;
    stream.shutdown(Shutdown::Write)?;
    // A connection that is closed with something unread in it loses the answer on the other side.
    stream.set_read_timeout(Some(PAUSE))?;
    let mut rest = [0; 1024];
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until && matches!(stream.read(&mut rest), Ok(1..)) {}
    Ok(())
}

fn write(mut stream: &TcpStream, status: &str, body: &str, head: bool) -> std::io::Result<()> {
    let header = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         Allow: GET, HEAD\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(header.as_bytes())?;
    if head { Ok(()) } else { stream.write_all(body.as_bytes()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_its_first_line() {
        let get = |path: &str, head| Request::Get { path: path.into(), head };
        for (text, request) in [
            ("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", get("/metrics", false)),
            ("HEAD /metrics?x=1 HTTP/1.0\r\n\r\n", get("/metrics", true)),
            ("GET / HTTP/1.1\r\n\r\n", get("/", false)),
            ("POST /metrics HTTP/1.1\r\n\r\n", Request::Other),
            ("GET /metrics\r\n\r\n", Request::Unreadable),
            ("GET /metrics HTTP/2\r\n\r\n", Request::Unreadable),
            ("GET  /metrics HTTP/1.1\r\n\r\n", Request::Unreadable),
            ("\r\n\r\n", Request::Unreadable),
            ("get /metrics HTTP/1.1\r\n\r\n", Request::Unreadable),
        ] {
            assert_eq!(parse(text.as_bytes()), request, "{text:?}");
        }
        assert_eq!(parse(b"GET /\xff HTTP/1.1\r\n\r\n"), Request::Unreadable);
    }

    /// What the server answers to these bytes.
    fn asked(address: std::net::SocketAddr, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let _ = stream.write_all(bytes); // it may answer before it has read all
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn hostile_requests_are_answered_and_the_next_one_is_served() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || serve(&listener, &Arc::new(RwLock::new("figures\n".into()))));
        let long = [b"GET /metrics HTTP/1.1\r\nX: ".as_slice(), &[b'a'; 3 * LONGEST], b"\r\n\r\n"].concat();
        for (bytes, status) in [
            (b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n".as_slice(), "200 OK"),
            (b"GET /../etc/passwd HTTP/1.1\r\n\r\n", "404 Not Found"),
            (b"DELETE /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed"),
            (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", "400 Bad Request"),
            (b"GET /metrics HTTP/1.1\r\n", "400 Bad Request"),
            (&long, "431 Request"),
        ] {
            let answer = asked(address, bytes);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{status}: {answer}");
        }
        // Whoever connects and says nothing keeps nobody from being served.
        let silent: Vec<TcpStream> = (0..MOST / 2).map(|_| TcpStream::connect(address).unwrap()).collect();
        let served = asked(address, b"GET /metrics HTTP/1.1\r\n\r\n");
        assert!(
            served.ends_with("\r\n\r\nfigures\n") && served.contains("Content-Length: 8\r\n"),
            "{served}"
        );
        let head = asked(address, b"HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(head.ends_with("\r\n\r\n") && head.contains("Content-Length: 8\r\n"), "{head}");
        drop(silent);
    }
}
