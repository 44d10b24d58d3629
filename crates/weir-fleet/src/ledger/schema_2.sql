-- Apart, so that a claim looks at no batch that others hold.
DROP INDEX batch_open;
CREATE INDEX batch_waiting ON batch (priority DESC, id) WHERE state = 'waiting';
CREATE INDEX batch_leased ON batch (due) WHERE state = 'leased';
