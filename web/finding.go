package web

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"breakwater/injector"
	"breakwater/injector/finding"
)

// FindingBell takes what people do about findings: the handlers of the API.
type FindingBell interface {
	Close(w http.ResponseWriter, r *http.Request)
	Accept(w http.ResponseWriter, r *http.Request)
}

type findingView struct {
	ID, Title, Sub, Said string
	Service, ServiceHref string
	Severity, State      Chip
	Banner               *Notice
	Facts                []Fact
	Expected, Seen       string
	SeenFrom, SeenUntil  Time
	Evidence, Run        *Link
	Again                string // what looks at it again
	AgainLink            *Link
	Close, Accept        string // where the forms post
	AcceptNote           string
	Terms                []term
	Story                []LogLine
	Document, Hash       string
	Config               string
	TakeStory            Take
	Refused              Refused
}

// term is how long a risk may be answered for at once.
type term struct{ Value, Text string }

func (l lang) terms() []term {
	return []term{{"30", l.lasting(30 * 24 * time.Hour)}, {"90", l.lasting(90 * 24 * time.Hour)}, {"180", l.lasting(180 * 24 * time.Hour)}, {"365", l.say("a year")}}
}

func (s *Server) finding(w http.ResponseWriter, r *http.Request, refused Refused) {
	v := s.look(r)
	id := chi.URLParam(r, "key")
	f, story, err := s.cfg.Findings.Finding(r.Context(), id)
	switch {
	case errors.Is(err, injector.ErrNotFound) || err == nil && !s.cfg.Covers(r, f.Service):
		s.trouble(w, v, http.StatusNotFound, v.say("No finding %s", id), "There is no finding of this key, or your token does not cover its service.")
		return
	case err != nil:
		s.trouble(w, v, http.StatusServiceUnavailable, v.say("Finding %s", id), v.text(s.read(v, "The finding", err), v.say("Control asks the database again by itself.")))
		return
	}
	if s.exported(w, v, storySheet(story)) {
		return
	}
	o := findingView{ID: f.ID, Title: sentenceCase(v.tell(f.Title)), Service: f.Service, ServiceHref: serviceHref(f.Service), Severity: severityOf(f.Severity), State: findingState(f),
		Expected: v.tell(f.Expected), Seen: v.tell(f.Seen), Document: f.Text, Hash: f.Hash, Config: f.Config, TakeStory: take(r, "story"), Terms: v.terms(), Refused: refused}
	o.Sub = v.say("%s, %s/%s of %s.", f.ID, f.Scenario, f.Assertion, f.Service)
	o.Said = map[string]string{"claimed": v.say("It counts as mended as soon as a run of a game day has shown it."), "accepted": v.say("You answer for it until the date below.")}[r.URL.Query().Get("said")]
	if !f.SeenFrom.IsZero() {
		o.SeenFrom, o.SeenUntil = Time{v.iso(f.SeenFrom), v.written(f.SeenFrom.In(v.zone), "Mon 2 Jan 15:04:05")}, v.clock(f.SeenUntil)
	}
	o.Evidence, o.Run = &Link{Name: "Evidence", Href: f.Evidence()}, &Link{Name: f.LastRun, Href: runHref(f.LastRun)}
	o.Banner = v.findingBanner(f)
	o.Facts = v.oneFindingFacts(f)
	o.Again, o.AgainLink = v.again(s, r, f)
	if f.State != finding.Verified && f.State != finding.Verifying && s.cfg.MayLift(r) {
		o.Close = findingHref(f.ID) + "/close"
	}
	if f.State != finding.Verified && s.cfg.MayGrant(r) {
		o.Accept = findingHref(f.ID) + "/accept"
		if me := s.cfg.Actor(r); me == f.Owner || me == f.ClaimedBy {
			o.Accept, o.AcceptNote = "", v.say("You own it or said that it is mended: somebody else has to answer for it.")
		}
	}
	for i := range story {
		o.Story = append(o.Story, v.storyLine(story[len(story)-1-i]))
	}
	s.show(w, v, refused.code(), "finding", Page{Title: f.ID, Topics: refused.topics(topicDrills), Crumbs: []Link{{Name: "Findings", Href: "/findings"}, {Name: f.ID}}}, o)
}

// findingBanner says what a finding does to others while it stands.
func (v view) findingBanner(f finding.Finding) *Notice {
	if !f.Overdue(v.now) {
		return nil
	}
	n := &Notice{Class: "warn", Icon: "s-warn", Lead: v.say("Overdue since %s.", v.date(f.DueAt).Text), Text: v.say("Nobody was told yet.")}
	if f.State == finding.Accepted {
		n.Lead = v.say("The risk was answered for until %s.", v.date(f.RiskUntil).Text)
	}
	if !f.EscalatedAt.IsZero() {
		n.Text = v.say("Told to %s %s.", f.Owner, v.day(f.EscalatedAt).Text)
	}
	if f.Severe() {
		n.Class, n.Icon = "emergency", "s-emergency"
		n.Text += v.say(" Releases of %s are frozen until somebody says that it is mended, or answers for it.", f.Service)
	}
	return n
}

func (v view) oneFindingFacts(f finding.Finding) []Fact {
	due := Fact{Name: "Due", Value: v.date(f.DueAt).Text, Text: sentenceCase(v.in(f.DueAt)) + "."}
	if f.Overdue(v.now) {
		due.Class = "fg-emergency"
	}
	if f.State == finding.Verified {
		due = Fact{Name: "Closed", Value: v.date(f.ClosedAt).Text, Text: v.say("Was due %s.", v.date(f.DueAt).Text)}
	}
	owner := Fact{Name: "Owner", Value: f.Owner, Text: v.say("Named by the scenario.")}
	if f.Owner == "" {
		owner.Value, owner.Class = v.say("nobody"), "fg-emergency"
	}
	came := Fact{Name: "Found", Value: v.date(f.OpenedAt).Text, Text: v.say("By %s. Never came back.", f.Run)}
	if f.Reopened > 0 {
		came.Text = v.say("By %s. Came back %s.", f.Run, v.count(f.Reopened, "time", "times"))
	}
	claimed := Fact{Name: "Mended", Value: v.say("not yet"), Class: "mute", Text: v.say("Nobody has said so.")}
	switch {
	case f.State == finding.Verified:
		claimed.Value, claimed.Class, claimed.Text = v.say("verified"), "fg-normal", v.say("It held in %s.", f.LastRun)
	case f.State == finding.Accepted:
		claimed.Value, claimed.Text = v.say("risk accepted"), v.say("By %s, until %s.", f.RiskBy, v.date(f.RiskUntil).Text)
	case f.ClaimedBy != "":
		claimed.Value, claimed.Class, claimed.Text = v.say("said to be"), "", v.say("By %s, %s.", f.ClaimedBy, v.day(f.ClaimedAt).Text)
		if f.State == finding.Reopened || f.State == finding.Open {
			claimed.Value, claimed.Class = v.say("not so"), "fg-emergency"
		}
	}
	return []Fact{due, owner, came, claimed}
}

// again says which run showed, or will show, whether it is gone.
func (v view) again(s *Server, r *http.Request, f finding.Finding) (string, *Link) {
	looked := &Link{Name: f.LastRun, Href: runHref(f.LastRun)}
	switch {
	case f.State == finding.Verified:
		return v.say("It held under the very scenario that found it, in"), looked
	case f.State == finding.Verifying:
		return v.say("A run that looks again was planned; the last that looked was"), looked
	case f.State != finding.Claimed && !f.Overdue(v.now):
		return v.say("Once somebody says that it is mended, the next game day of %s runs the scenario that found it, as it was then.", f.Service), nil
	}
	ahead, err := s.cfg.Days.Ahead(r.Context(), v.now, v.now)
	if text := s.read(v, "The schedules", err); text != "" {
		return text, nil
	}
	var next time.Time
	var link *Link
	for _, a := range ahead {
		for _, name := range a.Services {
			if name == f.Service && len(a.Next) > 0 && a.Day.Reverify && (next.IsZero() || a.Next[0].UTC.Before(next)) {
				next, link = a.Next[0].UTC, &Link{Name: a.Schedule.Title, Href: dayHref(a.Schedule.ID)}
			}
		}
	}
	if link == nil {
		return v.say("No scheduled game day of %s would look at it again: it stays so until one is held.", f.Service), nil
	}
	return v.say("It is looked at again %s, by", v.soon(next)), link
}

func (v view) storyLine(e finding.Event) LogLine {
	l := LogLine{Time: Time{v.iso(e.At), v.written(e.At.In(v.zone), "2 Jan 15:04:05")}, Text: v.say("%s: %s", v.word(strings.ReplaceAll(e.Kind, "_", " ")), v.tell(e.Text)), Actor: e.Actor}
	chip := findingState(finding.Finding{State: finding.State(e.Kind)})
	l.Class, l.Icon = chip.Class, chip.Icon
	if e.Kind == "overdue" {
		l.Class, l.Icon = "fg-emergency", "s-warn"
	}
	return l
}

func storySheet(story []finding.Event) sheet {
	s := sheet{name: "story", columns: []string{"at", "actor", "kind", "run", "text"}}
	for _, e := range story {
		s.rows = append(s.rows, []field{instant(e.At), txt(e.Actor), txt(e.Kind), txt(e.Run), txt(e.Text)})
	}
	return s
}

func (s *Server) closeFinding(w http.ResponseWriter, r *http.Request) {
	small(w, r)
	if !s.operator(w, r, "Not closed") {
		return
	}
	id := chi.URLParam(r, "key")
	if s.filled(w, r, s.finding, "close", s.cfg.FindingBell.Close, map[string]string{"id": id}, map[string]string{"note": r.PostFormValue("note")}, "Not closed") {
		http.Redirect(w, r, findingHref(id)+"?said=claimed", http.StatusSeeOther)
	}
}

func (s *Server) acceptFinding(w http.ResponseWriter, r *http.Request) {
	small(w, r)
	if !s.approver(w, r, "Not accepted") {
		return
	}
	id := chi.URLParam(r, "key")
	days := 0
	for i, t := range (lang{}).terms() {
		if t.Value == r.PostFormValue("days") {
			days = [...]int{30, 90, 180, 365}[i]
		}
	}
	if days == 0 {
		v := s.look(r)
		s.refuse(w, r, s.finding, "accept", http.StatusUnprocessableEntity, "Not accepted", v.say("For how long: must be 30, 90, 180 or 365 days, got %s.", r.PostFormValue("days")))
		return
	}
	body := struct {
		Reason string    `json:"reason"`
		Until  time.Time `json:"until"`
	}{r.PostFormValue("reason"), s.cfg.Now().UTC().AddDate(0, 0, days).Truncate(time.Second)}
	if s.filled(w, r, s.finding, "accept", s.cfg.FindingBell.Accept, map[string]string{"id": id}, body, "Not accepted") {
		http.Redirect(w, r, findingHref(id)+"?said=accepted", http.StatusSeeOther)
	}
}
