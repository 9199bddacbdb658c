package alert

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"breakwater/internal/auth"
	"breakwater/internal/reply"
)

// Question is what a list of incidents or notes is asked for.
type Question struct {
	Service string
	Tier    Tier
	Open    bool
	Since   time.Time // incidents that were open after it; zero: all
	Find    string    // a part of a note's text
	Before  time.Time
	Limit   int
}

// Fact is a cause that others see: L2, until an instant.
type Fact struct {
	Service, Env, Key, Text, By string
	At, Until                   time.Time
}

// ErrUnknown says that there is no such incident.
var ErrUnknown = errors.New("no incident of that id")

// Archive is what a Desk reads and changes.
type Archive interface {
	Incidents(ctx context.Context, q Question) ([]Incident, error)
	Incident(ctx context.Context, id string) (Incident, []Why, error)
	ChangeIncident(ctx context.Context, id string, e auth.Entry, change func(Incident) (Outcome, error)) error
	Notes(ctx context.Context, q Question) ([]Jotting, error)
	AddFact(ctx context.Context, f Fact) error
	Silences(ctx context.Context, now time.Time, all bool) ([]Silence, error)
	AddSilence(ctx context.Context, s Silence, now time.Time) error
	EndSilence(ctx context.Context, id, by string, now time.Time) (bool, error)
}

// Desk serves incidents and silences over HTTP.
type Desk struct {
	engine  *Engine
	archive Archive
	now     func() time.Time
}

// NewDesk returns a Desk; now is nil for the clock.
func NewDesk(engine *Engine, archive Archive, now func() time.Time) *Desk {
	if now == nil {
		now = time.Now
	}
	return &Desk{engine, archive, now}
}

// List serves GET /api/v1/alerts?service=&tier=&open=&find=&before=&limit=. With
// tier=L3 it lists what was only written down.
func (d *Desk) List(w http.ResponseWriter, r *http.Request) {
	v := r.URL.Query()
	q := Question{Service: v.Get("service"), Tier: Tier(v.Get("tier")), Open: v.Get("open") == "true" || v.Get("open") == "1", Find: v.Get("find"), Before: d.now().Add(time.Hour), Limit: 100}
	if text := v.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 1000 {
			reply.Problem(w, http.StatusBadRequest, "bad_parameter", "limit: must be 1 to 1000")
			return
		}
		q.Limit = n
	}
	if text := v.Get("before"); text != "" {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			reply.Problem(w, http.StatusBadRequest, "bad_parameter", "before: must be an RFC 3339 instant")
			return
		}
		q.Before = at
	}
	who := auth.From(r.Context())
	switch q.Tier {
	case L3:
		notes, err := d.archive.Notes(r.Context(), q)
		if err != nil {
			reply.Away(w)
			return
		}
		reply.JSON(w, http.StatusOK, map[string]any{"notes": covered(notes, func(n Jotting) bool { return who.Covers(n.Service) })})
		return
	case "", L1, L2:
	default:
		reply.Problem(w, http.StatusBadRequest, "bad_parameter", "tier: must be L1, L2 or L3")
		return
	}
	list, err := d.archive.Incidents(r.Context(), q)
	if err != nil {
		reply.Away(w)
		return
	}
	reply.JSON(w, http.StatusOK, map[string]any{"alerts": covered(list, func(i Incident) bool { return who.Covers(i.Service) })})
}

func covered[T any](list []T, keep func(T) bool) []T {
	out := []T{}
	for _, x := range list {
		if keep(x) {
			out = append(out, x)
		}
	}
	return out
}

// Show serves GET /api/v1/alerts/{id}: the incident, its context as lines, and why
// who was told of it and who was not.
func (d *Desk) Show(w http.ResponseWriter, r *http.Request) {
	i, whys, err := d.archive.Incident(r.Context(), r.PathValue("id"))
	if !found(w, err) {
		return
	}
	if !auth.From(r.Context()).Covers(i.Service) {
		reply.OutOfScope(w)
		return
	}
	if whys == nil {
		whys = []Why{}
	}
	reply.JSON(w, http.StatusOK, map[string]any{"alert": i, "lines": lines(Message{Incident: i}), "why": whys})
}

// Ack serves POST /api/v1/alerts/{id}/ack: somebody looks after it.
func (d *Desk) Ack(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Note string `json:"note"`
	}
	if r.ContentLength != 0 && !reply.Decode(w, r, &in) {
		return
	}
	who, now, id := auth.From(r.Context()), d.now().UTC().Truncate(time.Microsecond), r.PathValue("id")
	i, _, err := d.archive.Incident(r.Context(), id)
	if !found(w, err) {
		return
	}
	if !who.Covers(i.Service) {
		reply.OutOfScope(w)
		return
	}
	if len(in.Note) > 500 {
		reply.Problem(w, http.StatusUnprocessableEntity, "bad_ack", "note: must be at most 500 bytes")
		return
	}
	var acked Incident
	err = d.archive.ChangeIncident(r.Context(), id, auth.Entry{At: now, Actor: who.Name, Action: "alert.ack", Object: id, Detail: in.Note}, func(i Incident) (Outcome, error) {
		if !i.Open() {
			return Outcome{}, errOver
		}
		i.AckedBy, i.AckedAt, i.AckNote = who.Name, &now, in.Note
		acked = i
		out := Outcome{Changed: []Incident{i}, Whys: []Why{{Incident: id, At: now, Kind: Acked, Outcome: "acknowledged", Text: who.Name + " looks after it. " + in.Note}}}
		msg := Message{ID: newID(), Kind: Acked, At: now, Incident: i}
		if i.Told.rank() > 0 && i.ToldBy == "" {
			for _, name := range recipients(d.engine.Routes(), i, Acked) {
				out.Messages = append(out.Messages, Delivery{msg, name})
			}
		}
		return out, nil
	})
	if errors.Is(err, errOver) {
		reply.Problem(w, http.StatusConflict, "alert_over", "the incident is over")
		return
	}
	if found(w, err) {
		reply.JSON(w, http.StatusOK, acked)
	}
}

var errOver = errors.New("the incident is over")

// Tell serves POST /api/v1/alerts/facts: a cause that another system sees, such as a
// pool that is full. It joins the open incident of the service, and never pages.
func (d *Desk) Tell(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Service string `json:"service"`
		Env     string `json:"env"`
		Key     string `json:"key"`
		Text    string `json:"text"`
		For     int64  `json:"for_seconds"` // 0: five minutes; told again, it goes on
	}
	if !reply.Decode(w, r, &in) {
		return
	}
	who, now := auth.From(r.Context()), d.now().UTC().Truncate(time.Microsecond)
	if in.For == 0 {
		in.For = 300
	}
	switch {
	case in.Service == "" || in.Env == "" || in.Key == "" || len(in.Key) > 200 || strings.TrimSpace(in.Text) == "" || len(in.Text) > 500 || in.For < 1 || in.For > 86_400:
		reply.Problem(w, http.StatusUnprocessableEntity, "bad_fact", "service, env, key (up to 200 bytes) and text (up to 500): must be given; for_seconds: must be 1 to 86400")
		return
	case !who.Covers(in.Service):
		reply.OutOfScope(w)
		return
	}
	f := Fact{Service: in.Service, Env: in.Env, Key: "told:" + in.Key, Text: in.Text, By: who.Name, At: now, Until: now.Add(time.Duration(in.For) * time.Second)}
	if err := d.archive.AddFact(r.Context(), f); err != nil {
		reply.Away(w)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// Silences serves GET /api/v1/silences?all=.
func (d *Desk) Silences(w http.ResponseWriter, r *http.Request) {
	list, err := d.archive.Silences(r.Context(), d.now(), r.URL.Query().Get("all") != "")
	if err != nil {
		reply.Away(w)
		return
	}
	reply.JSON(w, http.StatusOK, map[string]any{"silences": covered(list, func(Silence) bool { return true })})
}

// longestSilence bounds a silence: what is forgotten must speak again.
const longestSilence = 30 * 24 * time.Hour

// Silence serves POST /api/v1/silences.
func (d *Desk) Silence(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Service  string     `json:"service"`
		Env      string     `json:"env"`
		Class    Class      `json:"class"`
		Severity Severity   `json:"severity"`
		From     *time.Time `json:"from"`
		Until    time.Time  `json:"until"`
		Reason   string     `json:"reason"`
	}
	if !reply.Decode(w, r, &in) {
		return
	}
	who, now := auth.From(r.Context()), d.now().UTC().Truncate(time.Microsecond)
	s := Silence{ID: "s-" + newID()[2:], Service: in.Service, Env: in.Env, Class: in.Class, Severity: in.Severity, From: now, Until: in.Until.UTC(), By: who.Name, Reason: strings.TrimSpace(in.Reason)}
	if in.From != nil {
		s.From = in.From.UTC()
	}
	_, knownSeverity := map[Severity]bool{"": true, Ticket: true, Freeze: true, Page: true}[s.Severity]
	_, knownClass := map[Class]bool{"": true, Errors: true, Budget: true, Silent: true}[s.Class]
	switch {
	case s.Reason == "" || len(s.Reason) > 500 || !knownSeverity || !knownClass || !s.Until.After(now) || !s.Until.After(s.From) || s.Until.Sub(now) > longestSilence:
		reply.Problem(w, http.StatusUnprocessableEntity, "bad_silence", fmt.Sprintf(
			"reason: must be given; until: must be within the next 30 days; class: %s, %s, %s or empty; severity: %s, %s, %s or empty", Errors, Budget, Silent, Ticket, Freeze, Page))
		return
	case s.Service == "" && len(who.Services) > 0 || s.Service != "" && !who.Covers(s.Service):
		reply.OutOfScope(w)
		return
	}
	if err := d.archive.AddSilence(r.Context(), s, now); err != nil {
		reply.Away(w)
		return
	}
	reply.JSON(w, http.StatusCreated, s)
}

// Unsilence serves DELETE /api/v1/silences/{id}.
func (d *Desk) Unsilence(w http.ResponseWriter, r *http.Request) {
	who, now, id := auth.From(r.Context()), d.now().UTC().Truncate(time.Microsecond), r.PathValue("id")
	list, err := d.archive.Silences(r.Context(), now, false)
	done := false
	for _, s := range list {
		if s.ID == id && (s.Service == "" && len(who.Services) > 0 || s.Service != "" && !who.Covers(s.Service)) {
			reply.OutOfScope(w)
			return
		}
	}
	if err == nil {
		done, err = d.archive.EndSilence(r.Context(), id, who.Name, now)
	}
	switch {
	case err != nil:
		reply.Away(w)
	case !done:
		reply.Problem(w, http.StatusConflict, "silence_over", "no silence of that id holds")
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

func found(w http.ResponseWriter, err error) bool {
	switch {
	case errors.Is(err, ErrUnknown):
		reply.Problem(w, http.StatusNotFound, "unknown_alert", err.Error())
	case err != nil:
		reply.Away(w)
	}
	return err == nil
}
