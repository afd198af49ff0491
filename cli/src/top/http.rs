//! As much of HTTP as a scrape needs: one page, by GET. Every client that can connect may ask, so requests are short, quick and
//! few at a time.
//!
//! A browser on this computer can connect, too, and shows what it gets to the author of the page that it shows, if that page's
//! name has become an address of this computer meanwhile (DNS rebinding). So requests have to name this computer.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv6Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// Where the page is.
pub(super) const PATH: &str = "/metrics";
/// Bytes of a request at most.
const LONGEST: usize = 8 << 10;
/// How long a request may take to come, and its answer to go.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections at a time. With another one, the oldest is closed: a scrape takes milliseconds, so that it is one that says nothing.
const MOST: usize = 16;
/// How long to wait when there is nothing to accept connections with.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers requests with the page as it is then. Returns never.
pub(super) fn serve(listener: &TcpListener, page: &Arc<RwLock<String>>) -> ! {
    let open = Connections::default();
    loop {
        let Ok((stream, _)) = listener.accept() else {
            std::thread::sleep(PAUSE); // out of descriptors, or the like
            continue;
        };
        let (page, connection) = (Arc::clone(page), open.add(stream));
        // A thread that cannot be had drops the connection.
        let _ = std::thread::Builder::new().spawn(move || {
            let _ = respond(&connection.stream, &page); // there is no caller to tell of an error
        });
    }
}

/// Those that are open, the oldest first.
#[derive(Clone, Default)]
struct Connections(Arc<Mutex<VecDeque<Arc<TcpStream>>>>);

/// One of them, until it is dropped.
struct Connection {
    stream: Arc<TcpStream>,
    of: Connections,
}

impl Connections {
    fn add(&self, stream: TcpStream) -> Connection {
        let stream = Arc::new(stream);
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= MOST
            && let Some(oldest) = open.pop_front()
        {
            let _ = oldest.shutdown(Shutdown::Both); // its thread ends with it
        }
        open.push_back(Arc::clone(&stream));
        Connection { stream, of: self.clone() }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut open = self.of.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|stream| !Arc::ptr_eq(stream, &self.stream));
    }
}

fn respond(stream: &TcpStream, page: &RwLock<String>) -> std::io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let (status, body, head) = match request(stream)? {
        Request::Get { head, host: Some(host), .. } if !is_this_computer(&host) => (
            "421 Misdirected Request",
            "ask for this computer by its address, its host name, a name that /etc/hosts has beside that, or localhost\n"
                .to_owned(),
            head,
        ),
        Request::Get { path, head, .. } if path == PATH => {
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
        /// Whom it is for; browsers always say so.
        host: Option<String>,
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

/// The first line of a request, and whom it is for.
fn parse(text: &[u8]) -> Request {
    let Ok(text) = std::str::from_utf8(text) else { return Request::Unreadable };
    let mut lines = text.split("\r\n");
    let line = lines.next().unwrap_or_default();
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
    let headers = lines.filter_map(|line| line.split_once(':'));
    let mut hosts =
        headers.filter(|(name, _)| name.eq_ignore_ascii_case("host")).map(|(_, host)| host.trim());
    let host = hosts.next().map(str::to_owned);
    if hosts.next().is_some() {
        return Request::Unreadable;
    }
    Request::Get { path: path.to_owned(), head: method == "HEAD", host }
}

/// Whether a client that knows this computer can mean it by a `Host`: an address, a name of the loopback interface, or a name of its own.
fn is_this_computer(host: &str) -> bool {
    let port = |text: &str| {
        text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok())
    };
    if let Some((address, rest)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return address.parse::<Ipv6Addr>().is_ok() && port(rest);
    }
    let (name, rest) = host.split_at(host.find(':').unwrap_or(host.len()));
    let is_address = name.parse::<IpAddr>().is_ok();
    // The name of the root ends a name that is complete.
    let name = name.strip_suffix('.').unwrap_or(name);
    port(rest) && (is_address || is_among(&LOOPBACK, name) || is_among(&own_names(), name))
}

/// Names that mean the loopback interface wherever they are known. None of them can be registered in the domain name system.
const LOOPBACK: [&str; 4] = ["localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"];

fn is_among(names: &[impl AsRef<str>], name: &str) -> bool {
    names.iter().any(|known| known.as_ref().eq_ignore_ascii_case(name))
}

/// What this computer is called by its administrator. A resolver is not asked: its answers are what an attacker changes.
fn own_names() -> Vec<String> {
    let [host, domain, hosts] = ["/proc/sys/kernel/hostname", "/proc/sys/kernel/domainname", "/etc/hosts"]
        .map(|path| std::fs::read_to_string(path).unwrap_or_default());
    names_in(host.trim(), domain.trim(), &hosts)
}

/// The host name as it is and without its domain, with the domain that the kernel knows, and all names that a line of `/etc/hosts` has
/// beside one of these.
fn names_in(host: &str, domain: &str, hosts: &str) -> Vec<String> {
    /// The domain where none is set.
    const NONE: &str = "(none)";
    let short = host.split('.').next().unwrap_or_default();
    let mut names: Vec<String> =
        [host, short].into_iter().filter(|name| !name.is_empty()).map(str::to_owned).collect();
    if !short.is_empty() && !domain.is_empty() && domain != NONE {
        names.push(format!("{short}.{domain}"));
    }
    // Other names of the same addresses are not taken: lists that block domains give these loopback addresses.
    let lines = hosts.lines().map(|line| line.split('#').next().unwrap_or_default());
    let of_lines = lines.filter_map(|line| {
        let aliases: Vec<&str> = line.split_ascii_whitespace().skip(1).collect();
        aliases.iter().any(|alias| is_among(&names, alias)).then_some(aliases)
    });
    let aliases: Vec<String> = of_lines.flatten().map(str::to_owned).collect();
    names.extend(aliases);
    names
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
        let for_host = |path: &str, head, host: Option<&str>| Request::Get {
            path: path.into(),
            head,
            host: host.map(str::to_owned),
        };
        let get = |path: &str, head| for_host(path, head, None);
        for (text, request) in [
            (
                "GET /metrics HTTP/1.1\r\nX: y\r\nhOST:  a:80 \r\n\r\n",
                for_host("/metrics", false, Some("a:80")),
            ),
            ("GET /metrics HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", Request::Unreadable),
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

    #[test]
    fn a_host_is_this_computer_if_whoever_names_it_knows_that() {
        let own = own_names();
        for host in [
            "localhost", "LocalHost:9184", "localhost.:9184", "ip6-localhost", "127.0.0.1", "10.0.0.7:80",
            "[::1]:9184", "[::1]",
        ] {
            assert!(is_this_computer(host), "{host}");
        }
        for host in &own {
            assert!(is_this_computer(host) && is_this_computer(&format!("{host}:9184")), "{host}");
        }
        for host in [
            "", ":80", "rebound.example", "localhost.rebound.example", "127.0.0.1.rebound.example", "::1",
            "[::1", "[a]", "localhost:x", ".", "localhost..",
        ] {
            assert!(!is_this_computer(host), "{host}");
        }
    }

    #[test]
    fn names_of_this_computer_are_those_that_its_administrator_wrote_beside_one_another() {
        let hosts = "127.0.0.1 localhost\n\
             # 127.0.1.1 web1 commented.example\n\
             127.0.1.1\tweb1.corp.example web1 metrics # web1 noted.example\n\
             127.0.0.1 blocked.example\n\
             0.0.0.0 web1.blocked.example\n\
             10.0.0.7 web2.corp.example web2\n";
        let found = |host: &str, domain: &str, name: &str| is_among(&names_in(host, domain, hosts), name);
        for host in ["web1", "web1.corp.example"] {
            for name in ["web1", "WEB1.corp.example", "metrics"] {
                assert!(found(host, "(none)", name), "{host}: {name}");
            }
            for name in [
                "commented.example", "noted.example", "blocked.example", "web1.blocked.example", "web2",
                "web1.(none)", "127.0.1.1", "",
            ] {
                assert!(!found(host, "(none)", name), "{host}: {name}");
            }
        }
        assert!(found("web3", "corp.example", "web3.corp.example") && !found("web3", "corp.example", "web1"));
        assert_eq!(names_in("", "corp.example", hosts), [""; 0], "a computer without a name has none");
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
            (b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9184\r\n\r\n".as_slice(), "200 OK"),
            (b"GET /metrics HTTP/1.1\r\nHost: rebound.example\r\n\r\n", "421 Misdirected Request"),
            (b"GET /../etc/passwd HTTP/1.1\r\n\r\n", "404 Not Found"),
            (b"DELETE /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed"),
            (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", "400 Bad Request"),
            (b"GET /metrics HTTP/1.1\r\n", "400 Bad Request"),
            (&long, "431 Request"),
        ] {
            let answer = asked(address, bytes);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{status}: {answer}");
        }
        // A client that connects and says nothing keeps no other client from being served.
        let silent: Vec<TcpStream> = (0..4 * MOST).map(|_| TcpStream::connect(address).unwrap()).collect();
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
