-- +goose Up

-- The search of single requests: by id over all that is kept, and the newest of all
-- services. Within a service there is event_at already.
create index event_request on event (request_id) where kind = 'exchange';
create index event_exchange on event (at) where kind = 'exchange';
