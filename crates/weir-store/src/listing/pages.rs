//! The pages of a list, one after another: checked against each other, and asked for ahead of whoever reads
//! them.

use std::collections::HashSet;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::Scope;

use weir_units::threads;

use super::{Bucket, ListAsk, Listed, Lists, Page};
use crate::caller::{Caller, CallerSetup};
use crate::error::StoreError;

/// Pages that wait to be read. One is under way meanwhile, so the next is at hand whenever a page costs its
/// reader more than a round trip; and two pages of the longest keys are 6 MB.
const AHEAD: usize = 2;

/// Empty pages in a row. A store may give some where much was deleted; more of them are a list without an
/// end.
const MAX_EMPTY: u32 = 1000;

/// Attempts at a page that comes cut.
const ATTEMPTS: u32 = 3;

/// What is listed, and by whom.
#[derive(Clone)]
pub struct PagesSetup<'a> {
    /// The bucket.
    pub lists: &'a dyn Lists,
    /// Keys that begin so.
    pub prefix: String,
    /// See [`ListAsk::delimiter`].
    pub delimiter: Option<&'a str>,
    /// See [`ListAsk::versions`].
    pub versions: bool,
    /// The bucket, for errors: `s3://BUCKET`.
    pub shown: String,
}

/// The pages of a list.
pub struct Pages<'a> {
    setup: PagesSetup<'a>,
    caller: Caller<'a>,
    next: Option<String>,
    tokens: Tokens,
    empty: u32,
    is_over: bool,
}

impl<'a> Pages<'a> {
    /// From the first page on.
    pub fn new(setup: PagesSetup<'a>, caller: Caller<'a>) -> Pages<'a> {
        Pages { setup, caller, next: None, tokens: Tokens::default(), empty: 0, is_over: false }
    }

    fn turn(&mut self) -> Result<Page, StoreError> {
        let PagesSetup { lists, prefix, delimiter, versions, .. } = &self.setup;
        let ask = ListAsk { prefix, delimiter: *delimiter, versions: *versions, most: super::PAGE };
        let mut attempts = 0;
        let page = loop {
            attempts += 1;
            match lists.page(&mut self.caller, &ask, self.next.as_deref()) {
                Err(StoreError::Answer { why, .. }) if attempts < ATTEMPTS => {
                    tracing::info!("a page of {} is asked for again: it {why}", self.setup.shown);
                }
                other => break other?,
            }
        };
        self.check(&page)?;
        if page.may_go_on {
            let (shown, prefix) = (&self.setup.shown, shown_prefix(&self.setup));
            tracing::warn!("the store does not say that its list of {shown}/{prefix} is whole");
        }
        Ok(page)
    }

    /// A list that goes round, or never comes to anything, would be read for ever.
    fn check(&mut self, page: &Page) -> Result<(), StoreError> {
        let is_empty = page.objects.is_empty() && page.prefixes.is_empty();
        self.empty = if is_empty { self.empty + 1 } else { 0 };
        let why = match &page.next {
            Some(token) if !self.tokens.is_new(token) => {
                "gives a continuation token that it gave before: the list goes round".to_owned()
            }
            Some(_) if self.empty == MAX_EMPTY => format!("had {MAX_EMPTY} empty pages in a row"),
            _ => return Ok(()),
        };
        Err(StoreError::Answer {
            what: format!("list {}/{}", self.setup.shown, shown_prefix(&self.setup)),
            why,
        })
    }
}

fn shown_prefix(setup: &PagesSetup<'_>) -> String {
    crate::error::shown(&setup.prefix)
}

/// Digests of the tokens that a list has given: of ten million keys ten thousand.
#[derive(Default)]
struct Tokens(HashSet<u64>);

impl Tokens {
    fn is_new(&mut self, token: &str) -> bool {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        token.hash(&mut hasher);
        self.0.insert(hasher.finish())
    }
}

/// All buckets of a list whose pages `page` asks for, by the token that the page before gave, and returns the
/// next token; the store calls that `word`.
pub(crate) fn all_buckets(
    what: &str,
    word: &str,
    mut page: impl FnMut(Option<&str>, &mut Vec<Bucket>) -> Result<Option<String>, StoreError>,
) -> Result<Vec<Bucket>, StoreError> {
    let (mut buckets, mut tokens, mut next) = (Vec::new(), Tokens::default(), None);
    loop {
        next = page(next.as_deref(), &mut buckets)?;
        match &next {
            None => return Ok(buckets),
            Some(token) if tokens.is_new(token) => {}
            Some(_) => {
                let why = format!("gives a {word} that it gave before");
                return Err(StoreError::Answer { what: what.to_owned(), why });
            }
        }
    }
}

impl Iterator for Pages<'_> {
    type Item = Result<Page, StoreError>;

    fn next(&mut self) -> Option<Result<Page, StoreError>> {
        if self.is_over {
            return None;
        }
        let page = self.turn();
        match &page {
            Ok(page) => {
                self.next.clone_from(&page.next);
                self.is_over = page.next.is_none();
            }
            Err(_) => self.is_over = true,
        }
        Some(page)
    }
}

/// The same pages, asked for by a thread of `scope` while those before are read. The thread ends with the
/// list, or when the receiver is gone and its page has come.
pub fn ahead<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    setup: PagesSetup<'env>,
    caller: CallerSetup<'env>,
) -> std::io::Result<Receiver<Result<Page, StoreError>>> {
    let (to, from) = sync_channel(AHEAD);
    let list = move || {
        for page in Pages::new(setup, Caller::new(caller)) {
            if to.send(page).is_err() {
                return;
            }
        }
    };
    threads::start_scoped(scope, "list", list)?;
    Ok(from)
}

/// What is copied of a bucket.
pub enum Chosen<'a> {
    /// What a list has.
    List(PagesSetup<'a>),
    /// One object.
    One(Box<Listed>),
}

impl<'env> Chosen<'env> {
    /// Its pages; those of a list as [`ahead`] has them.
    pub fn pages<'scope>(
        self,
        scope: &'scope Scope<'scope, 'env>,
        caller: CallerSetup<'env>,
    ) -> std::io::Result<Receiver<Result<Page, StoreError>>> {
        match self {
            Chosen::List(setup) => ahead(scope, setup, caller),
            Chosen::One(object) => {
                let (to, from) = sync_channel(1);
                // There is room for it.
                let _ = to.send(Ok(Page { objects: vec![*object], ..Page::default() }));
                Ok(from)
            }
        }
    }
}
