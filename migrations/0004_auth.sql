-- +goose Up
-- Who may ask, and what was changed by whom.

create table token (
    name       text        primary key, -- never used twice: the audit speaks by it
    role       text        not null check (role in ('viewer', 'operator', 'approver', 'admin', 'gateway', 'pipeline')),
    services   text[]      not null default '{}', -- empty: all
    hash       bytea       not null unique check (length(hash) = 32),
    created_by text        not null,
    created_at timestamptz not null,
    expires_at timestamptz,
    revoked_at timestamptz
);

-- Each row's hash covers the row and the hash before it.
create table audit (
    seq    bigint      primary key check (seq > 0),
    at     timestamptz not null,
    actor  text        not null,
    action text        not null,
    object text        not null,
    detail text        not null,
    prev   text        not null,
    hash   text        not null unique
);

-- The chain shows a change; this makes one by mistake impossible.
-- +goose StatementBegin
create function audit_is_append_only() returns trigger language plpgsql as $$
begin
    raise exception 'the audit is append-only';
end
$$;
-- +goose StatementEnd

create trigger audit_append_only before update or delete or truncate on audit
    for each statement execute function audit_is_append_only();
