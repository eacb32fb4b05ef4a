"""SQL of the hot path, made by ``python -m tilelang.cache.database.hot_path``; edit hot_path.py."""

from __future__ import annotations

VERSION = 3
CREATE = [
    (
        'CREATE TABLE artifact_files ( "key" VARCHAR(64) NOT NULL, name VARCHAR(240) NOT NULL, bytes '
        'BIGINT NOT NULL, sha256 VARCHAR(64) NOT NULL, PRIMARY KEY ("key", name) )'
    ),
    ("CREATE TABLE counters ( name VARCHAR(32) NOT NULL, count BIGINT NOT NULL, PRIMARY KEY (name) )"),
    (
        "CREATE TABLE dispatch ( task VARCHAR(64) NOT NULL, sizes VARCHAR(240) NOT NULL, name TEXT NOT "
        "NULL, target TEXT NOT NULL, kernel_key VARCHAR(64) NOT NULL, config TEXT NOT NULL, seconds FLOAT "
        "NOT NULL, recorded FLOAT NOT NULL, PRIMARY KEY (task, sizes) )"
    ),
    (
        'CREATE TABLE kernels ( "key" VARCHAR(64) NOT NULL, name TEXT NOT NULL, target TEXT NOT NULL, '
        "arch TEXT NOT NULL, backend TEXT NOT NULL, space INTEGER NOT NULL, bytes BIGINT NOT NULL, "
        "created FLOAT NOT NULL, compile_seconds FLOAT NOT NULL, hits INTEGER NOT NULL, last_used FLOAT "
        "NOT NULL, pinned BOOLEAN NOT NULL, inputs TEXT NOT NULL, reason TEXT NOT NULL, shortcut TEXT NOT "
        'NULL, PRIMARY KEY ("key") )'
    ),
    (
        "CREATE TABLE sources ( source_key VARCHAR(64) NOT NULL, kernel_key VARCHAR(64) NOT NULL, "
        "function TEXT NOT NULL, recorded FLOAT NOT NULL, PRIMARY KEY (source_key) )"
    ),
    ("CREATE TABLE totals ( id INTEGER NOT NULL, bytes BIGINT NOT NULL, entries BIGINT NOT NULL, PRIMARY KEY (id) )"),
    (
        'CREATE TABLE trials ( task VARCHAR(64) NOT NULL, config VARCHAR(64) NOT NULL, "values" TEXT NOT '
        "NULL, state VARCHAR(16) NOT NULL, seconds FLOAT, detail TEXT NOT NULL, kernel_key VARCHAR(64) "
        "NOT NULL, recorded FLOAT NOT NULL, PRIMARY KEY (task, config) )"
    ),
    ("CREATE INDEX kernels_by_name ON kernels (name, created)"),
    ("CREATE INDEX kernels_by_use ON kernels (pinned, last_used)"),
    ("CREATE INDEX sources_by_kernel ON sources (kernel_key)"),
    ("INSERT INTO totals (id, bytes, entries) VALUES (1, 0, 0)"),
]
PUT_KERNEL = (
    'INSERT INTO kernels ("key", name, target, arch, backend, space, bytes, created, compile_seconds, '
    "hits, last_used, pinned, inputs, reason, shortcut) VALUES (:key, :name, :target, :arch, "
    ":backend, :space, :bytes, :created, :compile_seconds, :hits, :last_used, :pinned, :inputs, "
    ':reason, :shortcut) ON CONFLICT ("key") DO UPDATE SET name = excluded.name, target = '
    "excluded.target, arch = excluded.arch, backend = excluded.backend, space = excluded.space, bytes "
    "= excluded.bytes, compile_seconds = excluded.compile_seconds, last_used = excluded.last_used, "
    "inputs = excluded.inputs, reason = excluded.reason, shortcut = excluded.shortcut"
)
PUT_FILE = (
    'INSERT INTO artifact_files ("key", name, bytes, sha256) VALUES (:key, :name, :bytes, :sha256) ON '
    'CONFLICT ("key", name) DO UPDATE SET bytes = excluded.bytes, sha256 = excluded.sha256'
)
PUT_SOURCE = (
    "INSERT INTO sources (source_key, kernel_key, function, recorded) VALUES (:source_key, "
    ":kernel_key, :function, :recorded) ON CONFLICT (source_key) DO UPDATE SET kernel_key = "
    "excluded.kernel_key, function = excluded.function, recorded = excluded.recorded"
)
PUT_TRIAL = (
    'INSERT INTO trials (task, config, "values", state, seconds, detail, kernel_key, recorded) VALUES '
    "(:task, :config, :values, :state, :seconds, :detail, :kernel_key, :recorded) ON CONFLICT "
    '(config, task) DO UPDATE SET "values" = excluded."values", state = excluded.state, seconds = '
    "excluded.seconds, detail = excluded.detail, kernel_key = excluded.kernel_key, recorded = "
    "excluded.recorded"
)
PUT_DISPATCH = (
    "INSERT INTO dispatch (task, sizes, name, target, kernel_key, config, seconds, recorded) VALUES "
    "(:task, :sizes, :name, :target, :kernel_key, :config, :seconds, :recorded) ON CONFLICT (sizes, "
    "task) DO UPDATE SET name = excluded.name, target = excluded.target, kernel_key = "
    "excluded.kernel_key, config = excluded.config, seconds = excluded.seconds, recorded = "
    "excluded.recorded"
)
BYTES_OF = 'SELECT kernels.bytes FROM kernels WHERE kernels."key" = :key'
KEYS = 'SELECT kernels."key" FROM kernels'
TOTALS = "SELECT totals.bytes, totals.entries FROM totals"
ADD_TOTALS = "UPDATE totals SET bytes=(totals.bytes + :more_bytes), entries=(totals.entries + :more_entries)"
ADD_COUNT = (
    "INSERT INTO counters (name, count) VALUES (:name, :count) ON CONFLICT (name) DO UPDATE SET count "
    "= (counters.count + excluded.count)"
)
SET_COUNT = "INSERT INTO counters (name, count) VALUES (:name, :count) ON CONFLICT (name) DO UPDATE SET count = excluded.count"
COUNTS = "SELECT counters.name, counters.count FROM counters"
DROP_COUNTS = "DELETE FROM counters"
NOTE_USE = (
    'UPDATE kernels SET hits=(kernels.hits + :more_hits), last_used=max(kernels.last_used, :used_at) WHERE kernels."key" = :key'
)
SET_SPACE = 'UPDATE kernels SET space=:searched WHERE kernels."key" = :key AND kernels.space < :searched'
LEAST_USED = (
    'SELECT kernels."key", kernels.bytes, kernels.last_used FROM kernels WHERE kernels.pinned = :pin '
    "ORDER BY kernels.last_used LIMIT :count OFFSET :start"
)
SAME_NAME = (
    'SELECT kernels."key", kernels.inputs FROM kernels WHERE kernels.name = :program_name ORDER BY '
    "kernels.created DESC LIMIT :count OFFSET :start"
)
DROP_KERNEL = 'DELETE FROM kernels WHERE kernels."key" = :key'
DROP_FILES = 'DELETE FROM artifact_files WHERE artifact_files."key" = :key'
DROP_SOURCES = "DELETE FROM sources WHERE sources.kernel_key = :key"
SOURCES_OF = "SELECT sources.source_key FROM sources WHERE sources.kernel_key = :key"
TRIALS = (
    'SELECT trials.config, trials."values", trials.state, trials.seconds, trials.detail, '
    "trials.kernel_key FROM trials WHERE trials.task = :of_task ORDER BY trials.recorded"
)
DISPATCH = (
    "SELECT dispatch.sizes, dispatch.kernel_key, dispatch.config, dispatch.seconds FROM dispatch "
    "WHERE dispatch.task = :of_task ORDER BY dispatch.sizes"
)
