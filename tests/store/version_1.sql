-- A store as version 1 of the schema wrote it: one finished run of a made-up task.
CREATE TABLE meta ("key" VARCHAR(64) NOT NULL, value TEXT NOT NULL, PRIMARY KEY ("key"));
CREATE TABLE runs (
    run_id VARCHAR(32) NOT NULL, experiment TEXT, state VARCHAR(16) NOT NULL, failure TEXT,
    created_at VARCHAR(32) NOT NULL, updated_at VARCHAR(32) NOT NULL, spec TEXT NOT NULL, PRIMARY KEY (run_id)
);
CREATE INDEX ix_runs_created_at ON runs (created_at);
CREATE INDEX ix_runs_experiment ON runs (experiment);
CREATE TABLE candidates (candidate_id VARCHAR(32) NOT NULL, source TEXT NOT NULL, PRIMARY KEY (candidate_id));
CREATE TABLE outcomes (
    outcome_id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, run_id VARCHAR(32) NOT NULL, payload TEXT NOT NULL
);
CREATE TABLE events (
    run_id VARCHAR(32) NOT NULL, seq INTEGER NOT NULL, at VARCHAR(32) NOT NULL, kind VARCHAR(32) NOT NULL,
    candidate VARCHAR(32), payload TEXT NOT NULL, PRIMARY KEY (run_id, seq),
    FOREIGN KEY(run_id) REFERENCES runs (run_id)
);
CREATE INDEX events_by_candidate ON events (run_id, kind, candidate);
CREATE TABLE run_candidates (
    position INTEGER NOT NULL, run_id VARCHAR(32) NOT NULL, candidate_id VARCHAR(32) NOT NULL,
    payload TEXT NOT NULL, PRIMARY KEY (position), FOREIGN KEY(run_id) REFERENCES runs (run_id),
    FOREIGN KEY(candidate_id) REFERENCES candidates (candidate_id)
);
CREATE UNIQUE INDEX run_candidates_once ON run_candidates (run_id, candidate_id);
CREATE INDEX ix_run_candidates_candidate_id ON run_candidates (candidate_id);

INSERT INTO meta VALUES ('schema_version', '1');
INSERT INTO runs VALUES (
    '1qf9h31pz2e', NULL, 'finished', NULL,
    '2026-01-02T10:58:34.166919+00:00', '2026-01-02T10:59:13.604266+00:00',
    '{"task":{"name":"double","source":"class Model: ...","workloads":[{"name":"default","overrides":{}}],"mode":"train","tolerance":"strict","path":null,"artifact":null},"target":{"device":"cpu","language":"cpp"},"recipe":"kernelskill","team":"expert","budget":{"evaluations":3,"model_calls":null,"tokens":null,"usd":null,"seconds":null},"seed":0,"baselines":["eager","torch_compile"],"experiment":null,"ledger_until":0,"environment":{"cores":2,"machine.bandwidth_gbps":40.8}}'
);
INSERT INTO candidates VALUES ('380b276385045413', 'class ModelNew: ...');
INSERT INTO run_candidates VALUES (
    1, '1qf9h31pz2e', '380b276385045413',
    '{"source":"","target":{"device":"cpu","language":"cpp"},"parents":[],"plan":{"moves":[{"skill":"library-seed","region":null,"params":{},"why":"correct first","expects":""}]},"role":"generator"}'
);
INSERT INTO events VALUES (
    '1qf9h31pz2e', 1, '2026-01-02T10:58:35.000000+00:00', 'run_started', NULL,
    '{"kind":"run_started","recipe":"kernelskill","team":"expert"}'
);
INSERT INTO events VALUES (
    '1qf9h31pz2e', 2, '2026-01-02T10:58:36.000000+00:00', 'task_prepared', NULL,
    '{"kind":"task_prepared","floors":[{"ms":2.93,"bound_by":"memory","work":{"flops":16777216,"min_bytes":134217728}}],"capture_error":null,"baselines_ms":{"default":13.8}}'
);
INSERT INTO events VALUES (
    '1qf9h31pz2e', 3, '2026-01-02T10:58:37.000000+00:00', 'step_started', NULL,
    '{"kind":"step_started","step":1,"mode":"seed","base":null}'
);
INSERT INTO events VALUES (
    '1qf9h31pz2e', 4, '2026-01-02T10:58:38.000000+00:00', 'candidate_written', '380b276385045413',
    '{"kind":"candidate_written","step":1,"candidate":"380b276385045413"}'
);
INSERT INTO events VALUES (
    '1qf9h31pz2e', 5, '2026-01-02T10:58:39.000000+00:00', 'candidate_evaluated', '380b276385045413',
    '{"kind":"candidate_evaluated","step":1,"candidate":"380b276385045413","evaluation":{"candidate_id":"380b276385045413","task_id":"c7b3ab42e38c4a7e","stage":"done","status":"verified","detail":"","log":"","errors":[{"workload":"default","family":"as_is","output":"out0","error":1.4e-7,"reference_error":1.4e-7,"allowed":1.9e-6}],"families_skipped":{},"results":[{"workload":"default","candidate":{"median_ms":4.6,"p10_ms":4.0,"p90_ms":5.5,"n_samples":5,"calls_per_sample":1},"baselines":{"eager":{"median_ms":13.8,"p10_ms":13.0,"p90_ms":14.2,"n_samples":5,"calls_per_sample":1}},"speedups":[{"baseline":"eager","ratio":3.0,"low":2.8,"high":3.2}],"floor_ms":2.93}],"phases_s":{"build":0.1},"facts":{"run.thread_scaling":1.7},"is_final":false}}'
);
INSERT INTO events VALUES (
    '1qf9h31pz2e', 6, '2026-01-02T10:58:40.000000+00:00', 'run_finished', NULL,
    '{"kind":"run_finished","reason":"the budget of evaluations is used up","winner":null,"evaluation":null,"spent":{"evaluations":3,"model_calls":0,"tokens":0,"usd":0.0,"seconds":64.35}}'
);
INSERT INTO outcomes VALUES (
    1, '1qf9h31pz2e',
    '{"skill":"tile-columns","target":"cpu/cpp","structure":"reduction","bottleneck":"compute","task_id":"c7b3ab42e38c4a7e","run_id":"1qf9h31pz2e","move_key":"5fb7bc4758c6afeb:tile-columns[r_div](tile=128)","verified":true,"log_speedup":0.105,"expected":"run.latency_ms down x1.3"}'
);
