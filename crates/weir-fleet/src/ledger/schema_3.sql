-- Uploads that several workers fill, by the store's names for them. Workers of version 2 fill none, and would
-- give up what is planned so.
CREATE VIEW uploads AS
SELECT l.id, l.token AS upload, l.parts AS ranges, l.parts_done AS ranges_done, b.state, b.failed
FROM large l JOIN batch b ON b.large = l.id AND b.kind = 'join' WHERE l.token <> '';
