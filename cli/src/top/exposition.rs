//! The figures in Prometheus' text exposition format, version 0.0.4.

use super::end::End;
use super::http;
use crate::output::tell;
use anyhow::Context as _;
use profile::read::live::{LiveRow, LiveTable, Since, Watch};
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, RwLock};
use std::time::Duration;

/// Looks at the program once an interval and serves what was seen, until the program ends.
pub(super) fn run(
    mut watch: Watch,
    first: &LiveTable,
    interval: Duration,
    address: SocketAddr,
    top: usize,
) -> anyhow::Result<()> {
    let listener = TcpListener::bind(address).with_context(|| format!("cannot serve at {address}"))?;
    let address = listener.local_addr().context("cannot tell the address")?;
    let mut series = Series::new(top);
    series.add(first);
    let page = Arc::new(RwLock::new(series.exposition(first)));
    let served = Arc::clone(&page);
    std::thread::spawn(move || http::serve(&listener, &served));
    tell(&format!("serving http://{address}{}", http::PATH));
    let mut ended = first.header.ended.clone();
    let mut end = End::of(&watch);
    while ended.is_none() {
        end.wait(interval);
        let table = watch.look()?;
        series.add(&table);
        if let Ok(mut page) = page.write() {
            *page = series.exposition(&table);
        }
        ended = table.header.ended;
    }
    tell(&format!("the program has ended: {}", ended.unwrap_or_default()));
    Ok(())
}

/// A lock and a way of using it in a process, by their names: several locks of a name are one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Label {
    lock: String,
    way: String,
    process: String,
}

impl Label {
    fn of(row: &LiveRow) -> Self {
        Self { lock: row.lock.clone(), way: row.way.clone(), process: row.pid.to_string() }
    }

    /// That of all locks without a name of their own.
    fn other() -> Self {
        let [lock, way, process] = [(); 3].map(|()| OTHER.to_owned());
        Self { lock, way, process }
    }
}

/// What is served: as many locks by name as are asked for, those that cost most so far, and all others as one. What a lock does
/// is counted in one of both, by what it was when it was done; so no counter falls, and nothing is counted twice.
struct Series {
    top: usize,
    /// Everything so far, which says what is served.
    all: BTreeMap<Label, Since>,
    /// What was counted by name.
    named: BTreeMap<Label, Since>,
    others: Since,
    served: HashSet<Label>,
}

const OTHER: &str = "other";

/// So many locks are told apart. A server that forks has other ones with each child, which has a process of its own.
const REMEMBERED: usize = 1 << 14;

impl Series {
    fn new(top: usize) -> Self {
        let (all, named) = (BTreeMap::new(), BTreeMap::new());
        Self { top, all, named, others: Since::default(), served: HashSet::new() }
    }

    /// Adds what happened since the last look.
    fn add(&mut self, table: &LiveTable) {
        for row in &table.rows {
            self.all.entry(Label::of(row)).or_default().add(&row.since);
        }
        let mut by_cost: Vec<(&Label, &Since)> = self.all.iter().collect();
        by_cost.sort_by(|(_, a), (_, b)| {
            let most_first = b.waited_ns.total_cmp(&a.waited_ns).then(b.held_ns.total_cmp(&a.held_ns));
            most_first.then(b.acquisitions.cmp(&a.acquisitions))
        });
        let forgotten: Vec<Label> =
            by_cost.iter().skip(REMEMBERED.max(self.top)).map(|&(label, _)| label.clone()).collect();
        self.served = by_cost.into_iter().take(self.top).map(|(label, _)| label.clone()).collect();
        for label in forgotten {
            self.all.remove(&label);
            self.named.remove(&label);
        }
        for row in &table.rows {
            let label = Label::of(row);
            let into = if self.served.contains(&label) {
                self.named.entry(label).or_default()
            } else {
                &mut self.others
            };
            into.add(&row.since);
        }
    }

    /// The page.
    fn exposition(&self, last: &LiveTable) -> String {
        let other = Label::other();
        let is_served = |label: &Label| self.served.contains(label);
        let named = self.named.iter().filter(|(label, _)| is_served(label));
        let counted: Vec<(&Label, &Since)> = named.chain([(&other, &self.others)]).collect();
        let mut present: BTreeMap<&Label, Present> =
            counted.iter().map(|&(label, _)| (label, Present::default())).collect();
        for row in &last.rows {
            let label = Label::of(row);
            let key = if present.contains_key(&label) { &label } else { &other };
            let Some(now) = present.get_mut(key) else { continue }; // that of all others is always there
            now.waiters += row.waiters_now.unwrap_or(0);
            now.longest_ns = now.longest_ns.max(row.longest_wait_ns.unwrap_or(0.0));
        }
        let mut page = Page::default();
        let seconds = |ns: f64| ns / 1e9;
        let counters: [(&str, &str, Figure); 4] = [
            ("contend_lock_acquisitions_total", "Acquisitions of the lock.", |since| {
                since.acquisitions as f64
            }),
            ("contend_lock_contended_total", "Acquisitions that had to wait.", |since| {
                since.contended as f64
            }),
            ("contend_lock_wait_seconds_total", "Time that threads waited for the lock.", |since| {
                since.waited_ns / 1e9
            }),
            ("contend_lock_hold_seconds_total", "Time that threads held the lock.", |since| {
                since.held_ns / 1e9
            }),
        ];
        for (name, help, figure) in counters {
            page.family(name, "counter", help);
            for (label, since) in &counted {
                page.sample(name, label, figure(since));
            }
        }
        if last.header.marks_waits {
            page.family("contend_lock_waiters", "gauge", "Threads that wait for the lock.");
            for (label, now) in &present {
                page.sample("contend_lock_waiters", label, now.waiters as f64);
            }
            let longest = "contend_lock_longest_wait_seconds";
            page.family(longest, "gauge", "How long the longest wait that is not over has lasted.");
            for (label, now) in &present {
                page.sample(longest, label, seconds(now.longest_ns));
            }
        }
        let h = &last.header;
        for (name, kind, help, value) in [
            (
                "contend_dropped_events_total",
                "counter",
                "Events that were not recorded, because the profile was full.",
                h.dropped as f64,
            ),
            ("contend_processes", "gauge", "Processes that record.", h.processes as f64),
            ("contend_threads", "gauge", "Threads that touched a lock and have not ended.", h.threads as f64),
            ("contend_recorded_seconds", "gauge", "Time since the recording began.", seconds(h.elapsed_ns)),
        ] {
            page.family(name, kind, help);
            let _ = writeln!(page.0, "{name} {value}");
        }
        page.0
    }
}

/// A figure of what was counted.
type Figure = fn(&Since) -> f64;

/// What is so at a look.
#[derive(Default)]
struct Present {
    waiters: u64,
    longest_ns: f64,
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, label: &Label, value: f64) {
        let [lock, way, process] = [&label.lock, &label.way, &label.process].map(|value| escaped(value));
        let _ = writeln!(self.0, "{name}{{lock=\"{lock}\",use=\"{way}\",process=\"{process}\"}} {value}");
    }
}

/// A label's value, as the format has it.
fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}

#[cfg(test)]
#[path = "../../../tests/common/exposition.rs"]
mod strict;

#[cfg(test)]
mod tests {
    use super::strict::{Sample, parse};
    use super::*;
    use crate::top::batch::tests::table;
    use profile::read::live::LiveRow;
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    fn look(rows: &[(&str, u64, f64)]) -> LiveTable {
        let row = |&(lock, acquisitions, waited_ns): &(&str, u64, f64)| LiveRow {
            lock: lock.into(),
            way: "mutex".into(),
            since: Since { acquisitions, contended: 1, waited_ns, held_ns: 2e9 },
            waiters_now: Some(acquisitions),
            longest_wait_ns: Some(waited_ns),
            ..LiveRow::default()
        };
        LiveTable { rows: rows.iter().map(row).collect(), ..table() }
    }

    fn figure(samples: &[Sample], name: &str, lock: &str) -> Option<f64> {
        let of_lock = |sample: &&Sample| sample.name == name && sample.labels["lock"] == lock;
        samples.iter().find(of_lock).map(|sample| sample.value)
    }

    #[test]
    fn a_hostile_name_stays_inside_of_its_label() {
        let mut series = Series::new(5);
        let evil = "a\"} 1\nb{c=\"\\";
        let table = look(&[(evil, 3, 5e8), ("plain", 4, 0.0)]);
        series.add(&table);
        let samples = parse(&series.exposition(&table)).unwrap();
        assert_eq!(figure(&samples, "contend_lock_acquisitions_total", evil), Some(3.0));
        assert_eq!(figure(&samples, "contend_lock_wait_seconds_total", evil), Some(0.5));
        assert_eq!(figure(&samples, "contend_lock_hold_seconds_total", "plain"), Some(2.0));
        assert_eq!(figure(&samples, "contend_lock_longest_wait_seconds", evil), Some(0.5));
        assert_eq!(figure(&samples, "contend_lock_waiters", "plain"), Some(4.0));
    }

    #[test]
    fn so_many_locks_have_names_and_every_acquisition_is_counted_once() {
        let mut series = Series::new(1);
        let looks = [
            look(&[("a", 10, 9.0), ("b", 5, 1.0)]),
            look(&[("a", 1, 0.0), ("b", 7, 100.0)]), // b has cost most from here on
            look(&[("a", 2, 0.0), ("c", 4, 0.0)]),
        ];
        let mut seen: Vec<Vec<Sample>> = Vec::new();
        for look in &looks {
            series.add(look);
            seen.push(parse(&series.exposition(look)).unwrap());
        }
        let of = |look: usize, lock| figure(&seen[look], "contend_lock_acquisitions_total", lock);
        assert_eq!([of(0, "a"), of(0, "b"), of(0, OTHER)], [Some(10.0), None, Some(5.0)]);
        assert_eq!([of(1, "a"), of(1, "b"), of(1, OTHER)], [None, Some(7.0), Some(6.0)]);
        assert_eq!([of(2, "b"), of(2, OTHER)], [Some(7.0), Some(12.0)]);
        let waiters = |look: usize, lock| figure(&seen[look], "contend_lock_waiters", lock);
        assert_eq!([waiters(1, "b"), waiters(1, OTHER)], [Some(7.0), Some(1.0)]);
        assert_eq!([waiters(2, "b"), waiters(2, OTHER)], [Some(0.0), Some(6.0)], "b is not in the last look");
    }

    #[test]
    fn the_locks_of_processes_that_came_and_went_are_forgotten() {
        let mut series = Series::new(2);
        for child in 0..4 {
            let names: Vec<String> = (0..REMEMBERED).map(|lock| format!("{child}.{lock}")).collect();
            let rows: Vec<(&str, u64, f64)> =
                names.iter().map(|name| (&**name, 1, f64::from(child))).collect();
            series.add(&look(&rows));
            assert_eq!(series.all.len(), REMEMBERED);
            assert!(
                series.named.len() <= 2 && series.served.iter().all(|label| series.all.contains_key(label))
            );
        }
    }

    #[test]
    fn locks_of_one_name_are_one_and_unknown_waits_are_left_out() {
        let mut series = Series::new(5);
        let mut table = look(&[("a", 1, 0.0), ("a", 2, 0.0)]);
        table.header.marks_waits = false;
        series.add(&table);
        let samples = parse(&series.exposition(&table)).unwrap();
        assert_eq!(figure(&samples, "contend_lock_acquisitions_total", "a"), Some(3.0));
        assert_eq!(figure(&samples, "contend_lock_waiters", "a"), None);
        assert!(samples.iter().any(|sample| sample.name == "contend_threads" && sample.value == 8.0));
    }

    /// What Prometheus' own tool says of an input, if it is installed and finds something wrong.
    fn objections(arguments: &[&str], input: &str) -> Option<String> {
        let mut command = Command::new("promtool");
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let Ok(mut tool) = command.spawn() else {
            eprintln!("left out: promtool is not installed (apt-get install prometheus)");
            return None;
        };
        tool.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let ended = tool.wait_with_output().unwrap();
        let said = [ended.stdout, ended.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
        (!ended.status.success()).then(|| said.concat())
    }

    #[test]
    fn promtool_accepts_the_page() {
        let mut series = Series::new(5);
        let table = look(&[("a\"} 1\nb{c=\"\\", 3, 5e8), ("b", 4, 0.0)]);
        series.add(&table);
        let page = series.exposition(&table);
        assert_eq!(objections(&["check", "metrics"], &page), None, "{page}");
    }

    fn dashboard() -> serde_json::Value {
        serde_json::from_str(include_str!("../../../packaging/grafana.json")).unwrap()
    }

    #[test]
    fn promtool_accepts_the_expressions_of_the_dashboard() {
        let dashboard = dashboard();
        let panels = dashboard["panels"].as_array().unwrap();
        let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
        let rule = |(number, target): (usize, &serde_json::Value)| {
            let expression = target["expr"].as_str().unwrap().replace("$__rate_interval", "1m");
            serde_json::json!({ "record": format!("asked_{number}"), "expr": expression })
        };
        let rules: Vec<_> = targets.enumerate().map(rule).collect();
        assert!(rules.len() >= panels.len());
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rules.json");
        let groups = serde_json::json!({ "groups": [{ "name": "dashboard", "rules": rules }] });
        std::fs::write(&file, groups.to_string()).unwrap();
        assert_eq!(objections(&["check", "rules", file.to_str().unwrap()], ""), None);
    }

    /// What Grafana takes for granted in a dashboard that is imported: panels have identifiers, queries and places of their own, within
    /// its 24 columns, and every variable that is used is there.
    #[test]
    fn the_dashboard_is_one_for_grafana() {
        let dashboard = dashboard();
        let panels = dashboard["panels"].as_array().unwrap();
        let ids: HashSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
        assert_eq!(ids.len(), panels.len());
        let mut taken = HashSet::new();
        for panel in panels {
            let [x, y, w, h] = ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_u64().unwrap());
            assert!(x + w <= 24 && w > 0 && h > 0, "{panel}");
            let cells = (x..x + w).flat_map(|column| (y..y + h).map(move |line| (column, line)));
            assert!(cells.into_iter().all(|cell| taken.insert(cell)), "on another panel: {panel}");
            let targets = panel["targets"].as_array().unwrap();
            let names: HashSet<_> = targets.iter().map(|target| target["refId"].as_str().unwrap()).collect();
            assert_eq!(names.len(), targets.len(), "{panel}");
        }
        let variables = dashboard["templating"]["list"].as_array().unwrap();
        let known: HashSet<_> = variables.iter().map(|variable| variable["name"].as_str().unwrap()).collect();
        let text = dashboard.to_string();
        let used = regex_lite::Regex::new(r"\$\{?([a-z]+)\b").unwrap();
        let used: HashSet<_> =
            used.captures_iter(&text).map(|found| found.get(1).unwrap().as_str()).collect();
        assert_eq!(used, known);
    }

    /// Every query of the dashboard asks for families and labels that are served.
    #[test]
    fn the_dashboard_asks_for_what_is_served() {
        let dashboard = dashboard();
        let table = look(&[("a", 1, 0.0)]);
        let mut series = Series::new(5);
        series.add(&table);
        let samples = parse(&series.exposition(&table)).unwrap();
        let served = |name: &str| samples.iter().find(|sample| sample.name == name);
        let panels = dashboard["panels"].as_array().unwrap();
        let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
        let expressions = targets.map(|target| (&target["expr"], target["legendFormat"].as_str().unwrap()));
        let variables = dashboard["templating"]["list"].as_array().unwrap().iter();
        let variables = variables
            .map(|variable| (&variable["query"]["query"], ""))
            .filter(|(query, _)| query.is_string());
        let family = regex_lite::Regex::new("contend_[a-z_]+").unwrap();
        let label = regex_lite::Regex::new(r"\{\{([a-z]+)\}\}").unwrap();
        let mut asked = HashSet::new();
        for (expression, legend) in expressions.chain(variables) {
            let families: Vec<_> =
                family.find_iter(expression.as_str().unwrap()).map(|found| found.as_str()).collect();
            assert!(!families.is_empty(), "{expression}");
            for name in families {
                let sample = served(name).unwrap_or_else(|| panic!("{name} of {expression} is not served"));
                for found in label.captures_iter(legend) {
                    assert!(sample.labels.contains_key(&found[1]), "{name} has no label {}", &found[1]);
                }
                asked.insert(name.to_owned());
            }
        }
        let unused: Vec<_> = samples
            .iter()
            .filter(|sample| !asked.contains(&sample.name))
            .map(|sample| &sample.name)
            .collect();
        assert_eq!(unused, ["contend_recorded_seconds"], "all but how long it records is drawn");
    }

    #[test]
    fn locks_of_one_name_in_two_processes_are_two() {
        let mut series = Series::new(5);
        let mut table = look(&[("a", 1, 0.0), ("a", 2, 0.0)]);
        table.rows[0].pid = 7;
        table.rows[1].pid = 8;
        series.add(&table);
        let samples = parse(&series.exposition(&table)).unwrap();
        let of_process = |process: &str| {
            let mut of = samples.iter().filter(|sample| sample.name == "contend_lock_acquisitions_total");
            of.find(|sample| sample.labels["process"] == process).map(|sample| sample.value)
        };
        assert_eq!(["7", "8", OTHER].map(of_process), [Some(1.0), Some(2.0), Some(0.0)]);
    }
}
