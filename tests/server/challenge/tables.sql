-- of captau serve, revision 1
CREATE TABLE audit (id INTEGER NOT NULL, at FLOAT NOT NULL, account INTEGER, action VARCHAR(32) NOT NULL, what TEXT NOT NULL, why TEXT NOT NULL, PRIMARY KEY (id));
CREATE TABLE challenges (name VARCHAR(64) NOT NULL, digest VARCHAR(64) NOT NULL, frozen_at FLOAT, published_at FLOAT, human JSON, PRIMARY KEY (name));
CREATE TABLE meta ("key" VARCHAR(64) NOT NULL, value TEXT NOT NULL, PRIMARY KEY ("key"));
CREATE TABLE teams (id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, name VARCHAR(64) NOT NULL, name_key TEXT NOT NULL, invitation VARCHAR(64), created_at FLOAT NOT NULL, UNIQUE (name_key), UNIQUE (invitation));
CREATE TABLE accounts (id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, name VARCHAR(64) NOT NULL, name_key TEXT NOT NULL, password TEXT NOT NULL, team INTEGER NOT NULL, joined_at FLOAT NOT NULL, epoch INTEGER NOT NULL, blocked_at FLOAT, UNIQUE (name_key), FOREIGN KEY(team) REFERENCES teams (id));
CREATE INDEX ix_accounts_team ON accounts (team);
CREATE TABLE recoveries (id INTEGER NOT NULL, account INTEGER NOT NULL, hash VARCHAR(64) NOT NULL, used_at FLOAT, PRIMARY KEY (id), FOREIGN KEY(account) REFERENCES accounts (id), UNIQUE (hash));
CREATE INDEX ix_recoveries_account ON recoveries (account);
CREATE TABLE submissions (id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, "key" VARCHAR(32) NOT NULL, challenge VARCHAR(64) NOT NULL, phase VARCHAR(64) NOT NULL, team INTEGER NOT NULL, account INTEGER NOT NULL, system VARCHAR(64) NOT NULL, note TEXT NOT NULL, file VARCHAR(128) NOT NULL, sha256 VARCHAR(64) NOT NULL, bytes INTEGER NOT NULL, received_at FLOAT NOT NULL, state VARCHAR(16) NOT NULL, checked_at FLOAT, faults JSON NOT NULL, n_faults INTEGER NOT NULL, summary TEXT NOT NULL, counts BOOLEAN NOT NULL, attempts INTEGER NOT NULL, worker VARCHAR(32), started_at FLOAT, progress FLOAT NOT NULL, step VARCHAR(64) NOT NULL, finished_at FLOAT, reason TEXT NOT NULL, standing VARCHAR(16) NOT NULL, standing_why TEXT NOT NULL, UNIQUE ("key"), FOREIGN KEY(challenge) REFERENCES challenges (name), FOREIGN KEY(team) REFERENCES teams (id), FOREIGN KEY(account) REFERENCES accounts (id));
CREATE INDEX submissions_account ON submissions (challenge, account);
CREATE INDEX submissions_state ON submissions (state, id);
CREATE INDEX submissions_team ON submissions (challenge, team);
CREATE TABLE tokens (id INTEGER NOT NULL, account INTEGER NOT NULL, hash VARCHAR(64) NOT NULL, label VARCHAR(64) NOT NULL, created_at FLOAT NOT NULL, used_at FLOAT, revoked_at FLOAT, PRIMARY KEY (id), FOREIGN KEY(account) REFERENCES accounts (id), UNIQUE (hash));
CREATE INDEX ix_tokens_account ON tokens (account);
CREATE TABLE results (id INTEGER NOT NULL, submission INTEGER NOT NULL, made_at FLOAT NOT NULL, seconds FLOAT NOT NULL, digest VARCHAR(64) NOT NULL, scores JSON NOT NULL, run JSON NOT NULL, PRIMARY KEY (id), UNIQUE (submission), FOREIGN KEY(submission) REFERENCES submissions (id));
