//! The one style sheet of every page. No element has a style of its own, so the page's policy allows this
//! text and no other.

/// The page may load nothing, run nothing, send nothing; of styles it may have this one, told by its digest
/// (a test compares them).
pub(crate) const POLICY: &str = concat!(
    "default-src 'none'; style-src 'sha256-",
    "q0hmEN2WiCM4iXLAhu+Z1wn++O90nMT9sjopzS0NnSQ=",
    "'; base-uri 'none'; form-action 'none'"
);

/// The style sheet. Colours have a contrast of 4.5 and more to what they stand on wherever they are text, and
/// of 3 where they are surfaces, in both modes (the browser test measures it).
pub const STYLE: &str = include_str!("style.css");

#[cfg(test)]
mod tests {
    use super::*;

    /// The digest of a style sheet in base64, as a policy names it.
    fn digest(style: &str) -> String {
        const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, style.as_bytes());
        let mut text: String = (digest.as_ref().chunks(3))
            .flat_map(|three| {
                let bits = (0..3)
                    .fold(0_u32, |bits, index| bits << 8 | u32::from(three.get(index).copied().unwrap_or(0)));
                (0..=three.len())
                    .map(move |index| char::from(LETTERS[(bits >> (18 - 6 * index) & 63) as usize]))
            })
            .collect();
        text.push('=');
        text
    }

    #[test]
    fn the_policy_allows_this_style_sheet_and_nothing_else() {
        assert!(POLICY.contains(&digest(STYLE)), "the style sheet's digest is {}", digest(STYLE));
        assert!(POLICY.starts_with("default-src 'none';") && !POLICY.contains("unsafe"));
        for way_out in ["url(", "@import", "http", "</"] {
            assert!(!STYLE.contains(way_out), "{way_out}");
        }
    }
}
