-- +goose Up

-- Promises, the state of each, and what the gate answered.

create table objective (
    id         text        primary key,
    service    text        not null,
    title      text        not null,
    owner      text        not null,
    target_ppb bigint      not null check (target_ppb > 0 and target_ppb < 1000000000),
    window_s   bigint      not null check (window_s > 0),
    since      timestamptz not null, -- nothing before counts for coverage
    revision   bigint      not null, -- rises with every change of text
    text       text        not null, -- the OpenSLO document
    source     text        not null, -- the directory or person it came from
    retired_at timestamptz           -- gone from its source: kept, since decisions speak of it
);

create index objective_service on objective (service);

-- The freeze machine's memory. at is the version: a replica moves a state only
-- from the very one it has read.
create table slo_state (
    service    text        not null,
    objective  text        not null,
    env        text        not null,
    level      text        not null check (level in ('normal', 'warn', 'emergency', 'frozen', 'unknown')),
    measured   text        not null check (measured in ('normal', 'warn', 'emergency', 'frozen', 'unknown')),
    since      timestamptz not null,
    frozen_at  timestamptz,
    good_since timestamptz,
    at         timestamptz not null,
    reason     text        not null,
    primary key (service, objective, env)
) with (fillfactor = 50); -- rewritten every second: leave room to do it in place

create table slo_transition (
    service      text        not null,
    objective    text        not null,
    env          text        not null,
    at           timestamptz not null,
    from_level   text        not null,
    to_level     text        not null,
    reason       text        not null,
    revision     bigint      not null, -- of the objective
    data_until   timestamptz,
    good         bigint      not null, -- the snapshot it was decided on
    bad          bigint      not null,
    coverage_ppm bigint      not null,
    primary key (service, objective, env, at)
);

create index slo_transition_at on slo_transition (service, at);

create table gate_decision (
    service     text        not null,
    id          text        not null,
    env         text        not null,
    kind        text        not null,
    ref         text        not null,
    decision    text        not null check (decision in ('allow', 'deny', 'hold', 'unknown')),
    state       text        not null,
    reason_code text        not null,
    body        jsonb       not null, -- the answer, as given
    at          timestamptz not null,
    primary key (service, id)
);

create index gate_decision_at on gate_decision (service, at);

-- Sums of a service's minutes by hour: a window of 30 days is 719 whole hours and
-- the minutes of two edges, instead of 43 200 minutes of every route.
-- Always recomputed from minutes, never added to.
create table slo_hour (
    service       text        not null,
    env           text        not null,
    at            timestamptz not null,
    good          bigint      not null,
    bad           bigint      not null,
    neutral       bigint      not null,
    throttled     bigint      not null,
    aborted       bigint      not null,
    chaos_bad     bigint      not null,
    first_try_bad bigint      not null,
    exchanges     bigint      not null,
    attempts      bigint      not null,
    retried       bigint      not null,
    recovered     bigint      not null,
    over_limit    bigint      not null,
    primary key (service, env, at)
);

-- Where a service was ever seen.
create table slo_scope (
    service text not null,
    env     text not null,
    primary key (service, env)
);

-- Hours whose minutes have changed since they were summed. An append-only log
-- without a unique key, so that marking never waits for another transaction. A
-- reader that finds an hour here sums its minutes instead, so sums are exact
-- whether or not the roll-up keeps up.
create table slo_dirty (
    seq     bigint generated always as identity primary key,
    service text        not null,
    env     text        not null,
    at      timestamptz not null
);

create index slo_dirty_at on slo_dirty (service, env, at);

-- +goose StatementBegin
create function slo_mark_dirty() returns trigger language plpgsql as $$
begin
    insert into slo_dirty (service, env, at)
    select distinct service, env, date_trunc('hour', at, 'UTC') from touched;
    return null;
end
$$;
-- +goose StatementEnd

-- A mark commits with its minutes, or neither does. Deletion marks nothing: minutes
-- go long after their hours are summed, and the hours are to stay.
create trigger rollup_minute_inserted after insert on rollup_minute
    referencing new table as touched for each statement execute function slo_mark_dirty();
create trigger rollup_minute_updated after update on rollup_minute
    referencing new table as touched for each statement execute function slo_mark_dirty();

create index rollup_minute_scope_at on rollup_minute (service, env, at);
