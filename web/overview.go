package web

import (
	"net/http"
	"strings"
	"time"

	"breakwater/injector"
	"breakwater/slo"
)

type overviewView struct {
	Title, Sub, Filter string
	Tiles              []Tile
	Today              *Today
	Services           []Card
	Empty              bool
	Views              []Link
	Clear              string
	Table              bool
	Take               Take
	Setup              *SetupOffer
	More               Link
}

// Tile counts the services in one state and filters by it.
type Tile struct {
	Chip
	Href, Count string
	Here        bool
}

// Card is one service of the grid.
type Card struct {
	Name, Href        string
	Chip              Chip
	Left, LeftSmall   string
	LeftMute          bool
	Burn, BurnClass   string
	Firing            string
	Spark             Spark
	Bar               Bar
	Objectives, Fresh string
	Run               string
	Success, Owner    string
}

// Today is the strip of the day: what ran, what was frozen.
type Today struct {
	Day, Next string
	Label     string
	Lanes     []Lane
	Hours     []Tick
	Now       string
	Height    string
}

// Lane is one line of the strip.
type Lane struct {
	Name, Y string
	Spans   []Span
	Marks   []DayMark
}

// Span is a stretch of a lane with its words beside it; Until is the striped
// part after now, up to the thaw.
type Span struct {
	Class, X, W, Y, H     string
	Text, TextX, TextY    string
	Anchor, Dx, TextClass string
	Until                 bool
	UntilX, UntilW        string
}

func (s *Server) overview(w http.ResponseWriter, r *http.Request) {
	v := s.lookAtRuns(r)
	query := r.URL.Query()
	state, find := query.Get("state"), strings.ToLower(strings.TrimSpace(query.Get("q")))
	o := overviewView{Title: v.say("Overview"), Empty: len(v.services) == 0, Table: query.Get("view") == "table"}
	counts := map[string]int{}
	var shown []service
	for _, svc := range v.services {
		word := statusChip(svc.worst()).Text
		counts[word]++
		if (state == "" || state == word) && strings.Contains(strings.ToLower(svc.Name), find) {
			shown = append(shown, svc)
		}
	}
	if s.exported(w, v, serviceSheet(shown)) {
		return
	}
	o.Take = take(r, "services")
	for _, word := range alarms {
		chip := levelChip(slo.Level(word), word == "no data")
		chip.Class = "fg-" + map[bool]string{true: "unknown", false: chip.Class}[word == "no data"]
		t := Tile{Chip: chip, Count: slo.Count(int64(counts[word])), Href: with(r, "state", word), Here: state == word}
		if t.Here {
			t.Href = with(r, "state", "")
		}
		o.Tiles = append(o.Tiles, t)
	}
	few, more := bounded(v, shown, mostListed)
	for _, svc := range few {
		o.Services = append(o.Services, v.card(svc))
	}
	o.More = more
	o.Sub = v.say("%s, worst first.", v.count(len(v.services), "service", "services"))
	if o.Empty {
		o.Sub = v.say("No service yet.")
	}
	if until := v.dataUntil(); until.Text != "" {
		o.Sub = v.text(o.Sub, v.say("Data until %s.", until.Text))
	}
	if state != "" || find != "" {
		filter := []string{v.say("%s of %s", v.count(len(shown), "service", "services"), slo.Count(int64(len(v.services))))}
		if state != "" {
			filter = append(filter, v.word(state))
		}
		if find != "" {
			filter = append(filter, v.say("name with “%s”", find))
		}
		o.Filter = v.list(filter...)
		o.Clear = "/"
	}
	o.Views = []Link{
		{Name: "Grid", Href: with(r, "view", ""), Here: !o.Table},
		{Name: "Table", Href: with(r, "view", "table"), Here: o.Table},
		{Name: "Wall", Href: with(r, "tv", "1")},
	}
	o.Today, o.Setup = s.today(v), s.setupOffer(v)
	s.show(w, v, http.StatusOK, "overview", Page{Title: "Overview", Crumbs: []Link{{Name: "Overview"}}}, o)
}

func (v view) card(svc service) Card {
	st := svc.worst()
	c := Card{Name: svc.Name, Href: serviceHref(svc.Name), Chip: statusChip(st), Spark: spark(st), Bar: v.budgetBar(st, "thin"), Owner: st.Objective.Owner}
	c.Left, c.LeftSmall, c.LeftMute = v.left(st)
	c.Success = slo.Share(st.Budget.Tally.Good, st.Budget.Valid)
	if b, ok := burn(st, time.Hour); ok {
		c.Burn, c.BurnClass = slo.Rate(b), "soft"
		if b.RateMilli > 1000 {
			c.BurnClass = "fg-warn"
		}
		if b.NoData {
			c.Burn, c.BurnClass = v.say("no data"), "mute"
		}
	}
	if n := len(svc.Statuses); n > 1 {
		c.Objectives = v.say("worst of %s", v.count(n, "objective", "objectives"))
	} else {
		c.Objectives = v.say("%s over %s", slo.Target(st.Objective.TargetPPB), v.lasting(st.Objective.Window))
	}
	if svc.Run != nil {
		c.Run = v.stage(*svc.Run)
	}
	return c
}

// stage is where a run stands, without how long that will take: "inject 7:12".
func (v view) stage(r injector.Run) string {
	switch r.State {
	case injector.Baseline:
		return v.say("baseline %s", clock(v.now.Sub(r.BaselineAt)))
	case injector.Injecting:
		return v.say("inject %s", clock(v.now.Sub(r.InjectAt)))
	case injector.Recovering:
		return v.say("recover %s", clock(v.now.Sub(r.RecoverAt)))
	}
	return v.phase(r)
}

// amount is what a promise counts: events, or time.
func (l lang) amount(o slo.Objective, n int64) string {
	if o.Unit() == "time" {
		return l.lasting(time.Duration(n) * time.Microsecond)
	}
	return o.Amount(n)
}

// left is what a budget still holds, in its two sizes of type.
func (l lang) left(st *slo.Status) (big, small string, mute bool) {
	b := st.Budget
	switch {
	case b.NoData:
		return "–", l.say("no request in %s", l.lasting(st.Objective.Window)), true
	case b.Remaining < 0:
		return slo.Percent(b.RemainingPPM), l.say("%s over %v", l.amount(st.Objective, -b.Remaining), l.amount(st.Objective, b.Allowed)), false
	}
	return slo.Percent(b.RemainingPPM), l.say("%s of %s left", l.amount(st.Objective, b.Remaining), l.amount(st.Objective, b.Allowed)), false
}

func burn(st *slo.Status, window time.Duration) (slo.Burn, bool) {
	for _, b := range st.Burns {
		if b.Window == window {
			return b, true
		}
	}
	return slo.Burn{}, false
}
