package web

import (
	"net/http"
	"strings"
	"time"

	"breakwater/gateway/explain"
	"breakwater/internal/auth"
	"breakwater/slo"
	"breakwater/slo/request"
)

// ReplayView is what two configurations make of the last hour.
type ReplayView struct {
	Lead, Sub string
	Facts     []Fact
	Kinds     []ReplayKind
}

// ReplayKind is one difference.
type ReplayKind struct {
	Route, What, Count string
	Bar                Bar
	Examples           []ReplayExample
}

// ReplayExample is one exchange under both.
type ReplayExample struct{ ID, Href, Was, Now string }

// compare asks two configurations about the rows of the last hour.
func (s *Server) compare(w http.ResponseWriter, r *http.Request) {
	if !s.simulated(w, r) {
		return
	}
	v := s.look(r)
	r.PostForm.Set("view", "compare")
	page := s.simulatorPage(r, v, r.PostForm)
	q, ok := s.comparedRows(r, v.now)
	if !ok {
		s.trouble(w, v, http.StatusForbidden, "Not your service", v.say("Your token does not cover %s.", q.Service))
		return
	}
	was, ok := s.chosen(v, &page, r.PostFormValue("was"))
	var now *explain.Engine
	if ok {
		now, ok = s.chosen(v, &page, r.PostFormValue("now"))
	}
	if !ok {
		s.showSimulator(w, v, http.StatusUnprocessableEntity, page)
		return
	}
	found, err := s.cfg.Requests.Requests(r.Context(), q)
	if page.Trouble = s.read(v, "The log", err); err != nil {
		s.showSimulator(w, v, http.StatusServiceUnavailable, page)
		return
	}
	asked := explain.Ask(was, now)
	for i := range found.Rows {
		if x := &found.Rows[i].Exchange; s.coversRow(r, x.Service) {
			asked.Add(x)
		}
	}
	page.Replay = v.replay(asked.Done(), found)
	s.showSimulator(w, v, http.StatusOK, page)
}

// comparedRows is which rows are asked about; false: they are not the reader's.
func (s *Server) comparedRows(r *http.Request, now time.Time) (request.Query, bool) {
	q := request.Query{Service: strings.TrimSpace(r.PostFormValue("service")), From: now.Add(-time.Hour), To: now.Add(time.Minute), Limit: mostCompared}
	q = request.Scope(q, auth.From(r.Context()).Services)
	return q, q.Service == "" || s.cfg.Covers(r, q.Service)
}

func (v view) replay(out explain.Replay, found request.Page) *ReplayView {
	p := &ReplayView{Lead: v.say("Both decide all of them alike.")}
	if out.Differ > 0 {
		p.Lead = v.say("%s of %s would differ.", v.count(int(out.Differ), "decision", "decisions"), slo.Count(out.Exchanges))
	}
	if out.Exchanges == 0 {
		p.Lead = v.say("There is nothing to compare.")
	}
	asked, unasked := v.say("%s rows of the last hour were asked about.", slo.Count(out.Lines)), ""
	if !found.Next.At.IsZero() {
		asked = v.say("%s rows of the last hour were asked about, the newest ones.", slo.Count(out.Lines))
	}
	if out.Unasked > 0 {
		unasked = v.say("%s more came to no try, so nothing can be said of them.", slo.Count(out.Unasked))
	}
	p.Sub = v.text(asked, v.say("Plain successes have no rows: with both they are plain successes."), unasked)
	p.Facts = []Fact{
		{Name: "Retries", Value: slo.Count(out.Retries.Now), Unit: v.say("were %s", slo.Count(out.Retries.Was)), Text: v.say("sent in all, where the jitter is least.")},
		{Name: "Told less than 500", Value: slo.Count(out.Good.Now), Unit: v.say("were %s", slo.Count(out.Good.Was)), Text: v.say("exchanges. Tries beyond those in the log are taken to end like the last.")},
	}
	for _, k := range out.Kinds {
		row := ReplayKind{Route: k.Route, What: v.tell(k.What), Count: slo.Count(k.Count),
			Bar: Bar{Class: "f-c1", Size: "thin", Width: pos(100 * float64(k.Count) / float64(max(out.Differ, 1))), Label: v.say("%s of %s", slo.Count(k.Count), slo.Count(out.Differ))}}
		for _, x := range k.Examples {
			row.Examples = append(row.Examples, ReplayExample{x.RequestID, requestHref(x.RequestID), v.tell(x.Was), v.tell(x.Now)})
		}
		p.Kinds = append(p.Kinds, row)
	}
	return p
}
