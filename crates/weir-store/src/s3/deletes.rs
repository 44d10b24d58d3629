//! Objects of a bucket of S3 are deleted: a thousand in one request, or one by one where a store, or a key,
//! allows no other way.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use weir_codec::digest::Algorithm;
use weir_codec::hex;
use weir_get::http::call::{AtHand, Call};

use super::S3Store;
use super::authorizer::BODY_DIGEST;
use crate::caller::{Caller, refusal};
use crate::error::StoreError;
use crate::listing::{Deletes, NotDeleted};
use crate::words::StoreWords;
use crate::xml;

/// The most keys of a DeleteObjects.
const AT_ONCE: usize = 1000;

/// As of a page of a list: a thousand keys come back at most.
const MAX_ANSWER: usize = 4 << 20;

/// What a list of deletions is answered with, by Amazon and by those who name it after the request.
const ANSWERS: [&str; 4] =
    ["DeleteResult", "DeleteObjectsOutput", "DeleteObjectsResponse", "DeleteObjectsResult"];

impl Deletes for S3Store {
    fn at_once(&self) -> usize {
        AT_ONCE
    }

    fn delete(&self, caller: &mut Caller<'_>, keys: &[String]) -> Result<Vec<NotDeleted>, StoreError> {
        let mut failed = Vec::new();
        let (together, alone): (Vec<&String>, Vec<&String>) = keys.iter().partition(|key| is_for_xml(key));
        let mut alone = alone;
        for some in together.chunks(AT_ONCE) {
            match self.delete_together(caller, some) {
                Ok(more) => failed.extend(more),
                // Google's XML interface has it not, nor have some small stores. Where something else is
                // wrong with the request, those for single keys say so.
                Err(error) if error.is_of_its_form() => alone.extend(some),
                Err(error) => return Err(error),
            }
        }
        for key in alone {
            failed.extend(
                self.delete_alone(caller, key)
                    .err()
                    .map(|error| NotDeleted { key: key.clone(), why: error.to_string() }),
            );
        }
        Ok(failed)
    }
}

impl S3Store {
    fn delete_together(
        &self,
        caller: &mut Caller<'_>,
        keys: &[&String],
    ) -> Result<Vec<NotDeleted>, StoreError> {
        let what = format!("delete {} objects of {}", keys.len(), self.shown());
        let mut body =
            "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Quiet>true</Quiet>".to_owned();
        for key in keys {
            body.push_str(&format!("<Object><Key>{}</Key></Object>", xml::escaped(key)));
        }
        body.push_str("</Delete>");
        let field = |name: &str, value: String| (name.to_owned(), value);
        let call = Call {
            method: "POST",
            url: self.here().with_query(&[("delete", "")])?,
            fields: vec![
                field("content-type", "application/xml".to_owned()),
                // Of a deletion the store wants to be sure what was asked for.
                field("content-md5", STANDARD.encode(Algorithm::MD5.of(body.as_bytes()))),
                field(BODY_DIGEST, hex::encode(&Algorithm::SHA256.of(body.as_bytes()))),
            ],
            most: MAX_ANSWER,
            asks_first: false,
        };
        let reply = caller.done(&what, &call, &mut AtHand::new(body.as_bytes()))?;
        if StoreWords::of(&reply.body).is_some() {
            return Err(refusal(&what, &call, &reply));
        }
        let mut failed = Vec::new();
        let (mut key, mut code, mut message) = (String::new(), String::new(), String::new());
        // Only failures are named, so that anything else would say that all are gone.
        let mut is_answer = false;
        let ended = |path: &[&str], text: &str| match path {
            [root] => is_answer = ANSWERS.contains(root),
            [_, "Error", "Key"] => text.clone_into(&mut key),
            [_, "Error", "Code"] => text.clone_into(&mut code),
            [_, "Error", "Message"] => text.clone_into(&mut message),
            [_, "Error"] => {
                let why = format!("{}: {}", std::mem::take(&mut code), std::mem::take(&mut message));
                failed.push(NotDeleted { key: std::mem::take(&mut key), why });
            }
            _ => {}
        };
        let answer = |bad: xml::BadXml| StoreError::Answer { what: what.clone(), why: bad.to_string() };
        xml::each(&reply.body, ended).map_err(answer)?;
        match is_answer {
            true => Ok(failed),
            false => Err(StoreError::Answer { what, why: "is not the result of a deletion".to_owned() }),
        }
    }

    fn delete_alone(&self, caller: &mut Caller<'_>, key: &str) -> Result<(), StoreError> {
        let what = format!("delete {}{}", self.shown(), crate::error::shown(key));
        caller.delete(&what, self.here().object(key, None)?)
    }
}

/// XML 1.0 section 2.2: other letters have no form in it, escaped neither.
fn is_for_xml(key: &str) -> bool {
    key.chars().all(
        |char| !matches!(char, '\0'..='\x08' | '\x0b' | '\x0c' | '\x0e'..='\x1f' | '\u{fffe}' | '\u{ffff}'),
    )
}
