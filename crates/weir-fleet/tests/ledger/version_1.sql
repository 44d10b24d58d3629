-- The one row of what holds for all.
CREATE TABLE ledger (
    one BIGINT PRIMARY KEY CHECK (one = 1),
    version BIGINT NOT NULL,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    created BIGINT NOT NULL,
    sealed BIGINT,                      -- when the plan was whole; NULL: it is not
    early BIGINT NOT NULL,              -- batches are given out before
    planner TEXT NOT NULL,              -- who writes the plan
    plan_fence BIGINT NOT NULL,         -- rises with each planner
    plan_end BIGINT NOT NULL,           -- when its lease ends
    appends BIGINT NOT NULL,            -- how often the planner has added batches
    next_batch BIGINT NOT NULL,
    next_large BIGINT NOT NULL,
    objects BIGINT NOT NULL,            -- of all batches that were planned
    bytes BIGINT NOT NULL,
    attempts BIGINT NOT NULL,           -- how often an object is tried
    paused BIGINT NOT NULL,
    draining BIGINT NOT NULL,
    workers BIGINT,
    rate BIGINT,
    hours TEXT
);

-- What a worker holds at a time. `objects` and `bytes` are its own: what was split off or is tried again
-- belongs to another batch. Of one that is done, objects = moved + same + failed.
CREATE TABLE batch (
    id BIGINT PRIMARY KEY,
    kind TEXT NOT NULL,                 -- objects, range, join
    state TEXT NOT NULL,                -- waiting, leased, done
    objects BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    priority BIGINT NOT NULL,           -- the highest is given out first: its bytes when it was made
    due BIGINT NOT NULL,                -- when it may be given out: the end of its lease, or of a pause
    fence BIGINT NOT NULL DEFAULT 0,    -- how often it was given out
    losses BIGINT NOT NULL DEFAULT 0,   -- how often its lease ended without a word
    tries BIGINT NOT NULL DEFAULT 0,    -- how often its objects have failed
    avoid TEXT,                         -- a host on which they did
    worker BIGINT,                      -- who has it, or had it last
    ask BIGINT,                         -- the question that it was given out for
    started BIGINT,
    finished BIGINT,
    reached BIGINT NOT NULL DEFAULT 0,  -- objects that its holder has begun
    progress BIGINT NOT NULL DEFAULT 0, -- bytes that its holder has moved
    moved BIGINT NOT NULL DEFAULT 0,
    moved_bytes BIGINT NOT NULL DEFAULT 0,
    same BIGINT NOT NULL DEFAULT 0,     -- were at the target already
    same_bytes BIGINT NOT NULL DEFAULT 0,
    failed BIGINT NOT NULL DEFAULT 0,
    parent BIGINT,                      -- the batch that its objects came from
    large BIGINT,                       -- of a range: which large object
    part BIGINT,
    range_start BIGINT,
    range_end BIGINT,
    note TEXT
);
CREATE INDEX batch_open ON batch (priority DESC, id) WHERE state <> 'done';
CREATE INDEX batch_ask ON batch (ask) WHERE ask IS NOT NULL;
CREATE INDEX batch_large ON batch (large) WHERE large IS NOT NULL;

-- The objects of a batch: zstd of lines of size, mtime, etag, digest, source, target.
CREATE TABLE manifest (
    batch BIGINT PRIMARY KEY,
    lines {bytes} NOT NULL
);

-- Objects that are cut into ranges.
CREATE TABLE large (
    id BIGINT PRIMARY KEY,
    line {bytes} NOT NULL,
    parts BIGINT NOT NULL,
    parts_done BIGINT NOT NULL DEFAULT 0,
    token TEXT
);

-- Objects that were given up.
CREATE TABLE failure (
    batch BIGINT NOT NULL,
    position BIGINT NOT NULL,
    class TEXT NOT NULL,
    reason TEXT NOT NULL,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    bytes BIGINT,
    attempts BIGINT NOT NULL,
    worker BIGINT,
    at BIGINT NOT NULL,
    line {bytes} NOT NULL,
    retried BIGINT,                     -- the batch in which it is tried again
    PRIMARY KEY (batch, position)
);

CREATE TABLE worker (
    id BIGINT PRIMARY KEY,
    ask BIGINT NOT NULL UNIQUE,
    host TEXT NOT NULL,
    pid BIGINT NOT NULL,
    version TEXT NOT NULL,
    joined BIGINT NOT NULL,
    seen BIGINT NOT NULL,
    departed BIGINT,
    batches BIGINT NOT NULL DEFAULT 0,
    objects BIGINT NOT NULL DEFAULT 0,
    bytes BIGINT NOT NULL DEFAULT 0
);

-- What held a worker, and when.
CREATE TABLE verdict (
    worker BIGINT NOT NULL,
    start BIGINT NOT NULL,              -- milliseconds since it joined
    length BIGINT NOT NULL,
    cause TEXT NOT NULL,
    share DOUBLE PRECISION NOT NULL,
    bytes BIGINT NOT NULL,
    PRIMARY KEY (worker, start, cause)
);

CREATE VIEW progress AS
SELECT state, kind, count(*) AS batches,
    CAST(sum(objects) AS BIGINT) AS objects, CAST(sum(bytes) AS BIGINT) AS bytes,
    CAST(sum(moved) AS BIGINT) AS moved, CAST(sum(moved_bytes) AS BIGINT) AS moved_bytes,
    CAST(sum(same) AS BIGINT) AS same, CAST(sum(same_bytes) AS BIGINT) AS same_bytes,
    CAST(sum(failed) AS BIGINT) AS failed
FROM batch GROUP BY state, kind;

CREATE VIEW failures AS
SELECT f.class, f.source, f.target, f.bytes, f.reason, f.attempts, w.host, f.at
FROM failure f LEFT JOIN worker w ON w.id = f.worker WHERE f.retried IS NULL;

CREATE VIEW by_worker AS
SELECT w.id, w.host, w.pid, w.version, w.joined, w.seen, w.departed, w.batches, w.objects, w.bytes,
    (SELECT count(*) FROM batch b WHERE b.worker = w.id AND b.state = 'leased') AS leased
FROM worker w;

INSERT INTO ledger (one, version, source, target, created, sealed, early, planner, plan_fence, plan_end, appends,
    next_batch, next_large, objects, bytes, attempts, paused, draining)
VALUES (1, 1, '/from/', '/to/', 1780000000000, 1780000001000, 1, 'a host', 1, 1780000300000, 1, 4, 1, 6, 60, 5, 0, 0);
INSERT INTO worker (id, ask, host, pid, version, joined, seen, departed, batches, objects, bytes)
VALUES (1, 7, 'gone', 42, '1.0.0', 1780000002000, 1780000009000, NULL, 1, 2, 20);
INSERT INTO batch (id, kind, state, objects, bytes, priority, due, fence, worker, ask, started, finished, moved, moved_bytes)
VALUES (1, 'objects', 'done', 2, 20, 20, 1780000032000, 1, 1, NULL, 1780000002000, 1780000003000, 2, 20);
INSERT INTO batch (id, kind, state, objects, bytes, priority, due, fence, worker, ask, started)
VALUES (2, 'objects', 'leased', 2, 20, 20, 1780000039000, 1, 1, 9, 1780000009000);
INSERT INTO batch (id, kind, state, objects, bytes, priority, due)
VALUES (3, 'objects', 'waiting', 2, 20, 20, 1780000001000);
