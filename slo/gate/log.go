package gate

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"breakwater/internal/auth"
	"breakwater/internal/reply"
)

// Search picks decisions that were kept.
type Search struct {
	Service  string    // "": all
	Services []string  // of whoever looks; empty: all
	ID       string    // "": all
	Before   time.Time // zero: up to now
	Limit    int
}

// Archive has the decisions that were kept.
type Archive interface {
	Decisions(ctx context.Context, s Search) ([]Record, error) // newest first
}

// Logged is a decision that was kept, as API and pages have it. Answer is what was
// answered, with its signature.
type Logged struct {
	At     time.Time `json:"at"`
	By     string    `json:"asked_by"` // "": it was not kept then
	Answer Decision  `json:"answer"`
}

// Log lists decisions of services that whoever ctx is about may see, newest first.
func Log(ctx context.Context, archive Archive, s Search) ([]Logged, error) {
	s.Services = auth.From(ctx).Services
	records, err := archive.Decisions(ctx, s)
	if err != nil {
		return nil, err
	}
	out := []Logged{}
	for _, r := range records {
		out = append(out, Logged{At: r.At.UTC(), By: r.By, Answer: r.Decision})
	}
	return out, nil
}

// mostLogged bounds one page of the log.
const mostLogged = 1000

// LogHandler serves GET /api/v1/gate/decisions?service=&before=&limit=, newest first.
func LogHandler(archive Archive) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		s := Search{Service: q.Get("service"), Limit: 100}
		if text := q.Get("limit"); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 || n > mostLogged {
				reply.Problem(w, http.StatusBadRequest, "bad_parameter", "limit: must be 1 to 1000")
				return
			}
			s.Limit = n
		}
		if text := q.Get("before"); text != "" {
			at, err := time.Parse(time.RFC3339Nano, text)
			if err != nil {
				reply.Problem(w, http.StatusBadRequest, "bad_parameter", "before: must be an instant such as 2026-03-10T12:00:00Z")
				return
			}
			s.Before = at
		}
		list, err := Log(r.Context(), archive, s)
		if err != nil {
			logAway(w)
			return
		}
		reply.JSON(w, http.StatusOK, map[string]any{"decisions": list})
	}
}

// LoggedHandler serves GET /api/v1/gate/decisions/{id}: what a dialect's answer, or a
// line of the audit, names.
func LoggedHandler(archive Archive) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		list, err := Log(r.Context(), archive, Search{ID: r.PathValue("id"), Limit: 1})
		switch {
		case err != nil:
			logAway(w)
		case len(list) == 0:
			reply.Problem(w, http.StatusNotFound, "unknown_decision", "no decision of that id")
		default:
			reply.JSON(w, http.StatusOK, list[0])
		}
	}
}

func logAway(w http.ResponseWriter) {
	reply.Problem(w, http.StatusServiceUnavailable, "database_away", "decisions cannot be read at present")
}
