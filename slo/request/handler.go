package request

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"breakwater/internal/auth"
	"breakwater/internal/reply"
	"breakwater/internal/retrylog"
)

// Log is where rows are.
type Log interface {
	// Requests searches.
	Requests(ctx context.Context, q Query) (Page, error)
	// Request returns every row of a request id, the newest first: one a gateway that
	// it came through.
	Request(ctx context.Context, id string) ([]Row, error)
	// Counted is what was counted in the range of q, of its service and route.
	Counted(ctx context.Context, q Query) (Counted, error)
}

// API serves the log as JSON.
type API struct {
	Log   Log
	Now   func() time.Time // nil is time.Now
	Error *slog.Logger     // nil is slog.Default
}

// rowJSON is a row in a list.
type rowJSON struct {
	Exchange *retrylog.Exchange `json:"exchange"`
}

// List serves GET /api/v1/events.
func (a API) List(w http.ResponseWriter, r *http.Request) {
	now := time.Now
	if a.Now != nil {
		now = a.Now
	}
	q, err := Parse(r.URL.Query(), now())
	if err != nil {
		reply.Problem(w, http.StatusBadRequest, "query", err.Error())
		return
	}
	who := auth.From(r.Context())
	if q = Scope(q, who.Services); q.Service != "" && !who.Covers(q.Service) {
		reply.Problem(w, http.StatusForbidden, "scope", "your token does not cover this service: name one that it covers")
		return
	}
	page, err := a.Log.Requests(r.Context(), q)
	if err != nil {
		a.away(w, r, err)
		return
	}
	out := struct {
		Events []rowJSON `json:"events"`
		Looked int64     `json:"rows_looked_through"`
		Next   string    `json:"next,omitempty"` // for before=
	}{Events: []rowJSON{}, Looked: page.Looked, Next: page.Next.String()}
	for i := range page.Rows {
		out.Events = append(out.Events, rowJSON{&page.Rows[i].Exchange})
	}
	reply.JSON(w, http.StatusOK, out)
}

// Show serves GET /api/v1/events/{id}: the newest row of the id as the gateway wrote it.
func (a API) Show(w http.ResponseWriter, r *http.Request, id string) {
	rows, err := a.Log.Request(r.Context(), id)
	if err != nil {
		a.away(w, r, err)
		return
	}
	who := auth.From(r.Context())
	for i := range rows {
		if who.Covers(rows[i].Exchange.Service) {
			reply.JSON(w, http.StatusOK, rowJSON{&rows[i].Exchange})
			return
		}
	}
	reply.Problem(w, http.StatusNotFound, "not_found", "no event of this id is kept: plain successes leave none, and others are kept for 7 days")
}

// Scope holds a query to the services of who asks: who may see some of them and names
// none is shown the first. Whether a service that is named is theirs is to be asked then.
func Scope(q Query, services []string) Query {
	if q.Service == "" && len(services) > 0 {
		q.Service = services[0]
	}
	return q
}

func (a API) away(w http.ResponseWriter, r *http.Request, err error) {
	log := a.Error
	if log == nil {
		log = slog.Default()
	}
	if r.Context().Err() == nil {
		log.Error("the log of requests cannot be read", "err", err)
	}
	reply.Problem(w, http.StatusServiceUnavailable, "database", "the log cannot be read at the moment")
}
