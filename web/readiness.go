package web

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"breakwater/injector/readiness"
	"breakwater/slo"
)

// Readiness is what the pages need of the fifteen questions.
type Readiness interface {
	// Look is how ready each service was day by day, by name; "" means all.
	Look(ctx context.Context, service string, since time.Time) ([]readiness.Trend, error)
	// Glance is Look at all with the States of the last days alone.
	Glance(ctx context.Context, since time.Time) ([]readiness.Trend, error)
	// Assess answers the questions for one service now.
	Assess(ctx context.Context, service string) ([]readiness.Answer, error)
}

// ReadyBell takes what people answer: the handler of the API.
type ReadyBell interface {
	Answer(w http.ResponseWriter, r *http.Request)
}

type readinessView struct {
	Sub, Trouble string
	Groups       []ReadyGroup
	Items        []ReadyItem
	Rows         []ReadyRow
	Sum          []string // of each item, how many services say yes
	Find, AsOf   string
	Take         Take
	More         Link
}

// ReadyGroup heads its items.
type ReadyGroup struct {
	Name string
	N    int
}

// ReadyItem is one question, as a column.
type ReadyItem struct{ ID, Question, Short string }

// ReadyRow is one service.
type ReadyRow struct {
	Name, Href, Of, Gained, GainedClass string
	Cells                               []ReadyCell
	Bar                                 Bar
	Spark                               Spark
	Ready                               int
}

// ReadyCell is one answer. There are thousands on a page: the template knows what stands
// in each of the three kinds.
type ReadyCell struct{ Href, Class string }

const (
	readyDays  = 90
	mostReady  = 60
	readyShows = 2000
)

// itemWords are short names of the questions, for columns.
func (l lang) itemWords(id string) string {
	words := map[string]string{"contract-check": "contract checked", "error-codes": "error codes", "sli": "SLI", "slo": "SLO", "retry-count": "retry count", "budget-review": "budget review"}
	return l.word(cmp.Or(words[id], strings.ReplaceAll(id, "-", " ")))
}

func (s *Server) readiness(w http.ResponseWriter, r *http.Request) {
	v := s.look(r)
	all, err := s.glance(r.Context(), v.now)
	o := readinessView{Trouble: s.read(v, "Readiness", err), Find: strings.TrimSpace(r.URL.Query().Get("q"))}
	find := strings.ToLower(o.Find)
	drawn := slices.DeleteFunc(slices.Clone(all), func(t readyTrend) bool {
		return !s.cfg.Covers(r, t.Service) || !strings.Contains(strings.ToLower(t.Service), find)
	})
	trends := make([]readiness.Trend, len(drawn))
	for i, t := range drawn {
		trends[i] = t.Trend
	}
	if s.exported(w, v, readySheet(trends), trendSheet(trends)) {
		return
	}
	o.Take = take(r, "readiness")
	o.Groups, o.Items = v.readyItems()
	yes, looked, ready := map[string]int{}, 0, 0
	var oldest time.Time
	for _, t := range trends {
		d := newest(t)
		if d.At.IsZero() {
			continue
		}
		looked++
		if oldest.IsZero() || d.At.Before(oldest) {
			oldest = d.At
		}
		if d.Of > 0 && d.Ready == d.Of {
			ready++
		}
		for id, state := range d.States {
			if state == readiness.Yes {
				yes[id]++
			}
		}
	}
	for _, x := range o.Items {
		o.Sum = append(o.Sum, slo.Count(int64(yes[x.ID])))
	}
	limit := mostReady
	if r.URL.Query().Get("all") == "1" {
		limit = readyShows
	}
	for _, t := range drawn[:min(len(drawn), limit)] {
		o.Rows = append(o.Rows, v.readyRow(t))
	}
	if n := len(trends); n > len(o.Rows) {
		o.More = Link{Name: v.say("Show all %s", slo.Count(int64(n))), Href: with(r, "all", "1")}
	}
	o.Sub = v.say("%s, the least ready first; %s with all %d.", v.count(len(trends), "service", "services"), slo.Count(int64(ready)), len(o.Items))
	if looked > 0 {
		o.AsOf = v.say("Each service as it was looked at last, %s or later.", v.short(oldest).Text)
	}
	s.show(w, v, http.StatusOK, "readiness", Page{Title: "Readiness", Topics: topicLedger, Crumbs: []Link{{Name: "Readiness"}}}, o)
}

// readyTrend is a trend with its line, which is the same for every reader.
type readyTrend struct {
	readiness.Trend
	Spark Spark
}

// readyKept is how long the quarter of all services is kept: they are looked at once in
// a while, and the page says when.
const readyKept = 5 * time.Second

// glance is how ready all services were, the least ready first; who was not looked at yet
// is not known to be ready. What a reader may not see is theirs to leave out.
func (s *Server) glance(ctx context.Context, now time.Time) ([]readyTrend, error) {
	all, _, err := s.quarter.get(now.UTC().Format(time.DateOnly), now, func() ([]readyTrend, error) {
		trends, err := s.cfg.Readiness.Glance(ctx, now.AddDate(0, 0, 1-readyDays))
		out := make([]readyTrend, len(trends))
		for i, t := range trends {
			out[i] = readyTrend{t, readySpark(t, now)}
		}
		slices.SortStableFunc(out, func(a, b readyTrend) int {
			return cmp.Or(newest(a.Trend).Ready-newest(b.Trend).Ready, strings.Compare(a.Service, b.Service))
		})
		return out, err
	})
	return all, err
}

// newest is the last day of t, a day without answers where there is none.
func newest(t readiness.Trend) readiness.Day {
	if len(t.Days) == 0 {
		return readiness.Day{}
	}
	return t.Days[len(t.Days)-1]
}

// readyItems are the questions in their order, with their groups.
func (l lang) readyItems() (groups []ReadyGroup, items []ReadyItem) {
	for _, a := range readiness.Assess(readiness.Facts{}) {
		items = append(items, ReadyItem{ID: a.ID, Question: l.word(a.Question), Short: l.itemWords(a.ID)})
		if n := len(groups); n == 0 || groups[n-1].Name != l.word(a.Group) {
			groups = append(groups, ReadyGroup{Name: l.word(a.Group)})
		}
		groups[len(groups)-1].N++
	}
	return groups, items
}

func (v view) readyRow(t readyTrend) ReadyRow {
	d := newest(t.Trend)
	row := ReadyRow{Name: t.Service, Href: readyHref(t.Service), Of: v.say("not looked at"), Ready: d.Ready, Bar: Bar{Class: "f-hatch", Width: "100", Size: "thin", Label: v.say("no data")}, Spark: t.Spark}
	if d.Of > 0 {
		row.Of = slo.Count(int64(d.Ready)) + "/" + slo.Count(int64(d.Of))
		row.Bar = Bar{Class: "f-c1", Width: pos(100 * float64(d.Ready) / float64(d.Of)), Size: "thin", Label: row.Of}
	}
	if len(t.Days) > 1 {
		switch n := t.Gained(); {
		case n > 0:
			row.Gained, row.GainedClass = "+"+strconv.Itoa(n), "fg-normal"
		case n < 0:
			row.Gained, row.GainedClass = "−"+strconv.Itoa(-n), "fg-emergency"
		default:
			row.Gained, row.GainedClass = "±0", "mute"
		}
	}
	for _, id := range readiness.Items() {
		mark := stateMark(d.States[id])
		row.Cells = append(row.Cells, ReadyCell{Href: row.Href + "#" + id, Class: mark.Class})
	}
	return row
}

// readySpark draws how many answers were yes, day by day; a day on which nobody
// looked is a gap.
func readySpark(t readiness.Trend, now time.Time) Spark {
	values := make([]int, readyDays)
	for i := range values {
		values[i] = -1
	}
	of := 1
	first := now.UTC().AddDate(0, 0, 1-readyDays).Format(time.DateOnly)
	from, err := time.Parse(time.DateOnly, first)
	if err != nil {
		return Spark{}
	}
	for _, d := range t.Days {
		if at, err := time.Parse(time.DateOnly, d.Day); err == nil {
			if i := int(at.Sub(from) / (24 * time.Hour)); i >= 0 && i < readyDays {
				values[i], of = d.Ready, max(of, d.Of)
			}
		}
	}
	return stepSpark(values, of)
}

// stepSpark draws values from 0 to most; -1 is no data.
func stepSpark(values []int, most int) Spark {
	s := Spark{Class: "c1", One: "0"}
	var line strings.Builder
	wide := 104.0 / float64(len(values))
	pen := false
	for i, n := range values {
		if n < 0 {
			pen = false
			continue
		}
		y := pos(28 - 26*float64(n)/float64(most))
		verb := "L"
		if !pen {
			verb = "M"
		}
		line.WriteString(verb + pos(float64(i)*wide) + " " + y + "H" + pos(float64(i+1)*wide))
		pen = true
	}
	s.Line = line.String()
	return s
}

type readyView struct {
	Service, ServiceHref, Sub, Said string
	Facts                           []Fact
	Items                           []CheckItem
	Chart                           *Chart
	ChartTrouble                    string
	Changes                         []LogLine
	Take, TakeDays                  Take
	Refused                         Refused
}

func (s *Server) ready(w http.ResponseWriter, r *http.Request, refused Refused) {
	v := s.look(r)
	name := chi.URLParam(r, "service")
	known := slices.ContainsFunc(v.services, func(x service) bool { return x.Name == name })
	trends, err := s.cfg.Readiness.Look(r.Context(), name, v.now.AddDate(0, 0, 1-readyDays))
	trouble := s.read(v, "The days before", err)
	var t readiness.Trend
	if len(trends) > 0 {
		t = trends[0]
	}
	if !s.cfg.Covers(r, name) || !known && len(t.Days) == 0 && trouble == "" {
		s.trouble(w, v, http.StatusNotFound, v.say("No service %s", name), "No document and no objective names a service of this name, or your token does not cover it.")
		return
	}
	all, err := s.cfg.Readiness.Assess(r.Context(), name)
	if text := s.read(v, "The answers", err); text != "" {
		s.trouble(w, v, http.StatusServiceUnavailable, v.say("Readiness of %s", name), v.text(text, v.say("Control asks the database again by itself.")))
		return
	}
	if s.exported(w, v, answerSheet(name, all), trendSheet(trends)) {
		return
	}
	o := readyView{Service: name, ServiceHref: serviceHref(name), Sub: v.say("%s answered with yes. What the system can know is computed; the rest people answer, with evidence, and their answer grows old.", v.readyWords(all)),
		Items: v.checkItems(name, all), ChartTrouble: trouble, Take: take(r, "answers"), TakeDays: take(r, "trend"), Refused: refused}
	o.Said = map[string]string{"answered": v.say("Your answer counts for 180\u202fd.")}[r.URL.Query().Get("said")]
	if s.cfg.MayLift(r) || s.cfg.MayGrant(r) {
		for i := range o.Items {
			if o.Items[i].ByHand && o.Items[i].Mark.Text != "no" || o.Items[i].ByHand && o.Items[i].By != "" {
				o.Items[i].Answer = readyHref(name)
			}
		}
	}
	for i := range o.Items {
		x := &o.Items[i]
		x.Anchor, x.Wrong, x.Typed = x.ID, refused.Of(x.ID), refused.Get(x.ID, "evidence")
	}
	o.Facts = v.readyFacts(all, t)
	if trouble == "" {
		o.Chart = v.readyChart(t)
	}
	for _, c := range t.Changes[:min(len(t.Changes), 20)] {
		mark := stateMark(c.To)
		o.Changes = append(o.Changes, LogLine{Time: Time{c.Day, c.Day}, Class: mark.Class, Icon: mark.Icon, Text: v.say("%s: %s to %s", v.itemWords(c.Item), v.word(string(c.From)), v.word(string(c.To)))})
	}
	s.show(w, v, refused.code(), "ready", Page{Title: v.say("Readiness of %s", name), Topics: refused.topics(topicLedger), Crumbs: []Link{{Name: "Readiness", Href: "/readiness"}, {Name: name}}}, o)
}

func (s *Server) answerReady(w http.ResponseWriter, r *http.Request) {
	small(w, r)
	if !s.helper(w, r, phrase("Not answered")) {
		return
	}
	name := chi.URLParam(r, "service")
	item := r.PostFormValue("item")
	body := map[string]any{"item": item, "yes": r.PostFormValue("yes") == "yes", "evidence": r.PostFormValue("evidence")}
	if s.filled(w, r, s.ready, item, s.cfg.ReadyBell.Answer, map[string]string{"service": name}, body, "Not answered") {
		http.Redirect(w, r, readyHref(name)+"?said=answered#"+url.QueryEscape(item), http.StatusSeeOther)
	}
}
