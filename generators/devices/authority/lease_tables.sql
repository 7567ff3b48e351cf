CREATE TABLE IF NOT EXISTS devices (
    id TEXT PRIMARY KEY, protocol TEXT NOT NULL, host TEXT NOT NULL, port INTEGER NOT NULL,
    labels TEXT NOT NULL, options TEXT NOT NULL, node TEXT NOT NULL,
    health TEXT NOT NULL DEFAULT 'unknown', health_reason TEXT NOT NULL DEFAULT '',
    failures INTEGER NOT NULL DEFAULT 0, quarantined TEXT NOT NULL DEFAULT '', removed INTEGER NOT NULL DEFAULT 0,
    fence INTEGER NOT NULL DEFAULT 0, floor INTEGER NOT NULL DEFAULT 0, change INTEGER NOT NULL,
    lease TEXT, priority INTEGER, granted_at REAL, free_at REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS devices_free ON devices (protocol, free_at, id)
    WHERE lease IS NULL AND quarantined = '' AND health <> 'down' AND removed = 0;
CREATE INDEX IF NOT EXISTS devices_held ON devices (protocol, priority, granted_at DESC, id)
    WHERE lease IS NOT NULL AND quarantined = '' AND health <> 'down' AND removed = 0;
CREATE INDEX IF NOT EXISTS devices_changed ON devices (change);
CREATE TABLE IF NOT EXISTS device_labels (
    device TEXT NOT NULL REFERENCES devices (id), label TEXT NOT NULL, PRIMARY KEY (device, label)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS leases (
    id TEXT PRIMARY KEY, request TEXT NOT NULL UNIQUE, device TEXT NOT NULL REFERENCES devices (id),
    fence INTEGER NOT NULL, holder TEXT NOT NULL, priority INTEGER NOT NULL,
    granted_at REAL NOT NULL, expires_at REAL NOT NULL, idle_s REAL NOT NULL,
    beat_at REAL NOT NULL, used_at REAL NOT NULL, deadline REAL NOT NULL,
    state TEXT NOT NULL, reason TEXT NOT NULL DEFAULT '', ended_at REAL,
    failed INTEGER NOT NULL DEFAULT 0, UNIQUE (device, fence)) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS one_live_lease ON leases (device) WHERE state = 'live';
CREATE INDEX IF NOT EXISTS leases_due ON leases (deadline) WHERE state = 'live';
CREATE INDEX IF NOT EXISTS leases_held ON leases (holder) WHERE state = 'live';
CREATE INDEX IF NOT EXISTS leases_ended ON leases (ended_at) WHERE state <> 'live';
CREATE TABLE IF NOT EXISTS requests (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, holder TEXT NOT NULL, protocol TEXT NOT NULL,
    labels TEXT NOT NULL, device TEXT NOT NULL, priority INTEGER NOT NULL, ttl_s REAL, idle_s REAL,
    seen_at REAL NOT NULL);
CREATE INDEX IF NOT EXISTS requests_next ON requests (protocol, priority DESC, seq);
CREATE INDEX IF NOT EXISTS requests_seen ON requests (seen_at);
CREATE TABLE IF NOT EXISTS terms (term INTEGER PRIMARY KEY AUTOINCREMENT);
CREATE TABLE IF NOT EXISTS nodes (
    id TEXT PRIMARY KEY, host TEXT NOT NULL, port INTEGER NOT NULL, seen_at REAL NOT NULL) WITHOUT ROWID;
