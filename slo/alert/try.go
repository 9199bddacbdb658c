package alert

import (
	"context"
	"net/http"
	"time"

	"breakwater/internal/auth"
	"breakwater/internal/reply"
)

// Tried is what one receiver answered to a test.
type Tried struct {
	Receiver string `json:"receiver"`
	Sent     bool   `json:"sent"`
	Error    string `json:"error,omitempty"`
	TookMS   int64  `json:"took_ms"`
}

// Try sends every receiver, or the one named, a message that opens an incident and
// one that ends it, at once and without the outbox: somebody waits for the answer.
func (e *Engine) Try(ctx context.Context, only, by string, now time.Time) []Tried {
	out := []Tried{}
	id := newID()
	i := Incident{ID: id, Service: "test", Env: "test", Class: Errors, Tier: L1, Severity: Ticket, OpenedAt: now.Add(-time.Second), LastSeen: now,
		Title: "test (test): " + by + " asks whether this arrives; nothing is wrong", Symptoms: []Lasting{}, Facts: []Lasting{}}
	over := i
	over.ClosedAt = &now
	for _, r := range e.Routes() {
		for _, x := range r.Receivers {
			name := r.Name + "/" + x.Name
			if only != "" && only != name {
				continue
			}
			began := time.Now()
			err := e.cfg.Sender.Send(ctx, x, Message{ID: id + "-opened", Kind: Opened, At: now, Incident: i}, now)
			if err == nil {
				err = e.cfg.Sender.Send(ctx, x, Message{ID: id + "-resolved", Kind: Resolved, At: now, Incident: over}, now)
			}
			t := Tried{Receiver: name, Sent: err == nil, TookMS: time.Since(began).Milliseconds()}
			if err != nil {
				t.Error = err.Error()
			}
			out = append(out, t)
		}
	}
	return out
}

// Test serves POST /api/v1/alerts/test?receiver=.
func (d *Desk) Test() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := auth.From(r.Context())
		if len(who.Services) > 0 {
			reply.OutOfScope(w)
			return
		}
		reply.JSON(w, http.StatusOK, map[string]any{"tried": d.engine.Try(r.Context(), r.URL.Query().Get("receiver"), who.Name, d.now().UTC())})
	})
}
