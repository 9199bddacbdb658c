package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
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
		s.trouble(w, v, http.StatusNotFound, "No request "+short(id, 60), "No row has this id. A plain success leaves none of its own; rows of others are kept for 7 days, and one can come up to a few seconds after the request.")
		return
	}
	x := &mine[0].Exchange
	for i := range mine {
		if mine[i].Gateway == r.URL.Query().Get("gateway") {
			x = &mine[i].Exchange
		}
	}
	page := requestView{ID: x.RequestID, Chip: exchangeChip(x), Story: explain.Story(x), Take: take(r, "tries"),
		SimHref: "/simulator?" + url.Values{"event": {x.RequestID}}.Encode(), EventHref: "/api/v1/events/" + url.PathEscape(x.RequestID)}
	page.Sub = fmt.Sprintf("%s on %s, at %s, %s", cmp.Or(x.Method, "a request"), x.Route, x.Gateway, v.day(x.End).Text)
	if s.exported(w, v, trySheet(x)) {
		return
	}
	page.Facts = v.requestFacts(x)
	page.waterfall(x)
	page.Fields = requestFields(x)
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
	s.show(w, v, http.StatusOK, "request", Page{Title: "Request " + short(x.RequestID, 40), Topics: still, Crumbs: []Link{{Name: "Requests", Href: "/requests"}, {Name: short(x.RequestID, 40)}}}, page)
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
	told := Fact{Name: "The client was told", Value: "nothing", Class: "mute", Text: "No answer was sent."}
	if x.Status != 0 {
		told = Fact{Name: "The client was told", Value: fmt.Sprint(x.Status), Text: http.StatusText(x.Status) + ", made by the " + cmp.Or(x.Origin, "gateway") + "."}
		if x.Status >= 500 {
			told.Class = "fg-emergency"
		}
	}
	if x.Degraded != "" {
		told.Text = "Made by the fallback " + spaced(x.Degraded) + "."
	}
	var tried int64
	for _, t := range x.Tries {
		tried += t.LatencyUS
	}
	spent := micros(float64(tried)) + " of it in tries, " + micros(float64(x.RetryWaitMS)*1000) + " waiting between them."
	switch {
	case len(x.Tries) == 0:
		spent = "All of it at the gateway."
	case x.RetryWaitMS == 0:
		spent = micros(float64(tried)) + " of it at the upstream."
	}
	return []Fact{told,
		{Name: "Took", Value: micros(float64(x.LatencyUS)), Text: spent},
		{Name: "Tries", Value: slo.Count(int64(len(x.Tries))), Text: endpointsWord(x)},
	}
}

func endpointsWord(x *retrylog.Exchange) string {
	seen := map[string]bool{}
	for _, t := range x.Tries {
		seen[t.Endpoint] = true
	}
	if len(seen) == 0 {
		return "It came to no endpoint."
	}
	return "At " + plural(len(seen), "endpoint", "endpoints") + " of " + cmp.Or(x.Upstream, "its upstream") + "."
}

// waterfall places tries and waits on the time of the whole request. What is in
// neither is the gateway's own work, and the body of the answer.
func (page *requestView) waterfall(x *retrylog.Exchange) {
	var sum int64
	for _, t := range x.Tries {
		sum += t.WaitMS*1000 + t.LatencyUS
	}
	whole := max(sum, x.LatencyUS, 1)
	at := int64(0)
	share := func(us int64) string { return pos(100 * float64(us) / float64(whole)) }
	for i := range x.Tries {
		t := &x.Tries[i]
		row := FallRow{Name: "Try " + fmt.Sprint(i+1), Endpoint: t.Endpoint, Took: micros(float64(t.LatencyUS)), Why: explain.Why(t.Reason, t.Skip), Reason: cmp.Or(t.Skip, t.Reason)}
		if t.Reason == "" && t.Skip == "" && tryFailed(t) {
			row.Why = explain.Story(x)
		}
		if t.WaitMS > 0 {
			row.Wait, row.WaitX, row.WaitW = micros(float64(t.WaitMS)*1000), share(at), share(t.WaitMS*1000)
			at += t.WaitMS * 1000
		}
		row.X, row.W = share(at), share(max(t.LatencyUS, whole/200)) // a hair, so that it is seen
		at += t.LatencyUS
		row.Ended, row.Class, row.Mark = tryEnd(t)
		row.Label = row.Name + " at " + t.Endpoint + ": " + row.Ended + " in " + row.Took
		if t.Fault != "" {
			row.Fault, row.FaultHref = t.Fault, runHref(cmp.Or(x.Experiment, t.Fault))
		}
		page.Falls = append(page.Falls, row)
	}
	if rest := x.LatencyUS - sum; rest > 0 {
		page.Rest = micros(float64(rest)) + " more went into the body of the answer and the gateway's own work."
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
func tryEnd(t *retrylog.Try) (text, class string, mark Chip) {
	text = spaced(t.Kind)
	if t.Status != 0 {
		text = fmt.Sprint(t.Status)
		if t.Kind != "" {
			text += ", " + spaced(t.Kind)
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

func requestFields(x *retrylog.Exchange) (out []Pair) {
	add := func(name, value, href string) {
		if value != "" {
			out = append(out, Pair{name, value, href})
		}
	}
	service := ""
	if x.Service != "" {
		service = serviceHref(x.Service)
	}
	add("Service", x.Service, service)
	add("Route", x.Route, "/requests?"+url.Values{"service": {x.Service}, "route": {x.Route}}.Encode())
	add("Upstream", x.Upstream, "")
	add("Caller", x.Caller, "")
	add("Tenant", x.Tenant, "")
	add("Tier", x.Tier, "")
	add("Environment", x.Env, "")
	add("Gateway", x.Gateway, "")
	add("Outcome", spaced(string(x.Outcome)), "")
	add("Timeout", x.Timeout, "")
	add("Refused by", x.Refusal, "")
	add("Degraded", spaced(x.Degraded), "")
	add("Would have", x.Observed, "")
	if x.Experiment != "" {
		add("Experiment", x.Experiment, runHref(x.Experiment))
	}
	add("Synthetic", x.Synthetic, "")
	add("Business code", x.BusinessCode, "")
	add("decision_reason", x.Reason, "")
	add("skip_reason", x.Skip, "")
	if x.Count > 1 {
		add("Stands for", plural(int(x.Count), "exchange", "exchanges"), "")
	}
	add("Configuration", x.Revision, "")
	return out
}

// explainRow asks the engine about a captured exchange, under a revision.
func (s *Server) explainRow(ctx context.Context, v view, x *retrylog.Exchange, revision string) (*Explained, string) {
	e, err := s.engine(ctx, v.now, revision)
	switch {
	case errors.Is(err, errNoConfig):
		return nil, "The configuration " + revision + " is not known any more: reports are kept for 7 days. The words above are those that the gateway wrote down when it decided."
	case err != nil:
		return nil, s.read(v, "The configuration "+revision, err)
	}
	sample, err := explain.FromEvent(x)
	if err != nil {
		return nil, sentenceCase(err.Error()) + "."
	}
	answer, err := e.Explain(sample)
	if err != nil {
		return nil, sentenceCase(err.Error()) + "."
	}
	answer.Compare(x)
	return explained(answer), ""
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

func explained(a explain.Answer) *Explained {
	out := &Explained{Revision: a.Revision, Notes: a.Notes}
	if a.Policy != nil {
		out.Policy = sentenceCase(a.Policy.Words()) + "."
	}
	out.Answer = fmt.Sprintf("The client is told %d, made by the %s", a.Status, a.Origin)
	if a.Degraded != "" {
		out.Answer += " (" + spaced(a.Degraded) + ")"
	}
	out.Answer += ", after " + millis(a.TakesMS) + "."
	for n := range a.Tries {
		out.Tries = append(out.Tries, explainedTry(&a.Tries[n], n == len(a.Tries)-1))
	}
	return out
}

func explainedTry(t *explain.Try, last bool) ExplainedTry {
	row := ExplainedTry{Name: fmt.Sprintf("Try %d", t.RetryNumber+1), Why: explain.Why(t.Reason, t.Skip)}
	row.Ends = cmp.Or(spaced(t.Failure), fmt.Sprint(t.Status)) + " in " + slo.Count(t.LatencyMS) + "\u202fms"
	if t.RetryNumber > 0 {
		row.Ends = "after a wait of " + millis(t.WaitMS) + ": " + row.Ends
	}
	switch {
	case t.Skip != "":
		row.Mark = Chip{"fg-emergency", "s-emergency", "no further try"}
	case !last:
		row.Mark = Chip{"fg-warn", "s-warn", "tried again"}
	default:
		row.Mark, row.Why = Chip{"fg-normal", "s-normal", "done"}, explain.Why("", "")
	}
	row.Steps = stepRows(t)
	if rec := t.Recorded; rec != nil && rec.Differs {
		row.Differs = true
		row.Recorded = "The gateway decided otherwise when it happened. " + explain.Why(rec.Reason, rec.Skip)
	}
	return row
}

// stepRows are the conditions one by one, and the gates: those that are open in one row.
func stepRows(t *explain.Try) (rows []StepRow) {
	fired, shut := false, false
	var open []string
	for _, st := range t.Steps {
		row := StepRow{Head: st.Head(), Words: st.Words(), OK: st.OK}
		switch {
		case st.Role == "gate" && st.OK:
			open = append(open, spaced(st.Name))
			continue
		case st.Role == "gate" && !shut:
			row.No, shut, row.Said = true, true, "this one said no"
		case st.OK && !fired && (st.Role == "primary" || st.Role == "builtin"):
			fired, row.Said = true, "this one fired"
		}
		rows = append(rows, row)
	}
	if len(open) > 0 {
		rows = append(rows, StepRow{Head: "gates", Words: "open: " + strings.Join(open, ", "), OK: true})
	}
	return rows
}

// millis writes a range of milliseconds.
func millis(v [2]int64) string {
	if v[0] == v[1] {
		return slo.Count(v[0]) + "\u202fms"
	}
	return slo.Count(v[0]) + " to " + slo.Count(v[1]) + "\u202fms"
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
