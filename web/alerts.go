package web

import (
	"context"
	"time"

	"breakwater/slo/alert"
)

// Alerts is what the pages need of incidents.
type Alerts interface {
	Incidents(ctx context.Context, q alert.Question) ([]alert.Incident, error) // latest first
	// Incident is one of them, with why people were or were not told of it; an error
	// that is alert.ErrUnknown is a 404.
	Incident(ctx context.Context, id string) (alert.Incident, []alert.Why, error)
	Notes(ctx context.Context, q alert.Question) ([]alert.Jotting, error)
	Silences(ctx context.Context, now time.Time, all bool) ([]alert.Silence, error)
}
