-- +goose Up
-- Game days as whole: their documents, each time they are held, who agreed to it,
-- what people wrote down meanwhile; and runs that stand side by side in a wave.

alter table run add column wave int not null default 0;
update run set wave = seq;

-- When findings were drawn from it.
alter table run add column filed_at timestamptz;
update run set filed_at = ended_at where ended_at is not null;
create index run_unfiled on run (ended_at) where ended_at is not null and filed_at is null;

create table gameday_document (
    name    text    primary key,
    title   text    not null,
    text    text    not null,
    file    text    not null,
    present boolean not null
);

-- One row each time a game day is held. Its runs carry its name as schedule, and
-- its planned time.
create table gameday (
    id          text        primary key,
    name        text        not null,
    title       text        not null,
    planned_at  timestamptz not null,
    actor       text        not null,
    text        text        not null, -- the document
    hash        text        not null, -- of the document and every scenario it runs
    needs       int         not null, -- approvals
    reminded_at timestamptz,
    started_at  timestamptz,
    stopped     text        not null default '', -- why all of it was ended early
    ended_at    timestamptz,
    unique (name, planned_at)
);

create index gameday_open on gameday (planned_at) where ended_at is null;
create index gameday_newest on gameday (planned_at desc, id);

-- An approval is of one content; of another it says nothing.
create table gameday_approval (
    gameday text        not null references gameday (id),
    actor   text        not null,
    hash    text        not null,
    at      timestamptz not null,
    primary key (gameday, actor, hash)
);

create table gameday_note (
    id      bigint generated always as identity primary key,
    gameday text        not null references gameday (id),
    at      timestamptz not null,
    actor   text        not null,
    kind    text        not null, -- note, debrief, reminder, approval, stop ...
    text    text        not null
);

create index gameday_note_day on gameday_note (gameday, id);
