//! What S3 keeps of an object that came in parts, or without a checksum: the digest of the digests of its
//! parts, and the MD5 that its ETag is; and how the sizes of the parts are asked for.
//! <https://docs.aws.amazon.com/AmazonS3/latest/API/API_Object.html>

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use url::Url;
use weir_codec::digest::{Algorithm, Expected};
use weir_codec::hex;
use weir_get::GetError;
use weir_get::http::authority::{Ask, KeptDigest};
use weir_get::http::call::{Call, Reply};
use weir_get::http::exchange::kept::in_words;
use weir_http::head::ResponseHead;

use crate::xml;

/// The most parts of an object.
const MAX_PARTS: u32 = 10_000;

/// Parts that one answer lists: 200 bytes of each.
const PAGE: u32 = 1000;

/// The checksums that may be of parts, the cheapest to compute first.
const COMPOSED: [(&str, Algorithm); 4] = [
    ("x-amz-checksum-crc32c", Algorithm::CRC32C),
    ("x-amz-checksum-crc32", Algorithm::CRC32),
    ("x-amz-checksum-sha256", Algorithm::SHA256),
    ("x-amz-checksum-sha1", Algorithm::SHA1),
];

/// What the head of an answer says of all of the object in these ways; `None`: nothing that could be checked.
///
/// 1. A composite checksum, of as many parts as it says.
/// 2. The ETag of what is not encrypted with a key of its owner's: the MD5, or that of the parts' MD5s. It is
///    no digest in a directory bucket, whose name ends with `--x-s3`. It can be wrong where a store that
///    speaks as S3 does makes its ETags otherwise, in the same form.
pub(super) fn kept(bucket: &str, head: &ResponseHead) -> Option<KeptDigest> {
    if !matches!(head.status, 200 | 206) {
        return None;
    }
    let composed = COMPOSED.iter().find_map(|(field, algorithm)| {
        let (text, count) = head.header(field)?.split_once('-')?;
        let value = STANDARD.decode(text).ok()?;
        let expected = Expected::new(*algorithm, value).ok()?;
        Some(KeptDigest { expected, field, parts: Some(count_of(count)?) })
    });
    composed.or_else(|| {
        let is_plain = head.header("x-amz-server-side-encryption").is_none_or(|how| how == "AES256")
            && head.header("x-amz-server-side-encryption-customer-algorithm").is_none();
        if !is_plain || is_directory(bucket) {
            return None;
        }
        let tag = head.header("etag")?.strip_prefix('"')?.strip_suffix('"')?;
        let (digits, parts) = match tag.split_once('-') {
            Some((digits, count)) => (digits, Some(count_of(count)?)),
            None => (tag, None),
        };
        let expected = Expected::new(Algorithm::MD5, hex::decode(digits).ok()?).ok()?;
        Some(KeptDigest { expected, field: "ETag", parts })
    })
}

/// A directory bucket: no tag of its objects is a digest.
pub(super) fn is_directory(bucket: &str) -> bool {
    bucket.ends_with("--x-s3")
}

fn count_of(text: &str) -> Option<u32> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|count| is_number && (1..=MAX_PARTS).contains(count))
}

/// The sizes of the parts of the object at `url`.
///
/// S3 lists them where their checksums were kept (GetObjectAttributes), for whoever may ask for that.
/// Everybody who may read the object may ask for the size of one part. Parts of which the first and the last
/// are such as they would be if all but the last were equal, and together make the object, are taken to be
/// equal: all programs that upload make them so. It can be wrong where somebody has put together parts of
/// sizes that only come to that sum.
pub(super) fn layout(url: &Url, kept: &KeptDigest, size: u64, ask: &mut Ask<'_>) -> Result<Vec<u64>, String> {
    let count = kept.parts.unwrap_or(1);
    if count == 1 {
        return Ok(vec![size]);
    }
    if kept.field != "ETag"
        && let Some(sizes) = listed(url, count, ask)?
    {
        return Ok(sizes);
    }
    let first = part(url, 1, ask)?;
    let before = u64::from(count - 1) * first;
    let last = size.checked_sub(before).filter(|last| *last > 0 && *last <= first);
    let unequal = || format!("its {count} parts are of different sizes, which the store does not list");
    let last = last.ok_or_else(unequal)?;
    if count > 2 && part(url, count, ask)? != last {
        return Err(unequal());
    }
    let mut sizes = vec![first; count as usize - 1];
    sizes.push(last);
    Ok(sizes)
}

/// The size of one part.
fn part(url: &Url, number: u32, ask: &mut Ask<'_>) -> Result<u64, String> {
    let call = call("HEAD", url, &format!("partNumber={number}"), Vec::new(), 0)?;
    let head = sent(&call, ask)?.map(|reply| reply.head);
    let head = head.ok_or_else(|| "the store does not tell the sizes of its parts".to_owned())?;
    // Who does not know the parameter answers for the whole.
    let is_part = head.status == 206 || head.header("x-amz-mp-parts-count").is_some();
    let length = head.header("content-length").and_then(|text| text.parse().ok());
    length.filter(|_| is_part).ok_or_else(|| "the store does not tell the sizes of its parts".to_owned())
}

/// All sizes, from the store's list of parts; `None` where it gives none.
fn listed(url: &Url, count: u32, ask: &mut Ask<'_>) -> Result<Option<Vec<u64>>, String> {
    let mut sizes = Vec::new();
    while (sizes.len() as u32) < count {
        let fields = vec![
            ("x-amz-object-attributes".to_owned(), "ObjectParts".to_owned()),
            ("x-amz-max-parts".to_owned(), PAGE.to_string()),
            ("x-amz-part-number-marker".to_owned(), sizes.len().to_string()),
        ];
        let call = call("GET", url, "attributes=", fields, PAGE as usize * 1024)?;
        let Some(reply) = sent(&call, ask)? else { return Ok(None) };
        let Some(page) = sizes_in(&reply.body, sizes.len() as u32 + 1) else { return Ok(None) };
        sizes.extend(page);
    }
    Ok(Some(sizes).filter(|sizes| sizes.len() as u32 == count))
}

/// The sizes in a page of GetObjectAttributes, whose first part has the number `next`; `None` where it has
/// none, or not one after another.
fn sizes_in(body: &[u8], next: u32) -> Option<Vec<u64>> {
    let (mut number, mut size, mut sizes, mut is_whole) = (None, None, Vec::new(), true);
    let ended = |path: &[&str], text: &str| match path {
        ["GetObjectAttributesResponse", "ObjectParts", "Part", "PartNumber"] => {
            number = text.trim().parse::<u32>().ok()
        }
        ["GetObjectAttributesResponse", "ObjectParts", "Part", "Size"] => {
            size = text.trim().parse::<u64>().ok()
        }
        ["GetObjectAttributesResponse", "ObjectParts", "Part"] => {
            is_whole &= number.take() == Some(next + sizes.len() as u32);
            match size.take() {
                Some(size) => sizes.push(size),
                None => is_whole = false,
            }
        }
        _ => {}
    };
    xml::each(body, ended).ok()?;
    (is_whole && !sizes.is_empty()).then_some(sizes)
}

/// A request for the object at `url`, in the version that it names, with one parameter more.
fn call<'a>(
    method: &'a str,
    url: &Url,
    parameter: &str,
    fields: Vec<(String, String)>,
    most: usize,
) -> Result<Call<'a>, String> {
    let mut url = url.clone();
    // In the order of their names, in which they are signed.
    let query = url.query().map_or_else(|| parameter.to_owned(), |own| format!("{parameter}&{own}"));
    url.set_query(Some(&query));
    Ok(Call { method, url, fields, most, asks_first: false })
}

/// The answer, if it is a success; an error is one of the network.
fn sent(call: &Call<'_>, ask: &mut Ask<'_>) -> Result<Option<Reply>, String> {
    match ask(call) {
        Ok(reply) if (200..300).contains(&reply.head.status) => Ok(Some(reply)),
        Ok(_) | Err(GetError::Malformed { .. }) => Ok(None),
        Err(error) => Err(in_words(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(fields: &[&str]) -> ResponseHead {
        let text = format!("HTTP/1.1 200 OK\r\n{}\r\n\r\n", fields.join("\r\n"));
        weir_http::head::parse_response_to("GET", text.as_bytes()).unwrap().unwrap().0
    }

    const TAG: &str = "ETag: \"d41d8cd98f00b204e9800998ecf8427e";

    #[test]
    fn what_is_a_digest_and_what_is_not() {
        let of = |fields: &[&str]| kept("b", &head(fields)).map(|kept| (kept.field, kept.parts));
        let whole = format!("{TAG}\"");
        let parts = format!("{TAG}-3\"");
        assert_eq!(of(&[&whole]), Some(("ETag", None)));
        assert_eq!(of(&[&parts]), Some(("ETag", Some(3))));
        assert_eq!(
            of(&[&parts, "x-amz-checksum-crc32c: AAAAAA==-3"]),
            Some(("x-amz-checksum-crc32c", Some(3)))
        );
        assert_eq!(of(&[&whole, "x-amz-server-side-encryption: AES256"]), Some(("ETag", None)));
        for none in [
            &[whole.as_str(), "x-amz-server-side-encryption: aws:kms"][..],
            &[&whole, "x-amz-server-side-encryption-customer-algorithm: AES256"],
            &[&format!("{TAG}-0\"")],
            &[&format!("{TAG}-10001\"")],
            &[&format!("{TAG}-+3\"")],
            &["ETag: W/\"d41d8cd98f00b204e9800998ecf8427e\""],
            &["ETag: \"5f3c-200\""],
            &["ETag: \"\""],
        ] {
            assert_eq!(of(none), None, "{none:?}");
        }
        assert_eq!(kept("b--use1-az4--x-s3", &head(&[&whole])), None);
    }

    #[test]
    fn pages_of_parts_are_read_in_order_or_not_at_all() {
        let page = |parts: &str| {
            format!(
                "<GetObjectAttributesResponse><ObjectParts><TotalPartsCount>2</TotalPartsCount>{parts}</ObjectParts></GetObjectAttributesResponse>"
            )
        };
        let part = |number: u32, size: &str| {
            format!("<Part><PartNumber>{number}</PartNumber><Size>{size}</Size></Part>")
        };
        let read = |parts: &str, next| sizes_in(page(parts).as_bytes(), next);
        assert_eq!(read(&[part(1, "5"), part(2, "3")].concat(), 1), Some(vec![5, 3]));
        assert_eq!(read(&[part(1001, "5")].concat(), 1001), Some(vec![5]));
        for bad in [part(2, "5"), part(1, "x"), part(1, "-1"), String::new(), "<Part>".to_owned()] {
            assert_eq!(read(&bad, 1), None, "{bad}");
        }
    }
}
