package web

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"breakwater/gateway/explain"
	"breakwater/internal/auth"
	"breakwater/internal/retrylog"
	"breakwater/slo"
	"breakwater/slo/request"
)

// Configs is what pages need of the configurations that gateways reported.
type Configs interface {
	Configs(ctx context.Context, since time.Time, limit int) ([]request.Config, error) // newest first
	// Config is the effective values of a revision as JSON; nil: nobody reported it.
	Config(ctx context.Context, revision string, since time.Time) ([]byte, error)
}

// still keeps a page as it is: what somebody reads must not move away under them.
const still = "still"

type requestsView struct {
	Sub, Trouble, Wrong                        string
	Ranges                                     []Link
	Service, Route, Status, Reason, Outcome, R string
	From, To, ID                               string
	Services, Routes, Reasons                  []string
	Outcomes                                   []Offer
	Rows                                       []RequestRow
	Looked                                     string
	Counted                                    string
	Older, Newest                              string
	Further                                    bool // the search stopped at its reach, with rows still behind it
	Filtered                                   bool
	Take                                       Take
}

// Offer is one of a list to choose from.
type Offer struct {
	Value, Name string
	Here        bool
}

// RequestRow is one exchange in the list.
type RequestRow struct {
	Time                            Time
	ID, Href, Route, Of, OfHref     string
	Method, Caller                  string
	Mark                            Chip
	Status, What, Why, Tries, Count string
	Latency                         string
	Experiment, ExperimentHref      string
}

func requestHref(id string) string { return "/requests/" + url.PathEscape(id) }

func (s *Server) requests(w http.ResponseWriter, r *http.Request) {
	v, values := s.look(r), r.URL.Query()
	page := requestsView{Service: values.Get("service"), Route: values.Get("route"), Status: values.Get("status"), Reason: values.Get("reason"), Outcome: values.Get("outcome"),
		R: cmp.Or(values.Get("r"), "1h"), From: values.Get("from"), To: values.Get("to"), ID: strings.TrimSpace(values.Get("id")), Reasons: explain.Skips(), Take: take(r, "requests")}
	page.Filtered = page.Route+page.Status+page.Reason+page.Outcome != ""
	page.Ranges = v.requestRanges(values, page.R)
	q, err := request.Parse(values, v.now)
	status := http.StatusOK
	if err != nil {
		page.Wrong, status = asSentence(err.Error()), http.StatusBadRequest
		q = request.Query{}
	}
	if q = request.Scope(q, auth.From(r.Context()).Services); q.Service != "" && !s.cfg.Covers(r, q.Service) {
		s.trouble(w, v, http.StatusForbidden, "Not your service", v.say("Your token does not cover %s.", q.Service))
		return
	}
	page.Service = cmp.Or(page.Service, q.Service)
	for _, name := range request.Outcomes() {
		page.Outcomes = append(page.Outcomes, Offer{name, v.word(spaced(name)), name == page.Outcome})
	}
	for _, svc := range v.services {
		if s.cfg.Covers(r, svc.Name) {
			page.Services = append(page.Services, svc.Name)
		}
	}
	slices.Sort(page.Services)
	if err == nil {
		found, err := s.cfg.Requests.Requests(r.Context(), q)
		page.Trouble = s.read(v, "The log", err)
		found.Rows = slices.DeleteFunc(found.Rows, func(row request.Row) bool { return !s.coversRow(r, row.Exchange.Service) })
		if err == nil && s.exported(w, v, requestSheet(found.Rows)) {
			return
		}
		page.fill(v, values, q, found)
		if page.Trouble == "" && q.ID == "" {
			counted, err := s.cfg.Requests.Counted(r.Context(), q)
			if page.Trouble = s.read(v, "What was counted", err); err == nil {
				page.Counted = v.countedWords(q, counted)
			}
		}
	}
	s.show(w, v, status, "requests", Page{Title: "Requests", Topics: still, Crumbs: []Link{{Name: "Requests"}}}, page)
}

// coversRow: what came to no route belongs to nobody, and is for those who may see all.
func (s *Server) coversRow(r *http.Request, service string) bool {
	if service == "" {
		return len(auth.From(r.Context()).Services) == 0
	}
	return s.cfg.Covers(r, service)
}

func (page *requestsView) fill(v view, values url.Values, q request.Query, found request.Page) {
	routes := map[string]bool{}
	for i := range found.Rows {
		row := v.requestRow(&found.Rows[i].Exchange)
		page.Rows = append(page.Rows, row)
		if !routes[row.Route] {
			routes[row.Route] = true
			page.Routes = append(page.Routes, row.Route)
		}
	}
	slices.Sort(page.Routes)
	if !found.Next.At.IsZero() {
		page.Older, page.Further = requestsHref(values, "before", found.Next.String()), !found.Full
	}
	if !q.Before.At.IsZero() {
		page.Newest = requestsHref(values, "before", "")
	}
	switch {
	case q.ID != "":
		page.Sub = v.count(len(page.Rows), "row has this id.", "rows have this id.")
		return
	case page.Further:
		page.Looked = v.say("Looked through %s rows, back to %s; older ones stand behind the link.", slo.Count(found.Looked), v.day(found.Next.At).Text)
	}
	if q.From.IsZero() {
		return
	}
	rows := v.count(len(page.Rows), "row", "rows")
	if found.Full || !q.Before.At.IsZero() {
		rows = v.count(len(page.Rows), "row on this page", "rows on this page")
	}
	page.Sub = v.say("%s, newest first, from %s to %s.", rows, v.day(q.From).Text, v.short(q.To).Text)
}

// countedWords sets what has rows beside what was counted: without it an empty list
// would look like no traffic.
func (l lang) countedWords(q request.Query, c request.Counted) string {
	if !c.Known {
		return ""
	}
	text, n := "", slo.Count(c.Exchanges)
	switch one := c.Exchanges == 1; {
	case q.Route != "" && one:
		text = l.say("1 request on %s was counted in this range.", q.Route)
	case q.Route != "":
		text = l.say("%s requests on %s were counted in this range.", n, q.Route)
	case q.Service != "" && one:
		text = l.say("1 request of %s was counted in this range.", q.Service)
	case q.Service != "":
		text = l.say("%s requests of %s were counted in this range.", n, q.Service)
	default:
		text = l.count(int(c.Exchanges), "request was counted in this range.", "requests were counted in this range.")
	}
	if c.Unkept > 0 {
		text = l.text(text, l.say("%s more would have had a row and found no room (a batch keeps 500).", slo.Count(c.Unkept)))
	}
	return text
}

func requestsHref(values url.Values, key, value string) string {
	q := url.Values{}
	for _, k := range []string{"service", "route", "status", "reason", "outcome", "r", "from", "to", "before", "id"} {
		if t := values.Get(k); t != "" {
			q.Set(k, t)
		}
	}
	q.Del(key)
	if value != "" {
		q.Set(key, value)
	}
	return (&url.URL{Path: "/requests", RawQuery: q.Encode()}).String()
}

func (l lang) requestRanges(values url.Values, chosen string) (links []Link) {
	own := values.Get("from") != "" || values.Get("to") != ""
	rest := url.Values{}
	for k, list := range values {
		if k != "from" && k != "to" && k != "before" {
			rest[k] = list
		}
	}
	for _, r := range []struct{ key, name string }{{"15m", l.say("15\u202fmin")}, {"1h", l.say("1\u202fh")}, {"6h", l.say("6\u202fh")}, {"24h", l.say("24\u202fh")}, {"7d", l.say("7\u202fd")}} {
		links = append(links, Link{Name: r.name, Href: requestsHref(rest, "r", r.key), Here: !own && r.key == chosen})
	}
	return links
}

func (v view) requestRow(x *retrylog.Exchange) RequestRow {
	f := v.failure(*x)
	row := RequestRow{Time: v.short(x.End), ID: x.RequestID, Href: requestHref(x.RequestID), Route: x.Route, Of: x.Service, Method: x.Method, Caller: x.Caller,
		Mark: exchangeChip(x), Status: f.Status, What: f.What, Why: v.storyOf(x), Tries: f.Tries, Count: f.Count, Latency: micros(float64(x.LatencyUS)),
		Experiment: f.Experiment, ExperimentHref: f.ExperimentHref}
	if x.Service != "" {
		row.OfHref = serviceHref(x.Service)
	}
	return row
}

// exchangeChip is how an exchange ended: good, good thanks to a retry or a fallback, or how not.
func exchangeChip(x *retrylog.Exchange) Chip {
	switch {
	case x.Outcome == retrylog.OK && x.Degraded != "":
		return Chip{"warn", "s-warn", "degraded"}
	case x.Outcome == retrylog.OK && len(x.Tries) > 1:
		return Chip{"normal", "s-normal", "recovered"}
	case x.Outcome == retrylog.OK:
		return Chip{"normal", "s-normal", "ok"}
	case x.Outcome == retrylog.ClientAbort:
		return Chip{"unknown", "s-unknown", "client gone"}
	case x.Outcome == retrylog.LocalRefusal:
		return Chip{"warn", "s-warn", "refused"}
	case x.Outcome == retrylog.Timeout:
		return Chip{"emergency", "s-emergency", "timeout"}
	}
	return Chip{"emergency", "s-emergency", "failed"}
}

func requestSheet(rows []request.Row) sheet {
	s := sheet{name: "requests", columns: []string{"at", "request_id", "gateway", "env", "service", "route", "upstream", "method", "caller", "status", "outcome", "tries",
		"decision_reason", "skip_reason", "latency_us", "retry_wait_ms", "experiment", "degraded", "refusal", "config_revision", "why"}}
	for i := range rows {
		x := &rows[i].Exchange
		s.rows = append(s.rows, []field{instant(x.End), txt(x.RequestID), txt(x.Gateway), txt(x.Env), txt(x.Service), txt(x.Route), txt(x.Upstream), txt(x.Method), txt(x.Caller),
			num(int64(x.Status)), txt(string(x.Outcome)), num(int64(len(x.Tries))), txt(x.Reason), txt(x.Skip), num(x.LatencyUS), num(x.RetryWaitMS), txt(x.Experiment), txt(x.Degraded),
			txt(x.Refusal), txt(x.Revision), txt(explain.Story(x))})
	}
	return s
}
