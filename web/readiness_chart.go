package web

import (
	"math"
	"strconv"
	"time"

	"breakwater/injector/readiness"
	"breakwater/slo"
)

func (l lang) readyFacts(all []readiness.Answer, t readiness.Trend) []Fact {
	n := map[readiness.State]int{}
	byHand := 0
	for _, a := range all {
		n[a.State]++
		if a.ByHand && a.State == readiness.Unknown {
			byHand++
		}
	}
	count := func(k int) string { return slo.Count(int64(k)) }
	no := Fact{Name: "No", Value: count(n[readiness.No]), Text: l.say("Each says what is missing.")}
	if n[readiness.No] > 0 {
		no.Class = "fg-emergency"
	}
	gained := Fact{Name: "Trend", Value: l.say("no data"), Class: "mute", Text: l.say("It was looked at on one day or none yet.")}
	if len(t.Days) > 1 {
		first := t.Days[0]
		gained.Value, gained.Class, gained.Text = "±0", "", l.say("Since %s, when it was %s of %s.", first.Day, count(first.Ready), count(first.Of))
		if g := t.Gained(); g > 0 {
			gained.Value, gained.Class = "+"+count(g), "fg-normal"
		} else if g < 0 {
			gained.Value, gained.Class = "−"+count(-g), "fg-emergency"
		}
	}
	return []Fact{{Name: "Ready", Value: l.readyWords(all), Text: l.say("Answers that are yes.")}, no,
		{Name: "Unknown", Value: count(n[readiness.Unknown]), Text: l.count(byHand, "of them waits for a person.", "of them wait for a person.")}, gained}
}

// readyChart draws n of fifteen, day by day; nil: there are no two days yet.
func (v view) readyChart(t readiness.Trend) *Chart {
	if len(t.Days) < 2 {
		return nil
	}
	byDay := map[string]readiness.Day{}
	top := 1
	for _, d := range t.Days {
		byDay[d.Day] = d
		top = max(top, d.Of)
	}
	today, _ := time.Parse(time.DateOnly, v.now.UTC().Format(time.DateOnly)) // what was just written can be read
	first, err := time.Parse(time.DateOnly, t.Days[0].Day)
	if err != nil {
		return nil
	}
	a := axis{from: first, to: today, min: 0, max: float64(top)}
	if !a.to.After(a.from) {
		return nil
	}
	var at []time.Time
	var ready []float64
	c := &Chart{ID: "trend", Height: "h200", Columns: []string{v.say("Yes"), v.say("No"), v.say("Unknown")}, X: v.times(a), Label: v.say("Answers that are yes, day by day")}
	ticks := []float64{0, 5, 10, 15}
	for _, x := range ticks {
		if x <= a.max {
			c.Y = append(c.Y, Tick{At: pos(a.y(x)), Text: strconv.Itoa(int(x))})
		}
	}
	for day := first; !day.After(today); day = day.AddDate(0, 0, 1) {
		row := Row{Time: Time{v.iso(day), v.written(day, "Mon 2 Jan 2006")}, Cells: []Cell{{"", v.say("no data"), true}, {"", "–", true}, {"", "–", true}}}
		y := math.NaN()
		if d, ok := byDay[day.Format(time.DateOnly)]; ok {
			y = float64(d.Ready)
			row.Cells = []Cell{{strconv.Itoa(d.Ready), slo.Count(int64(d.Ready)), false}, {"", slo.Count(int64(d.No)), d.No == 0}, {"", slo.Count(int64(d.Unknown)), d.Unknown == 0}}
		}
		at, ready = append(at, day), append(ready, y)
		c.Rows = append(c.Rows, row)
	}
	line, area := a.path(at, ready, 0)
	c.Area, c.Lines, c.Gaps = area, []Line{{"c1", line}}, a.gaps(at, ready, 12*time.Hour)
	c.Legend = []Key{{Class: "c1", Text: v.say("yes, of %d", top), Line: true}}
	if len(c.Gaps) > 0 {
		c.Legend = append(c.Legend, Key{Class: "f-hatch", Text: v.say("no data")})
	}
	sp := spec{From: a.from.Unix(), To: a.to.Unix(), Min: a.min, Max: a.max, Ticks: ticks, Bands: [][2]int64{}, Limits: []specLimit{}, Series: []series{{Label: v.say("Yes"), Color: "--c1", Area: true}}}
	c.Spec = sp.json()
	c.Summary = v.say("%s in the days shown; a day on which nobody could look is a gap.", v.count(len(t.Changes), "answer has changed", "answers have changed"))
	return c
}

func readySheet(all []readiness.Trend) sheet {
	s := sheet{name: "readiness", columns: append([]string{"service", "at", "ready", "of"}, readiness.Items()...)}
	for _, t := range all {
		d := newest(t)
		row := []field{txt(t.Service), instant(d.At), num(int64(d.Ready)), num(int64(d.Of))}
		for _, id := range readiness.Items() {
			state := d.States[id]
			if state == "" {
				state = readiness.Unknown
			}
			row = append(row, txt(string(state)))
		}
		s.rows = append(s.rows, row)
	}
	return s
}

func trendSheet(all []readiness.Trend) sheet {
	s := sheet{name: "trend", columns: []string{"service", "day", "ready", "no", "unknown", "of"}}
	for _, t := range all {
		for _, d := range t.Days {
			s.rows = append(s.rows, []field{txt(t.Service), txt(d.Day), num(int64(d.Ready)), num(int64(d.No)), num(int64(d.Unknown)), num(int64(d.Of))})
		}
	}
	return s
}

func answerSheet(service string, all []readiness.Answer) sheet {
	s := sheet{name: "answers", columns: []string{"service", "item", "group", "question", "state", "text", "evidence", "by", "at"}}
	for _, a := range all {
		s.rows = append(s.rows, []field{txt(service), txt(a.ID), txt(a.Group), txt(a.Question), txt(string(a.State)), txt(a.Text), txt(a.Evidence), txt(a.By), instant(a.At)})
	}
	return s
}
