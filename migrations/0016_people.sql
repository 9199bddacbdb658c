-- +goose Up
-- People who sign in, and their sessions. A table named user would have to be
-- quoted everywhere.

create table person (
    name         text        primary key, -- never used twice, nor a token's: the audit speaks by it
    role         text        not null check (role in ('viewer', 'operator', 'approver', 'admin')),
    services     text[]      not null default '{}', -- empty: all
    password     text        not null default '',   -- argon2id in PHC form; empty: signs in elsewhere, or not yet
    must_change  boolean     not null default false,
    issuer       text        not null default '',   -- of the OIDC provider who vouches; empty: a local account
    subject      text        not null default '',
    created_by   text        not null,
    created_at   timestamptz not null,
    password_at  timestamptz,
    signed_in_at timestamptz,
    disabled_at  timestamptz,
    check ((issuer = '') = (subject = ''))
);

-- A provider's subject is one person, whatever name it asks for.
create unique index person_subject on person (issuer, subject) where issuer <> '';

-- The id that a browser holds is kept hashed: who reads this table can be nobody.
create table session (
    id         bytea       primary key check (length(id) = 32),
    name       text        not null references person (name),
    source     text        not null, -- address that signed in
    created_at timestamptz not null,
    seen_at    timestamptz not null,
    expires_at timestamptz not null
);

create index session_person on session (name);
create index session_expires on session (expires_at);
