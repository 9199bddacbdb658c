package web

import (
	"cmp"
	"slices"
	"strconv"

	"breakwater/slo"
)

// DayMark is one instant of a lane, by its shape.
type DayMark struct{ X, Class, D, Text string }

// The shapes: a deploy is a triangle on its line, a game day a bolt.
const (
	deployShape = "M0 -5 5 4H-5z"
	boltShape   = "M1.4 -6.5 -4 .5h3l-.8 5L4.4 -1.6H.9z"
)

// dayHours are the lanes of the day that come from game days and from marks.
type dayHours struct {
	incidents     []Span
	days, deploys Lane
	next          string
}

// lanes adds a lane that holds marks.
func (t *Today) lanes(l Lane) { t.Lanes = append(t.Lanes, l) }

// dayLanes reads what was held, comes and was marked today. What cannot be read is
// left out: the page of game days says so.
func (s *Server) dayLanes(v view, a axis) dayHours {
	ctx := v.r.Context()
	h := dayHours{days: Lane{Name: v.say("Game days")}, deploys: Lane{Name: v.say("Deploys")}}
	ahead, err := s.cfg.Days.Ahead(ctx, v.now, a.to)
	_ = s.read(v, "Game days", err)
	held, err := s.cfg.Days.Held(ctx)
	_ = s.read(v, "Game days", err)
	d := daybook{view: v, ahead: ahead, held: held}
	for _, x := range held {
		if x.StartedAt.IsZero() || x.PlannedAt.Before(a.from) || !x.PlannedAt.Before(a.to) {
			continue
		}
		end := x.EndedAt
		if end.IsZero() {
			end = v.now
		}
		h.days.Spans = append(h.days.Spans, v.span(a, x.PlannedAt, end, "f-chaos", cmp.Or(x.Title, x.Name)))
	}
	slices.Reverse(h.days.Spans) // oldest first, so that later labels win
	for i := range h.days.Spans[:max(len(h.days.Spans)-1, 0)] {
		h.days.Spans[i].Text = ""
	}
	coming := d.coming(a)
	for i, x := range coming {
		m := DayMark{X: pos(a.x(x.at)), Class: "f-chaos", D: boltShape, Text: x.title}
		if x.cut {
			m.Class, m.Text = "f-unknown", v.say("%s, will be skipped", x.title)
		}
		room := 100 - a.x(x.at)
		if i+1 < len(coming) {
			room = a.x(coming[i+1].at) - a.x(x.at)
		}
		if wide(m.Text) > room {
			m.Text = ""
		}
		h.days.Marks = append(h.days.Marks, m)
	}
	// What was held last says so where no mark lies under its words.
	if n := len(h.days.Spans); n > 0 && len(coming) > 0 {
		sp := &h.days.Spans[n-1]
		if end := a.x(v.now); sp.Anchor == "start" && end+wide(sp.Text) > a.x(coming[0].at) {
			if begin, err := strconv.ParseFloat(sp.X, 64); err == nil && begin > wide(sp.Text) {
				sp.TextX, sp.Dx, sp.Anchor = sp.X, "-7", "end"
				if begin < onPhone*wide(sp.Text) { // there it would lie on the name of the lane
					sp.TextClass += " wider"
				}
			} else {
				sp.Text = ""
			}
		}
	}
	h.next = d.nextSentence()
	marks, err := s.cfg.Days.Marks(ctx, a.from, a.to)
	_ = s.read(v, "Deploys", err)
	room := 100.0 // up to the next deploy, from the newest on
	for _, c := range marks {
		if !s.cfg.Covers(v.r, c.Service) {
			continue
		}
		if c.Kind == slo.ByIncident {
			end := c.To
			if end.IsZero() {
				end = v.now
			}
			h.incidents = append(h.incidents, v.span(a, c.From, end, "f-emergency", c.Ref+" "+c.Service))
			continue
		}
		at := a.x(c.From)
		m := DayMark{X: pos(at), Class: "mark-fill", D: deployShape, Text: c.Service + " " + c.Ref}
		if wide(m.Text) > room-at {
			m.Text = ""
		}
		room = at
		h.deploys.Marks = append(h.deploys.Marks, m)
	}
	slices.Reverse(h.deploys.Marks)
	slices.Reverse(h.incidents)
	return h
}

// onPhone is how much more of its width a label takes on a phone than on a desk.
const onPhone = 4

// wide is about how much of the day's width a label takes, in percent: a Chinese
// character takes two letters' room.
func wide(text string) float64 {
	letters := 0
	for _, r := range text {
		if letters++; han(r) {
			letters++
		}
	}
	return 2 + 0.72*float64(letters)
}

// coming are the due instants of the rest of the day, oldest first.
func (d daybook) coming(a axis) []happening {
	var out []happening
	for _, x := range d.ahead {
		for _, c := range x.Coming {
			if c.UTC.After(d.now) && c.UTC.Before(a.to) {
				out = append(out, happening{at: c.UTC, title: cmp.Or(x.Schedule.Title, x.Schedule.ID), cut: d.barred(x, c) != ""})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b happening) int { return a.at.Compare(b.at) })
	return out[:min(len(out), 60)]
}

// nextSentence is about the game day that comes next.
func (d daybook) nextSentence() string {
	text, soonest := "", d.now
	for _, x := range d.ahead {
		if len(x.Next) == 0 {
			continue
		}
		if c := x.Next[0]; text == "" || c.UTC.Before(soonest) {
			soonest = c.UTC
			text = d.say("Next: %s, %s", cmp.Or(x.Schedule.Title, x.Schedule.ID), d.soon(c.UTC))
			if why := d.barred(x, c); why != "" {
				text = d.say("%s; will be skipped, %s", text, why)
			}
		}
	}
	return text
}

// next is the same sentence, for pages that show no day.
func (s *Server) next(v view) string {
	ahead, err := s.cfg.Days.Ahead(v.r.Context(), v.now, v.now)
	if err != nil {
		return ""
	}
	return daybook{view: v, ahead: ahead}.nextSentence()
}
