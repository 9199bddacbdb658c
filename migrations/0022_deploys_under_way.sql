-- +goose Up
-- Deploys from their beginning to their end. Where a policy caps how many may be under
-- way at the same time each holds a slot, under a lease.
create table deploy (
    id       text        primary key,
    service  text        not null,
    env      text        not null, -- '' for all
    ref      text        not null,
    key      text        not null, -- names the change: asked about twice it holds one slot
    kind     text        not null,
    by_whom  text        not null,
    decision text        not null, -- that let it begin; '' where control was told of it
    begun_at timestamptz not null,
    until_at timestamptz not null, -- counts as ended then, unless it is heard of again
    ended_at timestamptz,
    outcome  text        not null default '' check (outcome in ('', 'succeeded', 'failed', 'lapsed', 'refused')),
    ended_by text        not null default '',
    check ((ended_at is null) = (outcome = ''))
);

create unique index deploy_live on deploy (service, env, key) where ended_at is null;
create index deploy_begun on deploy (begun_at desc, id);

-- Whoever gives a slot away locks this row first: two controls that count at the same
-- moment must not both find the last one free.
create table deploy_lock (one boolean primary key default true check (one));
insert into deploy_lock values (true);

-- What became of a deploy that was told of: one that failed, or is under way, has not
-- run, so it proves no rollback; what fails while it goes on is put down to it all the same.
alter table slo_cause add column outcome text not null default '' check (outcome in ('', 'begun', 'succeeded', 'failed'));

-- A cap on deploys is a measure like others.
alter table measure drop constraint measure_kind_check;
alter table measure add constraint measure_kind_check check (kind in ('shed', 'limit', 'stop_experiments', 'refuse_experiments', 'cap_deploys'));
