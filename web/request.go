package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/go-chi/chi/v5"

	"breakwater/gateway/explain"
	"breakwater/internal/retrylog"
	"breakwater/slo"
	"breakwater/slo/request"
)

type requestView struct {
	ID, Sub, Story, SimHref, EventHref string
	Chip                               Chip
	Facts                              []Fact
	X                                  []Tick // of the waterfall
	Falls                              []FallRow
	Rest                               string
	Explained                          *Explained
	ExplainTrouble                     string
	Fields                             []Pair
	Others                             []RequestRow
	Take                               Take
}

// Pair is a name with its value.
type Pair struct{ Name, Value, Href string }

// FallRow is one try of the waterfall; positions are percent of the whole.
type FallRow struct {
	Name, Endpoint, Ended, Took, Wait string
	WaitX, WaitW                      string // "": it did not wait
	X, W, Class, Label                string
	Why, Reason, Fault, FaultHref     string
	Mark                              Chip
}

// Explained is what the engine says of a request, try by try.
type Explained struct {
	Title, Policy, Answer, Revision string
	Tries                           []ExplainedTry
	Notes                           []string
}

// ExplainedTry is one try with the conditions and gates in the order in which they
// were asked.
type ExplainedTry struct {
	Name, Ends, Why, Recorded string
	Differs                   bool
	Mark                      Chip
	Steps                     []StepRow
}

// StepRow is one condition or gate.
type StepRow struct {
	Head, Words string
	OK, No      bool   // No: it is why no further try was made
	Said        string // that this one made the decision
}

// request shows one exchange: its tries with their waits, and why.
func (s *Server) request(w http.ResponseWriter, r *http.Request) {
	v, id := s.look(r), pathValue(r, "id")
	rows, err := s.cfg.Requests.Request(r.Context(), id)
	if err != nil {
		s.trouble(w, v, http.StatusServiceUnavailable, "The log cannot be read", s.read(v, "The row of this request", err))
		return
	}
	var mine []request.Row
	for _, row := range rows {
		if s.coversRow(r, row.Exchange.Service) {
			mine = append(mine, row)
		}
	}
	if len(mine) == 0 {
		s.trouble(w, v, http.StatusNotFound, v.say("No request %s", short(id, 60)), "No row has this id. A plain success leaves none of its own; rows of others are kept for 7 days, and one can come up to a few seconds after the request.")
		return
	}
	x := &mine[0].Exchange
	for i := range mine {
		if mine[i].Gateway == r.URL.Query().Get("gateway") {
			x = &mine[i].Exchange
		}
	}
	page := requestView{ID: x.RequestID, Chip: exchangeChip(x), Story: v.storyOf(x), Take: take(r, "tries"),
		SimHref: "/simulator?" + url.Values{"event": {x.RequestID}}.Encode(), EventHref: "/api/v1/events/" + url.PathEscape(x.RequestID)}
	page.Sub = v.say("%s on %s, at %s, %s", cmp.Or(x.Method, v.say("a request")), x.Route, x.Gateway, v.day(x.End).Text)
	if s.exported(w, v, trySheet(x)) {
		return
	}
	page.Facts = v.requestFacts(x)
	page.waterfall(v.lang, x)
	page.Fields = v.requestFields(x)
	for i := range mine {
		if other := &mine[i].Exchange; other != x {
			row := v.requestRow(other)
			row.Href += "?" + url.Values{"gateway": {other.Gateway}}.Encode()
			row.Of = other.Gateway
			page.Others = append(page.Others, row)
		}
	}
	if len(x.Tries) > 0 {
		page.Explained, page.ExplainTrouble = s.explainRow(r.Context(), v, x, x.Revision)
	}
	s.show(w, v, http.StatusOK, "request", Page{Title: v.say("Request %s", short(x.RequestID, 40)), Topics: still, Crumbs: []Link{{Name: "Requests", Href: "/requests"}, {Name: short(x.RequestID, 40)}}}, page)
}

// pathValue is a parameter of the path as it was meant: chi matches the escaped path
// where that differs from the usual form.
func pathValue(r *http.Request, name string) string {
	text := chi.URLParam(r, name)
	if r.URL.RawPath == "" {
		return text
	}
	if plain, err := url.PathUnescape(text); err == nil {
		return plain
	}
	return text
}

func (v view) requestFacts(x *retrylog.Exchange) []Fact {
	told := Fact{Name: "The client was told", Value: v.say("nothing"), Class: "mute", Text: v.say("No answer was sent.")}
	if x.Status != 0 {
		told = Fact{Name: "The client was told", Value: fmt.Sprint(x.Status), Text: v.say("%s, made by the %s.", http.StatusText(x.Status), v.word(cmp.Or(x.Origin, "gateway")))}
		if x.Status >= 500 {
			told.Class = "fg-emergency"
		}
	}
	if x.Degraded != "" {
		told.Text = v.say("Made by the fallback %s.", spaced(x.Degraded))
	}
	var tried int64
	for _, t := range x.Tries {
		tried += t.LatencyUS
	}
	spent := v.say("%s of it in tries, %s waiting between them.", micros(float64(tried)), micros(float64(x.RetryWaitMS)*1000))
	switch {
	case len(x.Tries) == 0:
		spent = v.say("All of it at the gateway.")
	case x.RetryWaitMS == 0:
		spent = v.say("%s of it at the upstream.", micros(float64(tried)))
	}
	return []Fact{told,
		{Name: "Took", Value: micros(float64(x.LatencyUS)), Text: spent},
		{Name: "Tries", Value: slo.Count(int64(len(x.Tries))), Text: v.endpointsWord(x)},
	}
}

func (l lang) endpointsWord(x *retrylog.Exchange) string {
	seen := map[string]bool{}
	for _, t := range x.Tries {
		seen[t.Endpoint] = true
	}
	if len(seen) == 0 {
		return l.say("It came to no endpoint.")
	}
	return l.say("At %s of %s.", l.count(len(seen), "endpoint", "endpoints"), cmp.Or(x.Upstream, l.say("its upstream")))
}

// waterfall places tries and waits on the time of the whole request. What is in
// neither is the gateway's own work, and the body of the answer.
func (page *requestView) waterfall(l lang, x *retrylog.Exchange) {
	var sum int64
	for _, t := range x.Tries {
		sum += t.WaitMS*1000 + t.LatencyUS
	}
	whole := max(sum, x.LatencyUS, 1)
	at := int64(0)
	share := func(us int64) string { return pos(100 * float64(us) / float64(whole)) }
	for i := range x.Tries {
		t := &x.Tries[i]
		row := FallRow{Name: l.say("Try %d", i+1), Endpoint: t.Endpoint, Took: micros(float64(t.LatencyUS)), Why: l.why(t.Reason, t.Skip), Reason: cmp.Or(t.Skip, t.Reason)}
		if t.Reason == "" && t.Skip == "" && tryFailed(t) {
			row.Why = l.storyOf(x)
		}
		if t.WaitMS > 0 {
			row.Wait, row.WaitX, row.WaitW = micros(float64(t.WaitMS)*1000), share(at), share(t.WaitMS*1000)
			at += t.WaitMS * 1000
		}
		row.X, row.W = share(at), share(max(t.LatencyUS, whole/200)) // a hair, so that it is seen
		at += t.LatencyUS
		row.Ended, row.Class, row.Mark = l.tryEnd(t)
		row.Label = l.say("%s at %s: %s in %s", row.Name, t.Endpoint, row.Ended, row.Took)
		if t.Fault != "" {
			row.Fault, row.FaultHref = t.Fault, runHref(cmp.Or(x.Experiment, t.Fault))
		}
		page.Falls = append(page.Falls, row)
	}
	if rest := x.LatencyUS - sum; rest > 0 {
		page.Rest = l.say("%s more went into the body of the answer and the gateway's own work.", micros(float64(rest)))
	}
	for i := range 5 {
		anchor := "middle"
		switch i {
		case 0:
			anchor = "start"
		case 4:
			anchor = "end"
		}
		page.X = append(page.X, Tick{At: pos(float64(i) * 25), Text: micros(float64(whole) * float64(i) / 4), Anchor: anchor, Wide: i == 1 || i == 3})
	}
}

func tryFailed(t *retrylog.Try) bool { return t.Kind != "" || t.Status >= 500 || t.Status == 0 }

// tryEnd is how a try ended: in words, as a colour and as a mark. What a drill did is
// violet, whatever it looked like to the client.
func (l lang) tryEnd(t *retrylog.Try) (text, class string, mark Chip) {
	text = l.word(spaced(t.Kind))
	if t.Status != 0 {
		text = fmt.Sprint(t.Status)
		if t.Kind != "" {
			text = l.say("%s, %s", text, l.word(spaced(t.Kind)))
		}
	}
	switch {
	case t.Fault != "":
		return text, "f-chaos", Chip{"fg-chaos", "s-chaos", text}
	case tryFailed(t):
		return text, "f-emergency", Chip{"fg-emergency", "s-emergency", text}
	case t.Status >= 400:
		return text, "f-warn", Chip{"fg-warn", "s-warn", text}
	}
	return text, "f-normal", Chip{"fg-normal", "s-normal", text}
}

func (l lang) requestFields(x *retrylog.Exchange) (out []Pair) {
	add := func(name, value, href string) {
		if value != "" {
			out = append(out, Pair{l.word(name), value, href})
		}
	}
	service := ""
	if x.Service != "" {
		service = serviceHref(x.Service)
	}
	add(phrase("Service"), x.Service, service)
	add(phrase("Route"), x.Route, "/requests?"+url.Values{"service": {x.Service}, "route": {x.Route}}.Encode())
	add(phrase("Upstream"), x.Upstream, "")
	add(phrase("Caller"), x.Caller, "")
	add(phrase("Tenant"), x.Tenant, "")
	add(phrase("Tier"), x.Tier, "")
	add(phrase("Environment"), x.Env, "")
	add(phrase("Gateway"), x.Gateway, "")
	add(phrase("Outcome"), l.word(spaced(string(x.Outcome))), "")
	add(phrase("Timeout"), x.Timeout, "")
	add(phrase("Refused by"), x.Refusal, "")
	add(phrase("Degraded"), spaced(x.Degraded), "")
	add(phrase("Would have"), x.Observed, "")
	if x.Experiment != "" {
		add(phrase("Experiment"), x.Experiment, runHref(x.Experiment))
	}
	add(phrase("Synthetic"), x.Synthetic, "")
	add(phrase("Business code"), x.BusinessCode, "")
	add("decision_reason", x.Reason, "")
	add("skip_reason", x.Skip, "")
	if x.Count > 1 {
		add(phrase("Stands for"), l.count(int(x.Count), "exchange", "exchanges"), "")
	}
	add(phrase("Configuration"), x.Revision, "")
	return out
}

// explainRow asks the engine about a captured exchange, under a revision.
func (s *Server) explainRow(ctx context.Context, v view, x *retrylog.Exchange, revision string) (*Explained, string) {
	e, err := s.engine(ctx, v.now, revision)
	switch {
	case errors.Is(err, errNoConfig):
		return nil, v.say("The configuration %s is not known any more: reports are kept for 7 days. The words above are those that the gateway wrote down when it decided.", revision)
	case err != nil:
		return nil, s.read(v, v.say("The configuration %s", revision), err)
	}
	sample, err := explain.FromEvent(x)
	if err != nil {
		return nil, asSentence(err.Error())
	}
	answer, err := e.Explain(sample)
	if err != nil {
		return nil, asSentence(err.Error())
	}
	answer.Compare(x)
	return v.explained(answer), ""
}

var errNoConfig = errors.New("no gateway reported it")

// engine is that of a revision that gateways reported.
func (s *Server) engine(ctx context.Context, now time.Time, revision string) (*explain.Engine, error) {
	e, _, err := s.engines.get(revision, now, func() (*explain.Engine, error) {
		text, err := s.cfg.Configs.Config(ctx, revision, now.Add(-request.Kept))
		if err != nil {
			return nil, err
		}
		if text == nil {
			return nil, errNoConfig
		}
		e, _, err := explain.FromEffective(text)
		return e, err
	})
	return e, err
}

func (l lang) explained(a explain.Answer) *Explained {
	out := &Explained{Revision: a.Revision, Notes: l.tellAll(a.Notes)}
	if a.Policy != nil {
		out.Policy = sentence(l.tell(a.Policy.Words()))
	}
	out.Answer = l.say("The client is told %d, made by the %s, after %s.", a.Status, l.word(string(a.Origin)), l.millis(a.TakesMS))
	if a.Degraded != "" {
		out.Answer = l.say("The client is told %d, made by the %s (%s), after %s.", a.Status, l.word(string(a.Origin)), spaced(a.Degraded), l.millis(a.TakesMS))
	}
	for n := range a.Tries {
		out.Tries = append(out.Tries, l.explainedTry(&a.Tries[n], n == len(a.Tries)-1))
	}
	return out
}

func (l lang) explainedTry(t *explain.Try, last bool) ExplainedTry {
	row := ExplainedTry{Name: l.say("Try %d", t.RetryNumber+1), Why: l.why(t.Reason, t.Skip)}
	row.Ends = l.say("%s in %s\u202fms", cmp.Or(l.word(spaced(t.Failure)), fmt.Sprint(t.Status)), slo.Count(t.LatencyMS))
	if t.RetryNumber > 0 {
		row.Ends = l.say("after a wait of %s: %s", l.millis(t.WaitMS), row.Ends)
	}
	switch {
	case t.Skip != "":
		row.Mark = Chip{"fg-emergency", "s-emergency", "no further try"}
	case !last:
		row.Mark = Chip{"fg-warn", "s-warn", "tried again"}
	default:
		row.Mark, row.Why = Chip{"fg-normal", "s-normal", "done"}, l.why("", "")
	}
	row.Steps = l.stepRows(t)
	if rec := t.Recorded; rec != nil && rec.Differs {
		row.Differs = true
		row.Recorded = l.text(l.say("The gateway decided otherwise when it happened."), l.why(rec.Reason, rec.Skip))
	}
	return row
}

// stepRows are the conditions one by one, and the gates: those that are open in one row.
func (l lang) stepRows(t *explain.Try) (rows []StepRow) {
	fired, shut := false, false
	var open []string
	for _, st := range t.Steps {
		row := StepRow{Head: l.tell(st.Head()), Words: l.tell(st.Words()), OK: st.OK}
		switch {
		case st.Role == "gate" && st.OK:
			open = append(open, l.word(spaced(st.Name)))
			continue
		case st.Role == "gate" && !shut:
			row.No, shut, row.Said = true, true, l.say("this one said no")
		case st.OK && !fired && (st.Role == "primary" || st.Role == "builtin"):
			fired, row.Said = true, l.say("this one fired")
		}
		rows = append(rows, row)
	}
	if len(open) > 0 {
		rows = append(rows, StepRow{Head: l.say("gates"), Words: l.say("open: %s", l.list(open...)), OK: true})
	}
	return rows
}

// millis writes a range of milliseconds.
func (l lang) millis(v [2]int64) string {
	if v[0] == v[1] {
		return slo.Count(v[0]) + "\u202fms"
	}
	return l.say("%s to %s\u202fms", slo.Count(v[0]), slo.Count(v[1]))
}

func trySheet(x *retrylog.Exchange) sheet {
	s := sheet{name: "tries", columns: []string{"try", "endpoint", "status", "kind", "latency_us", "wait_ms", "decision_reason", "skip_reason", "fault", "why"}}
	for i := range x.Tries {
		t := &x.Tries[i]
		s.rows = append(s.rows, []field{num(int64(i + 1)), txt(t.Endpoint), num(int64(t.Status)), txt(t.Kind), num(t.LatencyUS), num(t.WaitMS), txt(t.Reason), txt(t.Skip), txt(t.Fault),
			txt(explain.Why(t.Reason, t.Skip))})
	}
	return s
}
