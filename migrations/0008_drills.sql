-- +goose Up
-- What a verdict rests on beside counts of good and bad: cohorts, answers of
-- fallbacks, and which configuration a gateway served when it armed.

alter table run add column cohorts jsonb not null default '[]';
alter table run_receipt add column config text not null default ''; -- hash, when it armed first
alter table gateway_tally add column degraded bigint not null default 0; -- of good and bad
alter table run_tally add column degraded bigint not null default 0;
