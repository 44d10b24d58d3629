//! A rectangle of the frame: what is put into it never goes beyond its edges, whatever the text.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::Style;

use super::Look;
use crate::escape::escape;
use crate::html::scale::sane;

/// Eighths of a cell from below; the first is empty.
const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The same where there are no blocks.
const LETTERS: [char; 9] = [' ', '.', ':', '-', '=', '+', '*', '%', '#'];

/// A rectangle of the frame.
pub(super) struct Pane<'a> {
    buffer: &'a mut Buffer,
    area: Rect,
}

impl<'a> Pane<'a> {
    /// This part of the buffer.
    pub(super) fn new(buffer: &'a mut Buffer, area: Rect) -> Pane<'a> {
        let area = area.intersection(*buffer.area());
        Pane { buffer, area }
    }

    pub(super) fn width(&self) -> usize {
        self.area.width.into()
    }

    pub(super) fn height(&self) -> usize {
        self.area.height.into()
    }

    /// Puts text at a column of a row, cut at the edge. Returns the column behind it.
    pub(super) fn put(&mut self, row: usize, column: usize, text: &str, style: Style) -> usize {
        if row >= self.height() || column >= self.width() {
            return column;
        }
        // Both are less than a `u16`.
        let (x, y) = (self.area.x + column as u16, self.area.y + row as u16);
        let (end, _) = self.buffer.set_stringn(x, y, escape(text), self.width() - column, style);
        usize::from(end - self.area.x)
    }

    /// Puts text at the end of a row, if there is room for all of it behind `column` and a space.
    pub(super) fn put_right(&mut self, row: usize, column: usize, text: &str, style: Style) {
        let length = text.chars().count();
        if column + 1 + length <= self.width() {
            self.put(row, self.width() - length, text, style);
        }
    }

    /// A bar of so many columns, filled for a share.
    pub(super) fn bar(
        &mut self,
        row: usize,
        column: usize,
        columns: usize,
        share: f64,
        (look, style): (Look, Style),
    ) {
        let filled = (sane(share).min(1.0) * columns as f64).round() as usize;
        let (full, empty) = if look.blocks { ("█", "░") } else { ("#", ".") };
        let at = self.put(row, column, &full.repeat(filled), style);
        self.put(row, at, &empty.repeat(columns - filled), look.aside());
    }

    /// A column of a chart that stands on the pane's last row and is `share` of `rows` high.
    pub(super) fn column(&mut self, column: usize, rows: usize, share: f64, (look, style): (Look, Style)) {
        let ramp = if look.blocks { BLOCKS } else { LETTERS };
        // What flowed at all is seen.
        let least = usize::from(share > 0.0);
        let eighths = ((sane(share).min(1.0) * rows as f64 * 8.0).round() as usize).max(least);
        for above in 0..rows.min(self.height()) {
            let part = eighths.saturating_sub(above * 8).min(8);
            let row = self.height() - 1 - above;
            self.put(row, column, ramp[part].encode_utf8(&mut [0; 4]), style);
        }
    }
}
