package web

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"breakwater/gateway/explain"
	"breakwater/internal/conf"
	"breakwater/internal/retrylog"
	"breakwater/slo"
	"breakwater/slo/request"
)

// Bounds of the simulator. What is pasted is read, answered and forgotten.
const (
	maxSimulated = 512 << 10 // of a form: documents, an answer, fields
	mostTries    = 6
	mostCompared = 1_000 // rows of the last hour
	pasted       = "pasted"
	pastedFile   = "pasted.yaml"
)

type simulatorView struct {
	View                   string // decide or compare
	Tabs                   []Link
	Wrong, Trouble         string
	Mistakes               []string // of pasted documents, at line:col
	Configs                []Offer
	Pasted                 string
	Documents              bool // pasted documents are what is asked
	NoConfig               bool
	Routes                 []Offer
	Path, Method           string
	Fields, Answer         string
	Failures               []Offer
	Attempt, Took          string
	BodyBytes              string
	Event, EventHref       string
	Result                 *Explained
	Decision               *Ruling
	Was, Now               []Offer
	Service                string
	Services               []string
	Replay                 *ReplayView
	ComparedAt, ComparedOf string
}

// Ruling is the answer in one line.
type Ruling struct {
	Mark       Chip
	Text, Rule string
	Route      string
}

func (s *Server) simulator(w http.ResponseWriter, r *http.Request) {
	v, q := s.look(r), r.URL.Query()
	page := s.simulatorPage(r, v, q)
	status := http.StatusOK
	if id := q.Get("event"); id != "" && page.View == "decide" {
		status = s.simulateRow(r, v, id, &page)
	}
	s.showSimulator(w, v, status, page)
}

func (s *Server) showSimulator(w http.ResponseWriter, v view, status int, page simulatorView) {
	s.show(w, v, status, "simulator", Page{Title: "Simulator", Topics: still, Crumbs: []Link{{Name: "Simulator"}}}, page)
}

// simulatorPage is the page with its forms as they were sent.
func (s *Server) simulatorPage(r *http.Request, v view, q url.Values) simulatorView {
	page := simulatorView{View: "decide", Path: q.Get("path"), Method: cmp.Or(q.Get("method"), "GET"), Fields: q.Get("fields"), Answer: q.Get("answer"), Pasted: q.Get("documents"),
		Attempt: cmp.Or(q.Get("attempt"), "1"), Took: cmp.Or(q.Get("took"), "20"), BodyBytes: cmp.Or(q.Get("body_bytes"), "0"), Service: q.Get("service")}
	if q.Get("view") == "compare" {
		page.View = "compare"
	}
	if page.Answer == "" && q.Get("failure") == "" {
		page.Answer = "HTTP/1.1 503 Service Unavailable\nRetry-After: 1\n\n"
	}
	page.Tabs = []Link{{Name: "One answer", Href: "/simulator", Here: page.View == "decide"}, {Name: "Two configurations", Href: "/simulator?view=compare", Here: page.View == "compare"}}
	for _, svc := range v.services {
		if s.cfg.Covers(r, svc.Name) {
			page.Services = append(page.Services, svc.Name)
		}
	}
	slices.Sort(page.Services)
	revisions, err := s.revisions(r, v.now)
	page.Trouble = s.read(v, "The configurations", err)
	page.NoConfig = err == nil && len(revisions) == 0
	page.Configs = choices(v, revisions, cmp.Or(q.Get("config"), serving(revisions)), true)
	page.Was = choices(v, revisions, cmp.Or(q.Get("was"), serving(revisions)), false)
	page.Now = choices(v, revisions, cmp.Or(q.Get("now"), pasted), true)
	page.Documents = q.Get("config") == pasted || page.NoConfig
	for _, f := range append([]string{""}, explain.Kinds()...) {
		page.Failures = append(page.Failures, Offer{f, cmp.Or(v.word(spaced(f)), v.say("none: an answer came")), f == q.Get("failure")})
	}
	s.routeChoices(r, v, &page, q)
	return page
}

// revisions are those that gateways served within the week, the newest first.
func (s *Server) revisions(r *http.Request, now time.Time) ([]request.Revision, error) {
	reports, err := s.cfg.Configs.Configs(r.Context(), now.Add(-request.Kept), 1000)
	if err != nil {
		return nil, err
	}
	all, _ := request.Revisions(reports)
	return slices.DeleteFunc(all, func(c request.Revision) bool { return !c.Whole }), nil
}

// serving is the newest revision that is in force somewhere.
func serving(all []request.Revision) string {
	for _, c := range all {
		if len(c.Serving) > 0 {
			return c.Name
		}
	}
	return ""
}

func choices(v view, all []request.Revision, chosen string, own bool) (out []Offer) {
	for _, c := range all {
		where := v.list(c.Serving[:min(3, len(c.Serving))]...)
		name := v.say("%s, %s, now at %s", c.Name, c.Env, where)
		if n := len(c.Serving) - 3; n > 0 {
			name = v.say("%s, %s, now at %s and %s more", c.Name, c.Env, where, slo.Count(int64(n)))
		}
		if len(c.Serving) == 0 {
			name = v.say("%s, %s, last reported %s", c.Name, c.Env, v.day(c.Last).Text)
		}
		out = append(out, Offer{c.Name, name, c.Name == chosen})
	}
	if own {
		out = append(out, Offer{pasted, v.say("the documents pasted below"), chosen == pasted || len(all) == 0})
	}
	return out
}

// routeChoices offers the routes of the configuration that is chosen, as far as the
// reader's services go.
func (s *Server) routeChoices(r *http.Request, v view, page *simulatorView, q url.Values) {
	page.Routes = []Offer{{"", v.say("by its path"), q.Get("route") == ""}}
	for _, c := range page.Configs {
		if !c.Here || c.Value == pasted {
			continue
		}
		e, err := s.engine(r.Context(), v.now, c.Value)
		if err != nil {
			continue // told where it is asked
		}
		for _, route := range e.Routes() {
			if s.coversRow(r, route.Service) {
				page.Routes = append(page.Routes, Offer{route.Name, route.Name + " (" + route.Path + ")", route.Name == q.Get("route")})
			}
		}
	}
}

// simulateRow puts a captured exchange into the page, and says what the chosen
// configuration makes of it.
func (s *Server) simulateRow(r *http.Request, v view, id string, page *simulatorView) int {
	rows, err := s.cfg.Requests.Request(r.Context(), id)
	if err != nil {
		page.Trouble = s.read(v, "The row of this request", err)
		return http.StatusServiceUnavailable
	}
	rows = slices.DeleteFunc(rows, func(row request.Row) bool { return !s.coversRow(r, row.Exchange.Service) })
	if len(rows) == 0 {
		page.Wrong = v.say("No row has the id %s: a plain success leaves none, and others are kept for 7 days.", short(id, 60))
		return http.StatusNotFound
	}
	x := &rows[0].Exchange
	page.Event, page.EventHref, page.Method = x.RequestID, requestHref(x.RequestID), cmp.Or(x.Method, "GET")
	for i := range page.Routes {
		page.Routes[i].Here = page.Routes[i].Value == x.Route
	}
	if len(x.Tries) > 0 { // the form begins with the first try, to be changed
		t := &x.Tries[0]
		page.Took, page.Answer = strconv.FormatInt(t.LatencyUS/1000, 10), ""
		if t.Status != 0 {
			page.Answer = answerText(x)
		}
		for i := range page.Failures {
			page.Failures[i].Here = t.Status == 0 && page.Failures[i].Value == t.Kind || t.Status != 0 && i == 0
		}
	}
	chosen := ""
	for _, c := range page.Configs {
		if c.Here {
			chosen = c.Value
		}
	}
	if page.Result, page.Wrong = s.explainRow(r.Context(), v, x, chosen); page.Result != nil {
		page.Decision = &Ruling{Route: x.Route, Text: v.storyOf(x), Mark: markOf(exchangeChip(x))}
	}
	return http.StatusOK
}

// markOf is a chip without its pill.
func markOf(c Chip) Chip { return Chip{"fg-" + c.Class, c.Icon, c.Text} }

// answerText is the first answer of an exchange as it would be pasted, with the fields
// that were a reason for something: of others the log keeps nothing.
func answerText(x *retrylog.Exchange) string {
	text := fmt.Sprintf("HTTP/1.1 %d %s\n", x.Tries[0].Status, http.StatusText(x.Tries[0].Status))
	s, err := explain.FromEvent(x)
	if err != nil || len(s.Answers) == 0 {
		return text
	}
	for _, f := range s.Answers[0].Headers.Head().Fields() {
		text += f.Name + ": " + f.Value + "\n"
	}
	return text
}

// simulate answers one form of the simulator. It stores nothing.
func (s *Server) simulate(w http.ResponseWriter, r *http.Request) {
	if !s.simulated(w, r) {
		return
	}
	v := s.look(r)
	page := s.simulatorPage(r, v, r.PostForm)
	e, ok := s.chosen(v, &page, r.PostFormValue("config"))
	if !ok {
		s.showSimulator(w, v, http.StatusUnprocessableEntity, page)
		return
	}
	sample, attempt, err := v.sampleOf(r.PostForm)
	if err == nil {
		err = s.decide(v, e, sample, attempt, &page)
	}
	status := http.StatusOK
	if err != nil {
		page.Wrong, status = asSentence(strings.TrimPrefix(err.Error(), "sample: ")), http.StatusUnprocessableEntity
	}
	s.showSimulator(w, v, status, page)
}

// simulated reads the form; false: it was answered.
func (s *Server) simulated(w http.ResponseWriter, r *http.Request) bool {
	r.Body = http.MaxBytesReader(w, r.Body, maxSimulated)
	err := r.ParseForm()
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		s.trouble(w, s.look(r), http.StatusRequestEntityTooLarge, "Too much was pasted", s.lang(r).say("At most %d KiB can be sent in all.", maxSimulated>>10))
		return false
	}
	if err != nil {
		s.trouble(w, s.look(r), http.StatusBadRequest, "The form cannot be read", "Send it once more from the page of the simulator.")
		return false
	}
	return true
}

// chosen is the engine of a revision, or of the documents that were pasted, whose
// mistakes are shown.
func (s *Server) chosen(v view, page *simulatorView, config string) (*explain.Engine, bool) {
	if config != pasted && config != "" {
		e, err := s.engine(v.r.Context(), v.now, config)
		switch {
		case errors.Is(err, errNoConfig):
			page.Wrong = v.say("No gateway reported the configuration %s within 7 days.", short(config, 40))
		case err != nil:
			page.Wrong = s.read(v, v.say("The configuration %s", short(config, 40)), err)
		}
		return e, err == nil
	}
	e, report := explain.FromFiles([]conf.File{{Name: pastedFile, Data: []byte(page.Pasted)}})
	for _, m := range report.Findings {
		if !m.IsWarning || e != nil {
			page.Mistakes = append(page.Mistakes, m.Error())
		}
	}
	if e == nil {
		page.Wrong = v.say("%s in the pasted documents.", v.count(report.Errors, "mistake", "mistakes"))
	}
	return e, e != nil
}

// sampleOf reads the form of one answer.
func (v view) sampleOf(f url.Values) (s explain.Sample, attempt int, err error) {
	number := func(key, name string, otherwise string, least, most int64) int64 {
		n, bad := strconv.ParseInt(strings.TrimSpace(cmp.Or(f.Get(key), otherwise)), 10, 64)
		if (bad != nil || n < least || n > most) && err == nil {
			err = errors.New(v.say("%s must be a whole number from %d to %d, got %q", name, least, most, short(f.Get(key), 20)))
		}
		return n
	}
	attempt = int(number("attempt", v.say("the number of the try"), "1", 1, mostTries))
	took := number("took", v.say("the time of the try"), "0", 0, 3_600_000)
	s = explain.Sample{Route: f.Get("route"), Path: strings.TrimSpace(f.Get("path")), Method: strings.ToUpper(strings.TrimSpace(cmp.Or(f.Get("method"), "GET"))), BodyBytes: number("body_bytes", v.say("the length of the body"), "0", -1, 1<<40), At: v.now}
	if err != nil {
		return s, attempt, err
	}
	if s.Route == "" && s.Path == "" {
		return s, attempt, errors.New(v.say("choose a route, or give the path of the request"))
	}
	if s.Headers, err = explain.ParseFields(f.Get("fields")); err != nil {
		return s, attempt, err
	}
	reply := explain.Reply{Failure: f.Get("failure")}
	if reply.Failure == "" {
		if reply, err = explain.ParseReply(f.Get("answer")); err != nil {
			return s, attempt, err
		}
	}
	reply.LatencyMS = took
	for range attempt { // the tries before it ended alike
		s.Answers = append(s.Answers, reply)
	}
	return s, attempt, nil
}

// decide asks the engine, and takes out what it decided after the try in question.
func (s *Server) decide(v view, e *explain.Engine, sample explain.Sample, attempt int, page *simulatorView) error {
	a, err := e.Explain(sample)
	if err != nil {
		return err
	}
	if a.Service != "" && !s.coversRow(v.r, a.Service) {
		return errors.New(v.say("that request goes to a service that your token does not cover"))
	}
	page.Result = v.explained(a)
	d := &Ruling{Route: a.Route}
	page.Decision = d
	if len(a.Tries) == 0 {
		d.Mark, d.Text = Chip{"fg-warn", "s-warn", "not sent"}, v.say("Not sent: the client is told %d by the gateway.", a.Status)
		if a.Route == "unmatched" {
			d.Text = v.say("No route takes this request: the client is told %d.", a.Status)
		}
		return nil
	}
	n := min(attempt, len(a.Tries))
	t := &a.Tries[n-1]
	d.Text = v.why(t.Reason, t.Skip)
	switch {
	case n < attempt:
		d.Mark, d.Text = Chip{"fg-unknown", "s-unknown", "never made"}, v.text(v.say("Try %d is never made: after try %d it is over.", attempt, n), d.Text)
	case t.Skip != "":
		d.Mark = Chip{"fg-emergency", "s-emergency", "not tried again"}
	case n < len(a.Tries):
		d.Mark = Chip{"fg-warn", "s-warn", "tried again"}
		d.Text = v.say("%s, after a wait of %s.", strings.TrimSuffix(strings.TrimSuffix(d.Text, "."), "。"), v.millis(a.Tries[n].WaitMS))
	default:
		d.Mark = Chip{"fg-normal", "s-normal", "done"}
	}
	for _, st := range page.Result.Tries[n-1].Steps {
		if st.Said != "" {
			d.Rule = v.say("%s, %s", st.Head, st.Words)
		}
	}
	page.Result.Tries = page.Result.Tries[n-1 : n]
	return nil
}
