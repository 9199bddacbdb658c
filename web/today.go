package web

import (
	"time"

	"breakwater/injector"
	"breakwater/slo"
)

// today draws the day: experiments that ran or run, freezes in force with their
// way to the thaw. It is nil when there is nothing to draw.
func (s *Server) today(v view) *Today {
	from := v.midnight()
	// Not 24 hours: the day of a clock change is an hour longer or shorter.
	y, m, d := from.Date()
	to := time.Date(y, m, d+1, 0, 0, 0, 0, v.zone)
	a := axis{from: from, to: to}
	var ran, frozen []Span
	for i := range v.runs {
		r := v.runs[len(v.runs)-1-i] // oldest first, so that later labels win
		begin, end := r.StartedAt, r.EndedAt
		if begin.IsZero() {
			continue
		}
		if end.IsZero() {
			end = v.now
		}
		if end.Before(from) || begin.After(to) {
			continue
		}
		sp := v.span(a, begin, end, "f-chaos", r.Service)
		if r.State.Active() {
			sp.Text = v.say("%s, %s", r.Service, v.phase(r))
		} else if r.Verdict != "" && r.Verdict != injector.NotEvaluated {
			sp.Text = v.say("%s, %s", r.Service, v.word(string(r.Verdict)))
		}
		ran = append(ran, sp)
	}
	for _, svc := range v.services {
		st := svc.worst()
		if st.Level != slo.Frozen {
			break // worst first
		}
		since := st.FrozenAt
		if since.IsZero() {
			since = st.Since
		}
		sp := v.span(a, since, v.now, "f-frozen", svc.Name)
		sp.Until = true
		if a.x(since) > wide(svc.Name) { // to its right lies the way to the thaw
			sp.TextX, sp.Dx, sp.Anchor = sp.X, "-7", "end"
		}
		until := to
		if !st.ThawAt.IsZero() && st.ThawAt.Before(to) {
			until = st.ThawAt
		}
		if a.x(v.now)-a.x(since) > 12 { // room for the name on the bar itself
			sp.TextX, sp.Dx, sp.Anchor, sp.TextClass = sp.X, "8", "start", "inv"
		}
		sp.UntilX, sp.UntilW = pos(a.x(v.now)), pos(max(a.x(until)-a.x(v.now), 0))
		frozen = append(frozen, sp)
	}
	if len(ran) == 0 && len(frozen) == 0 && len(v.services) == 0 {
		return nil
	}
	t := &Today{Day: v.say("%s, %s", v.written(v.now.In(v.zone), "Mon 2 Jan 2006"), s.cfg.Zone.String()), Now: pos(a.x(v.now))}
	hours := s.dayLanes(v, a)
	t.Label = v.say("Today from 00:00 to 24:00: %s", v.list(v.count(len(ran), "experiment", "experiments"), v.count(len(frozen), "freeze", "freezes"),
		v.count(len(hours.days.Spans)+len(hours.days.Marks), "game day", "game days"), v.count(len(hours.deploys.Marks), "deploy", "deploys"), v.count(len(hours.incidents), "incident", "incidents")))
	if len(hours.incidents) > 0 { // most days have none
		t.crowded(v.say("Incidents"), hours.incidents)
	}
	t.lanes(hours.days)
	t.crowded(v.say("Experiments"), ran)
	t.lane(v.lang, v.say("Freezes"), frozen, 3)
	t.lanes(hours.deploys)
	t.finish()
	for i := 0; i <= 8; i++ {
		at := from.Add(to.Sub(from) * time.Duration(i) / 8)
		tick := Tick{At: pos(a.x(at)), Text: at.In(v.zone).Format("15:04"), Anchor: "middle", Wide: i%2 == 1}
		switch i {
		case 0:
			tick.Anchor = "start"
		case 8:
			tick.Anchor, tick.Text = "end", "24:00"
		}
		t.Hours = append(t.Hours, tick)
	}
	t.Next = hours.next
	return t
}

// span places a stretch with its words on the side that has room.
func (v view) span(a axis, begin, end time.Time, class, text string) Span {
	st := a.stretch(begin, end)
	sp := Span{Class: class, X: st.X, W: st.W, Text: text, TextX: st.End, Dx: "7", Anchor: "start", TextClass: "on"}
	if a.x(end) > 50 {
		sp.TextX, sp.Dx, sp.Anchor = st.X, "-7", "end"
	}
	return sp
}

// crowded adds a line of many; only the last of their labels is kept, since they would
// lie on one another, and the runs page has them all.
func (t *Today) crowded(name string, spans []Span) {
	for i := range spans {
		if i < len(spans)-1 {
			spans[i].Text = ""
		}
	}
	t.Lanes = append(t.Lanes, Lane{Name: name, Spans: spans})
}

// lane gives each span a line of its own; those beyond rows are counted.
func (t *Today) lane(l lang, name string, spans []Span, rows int) {
	if len(spans) == 0 {
		t.Lanes = append(t.Lanes, Lane{Name: name})
	}
	for i, sp := range spans {
		if i == rows-1 && len(spans) > rows {
			sp.Text = l.say("and %s more", slo.Count(int64(len(spans)-i)))
		}
		line := Lane{Spans: []Span{sp}}
		if i == 0 {
			line.Name = name
		}
		t.Lanes = append(t.Lanes, line)
		if i == rows-1 {
			return
		}
	}
}

// finish gives each lane its height.
func (t *Today) finish() {
	n := float64(len(t.Lanes))
	heights := []string{"h72", "h72", "h72", "h96", "h120", "h160", "h200"}
	t.Height = heights[min(len(t.Lanes), len(heights)-1)]
	for i := range t.Lanes {
		l := &t.Lanes[i]
		l.Y = pos((float64(i) + 0.5) * 100 / n)
		for j := range l.Spans {
			sp := &l.Spans[j]
			sp.Y, sp.H, sp.TextY = pos((float64(i)+0.24)*100/n), pos(52/n), l.Y
		}
	}
}
