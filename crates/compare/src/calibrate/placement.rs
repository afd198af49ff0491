//! How far apart the cores lie, and how they work together, while something is measured.
//!
//! On a virtual machine this changes: the hypervisor moves the cores that it shows, and two of them are neighbours on one
//! physical core at one time and lie in different caches at another. What was calibrated before does not hold then.

use super::Cores;
use super::time::{middle, together, transfer_ns};
use report::Spread;
use topology::MachineFile;
use topology::machine_file::{Figure, FigureUnit};

/// Transfers that differ by this factor are of cores that were moved.
const MOVED: f64 = 1.5;

/// Samples of one pair of cores, taken while something else is measured.
#[derive(Debug)]
pub struct Placement {
    pair: Option<[u32; 2]>,
    transfers_ns: Vec<f64>,
    shares: Vec<f64>,
}

impl Placement {
    /// Of the machine's first two cores; without cores nothing is known.
    #[must_use]
    pub fn of(cores: Option<&Cores>) -> Self {
        let pair = cores.map(|cores| [cores.places[0].core, cores.places[1].core]);
        Self { pair, transfers_ns: Vec::new(), shares: Vec::new() }
    }

    /// Takes a sample: some milliseconds.
    pub fn sample(&mut self) {
        if let Some(pair) = self.pair {
            self.transfers_ns.extend(middle(&transfer_ns(pair)).map(|spread| spread.median));
            self.shares.extend(together(pair));
        }
    }

    /// One way of a line between the cores, ns.
    #[must_use]
    pub fn transfer_ns(&self) -> Option<Spread> {
        middle(&self.transfers_ns)
    }

    /// How fast a core computes while the other does, relative to alone.
    #[must_use]
    pub fn together(&self) -> Option<Spread> {
        middle(&self.shares)
    }

    /// That the cores did not stay where they are, in words.
    #[must_use]
    pub fn moved(&self) -> Option<String> {
        let (least, most) = (
            self.transfers_ns.iter().copied().reduce(f64::min)?,
            self.transfers_ns.iter().copied().reduce(f64::max)?,
        );
        (most > MOVED * least).then(|| {
            format!(
                "a line took {least:.0} to {most:.0} ns between the cores: a hypervisor moves them, or others use them"
            )
        })
    }

    /// The machine as it was meanwhile, where it has one distance alone.
    #[must_use]
    pub fn applied(&self, machine: &MachineFile) -> MachineFile {
        let mut machine = machine.clone();
        let transfer = &mut machine.transfer;
        let (Some(now), Some(then), None, None) =
            (self.transfer_ns(), transfer.same_l3.as_ref(), &transfer.same_socket, &transfer.cross_socket)
        else {
            return machine;
        };
        if then.unit != FigureUnit::Nanoseconds {
            return machine; // cycles of a clock that is not known here
        }
        let then_ns = then.value;
        let as_now = |figure: &mut Option<Figure>| {
            if let Some(figure) = figure.as_mut().filter(|figure| figure.unit == FigureUnit::Nanoseconds) {
                let scale = figure.value / then_ns;
                figure.value = now.median * scale;
                (figure.low, figure.high) = (Some(now.low * scale), Some(now.high * scale));
            }
        };
        as_now(&mut transfer.same_l3);
        if let Some(coherence) = &mut machine.coherence {
            for figure in [
                &mut coherence.local_transfer, &mut coherence.local_read, &mut coherence.serial_read,
                &mut coherence.invalidate,
            ] {
                as_now(figure);
            }
        }
        machine
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::carried;

    fn placement(transfers_ns: &[f64]) -> Placement {
        Placement { pair: None, transfers_ns: transfers_ns.to_vec(), shares: vec![1.0] }
    }

    #[test]
    fn a_machine_of_one_distance_is_taken_as_it_was() {
        let mut machine = carried::machine("epyc-9654x2");
        (machine.transfer.same_socket, machine.transfer.cross_socket) = (None, None);
        let before = machine.transfer.same_l3.clone().unwrap().value;
        let after = placement(&[100.0, 110.0, 120.0]).applied(&machine);
        let figure = after.transfer.same_l3.unwrap();
        assert_eq!((figure.low, figure.value, figure.high), (Some(100.0), 110.0, Some(120.0)));
        assert_eq!(placement(&[]).applied(&machine).transfer.same_l3.unwrap().value, before);
        // Nothing is known of the wider distances.
        let wide = carried::machine("epyc-9654x2");
        assert_eq!(placement(&[110.0]).applied(&wide), wide);
    }

    #[test]
    fn moved_cores_are_told() {
        assert_eq!(placement(&[]).moved(), None);
        assert_eq!(placement(&[100.0, 120.0]).moved(), None);
        assert!(placement(&[10.0, 120.0]).moved().unwrap().contains("10 to 120 ns"));
    }
}
