-- of captau collect, revision 1
CREATE TABLE events (id INTEGER NOT NULL, at FLOAT NOT NULL, action VARCHAR(32) NOT NULL, rater INTEGER, why TEXT NOT NULL, PRIMARY KEY (id));
CREATE TABLE meta ("key" VARCHAR(64) NOT NULL, value TEXT NOT NULL, PRIMARY KEY ("key"));
CREATE TABLE raters (id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, nickname VARCHAR(64), nickname_key TEXT, worker VARCHAR(64), joined_at FLOAT NOT NULL, consented TEXT NOT NULL, state JSON NOT NULL, points INTEGER NOT NULL, given INTEGER NOT NULL, excluded_at FLOAT, UNIQUE (nickname_key), UNIQUE (worker));
CREATE TABLE units (id INTEGER NOT NULL, pool VARCHAR(16) NOT NULL, position INTEGER NOT NULL, image_id TEXT NOT NULL, fixed JSON NOT NULL, given INTEGER NOT NULL, last_served INTEGER NOT NULL, PRIMARY KEY (id));
CREATE INDEX units_next ON units (pool, given, last_served, position);
CREATE TABLE invitations (id INTEGER NOT NULL, hash VARCHAR(64) NOT NULL, note TEXT NOT NULL, created_at FLOAT NOT NULL, rater INTEGER, PRIMARY KEY (id), UNIQUE (hash), FOREIGN KEY(rater) REFERENCES raters (id));
CREATE TABLE items (id INTEGER NOT NULL, unit INTEGER NOT NULL, item_id TEXT NOT NULL, caption TEXT NOT NULL, "references" JSON NOT NULL, system TEXT, split TEXT NOT NULL, PRIMARY KEY (id), FOREIGN KEY(unit) REFERENCES units (id));
CREATE INDEX ix_items_unit ON items (unit);
CREATE TABLE serves (id INTEGER NOT NULL, "key" VARCHAR(32) NOT NULL, rater INTEGER NOT NULL, unit INTEGER NOT NULL, phase VARCHAR(16) NOT NULL, attempt INTEGER NOT NULL, "order" JSON NOT NULL, served_at FLOAT NOT NULL, answered_at FLOAT, PRIMARY KEY (id), UNIQUE (rater, unit, attempt), UNIQUE ("key"), FOREIGN KEY(rater) REFERENCES raters (id), FOREIGN KEY(unit) REFERENCES units (id));
CREATE INDEX serves_open ON serves (unit, answered_at);
CREATE INDEX serves_waiting ON serves (answered_at, served_at);
CREATE TABLE answers (id INTEGER NOT NULL, serve INTEGER NOT NULL, item INTEGER NOT NULL, rater INTEGER NOT NULL, phase VARCHAR(16) NOT NULL, value JSON NOT NULL, told JSON, seconds FLOAT NOT NULL, at FLOAT NOT NULL, PRIMARY KEY (id), UNIQUE (serve, item), FOREIGN KEY(serve) REFERENCES serves (id), FOREIGN KEY(item) REFERENCES items (id), FOREIGN KEY(rater) REFERENCES raters (id));
CREATE INDEX ix_answers_item ON answers (item);
CREATE INDEX ix_answers_rater ON answers (rater);
