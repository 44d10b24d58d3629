//! A plan: every codec by every transport over every link, what is best, and what each connection needs for
//! it.
//!
//! [`Inputs`] holds all that has to be known; whether someone gave it, or it was measured, is no matter here.

mod hosts;

use std::time::Duration;

use weir_units::{Bytes, Rate};

use crate::path::{bdp, window_rate};
use crate::pipeline::{Figure, LANES_MOST, Path, Prediction, Transport, Whole, best, predict};

pub use hosts::{HostsTimes, ManyHosts};

/// What a plan is made from.
#[derive(Debug, Clone, PartialEq)]
pub struct Inputs {
    /// What each codec does to the data.
    pub figures: Vec<Figure>,
    /// The path; its link and its transport are those of each column.
    pub path: Path,
    /// The links to plan for.
    pub links: Vec<Rate>,
    /// How the bytes may travel.
    pub means: Vec<Means>,
    /// What ssh's thread encrypts per second.
    pub ssh: Rate,
    /// What one of weir's threads encrypts per second; `None` where it is so fast that it binds nothing.
    pub cipher: Option<Rate>,
    /// Connections that weir is to use; `None` for as many as the path needs.
    pub lanes: Option<u32>,
    /// The size of the transfer.
    pub size: Bytes,
}

/// A way to move the bytes, before it is known how many connections it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// One plain TCP connection.
    Tcp,
    /// ssh's channel.
    Ssh,
    /// weir's lanes.
    Weir,
}

/// The whole table, column by column.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// For each link, each transport.
    pub columns: Vec<Column>,
}

/// A link and a transport.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// With the link and the transport.
    pub path: Path,
    /// In the order of the figures.
    pub cells: Vec<Cell>,
    /// The index of the best cell.
    pub best: usize,
    /// What one connection needs to fill the link.
    pub needs: Option<Needs>,
}

/// A codec on that path.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Once it is under way.
    pub steady: Prediction,
    /// All of it.
    pub whole: Whole,
}

/// Buffers and connections for a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// Bytes in flight that keep the link busy.
    pub bdp: Bytes,
    /// The largest receive and send buffer that autotuning must be allowed, for one connection to fill the
    /// link.
    pub buffer: Bytes,
    /// Connections that fill it with the windows and the loss that there are.
    pub connections: u32,
}

impl Plan {
    /// The law for every cell. Without figures the data goes as it is.
    pub fn of(inputs: &Inputs) -> Plan {
        let none = [Figure::none()];
        let figures: &[Figure] = if inputs.figures.is_empty() { &none } else { &inputs.figures };
        let columns = (inputs.links.iter())
            .flat_map(|link| inputs.means.iter().map(move |means| (*link, *means)))
            .map(|(link, means)| Column::of(inputs, figures, link, means))
            .collect();
        Plan { columns }
    }

    /// The column and the cell that are done first over this link; within a round trip the first column, the
    /// simplest. What takes longer than its round trips is done first by what carries most.
    pub fn best_for(&self, link: Rate) -> Option<(&Column, &Cell)> {
        let columns = self.columns.iter().filter(|column| column.path.link == link);
        let cells = columns.map(|column| (column, &column.cells[column.best]));
        cells.reduce(|best, next| {
            let round_trip = next.0.path.rtt.unwrap_or_default();
            if next.1.whole.time.saturating_add(round_trip) < best.1.whole.time { next } else { best }
        })
    }
}

impl Column {
    fn of(inputs: &Inputs, figures: &[Figure], link: Rate, means: Means) -> Column {
        let path = Path { link, ..inputs.path.clone() };
        let transport = match means {
            Means::Tcp => Transport::tcp(),
            Means::Ssh => Transport::ssh(inputs.ssh),
            Means::Weir => Transport::lanes(lanes(inputs, &path), inputs.cipher),
        };
        let path = path.by(transport);
        let cells: Vec<Cell> = (figures.iter())
            .map(|figure| Cell { steady: predict(figure, &path), whole: path.whole(figure, inputs.size) })
            .collect();
        let chosen = best(figures, &path).map(|(figure, _)| figure);
        let best = figures.iter().position(|figure| Some(figure) == chosen).unwrap_or(0);
        Column { needs: Needs::of(&path), path, cells, best }
    }

    /// Whether its best cell takes more than its connections carry where their buffers end at `allowed`.
    pub fn exceeds(&self, allowed: Bytes) -> bool {
        let one = self.path.rtt.and_then(|rtt| Needs::rate_with(allowed, rtt));
        let most = one.map(|one| one.0 * f64::from(self.path.transport.connections));
        most.is_some_and(|most| self.cells[self.best].steady.wire.0 > most)
    }
}

/// As many as windows and loss ask for, and as the cipher does where the processors are there.
fn lanes(inputs: &Inputs, path: &Path) -> u32 {
    let by_path = path.by(Transport::lanes(1, None)).connections_needed();
    let by_cipher = inputs.cipher.map_or(1.0, |cipher| (path.link.0 / cipher.0).ceil().min(path.cores));
    inputs.lanes.unwrap_or(by_path.max(by_cipher as u32)).clamp(1, LANES_MOST)
}

impl Needs {
    fn of(path: &Path) -> Option<Needs> {
        let rtt = path.rtt.filter(|rtt| !rtt.is_zero())?;
        let bdp = bdp(path.link, rtt);
        // About half of a buffer is the kernel's own overhead (tcp(7): tcp_adv_win_scale), so a window needs
        // twice its size.
        let buffer = Bytes(bdp.0.saturating_mul(2).checked_next_power_of_two().unwrap_or(u64::MAX));
        Some(Needs { bdp, buffer, connections: path.connections_needed() })
    }

    /// What one connection carries with a buffer of this size.
    pub fn rate_with(buffer: Bytes, rtt: Duration) -> Option<Rate> {
        window_rate(Bytes(buffer.0 / 2), rtt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::Limit;
    use crate::pipeline::SSH_CIPHER;

    fn inputs() -> Inputs {
        let path = Path { rtt: Some(Duration::from_millis(100)), cores: 2.0, ..Path::of(Rate(25e6)) };
        Inputs {
            figures: vec![
                Figure { name: "lz4".into(), ratio: 0.5, compress: Rate(500e6), decompress: None },
                Figure::none(),
            ],
            path,
            links: vec![Rate(25e6), Rate(1e9)],
            means: vec![Means::Tcp, Means::Ssh, Means::Weir],
            ssh: SSH_CIPHER,
            cipher: Some(Rate(600e6)),
            lanes: None,
            size: Bytes(1 << 30),
        }
    }

    #[test]
    fn ssh_far_away_is_held_by_its_channel_window() {
        let plan = Plan::of(&inputs());
        assert_eq!(plan.columns.len(), 6);
        let ssh = &plan.columns[1].cells[1];
        assert_eq!(ssh.steady.limit, Limit::ReceiveWindow);
        assert!((ssh.steady.rate.0 - 20_971_520.0).abs() < 1.0, "{:?}", ssh.steady);
        assert_eq!(plan.columns[1].needs.unwrap().connections, 2);
    }

    #[test]
    fn lanes_make_up_for_small_windows_and_one_core_of_cipher() {
        let mut inputs = inputs();
        inputs.path.window = Some(Bytes(64 << 10));
        let plan = Plan::of(&inputs);
        // 2.5 MB in flight in windows of 64 KiB.
        assert_eq!(plan.columns[2].path.transport.connections, 39);
        assert_eq!(plan.columns[2].cells[1].steady.limit, Limit::PathBandwidth);
        inputs.path.rtt = None;
        assert_eq!(Plan::of(&inputs).columns[5].path.transport.connections, 2);
        assert_eq!(Plan::of(&inputs).columns[2].path.transport.connections, 1);
    }

    #[test]
    fn buffers_hold_the_product_twice() {
        let needs = Plan::of(&inputs()).columns[0].needs.unwrap();
        assert_eq!((needs.bdp, needs.buffer), (Bytes(2_500_000), Bytes(8 << 20)));
    }

    #[test]
    fn no_figures_mean_no_compression() {
        let plan = Plan::of(&Inputs { figures: Vec::new(), ..inputs() });
        assert_eq!(plan.columns[0].cells.len(), 1);
        let (column, cell) = plan.best_for(Rate(25e6)).unwrap();
        assert_eq!((column.path.transport.name, cell.steady.limit), ("tcp", Limit::PathBandwidth));
    }
}
